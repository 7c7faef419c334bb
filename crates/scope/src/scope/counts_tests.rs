//! Counts and rates that a user reads as facts: drops, steps by protocol, rates of narrow pictures, effect of a
//! filter.

use super::tests::{busy, feed, flows, info, message};
use super::*;
use crate::action::Action;
use crate::family::Family;
use crate::pyramid::Lane as Counted;
use magscope_core::node::{Backend, Coverage, DropReason};
use magscope_core::{Batch, Event, Flow, FlowId, Hop};

const MS: u64 = 1_000_000;

fn freed(at_ns: u64, reason: u32) -> Event {
    Event { detail: reason, ..Event::at(Hop::SkbDrop, at_ns) }
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
    assert_eq!(frame.footer.totals.kernel_drops, 1);
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
        let of = |family| {
            let row = measured
                .pairs
                .iter()
                .find(|row| row.family == Some(family) && row.pair.is_some_and(|(_, to)| to == Hop::AppRecv));
            row.map(|row| row.times.n)
        };
        (of(Family::Tcp), of(Family::Udp))
    };
    assert_eq!(rows(&scope), (Some(200), Some(50)), "{:?}", scope.frame().measurements().pairs);
    let estimated = crate::measure::estimated(&scope.pyramid, &scope.below, 0, 3_000 * MS);
    let to_app = |family| {
        let row = estimated
            .iter()
            .find(|row| row.family == Some(family) && row.pair.is_some_and(|(_, to)| to == Hop::AppRecv));
        row.map(|row| row.times.n)
    };
    assert_eq!((to_app(Family::Tcp), to_app(Family::Udp)), (Some(200), Some(50)));
    let heat = scope.frame().heat_map(10, 8);
    let heat: Vec<_> =
        heat.rows.iter().filter(|row| row.pair.is_some_and(|(_, to)| to == Hop::AppRecv)).collect();
    let heat: Vec<_> = heat.iter().map(|row| (row.family, row.times.n)).collect();
    assert_eq!(heat, [(Some(Family::Tcp), 200), (Some(Family::Udp), 50)]);
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
    scope.apply(Action::MeasureOver(crate::Over::Cursors));
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
        let of = |lane| scope.pyramid.total(lane, 0, stretch.1 + 1).count;
        [Counted::Drops, Counted::Events, Counted::Payload(Hop::DevXmit)].map(of)
    };
    let all = before(&scope);
    assert_eq!((all[0], all[2]), (1, 200));
    scope.apply(Action::Filter("pid = 1".to_owned()));
    assert!(scope.frame().view.filter.is_some());
    assert_eq!(before(&scope), all);
}

#[test]
fn a_picture_that_stays_while_events_go_on_says_how_old_it_is() {
    let mut scope = busy();
    assert_eq!(scope.frame().header.picture_age_ns, None);
    for second in 3..10 {
        // Events without journeys: no new journey to show.
        feed(&mut scope, vec![Event::at(Hop::SchedExit, second * 1_000 * MS)], second * 1_000 * MS);
    }
    let frame = scope.frame();
    assert!(frame.header.picture_age_ns.is_some_and(|ns| ns > 5_000 * MS), "{:?}", frame.header);
}

#[test]
fn no_picture_has_no_age() {
    let mut scope = Scope::new(info(), Options::default());
    feed(&mut scope, vec![Event::at(Hop::SchedExit, 12_793_000 * MS)], 12_793_000 * MS);
    assert_eq!(scope.frame().header.picture_age_ns, None);
}
