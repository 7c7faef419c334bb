//! Names behind the ids in batches, from announcements. The tables are bounded; ids beyond have no name, and their
//! announcements are counted.

use magscope_core::batch::Batch;
use magscope_core::custom::CustomProbe;
use magscope_core::hash::Map;
use magscope_core::netns_resolver::Places;
use magscope_core::node::{NodeInfo, make_names_unique};
use magscope_core::{Event, Flow, FlowId, Task};
use std::borrow::Cow;
use std::sync::Arc;

/// Maximum number of flows, and of threads; later ones have no name.
const MOST: usize = 1 << 18;

/// Flows, threads and namespaces of several recordings.
#[derive(Default)]
pub struct Names {
    infos: Vec<NodeInfo>,
    hosts: Vec<Arc<str>>,
    flows: Map<(u16, FlowId), Flow>,
    tasks: Map<(u16, u32), Task>,
    places: Vec<Places>,
    named: Map<(u16, u32), Arc<str>>,
    /// Announcements of flows and threads beyond the maximum, repetitions included.
    unstored: u64,
    /// Number of changes of names of containers and namespaces.
    revision: u64,
}

impl Names {
    /// Names without announcements so far.
    pub fn new(infos: &[NodeInfo]) -> Self {
        Names {
            infos: infos.to_vec(),
            hosts: hosts(infos),
            places: infos.iter().map(|_| Places::default()).collect(),
            ..Names::default()
        }
    }

    /// Rises when later names of containers, cgroups or namespaces came: what was derived from them may differ.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The nodes.
    pub fn infos(&self) -> &[NodeInfo] {
        &self.infos
    }

    /// Processes the announcements of a batch; `new` receives the new flows.
    pub fn learn(&mut self, node: u16, batch: &Batch, new: &mut Vec<Flow>) {
        new.clear();
        let mut has_names = false;
        if let Some(info) = self.infos.get_mut(usize::from(node)) {
            for names in &batch.names {
                has_names |= info.learn(names);
            }
        }
        if has_names {
            self.named.clear();
            self.revision += 1;
        }
        for flow in &batch.flows {
            let key = (node, flow.id);
            if self.flows.get(&key) == Some(flow) {
                continue;
            }
            if self.flows.len() < MOST || self.flows.contains_key(&key) {
                self.flows.insert(key, *flow);
            } else {
                self.unstored += 1;
            }
            new.push(*flow);
        }
        for task in &batch.tasks {
            let key = (node, task.tid);
            if self.tasks.len() < MOST || self.tasks.contains_key(&key) {
                self.tasks.insert(key, task.clone());
            } else {
                self.unstored += 1;
            }
        }
    }

    /// Announcements that were not stored, as the user reads it after a number; `None` if all were.
    pub fn left_out(&self) -> Option<(Cow<'static, str>, u64)> {
        let words = format!(
            "announcements of flows and threads came after the first {MOST} and are left out: what is theirs has no \
             address and no name; export a shorter part with --from and --until"
        );
        (self.unstored > 0).then(|| (words.into(), self.unstored))
    }

    /// The flow of an id.
    pub fn flow(&self, node: u16, id: FlowId) -> Option<&Flow> {
        self.flows.get(&(node, id))
    }

    /// The command name of a thread; empty if it was never announced.
    pub fn comm(&self, node: u16, tid: u32) -> &str {
        self.task(node, tid).map_or("", |task| task.comm.as_str())
    }

    /// The last announcement of a thread.
    pub fn task(&self, node: u16, tid: u32) -> Option<&Task> {
        self.tasks.get(&(node, tid))
    }

    /// The unique name of each node's host.
    pub fn host(&self, node: u16) -> Arc<str> {
        self.hosts.get(usize::from(node)).cloned().unwrap_or_default()
    }

    /// The host of a network namespace. A recording made from a log of several hosts is one node.
    pub fn host_of(&self, node: u16, netns: u32) -> Arc<str> {
        let several = self.infos.get(usize::from(node)).and_then(|info| info.several.as_ref());
        several.and_then(|several| several.host_of(netns)).map_or_else(|| self.host(node), Into::into)
    }

    /// As [`Self::host_of`], for a flow; the node's host if the flow was never announced.
    pub fn host_of_flow(&self, node: u16, flow: FlowId) -> Arc<str> {
        self.flow(node, flow).map_or_else(|| self.host(node), |flow| self.host_of(node, flow.netns))
    }

    /// The display name of a network namespace of a node, without the host.
    pub fn place(&mut self, node: u16, netns: u32) -> Arc<str> {
        if let Some(named) = self.named.get(&(node, netns)) {
            return named.clone();
        }
        let info = self.infos.get(usize::from(node));
        let name = info.map(|info| info.netns_name(netns)).unwrap_or_default();
        let host = info.and_then(|info| info.several.as_ref()).and_then(|several| several.host_of(netns));
        // With several hosts the name starts with the host.
        let name: Arc<str> = match host.and_then(|host| name.strip_prefix(host)) {
            Some("") => Arc::default(),
            Some(rest) => rest.strip_prefix('/').unwrap_or(&name).into(),
            None => name.into(),
        };
        if self.named.len() < MOST {
            self.named.insert((node, netns), name.clone());
        }
        name
    }

    /// As [`Self::place`], for a flow; empty if it was never announced.
    pub fn place_of(&mut self, node: u16, flow: FlowId) -> Arc<str> {
        let netns = self.flow(node, flow).map(|flow| flow.netns);
        netns.map(|netns| self.place(node, netns)).unwrap_or_default()
    }

    /// A custom probe of a node.
    pub fn probe(&self, node: u16, number: u8) -> Option<&CustomProbe> {
        self.infos.get(usize::from(node))?.probes.get(usize::from(number))
    }

    /// The namespace of an event, from its flow or device.
    pub fn netns(&mut self, node: u16, event: &Event) -> Option<u32> {
        let flows = &self.flows;
        let places = self.places.get_mut(usize::from(node))?;
        places.of(event, |flow| flows.get(&(node, flow)).map(|flow| flow.netns))
    }
}

/// A unique name for each host.
pub fn hosts(infos: &[NodeInfo]) -> Vec<Arc<str>> {
    let mut infos = infos.to_vec();
    make_names_unique(&mut infos);
    infos.into_iter().map(|info| info.host.into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::Proto;

    #[test]
    fn announcements_beyond_the_maximum_are_counted() {
        let flow = |id: u64| Flow {
            id: FlowId(id),
            netns: 1,
            proto: Proto::TCP,
            local: "10.0.0.1:1".parse().expect("an address"),
            remote: "10.0.0.2:2".parse().expect("an address"),
        };
        let task = |tid: u32| Task { tgid: tid, tid, uid: 0, cgroup: 0, comm: String::new() };
        let (mut names, mut new) = (Names::new(&[NodeInfo::default()]), Vec::new());
        let most = MOST as u64;
        let mut batch = Batch { flows: (1..=most).map(flow).collect(), ..Batch::default() };
        batch.tasks = (1..=MOST as u32).map(task).collect();
        names.learn(0, &batch, &mut new);
        names.learn(0, &batch, &mut new);
        assert_eq!(names.left_out(), None, "repetitions are stored");
        let batch = Batch { flows: vec![flow(most + 1)], tasks: vec![task(0)], ..Batch::default() };
        names.learn(0, &batch, &mut new);
        let (words, count) = names.left_out().expect("two are beyond");
        assert!(count == 2 && words.contains("262144"), "{count} {words}");
        assert_eq!((names.flow(0, FlowId(most + 1)), names.flow(0, FlowId(1))), (None, Some(&flow(1))));
    }
}
