//! Identity and rights of a client, from the kernel.
//!
//! Any user may watch a socket that it can pass, and its own process. The process must be alive, and the kernel
//! must permit its user to inspect it. A process that executed a setuid program fails this check, so its data
//! is not revealed to other holders of the connection. Root may watch everything.

use crate::peer;
use magscope_client::wire::Refusal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path};

/// Target of `/proc/self/ns/pid` in the initial namespace: `PROC_PID_INIT_INO`.
const INITIAL_PIDS: &str = "pid:[4026531836]";
/// Mount point of cgroups.
const CGROUPS: &str = "/sys/fs/cgroup";

/// A client's process.
#[derive(Debug)]
pub struct Caller {
    /// User id at the time of the connection.
    pub uid: u32,
    /// Process id, if visible here.
    pid: Option<u32>,
    /// A pidfd, because ids are reused. Linux 6.5.
    process: Option<OwnedFd>,
}

impl Caller {
    /// The client of this connection.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = peer::credentials(stream)?;
        // 0 for a process in an invisible namespace.
        let pid = u32::try_from(credentials.pid).ok().filter(|pid| *pid != 0);
        Ok(Caller { uid: credentials.uid, pid, process: peer::process(stream) })
    }

    /// True if the client may watch everything.
    pub const fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Its process id, if the client may watch it now.
    pub fn itself(&self) -> Result<u32, Refusal> {
        let refused = |likely: &str| {
            Err(refused(
                "your process cannot be watched",
                likely,
                "watch your sockets one by one: `\"of\":\"socket\"`",
            ))
        };
        let Some(pid) = self.pid else {
            return refused("it is in a process namespace that the agent does not see");
        };
        if fs::read_link("/proc/self/ns/pid").ok().as_deref() != Some(Path::new(INITIAL_PIDS)) {
            return refused(
                "the agent is in a process namespace of its own, where processes have other numbers",
            );
        }
        // The owner of a file, not of the directory: the directory belongs to the user even if the kernel
        // protects the process.
        let owner = fs::metadata(format!("/proc/{pid}/status")).map(|process| process.uid());
        // Checked after the owner: a process alive now is the one whose owner was read.
        match &self.process {
            None if self.is_root() => {}
            None => {
                return refused(
                    "this kernel does not say which process a connection belongs to (Linux 6.5 does)",
                );
            }
            Some(process) if has_ended(process) => return refused("the process that connected has ended"),
            Some(_) => {}
        }
        match owner {
            Ok(owner) if owner == self.uid || self.is_root() => Ok(pid),
            _ => refused("it has become another user's, or the kernel protects it from its user"),
        }
    }

    /// The cgroup of its process.
    pub fn cgroup(&self) -> Result<u64, Refusal> {
        let pid = self.itself()?;
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let path = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
        cgroup(path)
    }

    /// Only root passes, whatever the request, so that the answer reveals nothing.
    pub fn must_be_root(&self, what: &str) -> Result<(), Refusal> {
        if self.is_root() {
            return Ok(());
        }
        Err(refused(
            &format!("{what} cannot be watched by user {}", self.uid),
            "it may be others', and only root may ask about those",
            "watch your own: a socket that you hold, or your process",
        ))
    }
}

/// The number of a cgroup.
pub fn cgroup(path: &str) -> Result<u64, Refusal> {
    let below = Path::new(path.trim_start_matches('/'));
    let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let found = plain.then(|| fs::metadata(Path::new(CGROUPS).join(below))).and_then(Result::ok);
    found.map(|folder| folder.ino()).ok_or_else(|| {
        refused(
            &format!("there is no cgroup `{path}`"),
            "it has gone, or is written otherwise",
            "say its path below the root of the hierarchy, as /proc/PID/cgroup has it",
        )
    })
}

/// A refusal in its parts.
pub fn refused(what: &str, likely: &str, next: &str) -> Refusal {
    Refusal { what: what.to_owned(), likely: likely.to_owned(), next: next.to_owned() }
}

/// True if a process has ended: its pidfd is then readable.
fn has_ended(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_itself_and_a_path_stays_below_the_root() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let caller = Caller::of(&ours).expect("the kernel says");
        assert_eq!((caller.uid, caller.pid), (rustix::process::getuid().as_raw(), Some(std::process::id())));
        for path in ["../..", "/../etc", "a/../../b", "./."] {
            assert!(cgroup(path).is_err(), "{path}");
        }
    }
}
