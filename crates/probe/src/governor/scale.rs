//! What a hit costs, weighed again and again while a capture runs: by probes that are attached to a traffic of their own and detached again.
//!
//! A thread makes a namespace, loads the same hops there, and gives its privileges away. From then on it can attach them and detach them, which
//! a loaded program may without any, and compare its messages' time with and without. Nothing of it is seen by the capture that it is for, which
//! looks at other namespaces; what it costs everybody else, being called for some milliseconds, is little, and the thread's own time counts as the
//! instrument's.

use super::steps::Prices;
use crate::capture::SUMS;
use crate::capture::{Capture, CaptureOptions};
use crate::cost::{Traffic, failed};
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::setting::{Detail, Setting};
use magscope_core::Batch;
use magscope_core::hop::HopSet;
use magscope_core::node::Backend;
use magscope_core::source::Source;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Messages of each kind in a round, and weighings at the start.
const MESSAGES: usize = 200;
const AT_START: usize = 5;
/// The last so many count.
const REMEMBERED: usize = 7;
/// What nobody believes: a busy machine makes it up.
const BELIEVABLE_NS: std::ops::Range<f64> = 5.0..20_000.0;

/// What is weighed.
#[derive(Clone, Debug)]
pub struct Weighed {
    /// The hops that are captured.
    pub hops: HopSet,
    /// By this kind of probe alone.
    pub backend: Option<Backend>,
}

/// One weighing: nanoseconds a hit, where that could be told.
#[derive(Clone, Copy, Debug, Default)]
struct Weighing([Option<f64>; WAYS.len()]);

/// The ways a hit can end, as settings.
const WAYS: [Way; 4] = [Way::Full, Way::Compact, Way::Histograms, Way::LeftOut];

#[derive(Clone, Copy, Debug)]
enum Way {
    Full,
    Compact,
    Histograms,
    LeftOut,
}

impl Way {
    fn settings(self) -> [Setting; 2] {
        let (detail, one_in) = match self {
            Self::Full => (Detail::Full, 1),
            Self::Compact => (Detail::Compact, 1),
            Self::Histograms => (Detail::Histograms, 1),
            // One in four thousand million flows.
            Self::LeftOut => (Detail::Full, u32::MAX),
        };
        [Setting::Detail(detail), Setting::SampleFlows(one_in)]
    }
}

/// The thread, and what it has found.
pub struct Scale {
    ask: Option<Sender<()>>,
    answers: Receiver<Weighing>,
    thread: Option<JoinHandle<()>>,
    weighings: VecDeque<Weighing>,
}

impl Scale {
    /// Starts it, and waits for the first weighings. `give_up` is called in the thread once everything is loaded that needs privileges.
    ///
    /// # Errors
    /// As [`Capture::start`]; and if the namespace or its sockets cannot be made.
    pub fn start(
        facts: &HostFacts,
        what: Weighed,
        give_up: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Result<Self, ProbeError> {
        let facts = facts.clone();
        let (ask, asked) = channel();
        let (answer, answers) = channel();
        let (tell, started) = channel();
        let thread = std::thread::Builder::new().name("magnet-scale".to_owned());
        let thread = thread.spawn(move || {
            let made = Pan::make(&facts, &what).and_then(|pan| give_up().map(|()| pan).map_err(failed));
            match made {
                Ok(mut pan) => {
                    // Fails only where nobody wants to know any more.
                    let _ = tell.send(Ok(()));
                    while asked.recv().is_ok() && answer.send(pan.weigh()).is_ok() {}
                }
                Err(error) => {
                    let _ = tell.send(Err(error));
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

    /// Has it weigh again, when it comes to it.
    pub fn ask(&self) {
        if let Some(ask) = &self.ask {
            // One that has ended is not asked.
            let _ = ask.send(());
        }
    }

    /// What hits cost by the last weighings, medians; what could never be told is taken for the dearest of the others. Nothing where nothing
    /// at all could be told, because other work hides it.
    pub fn prices(&mut self) -> Option<Prices> {
        while let Ok(weighing) = self.answers.try_recv() {
            self.remember(weighing);
        }
        let medians = [0, 1, 2, 3].map(|way| {
            let known = self.weighings.iter().filter_map(|weighing| weighing.0[way]);
            let mut known: Vec<f64> = known.filter(|ns| BELIEVABLE_NS.contains(ns)).collect();
            known.sort_by(f64::total_cmp);
            known.get(known.len() / 2).copied()
        });
        let dearest = medians.into_iter().flatten().max_by(f64::total_cmp)?;
        let [full, compact, histograms, left_out] = medians.map(|ns| ns.unwrap_or(dearest));
        Some(Prices { full, compact, histograms, left_out })
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
            // Nobody is left who could be told that it failed.
            let _ = thread.join();
        }
    }
}

/// What is in the thread.
struct Pan {
    traffic: Traffic,
    capture: Capture,
    hops: HopSet,
    batch: Batch,
}

impl Pan {
    fn make(facts: &HostFacts, what: &Weighed) -> Result<Self, ProbeError> {
        let mut traffic = Traffic::apart().map_err(failed)?;
        traffic.round(MESSAGES).map_err(failed)?;
        let options = CaptureOptions {
            hops: what.hops,
            backend: what.backend,
            ring_bytes_per_cpu: 2 << 20,
            sums: SUMS,
            ..CaptureOptions::default()
        };
        let capture = Capture::start_on(facts, options)?;
        let hops = capture.hops();
        Ok(Pan { traffic, capture, hops, batch: Batch::default() })
    }

    /// What each way costs a hit, one after the other.
    fn weigh(&mut self) -> Weighing {
        Weighing(WAYS.map(|way| self.weigh_so(way).ok().flatten()))
    }

    fn weigh_so(&mut self, way: Way) -> Result<Option<f64>, Box<dyn std::error::Error + Send + Sync>> {
        self.capture.change(&Setting::Disable(self.hops))?;
        self.drain()?;
        let bare = self.traffic.round(MESSAGES)?;
        for setting in way.settings() {
            self.capture.change(&setting)?;
        }
        self.capture.change(&Setting::Enable(self.hops))?;
        let before = self.hits()?;
        let probed = self.traffic.round(MESSAGES);
        let hits = (self.hits()? - before) as f64 / MESSAGES as f64;
        self.capture.change(&Setting::Disable(self.hops))?;
        self.drain()?;
        Ok((hits >= 0.5).then_some((probed? - bare) / hits))
    }

    fn hits(&self) -> Result<u64, ProbeError> {
        Ok(self.capture.counters()?.hops.iter().map(magscope_core::HopCount::seen).sum())
    }

    /// What was captured is of no interest, but a full ring would be cheaper than one with room.
    fn drain(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.capture.next(&mut self.batch, Duration::ZERO)?;
        Ok(())
    }
}
