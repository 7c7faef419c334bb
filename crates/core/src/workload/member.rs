//! Where one end of a journey or an exchange runs: in a container, a pod, a unit.

use super::{Container, unit};
use crate::flow::Task;
use crate::node::NodeInfo;
use std::borrow::Cow;

/// The container and the unit of one end. Without either, the end runs directly on its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its container.
    pub container: Option<&'a Container>,
    /// Its name.
    name: Option<Cow<'a, str>>,
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
    /// The name of its container. If a container of another engine has the same name, that of its engine follows:
    /// `web (podman)`.
    ///
    /// The containers that the host has shown so far count. So a second one that starts later renames the first from
    /// then on. Ids do not count: a container that is created again has the name of the one before.
    pub fn container_name(&self) -> Option<&str> {
        self.name.as_deref()
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

/// The name of a container among all of its host.
fn name_among<'a>(container: &'a Container, all: &[Container]) -> Cow<'a, str> {
    let name = container.display();
    // Most hosts have one engine, so this comparison is the first.
    let is_namesake = |other: &Container| other.engine != container.engine && other.display() == name;
    if all.iter().any(is_namesake) { Cow::Owned(container.long_name()) } else { Cow::Borrowed(name) }
}

impl NodeInfo {
    /// Where an end runs: by the cgroup of its thread, else by its network namespace. `None` if neither says anything.
    pub fn member(&self, task: Option<&Task>, netns: Option<u32>) -> Option<Member<'_>> {
        if let Some(path) = task.and_then(|task| self.cgroup_path(task.cgroup)) {
            let container = task.and_then(|task| self.container(task.cgroup));
            return Some(Member {
                container,
                name: container.map(|one| name_among(one, &self.containers)),
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
        if container.is_none() && pod_mate.is_none() {
            return None;
        }
        let name = container.map(|one| name_among(one, containers));
        Some(Member { container, name, pod_mate, containers, ..Member::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Engine;
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
    fn containers_of_two_engines_with_one_name_have_two() {
        let mut info = info();
        let of = |engine, id: &str| Container {
            engine,
            id: id.to_owned(),
            name: "web".to_owned(),
            cgroup: format!("/{id}"),
            ..Container::default()
        };
        info.containers = vec![of(Engine::Docker, "web"), of(Engine::Docker, "again")];
        info.cgroups.push(CgroupName { id: 4, path: "/again".to_owned() });
        info.cgroups.push(CgroupName { id: 5, path: "/other".to_owned() });
        let name = |info: &NodeInfo, cgroup| {
            info.member(Some(&task(cgroup)), None).and_then(|one| one.container_name().map(str::to_owned))
        };
        // Another one of the same engine and name is the same container, created again.
        assert_eq!([1, 4].map(|id| name(&info, id)), [1, 4].map(|_| Some("web".to_owned())));
        info.containers.push(of(Engine::Podman, "other"));
        let names = [1, 4, 5].map(|id| name(&info, id).unwrap_or_default());
        assert_eq!(names, ["web (docker)", "web (docker)", "web (podman)"]);
        let is_in = |cgroup, name: &str| {
            info.member(Some(&task(cgroup)), None).is_some_and(|one| one.is_in_container(name))
        };
        assert!(is_in(1, "web (docker)") && is_in(4, "web (docker)") && !is_in(5, "web (docker)"));
        assert!(is_in(5, "web (podman)") && !is_in(1, "web (podman)"));
        assert!(is_in(1, "web") && is_in(5, "web"), "the short name is of both");
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
