//! PTP hardware clocks (PHC): the interval of `CLOCK_REALTIME` less the clock of a network card.
//!
//! A reading lies between two readings of `CLOCK_REALTIME`, so the difference lies in an interval as wide as the time
//! between these. The narrowest of several readings counts. It needs no assumption on the card or the bus.
//!
//! Devices are opened before privileges are dropped. A thread of its own reads them: a device that hangs or vanishes costs
//! these clocks, and nothing else.

use crate::clock::{monotonic_ns, set_rate};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Interval of readings.
const EVERY: Duration = Duration::from_secs(1);
/// Interval at which the thread checks for its end.
const LOOK: Duration = Duration::from_millis(50);
/// Older readings do not count.
const HOLDS_NS: u64 = 5_000_000_000;
/// Maximum number of devices of a host.
const MOST_DEVICES: u32 = 8;
/// Readings at once.
const READINGS: usize = 9;
/// The kernel's most (`PTP_MAX_SAMPLES`).
const MOST_READINGS: usize = 25;

/// A reading of a clock between two of `CLOCK_REALTIME`, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhcReading {
    /// `CLOCK_REALTIME` before.
    pub before_ns: i64,
    /// The clock.
    pub phc_ns: i64,
    /// `CLOCK_REALTIME` after.
    pub after_ns: i64,
}

/// `CLOCK_REALTIME` less a clock, and its maximum error, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhcOffset {
    /// The middle of the interval.
    pub ns: i64,
    /// Half of the interval.
    pub half_ns: u64,
}

impl PhcReading {
    /// The interval; `None` where `CLOCK_REALTIME` ran back.
    pub fn offset(&self) -> Option<PhcOffset> {
        let width_ns = u64::try_from(self.after_ns.checked_sub(self.before_ns)?).ok()?;
        let first_ns = self.before_ns.checked_sub(self.phc_ns)?;
        let half_ns = width_ns.div_ceil(2);
        // Three readings are rounded to nanoseconds.
        Some(PhcOffset { ns: first_ns.checked_add_unsigned(half_ns)?, half_ns: half_ns.saturating_add(2) })
    }
}

/// The interval of the narrowest reading.
pub fn narrowest(readings: &[PhcReading]) -> Option<PhcOffset> {
    readings.iter().filter_map(PhcReading::offset).min_by_key(|offset| offset.half_ns)
}

/// `struct ptp_clock_time`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct PtpTime {
    sec: i64,
    nsec: u32,
    reserved: u32,
}

impl PtpTime {
    fn ns(&self) -> Option<i64> {
        self.sec.checked_mul(1_000_000_000)?.checked_add(i64::from(self.nsec))
    }
}

/// `struct ptp_sys_offset_extended`: `CLOCK_REALTIME`, the clock, `CLOCK_REALTIME`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Extended {
    n_samples: u32,
    /// 0: `CLOCK_REALTIME`; before Linux 6.12 reserved.
    clockid: i32,
    reserved: [u32; 2],
    times: [[PtpTime; 3]; MOST_READINGS],
}

/// `struct ptp_sys_offset_precise`: both clocks at one instant, by the hardware.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Precise {
    device: PtpTime,
    realtime: PtpTime,
    monotonic_raw: PtpTime,
    reserved: [u32; 4],
}

/// `_IOWR('=', number, T)`.
const fn request<T>(number: u64) -> u64 {
    0xc000_0000 | (size_of::<T>() as u64) << 16 | 0x3d00 | number
}

const PTP_SYS_OFFSET_PRECISE: u64 = request::<Precise>(8);
const PTP_SYS_OFFSET_EXTENDED: u64 = request::<Extended>(9);

/// An open clock.
#[derive(Debug)]
pub struct Phc {
    /// Number of the device.
    pub index: u32,
    device: OwnedFd,
}

impl Phc {
    /// Opens `/dev/ptpN` for reading. A clock that may not be opened is none.
    pub fn open(directory: &Path, index: u32) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let device = open(directory.join(format!("ptp{index}")), flags, Mode::empty()).ok()?;
        Some(Phc { index, device })
    }

    /// Opens the clocks in a directory: `/dev`.
    pub fn open_all(directory: &Path) -> Vec<Self> {
        (0..MOST_DEVICES).filter_map(|index| Phc::open(directory, index)).collect()
    }

    /// Reads it, by the best method that its driver has. `None`: it is no clock, or has vanished.
    pub fn read(&self) -> Option<PhcOffset> {
        self.read_precise().or_else(|| self.read_extended()).or_else(|| self.read_between())
    }

    fn read_precise(&self) -> Option<PhcOffset> {
        let precise = self.ioctl(PTP_SYS_OFFSET_PRECISE, Precise::default())?;
        let realtime_ns = precise.realtime.ns()?;
        PhcReading { before_ns: realtime_ns, phc_ns: precise.device.ns()?, after_ns: realtime_ns }.offset()
    }

    fn read_extended(&self) -> Option<PhcOffset> {
        let asked = Extended { n_samples: READINGS as u32, ..Extended::default() };
        let extended = self.ioctl(PTP_SYS_OFFSET_EXTENDED, asked)?;
        let readings = extended.times.iter().take(READINGS).filter_map(|[before, phc, after]| {
            Some(PhcReading { before_ns: before.ns()?, phc_ns: phc.ns()?, after_ns: after.ns()? })
        });
        narrowest(&readings.collect::<Vec<_>>())
    }

    /// The clock by its number in `clock_gettime` (`FD_TO_CLOCKID`).
    fn read_between(&self) -> Option<PhcOffset> {
        let id = (!self.device.as_raw_fd() << 3) | 3;
        let read = |id| {
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the kernel writes one `timespec`, whose address is valid during the call.
            #[allow(unsafe_code)]
            let result = unsafe { libc::clock_gettime(id, &raw mut time) };
            (result == 0).then(|| time.tv_sec.checked_mul(1_000_000_000)?.checked_add(time.tv_nsec))?
        };
        let once = || {
            let (before_ns, phc_ns) = (read(libc::CLOCK_REALTIME)?, read(id)?);
            Some(PhcReading { before_ns, phc_ns, after_ns: read(libc::CLOCK_REALTIME)? })
        };
        narrowest(&(0..READINGS).filter_map(|_| once()).collect::<Vec<_>>())
    }

    fn ioctl<T>(&self, request: u64, mut value: T) -> Option<T> {
        // SAFETY: the size of `T` is part of the request, and the kernel reads and writes no more than it. All its fields are
        // plain numbers.
        #[allow(unsafe_code)]
        let result = unsafe { libc::ioctl(self.device.as_raw_fd(), request as libc::Ioctl, &raw mut value) };
        (result == 0).then_some(value)
    }
}

/// An offset at an instant, and its growth since the reading before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhcMeasure {
    /// The instant of `CLOCK_MONOTONIC` before the reading.
    pub as_of_ns: u64,
    /// The offset.
    pub offset: PhcOffset,
    /// Rate that `CLOCK_REALTIME` was set to, parts per million times 2¹⁶.
    pub rate: i64,
    /// Maximum change of the offset, parts per billion; `None` after the first reading.
    pub growth_ppb: Option<u64>,
}

impl PhcMeasure {
    /// The same with the growth since an earlier reading: what the two differ by, with both their errors, and the change
    /// of the rate that `CLOCK_REALTIME` was set to.
    #[must_use]
    pub fn since(self, before: &PhcMeasure) -> Self {
        let took_ns = u128::from(self.as_of_ns.saturating_sub(before.as_of_ns));
        let moved_ns = u128::from(self.offset.ns.abs_diff(before.offset.ns))
            + u128::from(self.offset.half_ns)
            + u128::from(before.offset.half_ns);
        let moved_ppb = (moved_ns * 1_000_000_000).checked_div(took_ns);
        let moved_ppb = moved_ppb.map(|ppb| u64::try_from(ppb).unwrap_or(u64::MAX));
        let growth_ppb = moved_ppb.map(|ppb| ppb.saturating_add(rate_difference_ppb(self.rate, before.rate)));
        PhcMeasure { growth_ppb, ..self }
    }
}

/// Difference of two rates of `CLOCK_REALTIME`, parts per billion, rounded up.
pub fn rate_difference_ppb(one: i64, two: i64) -> u64 {
    let ppb = (u128::from(one.abs_diff(two)) * 1_000).div_ceil(1 << 16);
    u64::try_from(ppb).unwrap_or(u64::MAX)
}

#[derive(Debug, Default)]
struct Shared {
    /// By device.
    newest: Mutex<Vec<(u32, PhcMeasure)>>,
    is_over: AtomicBool,
}

/// The newest offsets of a host's clocks. The thread ends when this value is dropped.
#[derive(Debug, Default)]
pub struct PhcWatch {
    shared: Arc<Shared>,
}

impl Drop for PhcWatch {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl PhcWatch {
    /// Reads these clocks once a second. Without clocks there is no thread.
    pub fn start(devices: Vec<Phc>) -> Self {
        let watch = PhcWatch::default();
        if !devices.is_empty() {
            let shared = watch.shared.clone();
            // A failed spawn costs these clocks and nothing else.
            let _ = thread::Builder::new().name("phc-watch".to_owned()).spawn(move || poll(&shared, devices));
        }
        watch
    }

    /// These readings, without a thread.
    #[cfg(test)]
    pub fn with(newest: Vec<(u32, PhcMeasure)>) -> Self {
        let shared = Shared { newest: Mutex::new(newest), ..Shared::default() };
        PhcWatch { shared: Arc::new(shared) }
    }

    /// The newest offset of a clock, or of the only one; `None` if its newest reading is old.
    pub fn measure(&self, index: Option<u32>, monotonic_ns: u64) -> Option<PhcMeasure> {
        let newest = self.shared.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, measure) = match index {
            Some(index) => newest.iter().find(|(of, _)| *of == index)?,
            None if newest.len() == 1 => newest.first()?,
            None => return None,
        };
        (monotonic_ns.saturating_sub(measure.as_of_ns) <= HOLDS_NS).then_some(*measure)
    }
}

fn poll(shared: &Shared, mut devices: Vec<Phc>) {
    let mut before: Vec<(u32, PhcMeasure)> = Vec::new();
    while !shared.is_over.load(Ordering::Relaxed) && !devices.is_empty() {
        let mut read = Vec::new();
        devices.retain(|device| {
            let measure = measure(device);
            let earlier = before.iter().find(|(index, _)| *index == device.index);
            let grown = |now: PhcMeasure| earlier.map_or(now, |(_, before)| now.since(before));
            read.extend(measure.map(|now| (device.index, grown(now))));
            measure.is_some()
        });
        // The second reading follows soon, because a growth needs two.
        let pause = if before.is_empty() { LOOK } else { EVERY };
        before.clone_from(&read);
        *shared.newest.lock().unwrap_or_else(PoisonError::into_inner) = read;
        let mut waited = Duration::ZERO;
        while waited < pause && !shared.is_over.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            waited += LOOK;
        }
    }
}

fn measure(device: &Phc) -> Option<PhcMeasure> {
    let as_of_ns = monotonic_ns();
    Some(PhcMeasure { as_of_ns, offset: device.read()?, rate: set_rate(), growth_ppb: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_are_those_of_the_kernel() {
        assert_eq!((PTP_SYS_OFFSET_PRECISE, PTP_SYS_OFFSET_EXTENDED), (0xc040_3d08, 0xc4c0_3d09));
    }

    #[test]
    fn devices_that_are_missing_or_no_clocks_are_no_source() {
        let dir = std::env::temp_dir().join(format!("ms-phc-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        assert!(Phc::open(&dir, 0).is_none() && Phc::open_all(&dir).is_empty());
        std::fs::write(dir.join("ptp0"), "no clock").expect("room");
        let phc = Phc::open(&dir, 0).expect("a file");
        assert_eq!(phc.read(), None);
        let watch = PhcWatch::start(Phc::open_all(&dir));
        std::fs::remove_dir_all(&dir).expect("ours");
        assert_eq!((watch.measure(None, 0), watch.measure(Some(0), 0)), (None, None));
        // A reading of one of two clocks, without the number, is of none.
        let at = |index| (index, at(7, 5, 1, 0));
        let watch = PhcWatch::with(vec![at(0), at(3)]);
        assert_eq!((watch.measure(None, 8), watch.measure(Some(3), 8)), (None, Some(at(3).1)));
        assert_eq!(watch.measure(Some(3), 8 + HOLDS_NS), None);
    }

    fn at(as_of_ns: u64, ns: i64, half_ns: u64, ppm: i64) -> PhcMeasure {
        PhcMeasure { as_of_ns, offset: PhcOffset { ns, half_ns }, rate: ppm << 16, growth_ppb: None }
    }

    #[test]
    fn an_offset_grows_as_it_did_and_by_each_change_of_the_rate() {
        let before = at(0, 0, 10, 0);
        assert_eq!(at(1_000_000_000, -300_000, 20, 0).since(&before).growth_ppb, Some(300_030));
        // The rate changed at an unknown instant in between.
        assert_eq!(at(1_000_000_000, 0, 0, 500).since(&before).growth_ppb, Some(10 + 500_000));
        // Two readings of one instant have no growth.
        assert_eq!(at(0, 5, 0, 0).since(&before).growth_ppb, None);
        let wild = at(1, i64::MAX, u64::MAX, 0).since(&at(0, i64::MIN, u64::MAX, 1 << 40));
        assert_eq!(wild.growth_ppb, Some(u64::MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the asymmetry of the two gaps, and the rate of the card's clock.
        #[test]
        fn the_true_offset_is_in_the_interval(
            offset_ns in -1_000_000_000_000_i64..1_000_000_000_000,
            begin_ns in 0..2_000_000_000_000_000_000_i64,
            gaps in prop::collection::vec((0..5_000_000_i64, 0..5_000_000_i64), 1..25),
        ) {
            let mut now_ns = begin_ns;
            let readings = gaps.iter().map(|(first, second)| {
                let reading = PhcReading {
                    before_ns: now_ns,
                    phc_ns: now_ns + first - offset_ns,
                    after_ns: now_ns + first + second,
                };
                now_ns = reading.after_ns;
                reading
            });
            let found = narrowest(&readings.collect::<Vec<_>>()).expect("one");
            prop_assert!(found.ns.abs_diff(offset_ns) <= found.half_ns, "{found:?}");
            let least_ns = gaps.iter().map(|(first, second)| first + second).min().expect("one");
            prop_assert!(found.half_ns <= least_ns as u64 / 2 + 3);
        }

        #[test]
        fn anything_that_a_driver_writes_is_an_interval_or_none(before_ns: i64, phc_ns: i64, after_ns: i64) {
            let offset = PhcReading { before_ns, phc_ns, after_ns }.offset();
            prop_assert!(offset.is_none() || before_ns <= after_ns);
        }
    }
}
