//! What the path of a cgroup says about its processes. Pure; the text is untrusted.

use super::Engine;
use crate::foreign::clean;

/// Digits of an engine's id.
const ID_DIGITS: usize = 64;

/// A container in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerPath<'a> {
    /// The engine that the path names.
    pub engine: Engine,
    /// The id of the container.
    pub id: &'a str,
    /// The path of its cgroup.
    pub root: &'a str,
}

/// Names of a container's directory before the id.
const PREFIXES: [(&str, Engine); 6] = [
    ("docker-", Engine::Docker),
    ("libpod-payload-", Engine::Podman),
    ("libpod-", Engine::Podman),
    ("cri-containerd-", Engine::Containerd),
    ("nerdctl-", Engine::Containerd),
    ("crio-", Engine::CriO),
];

/// Podman's directory above its containers and pods, where systemd does not manage cgroups.
const PODMANS_PARENT: &str = "libpod_parent";

/// True for hexadecimal digits in lower case alone.
pub(super) fn is_hex(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &str) -> bool {
    text.len() == ID_DIGITS && is_hex(text)
}

/// The parts of a path, each with the path up to its end.
fn parts(path: &str) -> impl DoubleEndedIterator<Item = (&str, &str)> {
    let mut end = 0;
    let parts: Vec<_> = path
        .split('/')
        .map(|part| {
            end += part.len();
            let root = &path[..end];
            end += 1;
            (part, root)
        })
        .collect();
    parts.into_iter().filter(|(part, _)| !part.is_empty())
}

/// The container that a cgroup belongs to: the innermost one, if its path names one.
///
/// The forms are `docker-ID.scope`, `/docker/ID`, `libpod-ID.scope`, `libpod-payload-ID`, `cri-containerd-ID.scope`,
/// `crio-ID.scope`, `nerdctl-ID.scope`, `SLICE:cri-containerd:ID` and, below `kubepods` and elsewhere, the id alone.
pub fn container(path: &str) -> Option<ContainerPath<'_>> {
    let mut parents = path.split('/').filter(|part| !part.is_empty()).rev().skip(1);
    for (part, root) in parts(path).rev() {
        let parent = parents.next().unwrap_or_default();
        let name = part.strip_suffix(".scope").unwrap_or(part);
        // Podman's directory of a pod has an id for its name, too.
        if is_id(name) && parent != PODMANS_PARENT {
            let engine = if parent == "docker" { Engine::Docker } else { Engine::Unknown };
            return Some(ContainerPath { engine, id: name, root });
        }
        let mut prefixes =
            PREFIXES.iter().filter_map(|(prefix, engine)| Some((name.strip_prefix(prefix)?, *engine)));
        if let Some((id, engine)) = prefixes.find(|(id, _)| is_id(id)) {
            return Some(ContainerPath { engine, id, root });
        }
        // Without systemd below it, runc takes the three parts of systemd's form for one name.
        let mut of_three = name.rsplitn(3, ':');
        if let (Some(id), Some(prefix), Some(_)) = (of_three.next(), of_three.next(), of_three.next())
            && is_id(id)
        {
            let named = PREFIXES.iter().find(|(directory, _)| directory.trim_end_matches('-') == prefix);
            let engine = named.map_or(Engine::Unknown, |(_, engine)| *engine);
            return Some(ContainerPath { engine, id, root });
        }
    }
    None
}

/// The directory of the pod that a cgroup belongs to: `kubepods…-podUID.slice`, `/kubepods/…/podUID`,
/// `machine-libpod_pod_ID.slice`, `/libpod_parent/ID`.
pub fn pod(path: &str) -> Option<&str> {
    let parents = std::iter::once("").chain(parts(path).map(|(part, _)| part));
    let of_podman =
        parts(path).zip(parents).find(|((part, _), parent)| *parent == PODMANS_PARENT && is_id(part));
    if let Some(((_, root), _)) = of_podman {
        return Some(root);
    }
    let is_pod = |part: &str| {
        let name = part.strip_suffix(".slice").unwrap_or(part);
        let of_kubernetes = name.rsplit_once("pod").is_some_and(|(before, uid)| {
            (before.is_empty() || before.ends_with('-'))
                && uid.len() >= 32
                && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'_'))
        });
        of_kubernetes || name.rsplit_once("libpod_pod_").is_some_and(|(_, id)| is_id(id))
    };
    parts(path).rev().find(|(part, _)| is_pod(part)).map(|(_, root)| root)
}

/// Kinds of units that processes run in.
const UNITS: [&str; 2] = [".service", ".scope"];

/// The unit of systemd that a cgroup belongs to: a service, or a scope that is no container's. Of a unit of a user's
/// manager it is that unit, not the manager's own.
pub fn unit(path: &str) -> Option<&str> {
    let is_unit = |part: &str| {
        UNITS.iter().any(|kind| part.len() > kind.len() && part.ends_with(kind))
            && container(part).is_none()
            && !part.starts_with("libpod-conmon-")
            && !part.starts_with("crio-conmon-")
    };
    let mut units = parts(path).map(|(part, _)| part).filter(|part| is_unit(part));
    let first = units.next()?;
    Some(if first.starts_with("user@") { units.next().unwrap_or(first) } else { first })
}

/// The scope or service of a machine of systemd, and the machine's name: `machine-qemu\x2d1\x2dweb.scope`,
/// `systemd-nspawn@web.service`.
pub fn machine(path: &str) -> Option<(String, &str)> {
    parts(path).rev().find_map(|(part, root)| {
        let scope = part.strip_prefix("machine-").and_then(|rest| rest.strip_suffix(".scope"));
        let service = part.strip_prefix("systemd-nspawn@").and_then(|rest| rest.strip_suffix(".service"));
        // An escape can encode any character.
        let name = clean(&unescape(scope.or(service)?)).into_owned();
        Some((name, root))
    })
}

/// A part of a unit's name as it was before `systemd-escape`: `\x2d` is `-`.
pub fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let digits = others.strip_prefix(b"x").and_then(|digits| digits.get(..2));
        let escaped = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'\\');
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { others.get(3..).unwrap_or_default() } else { others };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// True if a path is another one or below it.
pub fn is_below(path: &str, above: &str) -> bool {
    let above = above.trim_end_matches('/');
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6dcf81d5d93cd0ce2a426e02cb9f8e9523e22129136a1557c389a3117357af58";

    #[test]
    fn every_form_of_a_containers_path_gives_its_id() {
        for (before, after, engine) in [
            ("/docker/", "", Engine::Docker),
            ("/system.slice/docker-", ".scope", Engine::Docker),
            ("/system.slice/docker-", ".scope/init.scope", Engine::Docker),
            (
                "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-",
                ".scope/container",
                Engine::Podman,
            ),
            ("/machine.slice/libpod-", ".scope", Engine::Podman),
            ("/libpod_parent/libpod-", "", Engine::Podman),
            ("/system.slice/web.service/libpod-payload-", "", Engine::Podman),
            ("/kubepods.slice/kubepods-pod1.slice/cri-containerd-", ".scope", Engine::Containerd),
            ("/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:", "", Engine::Containerd),
            ("/kubepods/besteffort/pod1/", "", Engine::Unknown),
            ("/kubepods.slice/crio-", ".scope", Engine::CriO),
            ("/nerdctl-", ".scope", Engine::Containerd),
        ] {
            let path = format!("{before}{ID}{after}");
            let found = container(&path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!((found.engine, found.id), (engine, ID), "{path}");
            assert!(found.root.ends_with(ID) || found.root.ends_with(&format!("{ID}.scope")), "{}", found.root);
        }
        for other in ["", "/", "/system.slice/ssh.service", "/machine.slice/libpod-conmon-1.scope"] {
            assert_eq!(container(other), None, "{other}");
        }
        let conmon = format!("/machine.slice/libpod-conmon-{ID}.scope");
        assert_eq!((container(&conmon), unit(&conmon)), (None, None));
    }

    #[test]
    fn of_a_container_within_a_container_the_inner_one_counts() {
        let inner = ID.replace('6', "7");
        let path = format!("/docker/{ID}/docker/{inner}");
        assert_eq!(container(&path).map(|found| found.id), Some(inner.as_str()));
    }

    #[test]
    fn a_unit_is_a_service_or_a_scope_that_is_no_containers() {
        let docker = format!("/system.slice/docker-{ID}.scope");
        let quadlet = format!("/system.slice/web.service/libpod-payload-{ID}");
        for (path, expected) in [
            ("/system.slice/nginx.service", Some("nginx.service")),
            ("/system.slice/system-getty.slice/getty@tty1.service", Some("getty@tty1.service")),
            ("/user.slice/user-0.slice/session-3.scope", Some("session-3.scope")),
            ("/user.slice/user-1.slice/user@1.service/app.slice/x.service", Some("x.service")),
            ("/user.slice/user-1.slice/user@1.service/init.scope", Some("init.scope")),
            ("/user.slice/user-1.slice/user@1.service", Some("user@1.service")),
            (docker.as_str(), None),
            (quadlet.as_str(), Some("web.service")),
            ("/init.scope", Some("init.scope")),
            ("/system.slice", None),
            ("/.service", None),
            ("", None),
        ] {
            assert_eq!(unit(path), expected, "{path}");
        }
    }

    #[test]
    fn a_pod_is_a_directory_of_kubernetes_or_podman() {
        let uid = "1f0c5e52_6cbb_4a8e_9d27_6b8d6b9d6a11";
        let systemd = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice");
        assert_eq!(pod(&format!("{systemd}/cri-containerd-{ID}.scope")), Some(systemd.as_str()));
        let plain = format!("/kubepods/pod{}", uid.replace('_', "-"));
        assert_eq!(pod(&format!("{plain}/{ID}")), Some(plain.as_str()));
        let podman = format!("/machine.slice/machine-libpod_pod_{ID}.slice");
        assert_eq!(pod(&format!("{podman}/libpod-{ID}.scope")), Some(podman.as_str()));
        let cgroupfs = format!("/libpod_parent/{ID}");
        let path = format!("{cgroupfs}/libpod-{ID}");
        assert_eq!(
            (pod(&path), container(&path).map(|found| found.root)),
            (Some(cgroupfs.as_str()), Some(path.as_str()))
        );
        assert_eq!((container(&cgroupfs), pod(&format!("/libpod_parent/libpod-{ID}"))), (None, None));
        assert_eq!(pod("/system.slice/podman.service"), None);
    }

    #[test]
    fn a_machine_has_its_name_before_it_was_escaped() {
        let found = machine(r"/machine.slice/machine-qemu\x2d3\x2dweb.scope/libvirt/emulator");
        assert_eq!(found, Some(("qemu-3-web".to_owned(), r"/machine.slice/machine-qemu\x2d3\x2dweb.scope")));
        let nspawn = "/machine.slice/systemd-nspawn@db.service";
        assert_eq!(machine(&format!("{nspawn}/payload")), Some(("db".to_owned(), nspawn)));
        assert_eq!(machine("/system.slice"), None);
        assert_eq!(machine(r"/machine-a\x1bb.scope").map(|(name, _)| name), Some("a\u{fffd}b".to_owned()));
        assert_eq!(unescape(r"a\x2db\x"), r"a-b\x");
        assert_eq!(unescape("größer\\xzz"), "größer\\xzz");
    }

    #[test]
    fn a_part_is_no_beginning_of_another() {
        assert!(
            is_below("/a/b", "/a") && is_below("/a", "/a/") && is_below("/a", "/") && !is_below("/ab", "/a")
        );
    }
}
