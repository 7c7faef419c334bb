//! Names on this host: users, namespaces, interfaces, cgroups, containers, pods, units.

use crate::interfaces;
use crate::netns::NetnsTarget;
use crate::record::MAG_CGROUP_LEVELS;
use magscope_core::CaptureFilter;
use magscope_core::capture_filter::{Field, Value};
use magscope_core::node::InterfaceName;
use magscope_core::workload::{self, Container};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A cgroup: its id and its depth below the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Inode of its directory.
    pub id: u64,
    /// 0 is the root.
    pub level: u32,
}

/// Reason for an unresolved name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// No user has that name.
    #[error("no such user in /etc/passwd")]
    User,
    /// No namespace has that name.
    #[error("none of the namespaces captured is called so")]
    Netns,
    /// No interface has that name.
    #[error("none of the namespaces captured has such an interface")]
    Iface,
    /// No cgroup has that path.
    #[error("no such cgroup below {}", .0.display())]
    Cgroup(PathBuf),
    /// The host has no cgroup v2 hierarchy.
    #[error(
        "no cgroup v2 hierarchy is mounted here (`ip netns exec` mounts a /sys without it): use \
         `nsenter --net=/run/netns/NAME` instead"
    )]
    NoCgroups,
    /// No container has that name, and no cgroup name contains the id.
    #[error("no container is called so, and no cgroup's name has that in it; is the container running?{}", those(.0))]
    Container(Vec<String>),
    /// No pod has that name.
    #[error("no pod of a running container is called so{}", those(.0))]
    Pod(Vec<String>),
    /// No cgroup is that of the unit.
    #[error("no cgroup is called so; is the unit running?")]
    Unit,
    /// Several cgroup names contain the id.
    #[error("more than one container's cgroup has that in its name: {}", .0.join(", "))]
    Ambiguous(Vec<String>),
    /// Deeper than the kernel side supports.
    #[error("it lies {0} levels deep, the kernel side looks at {MAG_CGROUP_LEVELS}")]
    TooDeep(u32),
    /// Longer than a process's name can be.
    #[error("a process's name has at most 15 bytes")]
    LongComm,
}

/// Names that exist, for a message.
fn those(names: &[String]) -> String {
    const MOST: usize = 8;
    if names.is_empty() {
        return String::new();
    }
    let more = if names.len() > MOST { " …" } else { "" };
    format!(
        " (there are: {}{more})",
        names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ")
    )
}

/// Resolver of names.
pub trait Names {
    /// Number of a user.
    fn uid(&self, name: &str) -> Result<u32, NotFound>;
    /// Inode of a network namespace.
    fn netns(&self, name: &str) -> Result<u32, NotFound>;
    /// Namespace and index of every interface of that name; at least one.
    fn iface(&self, name: &str) -> Result<Vec<(u32, u32)>, NotFound>;
    /// A cgroup by path below the root of its hierarchy, or by id.
    fn cgroup(&self, name: &str) -> Result<Cgroup, NotFound>;
    /// The cgroup of a container.
    fn container(&self, name: &str) -> Result<Cgroup, NotFound>;
    /// The cgroups of a pod; at least one.
    fn pod(&self, name: &str) -> Result<Vec<Cgroup>, NotFound>;
    /// The cgroups of a unit of systemd; at least one.
    fn unit(&self, name: &str) -> Result<Vec<Cgroup>, NotFound>;
}

/// Names of this host. Interfaces are read once, while the namespaces can still be entered.
#[derive(Clone, Debug, Default)]
pub struct HostNames {
    netns: Vec<(String, u32)>,
    ifaces: Vec<InterfaceName>,
    cgroups: Option<PathBuf>,
    containers: Vec<Container>,
}

/// Interfaces named in a recording, at most.
const MOST_INTERFACES: usize = 4_096;

/// Cgroups looked at in search of a container, at most.
const MOST_CGROUPS: usize = 100_000;

impl HostNames {
    /// Reads what needs privileges: the interfaces of the namespaces captured.
    pub fn read(targets: &[NetnsTarget], cgroups: Option<PathBuf>) -> Self {
        let mut names = HostNames { cgroups, ..HostNames::default() };
        for target in targets {
            names.netns.push((target.name.clone(), target.inode));
            // a namespace that cannot be entered any more has no interfaces to name
            let inode = target.inode;
            names.ifaces.extend(target.within(move || interfaces::listed(inode)).unwrap_or_default());
        }
        names
    }

    /// Adds interfaces, or replaces those with the same number.
    pub fn learn(&mut self, interfaces: &[InterfaceName]) {
        for one in interfaces {
            self.ifaces.retain(|other| (other.netns, other.index) != (one.netns, one.index));
            if self.ifaces.len() < MOST_INTERFACES {
                self.ifaces.push(one.clone());
            }
        }
    }

    /// Adds the containers of the host.
    #[must_use]
    pub fn with(self, containers: &[Container]) -> Self {
        HostNames { containers: containers.to_vec(), ..self }
    }

    /// Paths of the cgroups that a name means, below the root of the hierarchy: of a container, a pod or a unit.
    ///
    /// # Errors
    /// [`NotFound`] if there is none, or if several containers have the name.
    pub fn paths(&self, field: Field, name: &str) -> Result<Vec<PathBuf>, NotFound> {
        match field {
            Field::Container => self.container_path(name).map(|path| vec![path]),
            Field::Pod => self.pod_paths(name),
            Field::Unit => {
                let found = self.find(|directory, _| directory == name)?;
                if found.is_empty() { Err(NotFound::Unit) } else { Ok(found) }
            }
            _ => Ok(vec![self.below_root(name)]),
        }
    }

    /// The directories of the cgroups that a filter names, each with its number now.
    pub fn cgroups_of(&self, filter: Option<&CaptureFilter>) -> Vec<(PathBuf, u64)> {
        let (Some(root), Some(filter)) = (&self.cgroups, filter) else { return Vec::new() };
        let mut found = Vec::new();
        filter.expr().tests(&mut |test| {
            let is_cgroup = matches!(test.field, Field::Cgroup | Field::Container | Field::Pod | Field::Unit);
            if let (true, Value::Name(name)) = (is_cgroup, &test.value) {
                let paths = self.paths(test.field, name).unwrap_or_default();
                let with_number = |path: PathBuf| Some((fs::metadata(&path).ok()?.ino(), path));
                let numbers = paths.into_iter().map(|path| root.join(path)).filter_map(with_number);
                found.extend(numbers.map(|(number, path)| (path, number)));
            }
        });
        found
    }

    /// A path as `ls` shows it, or as `/proc/<pid>/cgroup` does, below the root.
    fn below_root(&self, name: &str) -> PathBuf {
        let root = self.cgroups.clone().unwrap_or_default();
        let path = Path::new(name);
        path.strip_prefix(&root).or_else(|_| path.strip_prefix("/")).unwrap_or(path).to_owned()
    }

    fn container_path(&self, name: &str) -> Result<PathBuf, NotFound> {
        let called = self.containers.iter().filter(|container| container.is_called(name));
        let mut found: Vec<PathBuf> = called.map(|container| self.below_root(&container.cgroup)).collect();
        // An earlier one of this name may have ended.
        if found.len() > 1 {
            found.retain(|path| self.below(path).is_ok());
        }
        if found.is_empty() {
            found = self.find(|directory, _| directory.contains(name))?;
        }
        match found.as_slice() {
            [one] => Ok(one.clone()),
            [] => {
                let named = self.containers.iter().filter(|container| !container.is_infra);
                Err(NotFound::Container(named.map(|container| container.display().to_owned()).collect()))
            }
            several => {
                let shown = several.iter().take(4).map(|path| path.display().to_string());
                Err(NotFound::Ambiguous(shown.collect()))
            }
        }
    }

    /// The directory of a pod, else those of its containers.
    fn pod_paths(&self, name: &str) -> Result<Vec<PathBuf>, NotFound> {
        let within = self.containers.iter().filter(|container| container.is_in_pod(name));
        let root = |container: &Container| {
            self.below_root(workload::pod(&container.cgroup).unwrap_or(container.cgroup.as_str()))
        };
        let found: BTreeSet<PathBuf> = within.map(root).collect();
        if found.is_empty() {
            let pods: BTreeSet<String> = self.containers.iter().map(Container::pod_display).collect();
            return Err(NotFound::Pod(pods.into_iter().filter(|pod| !pod.is_empty()).collect()));
        }
        Ok(found.into_iter().collect())
    }

    /// The interfaces with their names, at most so many.
    pub fn interfaces(&self) -> impl Iterator<Item = InterfaceName> + '_ {
        self.ifaces.iter().take(MOST_INTERFACES).cloned()
    }

    fn below(&self, path: &Path) -> Result<Cgroup, NotFound> {
        let root = self.cgroups.as_ref().ok_or(NotFound::NoCgroups)?;
        let missing = || NotFound::Cgroup(root.clone());
        let meta = fs::metadata(root.join(path)).map_err(|_| missing())?;
        if !meta.is_dir() || path.components().any(|part| !matches!(part, std::path::Component::Normal(_))) {
            return Err(missing());
        }
        checked(Cgroup { id: meta.ino(), level: path.components().count() as u32 })
    }

    /// Paths below the root of all cgroups that satisfy `wanted`, breadth first; descendants of a match are
    /// skipped.
    fn find(&self, wanted: impl Fn(&str, &Path) -> bool) -> Result<Vec<PathBuf>, NotFound> {
        let root = self.cgroups.as_ref().ok_or(NotFound::NoCgroups)?;
        let (mut queue, mut found, mut at) = (vec![PathBuf::new()], Vec::new(), 0);
        while let Some(path) = queue.get(at).cloned() {
            at += 1;
            let entries = fs::read_dir(root.join(&path)).into_iter().flatten().flatten();
            for entry in entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
                let below = path.join(entry.file_name());
                if wanted(&entry.file_name().to_string_lossy(), &root.join(&below)) {
                    found.push(below);
                } else if queue.len() < MOST_CGROUPS {
                    queue.push(below);
                }
            }
        }
        Ok(found)
    }
}

fn checked(group: Cgroup) -> Result<Cgroup, NotFound> {
    if group.level >= MAG_CGROUP_LEVELS { Err(NotFound::TooDeep(group.level)) } else { Ok(group) }
}

impl Names for HostNames {
    fn uid(&self, name: &str) -> Result<u32, NotFound> {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let mut lines = users.lines().map(|line| line.split(':'));
        let mut found = lines.find(|line| line.clone().next() == Some(name)).ok_or(NotFound::User)?;
        found.nth(2).and_then(|uid| uid.parse().ok()).ok_or(NotFound::User)
    }

    fn netns(&self, name: &str) -> Result<u32, NotFound> {
        if let Some((_, inode)) = self.netns.iter().find(|(existing, _)| existing == name) {
            return Ok(*inode);
        }
        let path = if name.contains('/') { PathBuf::from(name) } else { Path::new("/run/netns").join(name) };
        NetnsTarget::at(&path, name).map(|target| target.inode).map_err(|_| NotFound::Netns)
    }

    fn iface(&self, name: &str) -> Result<Vec<(u32, u32)>, NotFound> {
        let called = self.ifaces.iter().filter(|one| one.name == name);
        let found: Vec<_> = called.map(|one| (one.netns, one.index)).collect();
        if found.is_empty() { Err(NotFound::Iface) } else { Ok(found) }
    }

    fn cgroup(&self, name: &str) -> Result<Cgroup, NotFound> {
        if let Ok(id) = name.parse::<u64>() {
            let found = self.find(|_, path| fs::metadata(path).is_ok_and(|meta| meta.ino() == id))?;
            let path =
                found.first().ok_or_else(|| NotFound::Cgroup(self.cgroups.clone().unwrap_or_default()))?;
            return self.below(path);
        }
        self.below(&self.below_root(name))
    }

    fn container(&self, name: &str) -> Result<Cgroup, NotFound> {
        self.below(&self.container_path(name)?)
    }

    fn pod(&self, name: &str) -> Result<Vec<Cgroup>, NotFound> {
        self.pod_paths(name)?.iter().map(|path| self.below(path)).collect()
    }

    fn unit(&self, name: &str) -> Result<Vec<Cgroup>, NotFound> {
        self.paths(Field::Unit, name)?.iter().map(|path| self.below(path)).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Interface `eth0` is 3 in namespace 77; cgroup `/a/b` is 4711 on level 2.
    pub struct FixedNames;

    impl Names for FixedNames {
        fn uid(&self, name: &str) -> Result<u32, NotFound> {
            if name == "root" { Ok(0) } else { Err(NotFound::User) }
        }
        fn netns(&self, _: &str) -> Result<u32, NotFound> {
            Err(NotFound::Netns)
        }
        fn iface(&self, name: &str) -> Result<Vec<(u32, u32)>, NotFound> {
            if name == "eth0" { Ok(vec![(77, 3)]) } else { Err(NotFound::Iface) }
        }
        fn cgroup(&self, name: &str) -> Result<Cgroup, NotFound> {
            if name == "/a/b" { Ok(Cgroup { id: 4711, level: 2 }) } else { Err(NotFound::NoCgroups) }
        }
        fn container(&self, _: &str) -> Result<Cgroup, NotFound> {
            Err(NotFound::Container(Vec::new()))
        }
        fn pod(&self, name: &str) -> Result<Vec<Cgroup>, NotFound> {
            let cgroups = [4711, 4712].map(|id| Cgroup { id, level: 2 });
            if name == "shop" { Ok(cgroups.to_vec()) } else { Err(NotFound::Pod(Vec::new())) }
        }
        fn unit(&self, _: &str) -> Result<Vec<Cgroup>, NotFound> {
            Err(NotFound::Unit)
        }
    }

    #[test]
    fn cgroups_are_found_by_path_by_id_and_by_container() {
        let dir = std::env::temp_dir().join(format!("magscope-names-{}", std::process::id()));
        let deep = dir.join("a/docker-4fa2bc.scope/inner");
        fs::create_dir_all(&deep).expect("a folder");
        fs::create_dir_all(dir.join("a/1/2/3/4/5/6/7")).expect("a folder");
        let names = HostNames { cgroups: Some(dir.clone()), ..HostNames::default() };
        let container = names.container("4fa2").expect("one");
        assert_eq!(container.level, 2);
        assert_eq!(names.cgroup("/a/docker-4fa2bc.scope"), Ok(container));
        assert_eq!(names.cgroup(&dir.join("a/docker-4fa2bc.scope").to_string_lossy()), Ok(container));
        assert_eq!(names.cgroup(&container.id.to_string()), Ok(container));
        assert_eq!(names.cgroup("/a/nope"), Err(NotFound::Cgroup(dir.clone())));
        assert_eq!(names.cgroup("/../etc"), Err(NotFound::Cgroup(dir.clone())));
        assert_eq!(names.cgroup("/a/1/2/3/4/5/6/7"), Err(NotFound::TooDeep(8)));
        assert_eq!(names.container("nope"), Err(NotFound::Container(Vec::new())));
        fs::create_dir_all(dir.join("b/4fa2")).expect("a folder");
        assert!(matches!(names.container("4fa2"), Err(NotFound::Ambiguous(_))));
        fs::create_dir_all(dir.join("a/web.service")).expect("a folder");
        assert_eq!(names.unit("web.service").map(|found| found.len()), Ok(1));
        assert_eq!(names.unit("web"), Err(NotFound::Unit));
        let of = |name: &str, pod: &str, cgroup: &str| Container {
            name: name.to_owned(),
            pod: pod.to_owned(),
            cgroup: cgroup.to_owned(),
            ..Container::default()
        };
        let all = [
            of("web", "", "/a/docker-4fa2bc.scope"),
            of("db", "shop", "/b/4fa2"),
            of("twin", "", "/a"),
            of("twin", "", "/b"),
        ];
        let names = names.with(&all);
        assert_eq!(names.container("web"), Ok(container));
        assert!(matches!(names.container("twin"), Err(NotFound::Ambiguous(_))));
        assert!(names.container("nope").is_err_and(|error| error.to_string().contains("web, db")));
        assert_eq!(names.pod("shop").map(|found| found.len()), Ok(1));
        assert!(names.pod("nope").is_err_and(|error| error.to_string().contains("shop")));
        fs::remove_dir_all(&dir).expect("removed");
        assert_eq!(names.uid("root"), Ok(0));
        assert_eq!(names.uid("no such user"), Err(NotFound::User));
    }
}
