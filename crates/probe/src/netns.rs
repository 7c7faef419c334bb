//! Network namespaces: discovery, names, and entry.

use crate::error::ProbeError;
use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::Errno;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A network namespace to capture in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetnsTarget {
    /// User-visible name: `host`, a name under `/run/netns`, or `pid:1234`.
    pub name: String,
    /// Inode number, which the kernel side compares.
    pub inode: u32,
    /// A path that opens it.
    pub path: PathBuf,
}

impl NetnsTarget {
    /// The namespace behind a path (`/proc/<pid>/ns/net`, `/run/netns/<name>`).
    ///
    /// # Errors
    /// [`ProbeError::Namespace`] if there is none.
    pub fn at(path: &Path, name: &str) -> Result<Self, ProbeError> {
        let failed = |cause| ProbeError::Namespace { name: name.to_owned(), path: path.to_owned(), cause };
        let meta = fs::metadata(path).map_err(failed)?;
        // the kernel numbers namespaces with 32 bits
        let inode = u32::try_from(meta.ino())
            .map_err(|_| failed(io::Error::new(io::ErrorKind::InvalidInput, "not a network namespace")))?;
        Ok(NetnsTarget { name: name.to_owned(), inode, path: path.to_owned() })
    }

    /// The namespace of this thread. Called `host` if it is that of process 1.
    ///
    /// # Errors
    /// [`ProbeError::Namespace`] if `/proc` is not there.
    pub fn current() -> Result<Self, ProbeError> {
        let own = Self::at(Path::new("/proc/thread-self/ns/net"), "here")?;
        let host = Self::at(Path::new("/proc/1/ns/net"), "host");
        Ok(match host {
            Ok(host) if host.inode != own.inode => own,
            _ => NetnsTarget { name: "host".to_owned(), ..own },
        })
    }

    /// The namespace of a process.
    ///
    /// # Errors
    /// [`ProbeError::Namespace`] if there is no such process.
    pub fn of_pid(pid: u32, name: &str) -> Result<Self, ProbeError> {
        Self::at(&PathBuf::from(format!("/proc/{pid}/ns/net")), name)
    }

    /// All namespaces with a process or a name under `/run/netns`, this thread's first.
    ///
    /// # Errors
    /// [`ProbeError::Namespace`] if `/proc` is not there.
    pub fn all() -> Result<Vec<Self>, ProbeError> {
        let own = Self::current()?;
        let mut found = BTreeMap::new();
        let named = fs::read_dir("/run/netns").into_iter().flatten().flatten();
        for entry in named {
            if let Ok(target) = Self::at(&entry.path(), &entry.file_name().to_string_lossy()) {
                found.entry(target.inode).or_insert(target);
            }
        }
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            let name = if pid == 1 { "host".to_owned() } else { format!("pid:{pid}") };
            // a process that ends meanwhile takes its namespace with it; this is no error
            if let Ok(target) = Self::of_pid(pid, &name) {
                found.entry(target.inode).or_insert(target);
            }
        }
        found.remove(&own.inode);
        Ok(std::iter::once(own).chain(found.into_values()).collect())
    }

    /// Number of processes whose namespace the kernel does not show: those of other users, or with more capabilities
    /// than the caller, who lacks `CAP_SYS_PTRACE`. [`Self::all`] leaves out the namespaces that only they have.
    pub fn unreadable() -> usize {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let is_refused = |pid: &u32| {
            let seen = fs::metadata(format!("/proc/{pid}/ns/net"));
            seen.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        // A thread of the kernel has no command line, and the namespace of process 1.
        let has_command =
            |pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
        pids.filter(is_refused).filter(has_command).count()
    }

    /// Runs `work` inside this namespace and returns. Only this thread changes namespace.
    ///
    /// # Errors
    /// [`ProbeError::Namespace`] if it cannot be entered, or has ended: then its path leads nowhere, or to another one,
    /// because a number of a process is used again.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> Result<T, ProbeError> {
        let own = Self::current()?;
        if own.inode == self.inode {
            return Ok(work());
        }
        let failed = |cause: Errno| ProbeError::Namespace {
            name: self.name.clone(),
            path: self.path.clone(),
            cause: cause.into(),
        };
        let open = |path: &Path| -> Result<OwnedFd, ProbeError> {
            open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)
        };
        let (back, there) = (open(&own.path)?, open(&self.path)?);
        if fstat(&there).map_err(failed)?.st_ino != u64::from(self.inode) {
            return Err(failed(Errno::NOENT));
        }
        move_into_link_name_space(there.as_fd(), Some(LinkNameSpaceType::Network)).map_err(failed)?;
        let result = work();
        move_into_link_name_space(back.as_fd(), Some(LinkNameSpaceType::Network)).map_err(failed)?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_namespace_is_gone_also_if_another_one_has_its_path() {
        let own = NetnsTarget::current().expect("/proc is mounted");
        assert_eq!(own.within(|| 7).expect("the own one"), 7);
        let never = || panic!("it was entered");
        let another = NetnsTarget { inode: own.inode.wrapping_add(1), ..own.clone() };
        assert!(another.within(never).expect_err("the path has another one").is_ended_namespace());
        let nowhere = NetnsTarget { path: PathBuf::from("/proc/0/ns/net"), ..another };
        assert!(nowhere.within(never).expect_err("no path").is_ended_namespace());
    }
}
