//! Runs of probes that the kernel refused.
//!
//! The kernel lets no program run while the same one is under way on that CPU, as when an interrupt comes in between; where
//! breakpoints and plain tracepoints are used, while any of them is. It leaves the run out and counts it with the program, so what
//! nobody saw is at least known.

use libbpf_rs::Object;
use libbpf_rs::libbpf_sys::{bpf_obj_get_info_by_fd, bpf_prog_info};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// How often the kernel is asked, at most: it takes a call a program.
const INTERVAL: Duration = Duration::from_millis(250);

/// What has been told of refused runs so far.
#[derive(Debug, Default)]
pub(super) struct Refused {
    told: u64,
    /// Of programs that are no longer there.
    gone: u64,
    asked: Option<Instant>,
}

impl Refused {
    /// Refused since the last answer, where `now` says how many are refused by the programs that are there. None, where it is too early to
    /// ask again and not the `last` time.
    pub fn since(&mut self, now: impl FnOnce() -> u64, last: bool) -> u64 {
        if !last && self.asked.is_some_and(|asked| asked.elapsed() < INTERVAL) {
            return 0;
        }
        self.asked = Some(Instant::now());
        let refused = self.gone.saturating_add(now());
        let fresh = refused.saturating_sub(self.told);
        self.told = self.told.max(refused);
        fresh
    }

    /// What was told until now.
    pub fn so_far(&self) -> u64 {
        self.told
    }

    /// Keeps what programs have refused that are about to go.
    pub fn part_with(&mut self, refused: u64) {
        self.gone = self.gone.saturating_add(refused);
    }
}

/// Runs that programs of this object were refused; 0 where the kernel (before 5.12) does not count them.
pub(crate) fn refused_by(object: &Object) -> u64 {
    object.progs().filter(libbpf_rs::ProgramImpl::autoload).map(|program| of_program(&program)).sum()
}

fn of_program(program: &impl AsFd) -> u64 {
    let mut info = bpf_prog_info::default();
    let mut bytes = size_of::<bpf_prog_info>() as u32;
    let descriptor = program.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `bytes` bytes into `info`, whose pointers to further buffers are null.
    #[allow(unsafe_code)]
    let answer = unsafe { bpf_obj_get_info_by_fd(descriptor, (&raw mut info).cast(), &raw mut bytes) };
    if answer == 0 { info.recursion_misses } else { 0 }
}
