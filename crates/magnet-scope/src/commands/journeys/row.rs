//! A journey with the names of everything in it, as it is listed and as it stands in JSON.

use crate::sessions;
use magscope_core::beside::Beside;
use magscope_core::clock::UtcMap;
use magscope_core::context::Context;
use magscope_core::custom::{Mark, ProbeValue};
use magscope_core::journey::{Across, Latency, Resend, Rung, SentCopy};
use magscope_core::{Flow, FlowId, Hop, Journey, Loss, PayloadHead, ProbeHit, Proto, Task, Verdict};
use magscope_scope::format::duration;
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
    /// Flow of the sender, hexadecimal; zeros if it was not seen.
    #[serde(serialize_with = "as_text")]
    tx_flow: FlowId,
    /// Flow of the receiver.
    #[serde(serialize_with = "as_text")]
    rx_flow: FlowId,
    /// From whom to whom.
    #[serde(flatten)]
    pub way: Way,
    /// Which bytes.
    pub range: Range,
    /// How many.
    pub bytes: u64,
    /// When it was first seen, RFC 3339; absent if the recording has no clock samples.
    pub start_utc: Option<String>,
    /// The same on `CLOCK_MONOTONIC`, nanoseconds.
    pub start_ns: Option<u64>,
    /// First hop to last, nanoseconds; absent with fewer than two, and between two clocks of which nothing is known.
    pub total_ns: Option<u64>,
    /// How far from the truth that can be, because its ends stand on two clocks.
    #[serde(skip_serializing_if = "is_zero")]
    pub total_half_width_ns: u64,
    /// What is known of the time between its halves.
    #[serde(flatten)]
    pub across: Across,
    /// Name of the verdict.
    verdict: &'static str,
    /// The verdict in words.
    pub verdict_text: String,
    /// What was lost, where that broke it; times on `CLOCK_MONOTONIC` of the recording that lost it.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<Loss>,
    /// Times it was sent again.
    pub retransmits: u32,
    /// Its copies, where it was sent several times.
    pub copies: Vec<Passage>,
    /// Copies that are not listed.
    #[serde(skip_serializing_if = "is_none_left")]
    copies_left_out: u32,
    /// Its times may be a neighbour's.
    pub ambiguous: bool,
    /// The step that took longest, or the wait between two copies; `dev.done` stands beside the way and is none.
    pub largest: Option<Step>,
    /// Every hop it passed, each copy by itself.
    rungs: Vec<Place>,
    /// The time between neighbouring hops of one copy, and from one copy to the next.
    latencies: Vec<Step>,
    /// Custom probes that are shown as hops, and saw its bytes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<Passed>,
    /// The first bytes of its packets, where they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heads: Vec<Head>,
}

/// Custom probes and heads that a row has at most.
const MOST_BESIDE: usize = 64;

/// A custom probe that saw its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// What the probe is called.
    pub probe: String,
    /// The hop that it stands behind.
    pub after: Option<Hop>,
    /// When, nanoseconds of `CLOCK_MONOTONIC` of the first recording.
    pub time_ns: u64,
    cpu: u16,
    /// Its values with their names, in the probe's order; absent where one could not be read.
    values: Vec<(String, Option<i64>)>,
    /// The same in words.
    #[serde(skip)]
    pub told: String,
}

/// The first bytes of one of its packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Head {
    /// Where they were taken.
    pub hop: Hop,
    /// When.
    pub time_ns: u64,
    /// First byte of the packet's range in sequence numbers; the journey may be a part of it.
    pub seq: u32,
    /// Payload bytes of the packet.
    pub of_bytes: u32,
    /// Those that were kept.
    pub bytes: Vec<u8>,
    /// In hexadecimal digits and as text.
    #[serde(skip)]
    pub dump: Vec<String>,
}

/// From whom to whom; empty where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Way {
    /// Sender's address and port.
    pub from: String,
    /// Receiver's address and port.
    pub to: String,
    from_node: String,
    to_node: String,
    sender: String,
    reader: String,
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

/// A hop it passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Place {
    hop: Hop,
    time_ns: u64,
    cpu: u16,
    tgid: u32,
    tid: u32,
    /// Number of the copy that passed; absent at the sockets' hops and where it was sent once.
    #[serde(skip_serializing_if = "is_none_left")]
    copy: u32,
    /// Taken when the call returned: at no place in the order of time.
    at_return: bool,
}

/// One copy of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// From 1.
    pub number: u32,
    /// Why it was sent, as the kernel told.
    pub kind: Resend,
    told_ns: Option<u64>,
    /// The receiver's hops may be those of another copy.
    ambiguous: bool,
    /// Whether the hops of the receiver's socket follow this one.
    pub ended: bool,
    /// When the kernel dropped it, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drop_name: Option<String>,
    /// The last hop that it passed.
    pub last: Option<Hop>,
    /// The same in words.
    #[serde(skip)]
    pub said: String,
}

/// A step between two hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The hop it left.
    pub from: Hop,
    /// The hop it reached.
    pub to: Hop,
    /// How long it took, nanoseconds.
    pub ns: u64,
    /// The time between two copies: waiting for retransmission.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waited: bool,
    /// Between two clocks: how far from the truth that can be, nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub half_width_ns: u64,
    /// Between two clocks: whether it can be told from zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolvable: Option<bool>,
}

impl Row {
    /// Names everything now: what the correlator knows of a flow it may forget later.
    pub fn of(journey: &Journey, known: &dyn Context, utc: &UtcMap, beside: &Beside) -> Self {
        let step = |latency: Latency| {
            let Latency { from, to, ns, half_width_ns, is_wait, .. } = latency;
            let resolvable = (half_width_ns > 0).then(|| latency.is_resolvable());
            Step { from, to, ns, waited: is_wait, half_width_ns, resolvable }
        };
        let on_the_way = |(rung, latency): (Rung, Option<Latency>)| {
            latency.filter(|l| l.to != Hop::DevDone && rung.copy <= journey.copy)
        };
        let latencies: Vec<Step> = journey.spans().filter_map(|(_, latency)| latency.map(step)).collect();
        let start_ns = journey.start_ns();
        Row {
            id: journey.id,
            proto: journey.proto,
            tx_flow: journey.tx_flow,
            rx_flow: journey.rx_flow,
            way: Way::of(journey, known),
            range: Range { start: journey.range.start, end: journey.range.end },
            bytes: journey.bytes(),
            start_utc: start_ns.and_then(|ns| sessions::utc_text(utc, ns)),
            start_ns,
            total_ns: journey.total_ns(),
            total_half_width_ns: journey.total_half_width_ns(),
            across: journey.across,
            verdict: journey.verdict.name(),
            verdict_text: words(journey, known),
            gap: match journey.verdict {
                Verdict::BrokenByEventLoss { gap } => Some(gap),
                _ => None,
            },
            retransmits: journey.retransmits(),
            copies: journey.copies.iter().map(|copy| Passage::of(journey, copy, known)).collect(),
            copies_left_out: journey.copies_left_out,
            ambiguous: journey.ambiguous,
            largest: journey.spans().filter_map(on_the_way).max_by_key(|l| l.ns).map(step),
            rungs: journey
                .all_rungs()
                .map(|r| Place {
                    hop: r.hop,
                    time_ns: r.time_ns,
                    cpu: r.cpu,
                    tgid: r.tgid,
                    tid: r.tid,
                    copy: r.copy,
                    at_return: r.at_return,
                })
                .collect(),
            latencies,
            probes: Passed::all(journey, known, beside),
            heads: beside.heads_of(journey).into_iter().take(MOST_BESIDE).map(Head::of).collect(),
        }
    }
}

impl Passed {
    fn all(journey: &Journey, known: &dyn Context, beside: &Beside) -> Vec<Self> {
        let named = |(node, hit): (u16, ProbeHit)| {
            let probe = known.info(node)?.probes.get(usize::from(hit.probe))?;
            let value = |(i, value): (usize, &ProbeValue)| (value.name.clone(), hit.value(i));
            (probe.mark == Mark::Hop).then(|| Passed {
                probe: probe.name.clone(),
                after: probe.after,
                time_ns: hit.time_ns,
                cpu: hit.cpu,
                values: probe.values.iter().enumerate().map(value).collect(),
                told: probe.told(&hit),
            })
        };
        beside.hits_of(journey).into_iter().filter_map(named).take(MOST_BESIDE).collect()
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
    fn of(journey: &Journey, copy: &SentCopy, known: &dyn Context) -> Self {
        let last = copy.rungs.last();
        let why = copy.dropped.map(|drop| known.copy_drop(journey, copy, &drop));
        let ended = copy.number == journey.copy;
        let behind = last.map_or_else(|| " not seen".to_owned(), |hop| format!(" to {hop}"));
        let end = match &why {
            Some(why) => format!(": {why}"),
            None => String::new(),
        };
        Passage {
            number: copy.number,
            kind: copy.kind,
            told_ns: copy.told_ns,
            ambiguous: copy.ambiguous,
            ended,
            dropped_ns: copy.dropped.map(|drop| drop.time_ns),
            said: format!("{}{behind}{end}", copy.words()),
            drop_name: why,
            last,
        }
    }
}

impl Way {
    /// Looks the two ends up.
    pub fn of(journey: &Journey, known: &dyn Context) -> Self {
        let (tx, rx) = (known.tx_flow(journey), known.rx_flow(journey));
        let (from, to) = match (tx, rx) {
            (Some(tx), _) => (tx.local.to_string(), tx.remote.to_string()),
            (None, Some(rx)) => (rx.remote.to_string(), rx.local.to_string()),
            (None, None) => Default::default(),
        };
        let place =
            |node: u16, flow: Option<&Flow>| flow.map(|f| known.place(node, f.netns)).unwrap_or_default();
        let name = |task: Option<&Task>| task.map(|task| task.comm.clone()).unwrap_or_default();
        Way {
            from,
            to,
            from_node: place(journey.tx_node, tx),
            to_node: place(journey.rx_node, rx),
            sender: name(known.sender(journey)),
            reader: name(known.reader(journey)),
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

    /// Both, to be searched.
    pub fn line(&self, proto: Proto) -> String {
        format!("{} {}", self.flow(proto), self.processes())
    }
}

/// A verdict as a person would say it.
fn words(journey: &Journey, known: &dyn Context) -> String {
    match journey.verdict {
        Verdict::BrokenByEventLoss { gap } => broken(&gap, journey.start_ns()),
        Verdict::HalfComplete => "complete as far as one end shows".to_owned(),
        Verdict::InFlight => "still in flight".to_owned(),
        Verdict::ReadUnseen => "read, but unseen when".to_owned(),
        Verdict::Evicted => "given up on, too many in flight".to_owned(),
        _ => known.verdict(journey),
    }
}

/// Which loss broke it: `3 events lost on CPU 1 (ring buffer full), 12 µs after it began, within 3 ms`.
fn broken(gap: &Loss, start_ns: Option<u64>) -> String {
    let events = if gap.count == 1 { "event" } else { "events" };
    let cpu = if gap.cpu == u16::MAX { String::new() } else { format!(" on CPU {}", gap.cpu) };
    let place = match start_ns.map(|start_ns| (gap.from_ns.checked_sub(start_ns), start_ns)) {
        Some((Some(after_ns), _)) => format!(", {} after it began", duration(after_ns)),
        Some((None, start_ns)) => format!(", {} before it was first seen", duration(start_ns - gap.from_ns)),
        None => String::new(),
    };
    let within = duration(gap.to_ns.saturating_sub(gap.from_ns));
    format!("broken: {} {events} lost{cpu} ({}){place}, within {within}", gap.count, gap.cause)
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_none_left(number: &u32) -> bool {
    *number == 0
}

fn as_text<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
