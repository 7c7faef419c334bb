//! Network namespaces as users name them: a name of `ip netns`, a process, a path, `all`, `host`.

use crate::failure::{Hint, Usage};
use crate::output;
use anyhow::{Context, Result};
use magscope_probe::NetnsTarget;
use rustix::thread::{self, CapabilitySet};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const NAMED: &str = "/run/netns";

/// The namespaces to capture.
#[derive(Clone, Debug)]
pub struct Namespaces {
    /// Each once.
    pub targets: Vec<NetnsTarget>,
    /// True for all, including later ones.
    pub every: bool,
}

impl Namespaces {
    /// True if one of them is not the current namespace and must be entered.
    pub fn are_elsewhere(&self) -> bool {
        let here = NetnsTarget::current().map(|here| here.inode).ok();
        self.targets.iter().any(|target| Some(target.inode) != here)
    }
}

/// Resolves the names; the default is the current namespace.
pub fn find(wanted: &[String]) -> Result<Namespaces> {
    let mut targets = Vec::new();
    if wanted.is_empty() {
        targets.push(NetnsTarget::current()?);
    }
    for name in wanted {
        match name.as_str() {
            "all" => {
                targets.extend(NetnsTarget::all()?);
                // With the capability the rest are processes that nobody may look at.
                let unreadable = if can_trace()? { 0 } else { NetnsTarget::unreadable() };
                if unreadable > 0 {
                    output::note(&format!(
                        "the network namespaces of {unreadable} processes cannot be read without CAP_SYS_PTRACE; those \
                         that only they have are not captured"
                    ));
                }
            }
            "host" => targets.push(at(Path::new("/proc/1/ns/net"), "host")?),
            _ => targets.push(one(name)?),
        }
    }
    let mut seen = BTreeSet::new();
    targets.retain(|target| seen.insert(target.inode));
    Ok(Namespaces { targets, every: wanted.iter().any(|name| name == "all") })
}

/// True if the namespaces of all processes can be read.
fn can_trace() -> Result<bool> {
    let held = thread::capabilities(None).context("cannot read this process's capabilities")?.effective;
    Ok(held.contains(CapabilitySet::SYS_PTRACE))
}

fn one(name: &str) -> Result<NetnsTarget> {
    if name.contains('/') {
        return at(Path::new(name), name);
    }
    if let Ok(pid) = name.parse::<u32>() {
        return at(&PathBuf::from(format!("/proc/{pid}/ns/net")), &format!("pid:{pid}"));
    }
    let path = Path::new(NAMED).join(name);
    if path.exists() {
        return at(&path, name);
    }
    let existing = named().join("`, `");
    let existing = if existing.is_empty() {
        "`ip netns` has none".to_owned()
    } else {
        format!("`ip netns` has `{existing}`")
    };
    let others = "a process id, a path, `all` and `host` work too";
    Err(Usage(format!("no network namespace is called `{name}`: {existing}; {others}")).into())
}

fn at(path: &Path, name: &str) -> Result<NetnsTarget> {
    NetnsTarget::at(path, name).with_context(|| {
        Hint::new(
            format!("cannot look at the network namespace {}", path.display()),
            "there is no such process or file, it belongs to someone else, or this is a container, whose root may not look at processes outside",
            "check the name, try with sudo, or from outside of the container",
        )
    })
}

fn named() -> Vec<String> {
    let entries = fs::read_dir(NAMED).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_named_is_the_current_one_and_twice_is_once() {
        let inodes = |wanted: &[&str]| -> Vec<u32> {
            let wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
            find(&wanted).unwrap().targets.iter().map(|target| target.inode).collect()
        };
        let here = inodes(&[]);
        assert_eq!(here.len(), 1);
        assert_eq!(inodes(&["/proc/self/ns/net", &std::process::id().to_string()]), here);
        assert!(inodes(&["all"]).contains(&here[0]));
    }

    #[test]
    fn an_unknown_name_is_an_error_in_usage() {
        let error = find(&["no-such-netns".to_owned()]).unwrap_err();
        assert!(error.downcast_ref::<Usage>().is_some());
        assert!(error.to_string().contains("no-such-netns"), "{error}");
    }
}
