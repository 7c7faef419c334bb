//! Errors of captures and probes, with the likely cause and a next step.

use magscope_core::Hop;
use magscope_core::node::{Ability, Backend};
use std::io;
use std::path::PathBuf;

/// Cause of a failed start or a stopped capture.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kernel has no type information.
    #[error(
        "the kernel {kernel} has no BTF (/sys/kernel/btf/vmlinux is missing), so probes cannot find their fields; \
         likely it was built without CONFIG_DEBUG_INFO_BTF: use a distribution kernel of 2021 or later"
    )]
    NoBtf {
        /// Kernel release.
        kernel: String,
    },
    /// Type information that cannot be read.
    #[error("the BTF in {} cannot be read, so probes cannot find their fields: {because}", path.display())]
    BadBtf {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        because: String,
    },
    /// The kernel was booted with the strictest lockdown.
    #[error(
        "the kernel {kernel} is locked down (/sys/kernel/security/lockdown is `confidentiality`), which forbids \
         probes to read kernel memory"
    )]
    Lockdown {
        /// Kernel release.
        kernel: String,
    },
    /// Missing privileges to load or attach.
    #[error("capturing needs {}, which this process does not have", missing.join(", "))]
    Privileges {
        /// Names of the capabilities that are missing.
        missing: Vec<&'static str>,
    },
    /// The kernel's own clock cannot be derived from the readings of this process.
    #[error(
        "the offsets of this process's time namespace are unknown: {because}; start it in a namespace that it shares with its children (`unshare --time --fork`)"
    )]
    TimeNamespace {
        /// The reason.
        because: &'static str,
    },
    /// No requested hop can be served.
    #[error(
        "none of the hops asked for can be served on this kernel ({asked}); {because}; `magnet-scope hops` says what serves them"
    )]
    NothingToServe {
        /// Hops, comma separated.
        asked: String,
        /// Why the first of them cannot.
        because: String,
    },
    /// More namespaces than the kernel side supports.
    #[error(
        "{asked} network namespaces asked for, at most {most} can be named; use `--netns all` and filter later"
    )]
    TooManyNamespaces {
        /// Requested number.
        asked: usize,
        /// Maximum number.
        most: usize,
    },
    /// Histograms are requested, but no memory was allocated for them.
    #[error("this capture has no room for what the kernel adds up: it was not started with any")]
    NoRoom,
    /// Sums in the kernel and a sampler together.
    #[error(
        "sums in the kernel (`--detail histograms` or `both`) and a sampler do not go together: times would lead from one \
         packet to another, and nothing would scale the sums; leave out `--sample` (`ctl sample off`), \
         or ask for `--detail full`"
    )]
    SampledSums,
    /// A network namespace that is missing or cannot be entered.
    #[error("cannot enter network namespace {name} ({}): {cause}; does it still exist, and is CAP_SYS_ADMIN there?", path.display())]
    Namespace {
        /// Its name.
        name: String,
        /// The path that was tried.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The kernel refused the programs.
    #[error("the kernel refused to load the probes: {cause}{hint}", hint = hint(log))]
    Load {
        /// libbpf's error.
        cause: String,
        /// The verifier's last words, if any.
        log: String,
        /// The program that was refused, where libbpf names one.
        program: Option<String>,
        /// Why, in words for a person.
        because: String,
    },
    /// A requested ability that this kernel lacks.
    #[error("{ability} cannot be used on this kernel: {because}")]
    Ability {
        /// Which.
        ability: Ability,
        /// Why, in words.
        because: String,
    },
    /// A probe did not attach.
    #[error("cannot attach the probe of {hop} at {point} ({backend}): {cause}")]
    Attach {
        /// Which hop.
        hop: Hop,
        /// Its backend.
        backend: Backend,
        /// The attach point.
        point: String,
        /// The kernel's error.
        cause: String,
    },
    /// A map could not be made or read.
    #[error("cannot {operation} the kernel's map `{map}`: {cause}")]
    Map {
        /// `create`, `read` or `write`.
        operation: &'static str,
        /// Name of the map.
        map: &'static str,
        /// The kernel's error.
        cause: String,
    },
    /// A custom probe cannot be attached.
    #[error("the probe `{probe}`: {cause}")]
    Custom {
        /// The requested attach point.
        probe: String,
        /// The missing name, or the kernel's error.
        cause: String,
    },
    /// The filter cannot be put into the kernel.
    #[error(transparent)]
    Filter(#[from] crate::filter::FilterError),
    /// The pcap expression cannot be put into the kernel.
    #[error(transparent)]
    Pcap(#[from] crate::pcap::PcapError),
    /// A hop cannot be switched on any more.
    #[error("{hop} cannot be switched on: {because}")]
    Switch {
        /// Which hop.
        hop: Hop,
        /// The reason, and the remedy.
        because: String,
    },
    /// A fact about this host could not be read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
}

/// The texts of EPERM and ENOMEM, of libbpf and of the C libraries.
const REFUSALS: [&str; 6] =
    ["EPERM", "ENOMEM", "(os error 1)", "(os error 12)", "Operation not permitted", "Cannot allocate memory"];

impl ProbeError {
    /// True if the kernel refused a map or a program with EPERM or ENOMEM, as it does beyond a limit of memory.
    pub fn is_refused_memory(&self) -> bool {
        let (cause, log) = match self {
            Self::Load { cause, log, .. } => (cause.as_str(), log.as_str()),
            Self::Map { operation: "create" | "map", cause, .. } => (cause.as_str(), ""),
            // Each program was refused by itself.
            Self::NothingToServe { because, .. } => (because.as_str(), ""),
            _ => return false,
        };
        REFUSALS.iter().any(|text| cause.contains(text) || log.contains(text))
    }

    /// True if a network namespace has ended since it was found.
    pub(crate) fn is_ended_namespace(&self) -> bool {
        matches!(self, Self::Namespace { cause, .. } if cause.kind() == io::ErrorKind::NotFound)
    }
}

fn hint(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("; its messages: {log}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_memory_are_those_of_maps_and_programs() {
        let map = |operation, cause: &str| ProbeError::Map { operation, map: "rings", cause: cause.to_owned() };
        assert!(
            map("create", "failed to create map: Operation not permitted (os error 1)").is_refused_memory()
        );
        assert!(map("create", "Out of memory (os error 12)").is_refused_memory());
        assert!(!map("create", "Resource temporarily unavailable (os error 11)").is_refused_memory());
        assert!(!map("read", "Operation not permitted (os error 1)").is_refused_memory());
        let load = |log: &str| ProbeError::Load {
            cause: "failed to load object".to_owned(),
            log: log.to_owned(),
            program: None,
            because: String::new(),
        };
        assert!(load("map 'passings': failed to create: -EPERM").is_refused_memory());
        assert!(!load("prog 'dev_recv': BPF program load failed: -EINVAL").is_refused_memory());
        let nothing = |because: &str| ProbeError::NothingToServe {
            asked: "dev.recv".to_owned(),
            because: because.to_owned(),
        };
        assert!(nothing("the kernel refuses it: -EPERM").is_refused_memory());
        assert!(!ProbeError::NoRoom.is_refused_memory());
    }
}
