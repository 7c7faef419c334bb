//! Programs and rules that may drop packets: what is attached to interfaces, cgroups and netfilter.
//!
//! They are read once, when a capture begins and its privileges are still there. Later changes of rules are noticed,
//! and not read.

mod interfaces;
mod pairs;
mod rules;
mod watch;

pub use watch::RuleWatch;

use crate::candidates::{CANDIDATES, Candidate};
use crate::netns::NetnsTarget;
use libbpf_rs::query::{LinkInfoIter, LinkTypeInfo, ProgInfoIter, ProgramInfo};
use libbpf_rs::{ProgramType, libbpf_sys};
use magscope_core::deciders::{AttachedProgram, FilterHook, ProgramKind, Traffic};
use magscope_core::foreign::clean;
use magscope_core::node::{CgroupName, NodeInfo};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Programs in a recording, at most.
const MOST_PROGRAMS: usize = 2_048;
/// Chains in a recording, at most.
const MOST_CHAINS: usize = 1_024;
/// Programs of the host whose names are looked up, at most.
const MOST_NAMES: usize = 65_536;

/// Reads what is attached in these namespaces and in the node's cgroups. A list that the kernel does not give, or that
/// is too long, stays empty: a part of it would name the wrong program.
pub fn read(targets: &[NetnsTarget], cgroup_root: Option<&Path>, info: &mut NodeInfo) {
    let (mut programs, mut chains, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut is_complete = true;
    for target in targets {
        let of_netns = target.within(|| (interfaces::read(target.inode), rules::read(target.inode)));
        let (of_interfaces, of_rules) = of_netns.unwrap_or_default();
        is_complete &= of_interfaces.is_some() && of_rules.is_some();
        let (of_interfaces, of_pairs) = of_interfaces.unwrap_or_default();
        programs.extend(of_interfaces);
        ends.extend(of_pairs);
        chains.extend(of_rules.unwrap_or_default());
    }
    pairs::add_peers(&mut programs, &ends);
    programs.extend(cgroup_root.into_iter().flat_map(|root| of_cgroups(root, &info.cgroups)));
    programs.extend(of_netfilter());
    let names = Names::read();
    if !programs.is_empty() {
        for program in &mut programs {
            let name = names.of(program.id).filter(|name| !name.is_empty());
            program.name = clean(name.unwrap_or(&program.name)).into_owned();
        }
        let own = CANDIDATES.iter().flat_map(|of_hop| of_hop.iter()).flat_map(Candidate::parts);
        let own: Vec<&str> = own.map(|candidate| candidate.program).collect();
        // Without a name it may be one of this capture.
        is_complete &= !programs.iter().any(is_unnamed);
        programs.retain(|program| !is_unnamed(program) && !is_own(program, &own));
    }
    if programs.len() > MOST_PROGRAMS || chains.len() > MOST_CHAINS {
        return;
    }
    // Names only: which sockets have them is read at a drop.
    let room = MOST_PROGRAMS - programs.len();
    programs.extend(names.socket_filters().take(room));
    (info.programs, info.chains, info.lists_deciders) = (programs, chains, is_complete);
}

/// True for a program of a capture, this one or another: they drop nothing. The kernel has 15 bytes of a name.
fn is_own(program: &AttachedProgram, own: &[&str]) -> bool {
    matches!(program.kind, ProgramKind::CgroupSkb | ProgramKind::Netfilter)
        && own.iter().any(|name| name.get(..15).unwrap_or(name) == program.name)
}

/// True for a program of the kinds that captures attach, if its name is unknown.
fn is_unnamed(program: &AttachedProgram) -> bool {
    matches!(program.kind, ProgramKind::CgroupSkb | ProgramKind::Netfilter) && program.name.is_empty()
}

/// Names of all programs of this host, and whether their type is that of filters of sockets.
struct Names(BTreeMap<u32, (String, bool)>);

impl Names {
    fn read() -> Self {
        let named = |program: ProgramInfo| {
            let is_filter = program.ty == ProgramType::SocketFilter;
            (program.id, (program.name.to_string_lossy().into_owned(), is_filter))
        };
        Names(ProgInfoIter::default().take(MOST_NAMES).map(named).collect())
    }

    fn of(&self, id: u32) -> Option<&String> {
        self.0.get(&id).map(|(name, _)| name)
    }

    fn socket_filters(&self) -> impl Iterator<Item = AttachedProgram> {
        let filters = self.0.iter().filter(|(_, (_, is_filter))| *is_filter);
        filters.map(|(id, (name, _))| AttachedProgram {
            name: clean(name).into_owned(),
            ..AttachedProgram::of(ProgramKind::SocketFilter, *id)
        })
    }
}

/// Numbers of the programs attached to an interface or a cgroup; none where the kernel has no such list.
fn query(target: i32, list: libbpf_sys::bpf_attach_type) -> Vec<u32> {
    let mut ids = vec![0_u32; 64];
    let mut count = ids.len() as u32;
    // SAFETY: the kernel writes at most `count` numbers, and `ids` has that many. Both outlive the call.
    #[allow(unsafe_code)]
    let done = unsafe {
        libbpf_sys::bpf_prog_query(target, list, 0, std::ptr::null_mut(), ids.as_mut_ptr(), &raw mut count)
    };
    ids.truncate(if done == 0 { count as usize } else { 0 });
    ids
}

/// Programs attached to these cgroups themselves.
fn of_cgroups(root: &Path, cgroups: &[CgroupName]) -> Vec<AttachedProgram> {
    let mut found = Vec::new();
    for cgroup in cgroups {
        let Ok(directory) = File::open(root.join(cgroup.path.trim_start_matches('/'))) else { continue };
        for (list, direction) in [
            (libbpf_sys::BPF_CGROUP_INET_INGRESS, Traffic::Ingress),
            (libbpf_sys::BPF_CGROUP_INET_EGRESS, Traffic::Egress),
        ] {
            let of = |id| AttachedProgram {
                direction: Some(direction),
                cgroup: cgroup.id,
                ..AttachedProgram::of(ProgramKind::CgroupSkb, id)
            };
            found.extend(query(directory.as_raw_fd(), list).into_iter().map(of));
        }
        if found.len() > MOST_PROGRAMS {
            break;
        }
    }
    found
}

/// BPF programs at hooks of netfilter, in any namespace.
fn of_netfilter() -> Vec<AttachedProgram> {
    let mut found = Vec::new();
    for link in LinkInfoIter::default().take(MOST_NAMES) {
        let LinkTypeInfo::Netfilter(at) = link.info else { continue };
        let hook = match i32::try_from(at.hooknum) {
            Ok(libbpf_rs::NF_INET_PRE_ROUTING) => Some(FilterHook::Prerouting),
            Ok(libbpf_rs::NF_INET_LOCAL_IN) => Some(FilterHook::Input),
            Ok(libbpf_rs::NF_INET_FORWARD) => Some(FilterHook::Forward),
            Ok(libbpf_rs::NF_INET_LOCAL_OUT) => Some(FilterHook::Output),
            Ok(libbpf_rs::NF_INET_POST_ROUTING) => Some(FilterHook::Postrouting),
            _ => None,
        };
        let program = AttachedProgram { hook, ..AttachedProgram::of(ProgramKind::Netfilter, link.prog_id) };
        if !found.contains(&program) {
            found.push(program);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_captures_are_left_out() {
        let named =
            |kind, name: &str| AttachedProgram { name: name.to_owned(), ..AttachedProgram::of(kind, 1) };
        let own = ["ip_out", "a_name_that_is_longer"];
        assert!(is_own(&named(ProgramKind::Netfilter, "ip_out"), &own));
        assert!(is_own(&named(ProgramKind::CgroupSkb, "a_name_that_is_"), &own));
        assert!(!is_own(&named(ProgramKind::Tc, "ip_out"), &own), "a capture attaches none there");
        assert!(!is_own(&named(ProgramKind::Netfilter, "limit"), &own));
    }
}
