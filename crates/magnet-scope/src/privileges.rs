//! Capabilities: requirements, checks, and their drop.
//!
//! The order is: acquire, attach, drop, and only then parse packets or draw. The kernel side needs capabilities
//! for attachment and none for the drain. Capabilities belong to threads, so [`drop_all`] runs before any
//! worker starts, and [`threads_with_capabilities`] verifies the result in `/proc`.

use crate::failure::Hint;
use anyhow::{Context, Result};
use magscope_probe::facts::in_first_user_namespace;
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::fs;

/// Capabilities of a capture.
pub const CAPTURE: &[(CapabilitySet, &str, &str)] = &[
    (CapabilitySet::BPF, "CAP_BPF", "to load programs"),
    (CapabilitySet::PERFMON, "CAP_PERFMON", "to let them read kernel memory and attach to tracepoints"),
    (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN", "to attach to netfilter"),
];

/// Additional capabilities for other network namespaces and new ones.
pub const NAMESPACES: &[(CapabilitySet, &str, &str)] =
    &[(CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN", "to make and enter network namespaces")];

/// Fails with the missing capabilities and remedies. `what` is the command as typed.
pub fn require(what: &str, needed: &[&[(CapabilitySet, &str, &str)]]) -> Result<()> {
    let held = thread::capabilities(None).context("cannot read this process's capabilities")?.effective;
    // The kernel does not accept those of a user namespace for programs.
    let is_inside = !in_first_user_namespace();
    let held = if is_inside { CapabilitySet::empty() } else { held };
    // CAP_SYS_ADMIN is older than the two that were split from it, and includes both.
    let implied = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let held = if held.contains(CapabilitySet::SYS_ADMIN) { held | implied } else { held };
    let missing: Vec<_> =
        needed.iter().copied().flatten().filter(|(capability, ..)| !held.contains(*capability)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(_, name, why)| format!("{name} ({why})")).collect();
    let setcap: Vec<_> = needed.iter().copied().flatten().map(|(_, name, _)| name.to_lowercase()).collect();
    let exe = std::env::current_exe().map_or_else(|_| "magnet-scope".into(), |exe| exe.display().to_string());
    let command = if what == "live" { String::new() } else { format!(" {what}") };
    let without = "`replay`, `report`, `info` and `hops` need no privilege";
    let (likely, next) = if is_inside {
        (
            "it runs in a user namespace, as in a rootless container, whose capabilities do not count for probes",
            format!("start it on the host itself: sudo {}\n{without}", as_typed()),
        )
    } else if rustix::process::geteuid().is_root() {
        (
            "it runs as root in a container or a service that withholds them",
            format!(
                "grant them: `--cap-add` of the container, `CapabilityBoundingSet=` of the service\n{without}"
            ),
        )
    } else {
        let (once, setcap) = (as_typed(), setcap.join(","));
        (
            "it was started by an ordinary user; probes in the kernel are not for everyone",
            format!("once:    sudo {once}\nfor good: sudo setcap {setcap}+ep {exe}\n{without}"),
        )
    };
    Err(Hint::error(
        format!("`magnet-scope{command}` lacks the capabilities {}", names.join(", ")),
        likely,
        next,
    ))
}

/// This command line, for use after `sudo`.
fn as_typed() -> String {
    let quoted = |argument: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', r"'\''"))
        }
    };
    let arguments = std::env::args_os().skip(1).map(|argument| quoted(argument.to_string_lossy().into_owned()));
    std::iter::once("magnet-scope".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Passes this process's file capabilities on to child programs (`ip`).
pub fn lend_to_children() -> Result<()> {
    let mut sets = thread::capabilities(None)?;
    let lent = sets.permitted & (CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN);
    sets.inheritable |= lent;
    thread::set_capabilities(None, sets)?;
    for capability in lent.iter() {
        thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Becomes the user of `sudo` or `pkexec`, if used: window libraries then run with that user's rights and
/// display, and a command has no more rights than its user. Called before any other thread starts.
pub fn become_the_caller() -> Result<()> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let Some(uid) = number("SUDO_UID").or_else(|| number("PKEXEC_UID")).filter(|uid| *uid != 0) else {
        return Ok(());
    };
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let gid = number("SUDO_GID").unwrap_or(uid);
    become_user(uid, gid).with_context(|| format!("cannot become the user {uid} who called"))
}

fn become_user(uid: u32, gid: u32) -> rustix::io::Result<()> {
    let (uid, gid) = (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(gid));
    thread::set_thread_groups(&[gid])?;
    thread::set_thread_res_gid(gid, gid, gid)?;
    thread::set_thread_res_uid(uid, uid, uid)
}

/// Takes back what [`lend_to_children`] has lent, before another program starts in place of this one.
pub fn clear_lent() -> Result<()> {
    thread::clear_ambient_capability_set().context("cannot give up capabilities")
}

/// Drops every capability of this thread and its future threads and programs, permanently.
pub fn drop_all() -> Result<()> {
    give_away().context("cannot give up capabilities")
}

fn give_away() -> rustix::io::Result<()> {
    thread::set_no_new_privs(true)?;
    thread::clear_ambient_capability_set()?;
    // Needs CAP_SETPCAP, which a binary with file capabilities lacks; no_new_privs covers that case.
    for capability in CapabilitySet::all().iter() {
        let _ = thread::remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    thread::set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

/// Names of this process's threads with capabilities.
pub fn threads_with_capabilities() -> Vec<String> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .filter(|status| holds_any(status))
        .map(|status| field(&status, "Name").unwrap_or("?").to_owned())
        .collect()
}

fn holds_any(status: &str) -> bool {
    ["CapPrm", "CapEff", "CapInh", "CapAmb"].iter().any(|set| {
        field(status, set).and_then(|bits| u64::from_str_radix(bits, 16).ok()).is_none_or(|bits| bits != 0)
    })
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_leaves_nothing_in_this_thread_and_its_children() {
        // Capabilities belong to the thread, so the test's other threads are unaffected.
        let seen = std::thread::spawn(|| {
            drop_all().unwrap();
            let child = std::thread::spawn(|| fs::read_to_string("/proc/thread-self/status").unwrap());
            (fs::read_to_string("/proc/thread-self/status").unwrap(), child.join().unwrap())
        });
        let (own, child) = seen.join().unwrap();
        for status in [own, child] {
            assert!(!holds_any(&status), "{status}");
            assert_eq!(field(&status, "NoNewPrivs"), Some("1"));
        }
    }

    #[test]
    fn an_unreadable_status_counts_as_privileged() {
        assert!(holds_any("Name:\tx\n"));
        assert!(holds_any("CapPrm:\t0\nCapEff:\t1\nCapInh:\t0\nCapAmb:\t0\n"));
        assert!(!holds_any("CapPrm:\t0\nCapEff:\t0\nCapInh:\t0\nCapAmb:\t0\n"));
    }
}
