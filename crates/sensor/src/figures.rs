//! All metrics in sequence: name, help text and values. Each format implements [`Figures`].

use crate::clocks::{ClockRelation, state_name};
use crate::histogram::Times;
use crate::snapshot::{HopState, HostSnapshot, ServiceTally, Snapshot};
use magscope_core::Hop;
use magscope_timeline::pair::{Hint, State};

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that only increases.
    Counter,
    /// A current value.
    Gauge,
    /// A constant 1; the labels carry the information.
    Info,
    /// A distribution of times.
    Histogram,
}

/// Labels: names and values.
pub type Pairs<'a> = [(&'a str, &'a str)];

/// Marks values that the kernel added up.
const KERNEL: (&str, &str) = ("source", "kernel");

/// Consumer of metrics. Values belong to the last family.
pub trait Figures {
    /// Starts a family; `unit` is `seconds`, `bytes` or empty.
    fn family(&mut self, name: &'static str, kind: Kind, unit: &'static str, help: &'static str);
    /// A whole number.
    fn number(&mut self, labels: &Pairs<'_>, n: u64);
    /// A number.
    fn float(&mut self, labels: &Pairs<'_>, value: f64);
    /// A time, nanoseconds.
    fn seconds(&mut self, labels: &Pairs<'_>, ns: u64);
    /// A counter of a host, which starts with the host's capture.
    fn counter(&mut self, labels: &Pairs<'_>, host: &HostSnapshot, n: u64);
    /// A distribution of a host.
    fn histogram(&mut self, labels: &Pairs<'_>, host: &HostSnapshot, times: &Times);
}

/// Emits all metrics.
pub fn write_all(out: &mut impl Figures, snapshot: &Snapshot) {
    own(out, snapshot);
    of_hosts(out, snapshot);
    of_pairs(out, snapshot);
}

/// Emits the metrics of hosts.
pub fn of_hosts(out: &mut impl Figures, snapshot: &Snapshot) {
    about(out, snapshot);
    own_clocks(out, snapshot);
    hops(out, snapshot);
    events(out, snapshot);
    journeys(out, snapshot);
    requests(out, snapshot);
}

/// Emits the metrics of the program itself.
pub fn own(out: &mut impl Figures, snapshot: &Snapshot) {
    out.family("magnet_scope_build", Kind::Info, "", "The program that says all this.");
    out.number(&[("version", &snapshot.own.version)], 1);
    out.family(
        "magnet_scope_cpu_seconds",
        Kind::Counter,
        "seconds",
        "Processor time of this program: what looking costs, without what its probes cost in the \
         kernel.",
    );
    out.seconds(&[], snapshot.own.cpu_ns);
}

fn about(out: &mut impl Figures, snapshot: &Snapshot) {
    out.family("magnet_scope_host", Kind::Info, "", "A host that is watched.");
    for (labels, host) in hosts(snapshot) {
        out.number(&labels.with(&[("kernel", &host.kernel)]), 1);
    }
    out.family(
        "magnet_scope_start_time_seconds",
        Kind::Gauge,
        "seconds",
        "When a host began to be watched, UTC; absent until its clocks have been read.",
    );
    for (labels, host) in hosts(snapshot) {
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
    for (labels, host) in hosts(snapshot) {
        if let Some(utc_ns) = host.to_utc_ns.and_then(|to_utc_ns| host.fed_ns.checked_add_signed(to_utc_ns)) {
            out.seconds(&labels.0, utc_ns);
        }
    }
}

fn own_clocks(out: &mut impl Figures, snapshot: &Snapshot) {
    out.family(
        "magnet_scope_clock_breaks",
        Kind::Counter,
        "",
        "Breaks of a host's clocks by its own samples: it was continued from a saved state (generation), it slept (suspend), its clock source changed (clocksource), \
         its wall clock was set (realtime).",
    );
    for (labels, host) in hosts(snapshot) {
        for broken in &host.total.clock_breaks {
            out.counter(&labels.with(&[("kind", &broken.kind)]), host, broken.n);
        }
    }
    out.family(
        "magnet_scope_utc_error_seconds",
        Kind::Gauge,
        "seconds",
        "Maximum error of a host's UTC, as its source claims; absent if no source states one.",
    );
    for (labels, host) in hosts(snapshot) {
        if let Some(ns) = host.utc_error_ns {
            out.seconds(&labels.0, ns);
        }
    }
}

/// Emits the metrics of pairs of hosts.
pub fn of_pairs(out: &mut impl Figures, snapshot: &Snapshot) {
    out.family(
        "magnet_scope_clock_state",
        Kind::Gauge,
        "",
        "Basis of the bounds of the difference of two hosts' clocks: 1 for the current one, 0 for the others.",
    );
    each_pair(snapshot, |labels, relation| {
        for state in State::ALL.map(state_name) {
            out.number(&labels.with(&[("state", &state)]), u64::from(state == relation.state));
        }
    });
    out.family(
        "magnet_scope_clock_half_width_seconds",
        Kind::Gauge,
        "seconds",
        "Maximum error of the difference of two hosts' clocks now; absent where it is not bounded from both sides.",
    );
    each_pair(snapshot, |labels, relation| {
        if let Some(ns) = relation.half_width_ns {
            out.seconds(&labels.0, ns);
        }
    });
    out.family(
        "magnet_scope_clock_steps",
        Kind::Counter,
        "",
        "Steps of either of two hosts' clocks that packets prove, or that a break of its unslewed clock in its own \
         samples shows.",
    );
    each_pair(snapshot, |labels, relation| out.number(&labels.0, relation.steps));
    out.family(
        "magnet_scope_clock_hint",
        Kind::Gauge,
        "",
        "Hints at a step of either of two hosts' clocks that packets cannot prove, or at a drift beyond 200 ppm: 1 while \
         the last hour has one. With a hint the state is suspect.",
    );
    each_pair(snapshot, |labels, relation| {
        for name in Hint::NAMES {
            let is_there = relation.hints.iter().any(|hint| hint.hint == name);
            out.number(&labels.with(&[("hint", name)]), u64::from(is_there));
        }
    });
    out.family(
        "magnet_scope_clock_sources_refuted",
        Kind::Counter,
        "",
        "Times that packets began to contradict the errors of UTC that two hosts' sources claim.",
    );
    each_pair(snapshot, |labels, relation| out.number(&labels.0, relation.sources_refuted));
    out.family(
        "magnet_scope_clock_packets",
        Kind::Counter,
        "",
        "Packets between two hosts that bound the difference of their clocks (used), and those in contradiction to \
         the others (rejected).",
    );
    each_pair(snapshot, |labels, relation| {
        out.number(&labels.with(&[("outcome", "used")]), relation.packets_used);
        out.number(&labels.with(&[("outcome", "rejected")]), relation.packets_rejected);
    });
    out.family(
        "magnet_scope_clock_pairs_left_out",
        Kind::Gauge,
        "",
        "Pairs of hosts that have packets in common and no figures here, because there are too many.",
    );
    if !snapshot.clocks.is_empty() {
        out.number(&[], snapshot.clocks_left_out);
    }
}

fn hops(out: &mut impl Figures, snapshot: &Snapshot) {
    out.family(
        "magnet_scope_hop_served",
        Kind::Gauge,
        "",
        "Whether events are taken at a hop; where they are not, its other figures are absent.",
    );
    each_hop(snapshot, |labels, state| out.number(labels, u64::from(state.unserved.is_none())));
    out.family(
        "magnet_scope_hop_sampling_weight",
        Kind::Gauge,
        "",
        "Number of events that one counted event represents: 1 unless a sampler leaves some out.",
    );
    each_hop(snapshot, |labels, state| {
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
    each_hop(snapshot, |labels, state| {
        let Some(left_out) = state.left_out else { return };
        let by =
            [("filter", left_out.filtered), ("sampler", left_out.sampled), ("undecided", left_out.undecided)];
        for (by, n) in by {
            let labels: Vec<_> = labels.iter().copied().chain([("by", by)]).collect();
            out.number(&labels, n);
        }
    });
}

fn events(out: &mut impl Figures, snapshot: &Snapshot) {
    out.family(
        "magnet_scope_hop_events",
        Kind::Counter,
        "",
        "Events at a hop that came, see the sampling weight for the number that each represents; and with \
         source=\"kernel\" those that the kernel added up and did not hand over.",
    );
    each_served(snapshot, |labels, host, hop| {
        out.counter(labels, host, host.total.hop(hop).events);
    });
    for (labels, host) in hosts(snapshot) {
        for hop in &host.total.kernel.hops {
            out.counter(&labels.with(&[("hop", hop.hop.name()), KERNEL]), host, hop.events);
        }
    }
    out.family("magnet_scope_hop_bytes", Kind::Counter, "bytes", "Payload of those events.");
    each_served(snapshot, |labels, host, hop| {
        out.counter(labels, host, host.total.hop(hop).bytes);
    });
    for (labels, host) in hosts(snapshot) {
        for hop in &host.total.kernel.hops {
            if let Some(bytes) = hop.bytes {
                out.counter(&labels.with(&[("hop", hop.hop.name()), KERNEL]), host, bytes);
            }
        }
    }
    out.family(
        "magnet_scope_tcp_retransmits",
        Kind::Counter,
        "",
        "Times that TCP sent a packet again, which can be several segments.",
    );
    for (labels, host) in hosts(snapshot).filter(|(_, host)| was_served(host, Hop::TcpRetransmit)) {
        out.counter(&labels.0, host, host.total.hop(Hop::TcpRetransmit).events);
        for hop in host.total.kernel.hops.iter().filter(|hop| hop.hop == Hop::TcpRetransmit) {
            out.counter(&labels.with(&[KERNEL]), host, hop.events);
        }
    }
    out.family("magnet_scope_tcp_retransmitted_bytes", Kind::Counter, "bytes", "Payload that TCP sent again.");
    for (labels, host) in hosts(snapshot).filter(|(_, host)| was_served(host, Hop::TcpRetransmit)) {
        out.counter(&labels.0, host, host.total.hop(Hop::TcpRetransmit).bytes);
        let summed = host.total.kernel.hops.iter().filter(|hop| hop.hop == Hop::TcpRetransmit);
        for bytes in summed.filter_map(|hop| hop.bytes) {
            out.counter(&labels.with(&[KERNEL]), host, bytes);
        }
    }
    out.family("magnet_scope_drops", Kind::Counter, "", "Packets that the kernel dropped, by its own reason.");
    for (labels, host) in hosts(snapshot) {
        for drop in &host.total.drops {
            out.counter(&labels.with(&[("reason", &drop.reason)]), host, drop.n);
        }
        for drop in &host.total.kernel.drops {
            out.counter(&labels.with(&[("reason", &drop.reason), KERNEL]), host, drop.n);
        }
    }
    out.family(
        "magnet_scope_cleaned_up_packets",
        Kind::Counter,
        "",
        "Packets that the kernel freed, of closed sockets or for groups that nobody here is in, by reason. They are no drops.",
    );
    for (labels, host) in hosts(snapshot) {
        for freed in &host.total.cleaned_up {
            out.counter(&labels.with(&[("reason", &freed.reason)]), host, freed.n);
        }
        for freed in &host.total.kernel.cleaned_up {
            out.counter(&labels.with(&[("reason", &freed.reason), KERNEL]), host, freed.n);
        }
    }
    out.family(
        "magnet_scope_lost_records",
        Kind::Counter,
        "",
        "Records of events that are missing here, by where they were lost. While this grows the \
         other figures are too low.",
    );
    for (labels, host) in hosts(snapshot) {
        for lost in &host.total.losses {
            out.counter(&labels.with(&[("cause", &lost.cause)]), host, lost.records);
        }
    }
    out.family("magnet_scope_late_events", Kind::Counter, "", "Events that came too late to be put in order.");
    for (labels, host) in hosts(snapshot) {
        out.counter(&labels.0, host, host.total.late);
    }
}

fn journeys(out: &mut impl Figures, snapshot: &Snapshot) {
    out.family(
        "magnet_scope_journeys",
        Kind::Counter,
        "",
        "Journeys of byte ranges and datagrams, by how they ended.",
    );
    for (labels, host) in hosts(snapshot) {
        for journey in &host.total.journeys {
            let labels = labels.with(&[("proto", &journey.proto), ("verdict", &journey.verdict)]);
            out.counter(&labels, host, journey.n);
        }
    }
    out.family(
        "magnet_scope_resent_journeys",
        Kind::Counter,
        "",
        "Journeys that were sent more than once; each counts once.",
    );
    for (labels, host) in hosts(snapshot) {
        for resent in &host.total.resent {
            out.counter(&labels.with(&[("proto", &resent.proto)]), host, resent.n);
        }
    }
    out.family(
        "magnet_scope_hop_latency_seconds",
        Kind::Histogram,
        "seconds",
        "Time from one hop to the next that a journey passed, of journeys that were seen to their \
         end; with source=\"kernel\" that the same packet or socket passed, as the kernel measured \
         it.",
    );
    for (labels, host) in hosts(snapshot) {
        for pair in &host.total.kernel.latencies {
            let labels = labels.with(&[("from", pair.from.name()), ("to", pair.to.name()), KERNEL]);
            out.histogram(&labels, host, &pair.times);
        }
        for pair in &host.total.latencies {
            out.histogram(
                &labels.with(&[("proto", &pair.proto), ("from", pair.from.name()), ("to", pair.to.name())]),
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
    for (labels, host) in hosts(snapshot).filter(|(_, host)| was_served(host, Hop::TaskRun)) {
        out.histogram(&labels.0, host, &host.total.wakeup);
    }
    out.family(
        "magnet_scope_queue_delay_seconds",
        Kind::Histogram,
        "seconds",
        "Time from the device's queue (dev.queue) to its driver (dev.xmit).",
    );
    for (labels, host) in hosts(snapshot).filter(|(_, host)| was_served(host, Hop::DevQueue)) {
        out.histogram(&labels.0, host, &host.total.queue);
    }
}

/// One of a service's distributions.
type ServiceTimes = fn(&ServiceTally) -> &Times;

/// Emits requests by service.
fn requests(out: &mut impl Figures, snapshot: &Snapshot) {
    out.family(
        "magnet_scope_exchanges",
        Kind::Counter,
        "",
        "Requests with their responses, by port and process of the responder and by grade: only exchanges of the grade \
         turn have times.",
    );
    each_service(snapshot, |labels, host, service| {
        for count in &service.grades {
            let labels: Vec<_> = labels.iter().copied().chain([("grade", &*count.grade)]).collect();
            out.counter(&labels, host, count.n);
        }
    });
    let histograms: [(_, _, ServiceTimes); 2] = [
        (
            "magnet_scope_request_seconds",
            "Time from the first send of a request to the read of its response's last byte.",
            |service| &service.total,
        ),
        (
            "magnet_scope_answer_seconds",
            "Time from the read of a request to the first send of its response: the responder's own.",
            |service| &service.answer,
        ),
    ];
    for (name, help, which) in histograms {
        out.family(name, Kind::Histogram, "seconds", help);
        each_service(snapshot, |labels, host, service| {
            if which(service).n > 0 {
                out.histogram(labels, host, which(service));
            }
        });
    }
}

fn each_service(snapshot: &Snapshot, mut visit: impl FnMut(&[(&str, &str)], &HostSnapshot, &ServiceTally)) {
    for (labels, host) in hosts(snapshot) {
        for service in &host.total.services {
            let port = service.port.map(|port| port.to_string()).unwrap_or_default();
            let of = [("proto", &*service.proto), ("port", &port), ("process", &service.process)];
            visit(&labels.with(&of), host, service);
        }
    }
}

/// Labels of every metric of a host.
struct Labels<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Labels<'a> {
    fn with(&self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        self.0.iter().chain(more).copied().collect()
    }
}

fn hosts(snapshot: &Snapshot) -> impl Iterator<Item = (Labels<'_>, &HostSnapshot)> {
    snapshot.hosts.iter().map(|host| {
        (Labels(if snapshot.named { vec![("host", host.host.as_str())] } else { Vec::new() }), host)
    })
}

fn each_pair<'s>(snapshot: &'s Snapshot, mut visit: impl FnMut(&Labels<'s>, &'s ClockRelation)) {
    for relation in &snapshot.clocks {
        visit(&Labels(vec![("a", relation.a.as_str()), ("b", relation.b.as_str())]), relation);
    }
}

fn each_hop(snapshot: &Snapshot, mut visit: impl FnMut(&[(&str, &str)], &HopState)) {
    for (labels, host) in hosts(snapshot) {
        for state in &host.hops {
            visit(&labels.with(&[("hop", state.hop.name())]), state);
        }
    }
}

/// True if a hop is served, or was before it was switched off and had events.
fn was_served(host: &HostSnapshot, hop: Hop) -> bool {
    host.unserved(hop).is_none() || host.total.hop(hop).events > 0
}

/// Hops that are or were served: counts stay.
fn each_served(snapshot: &Snapshot, mut visit: impl FnMut(&[(&str, &str)], &HostSnapshot, Hop)) {
    for (labels, host) in hosts(snapshot) {
        for hop in Hop::ALL {
            if was_served(host, *hop) {
                visit(&labels.with(&[("hop", hop.name())]), host, *hop);
            }
        }
    }
}

/// Start of a host's capture, UTC, nanoseconds since 1970; `None` before the first clock sample.
pub fn began_utc_ns(host: &HostSnapshot) -> Option<u64> {
    let began = host.began?;
    began.ns.checked_add_signed(began.to_utc_ns?)
}
