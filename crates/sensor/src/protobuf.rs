//! A snapshot as Prometheus' length-delimited protobuf messages: the same metrics as the
//! [text](crate::openmetrics). Every distribution is a native histogram in addition to the classic one, with
//! eight buckets per octave.

use crate::figures::{Figures, Kind, Pairs, began_utc_ns, write_all};
use crate::histogram::{LE_NS, NATIVE_SCHEMA, Times};
use crate::snapshot::{HostSnapshot, Snapshot};
use messages::{
    Bucket, BucketSpan, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType, Timestamp,
};
use prost::Message;

mod messages;

/// Times up to this count as 0, seconds: less than the resolution of a nanosecond.
const ZERO_THRESHOLD: f64 = 1e-10;

/// The snapshot as messages.
pub fn write(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Families { all: Vec::new(), kind: Kind::Gauge };
    write_all(&mut out, snapshot);
    let families = out.all.iter().filter(|family| !family.metric.is_empty());
    families.flat_map(Message::encode_length_delimited_to_vec).collect()
}

struct Families {
    all: Vec<MetricFamily>,
    /// Type of the current family.
    kind: Kind,
}

impl Families {
    fn metric(&mut self, labels: &Pairs<'_>, metric: Metric) {
        let pair =
            |(name, value): &(&str, &str)| LabelPair { name: (*name).to_owned(), value: (*value).to_owned() };
        if let Some(family) = self.all.last_mut() {
            family.metric.push(Metric { label: labels.iter().map(pair).collect(), ..metric });
        }
    }

    fn value(&mut self, labels: &Pairs<'_>, value: f64, created: Option<Timestamp>) {
        let metric = match self.kind {
            Kind::Counter => Metric { counter: Some(Counter { value, created }), ..Metric::default() },
            Kind::Gauge | Kind::Info | Kind::Histogram => {
                Metric { gauge: Some(Gauge { value }), ..Metric::default() }
            }
        };
        self.metric(labels, metric);
    }
}

impl Figures for Families {
    fn family(&mut self, name: &'static str, kind: Kind, _unit: &'static str, help: &'static str) {
        self.kind = kind;
        let (suffix, kind) = match kind {
            Kind::Counter => ("_total", MetricType::Counter),
            Kind::Gauge => ("", MetricType::Gauge),
            Kind::Info => ("_info", MetricType::Gauge),
            Kind::Histogram => ("", MetricType::Histogram),
        };
        let name = format!("{name}{suffix}");
        self.all.push(MetricFamily { name, help: help.to_owned(), kind: kind.into(), metric: Vec::new() });
    }

    fn number(&mut self, labels: &Pairs<'_>, n: u64) {
        self.value(labels, n as f64, None);
    }

    fn float(&mut self, labels: &Pairs<'_>, value: f64) {
        self.value(labels, value, None);
    }

    fn seconds(&mut self, labels: &Pairs<'_>, ns: u64) {
        self.value(labels, seconds(ns), None);
    }

    fn counter(&mut self, labels: &Pairs<'_>, host: &HostSnapshot, n: u64) {
        self.value(labels, n as f64, created(host));
    }

    fn histogram(&mut self, labels: &Pairs<'_>, host: &HostSnapshot, times: &Times) {
        let mut below: u64 = 0;
        let bounds = LE_NS.iter().enumerate().map(|(at, le)| {
            below = below.saturating_add(times.bounds.get(at).copied().unwrap_or(0));
            Bucket { cumulative_count: below, upper_bound: seconds(*le) }
        });
        let bucket: Vec<_> = bounds.collect();
        let beyond = times.bounds.iter().skip(LE_NS.len());
        let all = beyond.fold(below, |all, n| all.saturating_add(*n));
        let native = times.native.iter().fold(0_u64, |all, (_, n)| all.saturating_add(*n));
        let (positive_span, positive_delta) = spans(&times.native);
        let histogram = Histogram {
            sample_count: all,
            sample_sum: if all == 0 { 0.0 } else { seconds(times.sum_ns) },
            bucket,
            schema: NATIVE_SCHEMA,
            zero_threshold: ZERO_THRESHOLD,
            zero_count: all.saturating_sub(native),
            positive_span,
            positive_delta,
            created: created(host),
        };
        self.metric(labels, Metric { histogram: Some(histogram), ..Metric::default() });
    }
}

/// Native buckets in wire form: spans with offsets, and delta-encoded counts.
fn spans(buckets: &[(i32, u64)]) -> (Vec<BucketSpan>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<BucketSpan>, Vec<i64>) = (Vec::new(), Vec::new());
    // The first span has its bucket as offset, the others the gap before them.
    let (mut next, mut before) = (0_i32, 0_u64);
    for (bucket, n) in buckets {
        match spans.last_mut() {
            Some(span) if next == *bucket => span.length = span.length.saturating_add(1),
            _ => spans.push(BucketSpan { offset: bucket.saturating_sub(next), length: 1 }),
        }
        deltas.push((*n).cast_signed().wrapping_sub(before.cast_signed()));
        (next, before) = (bucket.saturating_add(1), *n);
    }
    (spans, deltas)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn created(host: &HostSnapshot) -> Option<Timestamp> {
    let ns = began_utc_ns(host)?;
    Some(Timestamp { seconds: (ns / 1_000_000_000).cast_signed(), nanos: (ns % 1_000_000_000) as i32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_run() {
        let (spans, deltas) = spans(&[(-5, 3), (-4, 1), (0, 4), (1, 4)]);
        let spans: Vec<_> = spans.iter().map(|span| (span.offset, span.length)).collect();
        assert_eq!((spans, deltas), (vec![(-5, 2), (3, 2)], vec![3, -2, 3, 0]));
    }
}
