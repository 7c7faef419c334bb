//! A snapshot in `OpenMetrics`' text format, version 1.0.0, or in Prometheus' older text format. The older one
//! has no units and creation times, and its counter names include the suffix.
//!
//! Distributions are classic histograms, in seconds. Native histograms exist in the [protobuf
//! format](crate::protobuf) only.

use crate::figures::{Figures, Kind, Pairs, began_utc_ns, write_all};
use crate::histogram::{LE_NS, Times};
use crate::snapshot::{HostSnapshot, Snapshot};
use std::fmt::Write;

/// The two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
    /// Prometheus' own, 0.0.4.
    Prometheus,
}

/// The snapshot as text.
pub fn write(snapshot: &Snapshot, dialect: Dialect) -> String {
    let mut out = Writer { out: String::new(), dialect, name: "", kind: Kind::Gauge };
    write_all(&mut out, snapshot);
    if dialect == Dialect::OpenMetrics {
        out.out.push_str("# EOF\n");
    }
    out.out
}

struct Writer {
    out: String,
    dialect: Dialect,
    /// Name of the current family.
    name: &'static str,
    kind: Kind,
}

impl Figures for Writer {
    fn family(&mut self, name: &'static str, kind: Kind, unit: &'static str, help: &'static str) {
        (self.name, self.kind) = (name, kind);
        let open = self.dialect == Dialect::OpenMetrics;
        let (suffix, kind) = match (kind, open) {
            (Kind::Counter, true) => ("", "counter"),
            (Kind::Counter, false) => ("_total", "counter"),
            (Kind::Gauge, _) => ("", "gauge"),
            (Kind::Info, true) => ("", "info"),
            (Kind::Info, false) => ("_info", "gauge"),
            (Kind::Histogram, _) => ("", "histogram"),
        };
        // Writing into a String cannot fail, here and below.
        let _ = writeln!(self.out, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}");
        if open && !unit.is_empty() {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
    }

    fn number(&mut self, labels: &Pairs<'_>, n: u64) {
        self.sample(self.suffix(), labels, None, &n.to_string());
    }

    fn float(&mut self, labels: &Pairs<'_>, value: f64) {
        // The format has special names for non-finite values, which a sensor never produces.
        self.sample(self.suffix(), labels, None, &if value.is_finite() { value } else { 1.0 }.to_string());
    }

    fn seconds(&mut self, labels: &Pairs<'_>, ns: u64) {
        self.sample(self.suffix(), labels, None, &seconds(ns));
    }

    fn counter(&mut self, labels: &Pairs<'_>, host: &HostSnapshot, n: u64) {
        self.number(labels, n);
        self.created(labels, host);
    }

    fn histogram(&mut self, labels: &Pairs<'_>, host: &HostSnapshot, times: &Times) {
        let mut below: u64 = 0;
        for (at, le) in LE_NS.iter().enumerate() {
            below = below.saturating_add(times.bounds.get(at).copied().unwrap_or(0));
            self.sample("_bucket", labels, Some(&seconds(*le)), &below.to_string());
        }
        let beyond = times.bounds.iter().skip(LE_NS.len());
        let all = beyond.fold(below, |all, n| all.saturating_add(*n)).to_string();
        self.sample("_bucket", labels, Some("+Inf"), &all);
        self.sample("_count", labels, None, &all);
        self.sample("_sum", labels, None, &seconds(if all == "0" { 0 } else { times.sum_ns }));
        self.created(labels, host);
    }
}

impl Writer {
    fn sample(&mut self, suffix: &str, labels: &Pairs<'_>, le: Option<&str>, value: &str) {
        let _ = write!(self.out, "{}{suffix}", self.name);
        let mut separator = '{';
        for (name, value) in labels.iter().copied().chain(le.map(|le| ("le", le))) {
            let _ = write!(self.out, "{separator}{name}=\"");
            escape(&mut self.out, value);
            self.out.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    const fn suffix(&self) -> &'static str {
        match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        }
    }

    fn created(&mut self, labels: &Pairs<'_>, host: &HostSnapshot) {
        if let Some(since) = began_utc_ns(host).filter(|_| self.dialect == Dialect::OpenMetrics) {
            self.sample("_created", labels, None, &seconds(since));
        }
    }
}

/// Nanoseconds as seconds, without rounding.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

/// Escapes a label value: backslash, quote and newline.
fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        let all = [
            (0, "0.0"),
            (1, "0.000000001"),
            (2_500, "0.0000025"),
            (10_000_000_000, "10.0"),
            (1_500_000_000, "1.5"),
        ];
        for (ns, text) in all {
            assert_eq!(seconds(ns), text);
        }
    }

    #[test]
    fn a_label_stays_in_its_quotes() {
        let mut out = String::new();
        escape(&mut out, "a\\b\"}\nmagnet_scope_fake 1");
        assert_eq!(out, "a\\\\b\\\"}\\nmagnet_scope_fake 1");
    }
}
