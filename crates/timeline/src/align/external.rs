//! UTC of two clocks: bounds of their difference where packets give none, and its refutation.
//!
//! A source of UTC claims to be right to within an error. Two things refute it. First, its own other readings: R of the
//! host continued, and UTC moved by more than both errors. Second, packets: with both hosts' UTC as claimed, the
//! difference of the two clocks is outside of the packets' bounds. The packets' bounds give the instants of the two clocks
//! that belong together. So the comparison needs no reading of the same UTC on the other clock, and a UTC that is wrong
//! by hours has none.
//!
//! A refuted source is not used at any time of the recording, because the beginning of its error is unknown.

use super::Alignment;
use crate::pair::{Bounds, Difference, Drift, Recorded, SourcedBounds, State, UtcReading};

/// Instants at equal distances at which the UTC of a pair is compared with its packets.
const LOOKS: u64 = 32;
/// Maximum number of further instants, near breaks of each of the two hosts' clocks.
const MOST_BREAKS: usize = 256;

impl<P: Difference> Alignment<P> {
    /// All information about the difference of two clocks at an instant of R of `a`: packets, and UTC where
    /// both clocks have external bounds.
    pub fn bounds_at(&self, a: u16, b: u16, raw_ns: u64) -> Option<SourcedBounds> {
        let pair = self.pair(a, b);
        let packets = pair.map_or(SourcedBounds::from_packets(Bounds::NONE, State::Unsynchronised), |pair| {
            SourcedBounds::from_packets(pair.bounds_at(raw_ns), pair.state_at(raw_ns))
        });
        let by_utc = self.external_at(a, b, raw_ns);
        if pair.is_none() && by_utc.is_none() {
            return None;
        }
        let by_packets = self.external_by_packets(a, b, raw_ns, &packets.bounds);
        let is_refuted = by_packets.is_some_and(|external| packets.bounds.and(&external).is_empty());
        if is_refuted || !self.refuted_utc(a, b).is_empty() {
            return Some(SourcedBounds { external_refuted: true, ..packets });
        }
        // A UTC that a clock showed twice may have found the other time.
        let external =
            by_utc.filter(|external| by_packets.is_none() || !packets.bounds.and(external).is_empty());
        Some(packets.with_external(&external.unwrap_or(Bounds::NONE)))
    }

    /// The difference of two clocks by UTC alone, at an instant of R of `a`; `None` with a refuted UTC.
    pub fn external_at(&self, a: u16, b: u16, raw_ns: u64) -> Option<Bounds> {
        let here = self.trusted_utc(a, raw_ns)?;
        let there = self.trusted_utc(b, self.clock(b)?.raw_of_utc(here.utc_ns)?)?;
        // The other instant has the sum of both errors, and the difference drifts during that time.
        let slack_ns = Drift::default().over_ns(here.error_ns.saturating_add(there.error_ns));
        let there = UtcReading { error_ns: there.error_ns.saturating_add(slack_ns), ..there };
        Some(UtcReading::difference(&here, &there))
    }

    /// The same from the sample of `b` that is nearest by the packets' bounds. Only for a comparison with them.
    fn external_by_packets(&self, a: u16, b: u16, raw_ns: u64, packets: &Bounds) -> Option<Bounds> {
        let here = self.trusted_utc(a, raw_ns)?;
        let there_ns = |difference_ns: Option<i64>| raw_ns.checked_add_signed(difference_ns?);
        let clock = self.clock(b).filter(|_| self.trusts_utc(b))?;
        let nearest = clock.vouched_near(there_ns(packets.lower), there_ns(packets.upper))?;
        let claimed_ns = nearest.utc_error_ns?.saturating_add(u64::from(nearest.width_ns));
        // By the claims, the two readings are this far apart, and the difference drifts during that time.
        let apart_ns = nearest.realtime_ns.abs_diff(here.utc_ns);
        let apart_ns = apart_ns.saturating_add(here.error_ns).saturating_add(claimed_ns);
        let error_ns = claimed_ns.saturating_add(Drift::default().over_ns(apart_ns));
        let there = UtcReading { raw_ns: nearest.raw_ns, utc_ns: nearest.realtime_ns, error_ns };
        Some(UtcReading::difference(&here, &there))
    }

    /// The clocks of a pair whose UTC is refuted: by its own other readings, or by packets. Where packets between two
    /// clocks refute it and neither contradicts itself, both are.
    pub fn refuted_utc(&self, a: u16, b: u16) -> Vec<u16> {
        [a, b].into_iter().filter(|clock| !self.trusts_utc(*clock)).collect()
    }

    /// UTC of a clock, unless it is refuted.
    pub(super) fn trusted_utc(&self, clock: u16, raw_ns: u64) -> Option<UtcReading> {
        self.clock(clock)?.utc(raw_ns).filter(|_| self.trusts_utc(clock))
    }

    fn contradicts_its_utc(&self, clock: u16) -> bool {
        self.clock(clock).is_some_and(crate::NodeClock::contradicts_its_utc)
    }

    fn trusts_utc(&self, clock: u16) -> bool {
        let of_clock = |(a, b): &&(u16, u16)| *a == clock || *b == clock;
        let is_explained = |(a, b): &(u16, u16)| self.contradicts_its_utc(*a) || self.contradicts_its_utc(*b);
        !self.contradicts_its_utc(clock) && self.utc_refuted.iter().filter(of_clock).all(is_explained)
    }
}

impl Alignment<Recorded> {
    /// Finds the pairs whose packets refute the UTC of one of the two, at any time of the recordings.
    pub(super) fn refute_utc(&mut self) {
        let is_refuted = |(a, b): &(u16, u16)| {
            let mut looks = self.looks(*a, *b).into_iter();
            looks.any(|at| self.bounds_at(*a, *b, at).is_some_and(|sourced| sourced.external_refuted))
        };
        // A clock that contradicts itself is refuted already.
        let open = self.pairs.keys().copied().filter(|(a, b)| self.refuted_utc(*a, *b).is_empty());
        self.utc_refuted = open.filter(is_refuted).collect();
    }

    /// Instants of R of `a` at which UTC is compared with packets: at equal distances, and near breaks of both hosts'
    /// clocks.
    fn looks(&self, a: u16, b: u16) -> Vec<u64> {
        let (Some(pair), Some(here), Some(there)) = (self.pair(a, b), self.clock(a), self.clock(b)) else {
            return Vec::new();
        };
        let ends = || Some((here.samples().first()?.raw_ns, here.samples().last()?.raw_ns));
        let Some((from, to)) = pair.span_ns().or_else(ends) else { return Vec::new() };
        let at =
            |i: u64| from + (u128::from(to.saturating_sub(from)) * u128::from(i) / u128::from(LOOKS)) as u64;
        let mut looks: Vec<u64> = (0..=LOOKS).map(at).collect();
        looks.extend(here.instants_near_breaks(MOST_BREAKS));
        let breaks = there.instants_near_breaks(MOST_BREAKS).into_iter();
        looks.extend(breaks.filter_map(|b_ns| Some(pair.inverse_at(b_ns)?.at_ns)));
        looks
    }
}
