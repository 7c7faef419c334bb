//! Names of a running capture: asks the reading thread when a record has a number without a name.

use super::{GiveUp, HOST, PATIENCE, Question, Reader};
use crate::capture::CaptureOptions;
use crate::facts::HostFacts;
use crate::netns::NetnsTarget;
use magscope_core::Batch;
use magscope_core::foreign::clean;
use magscope_core::hash::Map;
use magscope_core::node::{NetnsName, NodeInfo};
use magscope_core::workload::Names;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

/// First pause between two readings, and the longest one. A container's state may be written a little after its first
/// packet, so that a number without a name is looked for again.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Readings for one number, at most.
const MOST_READINGS: u8 = 8;
/// Numbers that are looked for at once, at most.
const MOST_WANTED: usize = 4_096;

/// A number without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unnamed {
    Cgroup(u64),
    Netns(u32),
}

/// The names of a capture, and what has none so far.
#[derive(Debug)]
pub(crate) struct Watch {
    questions: SyncSender<Question>,
    answers: Receiver<Names>,
    is_busy: bool,
    /// Numbers without a name, with the readings that they have had.
    wanted: Map<Unnamed, u8>,
    /// Numbers that have a name, or whose name was not found.
    settled: HashSet<Unnamed>,
    pause: Duration,
    next: Instant,
    /// Names of namespaces are wanted beyond those of the start.
    every_netns: bool,
}

impl Watch {
    /// The names of a capture, if they are wanted, and the first of them. Gives the namespaces of `options` their names.
    pub(crate) fn of(options: &mut CaptureOptions, facts: &HostFacts) -> (Option<Self>, Names) {
        let started = options.names.and_then(|give_up| {
            Self::start(&options.netns, options.every_netns, facts.cgroup2.clone(), give_up)
        });
        let (watch, names) = started.unzip();
        let names: Names = names.unwrap_or_default();
        for target in &mut options.netns {
            if let Some(better) = names.netns.iter().find(|name| name.netns == target.inode) {
                target.name.clone_from(&better.name);
            }
        }
        (watch, names)
    }

    /// Starts the thread and waits for its first names. `None` if it cannot give up its privileges.
    fn start(
        targets: &[NetnsTarget],
        every_netns: bool,
        cgroups: Option<PathBuf>,
        give_up: GiveUp,
    ) -> Option<(Self, Names)> {
        let inodes: BTreeSet<u32> = targets.iter().map(|target| target.inode).collect();
        let host = NetnsTarget::of_pid(1, HOST).ok().map(|host| host.inode);
        let elsewhere: BTreeSet<u32> = inodes.into_iter().filter(|inode| Some(*inode) != host).collect();
        let members = if elsewhere.is_empty() { BTreeMap::default() } else { super::members(&elsewhere) };
        let netns =
            targets.iter().map(|one| NetnsName { netns: one.inode, name: clean(&one.name).into_owned() });
        let node = NodeInfo { netns: netns.collect(), ..NodeInfo::default() };
        let reader = Reader { root: cgroups, members, node };
        let (questions, asked) = mpsc::sync_channel(1);
        let (answer, answers) = mpsc::sync_channel(1);
        let (ready, is_ready) = mpsc::sync_channel(1);
        let work = move || {
            let is_done = (give_up.capabilities)().is_ok();
            if ready.send(is_done).is_ok() && is_done {
                reader.run(&asked, &answer, give_up);
            }
        };
        std::thread::Builder::new().name("magscope-names".into()).spawn(work).ok()?;
        // Only the drop of privileges is waited for without a limit: it touches no file.
        if !is_ready.recv().unwrap_or(false) || questions.send(Vec::new()).is_err() {
            return None;
        }
        let first = answers.recv_timeout(PATIENCE).ok();
        let watch = Watch {
            questions,
            answers,
            is_busy: first.is_none(),
            wanted: Map::default(),
            settled: HashSet::new(),
            pause: PAUSE,
            next: Instant::now(),
            every_netns,
        };
        Some((watch, first.unwrap_or_default()))
    }

    /// Notes numbers of a batch without a name, asks for them, and takes over an answer into `info` and the batch: names
    /// that hold from an instant on.
    pub(crate) fn turn(&mut self, info: &mut NodeInfo, batch: &mut Batch, from_ns: u64) {
        for task in &batch.tasks {
            self.want(Unnamed::Cgroup(task.cgroup), info);
        }
        if self.every_netns {
            for flow in &batch.flows {
                self.want(Unnamed::Netns(flow.netns), info);
            }
        }
        match self.answers.try_recv() {
            Ok(mut names) => {
                self.is_busy = false;
                names.time_ns = from_ns;
                if info.learn(&names) {
                    batch.names.push(names);
                }
                self.settle(info);
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
        }
        if self.wanted.is_empty() || self.is_busy || Instant::now() < self.next {
            return;
        }
        let netns = self
            .wanted
            .keys()
            .filter_map(|one| if let Unnamed::Netns(netns) = one { Some(*netns) } else { None });
        if self.questions.try_send(netns.collect()).is_ok() {
            self.is_busy = true;
            self.next = Instant::now() + self.pause;
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
            self.wanted.values_mut().for_each(|readings| *readings += 1);
        }
    }

    fn want(&mut self, one: Unnamed, info: &NodeInfo) {
        if self.settled.contains(&one) || self.wanted.contains_key(&one) {
            return;
        }
        if one.is_named(info) {
            self.settle_one(one);
        } else if self.wanted.len() < MOST_WANTED {
            self.wanted.insert(one, 0);
            self.pause = PAUSE;
            self.next = self.next.min(Instant::now() + PAUSE);
        }
    }

    fn settle_one(&mut self, one: Unnamed) {
        if self.settled.len() >= 16 * MOST_WANTED {
            self.settled.clear();
        }
        self.settled.insert(one);
    }

    fn settle(&mut self, info: &NodeInfo) {
        let done =
            self.wanted.iter().filter(|(one, readings)| one.is_named(info) || **readings >= MOST_READINGS);
        let done: Vec<Unnamed> = done.map(|(one, _)| *one).collect();
        for one in done {
            self.wanted.remove(&one);
            self.settle_one(one);
        }
    }
}

impl Unnamed {
    fn is_named(self, info: &NodeInfo) -> bool {
        match self {
            // A record without a cgroup has none to look for.
            Self::Cgroup(0) => true,
            Self::Cgroup(id) => {
                info.cgroup_path(id).is_some()
                    && info.container(id).is_none_or(|container| !container.name.is_empty())
            }
            Self::Netns(netns) => {
                info.netns.iter().any(|name| name.netns == netns && !name.name.starts_with("pid:"))
            }
        }
    }
}
