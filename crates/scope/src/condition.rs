//! Rows and marks as conditions of a filter: what *only this* and *not this* mean.

use crate::lifeline::Lifeline;
use crate::look::{FlowGroup, PointKind};
use magscope_core::Endpoint;
use magscope_core::condition::quoted;
use magscope_core::node::NodeInfo;
use magscope_report::{GroupKey, Label};

/// The journeys of a packet that the kernel dropped.
pub const DROPPED: &str = "dropped";

/// One direction of a connection.
pub fn of_ends((from, to): (Endpoint, Endpoint)) -> String {
    format!("flow = {from}-{to}")
}

/// The flow of a journey.
pub fn of_journey(line: &Lifeline) -> Option<String> {
    line.ends.map(of_ends)
}

/// A service by the words of its row, such as `:443 nginx`; `None` for one without a port.
pub fn of_service(words: &str) -> Option<String> {
    let port: u16 = words.strip_prefix(':')?.split(' ').next()?.parse().ok()?;
    Some(format!("port = {port}"))
}

/// The journeys of a group of flows; `None` where no filter can name them. `infos` are those of the recordings: names of
/// processes and containers are unique within one.
pub fn of_group(group: &FlowGroup, infos: &[NodeInfo]) -> Option<String> {
    let (key, proto) = group.id;
    let of = match key {
        GroupKey::Process(node, ..) | GroupKey::Named(node, ..) => infos.get(usize::from(node)),
        _ => None,
    };
    let host = of.map(|info| info.host.as_str()).filter(|host| infos.len() > 1 && !host.is_empty());
    let is = match &group.label {
        Label::Service { port: Some(port), to_port: true } => format!("dport = {port}"),
        Label::Service { port: Some(port), to_port: false } => format!("sport = {port}"),
        Label::Process { pid, .. } => format!("pid = {pid}"),
        Label::Container { name } if !name.is_empty() => {
            // Of several hosts, the name has its host before it.
            let own = host.and_then(|host| name.strip_prefix(host)?.strip_prefix('/'));
            format!("container = {}", quoted(own.unwrap_or(name)))
        }
        Label::Node { node } if !node.is_empty() => format!("node = {}", quoted(node)),
        _ => return None,
    };
    let on = host.map_or_else(String::new, |host| format!(" and node = {}", quoted(host)));
    Some(format!("(proto = {proto} and {is}{on})"))
}

/// The journeys that have an isolated event of this kind; `None` where none has it.
pub fn of_point(kind: PointKind) -> Option<String> {
    match kind {
        PointKind::Drop { .. } | PointKind::SocketFull => Some(DROPPED.to_owned()),
        PointKind::Retransmit => Some("resent".to_owned()),
        PointKind::EventLoss(_) => Some("broken".to_owned()),
        PointKind::Change => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{Filter, Proto};
    use magscope_report::Role;

    #[test]
    fn every_condition_is_a_filter() {
        let ends = ("[fd00::1]:40000".parse().unwrap(), "[fd00::2]:443".parse().unwrap());
        let points = [
            PointKind::Drop { node: 0, reason: 2 },
            PointKind::SocketFull,
            PointKind::Retransmit,
            PointKind::EventLoss(3),
        ];
        let all =
            points.into_iter().filter_map(of_point).chain([of_ends(ends)]).chain(of_service(":443 nginx"));
        for condition in all.flat_map(|this| [format!("not {this}"), this]) {
            assert!(Filter::parse(&condition).is_ok(), "{condition}");
        }
        assert_eq!((of_service("unix socket"), of_service(": x")), (None, None));
    }

    #[test]
    fn every_group_is_a_filter_whatever_its_name_has() {
        let named = |host: &str| NodeInfo { host: host.to_owned(), ..NodeInfo::default() };
        let group = |key, label: Label| FlowGroup {
            id: (key, Proto::TCP),
            words: label.words(),
            role: Some(Role::Reads),
            label,
            flows: 1,
        };
        for host in ["web-1", "my \"host\" (old)", "a and b"] {
            let hosts = [named(host), named("other")];
            for infos in [&hosts[..1], &hosts[..]] {
                for name in ["web", "k8s/pod name", "and", "x)=y", "netns:4026532301"] {
                    let of_host = if infos.len() > 1 { format!("{host}/{name}") } else { name.to_owned() };
                    let container = Label::Container { name: of_host.clone() };
                    let container = group(GroupKey::Named(0, 1, Role::Reads), container);
                    let node = group(GroupKey::Named(0, 1, Role::Reads), Label::Node { node: of_host.clone() });
                    for (group, is) in [
                        (container, format!("container = {}", quoted(name))),
                        (node, format!("node = {}", quoted(&of_host))),
                    ] {
                        let condition = of_group(&group, infos).expect("a condition");
                        assert!(condition.contains(&is), "{condition}");
                        let filter = Filter::parse(&condition).expect(&condition).to_string();
                        assert!(filter.contains(&is), "{filter}");
                    }
                }
            }
        }
        let process =
            Label::Process { pid: 7, comm: "x".to_owned(), other_names: false, node: "client".to_owned() };
        let process = group(GroupKey::Process(1, 7, Role::Sends), process);
        let hosts = [named("web-1"), named("db-1")];
        assert_eq!(of_group(&process, &hosts[..1]).as_deref(), Some("(proto = tcp and pid = 7)"));
        let of_two = "(proto = tcp and pid = 7 and node = db-1)";
        assert_eq!(of_group(&process, &hosts).as_deref(), Some(of_two), "two hosts may have this number");
        for nobody in [Label::Unknown, Label::Container { name: String::new() }] {
            assert_eq!(of_group(&group(GroupKey::Unknown(Role::Reads), nobody), &hosts), None);
        }
    }
}
