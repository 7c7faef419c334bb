//! A journey with all names, for lists and JSON.

use crate::sessions;
use magscope_core::annotations::Annotations;
use magscope_core::context::Context;
use magscope_core::custom::{Mark, ProbeValue};
use magscope_core::journey::{Across, Forwarder, Latency, Resend, Rung, SentCopy};
use magscope_core::{Endpoint, Flow, FlowId, Hop, Journey, Loss, PayloadHead, ProbeHit, Proto, Task, Verdict};
use magscope_scope::format::duration;
use magscope_timeline::UtcMap;
use serde::{Serialize, Serializer};

/// A journey with its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Number of the journey; as text, because JSON readers round 64 bits.
    #[serde(serialize_with = "as_text")]
    pub id: u64,
    /// Protocol.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// Flow of the sender, hexadecimal; zeros if unseen.
    #[serde(serialize_with = "as_text")]
    tx_flow: FlowId,
    /// Flow of the receiver.
    #[serde(serialize_with = "as_text")]
    rx_flow: FlowId,
    /// Both ends.
    #[serde(flatten)]
    pub route: Route,
    /// Byte range.
    pub range: Range,
    /// Number of bytes.
    pub bytes: u64,
    /// Time of the first hop, RFC 3339; absent without clock samples.
    pub start_utc: Option<String>,
    /// The same in `CLOCK_MONOTONIC`, nanoseconds.
    pub start_ns: Option<u64>,
    /// Time from first hop to last, nanoseconds; absent with fewer than two hops, and between two unrelated
    /// clocks.
    pub total_ns: Option<u64>,
    /// Error of that time between two clocks.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_half_width_ns: u64,
    /// Between two clocks: the interval that holds the true time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_lower_ns: Option<u64>,
    /// See `total_lower_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_upper_ns: Option<u64>,
    /// Clock relation between its halves.
    #[serde(flatten)]
    pub across: Across,
    /// Name of the verdict.
    verdict: &'static str,
    /// The verdict as text.
    pub verdict_text: String,
    /// Of a dropped one the interface that it was at.
    #[serde(skip_serializing_if = "Option::is_none")]
    drop_interface: Option<String>,
    /// Of a dropped one the program or rule that dropped it, or the candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_by: Option<String>,
    /// What was lost, where that broke it; times on `CLOCK_MONOTONIC` of the recording that lost it.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Loss>,
    /// Number of retransmissions.
    pub retransmits: u32,
    /// Its copies, if sent several times.
    pub copies: Vec<Passage>,
    /// Number of unlisted copies.
    #[serde(skip_serializing_if = "is_none_left")]
    copies_left_out: u32,
    /// Its bytes waited in the receiver's socket for earlier ones of the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_of_line: Option<HeadOfLineWait>,
    /// Time in which the peer's receive window was closed, between its send and its first transmission, nanoseconds.
    pub receive_window_ns: u64,
    /// True if its times may belong to a neighbour.
    pub ambiguous: bool,
    /// The longest step, or the wait between two copies, without `dev.done`, which is not on the path.
    pub largest: Option<Step>,
    /// The nodes that passed its packet on, in the order of the path.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forwarders: Vec<Passed>,
    /// The outer packets of tunnels that its packet was inside of, one for each host that they passed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<Outer>,
    /// Every hop, for each copy.
    rungs: Vec<Place>,
    /// Times between neighbouring hops of one copy, and between copies.
    latencies: Vec<Step>,
    /// Hits of custom probes on its bytes that are shown as hops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbePassed>,
    /// Payload heads, if captured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<Head>,
}

/// A wait in the receiver's socket for earlier bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HeadOfLineWait {
    /// From its arrival to that of the last earlier byte.
    pub ns: u64,
    /// The earlier bytes were seen to be sent again.
    pub resent: bool,
    #[serde(skip)]
    pub words: &'static str,
}

/// A node that passed the packet on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// Its network namespace; empty if unknown.
    pub node: String,
    /// Interface at which the packet came in; empty if unknown.
    rx_interface: String,
    /// Interface at which it left.
    tx_interface: String,
    /// Source and destination where the packet left, if an address translation changed them here.
    #[serde(skip_serializing_if = "Option::is_none")]
    translated: Option<(String, String)>,
    /// Time in the node, nanoseconds.
    pub ns: Option<u64>,
    /// The same as text.
    #[serde(skip)]
    pub text: String,
}

impl Passed {
    fn of(journey: &Journey, at: &Forwarder, context: &dyn Context) -> Self {
        let node = journey.node_of_forwarder(at);
        let (rx, tx) = (context.flow(node, at.rx_flow), context.flow(node, at.tx_flow));
        let interface = |flow, ifindex| context.interface_of(node, flow, ifindex).to_owned();
        let changed = rx.zip(tx).filter(|(rx, tx)| !rx.mirrors(tx));
        let translated = changed.map(|(_, tx)| (tx.local.to_string(), tx.remote.to_string()));
        let ns = at.inside_ns();
        let (rx_interface, tx_interface) =
            (interface(at.rx_flow, at.rx_ifindex), interface(at.tx_flow, at.tx_ifindex));
        let node = context.forwarder(journey, at);
        Passed {
            text: match ns {
                Some(ns) => format!("through {node} in {}", duration(ns)),
                None => format!("through {node}"),
            },
            node,
            rx_interface,
            tx_interface,
            translated,
            ns,
        }
    }
}

/// The outer packet of a tunnel, on one host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outer {
    /// Its protocol, source and destination; empty if unknown.
    packet: String,
    /// The network namespace; empty if unknown.
    node: String,
    /// Interface of its last event there; empty if unknown.
    interface: String,
    /// Time from its first hop there to the last, nanoseconds.
    ns: u64,
    /// The same as text.
    #[serde(skip)]
    pub text: String,
}

impl Outer {
    fn of(journey: &Journey, at: &Forwarder, context: &dyn Context) -> Self {
        let node = journey.node_of_forwarder(at);
        let ifindex = if at.tx_flow.is_none() { at.rx_ifindex } else { at.tx_ifindex };
        let interface = context.interface_of(node, at.flow(), ifindex).to_owned();
        let ns = at.span_ns().map_or(0, |(from, to)| to.saturating_sub(from));
        let ends = context.outer(journey, at);
        let packet = ends.map_or_else(String::new, |(proto, from, to)| format!("{proto} {from}→{to}"));
        let node = context.forwarder(journey, at);
        let text = inside_words(&packet, &node, &interface, ns);
        Outer { packet, node, interface, ns, text }
    }
}

/// An outer packet as text. With one captured hop it has no time.
fn inside_words(packet: &str, node: &str, interface: &str, ns: u64) -> String {
    let time = if ns == 0 { String::new() } else { format!(" for {}", duration(ns)) };
    format!("inside {packet} at {node} {interface}{time}")
}

/// Maximum number of custom probes and heads per row.
const MOST_ANNOTATIONS: usize = 64;

/// A hit of a custom probe on its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProbePassed {
    /// Name of the probe.
    pub probe: String,
    /// The hop after which it is listed.
    pub after: Option<Hop>,
    /// Time, nanoseconds of `CLOCK_MONOTONIC` of the first recording.
    pub time_ns: u64,
    cpu: u16,
    /// Values with names, in the probe's order; absent if a read failed.
    values: Vec<(String, Option<i64>)>,
    /// The same as text.
    #[serde(skip)]
    pub text: String,
}

/// The payload head of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Head {
    /// The hop.
    pub hop: Hop,
    /// The time.
    pub time_ns: u64,
    /// First byte of the packet's range in sequence numbers; the journey may be only a part of it.
    pub seq: u32,
    /// Payload bytes of the packet.
    pub of_bytes: u32,
    /// The captured bytes.
    pub bytes: Vec<u8>,
    /// Hexadecimal and text dump.
    #[serde(skip)]
    pub dump: Vec<String>,
}

/// Both ends; empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Sender's address and port.
    pub from: String,
    /// Receiver's address and port.
    pub to: String,
    from_node: String,
    to_node: String,
    sender: String,
    reader: String,
    /// Source and destination as the receiver has them, if an address translation is between the ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrives_as: Option<(Endpoint, Endpoint)>,
}

/// Bytes of a stream, unwrapped sequence numbers: the low 32 bits are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// The first.
    #[serde(serialize_with = "as_text")]
    pub start: u64,
    /// One past the last.
    #[serde(serialize_with = "as_text")]
    pub end: u64,
}

/// A hop of the journey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Place {
    hop: Hop,
    time_ns: u64,
    cpu: u16,
    tgid: u32,
    tid: u32,
    /// Number of the copy; absent at socket hops and for a single copy.
    #[serde(skip_serializing_if = "is_none_left")]
    copy: u32,
    /// Number of the forwarder, from 1; absent at both ends.
    #[serde(skip_serializing_if = "is_none_left")]
    forwarder: u32,
    /// Number of the outer packet of a tunnel, from 1; absent outside of tunnels.
    #[serde(skip_serializing_if = "is_none_left")]
    tunnel: u32,
    /// Recorded at the return of a call, and therefore outside of the time order.
    at_return: bool,
}

/// One copy of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// Number, from 1.
    pub number: u32,
    /// Cause of the transmission, from the kernel.
    pub kind: Resend,
    retransmit_ns: Option<u64>,
    /// True if the receiver's hops may belong to another copy.
    ambiguous: bool,
    /// True if the hops of the receiver's socket belong to this copy.
    pub ended: bool,
    /// Time and reason of the kernel's drop.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drop_name: Option<String>,
    /// The interface that it was at.
    #[serde(skip_serializing_if = "Option::is_none")]
    drop_interface: Option<String>,
    /// The program or rule that dropped it, or the candidates.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_by: Option<String>,
    /// The last hop that it passed.
    pub last: Option<Hop>,
    /// The same as text.
    #[serde(skip)]
    pub text: String,
}

/// A step between two hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The earlier hop.
    pub from: Hop,
    /// The later hop.
    pub to: Hop,
    /// Duration, nanoseconds.
    pub ns: u64,
    /// True for the wait for a retransmission between two copies.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
    /// Number of the forwarder that it reached, from 1; absent at both ends.
    #[serde(skip_serializing_if = "is_none_left")]
    pub forwarder: u32,
    /// Number of the outer packet of a tunnel whose hop it reached, from 1; absent outside of tunnels.
    #[serde(skip_serializing_if = "is_none_left")]
    pub tunnel: u32,
    /// Between two clocks: error, nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub half_width_ns: u64,
    /// Between two clocks: the interval that holds the true duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lower_ns: Option<u64>,
    /// See `lower_ns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_ns: Option<u64>,
    /// Between two clocks: true if distinguishable from zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolvable: Option<bool>,
}

impl Row {
    /// Resolves all names at once, because the correlator may evict a flow later.
    pub fn of(journey: &Journey, context: &dyn Context, utc: &UtcMap, annotations: &Annotations) -> Self {
        let step = |latency: Latency| {
            let Latency { from, to, ns, half_width_ns, is_wait, .. } = latency;
            let bounds_ns = (half_width_ns > 0).then_some(latency.bounds_ns);
            Step {
                from,
                to,
                ns,
                waited: is_wait,
                forwarder: u32::from(latency.forwarder),
                tunnel: u32::from(latency.tunnel),
                half_width_ns,
                lower_ns: bounds_ns.map(|(lower, _)| lower),
                upper_ns: bounds_ns.map(|(_, upper)| upper),
                resolvable: bounds_ns.map(|_| latency.is_resolvable()),
            }
        };
        let on_path = |(rung, latency): (Rung, Option<Latency>)| {
            latency.filter(|l| l.to != Hop::DevDone && rung.copy <= journey.copy)
        };
        let latencies: Vec<Step> =
            journey.spans_with_tunnels().filter_map(|(_, latency)| latency.map(step)).collect();
        let start_ns = journey.start_ns();
        let total_half_width_ns = journey.total_half_width_ns();
        let total_bounds_ns = journey.total_bounds_ns().filter(|_| total_half_width_ns > 0);
        Row {
            id: journey.id,
            proto: journey.proto,
            tx_flow: journey.tx_flow,
            rx_flow: journey.rx_flow,
            route: Route::of(journey, context),
            range: Range { start: journey.range.start, end: journey.range.end },
            bytes: journey.bytes(),
            start_utc: start_ns.and_then(|ns| sessions::utc_text(utc, ns)),
            start_ns,
            total_ns: journey.total_ns(),
            total_half_width_ns,
            total_lower_ns: total_bounds_ns.map(|(lower, _)| lower),
            total_upper_ns: total_bounds_ns.map(|(_, upper)| upper),
            across: journey.across,
            verdict: journey.verdict.name(),
            verdict_text: words(journey, context),
            drop_interface: context.drop_interface(journey),
            dropped_by: context.dropped_by(journey),
            gap: match journey.verdict {
                Verdict::BrokenByEventLoss { gap } => Some(gap),
                _ => None,
            },
            retransmits: journey.retransmits(),
            copies: journey.copies.iter().map(|copy| Passage::of(journey, copy, context)).collect(),
            copies_left_out: journey.copies_left_out,
            head_of_line: journey.head_of_line.map(|wait| HeadOfLineWait {
                ns: journey.head_of_line_ns(),
                resent: wait.resent,
                words: wait.words(),
            }),
            receive_window_ns: journey.receive_window_ns,
            ambiguous: journey.ambiguous,
            largest: journey.spans_with_tunnels().filter_map(on_path).max_by_key(|l| l.ns).map(step),
            forwarders: journey.forwarders.iter().map(|at| Passed::of(journey, at, context)).collect(),
            tunnels: journey.tunnels.iter().map(|at| Outer::of(journey, at, context)).collect(),
            rungs: journey
                .spans_with_tunnels()
                .map(|(r, _)| Place {
                    hop: r.hop,
                    time_ns: r.time_ns,
                    cpu: r.cpu,
                    tgid: r.tgid,
                    tid: r.tid,
                    copy: r.copy,
                    forwarder: u32::from(r.forwarder),
                    tunnel: u32::from(r.tunnel),
                    at_return: r.at_return,
                })
                .collect(),
            latencies,
            probes: ProbePassed::all(journey, context, annotations),
            heads: annotations.heads_of(journey).into_iter().take(MOST_ANNOTATIONS).map(Head::of).collect(),
        }
    }
}

impl ProbePassed {
    fn all(journey: &Journey, context: &dyn Context, annotations: &Annotations) -> Vec<Self> {
        let named = |(node, hit): (u16, ProbeHit)| {
            let probe = context.info(node)?.probes.get(usize::from(hit.probe))?;
            let value = |(i, value): (usize, &ProbeValue)| (value.name.clone(), hit.value(i));
            (probe.mark == Mark::Hop).then(|| ProbePassed {
                probe: probe.name.clone(),
                after: probe.after,
                time_ns: hit.time_ns,
                cpu: hit.cpu,
                values: probe.values.iter().enumerate().map(value).collect(),
                text: probe.text(&hit),
            })
        };
        annotations.hits_of(journey).into_iter().filter_map(named).take(MOST_ANNOTATIONS).collect()
    }
}

impl Head {
    fn of(head: &PayloadHead) -> Self {
        Head {
            hop: head.hop,
            time_ns: head.time_ns,
            seq: head.seq,
            of_bytes: head.of_bytes,
            bytes: head.bytes.clone(),
            dump: head.dump(),
        }
    }
}

impl Passage {
    fn of(journey: &Journey, copy: &SentCopy, context: &dyn Context) -> Self {
        let last = copy.rungs.last();
        let why = copy.dropped.map(|drop| context.copy_drop(journey, copy, &drop));
        let ended = copy.number == journey.copy;
        let behind = last.map_or_else(|| " not seen".to_owned(), |hop| format!(" to {hop}"));
        let end = match &why {
            Some(why) => format!(": {why}"),
            None => String::new(),
        };
        Passage {
            number: copy.number,
            kind: copy.kind,
            retransmit_ns: copy.retransmit_ns,
            ambiguous: copy.ambiguous,
            ended,
            dropped_ns: copy.dropped.map(|drop| drop.time_ns),
            text: format!("{}{behind}{end}", copy.words()),
            drop_name: copy.dropped.map(|drop| context.copy_drop_reason(journey, copy, &drop)),
            drop_interface: copy.dropped.and_then(|drop| context.copy_drop_interface(journey, copy, &drop)),
            dropped_by: copy.dropped.and_then(|drop| context.copy_dropped_by(journey, copy, &drop)),
            last,
        }
    }
}

impl Route {
    /// Resolves both ends.
    pub fn of(journey: &Journey, context: &dyn Context) -> Self {
        let (tx, rx) = (context.tx_flow(journey), context.rx_flow(journey));
        let (from, to) = match (tx, rx) {
            (Some(tx), _) => (tx.local.to_string(), tx.remote.to_string()),
            (None, Some(rx)) => (rx.remote.to_string(), rx.local.to_string()),
            (None, None) => Default::default(),
        };
        let place =
            |node: u16, flow: Option<&Flow>| flow.map(|f| context.place(node, f.netns)).unwrap_or_default();
        let name = |task: Option<&Task>| task.map(|task| task.comm.clone()).unwrap_or_default();
        Route {
            from,
            to,
            from_node: place(journey.tx_node, tx),
            to_node: place(journey.rx_node, rx),
            sender: name(context.sender(journey)),
            reader: name(context.reader(journey)),
            arrives_as: context.arrives_as(journey),
        }
    }

    /// Addresses: `tcp 10.0.0.1:4000→10.0.0.2:80`.
    pub fn flow(&self, proto: Proto) -> String {
        if self.from.is_empty() {
            return format!("{proto}, flow not known");
        }
        format!("{proto} {}→{}", self.from, self.to)
    }

    /// Processes and where they run: `curl@client → nginx@server`.
    pub fn processes(&self) -> String {
        let end = |comm: &str, node: &str| match (comm, node) {
            ("", "") => "?".to_owned(),
            ("", node) => format!("?@{node}"),
            (comm, "") => comm.to_owned(),
            _ => format!("{comm}@{node}"),
        };
        format!("{} → {}", end(&self.sender, &self.from_node), end(&self.reader, &self.to_node))
    }

    /// Both as text, for searches.
    pub fn line(&self, proto: Proto) -> String {
        let arrives = self.arrives_as.map_or_else(String::new, |(from, to)| format!(" {from}→{to}"));
        format!("{} {}{arrives}", self.flow(proto), self.processes())
    }
}

/// Text of a verdict.
fn words(journey: &Journey, context: &dyn Context) -> String {
    match journey.verdict {
        Verdict::BrokenByEventLoss { gap } => broken(&gap, journey.start_ns()),
        Verdict::HalfComplete => "complete as far as one end shows".to_owned(),
        Verdict::InFlight => "still in flight".to_owned(),
        Verdict::ReadUnseen => "read, but unseen when".to_owned(),
        Verdict::Evicted => "given up on, too many in flight".to_owned(),
        _ => context.verdict(journey),
    }
}

/// Text of the loss that broke it: `3 events missed on CPU 1 (ring buffer full), 12 µs after it began, within 3
/// ms`.
fn broken(gap: &Loss, start_ns: Option<u64>) -> String {
    let events = if gap.count == 1 { "event" } else { "events" };
    let cpu = if gap.cpu == u16::MAX { String::new() } else { format!(" on CPU {}", gap.cpu) };
    let place = match start_ns.map(|start_ns| (gap.from_ns.checked_sub(start_ns), start_ns)) {
        Some((Some(after_ns), _)) => format!(", {} after it began", duration(after_ns)),
        Some((None, start_ns)) => format!(", {} before it was first seen", duration(start_ns - gap.from_ns)),
        None => String::new(),
    };
    let within = duration(gap.to_ns.saturating_sub(gap.from_ns));
    format!("broken: {} {events} missed{cpu} ({}){place}, within {within}", gap.count, gap.cause)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // signature of serde
fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // signature of serde
fn is_none_left(number: &u32) -> bool {
    *number == 0
}

fn as_text<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_packet_with_one_hop_has_no_time() {
        assert_eq!(inside_words("udp a→b", "n", "eth0", 0), "inside udp a→b at n eth0");
        assert_eq!(inside_words("udp a→b", "n", "eth0", 4_370), "inside udp a→b at n eth0 for 4.37 µs");
    }
}
