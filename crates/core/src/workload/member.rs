//! Where one end of a journey or an exchange runs: in a container, a pod, a unit.

use super::{Container, unit};
use crate::flow::Task;
use crate::node::NodeInfo;

/// The container and the unit of one end. Without either, the end runs directly on its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its container.
    pub container: Option<&'a Container>,
    /// A container of its pod, which may be another one.
    pod_mate: Option<&'a Container>,
    /// Its unit.
    pub unit: Option<&'a str>,
    /// The path of its cgroup.
    cgroup: Option<&'a str>,
    /// All containers of its host.
    containers: &'a [Container],
}

impl Member<'_> {
    /// The name of its container.
    pub fn container_name(&self) -> Option<&str> {
        self.container.map(Container::display)
    }

    /// The name of its pod, with its namespace.
    pub fn pod(&self) -> Option<String> {
        self.pod_mate.map(Container::pod_display).filter(|pod| !pod.is_empty())
    }

    /// True if it is in this container. As for a filter of a capture, a name that no container of the host has means the
    /// cgroups with this text in their name.
    pub fn is_in_container(&self, name: &str) -> bool {
        if self.containers.iter().any(|container| container.is_called(name)) {
            return self.container.is_some_and(|container| container.is_called(name));
        }
        let is_in = |path: &str| !name.is_empty() && path.split('/').any(|part| part.contains(name));
        self.cgroup.is_some_and(is_in)
    }

    /// True if it is in this pod.
    pub fn is_in_pod(&self, name: &str) -> bool {
        self.pod_mate.is_some_and(|container| container.is_in_pod(name))
    }

    /// True if it is in this unit.
    pub fn is_in_unit(&self, name: &str) -> bool {
        self.unit == Some(name)
    }
}

impl NodeInfo {
    /// Where an end runs: by the cgroup of its thread, else by its network namespace. `None` if neither says anything.
    pub fn member(&self, task: Option<&Task>, netns: Option<u32>) -> Option<Member<'_>> {
        if let Some(path) = task.and_then(|task| self.cgroup_path(task.cgroup)) {
            let container = task.and_then(|task| self.container(task.cgroup));
            return Some(Member {
                container,
                pod_mate: container.filter(|one| !one.pod.is_empty()),
                unit: unit(path),
                cgroup: Some(path),
                containers: &self.containers,
            });
        }
        let netns = netns?;
        let container = self.container_of_netns(netns);
        let pod_mate = self.pod_container(netns);
        let containers = &self.containers;
        let is_member = container.is_some() || pod_mate.is_some();
        is_member.then_some(Member { container, pod_mate, containers, ..Member::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::CgroupName;

    fn info() -> NodeInfo {
        let container = |name: &str, pod: &str, netns| Container {
            name: name.to_owned(),
            pod: pod.to_owned(),
            pod_namespace: if pod.is_empty() { String::new() } else { "shop".to_owned() },
            cgroup: format!("/{name}"),
            netns,
            ..Container::default()
        };
        let cgroup = |id, path: &str| CgroupName { id, path: path.to_owned() };
        NodeInfo {
            cgroups: vec![cgroup(1, "/web"), cgroup(2, "/system.slice/ssh.service"), cgroup(3, "/cart/sub")],
            containers: vec![container("web", "", 7), container("cart", "pod", 8), container("log", "pod", 8)],
            ..NodeInfo::default()
        }
    }

    fn task(cgroup: u64) -> Task {
        Task { tgid: 1, tid: 1, uid: 0, cgroup, comm: String::new() }
    }

    #[test]
    fn a_name_without_a_container_means_cgroups_with_this_text() {
        let mut info = info();
        let is_in = |info: &NodeInfo, cgroup, name: &str| {
            info.member(Some(&task(cgroup)), None).is_some_and(|one| one.is_in_container(name))
        };
        assert!(is_in(&info, 2, "ssh") && is_in(&info, 2, "system"));
        assert!(!is_in(&info, 2, "web") && !is_in(&info, 2, "") && !is_in(&info, 1, "ssh"));
        info.containers.push(Container {
            name: "ssh".to_owned(),
            cgroup: "/x".to_owned(),
            ..Container::default()
        });
        assert!(!is_in(&info, 2, "ssh"), "a container has this name now");
        assert!(is_in(&info, 1, "web"));
    }

    #[test]
    fn the_cgroup_of_the_thread_counts_before_the_namespace() {
        let info = info();
        let web = info.member(Some(&task(1)), Some(8)).expect("known");
        assert_eq!((web.container_name(), web.pod(), web.unit), (Some("web"), None, None));
        let cart = info.member(Some(&task(3)), None).expect("known");
        assert_eq!((cart.container_name(), cart.pod()), (Some("cart"), Some("shop/pod".to_owned())));
        let ssh = info.member(Some(&task(2)), Some(7)).expect("known");
        assert_eq!((ssh.container_name(), ssh.unit), (None, Some("ssh.service")));
    }

    #[test]
    fn without_a_thread_the_namespace_counts() {
        let info = info();
        assert!(info.member(None, Some(7)).is_some_and(|one| one.is_in_container("web")));
        let shared = info.member(None, Some(8)).expect("known");
        assert_eq!((shared.container, shared.pod()), (None, Some("shop/pod".to_owned())));
        assert_eq!((info.member(None, Some(9)), info.member(Some(&task(9)), None)), (None, None));
    }
}
