//! The documents that engines keep of their containers. Pure; every document is untrusted: text is cleaned and bounded,
//! an unknown form is no document.

use magscope_core::foreign::clean;
use magscope_core::workload::{Engine, Label};
use serde_json::{Map, Value};

/// Longest name, bytes.
const LONGEST_NAME: usize = 256;
/// Longest path, bytes.
const LONGEST_PATH: usize = 4_096;
/// Labels of a container, at most.
const MOST_LABELS: usize = 16;
/// Longest key or value of a label, bytes. Longer labels are left out.
const LONGEST_LABEL: usize = 128;
/// Containers in one document, at most.
const MOST_ROWS: usize = 4_096;

/// What an engine's documents say of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The engine.
    pub engine: Engine,
    /// The id.
    pub id: String,
    /// Its name, empty if unknown.
    pub name: String,
    /// Its pod, empty without one.
    pub pod: String,
    /// The namespace of its pod.
    pub pod_namespace: String,
    /// Some labels.
    pub labels: Vec<Label>,
    /// The path of its cgroup, if the document has it.
    pub cgroup: String,
    /// A file that is its network namespace, if the document has it.
    pub netns_path: String,
    /// It holds the namespaces of a pod.
    pub is_infra: bool,
    /// It uses the network namespace of another container.
    pub joins_netns: bool,
    /// It uses the network namespace of its host.
    pub is_of_host: bool,
    /// The host's name within it.
    pub hostname: String,
}

impl Document {
    /// Fills in what another document of the same container has in addition.
    pub fn complete(&mut self, other: Document) {
        let Document {
            engine,
            id: _,
            name,
            pod,
            pod_namespace,
            labels,
            cgroup,
            netns_path,
            is_infra,
            joins_netns,
            is_of_host,
            hostname,
        } = other;
        if self.engine == Engine::Unknown {
            self.engine = engine;
        }
        for (own, more) in [
            (&mut self.name, name),
            (&mut self.pod, pod),
            (&mut self.pod_namespace, pod_namespace),
            (&mut self.cgroup, cgroup),
            (&mut self.netns_path, netns_path),
            (&mut self.hostname, hostname),
        ] {
            if own.is_empty() {
                *own = more;
            }
        }
        if self.labels.is_empty() {
            self.labels = labels;
        }
        self.is_infra |= is_infra;
        self.joins_netns |= joins_netns;
        self.is_of_host |= is_of_host;
    }
}

/// Text of a document: cleaned, and empty beyond `most` bytes.
fn bounded(text: &str, most: usize) -> String {
    if text.len() > most { String::new() } else { clean(text).into_owned() }
}

fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

fn text_at(value: &Value, path: &[&str], most: usize) -> String {
    at(value, path).and_then(Value::as_str).map(|text| bounded(text, most)).unwrap_or_default()
}

fn name_at(value: &Value, path: &[&str]) -> String {
    text_at(value, path, LONGEST_NAME)
}

/// The first key that has a text.
fn first_of(map: Option<&Map<String, Value>>, keys: &[&str]) -> String {
    let mut found = keys.iter().filter_map(|key| map?.get(*key)?.as_str());
    found.find(|text| !text.is_empty()).map(|text| bounded(text, LONGEST_NAME)).unwrap_or_default()
}

fn labels(map: Option<&Map<String, Value>>) -> Vec<Label> {
    let all = map.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    let short = all.filter(|(key, value)| key.len() <= LONGEST_LABEL && value.len() <= LONGEST_LABEL);
    let mut labels: Vec<Label> = short
        .map(|(key, value)| Label { key: clean(key).into_owned(), value: clean(value).into_owned() })
        .collect();
    labels.sort();
    labels.truncate(MOST_LABELS);
    labels
}

/// Annotations of the container's name, by engine: CRI, CRI-O and kubelet, nerdctl.
const NAME: [&str; 4] = [
    "io.kubernetes.cri.container-name",
    "io.kubernetes.container.name",
    "io.kubernetes.cri-o.ContainerName",
    "nerdctl/name",
];
const POD: [&str; 2] = ["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"];
const POD_NAMESPACE: [&str; 2] = ["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"];
const KIND: [&str; 2] = ["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"];

/// Docker's `config.v2.json`, from the directory of a container.
pub fn docker(bytes: &[u8]) -> Option<Document> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let id = name_at(&value, &["ID"]);
    let marks = at(&value, &["Config", "Labels"]).and_then(Value::as_object);
    // A container of a pod of Kubernetes has a name of Docker's own, `k8s_web_web-7f9c_shop_…`.
    let name = Some(first_of(marks, &NAME)).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| name_at(&value, &["Name"]).trim_start_matches('/').to_owned());
    let netns_path = text_at(&value, &["NetworkSettings", "SandboxKey"], LONGEST_PATH);
    let sandbox = text_at(&value, &["NetworkSettings", "SandboxID"], LONGEST_NAME);
    let networks = at(&value, &["NetworkSettings", "Networks"]).and_then(Value::as_object);
    let is_running = at(&value, &["State", "Running"]).and_then(Value::as_bool).unwrap_or(false);
    (!id.is_empty()).then(|| Document {
        engine: Engine::Docker,
        joins_netns: is_running && sandbox.is_empty(),
        is_of_host: networks.is_some_and(|networks| networks.contains_key("host")),
        is_infra: first_of(marks, &["io.kubernetes.docker.type"]) == "podsandbox",
        pod: first_of(marks, &POD),
        pod_namespace: first_of(marks, &POD_NAMESPACE),
        labels: labels(marks),
        hostname: name_at(&value, &["Config", "Hostname"]),
        id,
        name,
        netns_path,
        ..Document::default()
    })
}

/// The `config.json` of a runtime: that of containerd's tasks, of CRI-O's and of Podman's containers.
pub fn oci(bytes: &[u8], engine: Engine, id: &str) -> Option<Document> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    value.get("ociVersion")?;
    let marks = value.get("annotations").and_then(Value::as_object);
    let is_of = |manager: &str| first_of(marks, &["io.container.manager"]) == manager;
    let engine = if is_of("cri-o") { Engine::CriO } else { engine };
    let namespaces = at(&value, &["linux", "namespaces"]).and_then(Value::as_array);
    let network =
        namespaces.into_iter().flatten().find(|one| one.get("type").and_then(Value::as_str) == Some("network"));
    let netns_path = network.map(|one| text_at(one, &["path"], LONGEST_PATH)).unwrap_or_default();
    let of_crio = first_of(marks, &["io.kubernetes.cri-o.Labels"]);
    let of_crio: Option<Value> = serde_json::from_str(&of_crio).ok();
    let labelled = of_crio.as_ref().and_then(Value::as_object).or(marks);
    let is_label =
        |key: &str| !key.starts_with("io.") && !key.starts_with("org.") && !key.starts_with("nerdctl/");
    Some(Document {
        engine,
        id: bounded(id, LONGEST_NAME),
        name: first_of(marks, &NAME),
        pod: first_of(marks, &POD),
        pod_namespace: first_of(marks, &POD_NAMESPACE),
        labels: labels(labelled).into_iter().filter(|label| is_label(&label.key)).collect(),
        cgroup: text_at(&value, &["linux", "cgroupsPath"], LONGEST_PATH),
        // A container that has `/proc/PID/ns/net` of another one shares it.
        joins_netns: netns_path.starts_with("/proc/"),
        is_of_host: namespaces.is_some() && network.is_none(),
        is_infra: first_of(marks, &KIND) == "sandbox",
        hostname: name_at(&value, &["hostname"]),
        netns_path,
    })
}

/// The list of containers of containers/storage, `containers.json`: Podman's and CRI-O's.
pub fn storage(bytes: &[u8]) -> Vec<Document> {
    let Ok(Value::Array(rows)) = serde_json::from_slice(bytes) else { return Vec::new() };
    let document = |row: &Value| {
        let id = name_at(row, &["id"]);
        let name = row.get("names").and_then(Value::as_array).and_then(|names| names.first());
        let name = name.and_then(Value::as_str).map(|name| bounded(name, LONGEST_NAME)).unwrap_or_default();
        (!id.is_empty()).then(|| Document { engine: Engine::Podman, id, name, ..Document::default() })
    };
    rows.iter().filter_map(document).take(MOST_ROWS).collect()
}

/// The file of a machine below `/run/systemd/machines`.
pub fn machine(text: &str) -> Option<Document> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| bounded(value.trim().trim_matches('"'), LONGEST_NAME)).unwrap_or_default()
    };
    let (name, scope) = (field("NAME"), field("SCOPE"));
    let unit = if scope.is_empty() { field("UNIT") } else { scope };
    // A unit file writes each backslash twice.
    let cgroup = unit.replace("\\\\", "\\");
    let id = if field("ID").is_empty() { name.clone() } else { field("ID") };
    (!name.is_empty() && !cgroup.is_empty()).then(|| Document {
        engine: Engine::Machined,
        id,
        name,
        cgroup,
        ..Document::default()
    })
}

/// A container of which only id and name are known.
pub fn named(engine: Engine, id: &str, name: &str) -> Document {
    let (id, name) = (bounded(id, LONGEST_NAME), bounded(name, LONGEST_NAME));
    Document { engine, id, name, ..Document::default() }
}

/// The directory or file behind an option in a command line.
pub fn option<'c>(command_line: &'c str, name: &str) -> Option<&'c str> {
    word(command_line, name).filter(|value| value.starts_with('/'))
}

/// The value of an option in a command line as `/proc` has it: `--data-root DIR`, `--data-root=DIR`.
pub fn word<'c>(command_line: &'c str, name: &str) -> Option<&'c str> {
    let mut words = command_line.split('\0').skip_while(|word| {
        !(*word == name || word.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    });
    let word = words.next()?;
    let value = match word.split_once('=') {
        Some((_, value)) => value,
        None => words.next()?,
    };
    Some(value).filter(|value| !value.is_empty() && value.len() <= LONGEST_PATH)
}

/// The directory that a configuration of Docker's daemon (`daemon.json`) names.
pub fn docker_root(bytes: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    Some(text_at(&value, &["data-root"], LONGEST_PATH)).filter(|root| root.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Docker 20.10 writes it, shortened.
    const DOCKER: &str = r#"{"State":{"Running":true,"Pid":18300},"ID":"6dcf","Config":{"Hostname":"6dcf81d5d93c",
        "Labels":{"com.docker.compose.project":"shop"}},"NetworkSettings":{"SandboxID":"8975",
        "SandboxKey":"/var/run/docker/netns/8975fa44cbab"},"Name":"/web"}"#;

    #[test]
    fn docker_names_a_container_and_its_namespace() {
        let web = docker(DOCKER.as_bytes()).expect("a document");
        assert_eq!((web.id.as_str(), web.name.as_str(), web.pod.as_str()), ("6dcf", "web", ""));
        assert_eq!(web.netns_path, "/var/run/docker/netns/8975fa44cbab");
        assert!(!web.joins_netns && !web.is_infra);
        assert_eq!(web.labels, [Label { key: "com.docker.compose.project".into(), value: "shop".into() }]);
        let joined = DOCKER.replace("\"SandboxID\":\"8975\"", "\"SandboxID\":\"\"");
        assert!(docker(joined.as_bytes()).expect("a document").joins_netns);
        let networks = r#""SandboxKey":"/var/run/docker/netns/default","Networks":{"host":{}}"#;
        let of_host = DOCKER.replace(r#""SandboxKey":"/var/run/docker/netns/8975fa44cbab""#, networks);
        assert!(docker(of_host.as_bytes()).expect("a document").is_of_host && !web.is_of_host);
    }

    #[test]
    fn a_pod_of_kubernetes_is_named_by_dockers_labels() {
        let labels = r#"{"io.kubernetes.pod.name":"web-7f9c","io.kubernetes.pod.namespace":"shop",
            "io.kubernetes.container.name":"POD","io.kubernetes.docker.type":"podsandbox"}"#;
        let text = DOCKER.replace(r#"{"com.docker.compose.project":"shop"}"#, labels);
        let pause = docker(text.as_bytes()).expect("a document");
        assert_eq!(
            (pause.pod.as_str(), pause.pod_namespace.as_str(), pause.is_infra),
            ("web-7f9c", "shop", true)
        );
    }

    #[test]
    fn cri_names_a_container_and_its_pod() {
        let text = r#"{"ociVersion":"1.0.2","hostname":"web-7f9c","annotations":{
            "io.kubernetes.cri.container-type":"container","io.kubernetes.cri.container-name":"nginx",
            "io.kubernetes.cri.sandbox-name":"web-7f9c","io.kubernetes.cri.sandbox-namespace":"shop","app":"web"},
            "linux":{"cgroupsPath":"/k8s.io/c1","namespaces":[{"type":"pid"},{"type":"network","path":"/proc/7/ns/net"}]}}"#;
        let nginx = oci(text.as_bytes(), Engine::Containerd, "c1").expect("a document");
        assert_eq!(
            (nginx.name.as_str(), nginx.pod.as_str(), nginx.pod_namespace.as_str()),
            ("nginx", "web-7f9c", "shop")
        );
        assert_eq!((nginx.cgroup.as_str(), nginx.netns_path.as_str()), ("/k8s.io/c1", "/proc/7/ns/net"));
        assert!(nginx.joins_netns && !nginx.is_infra && !nginx.is_of_host);
        let of_host = text.replace(r#",{"type":"network","path":"/proc/7/ns/net"}"#, "");
        assert!(oci(of_host.as_bytes(), Engine::Containerd, "c1").expect("a document").is_of_host);
        assert_eq!(nginx.labels, [Label { key: "app".into(), value: "web".into() }]);
        assert_eq!(oci(b"{}", Engine::Containerd, "c1"), None);
    }

    #[test]
    fn podman_lists_names_by_id() {
        let text = r#"[{"id":"40ec","names":["pweb"],"image":"419a"},{"id":"10203"},{"names":["x"]},7]"#;
        let rows = storage(text.as_bytes());
        assert_eq!(
            rows.iter().map(|row| (row.id.as_str(), row.name.as_str())).collect::<Vec<_>>(),
            [("40ec", "pweb"), ("10203", "")]
        );
        assert!(storage(b"{}").is_empty());
    }

    #[test]
    fn a_machine_has_its_scope() {
        let text = "# This is private data. Do not parse.\nNAME=qemu-3-web\nSCOPE=machine-qemu\\x2d3\\x2dweb.scope\nID=1f\n";
        let web = machine(text).expect("a document");
        assert_eq!((web.name.as_str(), web.cgroup.as_str()), ("qemu-3-web", r"machine-qemu\x2d3\x2dweb.scope"));
        assert_eq!(machine("NAME=x"), None);
    }

    #[test]
    fn a_daemons_directory_is_in_its_command_line_or_configuration() {
        let line = "dockerd\0--storage-driver\0vfs\0--data-root\0/srv/docker\0--data-root-x=/y\0";
        assert_eq!(option(line, "--data-root"), Some("/srv/docker"));
        assert_eq!(option("dockerd\0--data-root=/a b\0", "--data-root"), Some("/a b"));
        assert_eq!(option("dockerd\0--data-root\0", "--data-root"), None);
        assert_eq!(option("dockerd\0--data-root\0relative\0", "--data-root"), None);
        assert_eq!(docker_root(br#"{"data-root": "/srv/d"}"#).as_deref(), Some("/srv/d"));
        assert_eq!(docker_root(b"[]"), None);
    }

    #[test]
    fn text_is_cleaned_and_bounded() {
        let dirty = DOCKER.replace("/web", "/\\u001b[31mweb");
        assert_eq!(docker(dirty.as_bytes()).expect("a document").name, "\u{fffd}[31mweb");
        let long = DOCKER.replace("/web", &"x".repeat(LONGEST_NAME + 1));
        assert_eq!(docker(long.as_bytes()).expect("a document").name, "");
    }
}
