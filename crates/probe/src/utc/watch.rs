//! Queries the UTC sources periodically in a separate thread.

use super::phc::{Phc, PhcMeasure, PhcWatch};
use super::ptp::PtpOffsets;
use super::{UtcBound, chrony, clockbound, of_sources, ptp};
use crate::children;
use crate::clock::{monotonic_ns, set_rate};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Query interval, its minimum while ptp4l's offsets are few, and its maximum without answers.
const EVERY: Duration = Duration::from_secs(4);
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(64);
/// Timeout for chronyc; its own timeout is longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Timeout for a reading of a card; they are a second apart.
const READING: Duration = Duration::from_millis(1500);
/// Interval at which the thread checks a program that it waits for.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum length of an answer: chronyc's is one line, pmc's some per port.
const LONGEST_ANSWER: u64 = 1 << 16;

/// The sources to query.
#[derive(Clone, Debug)]
pub struct UtcSources {
    /// The program that queries chronyd; `None` disables it.
    pub chronyc: Option<PathBuf>,
    /// Possible paths of `ClockBound`'s segment.
    pub clockbound: Vec<PathBuf>,
    /// The program that queries ptp4l; `None` disables it.
    pub pmc: Option<PathBuf>,
    /// The directory of the PTP hardware clocks' devices.
    pub devices: PathBuf,
}

impl Default for UtcSources {
    fn default() -> Self {
        UtcSources {
            chronyc: Some(PathBuf::from("chronyc")),
            clockbound: clockbound::PATHS.map(PathBuf::from).to_vec(),
            pmc: Some(PathBuf::from("pmc")),
            devices: PathBuf::from("/dev"),
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    bound: Mutex<Option<UtcBound>>,
    /// Number of clock settings; an answer from before the last setting is invalid.
    settings: AtomicU64,
    /// The instant of `CLOCK_MONOTONIC` at which the last setting was noticed; so is a reading from before it.
    set_ns: AtomicU64,
    over: AtomicBool,
}

/// The newest bound. The thread ends when this value is dropped.
#[derive(Debug)]
pub struct UtcWatch {
    shared: Arc<Shared>,
    thread: Option<thread::Thread>,
}

impl Drop for UtcWatch {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

impl UtcWatch {
    /// Starts the queries, with these hardware clocks. If no thread can be created, there is no bound.
    pub fn start(sources: UtcSources, clocks: Vec<Phc>) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        // A failed spawn costs the UTC bound and nothing else.
        let watching =
            thread::Builder::new().name("utc-watch".to_owned()).spawn(move || watch(&theirs, &sources, clocks));
        UtcWatch { shared, thread: watching.ok().map(|watching| watching.thread().clone()) }
    }

    /// Maximum error of `CLOCK_REALTIME` at an instant of `CLOCK_MONOTONIC`.
    pub fn error_at(&self, monotonic_ns: u64) -> Option<u64> {
        let bound = *self.shared.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound?.at_rate(set_rate()).error_at(monotonic_ns)
    }

    /// Invalidates earlier bounds after the clock was set.
    pub fn clock_was_set(&self) {
        self.shared.set_ns.store(monotonic_ns(), Ordering::SeqCst);
        self.shared.settings.fetch_add(1, Ordering::SeqCst);
        *self.shared.bound.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn watch(shared: &Shared, sources: &UtcSources, clocks: Vec<Phc>) {
    let mut pause = EVERY;
    let mut card =
        (!clocks.is_empty()).then(|| Card { clocks: PhcWatch::start(clocks), offsets: PtpOffsets::default() });
    while !shared.over.load(Ordering::Relaxed) {
        let settings = shared.settings.load(Ordering::SeqCst);
        let answer = ask(sources, card.as_mut(), shared);
        pause = if card.as_ref().is_some_and(|card| card.offsets.are_few()) {
            OFTEN
        } else if answer.is_some() {
            EVERY
        } else {
            (pause * 2).min(SELDOM)
        };
        {
            let mut bound = shared.bound.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.settings.load(Ordering::SeqCst) == settings && answer.is_some() {
                *bound = answer;
            }
        }
        let until = Instant::now() + pause;
        while Instant::now() < until && !shared.over.load(Ordering::Relaxed) {
            thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
    }
}

/// The clocks of the cards, and what ptp4l stated of them.
struct Card {
    clocks: PhcWatch,
    offsets: PtpOffsets,
}

/// The bound by all sources.
fn ask(sources: &UtcSources, card: Option<&mut Card>, shared: &Shared) -> Option<UtcBound> {
    let segment = sources.clockbound.iter().find_map(|path| read_clockbound(path));
    let daemon = sources.chronyc.as_ref().and_then(|chronyc| ask_chrony(chronyc, shared));
    let card = sources.pmc.as_ref().zip(card).and_then(|(pmc, card)| ask_ptp(pmc, card, shared));
    of_sources([segment, daemon, card].into_iter().flatten(), monotonic_ns())
}

/// A consistent copy: the generation did not change during the copy.
fn read_clockbound(path: &Path) -> Option<UtcBound> {
    let copy = || {
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(clockbound::MOST_BYTES as u64).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let first = copy()?;
    (first == copy()?).then(|| clockbound::parse(&first).ok())?
}

fn ask_chrony(chronyc: &Path, shared: &Shared) -> Option<UtcBound> {
    // The answer refers to an instant from here on, and its bound grows: the earliest instant is the safe one.
    let asked_ns = monotonic_ns();
    let text = answer(Command::new(chronyc).args(["-n", "-c", "tracking"]), shared)?;
    chrony::parse(&text, asked_ns).ok()
}

/// The bound by ptp4l's own answers and a reading of its clock.
fn ask_ptp(pmc: &Path, card: &mut Card, shared: &Shared) -> Option<UtcBound> {
    let asked_ns = monotonic_ns();
    let text = answer(Command::new(pmc).args(["-u", "-b", "0"]).args(ptp::REQUESTS), shared)?;
    let Ok(claim) = ptp::parse(&text) else {
        // Its offsets from before it lost the grandmaster, or set its clock, are of another time.
        card.offsets = PtpOffsets::default();
        return None;
    };
    card.offsets.push(claim.offset_ns);
    let measure = measured(&card.clocks, claim.clock, shared)?;
    let bound = ptp::bound(&claim, card.offsets.largest(), &measure, asked_ns)?;
    Some(if card.offsets.are_enough() { bound } else { bound.without_claim() })
}

/// The reading of a clock, from after the last setting of `CLOCK_REALTIME`. The next one follows within a second.
fn measured(clocks: &PhcWatch, clock: Option<u32>, shared: &Shared) -> Option<PhcMeasure> {
    let end = Instant::now() + READING;
    loop {
        // Before linuxptp 4.0, pmc does not name the clock: with several, none is taken.
        let measure = clocks.measure(clock, monotonic_ns());
        let set_ns = shared.set_ns.load(Ordering::SeqCst);
        let measure = measure.filter(|measure| measure.growth_ppb.is_some() && measure.as_of_ns > set_ns);
        if measure.is_some() || Instant::now() >= end || shared.over.load(Ordering::Relaxed) {
            return measure;
        }
        thread::sleep(LOOK);
    }
}

/// The output of a program that succeeds.
fn answer(command: &mut Command, shared: &Shared) -> Option<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = {
        let _no_link_is_closed = children::alone();
        command.spawn().ok()?
    };
    finished(&mut child, shared).then(|| {
        let mut text = String::new();
        child.stdout.take()?.take(LONGEST_ANSWER).read_to_string(&mut text).ok()?;
        Some(text)
    })?
}

/// Waits for a program, up to a timeout; returns true on success.
fn finished(child: &mut Child, shared: &Shared) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end && !shared.over.load(Ordering::Relaxed) {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) => thread::sleep(LOOK / 10),
            Err(_) => break,
        }
    }
    // The child has ended or ends now; `wait` reaps it in both cases.
    let _ = child.kill();
    let _ = child.wait();
    false
}

#[cfg(test)]
mod tests {
    use super::super::phc::PhcOffset;
    use super::*;

    #[test]
    fn a_reading_from_before_the_clock_was_set_is_none() {
        let utc = UtcWatch { shared: Arc::new(Shared::default()), thread: None };
        // It does not wait.
        utc.shared.over.store(true, Ordering::Relaxed);
        let offset = PhcOffset { ns: 5, half_ns: 1 };
        let first = PhcMeasure { as_of_ns: monotonic_ns(), offset, rate: 0, growth_ppb: None };
        let second = PhcMeasure { growth_ppb: Some(7), ..first };
        let found = |measure| measured(&PhcWatch::with(vec![(2, measure)]), Some(2), &utc.shared);
        assert_eq!((found(first), found(second)), (None, Some(second)));
        utc.clock_was_set();
        assert_eq!(found(second), None);
    }
}
