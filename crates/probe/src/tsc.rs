//! The CPUs' time stamp counter as event clock.
//!
//! BPF programs read the TSC as the perf event `msr/tsc`, one per CPU, which counts from its opening. Repeated
//! simultaneous reads give the offset of each to the counter itself. A factor measured once converts cycles to
//! nanoseconds. The clock therefore runs at the rate of `CLOCK_MONOTONIC_RAW`, to some parts per million, and
//! starts at the value of `CLOCK_MONOTONIC`.

use crate::clock::{monotonic_ns, raw_ns};
use libbpf_rs::libbpf_sys::perf_event_attr;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

const PMU: &str = "/sys/bus/event_source/devices/msr";
const CLOCKSOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
/// Readings of a CPU's counter against the TSC; all must agree.
const READINGS: usize = 400;
/// Duration of the rate measurement.
const MEASURING: Duration = Duration::from_millis(20);

/// Conversion from cycles to nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds are `cycles * mult >> shift`.
    pub mult: u32,
    /// Shift of `mult`; at most 31.
    pub shift: u32,
    first_cycle: u64,
    /// Time of the first cycle, nanoseconds.
    pub origin_ns: u64,
    /// Maximum difference between TSC readings in programs and in user space, nanoseconds.
    pub doubt_ns: u32,
}

impl Rate {
    /// The instant of a cycle, counted from the first.
    pub fn ns(&self, cycles: u64) -> u64 {
        let ns = (u128::from(cycles) * u128::from(self.mult)) >> self.shift;
        self.origin_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Now.
    pub fn now_ns(&self) -> u64 {
        self.ns(read_tsc().saturating_sub(self.first_cycle))
    }
}

/// The open counters.
#[derive(Debug)]
pub struct Tsc {
    /// Conversion of their values.
    pub rate: Rate,
    /// By CPU: the counter, and the cycle at which it was 0. Offline CPUs have none.
    pub counters: Vec<Option<(OwnedFd, u64)>>,
}

impl Tsc {
    /// Opens a counter on each of so many CPUs.
    ///
    /// # Errors
    /// Why this host's TSC cannot be the clock of events.
    pub fn open(cpus: u32) -> Result<Self, String> {
        let kind = text(&format!("{PMU}/type")).trim().parse().ok();
        let event = text(&format!("{PMU}/events/tsc"));
        let event = event.trim().strip_prefix("event=0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let (Some(kind), Some(event)) = (kind, event) else {
            return Err("the kernel has no perf event msr/tsc".to_owned());
        };
        let (mult, shift) = measured_factor().ok_or("its rate cannot be measured")?;
        let (first_cycle, origin_ns) = read_pair(monotonic_ns);
        let (mut counters, mut doubt_cycles) = (Vec::new(), 0);
        for cpu in 0..cpus {
            let counter = match open(kind, event, cpu) {
                Ok(counter) => counter,
                // possible CPU that is offline
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {
                    counters.push(None);
                    continue;
                }
                Err(error) => return Err(format!("msr/tsc of CPU {cpu} cannot be opened: {error}")),
            };
            let (base, doubt) = base(&counter, cpu).map_err(|e| format!("msr/tsc of CPU {cpu}: {e}"))?;
            doubt_cycles = doubt_cycles.max(doubt);
            let base = base.checked_sub(first_cycle).ok_or("it runs backwards from one CPU to the next")?;
            counters.push(Some((counter, base)));
        }
        let exact = Rate { mult, shift, first_cycle, origin_ns: 0, doubt_ns: 0 };
        let doubt_ns = u32::try_from(exact.ns(doubt_cycles)).unwrap_or(u32::MAX);
        Ok(Tsc { rate: Rate { origin_ns, doubt_ns, ..exact }, counters })
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The obstacle to this processor's TSC as a clock; `None` if there is none.
pub fn obstacle() -> Option<String> {
    let why = if !cfg!(target_arch = "x86_64") {
        "this processor has none"
    } else if !text(CLOCKSOURCES).split_ascii_whitespace().any(|name| name == "tsc") {
        "the kernel does not trust it: it is not among the clock sources"
    } else {
        let cpuinfo = text("/proc/cpuinfo");
        let has = |flag| cpuinfo.split_ascii_whitespace().any(|word| word == flag);
        if has("constant_tsc") && has("nonstop_tsc") {
            return None;
        }
        "its rate changes, or it stops in sleep (no constant_tsc and nonstop_tsc)"
    };
    Some(why.to_owned())
}

/// Reads the TSC after all earlier instructions.
fn read_tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: both instructions are part of x86-64 and only read.
        #[allow(unsafe_code)]
        unsafe {
            std::arch::x86_64::_mm_lfence();
            std::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// The TSC and another clock at one instant, the closest of eight tries.
fn read_pair(clock: fn() -> u64) -> (u64, u64) {
    let once = |_| {
        let before = read_tsc();
        let ns = clock();
        (read_tsc().saturating_sub(before), before, ns)
    };
    let (_, cycle, ns) = (0..8).map(once).min().unwrap_or_default();
    (cycle, ns)
}

fn open(kind: u32, event: u64, cpu: u32) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let attributes = perf_event_attr {
        type_: kind,
        size: size_of::<perf_event_attr>() as u32,
        config: event,
        ..perf_event_attr::default()
    };
    // SAFETY: `attributes` contains its own length and outlives the call; the kernel only reads it. The result
    // is a new file descriptor or -1.
    #[allow(unsafe_code)]
    unsafe {
        let everybody: libc::pid_t = -1;
        let no_group: libc::c_int = -1;
        let cpu = cpu as libc::c_int;
        let fd = libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            everybody,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        );
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as libc::c_int)) }
    }
}

/// Why this process gets no perf events at all, from an attempt to open one that counts nothing; `None` if it does.
pub(crate) fn no_perf_events() -> Option<String> {
    const SOFTWARE: u32 = 1;
    const DUMMY: u64 = 9;
    let refusal = open(SOFTWARE, DUMMY, 0).err()?;
    Some(format!(
        "perf events, which it needs, are refused: {refusal} (a kernel without CONFIG_PERF_EVENTS, or a security policy)"
    ))
}

/// The factor from cycles to nanoseconds, measured against `CLOCK_MONOTONIC_RAW`. An error of some parts per
/// million is harmless, because batches carry samples of both clocks.
fn measured_factor() -> Option<(u32, u32)> {
    let (first_cycle, first_ns) = read_pair(raw_ns);
    std::thread::sleep(MEASURING);
    let (last_cycle, last_ns) = read_pair(raw_ns);
    factor(last_cycle.checked_sub(first_cycle)?, last_ns.checked_sub(first_ns)?)
}

/// Nanoseconds per cycle as `mult >> shift`, as exact as 32 bits allow.
fn factor(cycles: u64, ns: u64) -> Option<(u32, u32)> {
    (0..32).rev().find_map(|shift| {
        let mult = (u128::from(ns) << shift) / u128::from(cycles.max(1));
        Some((u32::try_from(mult).ok().filter(|mult| *mult > 0)?, shift))
    })
}

/// The cycle at which a CPU's counter was 0, and its error: the interval that agrees with all readings.
fn base(counter: &OwnedFd, cpu: u32) -> io::Result<(u64, u64)> {
    let read = || -> io::Result<(u64, u64)> {
        let mut count = [0; 8];
        let before = read_tsc();
        rustix::io::read(counter, &mut count)?;
        let (after, count) = (read_tsc(), u64::from_ne_bytes(count));
        Ok((before.wrapping_sub(count), after.wrapping_sub(count)))
    };
    // On that CPU, in a temporary thread.
    std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            let mut only = CpuSet::new();
            only.set(cpu as usize);
            sched_setaffinity(None, &only)?;
            let (mut low, mut high) = read()?;
            for _ in 1..READINGS {
                let (from, to) = read()?;
                (low, high) = (low.max(from), high.min(to));
            }
            if low > high {
                return Err(io::Error::other("it does not keep its distance from the TSC"));
            }
            Ok((low + (high - low) / 2, (high - low).div_ceil(2)))
        });
        there.join().unwrap_or_else(|_| Err(io::Error::other("it cannot be read")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_become_nanoseconds_as_in_the_kernel() {
        // As `clock_now` of bpf/clock.h, in 64 bits.
        let kernel = |rate: &Rate, cycles: u64| {
            let mult = u64::from(rate.mult);
            rate.origin_ns
                .wrapping_add(((cycles >> 32).wrapping_mul(mult)) << (32 - rate.shift))
                .wrapping_add(((cycles & 0xffff_ffff) * mult) >> rate.shift)
        };
        for (mult, shift) in [(0x5555_5555, 31), (699_050_667, 31), (1, 0), (0xffff_ffff, 31), (10_485_760, 24)]
        {
            let rate = Rate { mult, shift, first_cycle: 0, origin_ns: 12_345, doubt_ns: 0 };
            for cycles in [0, 1, 0xffff_ffff, 1 << 32, (1 << 32) + 1, 987_654_321_012_345] {
                assert!(kernel(&rate, cycles).abs_diff(rate.ns(cycles)) <= 1, "{mult} {shift} {cycles}");
            }
        }
    }

    #[test]
    fn a_factor_is_as_exact_as_it_can_be() {
        for (cycles, ns) in
            [(3_000_000_000, 1_000_000_000), (1_000_000_007, 1_000_000_000), (24, 1_000), (1, 1)]
        {
            let (mult, shift) = factor(cycles, ns).expect("a factor");
            let made = (u128::from(cycles) * u128::from(mult)) >> shift;
            assert!(
                u64::try_from(made).expect("small").abs_diff(ns) <= 1 + ns / 100_000_000,
                "{cycles} {ns} {made}"
            );
        }
        assert_eq!(factor(1, u64::MAX), None);
    }

    #[test]
    fn the_counters_agree_with_each_other_or_say_why_not() {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        match Tsc::open(cpus) {
            Err(because) => println!("skipped, because the TSC cannot be read: {because}"),
            Ok(tsc) => {
                let (own, monotonic) = (tsc.rate.now_ns(), monotonic_ns());
                assert!(own.abs_diff(monotonic) < 50_000_000, "{own} and {monotonic}: they began together");
                assert!(tsc.rate.doubt_ns < 50_000, "{} ns", tsc.rate.doubt_ns);
                println!("msr/tsc against the TSC: ± {} ns", tsc.rate.doubt_ns);
            }
        }
    }
}
