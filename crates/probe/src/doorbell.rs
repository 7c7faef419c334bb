//! Waits for a watermark signal of the kernel side.
//!
//! The wait is edge-triggered: only a record submitted with a wake-up ends it, not any data in a ring.

use crate::error::ProbeError;
use libbpf_rs::MapHandle;
use rustix::event::epoll;
use rustix::fs::Timespec;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Ring events handled per call; the others signal again.
const AT_ONCE: usize = 64;

pub(crate) struct Doorbell {
    epoll: OwnedFd,
}

impl Doorbell {
    pub(crate) fn new(rings: &[MapHandle]) -> Result<Self, ProbeError> {
        let failed = |e: rustix::io::Errno| ProbeError::Map {
            operation: "watch",
            map: "rings",
            cause: format!("{e:#}"),
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        for (cpu, ring) in rings.iter().enumerate() {
            let data = epoll::EventData::new_u64(cpu as u64);
            epoll::add(&epoll, ring.as_fd(), data, epoll::EventFlags::IN | epoll::EventFlags::ET)
                .map_err(failed)?;
        }
        Ok(Doorbell { epoll })
    }

    /// Waits for a watermark, at most `timeout`. An interrupted wait returns early. Returns true for a watermark.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let mut events = Vec::with_capacity(AT_ONCE);
        let woken = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout));
        woken.is_ok_and(|rings| rings > 0)
    }
}
