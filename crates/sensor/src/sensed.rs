//! A snapshot of a sensor: plain data, of which every format is a pure function.

use crate::histogram::Times;
use magscope_core::{Hop, LossCause};
use serde::{Deserialize, Serialize};

/// What was sensed until now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sensed {
    /// Whether each figure has to say of which host it is.
    pub named: bool,
    /// What the looking itself costs.
    pub own: Own,
    /// A host each.
    pub hosts: Vec<HostSensed>,
}

/// What the looking costs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Own {
    /// Of this program.
    pub version: String,
    /// Processor time of this process, nanoseconds.
    pub cpu_ns: u64,
}

/// What was sensed of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSensed {
    /// Its name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// `boot_id` of its boot.
    pub boot_id: String,
    /// What was left out from the beginning, in the words of the command line.
    pub settings: Vec<String>,
    /// When it began to be watched; nothing before anything came.
    pub began: Option<Began>,
    /// The last instant that was fed, nanoseconds of its event clock.
    pub fed_ns: u64,
    /// UTC less its event clock, nanoseconds, by the last reading of its clocks.
    pub to_utc_ns: Option<i64>,
    /// Every hop, how it is served and what was left out there.
    pub hops: Vec<HopState>,
    /// Since it began.
    pub total: Tally,
    /// Of the last minute.
    pub window: Tally,
    /// How long the window is by now, nanoseconds.
    pub window_ns: u64,
    /// Events and journeys that were too old for the window when they came. They are in the total.
    pub stragglers: u64,
}

/// An instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// Nanoseconds of the host's event clock.
    pub ns: u64,
    /// UTC less that clock, nanoseconds, by the first reading of its clocks, so that it stays what it is.
    pub to_utc_ns: Option<i64>,
}

/// How one hop is served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HopState {
    /// Which.
    pub hop: Hop,
    /// Nothing where it is served; else why not.
    pub unserved: Option<String>,
    /// How many events each that came stands for: 1 where no sampler leaves any out.
    pub weight: f64,
    /// What the kernel counted and left out, where that was read.
    pub left_out: Option<LeftOut>,
}

/// What the kernel left out at a hop since the capture began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// By the filter.
    pub filtered: u64,
    /// Because the filter asks for something that could not be known there.
    pub undecided: u64,
    /// By a sampler.
    pub sampled: u64,
}

/// Sums over some time. Counts are of what came: nothing is extrapolated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Hops that were hit.
    pub hops: Vec<HopTally>,
    /// Packets that the kernel dropped, by its reasons.
    pub drops: Vec<DropCount>,
    /// Packets that the kernel freed in a clean-up, which is no drop, by its reasons.
    #[serde(default)]
    pub cleaned_up: Vec<DropCount>,
    /// Records that are missing, by every cause there is.
    pub losses: Vec<CauseCount>,
    /// Events that came too late to be put in order.
    pub late: u64,
    /// Journeys by how they ended.
    pub journeys: Vec<JourneyCount>,
    /// Times between neighbouring hops of whole journeys.
    pub latencies: Vec<PairTimes>,
    /// From data that was ready to the reader that was woken for it on its CPU.
    pub wakeup: Times,
    /// From the device's queue to its driver.
    pub queue: Times,
    /// What the kernel added up in place of events, apart from all the above.
    #[serde(default)]
    pub kernel: KernelTally,
}

/// Sums that the kernel made itself (see [`magscope_core::synthesis`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelTally {
    /// Times from hop to hop of the same packet or socket; the longest is known to one part in sixteen.
    pub latencies: Vec<PairTimes>,
    /// Hops that were hit.
    pub hops: Vec<KernelHop>,
    /// Packets that the kernel dropped, by its reasons.
    pub drops: Vec<DropCount>,
    /// Packets that the kernel freed in a clean-up, by its reasons.
    #[serde(default)]
    pub cleaned_up: Vec<DropCount>,
}

/// Hits of a hop that the kernel added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelHop {
    /// Which.
    pub hop: Hop,
    /// Hits.
    pub events: u64,
    /// Their payload, bytes, where packets are added up.
    pub bytes: Option<u64>,
}

/// Events of one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopTally {
    /// Which.
    pub hop: Hop,
    /// Events.
    pub events: u64,
    /// Their payload, bytes.
    pub bytes: u64,
}

/// Drops for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCount {
    /// In the kernel's words.
    pub reason: String,
    /// How many.
    pub n: u64,
}

/// Records lost for one cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CauseCount {
    /// See [`cause_name`].
    pub cause: String,
    /// How many.
    pub records: u64,
}

/// Journeys that ended one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JourneyCount {
    /// `tcp`, `udp`, …
    pub proto: String,
    /// How, in one word.
    pub verdict: String,
    /// How many.
    pub n: u64,
}

/// The time from one hop to the next that a journey passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairTimes {
    /// The hop it left.
    pub from: Hop,
    /// The hop it reached.
    pub to: Hop,
    /// `tcp`, `udp`, …; empty of what the kernel added up, which does not know.
    #[serde(default)]
    pub proto: String,
    /// How long that took.
    pub times: Times,
}

impl HostSensed {
    /// How a hop is served.
    pub fn state(&self, hop: Hop) -> Option<&HopState> {
        self.hops.iter().find(|state| state.hop == hop)
    }

    /// Nothing where a hop is served; else why not.
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

    /// Records that are missing, whatever the cause.
    pub fn lost(&self) -> u64 {
        self.losses.iter().fold(0, |all, cause| all.saturating_add(cause.records))
    }
}

/// One word for where records were lost.
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
