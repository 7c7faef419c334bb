//! A snapshot of a sensor: plain data, of which every format is a pure function.

use crate::clocks::ClockRelation;
use crate::histogram::Times;
use magscope_core::{Hop, LossCause};
use serde::{Deserialize, Serialize};

/// A snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// True if each metric needs a host label.
    pub named: bool,
    /// The instrument's own cost.
    pub own: SelfUsage,
    /// A host each.
    pub hosts: Vec<HostSnapshot>,
    /// Relations of their clocks.
    #[serde(default)]
    pub clocks: Vec<ClockRelation>,
    /// Number of further pairs of clocks, which are left out.
    #[serde(default)]
    pub clocks_left_out: u64,
}

/// The instrument's own cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfUsage {
    /// Program version.
    pub version: String,
    /// Processor time of this process, nanoseconds.
    pub cpu_ns: u64,
}

/// Snapshot of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSnapshot {
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// `boot_id` of its boot.
    pub boot_id: String,
    /// Filters, samplers and the level of detail in force, as command-line settings.
    pub settings: Vec<String>,
    /// Filters that applied to a part of the last minute, and no longer do.
    #[serde(default)]
    pub ended_settings: Vec<String>,
    /// Start of the capture; `None` before the first data.
    pub began: Option<Began>,
    /// The last event time, nanoseconds of the event clock.
    pub fed_ns: u64,
    /// UTC minus the event clock, nanoseconds, from the last clock sample.
    pub to_utc_ns: Option<i64>,
    /// Maximum error of its UTC by the newest clock sample, nanoseconds; `None` if no source states one.
    #[serde(default)]
    pub utc_error_ns: Option<u64>,
    /// Every hop, with its service and rejected events.
    pub hops: Vec<HopState>,
    /// Sums since the start.
    pub total: Tally,
    /// Sums of the last minute.
    pub window: Tally,
    /// Current length of the window, nanoseconds.
    pub window_ns: u64,
    /// Events and journeys that were too old for the window. The total includes them.
    pub stragglers: u64,
}

/// An instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// Nanoseconds of the host's event clock.
    pub ns: u64,
    /// UTC minus that clock, nanoseconds, from the first clock sample, and therefore constant.
    pub to_utc_ns: Option<i64>,
}

/// Service of one hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HopState {
    /// The hop.
    pub hop: Hop,
    /// `None` if served now; otherwise the reason.
    pub unserved: Option<String>,
    /// The reason why events of a part of the last minute are missing, if they are.
    #[serde(default)]
    pub gap: Option<String>,
    /// Events represented by each received one: 1 without a sampler.
    pub weight: f64,
    /// Rejected events by the kernel's counters, if available.
    pub left_out: Option<LeftOut>,
}

/// Events that the kernel rejected at a hop since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Rejected by the filter.
    pub filtered: u64,
    /// Rejected because the filter tests a field that is unknown there.
    pub undecided: u64,
    /// Rejected by a sampler.
    pub sampled: u64,
}

/// Sums over a period. Counts are of received events, without extrapolation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Hops that were hit.
    pub hops: Vec<HopTally>,
    /// Packets that the kernel dropped, by its reasons.
    pub drops: Vec<DropCount>,
    /// Packets that the kernel freed in a clean-up, by reason; these are no drops.
    #[serde(default)]
    pub cleaned_up: Vec<DropCount>,
    /// Lost records by cause.
    pub losses: Vec<CauseCount>,
    /// Events that arrived too late for the time order.
    pub late: u64,
    /// Breaks of the host's clocks by kind, from its clock samples.
    #[serde(default)]
    pub clock_breaks: Vec<BreakCount>,
    /// Journeys by verdict.
    pub journeys: Vec<JourneyCount>,
    /// Journeys with more than one copy.
    #[serde(default)]
    pub resent: Vec<ResentCount>,
    /// Requests and responses by service.
    #[serde(default)]
    pub services: Vec<ServiceTally>,
    /// Times between neighbouring hops of complete journeys.
    pub latencies: Vec<PairTimes>,
    /// Time from available data to the woken reader on its CPU.
    pub wakeup: Times,
    /// Time from the device queue to the driver.
    pub queue: Times,
    /// Sums of the kernel in place of events, not included above.
    #[serde(default)]
    pub kernel: KernelTally,
}

/// Sums that the kernel made (see [`magscope_core::synthesis`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelTally {
    /// Times between hops of the same packet or socket; the maximum is exact to one part in sixteen.
    pub latencies: Vec<PairTimes>,
    /// Hops that were hit.
    pub hops: Vec<KernelHop>,
    /// Packets that the kernel dropped, by its reasons.
    pub drops: Vec<DropCount>,
    /// Packets that the kernel freed in a clean-up, by its reasons.
    #[serde(default)]
    pub cleaned_up: Vec<DropCount>,
}

/// Hits of a hop in the kernel's sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelHop {
    /// The hop.
    pub hop: Hop,
    /// Hits.
    pub events: u64,
    /// Payload bytes, if packets are summed.
    pub bytes: Option<u64>,
}

/// Events of one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopTally {
    /// The hop.
    pub hop: Hop,
    /// Events.
    pub events: u64,
    /// Payload bytes.
    pub bytes: u64,
}

/// Drops for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCount {
    /// The kernel's name.
    pub reason: String,
    /// Number of drops.
    pub n: u64,
}

/// Records lost for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseCount {
    /// Name of the cause; see [`cause_name`].
    pub cause: String,
    /// Number of records.
    pub records: u64,
}

/// Breaks of a host's clocks of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakCount {
    /// `suspend`, `clocksource` or `realtime`.
    pub kind: String,
    /// Number of breaks.
    pub n: u64,
}

/// Journeys with one verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JourneyCount {
    /// `tcp`, `udp`, …
    pub proto: String,
    /// Name of the verdict.
    pub verdict: String,
    /// Number of journeys.
    pub n: u64,
}

/// Journeys of one protocol with more than one copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResentCount {
    /// `tcp`, `udp`, …
    pub proto: String,
    /// Number of journeys.
    pub n: u64,
}

/// Exchanges of one service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceTally {
    /// `tcp` or `udp`.
    pub proto: String,
    /// Port of the responder; `None` for all services together that have no place of their own.
    pub port: Option<u16>,
    /// Process of the responder; empty if unknown.
    pub process: String,
    /// Exchanges by grade.
    pub grades: Vec<GradeCount>,
    /// From the first send of the request to the read of the response's last byte, of exchanges of the grade `turn`.
    pub total: Times,
    /// From the read of the request to the first send of the response, of the same.
    pub answer: Times,
}

/// Exchanges of one grade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GradeCount {
    /// Name of the grade.
    pub grade: String,
    /// Number of exchanges.
    pub n: u64,
}

/// Time between two consecutive hops of a journey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairTimes {
    /// The earlier hop.
    pub from: Hop,
    /// The later hop.
    pub to: Hop,
    /// `tcp`, `udp`, …; empty for sums of the kernel.
    #[serde(default)]
    pub proto: String,
    /// The times.
    pub times: Times,
}

impl HostSnapshot {
    /// Service of a hop.
    pub fn state(&self, hop: Hop) -> Option<&HopState> {
        self.hops.iter().find(|state| state.hop == hop)
    }

    /// `None` if the hop is served; otherwise the reason.
    pub fn unserved(&self, hop: Hop) -> Option<&str> {
        self.state(hop).map_or(Some("nobody says how it is served"), |state| state.unserved.as_deref())
    }
}

impl Tally {
    /// Events and bytes of a hop.
    pub fn hop(&self, hop: Hop) -> HopTally {
        let found = self.hops.iter().find(|tally| tally.hop == hop);
        found.copied().unwrap_or(HopTally { hop, events: 0, bytes: 0 })
    }

    /// Lost records of all causes.
    pub fn lost(&self) -> u64 {
        self.losses.iter().fold(0, |all, cause| all.saturating_add(cause.records))
    }
}

/// Name of a loss cause.
pub const fn cause_name(cause: LossCause) -> &'static str {
    match cause {
        LossCause::RingFull => "ring_full",
        LossCause::Gap => "gap",
        LossCause::RecorderQueue => "recorder_queue",
        LossCause::Damaged => "damaged",
        LossCause::Undecodable => "undecodable",
        LossCause::Refused => "refused",
        LossCause::Missed => "missed",
    }
}
