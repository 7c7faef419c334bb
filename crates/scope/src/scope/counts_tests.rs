//! Counts and rates that a user reads as facts: drops, steps by protocol, rates of narrow pictures, effect of a
//! filter.

use super::tests::{busy, feed, flows, info, message, recorded_options};
use super::*;
use crate::action::Action;
use crate::edge::Edge;
use crate::pyramid::Lane as Counted;
use magscope_core::node::{Backend, Coverage, DropReason};
use magscope_core::{Batch, DetailKind, Event, ExtentKind, Flow, FlowId, Hop};

const MS: u64 = 1_000_000;

fn freed(at_ns: u64, reason: u32) -> Event {
    Event { detail: DetailKind::DropReason.of(reason), ..Event::at(Hop::SkbDrop, at_ns) }
}

#[test]
fn queues_of_closed_sockets_are_no_drops() {
    let reason = |number, name: &str| DropReason { number, name: name.to_owned() };
    let drop_reasons = vec![reason(3, "no_socket"), reason(77, "queue_purge")];
    let mut scope = Scope::new(NodeInfo { drop_reasons, ..info() }, Options::default());
    for n in 0..200_u32 {
        let at = u64::from(n) * 10 * MS;
        feed(&mut scope, message(n, at, 2_000), at + 9 * MS);
    }
    let events = (0..9).map(|n| freed(1_900 * MS + n, 77)).chain([freed(1_901 * MS, 3)]).collect();
    scope.ingest(&Batch { events, watermark_ns: 1_991 * MS, ..Batch::default() });
    scope.end();
    scope.apply(Action::Fit);
    let frame = scope.frame();
    assert_eq!(frame.footer.totals.dropped, 1);
    let panel = frame.losses();
    assert_eq!(panel.drops, [("no_socket".to_owned(), 1)]);
    assert_eq!(panel.cleaned_up, [("queue_purge".to_owned(), 9)]);
    let measured = frame.measurements();
    assert_eq!((measured.drops, measured.loss_ratio), (1, Some(0.0)), "every journey is complete");
    assert_eq!(frame.minimap(40).columns.iter().map(|column| column.drops).sum::<u64>(), 1);
    assert_eq!(frame.points().len(), 1, "clean-up has no mark");
}

/// A UDP datagram of 100 bytes, received and read.
fn datagram(n: u16, at: u64) -> Vec<Event> {
    let hops = [Hop::DevXmit, Hop::DevRecv, Hop::UdpRecv, Hop::SockReady, Hop::AppRecv];
    let event = |(hop, i): (&Hop, u64)| {
        let end = if *hop == Hop::DevXmit { 11 } else { 12 };
        let len = if *hop == Hop::SockReady { 0 } else { 100 };
        let (flow, proto, skb) = (FlowId(end), Proto::UDP, u32::from(n) + 1);
        Event { flow, socket: end, proto, len, skb, ip_id: n + 1, segs: 1, ..Event::at(*hop, at + i * 1_000) }
    };
    hops.iter().zip(0..).map(event).collect()
}

#[test]
fn steps_are_measured_by_protocol() {
    let mut scope =
        Scope::new(NodeInfo { coverage: Coverage::full(Backend::Generator), ..info() }, Options::default());
    let udp = |flow: &Flow| Flow { id: FlowId(flow.id.0 + 10), proto: Proto::UDP, ..*flow };
    let flows: Vec<Flow> = flows().iter().flat_map(|flow| [*flow, udp(flow)]).collect();
    for n in 0..200_u32 {
        let at = u64::from(n) * 10 * MS;
        let mut events = message(n, at, 2_000);
        if n % 4 == 0 {
            events.extend(datagram(n as u16, at + MS));
        }
        events.sort_by_key(|event| event.time_ns);
        scope.ingest(&Batch { events, flows: flows.clone(), watermark_ns: at + 9 * MS, ..Batch::default() });
    }
    scope.end();
    scope.apply(Action::Fit);
    let rows = |scope: &Scope| {
        let measured = scope.frame().measurements();
        let of = |proto| {
            let row = measured
                .pairs
                .iter()
                .find(|row| row.proto == Some(proto) && row.span.to() == Some(Hop::AppRecv));
            row.map(|row| row.times.n)
        };
        (of(Proto::TCP), of(Proto::UDP))
    };
    assert_eq!(rows(&scope), (Some(200), Some(50)), "{:?}", scope.frame().measurements().pairs);
    let estimated = crate::measure::estimated(&scope.counts.pyramid, &scope.counts.below, 0, 3_000 * MS);
    let to_app = |proto| {
        let row = estimated.iter().find(|row| row.proto == Some(proto) && row.span.to() == Some(Hop::AppRecv));
        row.map(|row| row.times.n)
    };
    assert_eq!((to_app(Proto::TCP), to_app(Proto::UDP)), (Some(200), Some(50)));
    let heat = scope.frame().heat_map(10, 8);
    let heat: Vec<_> = heat.rows.iter().filter(|row| row.span.to() == Some(Hop::AppRecv)).collect();
    let heat: Vec<_> = heat.iter().map(|row| (row.proto, row.times.n)).collect();
    assert_eq!(heat, [(Some(Proto::TCP), 200), (Some(Proto::UDP), 50)]);
}

/// A packet of another protocol, from the wire to its end of the path.
fn packet(proto: Proto, n: u16, at: u64) -> Vec<Event> {
    let event = |(hop, i): (&Hop, u64)| {
        let end = if *hop == Hop::DevRecv { 2 } else { 1 };
        let (flow, skb) = (FlowId(end + 100 * u64::from(proto.0)), u32::from(n) + 1);
        Event { flow, proto, len: 56, skb, ip_id: n + 1, segs: 1, ..Event::at(*hop, at + i * 1_000) }
    };
    [Hop::DevXmit, Hop::DevRecv].iter().zip(0..).map(event).collect()
}

#[test]
fn every_protocol_has_rows_of_its_own_up_to_a_bound() {
    let mut scope =
        Scope::new(NodeInfo { coverage: Coverage::full(Backend::Generator), ..info() }, Options::default());
    let protocols: Vec<Proto> = [Proto::ICMP, Proto::ICMPV6]
        .into_iter()
        .chain((100..).map(Proto))
        .take(crate::MAX_PROTOCOLS + 2)
        .collect();
    let of = |proto: Proto| {
        let id = move |flow: &Flow| FlowId(flow.id.0 + 100 * u64::from(proto.0));
        flows().into_iter().map(move |flow| Flow { id: id(&flow), proto, ..flow })
    };
    let flows: Vec<Flow> = protocols.iter().flat_map(|proto| of(*proto)).collect();
    for n in 0..100_u16 {
        let at = u64::from(n) * 20 * MS;
        let each = protocols.iter().zip(1..);
        let events = each.flat_map(|(proto, i)| packet(*proto, n, at + i * MS)).collect();
        scope.ingest(&Batch { events, flows: flows.clone(), watermark_ns: at + 19 * MS, ..Batch::default() });
    }
    scope.end();
    scope.apply(Action::Fit);
    let measured = scope.frame().measurements();
    let estimated = crate::measure::estimated(&scope.counts.pyramid, &scope.counts.below, 0, 3_000 * MS);
    let wire = |rows: &[crate::look::PairReading]| {
        let rows = rows.iter().filter(|row| row.span.to() == Some(Hop::DevRecv));
        rows.map(|row| (row.proto.expect("a protocol"), row.times.n)).collect::<Vec<_>>()
    };
    let all: Vec<_> = protocols.iter().map(|proto| (*proto, 100)).collect();
    assert_eq!(wire(&measured.pairs), all, "of the journeys in memory");
    assert_eq!(wire(&estimated), all[..crate::MAX_PROTOCOLS], "of the tiles");
    assert_eq!((measured.journeys, measured.untimed), (1_000, 200));
    let heat = scope.frame().heat_map(10, 8);
    let heat = heat.rows.iter().filter(|row| row.span.to() == Some(Hop::DevRecv));
    assert_eq!(
        heat.map(|row| (row.proto.unwrap(), row.times.n)).collect::<Vec<_>>(),
        all[..crate::MAX_PROTOCOLS]
    );
}

#[test]
fn a_picture_too_narrow_for_a_rate_has_none() {
    let mut scope = busy();
    scope.end();
    scope.apply(Action::Fit);
    let rates = |scope: &Scope| {
        let layers = scope.frame().measurements().layers;
        layers.iter().map(|layer| layer.bytes_per_s.is_some()).collect::<Vec<_>>()
    };
    let wide = rates(&scope);
    assert!(!wide.is_empty() && wide.iter().all(|has| *has), "{wide:?}");
    scope.apply(Action::PlaceCursor(crate::CursorId::A, 900 * MS));
    scope.apply(Action::PlaceCursor(crate::CursorId::B, 900 * MS + 50_000));
    scope.apply(Action::MeasureOver(crate::MeasureSpan::Cursors));
    let narrow = rates(&scope);
    assert!(!narrow.is_empty() && narrow.iter().all(|has| !has), "{narrow:?}");
}

#[test]
fn a_filter_keeps_what_it_does_not_choose_among() {
    let mut scope = busy();
    scope.ingest(&Batch { events: vec![freed(1_990 * MS, 3)], watermark_ns: 1_991 * MS, ..Batch::default() });
    scope.apply(Action::Fit);
    let stretch = scope.extent();
    let before = |scope: &Scope| {
        let of = |lane| scope.counts.pyramid.total(lane, 0, stretch.1 + 1).count;
        [Counted::Drops, Counted::Events, Counted::Retransmits].map(of)
    };
    let all = before(&scope);
    assert_eq!((all[0], all[1] > 1_000), (1, true));
    scope.apply(Action::Filter("pid = 1".to_owned()));
    assert!(scope.frame().controls.filter.is_some());
    assert_eq!(before(&scope), all);
}

#[test]
fn points_beside_a_filter_are_of_what_it_chooses() {
    let points = |scope: &Scope| scope.frame().points().iter().map(|point| point.time_ns).collect::<Vec<_>>();
    let mut scope = busy();
    let drop = |flow, time_ns| Event { flow: FlowId(flow), ..freed(time_ns, 3) };
    let events = vec![drop(1, 1_991 * MS), drop(77, 1_992 * MS)];
    scope.ingest(&Batch { events, watermark_ns: 1_993 * MS, ..Batch::default() });
    scope.apply(Action::ZoomTo { from_ns: 1_900 * MS, to_ns: 1_999 * MS });
    assert_eq!(points(&scope), [1_991 * MS, 1_992 * MS]);
    scope.apply(Action::Filter("bytes = 100".to_owned()));
    scope.apply(Action::ZoomTo { from_ns: 1_900 * MS, to_ns: 1_999 * MS });
    assert_eq!(points(&scope), [1_991 * MS], "no journey of the other flow is drawn");
    scope.apply(Action::Filter(String::new()));
    scope.apply(Action::ZoomTo { from_ns: 1_900 * MS, to_ns: 1_999 * MS });
    assert_eq!(points(&scope).len(), 2);
}

#[test]
fn figures_beside_the_lanes_are_of_what_a_filter_chooses() {
    /// Passes a second, bytes a second, and journeys with a latency.
    fn at(scope: &Scope, hop: Hop) -> (u64, Option<u64>, u64) {
        let lane = scope.lanes.iter().find(|lane| lane.hop() == Some(hop)).expect("a lane");
        let stats = lane.stats.expect("figures");
        let n = stats.latency.map_or(0, |latency| latency.n);
        (stats.events_per_s.round() as u64, stats.bytes_per_s.map(|bytes| bytes.round() as u64), n)
    }
    let mut scope = busy();
    scope.ingest(&Batch { watermark_ns: 2_000 * MS, ..Batch::default() });
    let all = at(&scope, Hop::DevRecv);
    assert_eq!((all, scope.frame().rate_title()), ((100, Some(10_000), 200), "events"));
    assert!(!scope.frame().footer.is_of_all);

    // One journey in two seconds.
    scope.apply(Action::Filter("total > 1ms".to_owned()));
    assert_eq!((at(&scope, Hop::DevRecv), scope.frame().rate_title()), ((1, Some(50), 1), "journeys"));
    assert_eq!(at(&scope, Hop::SockReady).1, None, "it has no payload of its own");
    assert!(scope.frame().footer.is_of_all, "the footer's counts are of all traffic");
    let layers = scope.frame().measurements().layers;
    assert!(layers.iter().all(|layer| layer.bytes_per_s.is_none()), "a rate needs ten: {layers:?}");
    // What comes later is chosen too.
    feed(&mut scope, message(200, 2_000 * MS, 5 * MS), 2_009 * MS);
    feed(&mut scope, message(201, 2_010 * MS, 2_000), 2_500 * MS);
    assert_eq!(at(&scope, Hop::DevRecv), (1, Some(80), 2));

    scope.apply(Action::Filter(String::new()));
    assert!(at(&scope, Hop::DevRecv).2 > 200 && scope.frame().rate_title() == "events");
    // A protocol can be seen in each event.
    scope.apply(Action::NextProto);
    assert!(at(&scope, Hop::DevRecv).2 > 200 && scope.frame().rate_title() == "events");
    scope.apply(Action::NextProto);
    assert!(!scope.lanes.iter().any(|lane| lane.hop() == Some(Hop::TcpRecv)), "no lane of another protocol");
    assert_eq!(at(&scope, Hop::DevRecv), (0, Some(0), 0));
}

#[test]
fn a_filter_of_requests_alone_chooses_no_journeys() {
    use crate::look::Filtered;
    use crate::views::View;
    for make in [busy, || super::tests::recorded().0] {
        let mut scope = make();
        scope.apply(Action::Fit);
        let journeys = scope.frame().footer.counts.journeys;
        let filtered = |scope: &Scope| scope.frame().requests(10, 10).filtered;
        assert_eq!(filtered(&scope), Filtered::All);

        scope.apply(Action::Filter("request > 20ms".to_owned()));
        let frame = scope.frame();
        assert_eq!(frame.controls.view, View::Requests, "it leads to what it chooses");
        assert_eq!(frame.controls.filter.as_ref().map(ToString::to_string).as_deref(), Some("request > 20ms"));
        assert!(!frame.controls.is_narrowed());
        assert_eq!(filtered(&scope), Filtered::Matching);
        assert_eq!(frame.filter_words().as_deref(), Some("request > 20ms"));
        scope.apply(Action::Show(View::Flows));
        assert_eq!(scope.frame().filter_words().as_deref(), Some("request > 20ms (requests only)"));
        if !scope.is_recorded() {
            assert_eq!(scope.frame().footer.counts.journeys, journeys);
        }

        scope.apply(Action::Filter("lost".to_owned()));
        assert_eq!(filtered(&scope), Filtered::JourneysOnly);
        assert_eq!(scope.frame().requests(10, 10).filter, "verdict = lost");
        scope.apply(Action::Filter("request > soon".to_owned()));
        let frame = scope.frame();
        let message = frame.controls.message.as_ref().expect("an error");
        assert!(message.is_error && message.text.starts_with("filter: "), "{}", message.text);
        assert_eq!(frame.controls.filter.as_ref().map(ToString::to_string).as_deref(), Some("verdict = lost"));
        scope.apply(Action::Filter(String::new()));
        assert_eq!(filtered(&scope), Filtered::All);
    }
}

#[test]
fn a_recording_is_read_to_its_end_when_the_last_journey_is_counted() {
    let mut scope = Scope::new(info(), recorded_options(20 * MS));
    let events = message(0, MS, 2_000);
    scope.ingest_batch(0, &Batch { events, flows: flows(), watermark_ns: 20 * MS, ..Batch::default() });
    let transport = scope.frame().transport;
    assert!(transport.read_ns < transport.to_ns, "journeys may be open");
    scope.end();
    let transport = scope.frame().transport;
    assert_eq!(transport.read_ns, transport.to_ns);
}

#[test]
fn a_picture_that_stays_while_events_go_on_says_how_old_it_is() {
    let mut scope = busy();
    assert_eq!(scope.frame().header.edge, Edge::Live);
    for second in 3..10 {
        // Events without journeys: no new journey to show.
        feed(&mut scope, vec![Event::at(Hop::SchedExit, second * 1_000 * MS)], second * 1_000 * MS);
    }
    let frame = scope.frame();
    assert!(
        matches!(frame.header.edge, Edge::Held { behind_ns } if behind_ns > 5_000 * MS),
        "{:?}",
        frame.header
    );
}

/// Journeys that ended, those with payload at the driver, and the journeys of the book of flows.
fn counted(scope: &mut Scope) -> [u64; 3] {
    // As the next edge of a bucket does.
    scope.settle_counts();
    let of = |lane| scope.counts.pyramid.total(lane, 0, u64::MAX).count;
    let booked = scope.flows(10).rows;
    [of(Counted::Ended), of(Counted::Payload(Hop::DevXmit)), booked.iter().map(|row| row.journeys).sum()]
}

#[test]
fn a_live_filter_that_is_taken_away_again_has_erased_nothing() {
    let mut scope = busy();
    // More journeys than are kept.
    let beyond = crate::memory::RECENT as u32 + 1_000;
    let at = |n: u32| 2_000 * MS + u64::from(n) * MS / 10;
    for first in (200..beyond).step_by(1_000) {
        let some = first..beyond.min(first + 1_000);
        feed(
            &mut scope,
            some.clone().flat_map(|n| message(n, at(n), 2_000)).collect(),
            at(some.end - 1) + MS / 20,
        );
    }
    let all = u64::from(beyond);
    assert_eq!(counted(&mut scope), [all; 3]);
    let slowest = scope.memory.slowest()[0].total_ns();
    assert_eq!(scope.frame().header.counts_for_ns, None);
    let retained = crate::memory::RECENT as u64;
    for (narrower, ended) in [(Action::NextProto, retained), (Action::Filter("pid = 1".to_owned()), 0)] {
        scope.apply(narrower);
        let frame = scope.frame();
        let for_ns = frame.header.counts_for_ns;
        assert!(for_ns.is_some_and(|ns| ns < scope.now_ns - 2_000 * MS), "{for_ns:?}");
        assert!(frame.header.counts_words().is_some_and(|words| words.contains("of the last")));
        assert_eq!(counted(&mut scope)[0], ended);
    }
    // What comes while a filter is on is counted too.
    let at = 9_000 * MS;
    feed(&mut scope, message(beyond, at, 2_000), at + MS);
    while scope.controls.proto.is_some() {
        scope.apply(Action::NextProto);
    }
    scope.apply(Action::Filter(String::new()));
    assert!(!scope.controls.is_narrowed());
    assert_eq!(counted(&mut scope), [all + 1; 3]);
    assert_eq!(scope.memory.slowest()[0].total_ns(), slowest, "the slowest is back as well");
    assert_eq!(scope.frame().header.counts_for_ns, None);
}

#[test]
fn a_live_filter_that_has_all_journeys_at_hand_is_of_all_of_them() {
    let mut scope = busy();
    scope.apply(Action::NextProto);
    assert_eq!((counted(&mut scope)[0], scope.frame().header.counts_for_ns), (200, None));
    // Those that end during a pause are counted and not kept: a filter set later lacks them.
    scope.apply(Action::TogglePause);
    feed(&mut scope, message(200, 2_000 * MS, 2_000), 2_009 * MS);
    assert_eq!(counted(&mut scope), [201; 3]);
    scope.apply(Action::Filter("proto = tcp".to_owned()));
    assert_eq!(counted(&mut scope)[0], 200);
    assert!(scope.frame().header.counts_for_ns.is_some());
    scope.apply(Action::Filter(String::new()));
    scope.apply(Action::NextProto);
    scope.apply(Action::NextProto);
    assert_eq!(counted(&mut scope), [201; 3]);
}

/// A message that is sent twice: the kernel dropped the first copy in the queue, at an interface.
fn sent_again(n: u32, at: u64) -> Vec<Event> {
    let mut events = message(n, at, 2_000);
    for event in &mut events {
        if !matches!(event.hop, Hop::AppSend | Hop::TcpSend) {
            event.time_ns += 50 * MS;
        }
        if matches!(event.hop, Hop::DevXmit | Hop::DevRecv) {
            event.ip_id = 2 * n as u16 + 2;
        }
    }
    let packet = |hop, time_ns, copy| {
        let ip_id = 2 * n as u16 + copy;
        Event {
            flow: FlowId(1),
            socket: 1,
            extent: ExtentKind::Stream.of(1000 + n * 100),
            len: 100,
            segs: 1,
            ip_id,
            ..Event::at(hop, time_ns)
        }
    };
    for (copy, after) in [(1, 0), (2, 50 * MS)] {
        events.push(packet(Hop::DevQueue, at + after + 2_500, copy));
    }
    events.push(Event {
        detail: DetailKind::DropReason.of(3),
        ifindex: 2,
        ..packet(Hop::SkbDrop, at + 2_600, 1)
    });
    events.push(Event {
        detail: DetailKind::ResendReason.of(1),
        ..packet(Hop::TcpRetransmit, at + 50 * MS + 3_500, 2)
    });
    events
}

#[test]
fn waiting_for_retransmission_is_counted_as_the_steps_are_and_its_drop_has_an_interface() {
    let interfaces = vec![magscope_core::node::InterfaceName {
        netns: 1,
        index: 2,
        name: "eth0".to_owned(),
        kind: String::new(),
    }];
    let mut info = NodeInfo { interfaces, ..info() };
    let served = Coverage::full(Backend::Generator);
    let queue = info.coverage.hops.iter_mut().find(|row| row.hop == Hop::DevQueue).expect("a row");
    queue.service = served.of(Hop::DevQueue).expect("a row").clone();
    info.drop_reasons = vec![DropReason { number: 3, name: "qdisc_drop".to_owned() }];
    let mut scope = Scope::new(info, Options::default());
    for n in 0..200_u32 {
        let at = u64::from(n) * 100 * MS;
        let events = if n % 10 == 0 { sent_again(n, at) } else { message(n, at, 2_000) };
        feed(&mut scope, events, at + 99 * MS);
    }
    scope.end();
    scope.apply(Action::Fit);
    let frame = scope.frame();
    let wait = |words: String| words.contains("waiting for retransmission");
    let measured = frame.measurements();
    let row = measured.pairs.iter().find(|row| wait(row.words("→"))).expect("a row of waits");
    assert_eq!((row.span, row.times.n), (crate::look::Span::Wait, 20));
    assert!(
        row.times.min_ns > 49 * MS,
        "from where the one copy was seen last to where the next was seen first"
    );
    let heat = frame.heat_map(40, 8);
    let row = heat.rows.iter().find(|row| wait(row.words(" → "))).expect("a row of waits");
    assert_eq!(row.times.n, 20);
    assert_eq!(row.columns().flatten().sum::<u32>(), 20);
    let estimated = crate::measure::estimated(&scope.counts.pyramid, &scope.counts.below, 0, 30_000 * MS);
    assert!(estimated.iter().any(|row| wait(row.words("→")) && row.times.n == 20));
    // Each part of a journey that lies between two hops or two copies has its row: no step is longer than the wait.
    let steps = measured.pairs.iter().filter(|row| row.span.hops().is_some());
    assert!(steps.clone().count() > 3 && steps.into_iter().all(|row| row.times.max_ns < 49 * MS));
    let again = scope.memory.recent().find(|line| !line.journey.copies.is_empty()).expect("one").clone();
    scope.apply(Action::ChooseJourney(again.key()));
    scope.apply(Action::ToggleInspector);
    let frame = scope.frame();
    let ladder = frame.inspector.expect("it is open");
    let who: Vec<&str> = ladder.rungs.iter().map(|rung| rung.who.as_str()).collect();
    assert!(who.iter().any(|who| who.ends_with("dropped, qdisc_drop at eth0")), "{who:?}");
}

#[test]
fn a_figure_of_one_of_several_protocols_names_it() {
    let mut scope =
        Scope::new(NodeInfo { coverage: Coverage::full(Backend::Generator), ..info() }, Options::default());
    let udp = |flow: &Flow| Flow { id: FlowId(flow.id.0 + 10), proto: Proto::UDP, ..*flow };
    let flows: Vec<Flow> = flows().iter().flat_map(|flow| [*flow, udp(flow)]).collect();
    let proto_at = |scope: &Scope, hop| {
        let frame = scope.frame();
        let lane = frame.lanes.iter().find(|lane| lane.hop() == Some(hop)).expect("a lane");
        lane.stats.and_then(|stats| stats.latency).map(|latency| latency.proto)
    };
    for n in 0..400_u32 {
        let at = u64::from(n) * 10 * MS;
        let mut events = message(n, at, 2_000);
        // At first TCP is alone; then there are more datagrams than messages.
        if n == 150 {
            assert_eq!(proto_at(&scope, Hop::AppRecv), Some(None));
        }
        for more in 0..if n < 200 { 0 } else { 3 } {
            events.extend(datagram((4 * n + more) as u16, at + u64::from(more + 1) * MS));
        }
        events.sort_by_key(|event| event.time_ns);
        scope.ingest(&Batch { events, flows: flows.clone(), watermark_ns: at + 9 * MS, ..Batch::default() });
    }
    scope.end();
    assert_eq!(proto_at(&scope, Hop::AppRecv), Some(Some(Proto::UDP)));
    assert_eq!(proto_at(&scope, Hop::TcpSend), Some(None), "of one protocol alone nothing has to be said");
}

#[test]
fn a_stopped_picture_states_its_age_and_is_no_live_one() {
    let mut scope = busy();
    scope.apply(Action::TogglePause);
    feed(&mut scope, vec![Event::at(Hop::SchedExit, 9_000 * MS)], 9_000 * MS);
    assert!(matches!(scope.frame().header.edge, Edge::Stopped { behind_ns } if behind_ns > 1_000 * MS));
    scope.apply(Action::Follow);
    assert!(!matches!(scope.frame().header.edge, Edge::Stopped { .. }), "{:?}", scope.frame().header);
    scope.set_away("web-1");
    assert_eq!(scope.frame().header.edge, Edge::Away { hosts: "web-1".to_owned() });
    scope.set_away("");
    assert!(!matches!(scope.frame().header.edge, Edge::Away { .. }));
}

/// A headline promises evidence only while that can be shown, also of a stopped view and a long time later.
#[test]
fn the_evidence_of_a_headline_can_be_shown() {
    let mut scope = Scope::new(info(), Options::default());
    let mut n = 0;
    let mut slow = |scope: &mut Scope, to: u32| {
        while n < to {
            let at = u64::from(n) * 10 * MS;
            feed(scope, message(n, at, 6 * MS), at + 9 * MS);
            n += 1;
        }
    };
    let shows = |scope: &mut Scope| {
        assert_ne!(scope.headline().evidence, magscope_report::Evidence::None, "{:?}", scope.headline());
        scope.apply(Action::ShowEvidence);
        let frame = scope.frame();
        assert!(frame.inspector.is_some(), "{:?}", frame.controls.message);
    };
    slow(&mut scope, 200);
    shows(&mut scope);
    scope.apply(Action::TogglePause);
    slow(&mut scope, 400);
    shows(&mut scope);
    scope.apply(Action::TogglePause);
    // The slowest of all is forgotten by then.
    slow(&mut scope, 5_000);
    shows(&mut scope);
}
