//! The name of a network namespace, from the containers and units of its processes.

use super::{Container, short, unit};
use crate::node::NetnsName;
use std::collections::BTreeMap;

/// Paths of the cgroups of a namespace's processes.
pub type MemberPaths = BTreeMap<u32, Vec<String>>;

/// The name of a network namespace by what runs in it: its pod, its container, or its only unit. `None` if none of them
/// is known or several of them share the namespace on equal terms. A unit names only a namespace without a name of its
/// own (`is_named`).
pub fn netns_name<'a>(
    containers: impl Iterator<Item = &'a Container>,
    paths: &[String],
    is_named: bool,
) -> Option<String> {
    let all: Vec<&Container> = containers.collect();
    if let Some(first) = all.first() {
        // The namespaces of a pod belong to all of its containers.
        let pod = all.iter().map(|container| container.pod_display()).find(|pod| !pod.is_empty());
        if pod.is_some() {
            return pod;
        }
        let own: Vec<&&Container> = all.iter().filter(|one| !one.joins_netns && !one.is_infra).collect();
        return match own[..] {
            [one] => Some(one.display().to_owned()),
            [] => Some(first.display().to_owned()),
            _ => None,
        };
    }
    if is_named {
        return None;
    }
    let mut units = paths.iter().map(|path| unit(path));
    let first = units.next()??;
    units.all(|unit| unit == Some(first)).then(|| first.to_owned())
}

/// Makes the names of containers' namespaces distinct: to one that another namespace has already, the first digits of its
/// container's id are added.
pub fn distinct(names: &mut [NetnsName], containers: &[Container]) {
    for at in 1..names.len() {
        let (before, rest) = names.split_at_mut(at);
        let Some(name) = rest.first_mut() else { continue };
        if !before.iter().any(|other| other.name == name.name) {
            continue;
        }
        if let Some(container) =
            containers.iter().find(|container| container.netns == name.netns && !container.is_infra)
        {
            name.name = format!("{}-{}", name.name, short(&container.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, pod: &str) -> Container {
        Container {
            id: format!("id-of-{name}"),
            name: name.to_owned(),
            pod: pod.to_owned(),
            netns: 7,
            ..Container::default()
        }
    }

    fn of(all: &[Container], paths: &[&str], is_named: bool) -> Option<String> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        netns_name(all.iter(), &paths, is_named)
    }

    #[test]
    fn a_container_names_its_namespace_and_one_that_joins_it_does_not() {
        assert_eq!(of(&[named("web", "")], &[], true), Some("web".to_owned()));
        let joins = Container { joins_netns: true, ..named("debug", "") };
        assert_eq!(of(&[joins.clone(), named("web", "")], &[], true), Some("web".to_owned()));
        assert_eq!(of(&[joins], &[], false), Some("debug".to_owned()));
        assert_eq!(
            of(&[named("a", ""), named("b", "")], &[], true),
            None,
            "neither has it more than the other"
        );
    }

    #[test]
    fn a_pod_names_the_namespace_of_its_containers() {
        let infra = Container { is_infra: true, ..named("pause", "shop") };
        assert_eq!(
            of(&[infra, named("cart", "shop"), named("web", "shop")], &[], true),
            Some("shop".to_owned())
        );
    }

    #[test]
    fn a_unit_names_a_namespace_without_a_name_that_is_its_own() {
        let service = ["/system.slice/a.service", "/system.slice/a.service/sub"];
        assert_eq!(of(&[], &service, false), Some("a.service".to_owned()));
        assert_eq!(of(&[], &service, true), None);
        assert_eq!(of(&[], &["/system.slice/a.service", "/system.slice/b.service"], false), None);
        assert_eq!(of(&[], &["/system.slice/a.service", "/"], false), None);
        assert_eq!(of(&[], &[], false), None);
    }

    #[test]
    fn equal_names_get_an_id() {
        let name = |netns, name: &str| NetnsName { netns, name: name.to_owned() };
        let mut names = vec![name(1, "host"), name(2, "web"), name(7, "web")];
        distinct(&mut names, &[named("web", "")]);
        assert_eq!(
            names.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
            ["host", "web", "web-id-of-web"]
        );
    }
}
