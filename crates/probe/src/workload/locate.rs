//! Containers from documents and cgroups. Pure.

use super::documents::Document;
use magscope_core::node::{CgroupName, NetnsName};
use magscope_core::workload::{self, Container, Engine, Names};
use std::collections::{BTreeMap, BTreeSet};

/// What was found on a host.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The documents of all engines, by id.
    pub documents: BTreeMap<String, Document>,
    /// The cgroups of the host.
    pub cgroups: Vec<CgroupName>,
    /// Network namespaces behind the documents' paths.
    pub netns_of_path: BTreeMap<String, u32>,
    /// Paths of the cgroups of some namespaces' processes.
    pub members: BTreeMap<u32, BTreeSet<String>>,
}

/// The scope behind a path of systemd's three parts, `SLICE:PREFIX:ID`.
fn scope_of(cgroup: &str) -> Option<String> {
    let mut parts = cgroup.rsplitn(3, ':');
    let (name, prefix, _slice) = (parts.next()?, parts.next()?, parts.next()?);
    Some(if prefix.is_empty() { format!("{name}.scope") } else { format!("{prefix}-{name}.scope") })
}

/// True if a document's cgroup is this one.
fn has_cgroup(document: &Document, path: &str) -> bool {
    if document.cgroup.is_empty() {
        return false;
    }
    let last = path.rsplit('/').next().unwrap_or_default();
    match scope_of(&document.cgroup) {
        Some(scope) => last == scope,
        None if document.engine == Engine::Machined => last == document.cgroup,
        None => path == document.cgroup,
    }
}

/// The containers that run: each has a cgroup. One without a document has its id alone.
pub fn containers(found: &Found) -> Vec<Container> {
    let mut of_root: BTreeMap<&str, Container> = BTreeMap::new();
    let others: Vec<&Document> =
        found.documents.values().filter(|document| !document.cgroup.is_empty()).collect();
    for cgroup in &found.cgroups {
        let path = cgroup.path.as_str();
        if let Some(at) = workload::container(path) {
            if of_root.contains_key(at.root) {
                continue;
            }
            let document = found.documents.get(at.id);
            let container = document.map_or_else(
                || Container { engine: at.engine, id: at.id.to_owned(), ..Container::default() },
                container_of,
            );
            of_root.insert(at.root, Container { cgroup: at.root.to_owned(), ..container });
        } else if let Some(document) = others.iter().find(|document| has_cgroup(document, path)) {
            of_root.insert(path, Container { cgroup: path.to_owned(), ..container_of(document) });
        } else if let Some((name, root)) = workload::machine(path)
            && !of_root.contains_key(root)
        {
            let container = Container {
                engine: Engine::Machined,
                id: name.clone(),
                name,
                cgroup: root.to_owned(),
                ..Container::default()
            };
            of_root.insert(root, container);
        }
    }
    let mut containers: Vec<Container> = of_root.into_values().collect();
    let pods = pods(found, &containers);
    for container in &mut containers {
        let document = found.documents.get(&container.id);
        let path = document.map(|document| document.netns_path.as_str()).filter(|path| !path.is_empty());
        let by_path = path.and_then(|path| found.netns_of_path.get(path)).copied();
        let is_member =
            |paths: &BTreeSet<String>| paths.iter().any(|path| workload::is_below(path, &container.cgroup));
        let by_process = found.members.iter().find(|(_, paths)| is_member(paths)).map(|(netns, _)| *netns);
        // The namespace of the host is of all its processes.
        let is_of_host = document.is_some_and(|document| document.is_of_host);
        container.netns = by_process.or(by_path).filter(|_| !is_of_host).unwrap_or(0);
        if container.pod.is_empty()
            && let Some(pod) = workload::pod(&container.cgroup).and_then(|root| pods.get(root))
        {
            container.pod.clone_from(pod);
        }
    }
    bounded(containers)
}

/// Memory of all containers, bytes, at most: a recording's description must stay small.
const MOST_BYTES: usize = 1 << 20;

/// As many containers as fit. Labels are left out first.
fn bounded(mut containers: Vec<Container>) -> Vec<Container> {
    if containers.iter().map(Container::bytes).sum::<usize>() > MOST_BYTES {
        for container in &mut containers {
            container.labels = Vec::new();
        }
    }
    let mut bytes = 0;
    containers.retain(|container| {
        bytes += container.bytes();
        bytes <= MOST_BYTES
    });
    containers
}

/// Names of Podman's pods by their directory. A pod's name is the host's name within its infrastructure container.
fn pods(found: &Found, containers: &[Container]) -> BTreeMap<String, String> {
    let of = |container: &Container| {
        let root = workload::pod(&container.cgroup)?;
        let document = found.documents.get(&container.id)?;
        let is_infra = document.engine == Engine::Podman && document.name.ends_with("-infra");
        (is_infra && !document.hostname.is_empty()).then(|| (root.to_owned(), document.hostname.clone()))
    };
    containers.iter().filter_map(of).collect()
}

fn container_of(document: &Document) -> Container {
    Container {
        engine: document.engine,
        id: document.id.clone(),
        name: document.name.clone(),
        pod: document.pod.clone(),
        pod_namespace: document.pod_namespace.clone(),
        labels: document.labels.clone(),
        is_infra: document.is_infra || (document.engine == Engine::Podman && document.name.ends_with("-infra")),
        joins_netns: document.joins_netns,
        cgroup: String::new(),
        netns: 0,
    }
}

/// Names of these namespaces by what runs in them. `present` are their names so far; `host` is never renamed.
pub fn netns_names(found: &Found, containers: &[Container], present: &[NetnsName]) -> Vec<NetnsName> {
    let none = BTreeSet::new();
    let mut names: Vec<NetnsName> = present.to_vec();
    for name in names.iter_mut().filter(|name| name.name != HOST) {
        let within = containers.iter().filter(|container| container.netns == name.netns && name.netns != 0);
        let paths: Vec<String> = found.members.get(&name.netns).unwrap_or(&none).iter().cloned().collect();
        if let Some(better) = workload::netns_name(within, &paths, !is_made_up(&name.name)) {
            name.name = better;
        }
    }
    workload::distinct(&mut names, containers);
    names
}

/// The name of the namespace of process 1.
pub const HOST: &str = "host";

/// The name of the capture's own namespace, where nothing better is known.
const HERE: &str = "here";

/// True for a name that this program gave for want of a better one.
fn is_made_up(name: &str) -> bool {
    name == HERE || name.starts_with("pid:") || name.starts_with("netns:")
}

/// What of `found` a node lacks so far.
pub fn news(
    found: &Found,
    containers: Vec<Container>,
    netns: Vec<NetnsName>,
    node: &magscope_core::node::NodeInfo,
) -> Names {
    let existing: BTreeSet<u64> = node.cgroups.iter().map(|cgroup| cgroup.id).collect();
    Names {
        time_ns: 0,
        netns: netns.into_iter().filter(|name| !node.netns.contains(name)).collect(),
        interfaces: Vec::new(),
        cgroups: found.cgroups.iter().filter(|cgroup| !existing.contains(&cgroup.id)).cloned().collect(),
        containers: containers.into_iter().filter(|container| !node.containers.contains(container)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::NodeInfo;

    const ID: &str = "6dcf81d5d93cd0ce2a426e02cb9f8e9523e22129136a1557c389a3117357af58";

    fn found(paths: &[&str], documents: &[Document]) -> Found {
        let cgroup = |(id, path): (usize, &&str)| CgroupName { id: id as u64, path: (*path).to_owned() };
        Found {
            cgroups: paths.iter().enumerate().map(cgroup).collect(),
            documents: documents.iter().map(|one| (one.id.clone(), one.clone())).collect(),
            ..Found::default()
        }
    }

    fn document(engine: Engine, id: &str, name: &str) -> Document {
        Document { engine, id: id.to_owned(), name: name.to_owned(), ..Document::default() }
    }

    #[test]
    fn a_container_has_the_name_of_its_document_and_the_namespace_of_its_process() {
        let path = format!("/system.slice/docker-{ID}.scope");
        let nested = format!("{path}/init");
        let document =
            Document { netns_path: "/run/docker/netns/1".to_owned(), ..document(Engine::Docker, ID, "web") };
        let mut found = found(&["/", "/system.slice", &path, &nested], &[document]);
        found.netns_of_path.insert("/run/docker/netns/1".to_owned(), 7);
        let web = containers(&found);
        assert_eq!(web.len(), 1);
        assert_eq!((web[0].name.as_str(), web[0].cgroup.as_str(), web[0].netns), ("web", path.as_str(), 7));
        found.members.insert(8, BTreeSet::from([nested]));
        assert_eq!(containers(&found)[0].netns, 8);
    }

    #[test]
    fn a_container_without_a_document_has_its_id() {
        let path = format!("/docker/{ID}");
        let found = found(&[&path], &[document(Engine::Docker, "another", "web")]);
        let one = &containers(&found)[0];
        assert_eq!((one.engine, one.name.as_str(), one.display()), (Engine::Docker, "", "6dcf81d5d93c"));
    }

    #[test]
    fn a_cgroup_of_a_runtimes_document_is_a_path_or_a_scope() {
        let by_path =
            Document { cgroup: "/k8s.io/c1".to_owned(), ..document(Engine::Containerd, "c1", "nginx") };
        let by_scope = Document {
            cgroup: "kubepods-pod1.slice:cri-containerd:c2".to_owned(),
            ..document(Engine::Containerd, "c2", "redis")
        };
        let machine = Document {
            cgroup: r"machine-qemu\x2d1\x2ddb.scope".to_owned(),
            ..document(Engine::Machined, "uuid", "qemu-1-db")
        };
        let scope = "/kubepods.slice/kubepods-pod1.slice/cri-containerd-c2.scope";
        let paths = ["/k8s.io", "/k8s.io/c1", scope, r"/machine.slice/machine-qemu\x2d1\x2ddb.scope"];
        let all = containers(&found(&paths, &[by_path, by_scope, machine]));
        let names: BTreeSet<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, BTreeSet::from(["nginx", "redis", "qemu-1-db"]));
    }

    #[test]
    fn a_pod_of_podman_has_the_host_name_of_its_infrastructure() {
        let (pod, infra, cart) = (ID, ID.replace('6', "7"), ID.replace('6', "8"));
        let at = |id: &str| format!("/libpod_parent/{pod}/libpod-{id}");
        let documents = [
            Document { hostname: "shop".to_owned(), ..document(Engine::Podman, &infra, "6dcf81d5d93c-infra") },
            document(Engine::Podman, &cart, "cart"),
        ];
        let all = containers(&found(&[&at(&infra), &at(&cart)], &documents));
        assert!(all.iter().all(|one| one.pod == "shop"), "{all:?}");
        assert!(all.iter().any(|one| one.is_infra));
    }

    #[test]
    fn namespaces_are_renamed_but_the_hosts() {
        let path = format!("/docker/{ID}");
        let mut found = found(&[&path], &[document(Engine::Docker, ID, "web")]);
        found.members.insert(7, BTreeSet::from([path]));
        found.members.insert(9, BTreeSet::from(["/system.slice/a.service".to_owned()]));
        let containers = containers(&found);
        let name = |netns, name: &str| NetnsName { netns, name: name.to_owned() };
        let present = [name(1, "host"), name(7, "pid:5"), name(9, "pid:6"), name(10, "pid:7")];
        let names = netns_names(&found, &containers, &present);
        let texts: Vec<&str> = names.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(texts, ["host", "web", "a.service", "pid:7"]);
        let mut node = NodeInfo { netns: present.to_vec(), ..NodeInfo::default() };
        let first = news(&found, containers.clone(), names.clone(), &node);
        assert_eq!((first.netns.len(), first.cgroups.len(), first.containers.len()), (2, 1, 1));
        node.learn(&first);
        assert!(news(&found, containers, names, &node).is_empty());
    }

    #[test]
    fn containers_are_bounded_in_bytes() {
        let many: Vec<Container> =
            (0..10_000).map(|id| Container { id: format!("{id}"), ..Container::default() }).collect();
        let left = bounded(many);
        assert!(left.iter().map(Container::bytes).sum::<usize>() <= MOST_BYTES && !left.is_empty());
    }
}
