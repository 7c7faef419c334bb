//! Custom probes in a report: number of hits, and values over time.

use super::figures::{count, fit, heights, plural, time};
use crate::stats::per_second;
use magscope_core::custom::{CustomProbe, MOST_VALUES, Mark, ProbeHit, ValueKind};
use magscope_core::node::NodeInfo;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Columns of a loadline.
pub const COLUMNS: usize = 60;
/// Maximum number of time slices per value; at least half of it after enough time.
const SLICES: u64 = 256;
/// Maximum number of single hits of a point in a report.
const POINTS: usize = 100;
/// Number of printed points.
const PRINTED: usize = 5;

/// One custom probe of a [`super::Report`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeRow {
    /// Its definition.
    #[serde(flatten)]
    pub probe: CustomProbe,
    /// Host, if there are several recordings.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Number of hits.
    pub hits: u64,
    /// Hits per second over the report's time.
    pub hits_per_s: f64,
    /// Its values, in the probe's order.
    pub read: Vec<ValueRow>,
    /// For a point, the first hits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PointRow>,
}

/// One value of a probe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueRow {
    /// Its name.
    pub name: String,
    /// Number of successful reads.
    pub known: u64,
    /// Minimum, as a number with the sign of its kind.
    pub lowest: f64,
    /// The mean.
    pub mean: f64,
    /// The highest.
    pub highest: f64,
    /// The mean in equal parts of the report's time; `None` without a hit.
    pub columns: Vec<Option<f64>>,
}

/// One hit of a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointRow {
    /// Instant, `CLOCK_MONOTONIC`, nanoseconds.
    pub time_ns: u64,
    /// The CPU.
    pub cpu: u16,
    /// Its values with their names.
    pub text: String,
}

/// A value over time. Slices have a length of a power of two nanoseconds, which grows with time.
#[derive(Clone, Debug, Default)]
struct Series {
    reads: u64,
    sum: f64,
    range: Option<(f64, f64)>,
    exponent: u32,
    slices: BTreeMap<u64, (f64, u64)>,
}

impl Series {
    fn add(&mut self, time_ns: u64, value: f64) {
        self.reads += 1;
        self.sum += value;
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
        let slice = self.slices.entry(time_ns >> self.exponent).or_default();
        *slice = (slice.0 + value, slice.1 + 1);
        while let (Some((first, _)), Some((last, _))) =
            (self.slices.first_key_value(), self.slices.last_key_value())
            && last - first >= SLICES
        {
            self.exponent += 1;
            for (index, (sum, count)) in std::mem::take(&mut self.slices) {
                let wider = self.slices.entry(index >> 1).or_default();
                *wider = (wider.0 + sum, wider.1 + count);
            }
        }
    }

    fn columns(&self, start_ns: u64, end_ns: u64) -> Vec<Option<f64>> {
        let mut columns = [(0.0, 0_u64); COLUMNS];
        let span = end_ns.saturating_sub(start_ns).max(1) as f64;
        for (index, (sum, count)) in &self.slices {
            // the middle of a slice represents all of it
            let middle = (index << self.exponent).saturating_add((1_u64 << self.exponent) / 2);
            let place = middle.clamp(start_ns, end_ns).saturating_sub(start_ns) as f64 / span;
            let column = ((place * COLUMNS as f64) as usize).min(COLUMNS - 1);
            columns[column] = (columns[column].0 + sum, columns[column].1 + count);
        }
        columns.iter().map(|(sum, count)| (*count > 0).then(|| sum / *count as f64)).collect()
    }
}

#[derive(Clone, Debug, Default)]
struct Sum {
    hits: u64,
    values: [Series; MOST_VALUES],
    points: Vec<PointRow>,
}

/// Adds up the hits of every probe of some recordings.
#[derive(Clone, Debug, Default)]
pub struct Customs {
    probes: Vec<(u16, CustomProbe, Sum)>,
}

impl Customs {
    /// Adds the probes of a recording.
    pub(super) fn join(&mut self, node: u16, info: &NodeInfo) {
        self.probes.extend(info.probes.iter().map(|probe| (node, probe.clone(), Sum::default())));
    }

    pub(super) fn hit(&mut self, node: u16, hit: &ProbeHit) {
        let mut own = self.probes.iter_mut().filter(|(of, ..)| *of == node);
        let Some((_, probe, sum)) = own.nth(usize::from(hit.probe)) else { return };
        sum.hits += 1;
        for (i, (series, value)) in sum.values.iter_mut().zip(&probe.values).enumerate() {
            if let (Some(number), false) = (hit.value(i), value.kind == ValueKind::Address) {
                series.add(hit.time_ns, value.kind.number(number));
            }
        }
        if probe.mark == Mark::Point && sum.points.len() < POINTS {
            sum.points.push(PointRow { time_ns: hit.time_ns, cpu: hit.cpu, text: probe.text(hit) });
        }
    }

    /// First and last hit of any probe.
    pub(super) fn finish(self, infos: &[NodeInfo], start_ns: u64, end_ns: u64) -> Vec<ProbeRow> {
        let row = |(node, probe, sum): (u16, CustomProbe, Sum)| {
            let host = infos.get(usize::from(node)).filter(|_| infos.len() > 1);
            let node = host.map_or_else(String::new, |info| info.host.clone());
            let values = probe.values.iter().zip(&sum.values);
            let read =
                values.filter(|(value, _)| value.kind != ValueKind::Address).map(|(value, series)| ValueRow {
                    name: value.name.clone(),
                    known: series.reads,
                    lowest: series.range.map_or(0.0, |range| range.0),
                    mean: if series.reads > 0 { series.sum / series.reads as f64 } else { 0.0 },
                    highest: series.range.map_or(0.0, |range| range.1),
                    columns: series.columns(start_ns, end_ns),
                });
            let read = read.collect();
            let hits_per_s = per_second(sum.hits, end_ns.saturating_sub(start_ns));
            ProbeRow { read, node, hits: sum.hits, hits_per_s, points: sum.points, probe }
        };
        self.probes.into_iter().map(row).collect()
    }
}

/// A number with few digits.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e12 {
        format!("{value:.0}")
    } else if value.abs() < 1e6 {
        format!("{value:.2}")
    } else {
        format!("{value:.3e}")
    }
}

pub(super) fn write(
    out: &mut String,
    rows: &[ProbeRow],
    start_ns: u64,
    end_ns: u64,
    width: usize,
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ncustom probes")?;
    for row in rows {
        let at = if row.node.is_empty() { String::new() } else { format!(" on {}", row.node) };
        let after = row.probe.after.map_or_else(String::new, |hop| format!(", after {hop}"));
        writeln!(out, "{}", fit(&format!("{}{at}: {}{after}", row.probe.name, row.probe.place()), width))?;
        let rate = count(row.hits_per_s.round().max(0.0) as u64);
        writeln!(out, "  {}, {} a second", plural(row.hits, "hit", "hits"), rate.trim())?;
        for value in &row.read {
            let missed = row.hits - value.known.min(row.hits);
            let missed = if missed > 0 { format!(", {missed} times not to be read") } else { String::new() };
            if value.known == 0 {
                writeln!(out, "  {}: never read{missed}", value.name)?;
                continue;
            }
            let [low, mean, high] = [value.lowest, value.mean, value.highest].map(number);
            writeln!(out, "  {}: {low} to {high}, mean {mean}{missed}", value.name)?;
            if row.probe.mark == Mark::Loadline {
                writeln!(out, "  {}", line(value).trim_end())?;
            }
        }
        for point in row.points.iter().take(PRINTED) {
            let when = time(point.time_ns.saturating_sub(start_ns));
            writeln!(out, "{}", fit(&format!("  +{} cpu {} {}", when.trim(), point.cpu, point.text), width))?;
        }
        if row.probe.mark == Mark::Point && row.hits > PRINTED as u64 {
            writeln!(out, "  … and {} more", row.hits - PRINTED as u64)?;
        }
    }
    if rows.iter().any(|row| row.probe.mark == Mark::Loadline) {
        let column = time(end_ns.saturating_sub(start_ns) / COLUMNS as u64);
        writeln!(out, "loadlines: the mean, {} a column, from the lowest to the highest", column.trim())?;
    }
    Ok(())
}

/// Drawn from the lowest mean to the highest; blank without a hit.
fn line(value: &ValueRow) -> String {
    let values = || value.columns.iter().flatten().copied();
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let span = if high > low { high - low } else { 1.0 };
    // the minimum height is one eighth, to distinguish it from no value
    let height = |mean: &Option<f64>| mean.map_or(0.0, |mean| 1.0 + 7.0 * (mean - low) / span);
    heights(&value.columns.iter().map(height).collect::<Vec<_>>(), 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReportBuilder;
    use magscope_core::Batch;

    fn hit(probe: u8, time_ns: u64, first: i64, read_mask: u8) -> ProbeHit {
        ProbeHit {
            time_ns,
            cpu: 1,
            probe,
            known: read_mask,
            values: [first, i64::MIN, 0, 0],
            ..ProbeHit::default()
        }
    }

    #[test]
    fn probes_are_counted_drawn_and_listed() {
        let mut probes: Vec<CustomProbe> =
            ["fentry:try_fill_recv name=refill free=rq->vq->num_free at=rq", "kprobe:f name=seen as=point n=x"]
                .map(|text| text.parse().expect(text))
                .into();
        probes[0].values[1].kind = ValueKind::Address;
        probes[1].values[0].kind = ValueKind::Signed;
        let info = NodeInfo { probes, ..NodeInfo::default() };
        let mut report = ReportBuilder::new(&info);
        let mut batch = Batch::default();
        // free buffers decrease slowly
        for i in 0..1_000_u64 {
            batch.hits.push(hit(0, i * 1_000_000, 256 - (i / 4) as i64, 0b11));
        }
        for i in 0..7 {
            batch.hits.push(hit(1, i * 1_000, -3, u8::from(i != 6)));
        }
        batch.hits.push(hit(9, 5, 5, 1)); // of an unknown probe: a damaged session
        report.batch(&batch);
        let report = report.finish();
        let [refill, seen] = &report.probes[..] else { panic!("two rows") };
        assert_eq!((refill.hits, refill.read.len()), (1_000, 1), "an address is no number to calculate with");
        let free = &refill.read[0];
        assert_eq!((free.lowest, free.highest, free.known), (7.0, 256.0, 1_000));
        let columns: Vec<f64> = free.columns.iter().flatten().copied().collect();
        assert_eq!(columns.len(), COLUMNS);
        assert!(columns.is_sorted_by(|a, b| a >= b), "it falls: {columns:?}");
        assert_eq!((seen.hits, seen.points.len(), seen.read[0].known), (7, 7, 6));
        let text = crate::render_text(&report, 80);
        let drawing = text.lines().find(|line| line.contains('█')).expect("a drawing");
        assert!(drawing.trim().starts_with('█') && drawing.ends_with('▁'), "{text}");
        for part in
            ["refill: fentry:try_fill_recv", "free: 7 to 256", "1 times not to be read", "n=-3", "2 more"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
