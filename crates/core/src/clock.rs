//! One reading of a node's clocks.

use serde::{Deserialize, Serialize};

/// One reading of a node's clocks at the same instant, to within `width_ns`.
///
/// Events carry `CLOCK_MONOTONIC`, which NTP slews; geometry between hosts needs `CLOCK_MONOTONIC_RAW`; users
/// read UTC. A session carries samples of the map between the three, never a single offset.
///
/// The fields after `width_ns` describe breaks and the steering of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockSample {
    /// `CLOCK_MONOTONIC`, nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_MONOTONIC_RAW`, nanoseconds.
    pub raw_ns: u64,
    /// `CLOCK_REALTIME`, nanoseconds since 1970-01-01 UTC.
    pub realtime_ns: i64,
    /// The three were read within this many nanoseconds: the sample's error is at most half of it.
    pub width_ns: u32,
    /// Total sleep time of the host since boot (`CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC`), to within some
    /// width.
    pub suspended_ns: u64,
    /// `CLOCK_TAI` minus `CLOCK_REALTIME`, seconds; 0 if the kernel does not have it.
    pub tai_offset_s: i32,
    /// Number of times `CLOCK_REALTIME` was set since the capture began.
    pub realtime_steps: u32,
    /// The kernel's clock source.
    pub clocksource: Clocksource,
    /// The rate of `CLOCK_MONOTONIC` that the kernel is set to, less its nominal rate: `adjtimex`'s `freq` and
    /// `tick`, and the slew of a pending `offset`; parts per million times 2¹⁶.
    pub frequency: i64,
    /// `adjtimex`'s `status`: `STA_PLL` 1 and the other bits of `linux/timex.h`.
    pub status: u32,
    /// Number of times since the capture began that this machine was continued from a saved state, cloned or
    /// migrated, as its hypervisor reports it.
    pub generations: u32,
    /// Maximum error of UTC, if a source states one. Never the kernel's own `maxerror`, which some daemons set
    /// to 0.
    pub utc_error_ns: Option<u64>,
    /// The events' clock if it is another than `CLOCK_MONOTONIC` (the TSC), nanoseconds; else 0.
    pub stamp_ns: u64,
}

/// A kernel's clock source (`current_clocksource`). Numbers never change meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Clocksource {
    /// Not recorded.
    #[default]
    Unknown = 0,
    /// The CPU's time stamp counter.
    Tsc = 1,
    /// High precision event timer.
    Hpet = 2,
    /// ACPI power management timer.
    AcpiPm = 3,
    /// KVM's page of time.
    KvmClock = 4,
    /// Hyper-V's page of time, or its counter.
    HyperV = 5,
    /// Xen's page of time.
    Xen = 6,
    /// The counter of ARM's generic timer.
    ArmArchTimer = 7,
    /// Another one.
    Other = 255,
}

impl Clocksource {
    const ALL: [Self; 9] = [
        Self::Unknown,
        Self::Tsc,
        Self::Hpet,
        Self::AcpiPm,
        Self::KvmClock,
        Self::HyperV,
        Self::Xen,
        Self::ArmArchTimer,
        Self::Other,
    ];

    /// The clock source with this number in a session file; numbers of newer versions are others.
    pub fn from_id(id: u8) -> Self {
        Self::ALL.into_iter().find(|source| *source as u8 == id).unwrap_or(Self::Other)
    }

    /// From the kernel's name for it.
    pub fn from_kernel_name(name: &str) -> Self {
        match name {
            "tsc" | "tsc-early" => Self::Tsc,
            "hpet" => Self::Hpet,
            "acpi_pm" => Self::AcpiPm,
            "kvm-clock" => Self::KvmClock,
            "xen" => Self::Xen,
            "arch_sys_counter" => Self::ArmArchTimer,
            "" => Self::Unknown,
            name if name.starts_with("hyperv_") => Self::HyperV,
            _ => Self::Other,
        }
    }
}

/// A break of a node's clocks between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// The machine was continued from a saved state, cloned or migrated: no clock of it counts the pause.
    Generation,
    /// The host slept: R did not advance.
    Suspend,
    /// Another clocksource: R runs at another rate and may have jumped.
    Clocksource,
    /// `CLOCK_REALTIME` was set, or the offset of TAI: only the map to UTC is broken.
    Realtime,
}

impl Break {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Generation, Self::Suspend, Self::Clocksource, Self::Realtime];

    /// Name in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Generation => "generation",
            Self::Suspend => "suspend",
            Self::Clocksource => "clocksource",
            Self::Realtime => "realtime",
        }
    }
}

/// Shorter sleeps than this are the noise of reading two clocks.
const SLEEP_NS: u64 = 1_000_000;

impl ClockSample {
    /// The events' clock.
    pub const fn event_ns(&self) -> u64 {
        if self.stamp_ns == 0 { self.monotonic_ns } else { self.stamp_ns }
    }

    /// The worst break between this sample and the next one.
    pub fn break_before(&self, next: &ClockSample) -> Option<Break> {
        if next.generations != self.generations {
            return Some(Break::Generation);
        }
        if next.suspended_ns.abs_diff(self.suspended_ns) > SLEEP_NS {
            return Some(Break::Suspend);
        }
        let both_read = self.clocksource != Clocksource::Unknown && next.clocksource != Clocksource::Unknown;
        if both_read && self.clocksource != next.clocksource {
            return Some(Break::Clocksource);
        }
        // A slew moves MONOTONIC and REALTIME alike, so their difference changes only by a set of the clock.
        let ahead = |s: &ClockSample| i128::from(s.realtime_ns) - i128::from(s.monotonic_ns);
        let moved = (ahead(next) - ahead(self)).unsigned_abs();
        let set = next.realtime_steps != self.realtime_steps || next.tai_offset_s != self.tai_offset_s;
        let noise = u128::from(self.width_ns) + u128::from(next.width_ns);
        (set || moved > noise).then_some(Break::Realtime)
    }

    /// The kernel's setting of the rate of `CLOCK_MONOTONIC`, less its nominal rate, parts of one; `None` if the kernel
    /// gave none.
    pub fn kernel_rate(&self) -> Option<f64> {
        let is_given = self.frequency != 0 || self.status != 0;
        is_given.then(|| self.frequency as f64 / 65_536.0 / 1e6)
    }

    /// The same for breaks of R itself, without those of UTC alone.
    pub fn break_of_raw_before(&self, next: &ClockSample) -> Option<Break> {
        self.break_before(next).filter(|what| *what != Break::Realtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_is_no_noise_and_no_slew() {
        let one = ClockSample {
            monotonic_ns: 1_000,
            raw_ns: 1_000,
            realtime_ns: 9_000,
            width_ns: 40,
            ..ClockSample::default()
        };
        let next = ClockSample { monotonic_ns: 2_000, raw_ns: 1_900, realtime_ns: 10_070, ..one };
        assert_eq!(one.break_before(&next), None);
        assert_eq!(one.break_before(&ClockSample { realtime_ns: 10_100, ..next }), Some(Break::Realtime));
        assert_eq!(one.break_before(&ClockSample { realtime_steps: 1, ..next }), Some(Break::Realtime));
        assert_eq!(one.break_before(&ClockSample { suspended_ns: 999_999, ..next }), None);
        assert_eq!(one.break_before(&ClockSample { suspended_ns: 2_000_000, ..next }), Some(Break::Suspend));
        let tsc = ClockSample { clocksource: Clocksource::Tsc, ..one };
        assert_eq!(
            tsc.break_before(&ClockSample { clocksource: Clocksource::Hpet, ..next }),
            Some(Break::Clocksource)
        );
        assert_eq!(tsc.break_before(&next), None);
        let restored = ClockSample { generations: 1, suspended_ns: 2_000_000, ..next };
        assert_eq!(one.break_of_raw_before(&restored), Some(Break::Generation));
        assert_eq!((one.kernel_rate(), ClockSample { status: 64, ..one }.kernel_rate()), (None, Some(0.0)));
        assert_eq!(ClockSample { frequency: -500 << 16, ..one }.kernel_rate(), Some(-0.0005));
        assert_eq!(Clocksource::from_id(Clocksource::Xen as u8), Clocksource::Xen);
        assert_eq!(Clocksource::from_id(99), Clocksource::Other);
        assert_eq!(Clocksource::from_kernel_name("hyperv_clocksource_tsc_page"), Clocksource::HyperV);
    }
}
