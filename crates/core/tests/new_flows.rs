//! Ever new connections, each of which is soon idle for good: memory does not grow with their number.

use crate::common::heap::held_bytes;
use crate::common::new_flows::{FLOWS, NewFlows};

use magscope_core::journey::{Correlator, Limits};
use magscope_core::{Batch, Hop, Journey};

/// Documented memory of a stored flow, bytes: its names, its place in the tables, and its share of the streams.
const FLOW_BYTES: i64 = 640;
/// Queues of idle sockets until the next clean-up, bytes.
const SOCKETS_BYTES: i64 = 1 << 19;
/// Tables of a fixed size: the newest packets and segments on their path.
const TABLES_BYTES: i64 = 14 << 10;

/// Events of a batch.
const BATCH: usize = 512;

/// A correlator and what it holds, bytes.
struct Fed {
    flows: NewFlows,
    correlator: Correlator,
    batch: Batch,
    done: Vec<Journey>,
    /// A hop without its events.
    lacks: Option<Hop>,
    before: i64,
}

impl Fed {
    fn new(messages: u32, limits: Limits) -> Self {
        let (flows, before) = (NewFlows::new(messages), held_bytes());
        let correlator = Correlator::new(flows.info().coverage.served(), limits);
        Fed { flows, correlator, batch: Batch::default(), done: Vec::new(), lacks: None, before }
    }

    /// Feeds this number of new flows; returns the bytes of the correlator, without the batches.
    fn take(&mut self, flows: usize) -> i64 {
        for _ in 0..flows / FLOWS {
            self.flows.next(&mut self.batch);
            self.batch.events.retain(|event| Some(event.hop) != self.lacks);
            let mut events = std::mem::take(&mut self.batch.events);
            while !events.is_empty() {
                self.batch.events.extend(events.drain(..events.len().min(BATCH)));
                self.batch.watermark_ns = self.batch.events.last().map_or(0, |event| event.time_ns);
                self.correlator.push(&self.batch, &mut self.done);
                self.batch.clear();
                self.done.clear();
            }
        }
        (self.batch, self.done) = (Batch::default(), Vec::new());
        held_bytes() - self.before
    }
}

/// Feeds a correlator until it is full, and three times as long again.
fn assert_bounded(messages: u32, most: usize, rounds: usize) {
    let mut fed = Fed::new(messages, Limits { max_flows: most, ..Limits::default() });
    let mut most_bytes = |rounds: usize| (0..rounds).map(|_| fed.take(most)).max().unwrap_or_default();
    let (full, later) = (most_bytes(rounds), most_bytes(3 * rounds));
    println!("{messages} messages: {full} bytes, and later {later}, for {most} flows");
    assert!(fed.correlator.flows().count() <= most);
    // A hash table may grow once more; what is held for good would be three times as much.
    assert!(later <= full + full / 4, "{full} bytes, and later {later}");
    let room = FLOW_BYTES * most as i64 + SOCKETS_BYTES + TABLES_BYTES;
    assert!(later <= room, "{later} bytes for {most} flows, more than {room}");
}

#[test]
fn a_flow_of_few_messages_holds_its_names_alone() {
    assert_bounded(2, 28 * FLOWS, 6);
}

#[test]
fn a_flow_of_many_messages_holds_its_names_alone() {
    assert_bounded(20, 7 * FLOWS, 2);
}

#[test]
fn requested_visits_do_not_add_up() {
    // Each journey lacks the return of its `send`, waits for it, and requests visits of its stream.
    let held = |messages: u32| {
        let mut fed = Fed::new(messages, Limits::default());
        (fed.lacks, fed.flows.events_per_s) = (Some(Hop::AppSend), 10_000);
        fed.take(FLOWS)
    };
    let (few, many) = (held(20), held(250));
    println!("{few} bytes after few messages, {many} after many");
    assert!(many <= few + few / 4, "{few} bytes after few messages, {many} after many");
}
