//! The beginning of later recordings of one capture, so that each is self-contained.

use super::Announcer;
use magscope_core::changes::StoredChanges;
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use magscope_core::workload::Names;
use magscope_core::{Batch, Hop, HopCount};
use std::collections::BTreeMap;

/// Prerequisites of the rest of the prefix.
#[derive(Default)]
pub struct Prefix {
    announcer: Announcer,
    /// Changes since the start of the capture.
    changes: StoredChanges,
    clock: Option<ClockSample>,
    /// Names since the start of the capture.
    names: NodeInfo,
    /// Kernel counters since the start of the capture: the last, and those at the start of this recording.
    counts: BTreeMap<u8, HopCount>,
    counts_before: BTreeMap<u8, HopCount>,
    begins: bool,
}

impl Prefix {
    /// Starts a recording with the next batch.
    pub fn begin(&mut self) {
        self.announcer.begin();
        self.counts_before = self.counts.clone();
        self.begins = true;
    }

    /// Passes the batch to `to` as the recording needs it. Afterwards the batch is unchanged, except that it
    /// has only the flows and tasks new in this recording.
    pub fn with<T>(&mut self, batch: &mut Batch, to: impl FnOnce(&Batch) -> T) -> T {
        self.announcer.complete(batch);
        let counts = batch.counts.iter().map(|count| self.since_beginning(count)).collect();
        let counts = std::mem::replace(&mut batch.counts, counts);
        let (changes, clock, names) = (batch.changes.len(), batch.clock.len(), batch.names.len());
        if std::mem::take(&mut self.begins) {
            batch.changes.splice(0..0, self.changes.all().iter().cloned());
            batch.clock.splice(0..0, self.clock);
            batch.names.splice(0..0, self.names());
        }
        let result = to(batch);
        batch.changes.drain(..batch.changes.len() - changes);
        batch.clock.drain(..batch.clock.len() - clock);
        batch.names.drain(..batch.names.len() - names);
        batch.counts = counts;
        self.remember(batch);
        result
    }

    /// Stores what later recordings need of a batch that is in no recording.
    pub fn learn(&mut self, batch: &Batch) {
        self.announcer.learn(batch);
        self.remember(batch);
    }

    fn remember(&mut self, batch: &Batch) {
        self.changes.remember(&batch.changes);
        self.clock = batch.clock.last().copied().or(self.clock);
        for names in &batch.names {
            self.names.learn(names);
        }
        for count in &batch.counts {
            self.counts.insert(number(count.hop), *count);
        }
    }

    /// The names since the start of the capture as one row.
    fn names(&self) -> Option<Names> {
        let NodeInfo { netns, interfaces, cgroups, containers, .. } = self.names.clone();
        Some(Names { time_ns: 0, netns, interfaces, cgroups, containers }).filter(|names| !names.is_empty())
    }

    fn since_beginning(&self, count: &HopCount) -> HopCount {
        let Some(before) = self.counts_before.get(&number(count.hop)) else { return *count };
        HopCount {
            kept: count.kept.saturating_sub(before.kept),
            filtered: count.filtered.saturating_sub(before.filtered),
            undecided: count.undecided.saturating_sub(before.undecided),
            sampled: count.sampled.saturating_sub(before.sampled),
            synthesised: count.synthesised.saturating_sub(before.synthesised),
            ..*count
        }
    }
}

const fn number(hop: Hop) -> u8 {
    hop.id()
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{Change, Event, Flow, FlowId, Proto};

    fn count(recorded: u64, sampled: u64) -> HopCount {
        HopCount {
            time_ns: 1,
            hop: Hop::DevXmit,
            kept: recorded,
            filtered: 0,
            undecided: 0,
            sampled,
            synthesised: 0,
        }
    }

    #[test]
    fn a_later_recording_has_what_it_needs_and_the_batch_is_left_as_it_was() {
        let mut prefix = Prefix::default();
        prefix.begin();
        let (local, remote) = ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        let flow = Flow { id: FlowId(7), netns: 1, proto: Proto::TCP, local, remote };
        let change = Change { from_ns: 1, to_ns: 2, what: "disable dev.queue".to_owned() };
        let event = Event { flow: FlowId(7), ..Event::at(Hop::DevXmit, 10) };
        let mut first = Batch {
            events: vec![event],
            flows: vec![flow],
            changes: vec![change.clone()],
            counts: vec![count(10, 90)],
            ..Batch::default()
        };
        prefix.with(&mut first, |batch| assert_eq!(batch.counts, [count(10, 90)]));

        prefix.begin();
        let mut second = Batch { events: vec![event], counts: vec![count(15, 130)], ..Batch::default() };
        prefix.with(&mut second, |batch| {
            assert_eq!(batch.flows, [flow], "named again in the recording that uses it");
            assert_eq!(batch.changes, std::slice::from_ref(&change));
            assert_eq!(batch.counts, [count(5, 40)], "of this recording alone");
        });
        assert_eq!((second.counts, second.changes), (vec![count(15, 130)], vec![]));

        let mut third = Batch { events: vec![event], ..Batch::default() };
        prefix.with(&mut third, |batch| assert_eq!((batch.flows.len(), batch.changes.len()), (0, 0)));
    }

    #[test]
    fn a_recording_has_what_it_needs_of_the_time_without_a_recording() {
        let mut prefix = Prefix::default();
        let (local, remote) = ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:80".parse().unwrap());
        let flow = Flow { id: FlowId(7), netns: 1, proto: Proto::TCP, local, remote };
        let change = Change { from_ns: 1, to_ns: 2, what: "sample 1/100 all".to_owned() };
        let changes = vec![change.clone()];
        let counts = vec![count(10, 90)];
        prefix.learn(&Batch { flows: vec![flow], changes, counts, ..Batch::default() });

        prefix.begin();
        let event = Event { flow: FlowId(7), ..Event::at(Hop::DevXmit, 10) };
        let mut first = Batch { events: vec![event], counts: vec![count(15, 130)], ..Batch::default() };
        prefix.with(&mut first, |batch| {
            assert_eq!((&batch.flows[..], &batch.changes[..]), (&[flow][..], &[change][..]));
            assert_eq!(batch.counts, [count(5, 40)], "of this recording alone");
        });
    }
}
