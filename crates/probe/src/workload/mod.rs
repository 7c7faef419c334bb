//! Names of the containers, pods, machines and units of this host.
//!
//! A thread without capabilities reads all of it: paths of cgroups, and the state that engines keep on disk. It reads at
//! the start of a capture, and again when a record has a cgroup or a network namespace without a name. So an idle host
//! costs nothing, a document from outside meets no privilege, and a slow disk delays names and no capture.
//!
//! The privileged start gives one thing in addition: which namespace a process is in ([`members`]).
//!
//! Limits: only what has a cgroup when it is looked for. A process that has ended with its cgroup has no name.

pub mod documents;
mod engines;
mod locate;
mod watch;

pub use engines::{Documents, EngineState};
pub use locate::{Found, HOST, containers, netns_names};
pub(crate) use watch::Watch;

use crate::netns::NetnsTarget;
use magscope_core::node::{CgroupName, NetnsName, NodeInfo};
use magscope_core::workload::{Container, Names};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

/// Gives up privileges of the reading thread.
#[derive(Clone, Copy, Debug)]
pub struct GiveUp {
    /// Its capabilities, before it reads anything.
    pub capabilities: fn() -> io::Result<()>,
    /// Its user, after the first reading, if the process is not to have a thread of root.
    pub user: fn() -> io::Result<()>,
}

/// Maximum wait for the names at the start of a capture. Later ones come with a batch.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cgroups of each namespace's processes, at most.
const MOST_PATHS: usize = 64;

/// Paths of the cgroups of processes, by the namespace that they are in, of these namespaces.
pub fn members(netns: &BTreeSet<u32>) -> BTreeMap<u32, BTreeSet<String>> {
    let mut members: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let process = entry.path();
        let Some(inode) = netns_of(&process).filter(|inode| netns.contains(inode)) else { continue };
        if let Some(path) = cgroup_of(&process) {
            let paths = members.entry(inode).or_default();
            if paths.len() < MOST_PATHS {
                paths.insert(path);
            }
        }
    }
    members
}

/// The network namespace of a process, if this thread may look.
fn netns_of(process: &Path) -> Option<u32> {
    let inode = fs::metadata(process.join("ns/net")).ok()?.ino();
    u32::try_from(inode).ok()
}

/// The path of a process's cgroup, v2.
fn cgroup_of(process: &Path) -> Option<String> {
    let text = fs::read_to_string(process.join("cgroup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    line.starts_with('/').then(|| line.strip_suffix(" (deleted)").unwrap_or(line).to_owned())
}

/// Reads everything once, in a thread without privileges; waits for it, but not long. `None` if it takes longer or the
/// privileges cannot be given up.
pub fn read(cgroups: Option<&Path>, give_up: fn() -> io::Result<()>) -> Option<(Found, Vec<EngineState>)> {
    let (give, take) = mpsc::sync_channel(1);
    let root = cgroups.map(Path::to_owned);
    let work = move || {
        if give_up().is_ok() {
            let _ = give.send(read_all(root.as_deref(), BTreeMap::new()));
        }
    };
    std::thread::Builder::new().name("magscope-names".into()).spawn(work).ok()?;
    take.recv_timeout(PATIENCE).ok()
}

fn read_all(root: Option<&Path>, members: BTreeMap<u32, BTreeSet<String>>) -> (Found, Vec<EngineState>) {
    let Documents { by_id, states } = Documents::read();
    let clean =
        |name: CgroupName| CgroupName { path: magscope_core::foreign::clean(&name.path).into_owned(), ..name };
    let cgroups: Vec<_> = root.map(crate::cgroups::names).unwrap_or_default().into_iter().map(clean).collect();
    let paths = by_id.values().map(|document| document.netns_path.as_str());
    let netns_of_path = paths
        .filter(|path| !path.is_empty())
        .filter_map(|path| Some((path.to_owned(), u32::try_from(fs::metadata(path).ok()?.ino()).ok()?)))
        .collect();
    (Found { documents: by_id, cgroups, netns_of_path, members }, states)
}

/// Adds the namespaces of containers without one, as far as this thread may look at their processes.
fn look_into(found: &mut Found, containers: &[Container], root: Option<&Path>) {
    let Some(root) = root else { return };
    for container in containers.iter().filter(|container| container.netns == 0) {
        let procs = root.join(container.cgroup.trim_start_matches('/')).join("cgroup.procs");
        let procs = fs::read_to_string(procs).unwrap_or_default();
        let first = procs.lines().next().map(|pid| Path::new("/proc").join(pid));
        if let Some(inode) = first.and_then(|process| netns_of(&process)) {
            found.members.entry(inode).or_default().insert(container.cgroup.clone());
        }
    }
}

/// A question: namespaces that need a name.
type Question = Vec<u32>;

/// The thread that reads names.
struct Reader {
    root: Option<PathBuf>,
    members: BTreeMap<u32, BTreeSet<String>>,
    /// What the capture has so far: names of namespaces, cgroups and containers.
    node: NodeInfo,
}

impl Reader {
    fn answer(&mut self, netns: &[u32]) -> Names {
        let (mut found, _) = read_all(self.root.as_deref(), BTreeMap::new());
        self.forget_ended(&found.cgroups);
        found.members = self.members.clone();
        let first = containers(&found);
        look_into(&mut found, &first, self.root.as_deref());
        let containers = containers(&found);
        let mut present = self.node.netns.clone();
        for inode in netns {
            if !present.iter().any(|name| name.netns == *inode) {
                present.push(NetnsName { netns: *inode, name: named_by_ip(*inode) });
            }
        }
        let names = netns_names(&found, &containers, &present);
        let names = names.into_iter().filter(|name| !name.name.is_empty()).collect();
        let news = locate::news(&found, containers, names, &self.node);
        self.node.learn(&news);
        news
    }

    /// Forgets the namespaces of cgroups that are gone: a container that starts again has its path, and another namespace.
    fn forget_ended(&mut self, cgroups: &[CgroupName]) {
        let ids: BTreeMap<&str, u64> = cgroups.iter().map(|cgroup| (cgroup.path.as_str(), cgroup.id)).collect();
        let is_gone = |cgroup: &&CgroupName| ids.get(cgroup.path.as_str()) != Some(&cgroup.id);
        let gone: BTreeSet<&str> =
            self.node.cgroups.iter().filter(is_gone).map(|cgroup| cgroup.path.as_str()).collect();
        for paths in self.members.values_mut() {
            paths.retain(|path| !gone.contains(path.as_str()));
        }
    }

    fn run(mut self, questions: &Receiver<Question>, answers: &SyncSender<Names>, give_up: GiveUp) {
        let mut is_first = true;
        while let Ok(netns) = questions.recv() {
            let answer = self.answer(&netns);
            if std::mem::take(&mut is_first) && (give_up.user)().is_err() {
                return;
            }
            if answers.send(answer).is_err() {
                return;
            }
        }
    }
}

/// The name of a namespace below `/run/netns`, empty without one.
fn named_by_ip(inode: u32) -> String {
    let entries = fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let mut named =
        entries.filter(|entry| fs::metadata(entry.path()).is_ok_and(|meta| meta.ino() == u64::from(inode)));
    let name = named.next().map(|entry| entry.file_name().to_string_lossy().into_owned());
    magscope_core::foreign::clean(&name.unwrap_or_default()).into_owned()
}

/// Namespaces of the processes of a cgroup and those below, each once.
pub fn netns_of_cgroup(root: &Path, path: &str) -> Vec<NetnsTarget> {
    let mut found: BTreeMap<u32, NetnsTarget> = BTreeMap::new();
    let below = root.join(path.trim_start_matches('/'));
    for cgroup in crate::cgroups::names(&below) {
        let procs = fs::read_to_string(below.join(cgroup.path.trim_start_matches('/')).join("cgroup.procs"));
        for pid in procs.unwrap_or_default().lines().filter_map(|pid| pid.parse::<u32>().ok()) {
            if let Ok(target) = NetnsTarget::of_pid(pid, &format!("pid:{pid}")) {
                found.entry(target.inode).or_insert(target);
            }
        }
    }
    found.into_values().collect()
}
