//! Cost of joining events in the correlator, against a tool that groups and sorts the same events. One run
//! measures one round of one of them, for `scripts/bench-join` to interleave.
//!
//! `join dump FILE`, `join correlate` or `join sort`, and then `mix` or `deep`.

mod spent;
mod windows;

use magscope_core::journey::{Correlator, Limits};
use magscope_core::{Batch, Event};
use std::collections::HashMap;
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use windows::Windows;

/// Invariants of a packet on its path, for a tool without byte ranges: flow, sequence number, identification.
type Key = (u64, u32, u16);

fn key(event: &Event) -> Key {
    // Both ends of a connection share a key: the generator numbers them 2n + 1 and 2n + 2.
    ((event.flow.0.wrapping_sub(1)) / 2, event.seq(), if event.seq() == 0 { event.ip_id } else { 0 })
}

/// Events by key in a map of lists, each then sorted by time: all stay in memory until the last event.
fn group_and_sort(batches: &[Batch]) -> usize {
    let mut groups: HashMap<Key, Vec<Event>> = HashMap::new();
    for event in batches.iter().flat_map(|batch| &batch.events) {
        groups.entry(key(event)).or_default().push(*event);
    }
    for group in groups.values_mut() {
        group.sort_by_key(|event| event.time_ns);
    }
    black_box(&groups).len()
}

fn correlate(batches: &[Batch]) -> usize {
    let (mut correlator, mut done) = (Correlator::new(windows::hops(), Limits::default()), Vec::new());
    let mut journeys = 0;
    for batch in batches {
        correlator.push(batch, &mut done);
        journeys += black_box(&done).len();
        done.clear();
    }
    correlator.finish(&mut done);
    journeys + done.len()
}

/// A record of 32 bytes per event: time, flow, sequence number, length, identification, hop, protocol, and
/// padding.
fn dump(batches: &[Batch], path: &str) -> io::Result<usize> {
    let mut file = BufWriter::new(std::fs::File::create(path)?);
    for event in batches.iter().flat_map(|batch| &batch.events) {
        file.write_all(&event.time_ns.to_le_bytes())?;
        file.write_all(&event.flow.0.to_le_bytes())?;
        file.write_all(&event.seq().to_le_bytes())?;
        file.write_all(&event.len.to_le_bytes())?;
        file.write_all(&event.ip_id.to_le_bytes())?;
        file.write_all(&[event.hop.id(), event.proto.0, 0, 0, 0, 0])?;
    }
    file.flush()?;
    Ok(0)
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mix = Windows { flows: 64, window: 16, lose_every: 500, udp_every: 4, events: 1_000_000 };
    let deep = Windows { flows: 200, window: 500, lose_every: 50, udp_every: 0, events: 3_000_000 };
    let batches = windows::make(if args.last() == Some(&"deep") { deep } else { mix });
    let events: usize = batches.iter().map(|batch| batch.events.len()).sum();
    let since_ns = spent::ns();
    let found = match args[..] {
        ["dump", path, _] => dump(&batches, path)?,
        ["correlate", _] => correlate(&batches),
        ["sort", _] => group_and_sort(&batches),
        _ => {
            println!("skipped, because scripts/bench-join runs this: join dump FILE|correlate|sort mix|deep");
            return Ok(());
        }
    };
    println!("{events} {} {found}", spent::ns() - since_ns);
    Ok(())
}
