//! Signals of connections: samples of their state, for drawing, math and triggers.

use crate::channel::Channel;
use crate::look::Column;
use crate::math::Math;
use crate::pyramid::Keep;
use magscope_core::{FlowId, TcpSample};
use magscope_report::stats::heaviest::{Heaviest, Weighed};
use std::collections::VecDeque;

/// Maximum number of samples, about 7 MB. Live, the oldest are evicted; of a recording every second sample is
/// removed, and later ones are thinned.
pub const MOST: usize = 1 << 16;

/// Maximum number of connections with a count of sent bytes.
const MOST_SENDERS: usize = 4096;
/// Time after the first sample in which the followed connection is chosen, live. Then it is fixed.
const CHOOSE_NS: u64 = 1_000_000_000;
/// Time without a sample after which a followed connection has ended.
const OVER_NS: u64 = 10_000_000_000;

/// Bytes sent by one end of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    bytes: u64,
    /// Next byte to send, by its last sample.
    next: Option<u32>,
    last_ns: u64,
}

impl Weighed for Sent {
    fn weight(&self) -> u64 {
        self.bytes
    }

    fn merge(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl Sent {
    fn count(&mut self, sample: &TcpSample) {
        let more = match self.next {
            None => sample.send_queue_bytes,
            // A late sample has an older number.
            Some(next) => sample.snd_nxt.wrapping_sub(next).cast_signed().max(0).unsigned_abs(),
        };
        if self.next.is_none() || more > 0 {
            self.next = Some(sample.snd_nxt);
        }
        self.bytes = self.bytes.saturating_add(u64::from(more));
        self.last_ns = self.last_ns.max(sample.time_ns);
    }
}

/// A signal as instants and values, in order of time.
pub type Series = Vec<(u64, f64)>;

/// Samples of all connections, in order of time.
#[derive(Debug)]
pub struct Signals {
    samples: VecDeque<TcpSample>,
    senders: Heaviest<FlowId, Sent>,
    /// The connection of the TCP signals without a pick, from its sender's side.
    followed: Option<(FlowId, Sent)>,
    first_ns: Option<u64>,
    keep: Keep,
    /// One of this number of samples of a recording is kept.
    stride: u64,
    seen: u64,
}

impl Signals {
    /// An empty set.
    pub fn new(keep: Keep) -> Self {
        let (samples, senders) = (VecDeque::new(), Heaviest::new(MOST_SENDERS));
        Signals { samples, senders, followed: None, first_ns: None, keep, stride: 1, seen: 0 }
    }

    /// Adds a sample; a late one is inserted in order.
    pub fn push(&mut self, sample: TcpSample) {
        self.follow(&sample);
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
            let at = self.samples.partition_point(|other| other.time_ns <= sample.time_ns);
            self.samples.insert(at, sample);
        }
    }

    /// The samples of a stretch, and of each connection the last one before it.
    fn within(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &TcpSample> {
        let first = self.samples.partition_point(|sample| sample.time_ns < from_ns);
        let last = self.samples.partition_point(|sample| sample.time_ns <= to_ns);
        self.samples.range(first.min(last)..last)
    }

    /// The connection of the TCP signals without a pick: the end of one that sent the most bytes. Of a
    /// recording, that is the most over all data read. Live, it is chosen in the first second, and stays until
    /// the connection ends.
    pub fn followed(&self) -> Option<FlowId> {
        self.followed.map(|(flow, _)| flow)
    }

    fn follow(&mut self, sample: &TcpSample) {
        let sent = self.senders.entry(sample.flow);
        sent.count(sample);
        let (new, now_ns) = (*sent, sample.time_ns);
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        let Some((flow, before)) = &mut self.followed else {
            self.followed = Some((sample.flow, new));
            return;
        };
        if *flow == sample.flow {
            *before = new;
            return;
        }
        let may_choose =
            self.keep == Keep::All || before.bytes == 0 || now_ns <= first_ns.saturating_add(CHOOSE_NS);
        if may_choose && new.bytes > before.bytes {
            self.followed = Some((sample.flow, new));
        } else if before.last_ns.saturating_add(OVER_NS) < now_ns && new.bytes > 0 {
            let lives = |sent: &Sent| sent.last_ns.saturating_add(OVER_NS) >= now_ns;
            let living = self.senders.iter().filter(|(_, sent)| lives(sent));
            let most = living.max_by_key(|(flow, sent)| (sent.bytes, **flow));
            self.followed = most.map(|(flow, sent)| (*flow, *sent));
        }
    }

    /// A signal of a connection over a stretch, starting with its last value before it.
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
            (Some(previous), false) => {
                Column { min: previous.min.min(*value), max: previous.max.max(*value), last: *value }
            }
            _ => one(*value),
        });
        held = Some((at, *value));
    }
    out
}

/// The series of a computed channel, from the series of its inputs.
pub fn compute(math: Math, series: impl Fn(Channel) -> Series) -> Series {
    match math {
        Math::Difference(a, b) => paired(&series(a), &series(b), |a, b| Some(a - b)),
        Math::Ratio(a, b) => paired(&series(a), &series(b), |a, b| (b != 0.0).then(|| a / b)),
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

/// Two series as one: both current values at every instant of either.
pub fn paired<T>(
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
    fn the_sender_of_the_most_bytes_is_followed_and_stays() {
        const MS: u64 = 1_000_000;
        let sent = |flow, time_ns, snd_nxt| TcpSample { snd_nxt, ..sample(flow, time_ns, 40, 100) };
        let mut live = Signals::new(Keep::Newest);
        // The receiver's idle end 1 has most of the samples; its sender 2 wraps around.
        for n in 0..100_u32 {
            live.push(sent(1, u64::from(n) * MS, 77));
            live.push(sent(1, u64::from(n) * MS + 1, 77));
            live.push(sent(2, u64::from(n) * MS + 2, (u32::MAX - 50).wrapping_add(n * 10)));
        }
        assert_eq!(live.followed(), Some(FlowId(2)));
        // Another connection later sends more: the followed one stays until its end.
        for n in 1_000..20_000_u32 {
            live.push(sent(3, u64::from(n) * MS, n * 10_000));
            live.push(sent(2, u64::from(n) * MS + 2, n * 10));
        }
        assert_eq!(live.followed(), Some(FlowId(2)));
        for n in 20_000..31_000_u32 {
            live.push(sent(3, u64::from(n) * MS, n * 10_000));
            live.push(sent(1, u64::from(n) * MS, 77));
        }
        assert_eq!(live.followed(), Some(FlowId(3)), "the one before is over");

        let mut recorded = Signals::new(Keep::All);
        for n in 0..5_000_u32 {
            recorded.push(sent(2, u64::from(n) * MS, n));
            recorded.push(sent(3, u64::from(n) * MS, if n < 3_000 { 5 } else { 5 + (n - 3_000) * 9 }));
        }
        assert_eq!(recorded.followed(), Some(FlowId(3)), "the most of all of the recording");
    }

    #[test]
    fn a_series_begins_with_the_value_before() {
        let mut signals = Signals::new(Keep::Newest);
        for n in 0..30 {
            signals.push(sample(if n % 3 == 0 { 1 } else { 2 }, n, n as u32, 100));
        }
        let series = signals.series(Channel::Cwnd, FlowId(1), 10, 20);
        assert_eq!(series, [(9, 9.0), (12, 12.0), (15, 15.0), (18, 18.0)]);
    }
}
