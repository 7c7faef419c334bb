//! Network namespaces held by a file descriptor and by nothing else.

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::fs::File;
use std::os::fd::AsFd;

/// A network namespace.
#[derive(Debug)]
pub struct Netns(File);

impl Netns {
    /// The one this thread is in.
    pub fn current() -> Result<Self> {
        let path = "/proc/thread-self/ns/net";
        File::open(path).map(Netns).with_context(|| format!("cannot open {path}"))
    }

    /// A new one, which this thread is in from now on.
    pub fn unshare() -> Result<Self> {
        unshare_network().context("cannot make a network namespace")?;
        Self::current()
    }

    /// Moves this thread into it.
    pub fn enter(&self) -> Result<()> {
        rustix::thread::move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .context("cannot enter a network namespace")
    }

    /// The open `/proc/…/ns/net`.
    pub fn file(&self) -> &File {
        &self.0
    }
}

#[allow(unsafe_code)]
fn unshare_network() -> rustix::io::Result<()> {
    // SAFETY: what makes `unshare` unsafe is CLONE_FILES, which takes file descriptors away from other threads;
    // CLONE_NEWNET touches nothing but this thread's view of the network.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}
