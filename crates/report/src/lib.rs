//! Reports, statistics and comparison of recordings.
//!
//! A [`Report`] holds the results of a capture as one value that serialises and prints. Every figure names its
//! unit and every percentile its denominator: the number of journeys, and the reasons for leaving the others
//! out.
//!
//! - [`stats`]: sums and percentiles in bounded memory.
//! - [`compare`]: differences of recordings, with confidence intervals.
//! - [`requests`]: exchanges in groups.
//! - [`switches`]: durations of context switches.

mod attempts;
mod blame;
mod builder;
pub mod compare;
mod connections;
mod custom;
mod drops;
mod estimates;
mod figures;
mod governed;
mod groups;
mod headline;
mod hop_rates;
mod hop_sums;
mod kernel;
mod missed;
mod observed;
pub mod requests;
mod running;
mod service;
pub mod stats;
pub mod switches;
mod text;
mod throughput;
mod unobserved;

pub use attempts::UnansweredPeer;
pub use blame::{BlamePart, BlameRow};
pub use builder::ReportBuilder;
pub use connections::{Connections, PointReason};
pub use custom::{PointRow, ProbeRow, ValueRow};
pub use drops::{DeciderRow, Drops, ReasonRow, UnrecordedDrops};
pub use estimates::Estimate;
pub use figures::{percent_of, wrap};
pub use governed::{Governed, GovernedStretch};
pub use groups::{Figures, FlowEnds, GroupBy, GroupEnd, GroupKey, GroupRow, GroupTable, Label, Role, Share};
pub use headline::{Evidence, Facts, Findings, Headline, HeadlineKind, REQUEST_SERVICES, SLOW_NS, headline};
pub use kernel::{KernelFlow, KernelHop, KernelPair, KernelTable};
pub use requests::{GradeCounts, PartShare, RequestRow, RequestSums, RequestTable, RequestsBy};
pub use running::{RunningRow, RunningTable};
pub use service::ServiceKey;
pub use text::{render_connections, render_losses, render_text};
pub use throughput::{Border, ProtocolThroughput, Throughput};
pub use unobserved::UnobservedHop;

use crate::stats::{Bucket, Quantiles};
use magscope_core::batch::LossCause;
use magscope_core::flow::Proto;
use magscope_core::hop::Hop;
use magscope_core::journey::Verdict;
use magscope_core::node::NodeInfo;
use magscope_core::outcomes::{Counts, Outcomes};
use serde::Serialize;

/// The results of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Host name.
    pub node: String,
    /// Kernel release.
    pub kernel: String,
    /// Start of the observed time, `CLOCK_MONOTONIC`, nanoseconds.
    pub start_ns: u64,
    /// End of the observed time, `CLOCK_MONOTONIC`, nanoseconds.
    pub end_ns: u64,
    /// The observed time, with or without events, nanoseconds. Rates are of it.
    pub duration_ns: u64,
    /// The worst true thing in one line, or that nothing is wrong.
    pub headline: Headline,
    /// Events of all hops.
    pub events: u64,
    /// The counts that every screen, metric and format has.
    pub counts: Counts,
    /// One row per hop that was served or seen, in stack order.
    pub hops: Vec<HopRow>,
    /// Events of namespaces beyond the maximum number of distinct ones.
    pub events_elsewhere: u64,
    /// Verdicts of journeys, by protocol.
    pub verdicts: Vec<VerdictRow>,
    /// The parts of the time of journeys with a seen end, by protocol.
    pub blame: Vec<BlameRow>,
    /// The flows with the most bytes.
    pub flows: Vec<FlowRow>,
    /// Number of flows, including those outside the table. Beyond some two thousand the lighter ones are
    /// evicted, and a returning one counts again.
    pub flows_total: u64,
    /// Payload bytes of the journeys of flows outside the table.
    pub flows_rest_bytes: u64,
    /// Maximum number of remembered flows, if there were more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows_bound: Option<u64>,
    /// The journeys in the requested groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupTable>,
    /// Requests and responses by service, on request; `None` without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestTable>,
    /// Input and output of each layer, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Throughput>,
    /// The running average of received data, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningTable>,
    /// The kernel's sums in place of events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<KernelTable>,
    /// Custom probes, and their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeRow>,
    /// Packets that the kernel dropped, as far as they were recorded.
    pub drops: Drops,
    /// Points of TCP connections.
    #[serde(skip_serializing_if = "Connections::is_empty")]
    pub connections: Connections,
    /// Records that were lost.
    pub losses: Losses,
    /// Damage of the recordings, and that one was not closed: a sentence for each place.
    pub damage: Vec<String>,
    /// Reduced capture levels by budgets, with their times.
    #[serde(skip_serializing_if = "Governed::is_empty")]
    pub governed: Governed,
    /// Estimates from complete flows, if others were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<Estimate>,
    /// Unserved hops, and the reasons.
    pub missing: Vec<MissingHop>,
    /// Sockets that were there when the capture began and are not followed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_followed: Vec<NotFollowed>,
    /// Information on datagrams that the available hops do not give, and the hop that would.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unobserved_hops: Vec<UnobservedHop>,
    /// The basis of the latencies.
    pub denominator: Denominator,
}

/// One hop of a [`Report`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopRow {
    /// The hop.
    pub hop: Hop,
    /// Events.
    pub events: u64,
    /// Payload bytes of those events; a retransmitted byte counts again.
    pub bytes: u64,
    /// Events per second while the hop was on; of all that there were, where a sampler left some out or the
    /// kernel added them up.
    pub events_per_s: f64,
    /// True if that covers more than the recorded events. All other figures of this row cover recorded events
    /// only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// All events, if a sampler left some out or the kernel added them up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_events: Option<f64>,
    /// All payload bytes, if a sampler left some out; `None` if the kernel added events up without their bytes, or if the weights of
    /// recorded bytes are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_bytes: Option<f64>,
    /// Latency from the hop below on the path of the same journey; `None` if no journey passed both, or
    /// journeys of several protocols did.
    pub latency: Option<Quantiles>,
    /// If the previous hop is on another clock: error bound of each such latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_width: Option<Quantiles>,
    /// Of those, the number that may be zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unresolvable: Option<u64>,
    /// The shape of that latency, nanoseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<Bucket>,
    /// Latency from the hop below by protocol, if journeys of several passed it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<HopProtocol>,
    /// The same per network namespace, if there are several. Their events and bytes add up to the hop's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<HopNode>,
}

/// The latency to one hop of one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopProtocol {
    /// TCP or UDP.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// Latency from the hop below.
    pub latency: Quantiles,
    /// As [`HopRow::half_width`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_width: Option<Quantiles>,
    /// As [`HopRow::unresolvable`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unresolvable: Option<u64>,
    /// The shape of the latency, nanoseconds.
    pub histogram: Vec<Bucket>,
}

/// One hop in one network namespace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopNode {
    /// Name of the namespace; `not known` for events without one.
    pub node: String,
    /// Events.
    pub events: u64,
    /// Payload bytes of those events.
    pub bytes: u64,
    /// Latency from the hop below, if journeys of one protocol passed it.
    pub latency: Option<Quantiles>,
    /// The same by protocol, if journeys of several did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<HopProtocol>,
}

/// The verdicts of the journeys of one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictRow {
    /// TCP or UDP.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// Total number.
    pub journeys: u64,
    /// With a seen end, both ends in the capture.
    pub complete: u64,
    /// With a seen end at the one end in the capture.
    pub half_complete: u64,
    /// Vanished.
    pub lost: u64,
    /// Dropped by the kernel, with a reason.
    pub dropped: u64,
    /// Events of it are missing.
    pub broken_by_event_loss: u64,
    /// Not ended yet.
    pub in_flight: u64,
    /// Read without a read event.
    pub read_unseen: u64,
    /// Evicted.
    pub evicted: u64,
    /// Seen up to the last served hop, which is not the end.
    pub not_probed: u64,
    /// Left out by a filter, a sampler or a disabled hop.
    pub filtered: u64,
    /// Discarded in a socket.
    pub discarded: u64,
    /// Delivered to code of the kernel.
    pub delivered: u64,
    /// Retransmitted journeys, each counted once.
    pub resent: u64,
    /// Sum of their retransmissions.
    pub retransmits: u64,
    /// Matched by order or length against part of the evidence.
    pub ambiguous: u64,
}

impl VerdictRow {
    fn of(proto: Proto, outcomes: &Outcomes, ambiguous: u64) -> Self {
        let [
            complete,
            half_complete,
            lost,
            dropped,
            broken,
            in_flight,
            read_unseen,
            evicted,
            not_probed,
            filtered,
            discarded,
            delivered,
        ] = outcomes.verdicts;
        VerdictRow {
            proto,
            journeys: outcomes.journeys(),
            complete,
            half_complete,
            lost,
            dropped,
            broken_by_event_loss: broken,
            in_flight,
            read_unseen,
            evicted,
            not_probed,
            filtered,
            discarded,
            delivered,
            resent: outcomes.resent,
            retransmits: outcomes.retransmits,
            ambiguous,
        }
    }
}

/// One flow of a [`Report`], from the sender's side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowRow {
    /// Sender and receiver.
    #[serde(flatten)]
    pub ends: FlowEnds,
    /// Payload bytes of its journeys.
    pub bytes: u64,
    /// Journeys.
    pub journeys: u64,
    /// Journeys with a seen end.
    pub whole: u64,
    /// Retransmitted journeys, each counted once.
    pub resent: u64,
    /// Sum of their retransmissions.
    pub retransmits: u64,
    /// First hop to last of those with a seen end.
    pub total: Option<Quantiles>,
}

/// Records lost between kernel and reader.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Losses {
    /// Number of records.
    pub records: u64,
    /// Number of stretches of time; those that overlap are one.
    pub stretches: u64,
    /// Total length of the stretches, nanoseconds.
    pub span_ns: u64,
    /// By cause.
    pub causes: Vec<CauseRow>,
    /// Events too late for sorting.
    pub late_events: u64,
}

/// One cause of loss.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CauseRow {
    /// Place of the loss.
    pub cause: LossCause,
    /// Number of records.
    pub records: u64,
}

/// An unserved hop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MissingHop {
    /// The hop.
    pub hop: Hop,
    /// The reason.
    pub because: String,
}

/// Sockets of one kind that are not followed, in one network namespace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotFollowed {
    /// Name of the host.
    pub host: String,
    /// Name of the namespace.
    pub node: String,
    /// Kind of the sockets.
    pub kind: String,
    /// Their number.
    pub sockets: u32,
}

impl NotFollowed {
    fn of(info: &NodeInfo) -> impl Iterator<Item = Self> + '_ {
        info.not_followed.iter().map(|sockets| NotFollowed {
            host: info.host.clone(),
            node: info.netns_name(sockets.netns),
            kind: sockets.kind.clone(),
            sockets: sockets.sockets,
        })
    }
}

/// Journeys with latencies in the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Denominator {
    /// Journeys whose latencies are in the table.
    pub measured: u64,
    /// Those of them whose times may be a neighbour's. The headline leaves these out.
    #[serde(skip)]
    pub ambiguous: u64,
    /// Journeys in all.
    pub journeys: u64,
    /// The reasons why the others are not, each with a number.
    pub left_out: Vec<LeftOut>,
    /// Pairs of events of one journey in the wrong order of time, left out of the latencies.
    pub disordered: u64,
}

/// A reason for excluding journeys from the latencies.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// Name of the verdict.
    pub because: String,
    /// Number of journeys.
    pub journeys: u64,
}

impl LeftOut {
    /// The kinds of verdict without an end-to-end latency, if any journey has them.
    fn of(kinds: &[u64; Verdict::KINDS]) -> Vec<Self> {
        let named = kinds.iter().zip(Verdict::NAMES).enumerate();
        let left_out = named.filter(|(kind, (n, _))| **n > 0 && !Verdict::is_whole_kind(*kind));
        left_out.map(|(_, (n, name))| LeftOut { because: name.to_owned(), journeys: *n }).collect()
    }
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn as_text_of<T: std::fmt::Display, S: serde::Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn as_text<T: std::fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}
