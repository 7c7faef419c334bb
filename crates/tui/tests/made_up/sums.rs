//! The kernel's sums of the generated traffic, one second at a time.

use super::{START_NS, World};
use magscope_core::histogram::bucket;
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{Batch, Direction, Event, EventFlags, Hop};
use std::collections::BTreeMap;

/// Count, total time, and counts per bucket.
type Added = (u64, u64, BTreeMap<u16, u32>);

const SECOND: u64 = 1_000_000_000;

/// Direction and connection of an event: its socket at the sender. There is one packet at a time.
fn direction(event: &Event) -> u64 {
    match (event.hop.direction(), event.socket % 10) {
        (Direction::Rx, 1) => event.socket + 1,
        (Direction::Rx, _) => event.socket - 1,
        _ => event.socket,
    }
}

/// The next second, with or without its events.
pub fn second(world: &mut World, number: u64, with_events: bool) -> Batch {
    let mut batch = world.batch_until((number + 1) * SECOND).clone();
    let (from_ns, to_ns) = (START_NS + number * SECOND, START_NS + (number + 1) * SECOND);
    let mut before: BTreeMap<u64, (Hop, u64)> = BTreeMap::new();
    let mut sums: BTreeMap<(Hop, Sum), Added> = BTreeMap::new();
    for event in &batch.events {
        let mut add = |of, amount, bucket: Option<u16>| {
            let (n, sum, buckets) = sums.entry((event.hop, of)).or_default();
            (*n, *sum) = (*n + 1, *sum + amount);
            if let Some(bucket) = bucket {
                *buckets.entry(bucket).or_default() += 1;
            }
        };
        let found = before.get(&direction(event)).copied();
        match found
            .filter(|(hop, _)| hop.rank().is_some() && hop.rank() < event.hop.rank().or(Some(usize::MAX)))
        {
            Some((hop, at_ns)) => {
                add(Sum::Since(hop), event.time_ns - at_ns, Some(bucket(event.time_ns - at_ns) as u16));
            }
            None => add(Sum::Begun, 0, None),
        }
        // A send recorded at its return starts no time.
        if !event.flags.contains(EventFlags::AT_RETURN) {
            before.insert(direction(event), (event.hop, event.time_ns));
        }
        match event.hop {
            Hop::DevXmit | Hop::DevRecv => add(Sum::Flow(event.flow), u64::from(event.len), None),
            Hop::AppSend | Hop::AppRecv => add(Sum::Cgroup(1), u64::from(event.len), None),
            Hop::SkbDrop => add(Sum::Reason(event.drop_reason()), 0, None),
            _ => {}
        }
    }
    let row = |((hop, of), (n, sum, buckets)): ((Hop, Sum), Added)| Synthesis {
        from_ns,
        to_ns,
        hop,
        of,
        n,
        sum,
        buckets: buckets.into_iter().collect(),
    };
    batch.synthesis = sums.into_iter().map(row).collect();
    if !with_events {
        batch.events.clear();
        batch.tcp.clear();
    }
    batch
}
