//! Pre-trigger memory: the newest batches, so that data before a trigger can be saved.

use crate::recording::Directory;
use anyhow::Result;
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use magscope_core::{Batch, Change, Event, Flow, FlowId, Task};
use magscope_scope::trigger::Capture;
use magscope_session::{RecordOptions, Recorder};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

/// Maximum number of flows, and of threads; announcements repeat.
const MOST_NAMES: usize = 1 << 16;

/// Maximum number of changes of evicted batches, the newest.
const MOST_CHANGES: usize = 1_000;

/// Buffers batches and saves the window of a trigger as a session.
pub struct TriggerRecorder {
    dir: PathBuf,
    /// Removes the directory if nothing was saved.
    _made: Directory,
    info: NodeInfo,
    held: VecDeque<Batch>,
    bytes: u64,
    most_bytes: u64,
    flows: HashMap<FlowId, Flow>,
    tasks: HashMap<u32, Task>,
    clock: Option<ClockSample>,
    /// Changes of evicted batches: they hold on.
    changes: Vec<Change>,
    /// Up to here, data were evicted; 0 if none were. Nanoseconds of the events' clock.
    evicted_ns: u64,
    saved: u64,
    windows: u64,
}

impl TriggerRecorder {
    /// Saves below a directory and buffers at most `most_bytes`.
    pub fn new(made: Directory, info: &NodeInfo, most_bytes: u64) -> Self {
        TriggerRecorder {
            dir: made.path().to_path_buf(),
            _made: made,
            info: info.clone(),
            held: VecDeque::new(),
            bytes: 0,
            most_bytes,
            flows: HashMap::new(),
            tasks: HashMap::new(),
            clock: None,
            changes: Vec::new(),
            evicted_ns: 0,
            saved: 0,
            windows: 0,
        }
    }

    /// Sets the maximum size.
    pub const fn limit(&mut self, most_bytes: u64) {
        self.most_bytes = most_bytes;
    }

    /// Buffers a batch and evicts the oldest above the limit.
    pub fn hold(&mut self, batch: &Batch) {
        if self.flows.len() + batch.flows.len() > MOST_NAMES {
            self.flows.clear();
        }
        if self.tasks.len() + batch.tasks.len() > MOST_NAMES {
            self.tasks.clear();
        }
        self.flows.extend(batch.flows.iter().map(|flow| (flow.id, *flow)));
        for names in &batch.names {
            self.info.learn(names);
        }
        self.tasks.extend(batch.tasks.iter().map(|task| (task.tid, task.clone())));
        self.clock = self.clock.or(batch.clock.first().copied());
        if batch.is_empty() {
            return;
        }
        self.bytes += cost(batch);
        self.held.push_back(batch.clone());
        while self.bytes > self.most_bytes {
            let Some(oldest) = self.held.pop_front() else { return };
            self.bytes -= cost(&oldest);
            let last_ns = oldest.events.last().map_or(0, |event| event.time_ns);
            self.evicted_ns = self.evicted_ns.max(oldest.watermark_ns).max(last_ns);
            // The last evicted clock sample precedes all remaining data.
            self.clock = oldest.clock.last().copied().or(self.clock);
            self.changes.extend(oldest.changes);
            self.changes.drain(..self.changes.len().saturating_sub(MOST_CHANGES));
        }
    }

    /// Saves the window of a trigger and returns the path.
    pub fn save(&mut self, capture: &Capture) -> Result<String> {
        self.saved += 1;
        let path = self.free_name();
        let mut recorder = Recorder::create(&path, &self.info, RecordOptions::default())?;
        // Behind what was evicted: the recording is of the time that it has all events of.
        let is_short = self.evicted_ns > capture.from_ns;
        let from_ns = if is_short { self.evicted_ns.saturating_add(1) } else { capture.from_ns };
        let inside = |ns: u64| (from_ns..=capture.to_ns).contains(&ns);
        // What was changed before the window holds on in it.
        let is_earlier = |change: &&Change| change.from_ns <= capture.to_ns;
        let mut samples = self.clock.iter().chain(self.held.iter().flat_map(|batch| &batch.clock));
        let before = samples.rfind(|sample| sample.monotonic_ns < from_ns).copied();
        let names = Batch {
            flows: self.flows.values().copied().collect(),
            tasks: self.tasks.values().cloned().collect(),
            clock: before.into_iter().collect(),
            changes: self.changes.iter().filter(is_earlier).cloned().collect(),
            watermark_ns: from_ns,
            ..Batch::default()
        };
        recorder.append(&names)?;
        for batch in &self.held {
            let part = Batch {
                events: batch
                    .events
                    .iter()
                    .filter(|event| inside(event.time_ns))
                    .copied()
                    .collect::<Vec<Event>>(),
                tcp: batch.tcp.iter().filter(|sample| inside(sample.time_ns)).copied().collect(),
                losses: batch
                    .losses
                    .iter()
                    .filter(|loss| loss.to_ns >= from_ns && loss.from_ns <= capture.to_ns)
                    .copied()
                    .collect(),
                hits: batch.hits.iter().filter(|hit| inside(hit.time_ns)).copied().collect(),
                heads: batch.heads.iter().filter(|head| inside(head.time_ns)).cloned().collect(),
                clock: batch.clock.iter().filter(|sample| inside(sample.monotonic_ns)).copied().collect(),
                changes: batch.changes.iter().filter(is_earlier).cloned().collect(),
                names: batch.names.clone(),
                counts: batch.counts.iter().filter(|count| inside(count.time_ns)).copied().collect(),
                synthesis: batch.synthesis.iter().filter(|sum| inside(sum.to_ns)).cloned().collect(),
                watermark_ns: batch.watermark_ns.min(capture.to_ns),
                ..Batch::default()
            };
            if !part.is_empty() {
                recorder.append(&part)?;
            }
        }
        let summary = recorder.close()?;
        self.windows += 1;
        let short = if is_short { "; its beginning was forgotten already (`--trigger-memory`)" } else { "" };
        Ok(format!("{}: {} events, {}{short}", path.display(), summary.events, capture.because))
    }

    /// Number of windows saved.
    pub const fn windows(&self) -> u64 {
        self.windows
    }

    /// An unused name: numbers continue those of earlier runs.
    fn free_name(&mut self) -> PathBuf {
        let name = |n: u64| self.dir.join(format!("trigger-{n:04}.session"));
        while Path::exists(&name(self.saved)) {
            self.saved += 1;
        }
        name(self.saved)
    }
}

/// Size of a batch, bytes.
fn cost(batch: &Batch) -> u64 {
    let names = size_of_val(&batch.flows[..]) + batch.tasks.len() * 64;
    let rest = size_of_val(&batch.tcp[..]) + size_of_val(&batch.losses[..]) + size_of_val(&batch.clock[..]);
    let heads: usize = batch.heads.iter().map(|head| size_of_val(head) + head.bytes.len()).sum();
    let sums: usize = batch.synthesis.iter().map(|sum| size_of_val(sum) + size_of_val(&sum.buckets[..])).sum();
    let rest = rest + heads + sums + size_of_val(&batch.hits[..]) + size_of_val(&batch.counts[..]);
    (size_of::<Batch>() + size_of_val(&batch.events[..]) + names + rest) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::source::{Progress, Source};
    use magscope_core::{Generator, GeneratorOptions, Hop};
    use magscope_session::Session;
    use std::time::Duration;

    fn recorder(most_bytes: u64) -> (tempfile::TempDir, TriggerRecorder, Vec<Event>) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut source = Generator::new(GeneratorOptions {
            events: 50_000,
            batch_events: 500,
            ..GeneratorOptions::default()
        });
        let made = Directory::prepare(&dir.path().join("kept")).expect("it is ours");
        let mut trigger_recorder = TriggerRecorder::new(made, source.info(), most_bytes);
        let (mut batch, mut all) = (Batch::default(), Vec::new());
        let mut more = true;
        while more {
            more = source.next(&mut batch, Duration::ZERO).expect("a generator never fails") == Progress::More;
            trigger_recorder.hold(&batch);
            all.extend_from_slice(&batch.events);
        }
        (dir, trigger_recorder, all)
    }

    fn capture(from_ns: u64, to_ns: u64) -> Capture {
        let at_ns = from_ns.midpoint(to_ns);
        Capture { number: 1, at_ns, from_ns, to_ns, journey: None, because: "forced".to_owned() }
    }

    #[test]
    fn a_window_becomes_a_session_with_exactly_its_events() {
        let (dir, mut trigger_recorder, all) = recorder(u64::MAX);
        let (from, to) = (all[20_000].time_ns, all[29_999].time_ns);
        for n in 0..2 {
            let summary = trigger_recorder.save(&capture(from, to)).expect("it is saved");
            assert!(
                summary.contains("10000 events, forced") && summary.contains(&format!("trigger-000{}", n + 1)),
                "{summary}"
            );
        }
        let session = Session::open(&dir.path().join("kept/trigger-0001.session")).expect("a session");
        assert_eq!((session.damage().len(), session.summary().events), (0, 10_000));
        let (mut replay, mut batch, mut read) = (session.replay(None, None), Batch::default(), Vec::new());
        let mut flows = 0;
        while replay.next(&mut batch, Duration::ZERO).expect("it never fails") == Progress::More {
            read.extend_from_slice(&batch.events);
            flows += batch.flows.len();
        }
        assert_eq!(read, all[20_000..30_000]);
        assert!(flows >= 128, "names are there although they were announced long before");
    }

    #[test]
    fn a_window_has_the_changes_before_its_end_and_none_behind_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Directory::prepare(&dir.path().join("kept")).expect("it is ours");
        let mut trigger_recorder = TriggerRecorder::new(made, &NodeInfo::default(), 64 << 10);
        let change =
            |from_ns: u64, hop: &str| Change { from_ns, to_ns: from_ns + 1, what: format!("disable {hop}") };
        let batch = |time_ns: u64, changes: Vec<Change>| Batch {
            events: vec![Event::at(Hop::DevXmit, time_ns); 100],
            changes,
            watermark_ns: time_ns,
            ..Batch::default()
        };
        let evicted = change(5, "tcp.recv");
        trigger_recorder.hold(&batch(10, vec![evicted.clone()]));
        for at in 20..50 {
            trigger_recorder.hold(&batch(at, Vec::new()));
        }
        assert!(trigger_recorder.evicted_ns > 10, "the change was evicted");
        let (within, behind) = (change(51, "dev.queue"), change(61, "ip.out"));
        trigger_recorder.hold(&batch(52, vec![within.clone()]));
        trigger_recorder.hold(&batch(62, vec![behind]));
        trigger_recorder.save(&capture(50, 60)).expect("it is saved");
        let session = Session::open(&dir.path().join("kept/trigger-0001.session")).expect("a session");
        assert_eq!((session.summary().events, session.changes().0), (100, vec![evicted, within]));
    }

    #[test]
    fn changes_of_evicted_batches_are_bounded() {
        let dir = tempfile::tempdir().expect("a directory");
        let made = Directory::prepare(&dir.path().join("kept")).expect("it is ours");
        let mut trigger_recorder = TriggerRecorder::new(made, &NodeInfo::default(), 0);
        let change = |at: u64| Change { from_ns: at, to_ns: at + 1, what: "detail full".to_owned() };
        for at in 0..MOST_CHANGES as u64 + 3 {
            trigger_recorder.hold(&Batch { changes: vec![change(at)], watermark_ns: at, ..Batch::default() });
        }
        assert_eq!((trigger_recorder.changes.len(), trigger_recorder.changes[0].from_ns), (MOST_CHANGES, 3));
    }

    #[test]
    fn memory_is_bounded_and_what_is_missing_is_said() {
        let (dir, mut trigger_recorder, all) = recorder(1 << 20);
        assert!(trigger_recorder.bytes <= 1 << 20 && trigger_recorder.held.len() > 5);
        let to_ns = all[all.len() - 1].time_ns;
        let summary = trigger_recorder.save(&capture(all[0].time_ns, to_ns)).expect("it is saved");
        assert!(summary.contains("forgotten"), "{summary}");
        // It claims no time that it has no events of.
        let session = Session::open(&dir.path().join("kept/trigger-0001.session")).expect("a session");
        let first_ns = all[all.len() - session.summary().events as usize].time_ns;
        let (observed_ns, _) = session.observed_ns().expect("it is closed");
        assert!(
            observed_ns > trigger_recorder.evicted_ns && observed_ns <= first_ns,
            "{observed_ns} {first_ns}"
        );
    }
}
