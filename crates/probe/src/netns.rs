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

/// The names of `ip netns`.
const NAMED: &str = "/run/netns";
/// A setting that the kernel shows in its first network namespace alone.
const SHOWN_IN_THE_FIRST: &str = "/proc/sys/net/core/netdev_max_backlog";
/// The directory of such settings, which every network namespace has.
const SETTINGS: &str = "/proc/sys/net/core";

/// A network namespace to capture in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetnsTarget {
    /// User-visible name: `host`, a name under `/run/netns`, `pid:1234`, or `here`.
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

    /// The namespace of this thread. Called `host` if it is that of process 1 and the kernel's first one; one of the two
    /// suffices where the other cannot be read. Process 1 of a container is its own. Otherwise it has its name under
    /// `/run/netns`, or is called `here`.
    ///
    /// # Errors
    /// [`ProbeError::Namespace`] if `/proc` is not there.
    pub fn current() -> Result<Self, ProbeError> {
        let own = Self::of_this_thread()?;
        let host = Self::at(Path::new("/proc/1/ns/net"), "host").ok().map(|host| host.inode);
        let is_first = Path::new(SETTINGS).exists().then(|| Path::new(SHOWN_IN_THE_FIRST).exists());
        Ok(NetnsTarget { name: name_of(own.inode, host, is_first, Path::new(NAMED)), ..own })
    }

    /// The namespace of this thread, without a look for its name.
    fn of_this_thread() -> Result<Self, ProbeError> {
        Self::at(Path::new("/proc/thread-self/ns/net"), "here")
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
        for target in named(Path::new(NAMED)) {
            found.entry(target.inode).or_insert(target);
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
        let own = Self::of_this_thread()?;
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

/// The namespaces with a name in a directory.
fn named(dir: &Path) -> impl Iterator<Item = NetnsTarget> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| NetnsTarget::at(&entry.path(), &entry.file_name().to_string_lossy()).ok())
}

/// The name of the namespace with this inode: `host` where that is proven, a name in the directory `names`, or `here`.
/// `host` is the inode of process 1's, and `is_first` whether it is the kernel's first one; `None` if it cannot be read.
fn name_of(inode: u32, host: Option<u32>, is_first: Option<bool>, names: &Path) -> String {
    let is_host = match (host.map(|host| host == inode), is_first) {
        (Some(is_of_process_1), Some(is_first)) => is_of_process_1 && is_first,
        (one, other) => one.or(other).unwrap_or(false),
    };
    if is_host {
        return "host".to_owned();
    }
    named(names).find(|target| target.inode == inode).map_or_else(|| "here".to_owned(), |target| target.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_the_host_only_where_that_is_proven() {
        let own = NetnsTarget::current().expect("/proc is mounted").inode;
        // This directory has a namespace of each kind by name, as `/run/netns` has.
        let (names, nowhere) = (Path::new("/proc/self/ns"), Path::new("/nowhere"));
        let another = Some(own.wrapping_add(1));
        assert_eq!(name_of(own, Some(own), Some(true), names), "host");
        assert_eq!(name_of(own, Some(own), None, names), "host");
        assert_eq!(name_of(own, None, Some(true), names), "host");
        assert_eq!(name_of(own, Some(own), Some(false), names), "net", "process 1 is that of a container");
        assert_eq!(name_of(own, another, None, names), "net");
        assert_eq!(name_of(own, another, Some(true), names), "net");
        assert_eq!(name_of(own, None, Some(false), names), "net");
        assert_eq!(name_of(own, None, None, names), "net");
        assert_eq!(name_of(own, None, Some(false), nowhere), "here");
    }

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
