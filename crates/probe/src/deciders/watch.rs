//! Notices changes of rules while a capture runs.
//!
//! **Problem.** The lists of what can drop packets are read once, because reading needs privileges that a capture gives
//! up. A rule that is added later would have its drops attributed to a listed one.
//!
//! **Choice.** Two sockets in each namespace receive the kernel's notifications of changes: of nftables, and of
//! classifiers of interfaces. They are opened with privileges, before the lists are read, and need none later.
//!
//! **Limits.** The kernel does not notify of programs of XDP, tcx, cgroups and netkit, nor of changes by the old
//! `iptables`.

use crate::netlink::notified;
use crate::netns::NetnsTarget;
use crate::notified::Notified;
use crate::order::HOLD_NS;
use magscope_core::Change;
use rustix::io::Errno;
use rustix::net::netlink::NETFILTER;
use rustix::net::{Protocol, RecvFlags, recv};
use std::os::fd::OwnedFd;

/// Groups of notifications, as bits: rules of nftables (`NFNLGRP_NFTABLES`), classifiers (`RTNLGRP_TC`).
const GROUPS: [(Option<Protocol>, u32); 2] = [(Some(NETFILTER), 1 << 6), (None, 1 << 3)];
/// The kernel notifies of a change after it has taken effect; this is more than the time between.
const DELAY_NS: u64 = HOLD_NS;
/// Notifications that a look takes from one socket, at most.
const MOST: usize = 4_096;

/// The sockets with notifications of some namespaces.
pub struct RuleWatch {
    notified: Notified,
    last_ns: u64,
}

impl RuleWatch {
    /// Receives notifications of these namespaces from now on; `None` if the kernel does not give all of them. Then a
    /// change would go unnoticed.
    pub fn new(targets: &[NetnsTarget], now_ns: u64) -> Option<Self> {
        let mut watch = RuleWatch { notified: Notified::new().ok()?, last_ns: now_ns };
        for target in targets {
            let opened = target.within(|| GROUPS.map(|(protocol, groups)| notified(protocol, groups))).ok()?;
            for socket in opened {
                match socket {
                    Ok(socket) => watch.notified.add(target.inode, socket).ok()?,
                    // Without the subsystem there are no such rules.
                    Err(Errno::PROTONOSUPPORT) => {}
                    Err(_) => return None,
                }
            }
        }
        Some(watch)
    }

    /// Changes since the last look, at most one for each namespace.
    pub fn changes(&mut self, now_ns: u64) -> Vec<Change> {
        let from_ns = std::mem::replace(&mut self.last_ns, now_ns).saturating_sub(DELAY_NS);
        let changed = self.notified.ready().filter(|(_, socket)| drain(socket));
        let mut netns: Vec<u32> = changed.map(|(netns, _)| *netns).collect();
        netns.sort_unstable();
        netns.dedup();
        netns.into_iter().map(|netns| Change::of_rules(from_ns, now_ns, netns)).collect()
    }
}

/// Takes all notifications. True if there was one, or if there were more than the socket holds.
fn drain(socket: &OwnedFd) -> bool {
    let (mut any, mut buffer) = (false, [0_u8; 64]);
    for _ in 0..MOST {
        // A notification is cut to the buffer: that it came suffices.
        match recv(socket, &mut buffer, RecvFlags::empty()) {
            Ok(_) | Err(Errno::NOBUFS) => any = true,
            Err(_) => break,
        }
    }
    any
}
