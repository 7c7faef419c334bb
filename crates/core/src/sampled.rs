//! The weight of events in a sampled capture.
//!
//! A sampler leaves events out, and the kernel counts them (`Batch::counts`): of `passed + sampled` events at a
//! hop `passed` were recorded, or added up in the kernel without a record. So each of these has the weight
//! `(passed + sampled) / passed`, and their rate is too low by that factor. The sampler decides before the kernel
//! adds up, so its sums have the same weight as records. For all events of a hop the corrected count is the
//! kernel's count. For a part of them (a namespace, a protocol, their bytes) it is an estimate. The sampler's choice is
//! independent of the event, but chance, or a common rhythm with the traffic, may distort the share of a part.
//! Events that a *filter* rejects are unwanted, and not added.

use crate::batch::Batch;
use crate::change::HopCount;
use crate::hop::{HOP_IDS, Hop};
use crate::node::NodeInfo;
use crate::omissions::{DropRecords, Omissions};
use crate::synthesis::Sum;

/// Events that passed the sampler, recorded or added up, and events sampled out, between two readings of the kernel's counters.
#[derive(Clone, Copy, Debug, Default)]
struct Ratio {
    passed: u64,
    sampled: u64,
}

impl Ratio {
    fn between(from: Option<HopCount>, to: HopCount) -> Self {
        let (passed, sampled) = from.map_or((0, 0), |from| (from.passed(), from.sampled));
        Ratio { passed: to.passed().saturating_sub(passed), sampled: to.sampled.saturating_sub(sampled) }
    }

    /// Events per event that passed.
    fn weight(self) -> Option<f64> {
        (self.passed > 0).then(|| (self.passed as f64 + self.sampled as f64) / self.passed as f64)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct HopState {
    first: Option<HopCount>,
    last: Option<HopCount>,
    lately: Ratio,
    /// Recorded events.
    came: u64,
    /// True if most events of the first reading had been recorded by then: the counters then begin with this
    /// part. Otherwise this part begins in the middle of them.
    whole: bool,
    /// Hits in received sums of the kernel.
    summed: u64,
}

impl HopState {
    /// The reading from which this part counts; `None` for the begin of the capture.
    fn base(&self) -> Option<HopCount> {
        self.first.filter(|_| !self.whole)
    }
}

/// The sampling rate of flows (one in this number), from a setting or a change.
pub fn flows_one_in(setting: &str) -> Option<u32> {
    let flows = setting.strip_prefix("sample flows ")?;
    Some(flows.trim().strip_prefix("1/").and_then(|n| n.parse().ok()).unwrap_or(1).max(1))
}

/// Tracks the sampling of one capture. Of fixed size.
#[derive(Clone, Debug)]
pub struct Sampled {
    hops: Box<[HopState; HOP_IDS]>,
    flow_one_in: u32,
    flows_changed: bool,
    rate_changed: bool,
    omissions: Omissions,
}

impl Sampled {
    /// The initial state of a capture.
    pub fn of(info: &NodeInfo) -> Self {
        let mut sampled = Sampled {
            hops: Box::new([HopState::default(); HOP_IDS]),
            flow_one_in: 1,
            flows_changed: false,
            rate_changed: false,
            omissions: Omissions::default(),
        };
        info.settings.iter().for_each(|setting| sampled.setting(setting));
        sampled
    }

    fn setting(&mut self, setting: &str) {
        if let Some(one_in) = flows_one_in(setting) {
            self.flow_one_in = one_in;
        }
        self.omissions.setting(setting);
    }

    /// Processes a batch's counts and changes.
    pub fn batch(&mut self, batch: &Batch) {
        for change in &batch.changes {
            let before = self.flow_one_in;
            self.setting(&change.what);
            self.flows_changed |= before != self.flow_one_in;
            self.rate_changed |= change.what.starts_with("sample ");
        }
        for event in &batch.events {
            self.hops[usize::from(event.hop.id()) % HOP_IDS].came += 1;
        }
        self.hops[usize::from(Hop::TcpState.id()) % HOP_IDS].came += batch.tcp.len() as u64;
        for count in &batch.counts {
            let state = &mut self.hops[usize::from(count.hop.id()) % HOP_IDS];
            if state.first.is_none() {
                // Some events arrive later than the counters that include them, so the test does not require
                // all.
                state.whole = count.kept <= state.came.saturating_mul(2);
            }
            state.lately = Ratio::between(state.last, *count);
            state.first.get_or_insert(*count);
            state.last = Some(*count);
        }
        for sum in batch.synthesis.iter().filter(|sum| matches!(sum.of, Sum::Since(_) | Sum::Begun)) {
            let state = &mut self.hops[usize::from(sum.hop.id()) % HOP_IDS];
            state.summed = state.summed.saturating_add(sum.n);
        }
    }

    /// Number of hits of a hop that the kernel added up in place of events. Sums in addition to events are
    /// excluded: those events were recorded.
    pub fn added_up(&self, hop: Hop) -> u64 {
        let state = &self.hops[usize::from(hop.id()) % HOP_IDS];
        state.last.map_or(0, |last| last.synthesised.min(state.summed))
    }

    /// Events per event of a hop that was recorded or added up, over all data so far. 1 without sampling.
    pub fn weight(&self, hop: Hop) -> f64 {
        let state = &self.hops[usize::from(hop.id()) % HOP_IDS];
        let Some(last) = state.last else { return 1.0 };
        let from = state.base();
        let part = Ratio::between(from, last).weight();
        part.or_else(|| Ratio::between(None, last).weight()).unwrap_or(1.0)
    }

    /// The same between the last two readings of the counters, about a second apart: the value for a live
    /// screen.
    pub fn weight_lately(&self, hop: Hop) -> f64 {
        let state = &self.hops[usize::from(hop.id()) % HOP_IDS];
        state.lately.weight().unwrap_or_else(|| self.weight(hop))
    }

    /// Numbers of a hop's events that passed the sampler and were sampled out between the last two readings of the counters.
    pub fn lately(&self, hop: Hop) -> (u64, u64) {
        let Ratio { passed, sampled } = self.hops[usize::from(hop.id()) % HOP_IDS].lately;
        (passed, sampled)
    }

    /// The same for all of them.
    pub fn overall(&self, hop: Hop) -> (u64, u64) {
        self.hops[usize::from(hop.id()) % HOP_IDS].last.map_or((0, 0), |last| (last.passed(), last.sampled))
    }

    /// True if a sampler was set while the capture ran: the weight of a hop is then a mean over time.
    pub fn rate_changed(&self) -> bool {
        self.rate_changed
    }

    /// What the capture left out so far.
    pub fn omissions(&self) -> Omissions {
        let state = &self.hops[usize::from(Hop::SkbDrop.id()) % HOP_IDS];
        let drops =
            state.last.map_or_else(DropRecords::default, |last| DropRecords::between(state.base(), last));
        let mut omissions = Omissions { drops, ..self.omissions };
        for state in &*self.hops {
            let Some(last) = state.last.filter(|last| last.hop != Hop::SkbDrop) else { continue };
            let hits = DropRecords::between(state.base(), last).left_out();
            if hits > 0 {
                omissions.left_out = omissions.left_out.saturating_add(hits);
                omissions.left_out_hops.insert(last.hop);
            }
        }
        omissions
    }

    /// Journeys per recorded journey: 1 without sampled flows. `None` with sampled events, because the visible
    /// share of a journey is then unknown, or after a change of the rate.
    pub fn journey_weight(&self) -> Option<f64> {
        (self.omissions.sampled_hops.is_empty() && !self.flows_changed).then(|| f64::from(self.flow_one_in))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::event::Event;
    use crate::flow::FlowId;
    use crate::generator::{Generator, GeneratorOptions};
    use crate::source::Source;
    use crate::synthesis::Synthesis;

    fn info(settings: &[&str]) -> NodeInfo {
        let info = Generator::new(GeneratorOptions::default()).info().clone();
        NodeInfo { settings: settings.iter().map(|s| (*s).to_owned()).collect(), ..info }
    }

    fn counts(hop: Hop, recorded: u64, sampled: u64) -> Batch {
        let count = HopCount {
            time_ns: 0,
            hop,
            kept: recorded,
            filtered: 1_000,
            undecided: 7,
            sampled,
            synthesised: 0,
        };
        Batch { counts: vec![count], ..Batch::default() }
    }

    #[test]
    fn a_weight_is_the_counters_and_lately_only_of_the_last_stretch() {
        let mut sampled = Sampled::of(&info(&["sample 1/10 dev.xmit"]));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        close(sampled.weight(Hop::DevXmit), 1.0);
        sampled.batch(&counts(Hop::DevXmit, 100, 900));
        close(sampled.weight(Hop::DevXmit), 10.0);
        close(sampled.weight(Hop::DevRecv), 1.0);
        sampled.batch(&counts(Hop::DevXmit, 200, 900));
        close(sampled.weight_lately(Hop::DevXmit), 1.0);
        // in a part that begins with the first of the two readings no event was left out
        close(sampled.weight(Hop::DevXmit), 1.0);
        sampled.batch(&counts(Hop::DevXmit, 300, 1200));
        close(sampled.weight(Hop::DevXmit), 2.5);
        close(sampled.weight_lately(Hop::DevXmit), 4.0);
        sampled.batch(&counts(Hop::DevXmit, 300, 1200));
        close(sampled.weight_lately(Hop::DevXmit), 2.5);
        assert_eq!(sampled.journey_weight(), None);
    }

    #[test]
    fn what_came_before_a_sampler_was_set_stands_for_itself() {
        let mut sampled = Sampled::of(&info(&[]));
        let came = |n| Batch { events: vec![Event::at(Hop::DevXmit, 0); n], ..Batch::default() };
        // All of a thousand, then one in four; some arrive after the counters that include them.
        sampled.batch(&came(980));
        sampled.batch(&counts(Hop::DevXmit, 1_000, 0));
        sampled.batch(&came(120));
        sampled.batch(&counts(Hop::DevXmit, 1_100, 300));
        let all = 1_100.0 * sampled.weight(Hop::DevXmit);
        assert!((all - 1_400.0).abs() < 1e-6, "{all}");
        // A part that begins after the thousand has them only in the counters.
        let mut part = Sampled::of(&info(&[]));
        part.batch(&counts(Hop::DevXmit, 1_000, 0));
        part.batch(&came(100));
        part.batch(&counts(Hop::DevXmit, 1_100, 300));
        let all = 100.0 * part.weight(Hop::DevXmit);
        assert!((all - 400.0).abs() < 1e-6, "{all}");
    }

    #[test]
    fn what_the_kernel_added_up_beside_events_is_not_added_to_them() {
        let mut sampled = Sampled::of(&info(&[]));
        let sum =
            |of, n| Synthesis { from_ns: 0, to_ns: 1, hop: Hop::DevXmit, of, n, sum: 0, buckets: Vec::new() };
        let sums = vec![sum(Sum::Since(Hop::IpOut), 90), sum(Sum::Begun, 10), sum(Sum::Flow(FlowId(1)), 100)];
        sampled.batch(&Batch { synthesis: sums, ..Batch::default() });
        assert_eq!(sampled.added_up(Hop::DevXmit), 0, "with a record each");
        let mut batch = counts(Hop::DevXmit, 0, 0);
        batch.counts[0].synthesised = 70;
        sampled.batch(&batch);
        assert_eq!((sampled.added_up(Hop::DevXmit), sampled.added_up(Hop::IpOut)), (70, 0));
    }

    #[test]
    fn sums_of_the_kernel_are_sampled_like_records() {
        let mut sampled = Sampled::of(&info(&["detail histograms", "sample 1/10 dev.xmit"]));
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        let added_up = |recorded, synthesised, sampled| {
            let mut batch = counts(Hop::DevXmit, recorded, sampled);
            batch.counts[0].synthesised = synthesised;
            batch
        };
        sampled.batch(&added_up(0, 100, 900));
        close(sampled.weight(Hop::DevXmit), 10.0);
        // Records instead of sums: the weight is that of both, not of the records alone.
        sampled.batch(&added_up(100, 100, 1_000));
        close(sampled.weight(Hop::DevXmit), 6.0);
        close(sampled.weight_lately(Hop::DevXmit), 2.0);
        assert_eq!((sampled.lately(Hop::DevXmit), sampled.overall(Hop::DevXmit)), ((100, 100), (200, 1_000)));
        close(added_up(0, 100, 900).counts[0].weight(), 10.0);
    }

    #[test]
    fn drop_records_that_were_left_out_are_counted() {
        let mut sampled = Sampled::of(&info(&[]));
        assert!(!sampled.omissions().is_narrowed());
        sampled.batch(&counts(Hop::SkbDrop, 3, 50));
        let change = Change { from_ns: 1, to_ns: 2, what: "filter src = 10.0.0.1".to_owned() };
        sampled.batch(&Batch { changes: vec![change], ..Batch::default() });
        let omissions = sampled.omissions();
        assert!(omissions.filtered);
        let drops = DropRecords { passed: 3, filtered: 1_000, undecided: 7, sampled: 50 };
        // The three records are not in this part, so it begins with the reading that has them.
        assert_eq!(omissions.drops, DropRecords::default());
        let mut all = Sampled::of(&info(&[]));
        all.batch(&Batch { events: vec![Event::at(Hop::SkbDrop, 0); 3], ..Batch::default() });
        all.batch(&counts(Hop::SkbDrop, 3, 50));
        assert_eq!(all.omissions().drops, drops);
        assert_eq!((drops.unknown(), drops.left_out(), drops.all()), (57, 1_057, 1_060));
    }

    #[test]
    fn hits_that_were_left_out_are_counted_over_all_hops_but_that_of_drops() {
        let mut sampled = Sampled::of(&info(&[]));
        assert_eq!(sampled.omissions().left_out, 0);
        for hop in [Hop::DevXmit, Hop::DevRecv, Hop::SkbDrop] {
            sampled.batch(&counts(hop, 0, 3));
        }
        let omissions = sampled.omissions();
        assert_eq!((omissions.left_out, omissions.left_out_hops.iter().count()), (2 * 1_010, 2));
        let both = omissions.merged(omissions);
        assert_eq!((both.left_out, both.left_out_hops.iter().count()), (4 * 1_010, 2));
    }

    #[test]
    fn whole_flows_make_journeys_worth_so_many() {
        let mut sampled = Sampled::of(&info(&["filter port = 443", "sample flows 1/16"]));
        assert_eq!(sampled.journey_weight(), Some(16.0));
        let change = |what: &str| Batch {
            changes: vec![Change { from_ns: 1, to_ns: 2, what: what.to_owned() }],
            ..Batch::default()
        };
        sampled.batch(&change("filter off"));
        assert_eq!(sampled.journey_weight(), Some(16.0));
        sampled.batch(&change("sample flows 1/4"));
        assert_eq!(sampled.journey_weight(), None, "part of them counts 16, part 4");
        assert_eq!(Sampled::of(&info(&[])).journey_weight(), Some(1.0));
        assert_eq!(Sampled::of(&info(&["sample flows 1/0"])).journey_weight(), Some(1.0));
    }
}
