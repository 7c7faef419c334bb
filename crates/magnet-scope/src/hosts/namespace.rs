//! Network namespaces held only by a file descriptor.

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};
use std::fs::File;
use std::os::fd::AsFd;

/// A network namespace.
#[derive(Debug)]
pub struct Netns(File);

impl Netns {
    /// The namespace of this thread.
    pub fn current() -> Result<Self> {
        let path = "/proc/thread-self/ns/net";
        File::open(path).map(Netns).with_context(|| format!("cannot open {path}"))
    }

    /// A new namespace, which becomes that of this thread.
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
    // SAFETY: `unshare` is unsafe because of CLONE_FILES, which removes file descriptors from other threads;
    // CLONE_NEWNET affects only this thread's network namespace.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
}
