use super::*;
use crate::action::Action;
use crate::controls::{Align, Top};
use crate::look::EventRow;
use magscope_core::Batch;
use magscope_core::node::{Backend, Coverage, NetnsName, Service};
use magscope_core::{
    Change, DetailKind, Direction, Event, ExtentKind, Flow, FlowId, Hop, HopCount, Loss, LossCause, Verdict,
};

const MS: u64 = 1_000_000;

const HOPS: [Hop; 6] = [Hop::AppSend, Hop::TcpSend, Hop::DevXmit, Hop::DevRecv, Hop::SockReady, Hop::AppRecv];

pub(super) fn info() -> NodeInfo {
    let mut coverage = Coverage::full(Backend::Generator);
    for row in &mut coverage.hops {
        if row.hop == Hop::IpPre {
            row.service = Service::Missing { because: "no fentry".to_owned() };
        } else if row.hop.rank().is_some() && !HOPS.contains(&row.hop) {
            row.service = Service::Off;
        }
    }
    let name = |netns, name: &str| NetnsName { netns, name: name.to_owned() };
    NodeInfo { netns: vec![name(1, "client"), name(2, "server")], coverage, ..NodeInfo::default() }
}

pub(super) fn flows() -> Vec<Flow> {
    let flow = |id, netns, local: &str, remote: &str| Flow {
        id: FlowId(id),
        netns,
        proto: Proto::TCP,
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
    };
    vec![flow(1, 1, "10.0.0.1:1000", "10.0.0.2:80"), flow(2, 2, "10.0.0.2:80", "10.0.0.1:1000")]
}

/// Message `n` of 100 bytes from the client to the server, sent at `at`; the last step takes `read_ns`.
pub(super) fn message(n: u32, at: u64, read_ns: u64) -> Vec<Event> {
    let times = [at, at + 1_000, at + 3_000, at + 13_000, at + 15_000, at + 15_000 + read_ns];
    let event = |(hop, time): (&Hop, u64)| {
        let end = if hop.direction() == Direction::Rx { 2 } else { 1 };
        let ready = *hop == Hop::SockReady;
        let seq = 1000 + n * 100 + if ready { 100 } else { 0 };
        let len = if ready { 0 } else { 100 };
        Event {
            flow: FlowId(end),
            socket: end,
            extent: ExtentKind::Stream.of(seq),
            len,
            segs: 1,
            ..Event::at(*hop, time)
        }
    };
    HOPS.iter().zip(times).map(event).collect()
}

pub(super) fn feed(scope: &mut Scope, mut events: Vec<Event>, watermark_ns: u64) {
    events.sort_by_key(|event| event.time_ns);
    scope.ingest(&Batch { events, flows: flows(), watermark_ns, ..Batch::default() });
}

/// Two seconds of a message every 10 ms; number 90 is read 5 ms late.
pub(super) fn busy() -> Scope {
    let mut scope = Scope::new(info(), Options::default());
    for n in 0..200_u32 {
        let at = u64::from(n) * 10 * MS;
        feed(&mut scope, message(n, at, if n == 90 { 5 * MS } else { 2_000 }), at + 9 * MS);
    }
    scope
}

#[test]
fn rates_of_a_sampled_capture_are_of_all_there_was_and_say_so() {
    let mut scope = busy();
    let count = |hop, recorded, sampled| HopCount {
        time_ns: 0,
        hop,
        kept: recorded,
        filtered: 0,
        undecided: 0,
        sampled,
        synthesised: 0,
    };
    let counts = vec![count(Hop::DevRecv, 200, 600), count(Hop::DevXmit, 200, 0)];
    scope.ingest(&Batch { counts, watermark_ns: 1_991 * MS, ..Batch::default() });
    scope.end();
    let frame = scope.frame();
    let lane = |hop| frame.lanes.iter().find(|lane| lane.hop() == Some(hop)).unwrap().stats.unwrap();
    let (recv, xmit) = (lane(Hop::DevRecv), lane(Hop::DevXmit));
    assert_eq!((recv.estimated, xmit.estimated), (true, false));
    assert!((recv.events_per_s / xmit.events_per_s - 4.0).abs() < 0.2, "{recv:?} {xmit:?}");
    assert!((recv.bytes_per_s.unwrap() / xmit.bytes_per_s.unwrap() - 4.0).abs() < 0.2);
    assert_eq!((frame.footer.journeys_per_s.is_some(), frame.footer.journeys_estimated), (true, false));

    let sampled = |setting: &str| {
        let mut scope =
            Scope::new(NodeInfo { settings: vec![setting.to_owned()], ..info() }, Options::default());
        for n in 0..200_u32 {
            let at = u64::from(n) * 10 * MS;
            feed(&mut scope, message(n, at, 2_000), at + 9 * MS);
        }
        (scope.frame().footer.journeys_per_s, scope.frame().footer.journeys_estimated)
    };
    let (whole, _) = sampled("watermark screen");
    let (flows, estimated) = sampled("sample flows 1/16");
    assert!(estimated && (flows.unwrap() / whole.unwrap() - 16.0).abs() < 0.01, "{flows:?} {whole:?}");
    assert_eq!(sampled("sample 1/10 dev.recv"), (None, false), "nobody knows of how many a part was seen");
}

#[test]
fn rates_latencies_and_the_slowest_come_from_events() {
    let mut scope = busy();
    scope.end();
    let frame = scope.frame();
    let lane = |hop| frame.lanes.iter().find(|lane| lane.hop() == Some(hop)).unwrap();
    let recv = lane(Hop::DevRecv).stats.unwrap();
    assert!((recv.events_per_s - 100.0).abs() < 25.0, "{recv:?}");
    let latency = recv.latency.unwrap();
    assert_eq!((latency.from, latency.n), (Some(Hop::DevXmit), 200));
    assert!((9_900..=10_100).contains(&latency.p50_ns));
    let slow = &frame.table[0];
    assert!(slow.anchor || frame.sweep.anchor.is_some());
    assert_eq!(slow.line.total_ns(), 15_000 + 5 * MS);
    assert_eq!(slow.blame, Some(("waiting for the reader".to_owned(), 5 * MS)));
    assert_eq!((frame.footer.counts.journeys, frame.footer.counts.missed_events), (200, 0));
    assert_eq!(frame.header.nodes, "client ↔ server");
    assert_eq!(frame.header.state, State::Ended);
}

fn change(at_ns: u64, what: &str) -> Batch {
    let change = Change { from_ns: at_ns - 1, to_ns: at_ns, what: what.to_owned() };
    Batch { changes: vec![change], watermark_ns: at_ns + 600 * MS, ..Batch::default() }
}

/// States of a hop in the picture and in the view of hops.
fn states(scope: &Scope, hop: Hop) -> (HopState, HopState) {
    let lane = scope.lanes.iter().find(|lane| lane.hop() == Some(hop)).unwrap();
    let rows = scope.losses().hops;
    (lane.state.clone(), rows.into_iter().find(|row| row.hop == hop).unwrap().state)
}

#[test]
fn a_hop_has_the_state_of_the_last_change() {
    let mut scope = busy();
    let at_ns = scope.now_ns + 1;
    scope.ingest(&change(at_ns, "disable dev.recv"));
    assert_eq!(states(&scope, Hop::DevRecv), (HopState::SwitchedOff, HopState::SwitchedOff));
    let journey = scope.memory.all().next().unwrap().journey.clone();
    let is_served = |at_ns| scope.names.served(&journey, at_ns).contains(Hop::DevRecv);
    assert_eq!([is_served(at_ns - 1), is_served(at_ns)], [true, false]);
    scope.ingest(&change(at_ns + 1_000 * MS, "enable dev.recv,dev.queue"));
    assert!(states(&scope, Hop::DevRecv).0.is_on() && states(&scope, Hop::DevRecv).1.is_on());
    assert_eq!(states(&scope, Hop::DevQueue), (HopState::SwitchedOn, HopState::SwitchedOn));
}

#[test]
fn what_is_not_measured_is_not_zero() {
    let scope = busy();
    let frame = scope.frame();
    let lane = |hop| frame.lanes.iter().find(|lane| lane.hop() == Some(hop)).unwrap();
    let missing = Service::Missing { because: "no fentry".to_owned() };
    assert_eq!(lane(Hop::IpPre).state, HopState::AsStarted(missing));
    assert_eq!((lane(Hop::IpPre).stats, lane(Hop::TaskRun).stats), (None, None));
    assert_eq!(lane(Hop::AppSend).stats.unwrap().latency, None);
    assert_eq!(Scope::new(info(), Options::default()).frame().lanes[0].stats, None);
}

#[test]
fn a_pause_stops_the_picture_and_not_the_counts() {
    let mut scope = busy();
    scope.apply(Action::TogglePause);
    let (lanes, lines) = (scope.lanes.clone(), scope.sweep.lifelines.clone());
    for n in 200..400_u32 {
        let at = u64::from(n) * 10 * MS;
        feed(&mut scope, message(n, at, 9 * MS), at + 9 * MS);
    }
    assert_eq!((&scope.lanes, &scope.sweep.lifelines), (&lanes, &lines));
    assert!(scope.frame().footer.counts.journeys > 390);
    scope.apply(Action::TogglePause);
    assert_ne!(scope.lanes, lanes);
}

#[test]
fn a_loss_shows_at_once_and_stays() {
    let mut scope = busy();
    let before = scope.revision();
    let loss = Loss { cpu: 0, from_ns: 1, to_ns: 2, count: 7, cause: LossCause::RingFull };
    scope.ingest(&Batch { losses: vec![loss], ..Batch::default() });
    assert!(scope.revision() > before);
    let footer = scope.frame().footer;
    assert_eq!((footer.counts.missed_events, footer.missed_lately), (7, 7));
    assert_eq!(footer.totals.main_cause(), Some(LossCause::RingFull));
}

#[test]
fn routes_cycle_and_filter() {
    let mut scope = busy();
    scope.apply(Action::NextRoute);
    assert_eq!(scope.frame().header.nodes, "client → server");
    assert!(!scope.frame().table.is_empty());
    scope.apply(Action::NextRoute);
    assert_eq!(scope.frame().controls.route, None);
    scope.apply(Action::NextProto);
    scope.apply(Action::NextProto);
    assert_eq!(scope.frame().controls.proto, Some(Proto::UDP));
    assert!(scope.frame().table.is_empty() && scope.frame().sweep.lifelines.is_empty());
    assert!(scope.frame().lanes.iter().all(|lane| lane.hop() != Some(Hop::TcpSend)));
    scope.apply(Action::NextProto);
    assert!(!scope.frame().table.is_empty());
}

#[test]
fn a_selection_holds_the_picture_and_opens_the_ladder() {
    let mut scope = busy();
    scope.apply(Action::SelectJourney(1));
    scope.apply(Action::SelectJourney(1));
    scope.apply(Action::ToggleInspector);
    let frame = scope.frame();
    let id = frame.controls.journey.unwrap();
    assert_eq!(frame.sweep.anchor, Some(id));
    let inspector = frame.inspector.unwrap();
    assert_eq!(inspector.rungs.len(), HOPS.len());
    assert_eq!(inspector.route, "client → server");
    assert_eq!(inspector.rungs.iter().filter(|rung| rung.blamed).count(), 1);
    scope.apply(Action::Back);
    scope.apply(Action::Back);
    let controls = scope.frame().controls;
    assert_eq!((controls.journey, controls.top), (None, Top::Nothing));
}

#[test]
fn silence_lets_rates_fall_to_zero() {
    let mut scope = busy();
    feed(&mut scope, Vec::new(), 60_000 * MS);
    let frame = scope.frame();
    let lane = frame.lanes.iter().find(|lane| lane.hop() == Some(Hop::AppSend)).unwrap();
    assert!(lane.stats.unwrap().events_per_s == 0.0);
    assert!(!frame.sweep.lifelines.is_empty(), "the last picture is held");
}

#[test]
fn no_order_of_actions_breaks_a_scope() {
    let actions = [
        Action::TogglePause,
        Action::TimebaseCoarser,
        Action::TimebaseFiner,
        Action::Autoset,
        Action::ToggleAlign,
        Action::Pan(i8::MIN),
        Action::Pan(1),
        Action::SelectLane(-1),
        Action::SelectLane(1),
        Action::SelectJourney(-1),
        Action::SelectJourney(127),
        Action::ToggleInspector,
        Action::NextList,
        Action::NextRoute,
        Action::NextProto,
        Action::Clear,
        Action::ToggleHelp,
        Action::Back,
    ];
    for mut scope in [Box::new(busy()), Box::new(Scope::new(NodeInfo::default(), Options::default()))] {
        let mut dice = 7_usize;
        for n in 0..2_000_u32 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            scope.apply(actions[(dice >> 33) % actions.len()].clone());
            if n % 50 == 0 {
                let at = 3_000 * MS + u64::from(n) * 10 * MS;
                feed(&mut scope, message(n, at, 5_000), at + 9 * MS);
            }
            let frame = scope.frame();
            assert!(frame.table.len() <= LISTED);
        }
    }
}

#[test]
fn a_screen_can_change_its_alignment_and_keep_its_journey() {
    let mut scope = busy();
    let anchor = scope.frame().sweep.anchor;
    scope.apply(Action::ToggleAlign);
    let frame = scope.frame();
    assert_eq!((frame.sweep.align, frame.sweep.anchor), (Align::Start, anchor));
    assert!(frame.table.iter().all(|row| row.line.journey.verdict == Verdict::Complete));
}

/// Options of a recording of this length.
pub(super) fn recorded_options(to_ns: u64) -> Options {
    Options { state: State::Replay, recorded: Some(Window { from_ns: 0, to_ns }), ..Options::default() }
}

/// The same two seconds as a recording, surveyed to its end. Journeys arrive joined, as from the recording's
/// reader.
pub(super) fn recorded() -> (Scope, Vec<magscope_core::Journey>) {
    surveyed(recorded_options(2_000 * MS))
}

/// The same with these options.
pub(super) fn surveyed(options: Options) -> (Scope, Vec<magscope_core::Journey>) {
    let mut correlator = Correlator::of_node(&info(), Limits::default());
    let mut journeys = Vec::new();
    let mut scope = Scope::new(info(), options);
    for n in 0..200_u32 {
        let at = u64::from(n) * 10 * MS;
        let events = message(n, at, if n == 90 { 5 * MS } else { 2_000 });
        let batch = Batch { events, flows: flows(), watermark_ns: at + 9 * MS, ..Batch::default() };
        scope.ingest_batch(0, &batch);
        let mut done = Vec::new();
        correlator.push(&batch, &mut done);
        if n == 199 {
            correlator.finish(&mut done);
        }
        for journey in &done {
            scope.ingest_journey(journey.clone());
        }
        journeys.extend(done);
    }
    scope.end();
    (scope, journeys)
}

#[test]
fn figures_of_a_recording_are_of_a_whole_bucket_at_least() {
    let (mut scope, _) = recorded();
    let rate = |scope: &Scope| {
        let lane = scope.lanes.iter().find(|lane| lane.hop() == Some(Hop::DevRecv)).expect("a lane");
        lane.stats.map(|stats| stats.events_per_s.round() as u64)
    };
    // The picture ends a millisecond behind the beginning, where a message has just passed.
    scope.apply(Action::ZoomTo { from_ns: 0, to_ns: MS });
    assert_eq!(scope.lately(), Some((0, 500 * MS)));
    assert!(matches!(rate(&scope), Some(95..=105)), "{:?}: not 1 in a millisecond", rate(&scope));
    // So are those of a survey that has only just begun, once there is a bucket.
    if let Some(recorded) = &mut scope.recorded {
        recorded.read_ns = 100 * MS;
    }
    assert_eq!(scope.lately(), None);
    // A recording shorter than a bucket has no other time than its own.
    if let Some(recorded) = &mut scope.recorded {
        (recorded.all.to_ns, recorded.observed.to_ns) = (100 * MS, 100 * MS);
    }
    assert_eq!(scope.lately(), Some((0, 100 * MS)));
}

/// Reads the scope's wanted stretches, as a player does.
fn serve(scope: &mut Scope, journeys: &[magscope_core::Journey]) -> Option<Window> {
    let window = scope.wants()?;
    let overlaps = |j: &&magscope_core::Journey| {
        j.start_ns().is_some_and(|ns| ns <= window.to_ns) && j.end_ns().is_some_and(|ns| ns >= window.from_ns)
    };
    let journeys = journeys.iter().filter(overlaps).cloned().collect();
    scope.fill(crate::recorded::Stretch { window, journeys, ..Default::default() });
    Some(window)
}

#[test]
fn a_recording_is_shown_from_anywhere_and_read_where_it_is_looked_at() {
    let (mut scope, journeys) = recorded();
    let transport = scope.frame().transport;
    assert_eq!((transport.from_ns, transport.to_ns, transport.read_ns), (0, 2_000 * MS, 2_000 * MS));
    assert!(transport.seekable && transport.playing && !transport.following);
    scope.apply(Action::ZoomTo { from_ns: 895 * MS, to_ns: 915 * MS });
    assert_eq!(scope.frame().detail, crate::Detail::Reading);
    let window = serve(&mut scope, &journeys).expect("it has to be read");
    assert!(window.holds(895 * MS, 915 * MS));
    assert_eq!((scope.frame().detail, scope.wants()), (crate::Detail::Lifelines, None));
    let drawn: Vec<_> = scope.frame().sweep.lifelines.iter().map(Lifeline::start_ns).collect();
    assert_eq!(drawn, [900 * MS, 910 * MS]);
    assert!(scope.frame().sweep.lifelines.iter().all(|line| line.id() == 0 || line.id() <= 200));
    // A short move needs no read: the data are in memory.
    scope.apply(Action::Pan(1));
    assert_eq!(scope.wants(), None);
    scope.apply(Action::Seek(1_500 * MS));
    assert_eq!(scope.frame().transport.head_ns, 1_500 * MS);
    serve(&mut scope, &journeys).expect("another place");
    assert!(scope.frame().sweep.lifelines.iter().any(|line| line.start_ns() == 1_500 * MS));
    scope.apply(Action::Step(1));
    assert_eq!(scope.frame().transport.head_ns, 1_510 * MS);
    scope.apply(Action::Step(-1));
    assert_eq!(scope.frame().transport.head_ns, 1_500 * MS);
}

#[test]
fn what_was_too_much_to_read_is_read_again_nearer() {
    let (mut scope, journeys) = recorded();
    scope.apply(Action::Fit);
    let window = scope.wants().expect("nothing was read yet");
    let some = journeys.iter().take(20).cloned().collect();
    scope.fill(crate::recorded::Stretch { window, journeys: some, truncated: true, ..Default::default() });
    assert_eq!(
        (scope.wants(), scope.frame().detail),
        (None, crate::Detail::Density),
        "it is not read for ever"
    );
    scope.apply(Action::ZoomTo { from_ns: 895 * MS, to_ns: 915 * MS });
    serve(&mut scope, &journeys).expect("so near it is not too much");
    assert_eq!((scope.wants(), scope.frame().detail), (None, crate::Detail::Lifelines));
    assert_eq!(scope.frame().sweep.lifelines.len(), 2);
}

#[test]
fn a_recording_plays_at_its_speed_to_its_end_and_begins_again() {
    let (mut scope, journeys) = recorded();
    scope.apply(Action::SetSpeed(2.0));
    scope.tick(250 * MS);
    assert_eq!(scope.frame().transport.head_ns, 500 * MS);
    // The picture is held for a second of wall time, then taken for the slowest journey since.
    for _ in 0..3 {
        scope.tick(250 * MS);
        serve(&mut scope, &journeys);
    }
    let frame = scope.frame();
    assert_eq!(
        (frame.header.state, frame.transport.head_ns, frame.transport.playing),
        (State::Ended, 2_000 * MS, false)
    );
    let anchor = frame.sweep.lifelines.first().map(Lifeline::total_ns);
    assert_eq!(anchor, Some(15_000 + 5 * MS));
    scope.apply(Action::TogglePause);
    scope.apply(Action::TogglePause);
    scope.tick(MS);
    assert_eq!((scope.frame().header.state, scope.frame().transport.head_ns), (State::Replay, 2 * MS));
    scope.apply(Action::TogglePause);
    scope.tick(100 * MS);
    assert_eq!(scope.frame().transport.head_ns, 2 * MS, "what is paused stands");
}

#[test]
fn a_filter_surveys_a_recording_anew_and_picks_are_undone() {
    let (mut scope, _) = recorded();
    let survey = scope.survey();
    scope.apply(Action::Filter("total > 1ms".to_owned()));
    assert_eq!(scope.survey(), survey + 1);
    scope.apply(Action::Filter("total >".to_owned()));
    assert!(
        scope.frame().controls.message.as_ref().is_some_and(|m| m.is_error && m.text.starts_with("filter: "))
    );
    assert_eq!(scope.survey(), survey + 1, "what cannot be read changes nothing");

    let mut live = busy();
    live.apply(Action::Filter("total > 1ms".to_owned()));
    assert_eq!(live.frame().table.len(), 1);
    assert_eq!(live.frame().flows(9).rows.iter().map(|row| row.journeys).collect::<Vec<_>>(), [1]);
    live.apply(Action::Filter(String::new()));
    live.apply(Action::Pick(crate::Pick::Flow(FlowId(2))));
    assert!(live.frame().table.len() > 1, "the receiver's number means the flow as well");
    live.apply(Action::Pick(crate::Pick::Flow(FlowId(77))));
    assert!(live.frame().table.is_empty());
    live.apply(Action::Back);
    assert!(live.frame().controls.picks.is_empty() && live.frame().table.len() > 1);
}

#[test]
fn cursors_measure_between_them_and_snap_to_events() {
    let mut scope = busy();
    scope.apply(Action::ZoomTo { from_ns: 895 * MS, to_ns: 925 * MS });
    scope.apply(Action::PlaceCursor(crate::CursorId::A, 899 * MS));
    scope.apply(Action::SnapCursor(1));
    scope.apply(Action::PlaceCursor(crate::CursorId::B, 930 * MS));
    scope.apply(Action::SnapCursor(-1));
    let read = scope.frame().cursors.unwrap();
    assert_eq!((read.a_ns, read.b_ns), (900 * MS, 920 * MS + 17_000));
    assert_eq!(read.delta_ns, 20 * MS as i64 + 17_000);
    assert!(read.a > 0.16 && read.a < 0.17 && read.half_width_ns == 0);
    scope.apply(Action::MeasureOver(crate::MeasureSpan::Cursors));
    let measured = scope.frame().measurements();
    assert_eq!((measured.from_ns, measured.to_ns), (900 * MS, 920 * MS + 17_000));
    let whole = &measured.pairs[0];
    assert_eq!((whole.span, whole.times.n, whole.times.exact), (crate::look::Span::Whole, 3, true));
    assert_eq!((whole.times.min_ns, whole.times.max_ns), (17_000, 15_000 + 5 * MS));
    let read = measured.pairs.iter().find(|p| p.span.hops() == Some((Hop::SockReady, Hop::AppRecv))).unwrap();
    assert_eq!((read.times.n, read.times.p50_ns), (3, 2_000));
    assert_eq!(read.jitter_ns, Some((5 * MS - 2_000) as f64 / 2.0));
}

#[test]
fn signals_are_drawn_computed_and_held_against_each_other() {
    let mut scope = busy();
    let sample = |n: u64| crate::signals::tests::sample(1, n * 100 * MS, 10 + n as u32, 200 + 10 * n as u32);
    scope.ingest(&Batch { tcp: (0..20).map(sample).collect(), watermark_ns: 1_991 * MS, ..Batch::default() });
    scope.apply(Action::Fit);
    scope.apply(Action::ToggleChannel(crate::Channel::Cwnd));
    scope.apply(Action::ToggleChannel(crate::Channel::Journeys));
    let lines = scope.frame().loadlines(20);
    assert_eq!((lines[0].last, lines[0].of.as_str()), (Some(29.0), "10.0.0.1:1000→10.0.0.2:80"));
    assert!((lines[0].foot, lines[0].top) == (0.0, 29.0) && lines[1].chosen);
    let rate = lines[1].columns[10].unwrap().last;
    assert!((rate - 100.0).abs() < 20.0, "{rate}");
    scope.apply(Action::NextChannel(-1));
    scope.apply(Action::VerticalScale(1));
    let line = &scope.frame().loadlines(20)[0];
    assert!(line.chosen && (line.top - 50.0).abs() < 1e-9, "{}", line.top);
    scope.apply(Action::MathText("srtt - rttvar".to_owned()));
    let math = scope.frame().math(20).unwrap();
    assert_eq!((math.last, math.unit), (Some(195_000.0), crate::Unit::Time));
    scope.apply(Action::SetXy(Some((crate::Channel::Cwnd, crate::Channel::Srtt))));
    let xy = scope.frame().xy().unwrap();
    assert_eq!((xy.points.len(), xy.x_range, xy.y_range), (20, (10.0, 29.0), (200_000.0, 390_000.0)));
    scope.apply(Action::ToggleChannel(crate::Channel::Cwnd));
    assert_eq!(scope.frame().loadlines(20).len(), 1);
}

#[test]
fn from_afar_everything_is_counted_and_the_slowest_can_be_taken() {
    let mut scope = busy();
    scope.apply(Action::Fit);
    let frame = scope.frame();
    let density = frame.density(50);
    let lane = |hop| density.lanes.iter().find(|lane| lane.place == Place::Hop(hop)).unwrap();
    let count: u64 = lane(Hop::DevRecv).cells.iter().map(|cell| cell.count).sum();
    assert_eq!(count, 200);
    let slow = density.exemplars.iter().max_by_key(|e| e.total_ns).copied().unwrap();
    assert_eq!(slow.start_ns, 900 * MS);
    let map = frame.minimap(40);
    assert_eq!(map.columns.iter().map(|c| c.journeys).sum::<u64>(), 200);
    assert_eq!(map.columns.iter().map(|c| c.max_ns).max(), Some(15_000 + 5 * MS));
    let heat = frame.heat_map(40, 8);
    assert_eq!(
        (heat.edges_ns.len(), heat.rows[0].span, heat.rows[0].columns().len()),
        (9, crate::look::Span::Whole, 40)
    );
    let all: u64 = heat.rows[0].columns().flatten().map(|n| u64::from(*n)).sum();
    assert_eq!(all, 200);
    scope.apply(Action::ChooseJourney(slow.key));
    assert_eq!(scope.frame().controls.journey, Some(slow.key));
    assert!(scope.frame().sweep.lifelines.iter().any(|line| line.key() == slow.key));
}

#[test]
fn views_have_their_rows() {
    let mut scope = busy();
    let loss = Loss { cpu: 0, from_ns: 1, to_ns: 2, count: 7, cause: LossCause::RingFull };
    let drop = Event { detail: DetailKind::DropReason.of(5), ..Event::at(Hop::SkbDrop, 1_000 * MS) };
    scope.ingest(&Batch { losses: vec![loss], events: vec![drop], ..Batch::default() });
    scope.apply(Action::Show(crate::View::Events));
    scope.apply(Action::Seek(1_000 * MS));
    let events = scope.frame().events(10);
    assert!(events.rows.len() == 10 && events.rows.iter().filter(|row| row.selected).count() == 1);
    let selected = |rows: &[EventRow]| rows.iter().find(|row| row.selected).map(EventRow::time_ns);
    let before = selected(&events.rows);
    assert_eq!(events.rows[0].ends.map(|(from, _)| from.port()), Some(1000));
    scope.apply(Action::SelectRow(-3));
    assert!(selected(&scope.frame().events(10).rows) < before);
    let frame = scope.frame();
    let panel = frame.losses();
    assert_eq!(
        (panel.drops, panel.losses[0].count, panel.losses[0].last_ns),
        (vec![("reason 5".to_owned(), 1)], 7, Some(2))
    );
    assert!(panel.hops.iter().any(|row| row.hop == Hop::AppSend && row.events == 200));
    assert_eq!(frame.clock().wire.half_width_ns, Some(0));
    scope.apply(Action::Fit);
    let kinds: Vec<_> = scope.frame().points().iter().map(|point| point.kind).collect();
    assert!(kinds.contains(&crate::look::PointKind::Drop { node: 0, reason: 5 }), "{kinds:?}");
    scope.apply(Action::Show(crate::View::Flows));
    scope.apply(Action::TakeRow);
    assert_eq!((scope.frame().controls.view, scope.frame().controls.picks.len()), (crate::View::Scope, 1));
}

#[test]
fn persistence_overlays_what_passes_and_what_is_kept() {
    let mut scope = busy();
    scope.apply(Action::SetTimebase(10_000));
    scope.apply(Action::NextPersistence);
    scope.apply(Action::SetPersistence(crate::Persistence::Endless));
    let map = scope.frame().persistence(128).unwrap();
    assert_eq!((map.span_ns, map.lifelines), (100_000, 200));
    let row = map.rows.iter().find(|row| row.place == Place::Hop(Hop::DevRecv)).unwrap();
    let busiest = row.weights.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
    assert_eq!((busiest.0, *busiest.1 as u64), (16, 200));
    scope.apply(Action::SetPersistence(crate::Persistence::Off));
    assert!(scope.frame().persistence(100).is_none());
}
