//! Cost of a hit, measured repeatedly during a capture with probes on private traffic.
//!
//! A thread enters a new namespace, loads the same hops there and drops its privileges. A loaded program can be
//! attached and detached without privileges, so the thread compares message times with and without probes. The
//! capture covers other namespaces and does not see this traffic. Other traffic pays the call overhead for some
//! milliseconds; the thread's own time counts as cost of the instrument.

use super::steps::HitCosts;
use crate::cost::{Rig, failed};
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::setting::{Detail, Setting};
use magscope_core::hop::HopSet;
use magscope_core::node::Backend;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Messages of each kind in a round, and measurements at the start.
const MESSAGES: usize = 200;
const AT_START: usize = 5;
const RING_BYTES: usize = 2 << 20;
/// Number of recent measurements in use.
const REMEMBERED: usize = 7;
/// Plausible range; a busy machine yields values outside it.
const BELIEVABLE_NS: std::ops::Range<f64> = 5.0..20_000.0;

/// Hops and backend of a cost measurement.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    /// The hops that are captured.
    pub hops: HopSet,
    /// Restrict probes to this kind.
    pub backend: Option<Backend>,
}

/// One measurement: nanoseconds per hit, `None` if noise hides it.
#[derive(Clone, Copy, Debug, Default)]
struct Weighing([Option<f64>; MODES.len()]);

/// Outcomes of a hit, as settings.
const MODES: [CaptureMode; 4] =
    [CaptureMode::Full, CaptureMode::Compact, CaptureMode::Histograms, CaptureMode::LeftOut];

#[derive(Clone, Copy, Debug)]
enum CaptureMode {
    Full,
    Compact,
    Histograms,
    LeftOut,
}

impl CaptureMode {
    fn settings(self) -> [Setting; 2] {
        let (detail, one_in) = match self {
            Self::Full => (Detail::Full, 1),
            Self::Compact => (Detail::Compact, 1),
            Self::Histograms => (Detail::Histograms, 1),
            // one in about 4 × 10⁹ flows
            Self::LeftOut => (Detail::Full, u32::MAX),
        };
        [Setting::Detail(detail), Setting::SampleFlows(one_in)]
    }
}

/// The measurement thread and its results.
pub struct Scale {
    ask: Option<Sender<()>>,
    answers: Receiver<Weighing>,
    thread: Option<JoinHandle<()>>,
    weighings: VecDeque<Weighing>,
}

impl Scale {
    /// Starts the thread and waits for the first measurements. The thread calls `give_up` after all operations
    /// that need privileges.
    ///
    /// # Errors
    /// As [`Capture::start`](crate::Capture::start); and if the namespace or its sockets cannot be made.
    pub fn start(
        facts: &HostFacts,
        what: Weighed,
        give_up: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<Self, ProbeError> {
        let facts = facts.clone();
        let (ask, asked) = channel();
        let (answer, answers) = channel();
        let (report, started) = channel();
        let thread = std::thread::Builder::new().name("magnet-scale".to_owned());
        let thread = thread.spawn(move || {
            let made = Rig::make(&facts, what.hops, what.backend, RING_BYTES);
            match made.and_then(|rig| give_up().map(|()| rig).map_err(failed)) {
                Ok(mut rig) => {
                    // fails only if the receiver is gone
                    let _ = report.send(Ok(()));
                    while asked.recv().is_ok() && answer.send(weigh(&mut rig)).is_ok() {}
                }
                Err(error) => {
                    let _ = report.send(Err(error));
                }
            }
        });
        let thread = Some(thread.map_err(failed)?);
        let mut scale = Scale { ask: Some(ask), answers, thread, weighings: VecDeque::new() };
        started.recv().unwrap_or_else(|_| Err(failed(io::Error::other("the measuring thread panicked"))))?;
        for _ in 0..AT_START {
            scale.ask();
            if let Ok(weighing) = scale.answers.recv_timeout(Duration::from_secs(5)) {
                scale.remember(weighing);
            }
        }
        Ok(scale)
    }

    /// Requests another measurement.
    pub fn ask(&self) {
        if let Some(ask) = &self.ask {
            // the send fails only if the thread has ended
            let _ = ask.send(());
        }
    }

    /// Median cost of hits over recent measurements; unmeasured outcomes get the highest of the others. `None`
    /// if noise hides all of them.
    pub fn prices(&mut self) -> Option<HitCosts> {
        while let Ok(weighing) = self.answers.try_recv() {
            self.remember(weighing);
        }
        let medians = [0, 1, 2, 3].map(|mode| {
            let measured = self.weighings.iter().filter_map(|weighing| weighing.0[mode]);
            let mut measured: Vec<f64> = measured.filter(|ns| BELIEVABLE_NS.contains(ns)).collect();
            measured.sort_by(f64::total_cmp);
            measured.get(measured.len() / 2).copied()
        });
        let dearest = medians.into_iter().flatten().max_by(f64::total_cmp)?;
        let [full, compact, histograms, left_out] = medians.map(|ns| ns.unwrap_or(dearest));
        Some(HitCosts { full, compact, histograms, left_out })
    }

    fn remember(&mut self, weighing: Weighing) {
        self.weighings.push_back(weighing);
        if self.weighings.len() > REMEMBERED {
            self.weighings.pop_front();
        }
    }
}

impl Drop for Scale {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            // no receiver remains for an error
            let _ = thread.join();
        }
    }
}

/// Measures each outcome in turn.
fn weigh(rig: &mut Rig) -> Weighing {
    // An outcome that cannot be measured has the highest cost of the others.
    Weighing(MODES.map(|mode| rig.round(&mode.settings(), MESSAGES).ok().flatten().map(|round| round.hit_ns())))
}
