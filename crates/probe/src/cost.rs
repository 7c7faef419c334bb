//! Cost of a hit on this machine, measured by attach and detach.
//!
//! A thread enters its own network namespace and sends small messages to itself over TCP and UDP on one CPU.
//! Rounds with and without probes alternate, and the difference is divided by the number of hits. `run_time_ns`
//! of the kernel's BPF statistics would omit the call overhead, a third of the cost.

mod traffic;

pub(crate) use traffic::Traffic;

use crate::capture::{Capture, CaptureOptions};
use crate::error::ProbeError;
use crate::facts::HostFacts;
use magscope_core::hop::HopSet;
use magscope_core::node::Backend;
use std::io;
use std::path::PathBuf;
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
/// As [`Capture::start`]; and if the namespace or its sockets cannot be made.
pub fn measure(facts: &HostFacts, hops: HopSet, rounds: usize) -> Result<Option<Cost>, ProbeError> {
    measure_so(facts, Measurement { hops, backend: None, rounds, at_most: Duration::MAX })
}

/// As [`measure`], with all parameters.
///
/// # Errors
/// As [`measure`].
pub fn measure_so(facts: &HostFacts, what: Measurement) -> Result<Option<Cost>, ProbeError> {
    let facts = facts.clone();
    // A thread of its own, because it changes its namespace and its CPU for good.
    let thread = std::thread::Builder::new().name("magnet-cost".to_owned());
    let run = thread.spawn(move || measure_here(&facts, what)).map_err(failed)?;
    run.join().unwrap_or_else(|_| Err(failed(io::Error::other("the measuring thread panicked"))))
}

pub(crate) fn failed(cause: io::Error) -> ProbeError {
    ProbeError::Read { path: PathBuf::from("the namespace for measuring cost"), cause }
}

fn measure_here(facts: &HostFacts, what: Measurement) -> Result<Option<Cost>, ProbeError> {
    let mut traffic = Traffic::apart().map_err(failed)?;
    traffic.round(MESSAGES).map_err(failed)?;

    let (mut costs, mut bares, mut hits_seen) = (Vec::new(), Vec::new(), 0.0);
    let options = CaptureOptions {
        hops: what.hops,
        backend: what.backend,
        ring_bytes_per_cpu: 4 << 20,
        ..CaptureOptions::default()
    };
    let begin = Instant::now();
    for round in 0..what.rounds.max(1) {
        if round > 0 && begin.elapsed() > what.at_most {
            break;
        }
        let bare = traffic.round(MESSAGES).map_err(failed)?;
        let mut capture = Capture::start_on(facts, options.clone())?;
        let before = capture.counters()?.hits;
        let probed = traffic.round(MESSAGES).map_err(failed)?;
        let hits = (capture.counters()?.hits - before) as f64 / MESSAGES as f64;
        capture.stop();
        if hits < 0.5 {
            return Ok(None);
        }
        costs.push((probed - bare) / hits);
        bares.push(bare);
        hits_seen = hits;
    }
    costs.sort_by(f64::total_cmp);
    bares.sort_by(f64::total_cmp);
    let at = |values: &[f64], part: usize| values[(values.len() - 1) * part / 4];
    Ok(Some(Cost {
        hit_ns: at(&costs, 2),
        quartiles_ns: (at(&costs, 1), at(&costs, 3)),
        hits: hits_seen,
        bare_ns: at(&bares, 2),
    }))
}
