//! What a hit costs on this machine, measured the only way that counts everything: by attaching and detaching.
//!
//! A thread enters a network namespace of its own, sends small messages to itself over TCP and UDP on one CPU, with and
//! without probes in turns, and divides the difference by the number of hits. `run_time_ns` of the kernel's BPF
//! statistics would leave out being called, which is a third of the cost.

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

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Median cost of a hit, nanoseconds. May come out negative on a busy machine, where it drowns in noise.
    pub hit_ns: f64,
    /// Lower and upper quartile of the rounds.
    pub quartiles_ns: (f64, f64),
    /// Hits that one TCP and one UDP message of 64 bytes make together.
    pub hits: f64,
    /// What the two messages take with nothing attached, nanoseconds.
    pub bare_ns: f64,
}

/// Messages of each kind in a round.
const MESSAGES: usize = 1_000;

/// What to measure and how long.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Hops that are captured together.
    pub hops: HopSet,
    /// Only this kind of probe.
    pub backend: Option<Backend>,
    /// Rounds without and with probes in turns; each takes about 20 ms and the time to attach and to detach, which at
    /// functions is some 20 ms a probe.
    pub rounds: usize,
    /// No further round begins after this.
    pub at_most: Duration,
}

/// Measures what capturing `hops` costs here; `None` if the traffic passes none of them.
///
/// # Errors
/// As [`Capture::start`]; and if the namespace or its sockets cannot be made.
pub fn measure(facts: &HostFacts, hops: HopSet, rounds: usize) -> Result<Option<Cost>, ProbeError> {
    measure_so(facts, Measurement { hops, backend: None, rounds, at_most: Duration::MAX })
}

/// The same, told more exactly what.
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
