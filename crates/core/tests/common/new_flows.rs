//! Ever new connections: each has its own addresses, some messages, and then no more traffic.

use magscope_core::node::NodeInfo;
use magscope_core::source::Source;
use magscope_core::{Batch, Generator, GeneratorOptions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Connections of a batch; every fourth is UDP.
pub const CONNECTIONS: u32 = 64;
/// Flows of a batch: each connection has two ends.
pub const FLOWS: usize = 2 * CONNECTIONS as usize;

/// Batches of ever new connections.
pub struct NewFlows {
    messages: u32,
    /// Events per second of event time.
    pub events_per_s: u64,
    batches: u32,
    now_ns: u64,
}

impl NewFlows {
    /// Connections with this number of messages each, on average.
    pub const fn new(messages: u32) -> Self {
        NewFlows { messages, events_per_s: 1_000_000, batches: 0, now_ns: 0 }
    }

    fn generator(&self) -> Generator {
        Generator::new(GeneratorOptions {
            flows: CONNECTIONS,
            events: u64::from(CONNECTIONS * self.messages * 14),
            batch_events: usize::MAX,
            max_message_bytes: 1024,
            events_per_s: self.events_per_s,
            seed: u64::from(self.batches),
            ..GeneratorOptions::default()
        })
    }

    /// The host that sees them.
    pub fn info(&self) -> NodeInfo {
        self.generator().info().clone()
    }

    /// The next batch: connections that no batch before has had.
    pub fn next(&mut self, batch: &mut Batch) {
        let mut generator = self.generator();
        generator.next(batch, Duration::ZERO).expect("a generator never fails");
        let client = Ipv4Addr::from(0x0a00_0001 + self.batches);
        for end in batch.flows.iter_mut().flat_map(|flow| [&mut flow.local, &mut flow.remote]) {
            if end.ip() == IpAddr::from([10, 0, 0, 1]) {
                *end = SocketAddr::from((client, end.port()));
            }
        }
        let shift_ns = self.now_ns;
        batch.watermark_ns += shift_ns;
        batch.events.iter_mut().for_each(|event| event.time_ns += shift_ns);
        batch.clock.clear();
        self.now_ns = batch.watermark_ns;
        self.batches += 1;
    }
}
