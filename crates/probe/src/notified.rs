//! Sockets with the kernel's notifications, of many network namespaces.
//!
//! They are opened with privileges, inside their namespaces, and need none later.

use rustix::event::epoll;
use rustix::fs::Timespec;
use std::os::fd::OwnedFd;

/// Maximum number of sockets with notifications in one look; the others are seen by the next one.
const AT_ONCE: usize = 64;

/// The sockets, each with the inode of its namespace.
#[derive(Debug)]
pub struct Notified {
    epoll: OwnedFd,
    sockets: Vec<(u32, OwnedFd)>,
}

impl Notified {
    /// Without sockets so far.
    ///
    /// # Errors
    /// The kernel gives no more descriptors.
    pub fn new() -> rustix::io::Result<Self> {
        Ok(Notified { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, sockets: Vec::new() })
    }

    /// Adds the socket of a namespace.
    ///
    /// # Errors
    /// The kernel does not watch it.
    pub fn add(&mut self, netns: u32, socket: OwnedFd) -> rustix::io::Result<()> {
        let data = epoll::EventData::new_u64(self.sockets.len() as u64);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN)?;
        self.sockets.push((netns, socket));
        Ok(())
    }

    /// The sockets that have something to read.
    pub fn ready(&self) -> impl Iterator<Item = &(u32, OwnedFd)> {
        let mut ready = Vec::with_capacity(AT_ONCE);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An interrupted look finds nothing; the next one does.
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), Some(&at_once));
        ready.into_iter().filter_map(|event| self.sockets.get(event.data.u64() as usize))
    }
}
