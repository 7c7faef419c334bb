//! Measurements over a stretch of time: exact from the journeys in memory, otherwise from the pyramid.

use crate::lifeline::{Lifeline, Step};
use crate::look::{PairReading, Percentiles, Span};
use crate::protocols::{ByProtocol, only, order};
use crate::pyramid::{Lane, Pyramid};
use magscope_core::hop::PATH_HOPS;
use magscope_core::journey::MAX_FORWARDERS;
use magscope_core::{Hop, Proto};

/// The stretch of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MeasureSpan {
    /// The picture.
    #[default]
    Picture,
    /// Between the cursors; the picture without cursors.
    Cursors,
}

/// The hops that the counted times to a hop are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// All from this one.
    One(Hop),
    /// From several: a journey without the event of a hop has a step from the hop below it.
    Several,
}

impl Origin {
    /// With a time from this hop.
    pub fn with(before: Option<Self>, from: Hop) -> Self {
        match before {
            Some(Self::Several) => Self::Several,
            Some(Self::One(other)) if other != from => Self::Several,
            _ => Self::One(from),
        }
    }

    /// The hop, if it is one.
    pub const fn hop(self) -> Option<Hop> {
        match self {
            Self::One(hop) => Some(hop),
            Self::Several => None,
        }
    }
}

/// Maximum number of origins of the times to a hop that are counted each by itself; the last has all further ones.
pub const MOST_ORIGINS: usize = 3;

/// The origins of the counted times to a hop, each with a lane of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origins([Option<Origin>; MOST_ORIGINS]);

impl Origins {
    /// Number of the lane of times from this hop.
    pub fn lane_of(&mut self, from: Hop) -> u8 {
        let last = MOST_ORIGINS - 1;
        let of = |origin: &Option<Origin>| origin.is_none_or(|origin| origin == Origin::One(from));
        let at = self.0.iter().position(of).unwrap_or(last);
        self.0[at] = Some(Origin::with(self.0[at], from));
        at as u8
    }

    /// Each origin with the number of its lane, in path order.
    pub fn lanes(self) -> impl Iterator<Item = (u8, Origin)> {
        let mut lanes: Vec<(u8, Origin)> =
            (0..).zip(self.0).filter_map(|(lane, origin)| Some((lane, origin?))).collect();
        lanes.sort_by_key(|(_, origin)| origin.hop().map_or(usize::MAX, |hop| hop.rank().unwrap_or(0)));
        lanes.into_iter()
    }

    /// The hop that all times are from, if it is one.
    pub fn only(self) -> Option<Hop> {
        let mut origins = self.0.into_iter().flatten();
        origins.next().filter(|_| origins.next().is_none())?.hop()
    }
}

/// The hops below each hop, from journeys of each protocol.
pub type Below = ByProtocol<[Origins; PATH_HOPS]>;

/// Minimum number of events of a rate, for stretches shorter than a second.
const FEWEST: u64 = 10;

/// Rate per second. `None` if the stretch is too short for its few events: one packet in a picture of 50 µs
/// gives no rate.
pub fn rate(amount: f64, events: u64, stretch_ns: u64) -> Option<f64> {
    let has_rate = events >= FEWEST || stretch_ns >= 1_000_000_000;
    has_rate.then(|| amount * 1e9 / stretch_ns.max(1) as f64)
}

/// The forwarders, and every pair of hops that was counted, with its protocol and its lane, in path order; then the waits
/// between two copies.
pub fn counted(below: &Below) -> impl Iterator<Item = (Proto, Span, Lane)> + '_ {
    let steps = Hop::path().iter().enumerate().flat_map(move |(at, to)| {
        let rows = below.protocols().zip(below.values());
        rows.flat_map(move |(proto, below)| {
            let span = move |origin: Origin| match origin {
                Origin::One(from) => Span::Step(from, *to),
                Origin::Several => Span::Into(*to),
            };
            let origins = below.get(at).copied().unwrap_or_default().lanes();
            origins.map(move |(lane, origin)| (proto, span(origin), Lane::Latency(proto, *to, lane)))
        })
    });
    let forwarders = (1..=MAX_FORWARDERS as u8).flat_map(move |number| {
        below.protocols().map(move |proto| (proto, Span::Forwarder(number), Lane::Forwarded(proto, number)))
    });
    let waits = below.protocols().map(|proto| (proto, Span::Wait, Lane::Waits(proto)));
    forwarders.chain(steps).chain(waits)
}

/// The complete journeys of a stretch of time: a row per protocol that has any, or one empty row.
pub fn whole(pyramid: &Pyramid, from_ns: u64, to_ns: u64) -> Vec<(Option<Proto>, Lane)> {
    let lanes = pyramid.protocols().map(|proto| (Some(proto), Lane::Whole(proto)));
    let rows: Vec<_> = lanes.filter(|(_, lane)| pyramid.total(*lane, from_ns, to_ns).count > 0).collect();
    if rows.is_empty() { vec![(None, Lane::Journeys)] } else { rows }
}

/// Whole journeys name their protocol only if there are others.
fn named(readings: impl Iterator<Item = PairReading>) -> Vec<PairReading> {
    let mut readings: Vec<_> = readings.collect();
    if only(readings.iter().filter_map(|reading| reading.proto)).is_some() {
        readings.iter_mut().filter(|reading| reading.span == Span::Whole).for_each(|of| of.proto = None);
    }
    readings
}

/// Every time of a journey that is counted, but for the whole: its steps in path order, its forwarders, and its waits.
pub fn spans(line: &Lifeline) -> impl Iterator<Item = (Span, Step)> + '_ {
    let steps = line.steps_outside_forwarders().map(|step| (Span::Step(step.from, step.to), step));
    let steps = steps.chain(line.passages().map(|step| (Span::Forwarder(step.forwarder), step)));
    steps.chain(line.waits().map(|wait| (Span::Wait, wait)))
}

/// Exact percentiles, by the nearest rank.
pub fn percentiles(times: &mut [u64]) -> Percentiles {
    times.sort_unstable();
    let at = |part: f64| {
        let rank = (times.len() as f64 * part).ceil() as usize;
        times.get(rank.max(1) - 1).copied().unwrap_or(0)
    };
    Percentiles {
        n: times.len() as u64,
        min_ns: at(0.0),
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        max_ns: at(1.0),
        exact: true,
    }
}

/// Instants and durations, nanoseconds.
type Times = Vec<(u64, u64)>;

/// Mean difference between one time and the next (RFC 3550, without its smoothing), of times in the order of their instants.
fn jitter(times: &[(u64, u64)]) -> Option<f64> {
    let pairs = times.windows(2).map(|pair| pair[1].1.abs_diff(pair[0].1) as f64);
    let n = pairs.len();
    (n > 0).then(|| pairs.sum::<f64>() / n as f64)
}

/// The complete journeys, a row per protocol, then every observed pair of hops. A journey is assigned
/// by its beginning, a pair by the instant at its upper hop; the stretch includes both ends.
pub fn exact<'a>(lines: impl Iterator<Item = &'a Lifeline>, from_ns: u64, to_ns: u64) -> Vec<PairReading> {
    let inside = |at_ns: u64| (from_ns..=to_ns).contains(&at_ns);
    // Spans of each protocol, whole journeys among them.
    let mut pairs: Vec<(Proto, Span, Times)> = Vec::new();
    let mut add =
        |proto, span, at_ns, ns| match pairs.iter_mut().find(|(of, other, _)| (*of, *other) == (proto, span)) {
            Some((.., times)) => times.push((at_ns, ns)),
            None => pairs.push((proto, span, vec![(at_ns, ns)])),
        };
    for line in lines {
        if line.journey.verdict.is_whole()
            && inside(line.start_ns())
            && let Some(total_ns) = line.journey.total_ns()
        {
            add(line.journey.proto, Span::Whole, line.start_ns(), total_ns);
        }
        for (span, step) in spans(line).filter(|(_, step)| inside(step.at_ns)) {
            add(line.journey.proto, span, step.at_ns, step.ns);
        }
    }
    let place = |span: Span| span.hops().map(|(from, to)| (to.rank(), from.rank()));
    let kind = |span: Span| (span != Span::Whole, span == Span::Wait);
    let number = |span: Span| if let Span::Forwarder(number) = span { number } else { 0 };
    pairs.sort_by_key(|(proto, span, _)| (kind(*span), place(*span), number(*span), order(*proto)));
    let stretch_ns = to_ns.saturating_sub(from_ns);
    let reading = |proto, span, mut times: Vec<(u64, u64)>| {
        times.sort_unstable();
        let jitter_ns = jitter(&times);
        let mut only: Vec<u64> = times.into_iter().map(|(_, ns)| ns).collect();
        let times = percentiles(&mut only);
        PairReading { proto, span, times, per_s: rate(times.n as f64, times.n, stretch_ns), jitter_ns }
    };
    let none = pairs.first().is_none_or(|(_, span, _)| *span != Span::Whole);
    let none = none.then(|| reading(None, Span::Whole, Vec::new()));
    let pairs = pairs.into_iter().map(|(proto, span, times)| reading(Some(proto), span, times));
    named(none.into_iter().chain(pairs))
}

/// The same from the pyramid, to within its classes and tiles.
pub fn estimated(pyramid: &Pyramid, below: &Below, from_ns: u64, to_ns: u64) -> Vec<PairReading> {
    let stretch_ns = to_ns.saturating_sub(from_ns);
    let reading = |proto, span, lane| {
        let times = pyramid.total(lane, from_ns, to_ns).percentiles();
        PairReading { proto, span, times, per_s: rate(times.n as f64, times.n, stretch_ns), jitter_ns: None }
    };
    let pairs = counted(below).map(|(proto, span, lane)| reading(Some(proto), span, lane));
    let pairs = pairs.filter(|reading| reading.times.n > 0);
    let whole = whole(pyramid, from_ns, to_ns).into_iter();
    named(whole.map(|(proto, lane)| reading(proto, Span::Whole, lane)).chain(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;
    use crate::look::Exemplar;
    use crate::pyramid::Keep;
    use proptest::prelude::*;

    /// Instant of sending, time on the wire, time of the reader.
    type Made = (u64, u64, u64);

    #[test]
    fn each_pair_of_hops_has_its_own_times_but_for_the_rarest() {
        let mut below = Below::default();
        let origins = &mut below.entry(Proto::TCP).unwrap()[Hop::AppRecv.rank().unwrap()];
        assert_eq!([Hop::TaskRun, Hop::TaskRun].map(|from| origins.lane_of(from)), [0, 0]);
        assert_eq!(origins.only(), Some(Hop::TaskRun));
        assert_eq!([Hop::SockReady, Hop::TaskRun].map(|from| origins.lane_of(from)), [1, 0]);
        assert_eq!(origins.only(), None);
        let spans = |below: &Below| -> Vec<(Span, Lane)> {
            let steps = counted(below).filter(|(_, span, _)| span.to() == Some(Hop::AppRecv));
            steps.map(|(_, span, lane)| (span, lane)).collect()
        };
        let lane = |number| Lane::Latency(Proto::TCP, Hop::AppRecv, number);
        let in_path_order = [
            (Span::Step(Hop::SockReady, Hop::AppRecv), lane(1)),
            (Span::Step(Hop::TaskRun, Hop::AppRecv), lane(0)),
        ];
        assert_eq!(spans(&below), in_path_order);
        let origins = &mut below.entry(Proto::TCP).unwrap()[Hop::AppRecv.rank().unwrap()];
        assert_eq!([Hop::TcpRecv, Hop::IpIn, Hop::SockReady].map(|from| origins.lane_of(from)), [2, 2, 1]);
        let last = spans(&below).pop().unwrap();
        assert_eq!((last, last.0.hops(), spans(&below).len()), ((Span::Into(Hop::AppRecv), lane(2)), None, 3));
    }

    proptest! {
        #[test]
        fn measurements_equal_brute_force(
            journeys in prop::collection::vec((1_000_000_000..2_000_000_000_u64, 0..5_000_000_u64, 1..9_000_000_u64), 1..60),
            from in 900_000_000..1_500_000_000_u64,
            width in 1..1_200_000_000_u64,
        ) {
            let to = from + width;
            let marks = |(at, wire, read): &(u64, u64, u64)| {
                [(Hop::DevXmit, *at), (Hop::DevRecv, at + wire), (Hop::AppRecv, at + wire + read)]
            };
            let lines: Vec<_> = journeys.iter().zip(1..).map(|(j, id)| lifeline(id, &marks(j))).collect();
            let seen = exact(lines.iter(), from, to);
            let inside = |t: u64| t >= from && t <= to;
            let truth = |of: &dyn Fn(&Made) -> (u64, u64)| {
                let mut times: Vec<_> = journeys.iter().map(of).filter(|(t, _)| inside(*t)).collect();
                times.sort_unstable();
                times
            };
            let wire = truth(&|(at, wire, _)| (at + wire, *wire));
            let read = truth(&|(at, wire, read)| (at + wire + read, *read));
            let whole = truth(&|(at, wire, read)| (*at, wire + read));
            for (span, truth) in [(Span::Step(Hop::DevXmit, Hop::DevRecv), wire), (Span::Step(Hop::DevRecv, Hop::AppRecv), read), (Span::Whole, whole)] {
                let reading = seen.iter().find(|reading| reading.span == span);
                let Some(reading) = reading else { prop_assert!(truth.is_empty()); continue };
                let mut sorted: Vec<u64> = truth.iter().map(|(_, ns)| *ns).collect();
                sorted.sort_unstable();
                prop_assert_eq!(reading.times.n, truth.len() as u64);
                for (part, ns) in [(0.5, reading.times.p50_ns), (0.9, reading.times.p90_ns), (0.99, reading.times.p99_ns)] {
                    // At least this part is at most the percentile, and no smaller value satisfies that.
                    let needed = (sorted.len() as f64 * part).ceil() as usize;
                    prop_assert!(sorted.iter().filter(|t| **t <= ns).count() >= needed);
                    prop_assert!(sorted.is_empty() || sorted.iter().filter(|t| **t < ns).count() < needed.max(1));
                }
                prop_assert_eq!(reading.times.max_ns, sorted.last().copied().unwrap_or(0));
                let s = width as f64 / 1e9;
                match reading.per_s {
                    Some(per_s) => prop_assert!((per_s - truth.len() as f64 / s).abs() < 1e-6),
                    None => prop_assert!(truth.len() < 10 && width < 1_000_000_000),
                }
                let steps: Vec<f64> = truth.windows(2).map(|p| p[0].1.abs_diff(p[1].1) as f64).collect();
                let mean = (!steps.is_empty()).then(|| steps.iter().sum::<f64>() / steps.len() as f64);
                prop_assert_eq!(reading.jitter_ns, mean);
            }
        }

        #[test]
        fn the_pyramid_says_the_same_to_within_its_classes(
            times in prop::collection::vec((0..60_000_000_000_u64, 1..1_000_000_000_u64), 50..400),
        ) {
            let mut pyramid = Pyramid::new(Keep::All);
            for (at, ns) in &times {
                pyramid.count(Lane::Latency(Proto::TCP, Hop::DevRecv, 0), *at, *ns);
                pyramid.journey(Exemplar { key: *at, start_ns: *at, total_ns: *ns, x: 0.0 });
            }
            pyramid.settle();
            let mut below = Below::default();
            below.entry(Proto::TCP).unwrap()[Hop::DevRecv.rank().unwrap()].lane_of(Hop::DevXmit);
            let seen = estimated(&pyramid, &below, 0, 60_000_000_001);
            let truth = percentiles(&mut times.iter().map(|(_, ns)| *ns).collect::<Vec<_>>());
            for reading in &seen {
                prop_assert_eq!((reading.times.n, reading.times.max_ns), (truth.n, truth.max_ns));
                for (seen, truth) in [(reading.times.p50_ns, truth.p50_ns), (reading.times.p99_ns, truth.p99_ns)] {
                    prop_assert!(seen.abs_diff(truth) as f64 <= truth as f64 * 0.0626 + 1.0, "{} for {}", seen, truth);
                }
            }
            prop_assert_eq!(seen.len(), 2);
        }
    }
}
