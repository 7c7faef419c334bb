use super::*;
use crate::action::Action;
use crate::view::{Align, Top};
use magscope_core::Batch;
use magscope_core::node::{Backend, Coverage, NetnsName};
use magscope_core::{Direction, Event, Flow, FlowId, Hop, HopCount, Loss, LossCause, Verdict};

const MS: u64 = 1_000_000;

const HOPS: [Hop; 6] = [Hop::AppSend, Hop::TcpSend, Hop::DevXmit, Hop::DevRecv, Hop::SockReady, Hop::AppRecv];

fn info() -> NodeInfo {
    let mut coverage = Coverage::full(Backend::Generator);
    for row in &mut coverage.hops {
        if row.hop == Hop::IpPre {
            row.service = Service::Missing { because: "no fentry".to_owned() };
        } else if row.hop.path_index().is_some() && !HOPS.contains(&row.hop) {
            row.service = Service::Off;
        }
    }
    let name = |netns, name: &str| NetnsName { netns, name: name.to_owned() };
    NodeInfo { netns: vec![name(1, "client"), name(2, "server")], coverage, ..NodeInfo::default() }
}

fn flows() -> Vec<Flow> {
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
fn message(n: u32, at: u64, read_ns: u64) -> Vec<Event> {
    let times = [at, at + 1_000, at + 3_000, at + 13_000, at + 15_000, at + 15_000 + read_ns];
    let event = |(hop, time): (&Hop, u64)| {
        let end = if hop.direction() == Direction::Rx { 2 } else { 1 };
        let ready = *hop == Hop::SockReady;
        let seq = 1000 + n * 100 + if ready { 100 } else { 0 };
        let len = if ready { 0 } else { 100 };
        Event { flow: FlowId(end), socket: end, seq, len, segs: 1, ..Event::at(*hop, time) }
    };
    HOPS.iter().zip(times).map(event).collect()
}

fn feed(scope: &mut Scope, mut events: Vec<Event>, watermark_ns: u64) {
    events.sort_by_key(|event| event.time_ns);
    scope.ingest(&Batch { events, flows: flows(), watermark_ns, ..Batch::default() });
}

/// Two seconds of a message every 10 ms; number 90 is read 5 ms late.
fn busy() -> Scope {
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
    let count = |hop, kept, sampled| HopCount { time_ns: 0, hop, kept, filtered: 0, undecided: 0, sampled };
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
    assert_eq!((latency.from, latency.n), (Hop::DevXmit, 200));
    assert!((9_900..=10_100).contains(&latency.p50_ns));
    let slow = &frame.table[0];
    assert!(slow.anchor || frame.sweep.anchor.is_some());
    assert_eq!(slow.line.total_ns(), 15_000 + 5 * MS);
    assert_eq!(slow.blame, Some(("waiting for the reader".to_owned(), 5 * MS)));
    assert_eq!((frame.footer.totals.journeys, frame.footer.totals.lost_events()), (200, 0));
    assert_eq!(frame.header.nodes, "client ↔ server");
    assert_eq!(frame.header.state, State::Ended);
}

#[test]
fn what_is_not_measured_is_not_zero() {
    let scope = busy();
    let frame = scope.frame();
    let lane = |hop| frame.lanes.iter().find(|lane| lane.hop() == Some(hop)).unwrap();
    assert_eq!(lane(Hop::IpPre).service, Service::Missing { because: "no fentry".to_owned() });
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
    assert!(scope.frame().footer.totals.journeys > 390);
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
    assert_eq!((footer.totals.lost_events(), footer.lost_lately), (7, 7));
    assert_eq!(footer.totals.main_cause(), Some(LossCause::RingFull));
}

#[test]
fn routes_cycle_and_filter() {
    let mut scope = busy();
    scope.apply(Action::NextRoute);
    assert_eq!(scope.frame().header.nodes, "client → server");
    assert!(!scope.frame().table.is_empty());
    scope.apply(Action::NextRoute);
    assert_eq!(scope.frame().view.route, None);
    scope.apply(Action::NextProto);
    scope.apply(Action::NextProto);
    assert_eq!(scope.frame().view.proto, Some(Proto::UDP));
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
    let id = frame.view.journey.unwrap();
    assert_eq!(frame.sweep.anchor, Some(id));
    let inspector = frame.inspector.unwrap();
    assert_eq!(inspector.rungs.len(), HOPS.len());
    assert_eq!(inspector.route, "client → server");
    assert_eq!(inspector.rungs.iter().filter(|rung| rung.blamed).count(), 1);
    scope.apply(Action::Back);
    scope.apply(Action::Back);
    let view = scope.frame().view;
    assert_eq!((view.journey, view.top), (None, Top::Nothing));
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
        Action::SelectHop(-1),
        Action::SelectHop(1),
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
    for mut scope in [busy(), Scope::new(NodeInfo::default(), Options::default())] {
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
