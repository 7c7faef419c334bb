//! Test recordings, and in-memory files.
#![allow(dead_code)] // each test file uses a part

use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{Batch, EventFlags, Flow, Generator, GeneratorOptions, Hop, Task};
use magscope_export::{Export, Output, Written};
use magscope_timeline::align::Aligner;
use magscope_timeline::merged_reader::{self, Piece};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A recording in memory.
#[derive(Clone, Debug)]
pub struct Recording {
    pub info: NodeInfo,
    pub batches: Vec<Batch>,
}

impl Recording {
    /// A generator's recording with these process names in turn, every third flow over IPv6.
    pub fn generated(options: GeneratorOptions, names: &[String]) -> Self {
        let mut source = Generator::new(options);
        let (info, mut batches) = (source.info().clone(), Vec::new());
        let (mut batch, mut at, mut sixes) = (Batch::default(), 0, BTreeSet::new());
        loop {
            let progress = source.next(&mut batch, Duration::ZERO).expect("a generator never fails");
            let name = |task: &mut Task| {
                task.comm = names.get(at % names.len().max(1)).cloned().unwrap_or_default();
                at += 1;
            };
            batch.tasks.iter_mut().for_each(name);
            for flow in batch.flows.iter_mut().filter(|flow| is_ipv6(flow)) {
                (flow.local, flow.remote) = (ipv6(flow.local), ipv6(flow.remote));
                sixes.insert(flow.id);
            }
            for event in batch.events.iter_mut().filter(|event| sixes.contains(&event.flow)) {
                // IPv6 has no identifications.
                (event.flags, event.ip_id) = (event.flags.with(EventFlags::IPV6), 0);
            }
            batches.push(batch.clone());
            if progress == Progress::End {
                return Recording { info, batches };
            }
        }
    }

    /// Feeds the whole recording to an export.
    pub fn export(&self, export: &mut dyn Export) -> Written {
        struct Played<'r>(&'r Recording, usize);
        impl Source for Played<'_> {
            fn info(&self) -> &NodeInfo {
                &self.0.info
            }

            fn next(&mut self, batch: &mut Batch, _: Duration) -> Result<Progress, SourceError> {
                batch.clear();
                let Some(next) = self.0.batches.get(self.1) else { return Ok(Progress::End) };
                batch.clone_from(next);
                self.1 += 1;
                Ok(Progress::More)
            }
        }
        let alignment = Aligner::new(std::slice::from_ref(&self.info)).finish();
        let mut played = Played(self, 0);
        let mut visit = |piece: Piece<'_>| export.piece(&piece).expect("memory takes all");
        merged_reader::walk(&mut [&mut played], &alignment, Limits::default(), Duration::ZERO, &mut visit)
            .expect("it is in memory");
        export.finish().expect("memory takes all")
    }
}

/// The same for both ends of a connection.
fn is_ipv6(flow: &Flow) -> bool {
    (u32::from(flow.local.port()) + u32::from(flow.remote.port())).is_multiple_of(3)
}

fn ipv6(end: SocketAddr) -> SocketAddr {
    match end.ip() {
        IpAddr::V4(ip) => {
            SocketAddr::new(Ipv6Addr::from(0xfd00 << 112 | u128::from(u32::from(ip))).into(), end.port())
        }
        IpAddr::V6(_) => end,
    }
}

/// Generator options and process names.
pub fn recordings() -> impl Strategy<Value = (GeneratorOptions, Vec<String>)> {
    let name = prop_oneof!["[a-z]{1,15}", "\\PC{1,15}", "[\\x00-\\x20\"\\\\=,;{}ä]{1,12}", ".{1,15}"];
    (1_u32..12, 500_u64..4_000, 64_u32..40_000, 0_u32..20, any::<u64>(), prop::collection::vec(name, 1..5))
        .prop_map(|(flows, events, max_message_bytes, lose_every, seed, names)| {
            let options = GeneratorOptions {
                flows,
                events,
                max_message_bytes,
                lose_every,
                seed,
                batch_events: 512,
                ..GeneratorOptions::default()
            };
            (options, names)
        })
}

/// Files in memory, by name.
#[derive(Clone, Debug, Default)]
pub struct Files(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Files {
    /// A new one.
    pub fn create(&self, name: &str) -> Box<dyn Output> {
        Box::new(File { files: self.clone(), name: name.to_owned(), bytes: Vec::new() })
    }

    /// Content of a file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.0.lock().expect("no writer panics").get(name).cloned().expect("it was closed")
    }
}

struct File {
    files: Files,
    name: String,
    bytes: Vec<u8>,
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for File {
    fn close(self: Box<Self>) -> io::Result<()> {
        self.files.0.lock().expect("no writer panics").insert(self.name, self.bytes);
        Ok(())
    }
}

/// Arbitrary kernel sums, including those of a damaged file.
pub fn sums() -> impl Strategy<Value = Vec<Synthesis>> {
    let hop = || prop::sample::select(Hop::ALL);
    // Small numbers too, so that some flows and cgroups exist and some buckets are valid.
    let number = || prop_oneof![0_u64..12, any::<u64>()];
    let of = (0_u8..6, number(), hop()).prop_map(|(kind, id, from)| match kind {
        0 => Sum::Since(from),
        4 => Sum::Reason(id as u32),
        _ => Sum::from_numbers(kind, id).expect("a number is a number"),
    });
    let bucket = (prop_oneof![0_u16..700, any::<u16>()], any::<u32>());
    let sum = (number(), number(), hop(), of, number(), number(), prop::collection::vec(bucket, 0..6));
    let sum = sum.prop_map(|(from_ns, to_ns, hop, of, n, sum, buckets)| {
        let buckets = if matches!(of, Sum::Since(_)) { buckets } else { Vec::new() };
        Synthesis { from_ns, to_ns, hop, of, n, sum, buckets }
    });
    prop::collection::vec(sum, 0..20)
}
