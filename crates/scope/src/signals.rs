//! Signals of connections: samples of their state, kept to be drawn, computed with and triggered on.

use crate::channel::Channel;
use crate::look::Column;
use crate::math::Math;
use crate::pyramid::Keep;
use magscope_core::{FlowId, TcpSample};
use std::collections::{HashMap, VecDeque};

/// Samples kept, about 7 MB. Live the oldest go; of a recording every second one goes, and so do later ones.
pub const MOST: usize = 1 << 16;

/// A signal as instants and values, in order of time.
pub type Series = Vec<(u64, f64)>;

/// Samples of all connections, in order of time.
#[derive(Debug, Default)]
pub struct Signals {
    samples: VecDeque<TcpSample>,
    keep: Keep,
    /// Every so manyth sample of a recording is kept.
    stride: u64,
    seen: u64,
}

impl Signals {
    /// Nothing yet.
    pub fn new(keep: Keep) -> Self {
        Signals { keep, stride: 1, ..Signals::default() }
    }

    /// Takes a sample. One that is late stands where it belongs.
    pub fn push(&mut self, sample: TcpSample) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.stride.max(1)) {
            return;
        }
        if self.samples.len() >= MOST {
            if self.keep == Keep::All {
                let mut stays = false;
                self.samples.retain(|_| {
                    stays = !stays;
                    stays
                });
                self.stride = self.stride.max(1) * 2;
            } else {
                self.samples.pop_front();
            }
        }
        if self.samples.back().is_none_or(|last| last.time_ns <= sample.time_ns) {
            self.samples.push_back(sample);
        } else {
            let at = self.samples.partition_point(|known| known.time_ns <= sample.time_ns);
            self.samples.insert(at, sample);
        }
    }

    /// The samples of a stretch, and of each connection the last one before it.
    fn within(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &TcpSample> {
        let first = self.samples.partition_point(|sample| sample.time_ns < from_ns);
        let last = self.samples.partition_point(|sample| sample.time_ns <= to_ns);
        self.samples.range(first.min(last)..last)
    }

    /// The connection with the most samples in a stretch, as one of its ends sees it.
    pub fn busiest(&self, from_ns: u64, to_ns: u64) -> Option<FlowId> {
        let mut counts: HashMap<FlowId, u64> = HashMap::new();
        self.within(from_ns, to_ns).for_each(|sample| *counts.entry(sample.flow).or_default() += 1);
        counts.into_iter().max_by_key(|(flow, count)| (*count, *flow)).map(|(flow, _)| flow)
    }

    /// A signal of a connection over a stretch, begun by its last value before it.
    pub fn series(&self, channel: Channel, flow: FlowId, from_ns: u64, to_ns: u64) -> Series {
        let first = self.samples.partition_point(|sample| sample.time_ns < from_ns);
        let own = |sample: &&TcpSample| sample.flow == flow;
        let before = self.samples.range(..first).rev().take(MOST / 16).find(own);
        let value = |sample: &TcpSample| Some((sample.time_ns, channel.of_sample(sample)?));
        before.into_iter().chain(self.within(from_ns, to_ns).filter(own)).filter_map(value).collect()
    }
}

/// A series as columns over a stretch. A value holds until the next one, up to the last.
pub fn columns(series: &[(u64, f64)], (from_ns, to_ns): (u64, u64), columns: usize) -> Vec<Option<Column>> {
    let mut out: Vec<Option<Column>> = vec![None; columns];
    let span = u128::from(to_ns.saturating_sub(from_ns).max(1));
    let column = |time_ns: u64| {
        let at = u128::from(time_ns.saturating_sub(from_ns)) * columns as u128 / span;
        (at as usize).min(columns.saturating_sub(1))
    };
    let mut held: Option<(usize, f64)> = None;
    for (time_ns, value) in series.iter().filter(|(time_ns, value)| *time_ns <= to_ns && value.is_finite()) {
        let at = column(*time_ns);
        let one = |value: f64| Column { min: value, max: value, last: value };
        if let Some((since, before)) = held {
            out.iter_mut().take(at).skip(since + 1).for_each(|place| *place = Some(one(before)));
        }
        let Some(place) = out.get_mut(at) else { continue };
        *place = Some(match (*place, *time_ns < from_ns) {
            (Some(known), false) => {
                Column { min: known.min.min(*value), max: known.max.max(*value), last: *value }
            }
            _ => one(*value),
        });
        held = Some((at, *value));
    }
    out
}

/// What a computed channel is, from its channels' series.
pub fn compute(math: Math, series: impl Fn(Channel) -> Series) -> Series {
    match math {
        Math::Difference(a, b) => held_together(&series(a), &series(b), |a, b| Some(a - b)),
        Math::Ratio(a, b) => held_together(&series(a), &series(b), |a, b| (b != 0.0).then(|| a / b)),
        Math::Rate(a) => {
            let series = series(a);
            let rate = |pair: &[(u64, f64)]| {
                let [(t0, v0), (t1, v1)] = pair else { return None };
                (t1 > t0).then(|| (*t1, (v1 - v0) * 1e9 / (t1 - t0) as f64))
            };
            series.windows(2).filter_map(rate).collect()
        }
        Math::Average(a, n) => {
            let n = usize::from(n.max(1));
            let (series, mut sum) = (series(a), 0.0);
            let mut out = Series::new();
            for (at, (time_ns, value)) in series.iter().enumerate() {
                sum += value;
                if at >= n
                    && let Some((_, left)) = series.get(at - n)
                {
                    sum -= left;
                }
                out.push((*time_ns, sum / (at + 1).min(n) as f64));
            }
            out
        }
    }
}

/// Two series as one: at every instant of either, with the values that hold then.
pub fn held_together<T>(
    first: &[(u64, f64)],
    second: &[(u64, f64)],
    of: impl Fn(f64, f64) -> Option<T>,
) -> Vec<(u64, T)> {
    let (mut left, mut right) = (first.iter().peekable(), second.iter().peekable());
    let (mut held, mut out) = ((None, None), Vec::new());
    loop {
        let next = [left.peek(), right.peek()].into_iter().flatten().map(|(at_ns, _)| *at_ns).min();
        let Some(now_ns) = next else { return out };
        let is_now = |point: &&(u64, f64)| point.0 == now_ns;
        held.0 = left.next_if(is_now).map(|(_, value)| *value).or(held.0);
        held.1 = right.next_if(is_now).map(|(_, value)| *value).or(held.1);
        if let (Some(a), Some(b)) = held
            && let Some(value) = of(a, b)
        {
            out.push((now_ns, value));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A sample with a window and a round-trip time.
    pub(crate) fn sample(flow: u64, time_ns: u64, cwnd: u32, srtt_us: u32) -> TcpSample {
        TcpSample {
            time_ns,
            socket: flow,
            flow: FlowId(flow),
            cwnd,
            ssthresh: 10,
            srtt_us,
            rttvar_us: srtt_us / 2,
            rto_us: 200_000,
            packets_out: cwnd / 2,
            snd_wnd: 65_535,
            rcv_wnd: 65_535,
            state: 1,
            ..TcpSample::default()
        }
    }

    #[test]
    fn memory_is_bounded_and_a_recording_is_thinned_evenly() {
        for keep in [Keep::Newest, Keep::All] {
            let mut signals = Signals::new(keep);
            for n in 0..200_000 {
                signals.push(sample(1, n * 1_000, 10, 100));
            }
            assert!(signals.samples.len() <= MOST);
            let first = signals.samples.front().map(|s| s.time_ns);
            assert_eq!(first.is_some_and(|ns| ns < 10_000), keep == Keep::All);
        }
    }

    #[test]
    fn a_value_holds_until_the_next() {
        let columns = columns(&[(5, 1.0), (100, 2.0), (101, 4.0), (150, 3.0)], (50, 250), 4);
        let one = |v: f64| Some(Column { min: v, max: v, last: v });
        assert_eq!(columns, [one(1.0), Some(Column { min: 2.0, max: 4.0, last: 4.0 }), one(3.0), None]);
        assert_eq!(super::columns(&[], (0, 10), 2), [None, None]);
    }

    #[test]
    fn series_are_computed_with() {
        let of = |channel| match channel {
            Channel::Srtt => vec![(0, 10.0), (10, 20.0), (30, 40.0)],
            _ => vec![(5, 2.0), (10, 4.0), (20, 0.0)],
        };
        let (a, b) = (Channel::Srtt, Channel::Rttvar);
        assert_eq!(compute(Math::Difference(a, b), of), [(5, 8.0), (10, 16.0), (20, 20.0), (30, 40.0)]);
        assert_eq!(compute(Math::Ratio(a, b), of), [(5, 5.0), (10, 5.0)]);
        assert_eq!(compute(Math::Rate(a), of), [(10, 1e9), (30, 1e9)]);
        assert_eq!(compute(Math::Average(a, 2), of), [(0, 10.0), (10, 15.0), (30, 30.0)]);
    }

    #[test]
    fn the_busiest_connection_is_taken() {
        let mut signals = Signals::new(Keep::Newest);
        for n in 0..30 {
            signals.push(sample(if n % 3 == 0 { 1 } else { 2 }, n, n as u32, 100));
        }
        assert_eq!(signals.busiest(0, 100), Some(FlowId(2)));
        let series = signals.series(Channel::Cwnd, FlowId(1), 10, 20);
        assert_eq!(series, [(9, 9.0), (12, 12.0), (15, 15.0), (18, 18.0)]);
    }
}
