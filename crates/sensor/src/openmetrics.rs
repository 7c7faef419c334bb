//! A snapshot in `OpenMetrics`' text format, version 1.0.0, or in the older text format of Prometheus, which leaves out units and creation times and names counters with their suffix.
//!
//! Distributions are classic histograms, in seconds. Native histograms exist in the protobuf format only, which this does not write.

use crate::histogram::{LE_NS, Times};
use crate::sensed::{HopState, HostSensed, Sensed};
use magscope_core::Hop;
use std::fmt::Write;

/// Which of the two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
    /// Prometheus' own, 0.0.4.
    Prometheus,
}

impl Format {
    /// What an HTTP answer calls it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// What a reader with this `Accept` header gets: `OpenMetrics` unless it asks for plain text and not for that.
    pub fn accepted(accept: &str) -> Self {
        let accept = accept.to_ascii_lowercase();
        if accept.contains("text/plain") && !accept.contains("application/openmetrics-text") {
            Self::Prometheus
        } else {
            Self::OpenMetrics
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Info,
    Histogram,
}

/// The snapshot as text.
pub fn write(sensed: &Sensed, format: Format) -> String {
    let mut out = Writer { out: String::new(), format, name: "", kind: Kind::Gauge };
    about(&mut out, sensed);
    hops(&mut out, sensed);
    events(&mut out, sensed);
    journeys(&mut out, sensed);
    if format == Format::OpenMetrics {
        out.out.push_str("# EOF\n");
    }
    out.out
}

fn about(out: &mut Writer, sensed: &Sensed) {
    out.family("magnet_scope_build", Kind::Info, "", "The program that says all this.");
    out.number(&[("version", &sensed.own.version)], 1);
    out.family(
        "magnet_scope_cpu_seconds",
        Kind::Counter,
        "seconds",
        "Processor time of this program: what looking costs, without what its probes cost in the \
         kernel.",
    );
    out.seconds(&[], sensed.own.cpu_ns);
    out.family("magnet_scope_host", Kind::Info, "", "A host that is watched.");
    for (labels, host) in hosts(sensed) {
        out.number(&labels.with(&[("kernel", &host.kernel)]), 1);
    }
    out.family(
        "magnet_scope_started_timestamp_seconds",
        Kind::Gauge,
        "seconds",
        "When a host began to be watched, UTC; absent until its clocks have been read.",
    );
    for (labels, host) in hosts(sensed) {
        if let Some(utc_ns) = began_utc_ns(host) {
            out.seconds(&labels.0, utc_ns);
        }
    }
    out.family(
        "magnet_scope_last_fed_timestamp_seconds",
        Kind::Gauge,
        "seconds",
        "Up to when a host's events are in these figures, UTC. Where this stands still, nothing is \
         known of what happened since.",
    );
    for (labels, host) in hosts(sensed) {
        if let Some(utc_ns) = host.to_utc_ns.and_then(|to_utc_ns| host.fed_ns.checked_add_signed(to_utc_ns)) {
            out.seconds(&labels.0, utc_ns);
        }
    }
}

fn hops(out: &mut Writer, sensed: &Sensed) {
    out.family(
        "magnet_scope_hop_served",
        Kind::Gauge,
        "",
        "Whether events are taken at a hop; where they are not, its other figures are absent.",
    );
    each_hop(sensed, |labels, state| out.number(labels, u64::from(state.unserved.is_none())));
    out.family(
        "magnet_scope_hop_sampling_weight",
        Kind::Gauge,
        "",
        "How many events each counted one stands for: 1 unless a sampler leaves some out.",
    );
    each_hop(sensed, |labels, state| {
        if state.unserved.is_none() {
            out.float(labels, state.weight);
        }
    });
    out.family(
        "magnet_scope_hop_left_out_events",
        Kind::Counter,
        "",
        "Events that the kernel counted and left out, by the filter, the sampler, or because what \
         the filter asks could not be known.",
    );
    each_hop(sensed, |labels, state| {
        let Some(left_out) = state.left_out else { return };
        let by =
            [("filter", left_out.filtered), ("sampler", left_out.sampled), ("undecided", left_out.undecided)];
        for (by, n) in by {
            let labels: Vec<_> = labels.iter().copied().chain([("by", by)]).collect();
            out.number(&labels, n);
        }
    });
}

fn events(out: &mut Writer, sensed: &Sensed) {
    out.family(
        "magnet_scope_hop_events",
        Kind::Counter,
        "",
        "Events at a hop that came; see the sampling weight for what each stands for.",
    );
    each_served(sensed, |labels, host, hop| {
        out.counter(labels, host, host.total.hop(hop).events);
    });
    out.family("magnet_scope_hop_bytes", Kind::Counter, "bytes", "Payload of those events.");
    each_served(sensed, |labels, host, hop| {
        out.counter(labels, host, host.total.hop(hop).bytes);
    });
    out.family(
        "magnet_scope_tcp_retransmits",
        Kind::Counter,
        "",
        "Times that TCP sent a packet again, which can be several segments.",
    );
    for (labels, host) in hosts(sensed).filter(|(_, host)| host.unserved(Hop::TcpRetransmit).is_none()) {
        out.counter(&labels.0, host, host.total.hop(Hop::TcpRetransmit).events);
    }
    out.family("magnet_scope_tcp_retransmitted_bytes", Kind::Counter, "bytes", "Payload that TCP sent again.");
    for (labels, host) in hosts(sensed).filter(|(_, host)| host.unserved(Hop::TcpRetransmit).is_none()) {
        out.counter(&labels.0, host, host.total.hop(Hop::TcpRetransmit).bytes);
    }
    out.family("magnet_scope_drops", Kind::Counter, "", "Packets that the kernel dropped, by its own reason.");
    for (labels, host) in hosts(sensed) {
        for drop in &host.total.drops {
            out.counter(&labels.with(&[("reason", &drop.reason)]), host, drop.n);
        }
    }
    out.family(
        "magnet_scope_lost_records",
        Kind::Counter,
        "",
        "Records of events that are missing here, by where they were lost. While this grows the \
         other figures are too low.",
    );
    for (labels, host) in hosts(sensed) {
        for lost in &host.total.losses {
            out.counter(&labels.with(&[("cause", &lost.cause)]), host, lost.records);
        }
    }
    out.family("magnet_scope_late_events", Kind::Counter, "", "Events that came too late to be put in order.");
    for (labels, host) in hosts(sensed) {
        out.counter(&labels.0, host, host.total.late);
    }
}

fn journeys(out: &mut Writer, sensed: &Sensed) {
    out.family(
        "magnet_scope_journeys",
        Kind::Counter,
        "",
        "Journeys of byte ranges and datagrams, by how they ended.",
    );
    for (labels, host) in hosts(sensed) {
        for journey in &host.total.journeys {
            let labels = labels.with(&[("proto", &journey.proto), ("verdict", &journey.verdict)]);
            out.counter(&labels, host, journey.n);
        }
    }
    out.family(
        "magnet_scope_hop_latency_seconds",
        Kind::Histogram,
        "seconds",
        "Time from one hop to the next that a journey passed, of journeys that were seen to their \
         end.",
    );
    for (labels, host) in hosts(sensed) {
        for pair in &host.total.latencies {
            out.histogram(
                &labels.with(&[("from", pair.from.name()), ("to", pair.to.name())]),
                host,
                &pair.times,
            );
        }
    }
    out.family(
        "magnet_scope_receiver_wakeup_delay_seconds",
        Kind::Histogram,
        "seconds",
        "Time from data that was ready (sock.ready) to its reader, woken for it, on a CPU \
         (task.run).",
    );
    for (labels, host) in hosts(sensed).filter(|(_, host)| host.unserved(Hop::TaskRun).is_none()) {
        out.histogram(&labels.0, host, &host.total.wakeup);
    }
    out.family(
        "magnet_scope_queue_delay_seconds",
        Kind::Histogram,
        "seconds",
        "Time from the device's queue (dev.queue) to its driver (dev.xmit).",
    );
    for (labels, host) in hosts(sensed).filter(|(_, host)| host.unserved(Hop::DevQueue).is_none()) {
        out.histogram(&labels.0, host, &host.total.queue);
    }
}

/// Labels that every figure of a host has.
struct Labels<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Labels<'a> {
    fn with(&self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        self.0.iter().chain(more).copied().collect()
    }
}

fn hosts(sensed: &Sensed) -> impl Iterator<Item = (Labels<'_>, &HostSensed)> {
    sensed
        .hosts
        .iter()
        .map(|host| (Labels(if sensed.named { vec![("host", host.host.as_str())] } else { Vec::new() }), host))
}

fn each_hop(sensed: &Sensed, mut visit: impl FnMut(&[(&str, &str)], &HopState)) {
    for (labels, host) in hosts(sensed) {
        for state in &host.hops {
            visit(&labels.with(&[("hop", state.hop.name())]), state);
        }
    }
}

/// Hops that are served, or that were before: what was counted stays.
fn each_served(sensed: &Sensed, mut visit: impl FnMut(&[(&str, &str)], &HostSensed, Hop)) {
    for (labels, host) in hosts(sensed) {
        for hop in Hop::ALL {
            if host.unserved(*hop).is_none() || host.total.hop(*hop).events > 0 {
                visit(&labels.with(&[("hop", hop.name())]), host, *hop);
            }
        }
    }
}

/// When a host began, UTC, nanoseconds since 1970; nothing before anything is known of its clocks.
fn began_utc_ns(host: &HostSensed) -> Option<u64> {
    let began = host.began?;
    began.ns.checked_add_signed(began.to_utc_ns?)
}

struct Writer {
    out: String,
    format: Format,
    /// Of the family that is being written.
    name: &'static str,
    kind: Kind,
}

impl Writer {
    fn family(&mut self, name: &'static str, kind: Kind, unit: &str, help: &str) {
        (self.name, self.kind) = (name, kind);
        let open = self.format == Format::OpenMetrics;
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

    fn sample(&mut self, suffix: &str, labels: &[(&str, &str)], le: Option<&str>, value: &str) {
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

    fn number(&mut self, labels: &[(&str, &str)], n: u64) {
        self.sample(self.suffix(), labels, None, &n.to_string());
    }

    fn float(&mut self, labels: &[(&str, &str)], value: f64) {
        // What is not finite has a name of its own in this format, and is nothing that a sensor says.
        self.sample(self.suffix(), labels, None, &if value.is_finite() { value } else { 1.0 }.to_string());
    }

    fn seconds(&mut self, labels: &[(&str, &str)], ns: u64) {
        self.sample(self.suffix(), labels, None, &seconds(ns));
    }

    /// A counter of a host, and since when it counts.
    fn counter(&mut self, labels: &[(&str, &str)], host: &HostSensed, n: u64) {
        self.number(labels, n);
        self.created(labels, host);
    }

    fn created(&mut self, labels: &[(&str, &str)], host: &HostSensed) {
        if let Some(since) = began_utc_ns(host).filter(|_| self.format == Format::OpenMetrics) {
            self.sample("_created", labels, None, &seconds(since));
        }
    }

    fn histogram(&mut self, labels: &[(&str, &str)], host: &HostSensed, times: &Times) {
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

/// Nanoseconds as seconds, without rounding.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

/// A label's value: a backslash, a quote and the end of a line are escaped, and everything else may stand as it is.
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
    fn who_asks_for_plain_text_gets_it() {
        let all = [
            ("", Format::OpenMetrics),
            ("*/*", Format::OpenMetrics),
            ("text/plain; version=0.0.4", Format::Prometheus),
            ("Application/OpenMetrics-Text;version=1.0.0,text/plain;q=0.5", Format::OpenMetrics),
        ];
        for (accept, format) in all {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }

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
