//! Captures of different kinds, to see every view of each.

use super::made_up::{START_NS, World as MadeUp, info, published, storm};
use super::{SECOND, summed};
use magscope_core::journey::{Across, Limits};
use magscope_core::node::{NodeInfo, Service};
use magscope_core::{Batch, Correlator, DetailKind, Direction, Event, Hop, Proto};
use magscope_scope::look::ClockPair;
use magscope_scope::recorded::Window as Span;
use magscope_scope::{Action, Options, Scope, State};
use magscope_timeline::pair::State as Clock;

/// A name, and a function that makes the capture.
type Kind = (&'static str, fn() -> Scope);

/// Every kind.
pub const KINDS: [Kind; 6] = [
    ("idle", idle),
    ("loss", lossy),
    ("short", short),
    ("three_hosts", three_hosts),
    ("sums", sums),
    ("node", published::scope),
];

/// A host that lacks much, with the reasons in sentences, and long names of custom probes' places.
pub fn lacking() -> Scope {
    let mut info = info();
    for row in info.coverage.hops.iter_mut().step_by(3) {
        let because = "the kernel has no function of this name, because it was built without the option, or the compiler put \
                       it into each caller; `magnet-scope doctor` has the list of all that this kernel lacks";
        row.service = Service::Missing { because: because.to_owned() };
    }
    let path = "uprobe:/opt/company/services/inventory/releases/current/bin/inventory-server:handle_request_of_client name=handle";
    info.probes = vec![path.parse().expect("a custom probe")];
    let mut scope = Scope::new(info, Options::default());
    scope.ingest(&Batch { watermark_ns: START_NS + SECOND, ..Batch::default() });
    scope
}

/// A live capture of a host without traffic.
pub fn idle() -> Scope {
    let mut scope = Scope::new(info(), Options::default());
    scope.tick(3 * SECOND);
    scope
}

/// Datagrams of which the receiver's kernel drops 85 of 100.
pub fn lossy() -> Scope {
    let mut scope = Scope::new(info(), Options::default());
    let mut world = MadeUp::new(2_000.0);
    let mut sent = 0;
    for tenth in 1..=20 {
        let mut batch = world.batch_until(tenth * SECOND / 10).clone();
        let events = std::mem::take(&mut batch.events);
        // One datagram ends before the next begins.
        batch.events = events.into_iter().flat_map(|event| lose(event, &mut sent)).collect();
        batch.events.sort_by_key(|event| event.time_ns);
        scope.ingest(&batch);
    }
    scope
}

/// Drops 17 of 20 datagrams behind the driver. `sent` counts them.
fn lose(event: Event, sent: &mut u32) -> Vec<Event> {
    if event.proto != Proto::UDP {
        return vec![event];
    }
    *sent += u32::from(event.hop == Hop::IpOut);
    let is_lost = *sent % 20 < 17;
    let is_later = event.hop.direction() == Direction::Rx && event.hop != Hop::DevRecv;
    match event.hop {
        Hop::SkbDrop => Vec::new(),
        _ if !is_lost => vec![event],
        Hop::DevRecv => {
            let mut dropped = event;
            (dropped.hop, dropped.time_ns, dropped.detail) =
                (Hop::SkbDrop, event.time_ns + 700, DetailKind::DropReason.of(2));
            vec![event, dropped]
        }
        _ if is_later => Vec::new(),
        _ => vec![event],
    }
}

/// Ten thousand connections of one datagram each.
pub fn short() -> Scope {
    let mut scope = Scope::new(info(), Options::default());
    for first in (0..10_000).step_by(1_000) {
        scope.ingest(&storm::flows(first..first + 1_000));
    }
    scope
}

/// A recording of three hosts with different certainty of their clocks.
pub fn three_hosts() -> Scope {
    let named = |host: &str| NodeInfo { host: host.to_owned(), ..info() };
    let infos = ["web-07", "balancer-01", "db-02"].map(named);
    let recorded = Some(Span { from_ns: START_NS, to_ns: START_NS + 2 * SECOND });
    let options = Options { state: State::Replay, recorded, ..Options::default() };
    let mut scope = Scope::of_several(infos.to_vec(), options);
    let pair = |a: &str, b: &str, state, half_width_ns| ClockPair {
        hosts: (a.to_owned(), b.to_owned()),
        state: Some(state),
        offset_ns: Some(-3_600_000_000_012),
        half_width_ns,
        drift_ppm: Some((1.25, 0.03)),
        packets_used: 18_204,
        bound: (0..64).map(|n| (START_NS + n * SECOND / 32, 18_000 + n * 300)).collect(),
        ..ClockPair::default()
    };
    scope.set_clock_pairs(vec![
        pair("web-07", "balancer-01", Clock::Certified, Some(18_000)),
        pair("balancer-01", "db-02", Clock::OneSided, None),
    ]);
    let mut correlator = Correlator::of_node(&infos[0], Limits::default());
    let mut world = MadeUp::new(400.0);
    for tenth in 1..=20 {
        let batch = world.batch_until(tenth * SECOND / 10);
        scope.ingest_batch(tenth as u16 % 3, batch);
        let mut done = Vec::new();
        correlator.push(batch, &mut done);
        for mut journey in done {
            journey.across = Across::within(18_000);
            scope.ingest_journey(journey);
        }
    }
    scope.end();
    scope.apply(Action::Fit);
    scope
}

/// A capture of the kernel's sums alone.
pub fn sums() -> Scope {
    summed(0)
}
