//! Addresses of the kernel's functions of a TCP socket.
//!
//! **The problem.** A socket that another part of the kernel has taken over (kTLS, MPTCP, sockmap) has other functions
//! than that of a process, and what it reads is not its stream. The list of symbols shows addresses only to readers with
//! `CAP_SYSLOG`, which a capture does not need otherwise.
//!
//! **The choice.** A program reads them from a socket of this process, which an epoll watches.

use libbpf_rs::{Object, ProgramInput};
use rustix::event::epoll;
use rustix::net::{AddressFamily, SocketType, ipproto, socket, sockopt};
use std::os::fd::AsRawFd;

/// The program that finds them.
pub const FINDER: &str = "find_functions";

/// Makes the loaded program store the addresses in the memory that it shares with the others. `None` if there is no
/// such program, or if it cannot run. It stores nothing for a socket of another kind.
pub fn find(object: &Object) -> Option<()> {
    let tcp = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP)).ok()?;
    // A program may turn the TCP sockets of a host into those of MPTCP.
    if sockopt::socket_protocol(&tcp).ok()? != Some(ipproto::TCP) {
        return None;
    }
    let watcher = epoll::create(epoll::CreateFlags::CLOEXEC).ok()?;
    epoll::add(&watcher, &tcp, epoll::EventData::new_u64(0), epoll::EventFlags::IN).ok()?;
    let program = object.progs_mut().find(|program| program.name() == FINDER)?;
    let mut arguments = (tcp.as_raw_fd() as u64).to_ne_bytes();
    program.test_run(ProgramInput { context_in: Some(&mut arguments), ..ProgramInput::default() }).ok()?;
    Some(())
}

#[cfg(test)]
mod tests {
    use crate::{Capture, CaptureOptions, HostFacts};
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    use std::collections::BTreeMap;
    use std::fs;

    /// The functions, in the order of `mag_functions`.
    const NAMES: [&str; 4] = ["ep_poll_callback", "sock_def_readable", "tcp_recvmsg", "tcp_sendmsg"];

    /// Their addresses in the list of symbols, which are 0 for a reader without `CAP_SYSLOG`.
    fn listed() -> Vec<u64> {
        let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let mut listed = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            if let (Some(address), Some(_), Some(name)) = (words.next(), words.next(), words.next()) {
                listed.entry(name).or_insert_with(|| u64::from_str_radix(address, 16).unwrap_or(0));
            }
        }
        NAMES.map(|name| listed.get(name).copied().unwrap_or(0)).to_vec()
    }

    #[test]
    fn a_capture_with_the_documented_capabilities_finds_them() {
        let facts = HostFacts::read().expect("/proc");
        if !facts.missing_capabilities().is_empty() {
            println!("skipped, because it needs the capabilities of a capture");
            return;
        }
        let expected = listed();
        let found = std::thread::spawn(|| {
            let few = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::NET_ADMIN;
            let sets = CapabilitySets { effective: few, permitted: few, inheritable: CapabilitySet::empty() };
            set_capabilities(None, sets).expect("fewer");
            let capture = Capture::start(CaptureOptions::default()).expect("a capture");
            (capture.control.functions(), listed())
        });
        let (found, listed_to_it) = found.join().expect("no panic");
        println!("listed {expected:x?}, to a reader with fewer capabilities {listed_to_it:x?}");
        assert!(found.iter().all(|address| *address != 0), "{found:x?}");
        if expected.contains(&0) {
            println!("comparison: skipped, because the list of symbols has no addresses here");
            return;
        }
        assert_eq!(found.to_vec(), expected);
    }
}
