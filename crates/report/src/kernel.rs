//! The kernel's sums in a report. The section is separate: its times belong to packets and sockets, a journey's
//! to bytes.

use super::builder::MAX_FLOWS;
use super::figures::{bytes, count_in, fit, plural, time, wrap};
use super::text::{QUANTILE, quantiles};
use crate::stats::Quantiles;
use magscope_core::flow::FlowId;
use magscope_core::histogram::{LONGEST_NS, bucket, bucket_upper_ns, quantile};
use magscope_core::hop::Hop;
use magscope_core::synthesis::{Sum, Synthesis};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The kernel's sums.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelTable {
    /// From the first interval's beginning to the last one's end, nanoseconds.
    pub span_ns: u64,
    /// Quantiles and the maximum are too long by at most this fraction.
    pub resolution: f64,
    /// Times from hop to hop of the same packet or the same socket.
    pub pairs: Vec<KernelPair>,
    /// Hits of hops.
    pub hops: Vec<KernelHop>,
    /// The flows with the most bytes at a hop.
    pub flows: Vec<KernelFlow>,
    /// Flows at hops outside the table.
    pub flows_left: u64,
}

/// Two hops that the same packet or socket passed one after the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelPair {
    /// The hop it left.
    pub from: Hop,
    /// The hop it reached.
    pub to: Hop,
    /// The mean, exactly, nanoseconds.
    pub mean_ns: f64,
    /// Durations.
    pub times: Quantiles,
}

/// Hits of one hop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KernelHop {
    /// The hop.
    pub hop: Option<Hop>,
    /// Number of hits.
    pub hits: u64,
    /// Of those, the number without a known predecessor.
    pub begun: u64,
    /// Their payload, if packets were added up.
    pub bytes: Option<u64>,
    /// Of those, the bytes outside the kernel's map, which belong to no flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest_bytes: Option<u64>,
}

/// One flow at one hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelFlow {
    /// Protocol and ends, the hop's own first; the number for unknown ends.
    pub flow: String,
    /// The hop.
    pub hop: Hop,
    /// Packets on the wire.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
}

#[derive(Default)]
struct Pair {
    buckets: BTreeMap<u16, u64>,
    sum_ns: u64,
}

/// Sums up the kernel's sums over all intervals.
#[derive(Default)]
pub struct KernelSums {
    span: Option<(u64, u64)>,
    pairs: BTreeMap<(Hop, Hop), Pair>,
    hops: BTreeMap<Hop, KernelHop>,
    flows: BTreeMap<(u16, FlowId, Hop), (u64, u64)>,
    flows_left: u64,
}

impl KernelSums {
    pub fn add(&mut self, node: u16, row: &Synthesis) {
        let (from, to) = self.span.unwrap_or((row.from_ns, row.to_ns));
        self.span = Some((from.min(row.from_ns), to.max(row.to_ns)));
        let hop = self.hops.entry(row.hop).or_default();
        hop.hop = Some(row.hop);
        match row.of {
            Sum::Since(from) => {
                hop.hits = hop.hits.saturating_add(row.n);
                let pair = self.pairs.entry((from, row.hop)).or_default();
                // outside data may hold any value
                for (at, n) in row.buckets.iter().filter(|(at, _)| usize::from(*at) <= bucket(LONGEST_NS)) {
                    let sum = pair.buckets.entry(*at).or_default();
                    *sum = sum.saturating_add(u64::from(*n));
                }
                pair.sum_ns = pair.sum_ns.saturating_add(row.sum);
                return;
            }
            Sum::Begun => {
                hop.hits = hop.hits.saturating_add(row.n);
                hop.begun = hop.begun.saturating_add(row.n);
                return;
            }
            Sum::Flow(flow) => {
                let key = (node, flow, row.hop);
                if self.flows.len() < MAX_FLOWS || self.flows.contains_key(&key) {
                    let (packets, bytes) = self.flows.entry(key).or_default();
                    (*packets, *bytes) = (packets.saturating_add(row.n), bytes.saturating_add(row.sum));
                } else {
                    self.flows_left += 1;
                }
            }
            Sum::Rest => hop.rest_bytes = Some(hop.rest_bytes.unwrap_or(0).saturating_add(row.sum)),
            Sum::Cgroup(_) | Sum::Reason(_) => {}
        }
        hop.bytes = Some(hop.bytes.unwrap_or(0).saturating_add(row.sum));
    }

    /// From the first interval to the last; `None` without intervals.
    pub const fn span(&self) -> Option<(u64, u64)> {
        self.span
    }

    /// The table; `None` without content.
    pub fn finish(self, top: usize, name: impl Fn(u16, FlowId) -> String) -> Option<KernelTable> {
        let (from_ns, to_ns) = self.span?;
        let mut flows: Vec<_> = self.flows.into_iter().collect();
        flows.sort_by_key(|(key, (_, bytes))| (std::cmp::Reverse(*bytes), *key));
        let flows_left = self.flows_left + flows.len().saturating_sub(top) as u64;
        let flow = |((node, flow, hop), (packets, bytes)): ((u16, FlowId, Hop), (u64, u64))| KernelFlow {
            flow: name(node, flow),
            hop,
            packets,
            bytes,
        };
        Some(KernelTable {
            span_ns: to_ns.saturating_sub(from_ns),
            resolution: 1.0 / 16.0,
            pairs: self.pairs.into_iter().filter_map(|(ends, pair)| pair.row(ends)).collect(),
            hops: self.hops.into_values().collect(),
            flows: flows.into_iter().take(top).map(flow).collect(),
            flows_left,
        })
    }
}

impl Pair {
    fn row(&self, (from, to): (Hop, Hop)) -> Option<KernelPair> {
        let n = self.buckets.values().fold(0_u64, |sum, n| sum.saturating_add(*n));
        let quantile = |share| quantile(self.buckets.iter().map(|(bucket, n)| (*bucket, *n)), share);
        let times = Quantiles {
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            max_ns: self.buckets.keys().last().map_or(0, |bucket| bucket_upper_ns(*bucket)),
            n,
        };
        (n > 0).then(|| KernelPair { from, to, mean_ns: self.sum_ns as f64 / n as f64, times })
    }
}

pub fn write(out: &mut String, table: &KernelTable, width: usize) -> fmt::Result {
    let head = format!(
        "\nAdded up by the kernel in {}: times between hops of the same packet or socket, not of journeys; to within one part in \
         sixteen.",
        time(table.span_ns).trim()
    );
    wrap(out, &head, width, "")?;
    let p90 = if width < super::text::WIDE { String::new() } else { format!("{:>QUANTILE$}", "p90") };
    writeln!(
        out,
        "{:<31} {:>10}{:>QUANTILE$}{p90}{:>QUANTILE$}{:>QUANTILE$}{:>QUANTILE$}",
        "from → to", "passes", "p50", "p99", "p99.9", "max"
    )?;
    for pair in &table.pairs {
        let ends = format!("{} → {}", pair.from, pair.to);
        writeln!(out, "{ends:<31} {}{}", count_in(pair.times.n, 10), quantiles(Some(&pair.times), width))?;
    }
    writeln!(out, "{:<31} {:>10} {:>10} {:>8}", "hop", "hits", "begun", "bytes")?;
    for row in &table.hops {
        let size = row.bytes.map_or_else(|| format!("{:>8}", "·"), bytes);
        let name = row.hop.map_or("", Hop::name);
        writeln!(out, "{name:<31} {} {} {size}", count_in(row.hits, 10), count_in(row.begun, 10))?;
        if let Some(rest) = row.rest_bytes {
            writeln!(out, "  {} of flows that found no room in the kernel", bytes(rest).trim())?;
        }
    }
    if table.flows.is_empty() {
        return Ok(());
    }
    let name_width = width.saturating_sub(36).clamp(20, 70);
    writeln!(out, "{:<name_width$} {:<14} {:>10} {:>8}", "flow", "hop", "packets", "bytes")?;
    for row in &table.flows {
        let name = fit(&row.flow, name_width);
        writeln!(
            out,
            "{name:<name_width$} {:<14} {} {}",
            row.hop.name(),
            count_in(row.packets, 10),
            bytes(row.bytes)
        )?;
    }
    if table.flows_left > 0 {
        writeln!(out, "and {} with fewer bytes", plural(table.flows_left, "flow", "flows"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(of: Sum, n: u64, sum: u64, buckets: Vec<(u16, u32)>) -> Synthesis {
        Synthesis { from_ns: 10, to_ns: 20, hop: Hop::DevXmit, of, n, sum, buckets }
    }

    #[test]
    fn times_are_at_most_a_sixteenth_too_long_and_stand_apart() {
        let mut sums = KernelSums::default();
        let at = |ns| bucket(ns) as u16;
        let queue = Sum::Since(Hop::DevQueue);
        sums.add(0, &row(queue, 99, 99 * 1_000, vec![(at(1_000), 99)]));
        sums.add(0, &row(queue, 1, 50_000, vec![(at(50_000), 1)]));
        sums.add(0, &row(Sum::Begun, 3, 0, Vec::new()));
        sums.add(0, &row(Sum::Flow(FlowId(7)), 100, 6_400, Vec::new()));
        sums.add(0, &row(Sum::Rest, 3, 192, Vec::new()));
        let table = sums.finish(20, |_, flow| format!("flow {flow:?}")).expect("a table");
        let pair = &table.pairs[0];
        assert_eq!((pair.from, pair.to, pair.times.n), (Hop::DevQueue, Hop::DevXmit, 100));
        assert!((1_000..=1_062).contains(&pair.times.p50_ns) && (50_000..=53_125).contains(&pair.times.max_ns));
        let hop = table.hops[0];
        assert_eq!((hop.hits, hop.begun, hop.bytes, hop.rest_bytes), (103, 3, Some(6_592), Some(192)));
        let mut text = String::new();
        write(&mut text, &table, 80).expect("a string");
        assert!(text.contains("not of") && text.contains("dev.queue → dev.xmit"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(KernelSums::default().finish(20, |_, _| String::new()).is_none());
    }
}
