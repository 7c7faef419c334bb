//! Remaining program runs of a capture at rest.
//!
//! Programs that cannot be attached again without privileges stay attached and return at their first
//! instruction. Their run rate is estimated from the hits of their hops in the last active interval.

use crate::capture::Capture;
use magscope_core::hop::HopSet;
use magscope_core::{Hop, HopCount};
use std::time::Duration;

/// Hits of every hop, as they are counted while the hop is on.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    /// Counts at the last reading.
    seen: Vec<(Hop, u64)>,
    /// Rate of each hop per second in its last active interval.
    rates: Vec<(Hop, f64)>,
}

impl Runs {
    /// Starts an interval.
    pub fn begin(&mut self, counts: &[HopCount]) {
        self.seen = counts.iter().map(|count| (count.hop, count.seen())).collect();
    }

    /// Ends an interval and stores the rate of each hop that was on.
    pub fn end(&mut self, counts: &[HopCount], on: HopSet, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        for count in counts.iter().filter(|count| on.contains(count.hop)) {
            let before = self.seen.iter().find(|(hop, _)| *hop == count.hop).map_or(0, |(_, seen)| *seen);
            self.rates.retain(|(hop, _)| *hop != count.hop);
            self.rates.push((count.hop, count.seen().saturating_sub(before) as f64 / seconds));
        }
        self.begin(counts);
    }

    /// Program runs per second of these hops.
    pub fn of(&self, hops: HopSet) -> f64 {
        self.rates.iter().filter(|(hop, _)| hops.contains(*hop)).map(|(_, rate)| rate).sum()
    }
}

/// Hops that are off while their programs stay attached.
pub(super) fn lingering(capture: &Capture) -> HopSet {
    capture.switchable().iter().filter(|hop| capture.lingers(*hop)).collect()
}

/// Message about these hops; empty for none.
pub(super) fn words(hops: HopSet, a_second: f64) -> String {
    if hops == HopSet::EMPTY {
        return String::new();
    }
    let names = hops.iter().map(Hop::name).collect::<Vec<_>>().join(", ");
    format!("; still attached, for want of privileges to attach again: {names}, {a_second:.0} runs a second")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(hop: Hop, hits: u64) -> HopCount {
        HopCount { time_ns: 0, hop, kept: hits, filtered: 0, undecided: 0, sampled: 0, synthesised: 0 }
    }

    #[test]
    fn programs_that_stay_attached_are_counted_by_the_last_hits_of_their_hops() {
        let mut runs = Runs::default();
        let on: HopSet = [Hop::IpOut, Hop::UdpRecv].into_iter().collect();
        runs.begin(&[count(Hop::IpOut, 100)]);
        let later = [count(Hop::IpOut, 600), count(Hop::UdpRecv, 250), count(Hop::DevXmit, 9)];
        runs.end(&later, on, Duration::from_millis(500));
        assert!((runs.of(on) - 1_500.0).abs() < 1e-6);
        // hops that are off count no hits, so the last rate stays
        runs.end(&later, HopSet::EMPTY, Duration::from_secs(10));
        assert!((runs.of([Hop::UdpRecv].into_iter().collect()) - 500.0).abs() < 1e-6);
        assert_eq!(words(HopSet::EMPTY, 3.0), "");
        assert!(words(on, 1_500.0).ends_with("ip.out, udp.recv, 1500 runs a second"), "{}", words(on, 1_500.0));
    }
}
