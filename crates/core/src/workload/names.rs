//! Names that a capture learns after its start.

use super::Container;
use crate::node::{CgroupName, InterfaceName, NetnsName, NodeInfo};
use serde::{Deserialize, Serialize};

/// Maximum number of cgroups with a path, those of the start included.
pub const MOST_CGROUPS: usize = 8_192;
/// Maximum number of containers; beyond it the oldest lose their names.
pub const MOST_CONTAINERS: usize = 4_096;
/// Maximum number of named namespaces, and of named interfaces.
const MOST_OTHERS: usize = 8_192;

/// Names of a node that are new, or that replace earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// From this instant on, `CLOCK_MONOTONIC`.
    #[serde(default)]
    pub time_ns: u64,
    /// Names of network namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub netns: Vec<NetnsName>,
    /// Names of interfaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceName>,
    /// Paths of cgroups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<CgroupName>,
    /// Containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Container>,
}

impl Names {
    /// True without any name.
    pub fn is_empty(&self) -> bool {
        let Names { time_ns: _, netns, interfaces, cgroups, containers } = self;
        netns.is_empty() && interfaces.is_empty() && cgroups.is_empty() && containers.is_empty()
    }

    /// Its memory, bytes, roughly.
    pub fn bytes(&self) -> usize {
        let Names { time_ns: _, netns, interfaces, cgroups, containers } = self;
        let text = |text: &String| text.len() + size_of::<String>();
        size_of::<Self>()
            + netns.iter().map(|one| 8 + text(&one.name)).sum::<usize>()
            + interfaces.iter().map(|one| 8 + text(&one.name)).sum::<usize>()
            + cgroups.iter().map(|one| 8 + text(&one.path)).sum::<usize>()
            + containers.iter().map(Container::bytes).sum::<usize>()
    }
}

/// Adds a row, or replaces the one with the same key; the oldest goes beyond `most`.
fn put<T>(rows: &mut Vec<T>, row: T, most: usize, same: impl Fn(&T) -> bool) {
    if let Some(found) = rows.iter_mut().find(|found| same(found)) {
        *found = row;
        return;
    }
    if rows.len() >= most {
        rows.remove(0);
    }
    rows.push(row);
}

impl NodeInfo {
    /// Takes over new names. True if any of them is new or differs.
    pub fn learn(&mut self, names: &Names) -> bool {
        let mut is_new = false;
        for name in &names.netns {
            is_new |= !self.netns.contains(name);
            put(&mut self.netns, name.clone(), MOST_OTHERS, |one| one.netns == name.netns);
        }
        for name in &names.interfaces {
            is_new |= !self.interfaces.contains(name);
            let key = (name.netns, name.index);
            put(&mut self.interfaces, name.clone(), MOST_OTHERS, |one| (one.netns, one.index) == key);
        }
        for name in &names.cgroups {
            is_new |= !self.cgroups.contains(name);
            put(&mut self.cgroups, name.clone(), MOST_CGROUPS, |one| one.id == name.id);
        }
        for container in &names.containers {
            is_new |= !self.containers.contains(container);
            put(&mut self.containers, container.clone(), MOST_CONTAINERS, |one| {
                one.cgroup == container.cgroup && one.id == container.id
            });
        }
        is_new
    }

    /// Takes over the names of numbers that have none so far.
    pub fn complete(&mut self, names: &Names) {
        let new = Names {
            time_ns: names.time_ns,
            netns: new_rows(&names.netns, |name| self.netns.iter().any(|one| one.netns == name.netns)),
            interfaces: new_rows(&names.interfaces, |name| self.interface(name.netns, name.index).is_some()),
            cgroups: new_rows(&names.cgroups, |name| self.cgroup_path(name.id).is_some()),
            containers: names.containers.clone(),
        };
        self.learn(&new);
    }

    /// The container of a cgroup: the innermost one above it.
    pub fn container(&self, cgroup: u64) -> Option<&Container> {
        if self.containers.is_empty() {
            return None;
        }
        let path = self.cgroup_path(cgroup)?;
        let above =
            self.containers.iter().filter(|one| one.cgroup.len() > 1 && super::is_below(path, &one.cgroup));
        above.max_by_key(|one| one.cgroup.len())
    }

    /// The container that a network namespace is named after; `None` if it has none or several share it.
    pub fn container_of_netns(&self, netns: u32) -> Option<&Container> {
        let mut all = self.containers.iter().filter(|one| one.netns == netns && netns != 0 && !one.is_infra);
        let first = all.next()?;
        let mut own = all.chain([first]).filter(|one| !one.joins_netns);
        match (own.next(), own.next()) {
            (Some(one), None) => Some(one),
            _ => None,
        }
    }

    /// A container of the pod that a network namespace belongs to.
    pub(super) fn pod_container(&self, netns: u32) -> Option<&Container> {
        self.containers.iter().find(|one| one.netns == netns && netns != 0 && !one.pod.is_empty())
    }

    /// The unit of systemd that a cgroup belongs to.
    pub fn unit(&self, cgroup: u64) -> Option<&str> {
        super::unit(self.cgroup_path(cgroup)?)
    }
}

fn new_rows<T: Clone>(rows: &[T], is_named: impl Fn(&T) -> bool) -> Vec<T> {
    rows.iter().filter(|row| !is_named(row)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(id: &str, cgroup: &str, netns: u32) -> Container {
        Container { id: id.to_owned(), cgroup: cgroup.to_owned(), netns, ..Container::default() }
    }

    fn cgroup(id: u64, path: &str) -> CgroupName {
        CgroupName { id, path: path.to_owned() }
    }

    #[test]
    fn a_cgroup_belongs_to_the_innermost_container_above_it() {
        let mut info = NodeInfo::default();
        let names = Names {
            cgroups: vec![cgroup(1, "/docker/a"), cgroup(2, "/docker/a/sub/b/x"), cgroup(3, "/docker/ab")],
            containers: vec![container("a", "/docker/a", 7), container("b", "/docker/a/sub/b", 8)],
            ..Names::default()
        };
        assert!(info.learn(&names));
        assert!(!info.learn(&names), "nothing is new");
        let id = |cgroup| info.container(cgroup).map(|one| one.id.as_str());
        assert_eq!([id(1), id(2), id(3), id(4)], [Some("a"), Some("b"), None, None]);
        assert_eq!(info.container_of_netns(7).map(|one| one.id.as_str()), Some("a"));
        assert_eq!(info.container_of_netns(0), None);
    }

    #[test]
    fn a_later_name_replaces_an_earlier_one_and_completion_does_not() {
        let name = |name: &str| NetnsName { netns: 7, name: name.to_owned() };
        let mut info = NodeInfo { netns: vec![name("pid:5")], ..NodeInfo::default() };
        let names = Names { netns: vec![name("web")], ..Names::default() };
        info.complete(&names);
        assert_eq!(info.netns_name(7), "pid:5");
        info.learn(&names);
        assert_eq!(info.netns_name(7), "web");
    }

    #[test]
    fn names_are_bounded() {
        let mut info = NodeInfo::default();
        for id in 0..MOST_CONTAINERS + 10 {
            let names = Names { containers: vec![container(&id.to_string(), "/x", 0)], ..Names::default() };
            info.learn(&names);
        }
        assert_eq!(info.containers.len(), MOST_CONTAINERS);
        assert_eq!(info.containers.last().map(|one| one.id.clone()), Some((MOST_CONTAINERS + 9).to_string()));
    }
}
