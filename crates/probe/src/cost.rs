//! Cost of a hit on this machine, measured by attach and detach.
//!
//! A thread enters its own network namespace and sends small messages to itself over TCP and UDP on one CPU.
//! Rounds with and without probes alternate, and the difference is divided by the number of hits. `run_time_ns`
//! of the kernel's BPF statistics would omit the call overhead, a third of the cost.

mod rig;
mod traffic;

pub(crate) use rig::Rig;
pub(crate) use traffic::Traffic;

use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::setting::{Detail, Setting};
use magscope_core::hop::HopSet;
use magscope_core::node::Backend;
use std::io;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Result of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Median cost of a hit, nanoseconds. Noise on a busy machine can make it negative.
    pub hit_ns: f64,
    /// Lower and upper quartile of the rounds.
    pub quartiles_ns: (f64, f64),
    /// Hits that one TCP and one UDP message of 64 bytes make together.
    pub hits: f64,
    /// Time of the two messages without probes, nanoseconds.
    pub bare_ns: f64,
}

/// Messages of each kind in a round.
const MESSAGES: usize = 1_000;
const RING_BYTES: usize = 4 << 20;

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Hops that are captured together.
    pub hops: HopSet,
    /// Restrict probes to this kind.
    pub backend: Option<Backend>,
    /// Alternating rounds without and with probes. Each takes about 20 ms, plus attach and detach time: about
    /// 20 ms per probe at functions.
    pub rounds: usize,
    /// No new round starts after this time.
    pub at_most: Duration,
}

/// Measures what capturing `hops` costs here; `None` if the traffic passes none of them.
///
/// # Errors
/// As [`Capture::start`](crate::Capture::start); and if the namespace or its sockets cannot be made.
pub fn measure(facts: &HostFacts, hops: HopSet, rounds: usize) -> Result<Option<Cost>, ProbeError> {
    measure_so(facts, Measurement { hops, backend: None, rounds, at_most: Duration::MAX })
}

/// As [`measure`], with all parameters.
///
/// # Errors
/// As [`measure`].
pub fn measure_so(facts: &HostFacts, what: Measurement) -> Result<Option<Cost>, ProbeError> {
    Measuring::start(facts, what)?.wait()
}

/// A measurement in a thread of its own, beside the start of a capture. The thread keeps the privileges of its creator to
/// its end.
pub struct Measuring {
    thread: Option<JoinHandle<Result<Option<Cost>, ProbeError>>>,
}

impl Measuring {
    /// Starts the thread. It changes its namespace and its CPU for good.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(facts: &HostFacts, what: Measurement) -> Result<Self, ProbeError> {
        let facts = facts.clone();
        let thread = std::thread::Builder::new().name("magnet-cost".to_owned());
        let thread = thread.spawn(move || rounds(&facts, what)).map_err(failed)?;
        Ok(Measuring { thread: Some(thread) })
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// As [`measure`].
    pub fn wait(mut self) -> Result<Option<Cost>, ProbeError> {
        let Some(thread) = self.thread.take() else { return Ok(None) };
        thread.join().unwrap_or_else(|_| Err(failed(io::Error::other("the measuring thread panicked"))))
    }
}

/// The thread never outlives its owner, because it has privileges.
impl Drop for Measuring {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Nobody wants the result.
            let _ = thread.join();
        }
    }
}

pub(crate) fn failed(cause: io::Error) -> ProbeError {
    ProbeError::Read { path: PathBuf::from("the namespace for measuring cost"), cause }
}

fn rounds(facts: &HostFacts, what: Measurement) -> Result<Option<Cost>, ProbeError> {
    let mut rig = Rig::make(facts, what.hops, what.backend, RING_BYTES)?;
    let full = [Setting::Detail(Detail::Full)];
    let mut seen = Vec::new();
    let begin = Instant::now();
    for round in 0..what.rounds.max(1) {
        if round > 0 && begin.elapsed() > what.at_most {
            break;
        }
        match rig.round(&full, MESSAGES)? {
            Some(round) => seen.push(round),
            None => return Ok(None),
        }
    }
    let sorted = |value: fn(&rig::Round) -> f64| {
        let mut values: Vec<f64> = seen.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (costs, bares) = (sorted(rig::Round::hit_ns), sorted(|round| round.bare_ns));
    let at = |values: &[f64], part: usize| values[(values.len() - 1) * part / 4];
    Ok(seen.last().map(|last| Cost {
        hit_ns: at(&costs, 2),
        quartiles_ns: (at(&costs, 1), at(&costs, 3)),
        hits: last.hits,
        bare_ns: at(&bares, 2),
    }))
}
