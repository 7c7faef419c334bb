//! Ever new connections: neither a sensor nor the averages grow with their number.

use crate::heap::held_bytes;
use crate::made_up_flows::{FLOWS, NewFlows};

use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_sensor::Sensor;
use magscope_sensor::averages::Averages;
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::{Piece, Walker};
use std::time::Duration;

/// Flows that the averages remember.
const MOST_NAMES: usize = 1 << 16;

struct Flowing(NewFlows, NodeInfo);

impl Source for Flowing {
    fn info(&self) -> &NodeInfo {
        &self.1
    }

    fn next(&mut self, batch: &mut Batch, _: Duration) -> Result<Progress, SourceError> {
        self.0.next(batch);
        Ok(Progress::More)
    }
}

/// Bytes after `rounds` rounds, the most of them, and of three times as many more.
fn assert_flat(name: &str, rounds: usize, mut round: impl FnMut()) {
    let before = held_bytes();
    let mut most = |rounds: usize| {
        let held = (0..rounds).map(|_| {
            round();
            held_bytes() - before
        });
        held.max().unwrap_or_default()
    };
    let (full, later) = (most(rounds), most(3 * rounds));
    println!("{name}: {full} bytes, and later {later}");
    // A hash table may grow once more; what is held for good would be three times as much.
    assert!(later <= full + full / 2, "{name}: {full} bytes, and later {later}");
}

#[test]
fn a_sensor_does_not_grow_with_ever_new_flows() {
    let flows = NewFlows::new(2);
    let info = flows.info();
    let limits = Limits { max_flows: 14 * FLOWS, ..Limits::default() };
    let mut sensor = Sensor::new(std::slice::from_ref(&info), false);
    let mut walker = Walker::new(vec![Box::new(Flowing(flows, info))], &OneClock, limits, Duration::ZERO);
    assert_flat("sensor", 120, || {
        walker.step(&mut |piece| sensor.add(&piece)).expect("a generator never fails");
    });
}

#[test]
fn averages_without_watches_do_not_grow_with_ever_new_flows() {
    let mut flows = NewFlows::new(0);
    let mut averages = Averages::new(&flows.info());
    let mut batch = Batch::default();
    assert_flat("averages", 2 * MOST_NAMES / FLOWS, || {
        flows.next(&mut batch);
        averages.add(&Piece::Batch(0, &batch));
    });
}
