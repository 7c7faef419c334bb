//! Probe runs that the kernel refused.
//!
//! The kernel refuses a program run while the same program runs on that CPU, as during an interrupt. With
//! kprobes and plain tracepoints any running program of that kind blocks. The kernel counts refused runs per
//! program; each may be an unseen hit.

use libbpf_rs::Object;
use libbpf_rs::libbpf_sys::{bpf_obj_get_info_by_fd, bpf_prog_info};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// Minimum interval between two reads: each read costs one system call per program.
const INTERVAL: Duration = Duration::from_millis(250);

/// Refused runs reported so far.
#[derive(Debug, Default)]
pub(super) struct Refused {
    reported: u64,
    /// Refused runs of detached programs.
    gone: u64,
    asked: Option<Instant>,
}

impl Refused {
    /// Refused runs since the last answer; `now` returns the total of the attached programs. Returns 0 within
    /// the read interval, unless `last` is set.
    pub fn since(&mut self, now: impl FnOnce() -> u64, last: bool) -> u64 {
        if !last && self.asked.is_some_and(|asked| asked.elapsed() < INTERVAL) {
            return 0;
        }
        self.asked = Some(Instant::now());
        let refused = self.gone.saturating_add(now());
        let fresh = refused.saturating_sub(self.reported);
        self.reported = self.reported.max(refused);
        fresh
    }

    /// Refused runs reported so far.
    pub fn so_far(&self) -> u64 {
        self.reported
    }

    /// Adds the refused runs of programs that are about to be detached.
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
