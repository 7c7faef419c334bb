//! Containers, pods, machines and units: the names that a person gives to the processes of a cgroup.
//!
//! A record holds a cgroup's number, a node holds the paths of cgroups. `path` reads a path: the id of a container,
//! a pod, a unit. An engine's state gives the name behind the id. A capture stores both in its node
//! ([`NodeInfo::containers`](crate::node::NodeInfo::containers)); names of later containers arrive with a batch
//! ([`Names`]).

mod member;
mod names;
mod netns;
mod path;

pub use member::Member;
pub use names::{MOST_CGROUPS, MOST_CONTAINERS, Names};
pub use netns::{MemberPaths, distinct, netns_name};
pub use path::{ContainerPath, container, is_below, machine, pod, unescape, unit};

use serde::{Deserialize, Serialize};
use std::fmt;

/// Length of an id as the engines print it.
const SHORT_ID: usize = 12;

/// What started a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// containerd, by its own client or by CRI.
    Containerd,
    /// CRI-O.
    CriO,
    /// A machine that systemd-machined registered: systemd-nspawn, libvirt.
    Machined,
    /// Another one.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Engine {
    /// Engines with a state that can be read.
    pub const ALL: [Self; 5] = [Self::Docker, Self::Podman, Self::Containerd, Self::CriO, Self::Machined];

    /// Name in tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Containerd => "containerd",
            Self::CriO => "cri-o",
            Self::Machined => "machined",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A label of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Label {
    /// Its key.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub key: String,
    /// Its value.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub value: String,
}

/// A container, or a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// What started it.
    pub engine: Engine,
    /// Its id.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub id: String,
    /// Its name; empty if the engine did not give it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::foreign::text")]
    pub name: String,
    /// The name of its pod; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::foreign::text")]
    pub pod: String,
    /// The namespace of its pod; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::foreign::text")]
    pub pod_namespace: String,
    /// Some of its labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<Label>,
    /// The path of its cgroup; every cgroup below belongs to it.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub cgroup: String,
    /// Its network namespace, inode number; 0 if unknown, or if it uses that of its host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub netns: u32,
    /// True if it holds the namespaces of a pod and nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_infra: bool,
    /// True if it uses the network namespace of another container.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub joins_netns: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Container {
    /// Its name, or its id as the engines shorten it.
    pub fn display(&self) -> &str {
        if self.name.is_empty() { short(&self.id) } else { &self.name }
    }

    /// Its name and its engine: `web (podman)`.
    pub fn long_name(&self) -> String {
        format!("{} ({})", self.display(), self.engine)
    }

    /// `shop/web-7f9c`, the pod's name alone without a namespace; empty without a pod.
    pub fn pod_display(&self) -> String {
        if self.pod.is_empty() || self.pod_namespace.is_empty() {
            return self.pod.clone();
        }
        format!("{}/{}", self.pod_namespace, self.pod)
    }

    /// Its memory, bytes, roughly.
    pub fn bytes(&self) -> usize {
        let Container { id, name, pod, pod_namespace, labels, cgroup, .. } = self;
        let texts: usize = [id, name, pod, pod_namespace, cgroup].into_iter().map(String::len).sum();
        let of_label = |label: &Label| size_of::<Label>() + label.key.len() + label.value.len();
        size_of::<Container>() + texts + labels.iter().map(of_label).sum::<usize>()
    }

    /// True if a user means this container: by its name, with or without its engine, or by the first digits of its id.
    pub fn is_called(&self, name: &str) -> bool {
        let is_long = || name.ends_with(')') && self.long_name() == name;
        !name.is_empty() && (self.name == name || is_id_of(name, &self.id) || is_long())
    }

    /// True if a user means this container's pod: `shop/web-7f9c` or `web-7f9c`.
    pub fn is_in_pod(&self, name: &str) -> bool {
        !self.pod.is_empty() && (self.pod == name || self.pod_display() == name)
    }
}

/// Digits of an id from which it is taken for one.
const LEAST_ID: usize = 6;

/// True for an id, or its first digits.
fn is_id_of(text: &str, id: &str) -> bool {
    text == id || (text.len() >= LEAST_ID && path::is_hex(text) && path::is_hex(id) && id.starts_with(text))
}

/// An id as the engines shorten it.
pub fn short(id: &str) -> &str {
    if path::is_hex(id) { id.get(..SHORT_ID).unwrap_or(id) } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6dcf81d5d93cd0ce2a426e02cb9f8e9523e22129136a1557c389a3117357af58";

    #[test]
    fn a_container_is_called_by_its_name_or_the_first_digits_of_its_id() {
        let named = Container { id: ID.to_owned(), name: "web".to_owned(), ..Container::default() };
        for (name, is) in
            [("web", true), ("6dcf81", true), (ID, true), ("6dcf", false), ("we", false), ("", false)]
        {
            assert_eq!(named.is_called(name), is, "{name}");
        }
        assert_eq!((named.display(), named.long_name()), ("web", "web (unknown)".to_owned()));
        let podman = Container { engine: Engine::Podman, ..named.clone() };
        assert!(podman.is_called("web (podman)") && !podman.is_called("web (docker)"));
        let unnamed = Container { name: String::new(), ..named };
        assert_eq!(unnamed.display(), "6dcf81d5d93c");
    }

    #[test]
    fn a_pod_is_called_with_or_without_its_namespace() {
        let of = |pod: &str, namespace: &str| Container {
            pod: pod.to_owned(),
            pod_namespace: namespace.to_owned(),
            ..Container::default()
        };
        let kubernetes = of("web-7f9c", "shop");
        assert_eq!(kubernetes.pod_display(), "shop/web-7f9c");
        assert!(kubernetes.is_in_pod("shop/web-7f9c") && kubernetes.is_in_pod("web-7f9c"));
        assert!(!kubernetes.is_in_pod("other/web-7f9c"));
        assert_eq!(of("web", "").pod_display(), "web");
        assert!(!of("", "").is_in_pod(""));
    }
}
