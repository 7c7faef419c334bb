//! Clones: machines continued from one saved state have one boot id, and separate clocks.
//!
//! Recordings of one boot share a clock: at one instant of R, `CLOCK_REALTIME` is the same in all of them. Clones run on
//! from the same R at different times, so their R differ at one time of day. Where the samples of two recordings
//! contradict each other, each has a clock of its own, which is the safe conclusion: packets then bound the difference.

use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;

/// Samples nearer to each other than this on R are compared.
const NEAR_NS: u64 = 1_000_000_000;
/// Tolerance of a comparison, beyond the widths of the samples and a tenth of their distance: chrony slews by less.
const SLACK_NS: u128 = 1_000_000;
/// Two recordings that follow each other on R have no more than this in common by the time of day.
const COMMON_NS: i128 = 100_000_000;

/// Removes the boot id of each recording whose samples contradict an earlier recording of the same boot. Returns their
/// positions.
pub fn separate_clones(infos: &mut [NodeInfo], samples: &[Vec<ClockSample>]) -> Vec<usize> {
    let of = |at: usize| samples.get(at).map_or(&[][..], Vec::as_slice);
    let mut separated = Vec::new();
    for at in 1..infos.len() {
        let (before, rest) = infos.split_at_mut(at);
        let Some(info) = rest.first_mut().filter(|info| !info.boot_id.is_empty()) else { continue };
        let mut of_boot = before.iter().enumerate().filter(|(_, other)| other.boot_id == info.boot_id);
        if of_boot.any(|(other, _)| contradict(of(other), of(at))) {
            info.boot_id.clear();
            separated.push(at);
        }
    }
    separated
}

/// True if two series of samples, each in order of time, cannot be of one clock. `CLOCK_REALTIME` may be set at any time,
/// so one agreement is enough for one clock.
fn contradict(a: &[ClockSample], b: &[ClockSample]) -> bool {
    let mut is_near = false;
    for sample in b {
        let next = a.partition_point(|other| other.raw_ns <= sample.raw_ns);
        let around = [next.checked_sub(1).and_then(|before| a.get(before)), a.get(next)];
        for other in around.into_iter().flatten() {
            let distance_ns = other.raw_ns.abs_diff(sample.raw_ns);
            if distance_ns > NEAR_NS {
                continue;
            }
            is_near = true;
            let ahead = |s: &ClockSample| i128::from(s.realtime_ns) - i128::from(s.raw_ns);
            let widths_ns = u128::from(sample.width_ns) + u128::from(other.width_ns);
            let tolerance_ns = widths_ns + u128::from(distance_ns / 10) + SLACK_NS;
            if (ahead(sample) - ahead(other)).unsigned_abs() <= tolerance_ns {
                return false;
            }
        }
    }
    // One after the other by R, and at the same time by the time of day.
    is_near || common_ns(a, b) > COMMON_NS
}

/// Time that two recordings have in common by `CLOCK_REALTIME`, nanoseconds; negative for a gap.
fn common_ns(a: &[ClockSample], b: &[ClockSample]) -> i128 {
    let ends = |samples: &[ClockSample]| {
        Some((i128::from(samples.first()?.realtime_ns), i128::from(samples.last()?.realtime_ns)))
    };
    let common =
        |((from_a, to_a), (from_b, to_b)): ((i128, i128), (i128, i128))| to_a.min(to_b) - from_a.max(from_b);
    ends(a).zip(ends(b)).map_or(0, common)
}
