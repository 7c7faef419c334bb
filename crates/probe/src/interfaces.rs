//! Names and kinds of network interfaces: those of the start, and those that are made or renamed while a capture runs.
//!
//! A container that starts gets a pair of interfaces, and a tunnel may be made at any time. The kernel notifies of each
//! ([`Notified`]), so that an idle host costs nothing. If there were more notifications than the socket holds, the kernel
//! is asked for all interfaces.
//!
//! **Limit.** A namespace that is new since the start of the capture has no socket, and its interfaces have no names: to
//! enter it takes privileges that the capture has given up.

use crate::netlink::{BUFFER, Netlink, ask, attribute, messages, notified, text, u32_at};
use crate::netns::NetnsTarget;
use crate::notified::Notified;
use magscope_core::foreign::clean;
use magscope_core::node::InterfaceName;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::os::fd::OwnedFd;

/// Numbers of the kernel's interface (`linux/rtnetlink.h`, `linux/if_link.h`).
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTMGRP_LINK: u32 = 1;
const IFINFO: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

/// Attempts to list the interfaces.
const TRIES: usize = 3;
/// Notifications that a look takes from one socket, at most; the next one goes on.
const MOST: usize = 4_096;

/// The interfaces of this thread's namespace, `netns`; none if the kernel does not list them.
pub fn listed(netns: u32) -> Vec<InterfaceName> {
    let list = || Netlink::new(None).ok().and_then(|mut netlink| netlink.dump(RTM_GETLINK, &[0; IFINFO]).ok());
    // A change amid the list spoils it.
    let links = (0..TRIES).find_map(|_| list());
    links.into_iter().flatten().filter_map(|link| interface(&link, netns)).collect()
}

/// The interface of one message (`struct ifinfomsg`, then attributes), its names cleaned.
fn interface(link: &[u8], netns: u32) -> Option<InterfaceName> {
    let (index, rest) = (u32_at(link, 4)?, link.get(IFINFO..)?);
    let name = attribute(rest, IFLA_IFNAME).map(text)?;
    let kind = attribute(rest, IFLA_LINKINFO).and_then(|info| attribute(info, IFLA_INFO_KIND)).map(text);
    let (name, kind) = (clean(&name).into_owned(), clean(&kind.unwrap_or_default()).into_owned());
    Some(InterfaceName { netns, index, name, kind })
}

/// Notices new interfaces of some namespaces.
#[derive(Debug)]
pub struct InterfaceWatch {
    /// `None` if the kernel gives no descriptor for it.
    notified: Option<Notified>,
    buffer: Vec<u8>,
}

impl InterfaceWatch {
    /// Notices interfaces that are made from now on. The first look has all of them, so that none is between a list and
    /// the watch. A namespace that gives no notifications has the names of the start alone.
    pub fn new(targets: &[NetnsTarget]) -> Self {
        let mut watched = Notified::new().ok();
        for target in targets {
            if let Some(watched) = &mut watched
                && let Ok(Ok(socket)) = target.within(|| notified(None, RTMGRP_LINK))
            {
                // Without either, it has the names of the start.
                let _ = ask(&socket, RTM_GETLINK, &[0; IFINFO]);
                let _ = watched.add(target.inode, socket);
            }
        }
        InterfaceWatch { notified: watched, buffer: vec![0; BUFFER] }
    }

    /// Interfaces that were made, renamed or changed since the last look.
    pub fn news(&mut self) -> Vec<InterfaceName> {
        let mut news = Vec::new();
        for (netns, socket) in self.notified.iter().flat_map(Notified::ready) {
            read(*netns, socket, &mut self.buffer, &mut news);
        }
        news
    }
}

/// Reads the notifications of one socket.
fn read(netns: u32, socket: &OwnedFd, buffer: &mut [u8], news: &mut Vec<InterfaceName>) {
    for _ in 0..MOST {
        match recv(socket, &mut *buffer, RecvFlags::empty()) {
            Ok((_, len)) => {
                let links =
                    messages(buffer.get(..len).unwrap_or_default()).filter(|(kind, _)| *kind == RTM_NEWLINK);
                news.extend(links.filter_map(|(_, link)| interface(link, netns)));
            }
            Err(Errno::NOBUFS) => {
                // If the kernel does not answer, the interfaces made meanwhile stay numbers.
                let _ = ask(socket, RTM_GETLINK, &[0; IFINFO]);
            }
            Err(_) => return,
        }
    }
}
