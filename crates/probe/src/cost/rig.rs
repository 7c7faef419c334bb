//! Private traffic and a capture of it, whose probes are attached only while they are measured.

use super::{Traffic, failed};
use crate::capture::{Capture, CaptureOptions, SUMS};
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::setting::Setting;
use magscope_core::Batch;
use magscope_core::hop::HopSet;
use magscope_core::node::Backend;

/// Messages of each kind before the first measurement.
const WARM_UP: usize = 200;

/// The traffic and its capture. Without privileges, programs that cannot be attached again stay attached and return at
/// once.
pub struct Rig {
    traffic: Traffic,
    capture: Capture,
    hops: HopSet,
    batch: Batch,
}

/// Times of a message of each kind without and with probes, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub bare_ns: f64,
    pub probed_ns: f64,
    /// Hits of a message of each kind together.
    pub hits: f64,
}

impl Round {
    /// Cost of a hit, nanoseconds; noise can make it negative.
    pub fn hit_ns(&self) -> f64 {
        (self.probed_ns - self.bare_ns) / self.hits
    }
}

impl Rig {
    /// Moves the calling thread into a new namespace and loads the probes there.
    ///
    /// # Errors
    /// As [`Capture::start`]; and if the namespace or its sockets cannot be made.
    pub fn make(
        facts: &HostFacts,
        hops: HopSet,
        backend: Option<Backend>,
        ring_bytes_per_cpu: usize,
    ) -> Result<Self, ProbeError> {
        let mut traffic = Traffic::apart().map_err(failed)?;
        traffic.round(WARM_UP).map_err(failed)?;
        let options =
            CaptureOptions { hops, backend, ring_bytes_per_cpu, sums: SUMS, ..CaptureOptions::default() };
        let capture = Capture::start_on(facts, options)?;
        let hops = capture.hops();
        Ok(Rig { traffic, capture, hops, batch: Batch::default() })
    }

    /// Sends `messages` of each kind without probes and with them, under these settings; `None` if the probes see none of
    /// the traffic.
    ///
    /// # Errors
    /// The capture cannot be changed or read; the sockets' errors.
    pub fn round(&mut self, settings: &[Setting], messages: usize) -> Result<Option<Round>, ProbeError> {
        self.capture.change(&Setting::Disable(self.hops))?;
        self.drain();
        let bare_ns = self.traffic.round(messages).map_err(failed)?;
        for setting in settings {
            self.capture.change(setting)?;
        }
        self.capture.change(&Setting::Enable(self.hops))?;
        let before = self.hits()?;
        let probed_ns = self.traffic.round(messages);
        let hits = (self.hits()? - before) as f64 / messages as f64;
        self.capture.change(&Setting::Disable(self.hops))?;
        let probed_ns = probed_ns.map_err(failed)?;
        Ok((hits >= 0.5).then_some(Round { bare_ns, probed_ns, hits }))
    }

    fn hits(&self) -> Result<u64, ProbeError> {
        Ok(self.capture.counters()?.hops.iter().map(magscope_core::HopCount::seen).sum())
    }

    /// The records are discarded, but a full ring would cost less than a free one.
    fn drain(&mut self) {
        self.batch.clear();
        self.capture.drain(&mut self.batch);
    }
}
