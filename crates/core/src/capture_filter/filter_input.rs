//! Evaluation of the capture filter in user space: an agent applies the filter of each client to the recorded
//! events.
//!
//! The result agrees with the kernel's, except for stored process data, which the caller handles.

use super::{CaptureFilter, Expr, Field, FieldAccess, Test, Value, field_access};
use crate::flow::{Flow, Proto, Task};
use crate::hop::{Direction, Hop};
use crate::node::NodeInfo;
use crate::workload::{is_below, unit};

/// The available data of an event.
#[derive(Clone, Copy, Debug)]
pub struct FilterInput<'a> {
    /// The hop.
    pub hop: Hop,
    /// The CPU.
    pub cpu: u16,
    /// Its protocol.
    pub proto: Proto,
    /// Index of its interface; 0 without one.
    pub ifindex: u32,
    /// Payload bytes.
    pub len: u32,
    /// The socket's cookie; 0 if unknown.
    pub socket: u64,
    /// Its flow, if any.
    pub flow: Option<&'a Flow>,
    /// The process of the data, if stored.
    pub task: Option<&'a Task>,
    /// The node of the event.
    pub info: &'a NodeInfo,
}

impl CaptureFilter {
    /// Evaluates the filter for an event; `None` if undecided.
    pub fn holds(&self, sight: &FilterInput<'_>) -> Option<bool> {
        holds(self.expr(), sight)
    }

    /// The same for a switch of the scheduler, which is an event of two tasks: the filter holds if it holds for either.
    /// `previous` is the one that leaves the CPU, if stored.
    pub fn holds_for_either<'a>(&self, sight: &FilterInput<'a>, previous: Option<&'a Task>) -> Option<bool> {
        let of_previous = FilterInput { task: previous, ..*sight };
        any([self.holds(sight), self.holds(&of_previous)].into_iter())
    }

    /// A comparison with a user's or interface's name, which only its host can resolve.
    /// [`CaptureFilter::holds`] cannot decide it.
    pub fn needs_its_host(&self) -> Option<Field> {
        let mut found = None;
        self.expr().tests(&mut |test| {
            if let (Field::Uid | Field::Iface, Value::Name(name)) = (test.field, &test.value)
                && name.parse::<u32>().is_err()
            {
                found = Some(test.field);
            }
        });
        found
    }
}

fn holds(expr: &Expr, sight: &FilterInput<'_>) -> Option<bool> {
    match expr {
        Expr::All(list) => all(list.iter().map(|expr| holds(expr, sight))),
        Expr::Any(list) => any(list.iter().map(|expr| holds(expr, sight))),
        Expr::Not(inner) => holds(inner, sight).map(|holds| !holds),
        Expr::Test(test) => compare(test, sight),
    }
}

/// False if one is, else unknown if one is.
fn all(mut list: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    list.try_fold(Some(true), |so_far, one| match one {
        Some(false) => Err(()),
        Some(true) => Ok(so_far),
        None => Ok(None),
    })
    .unwrap_or(Some(false))
}

/// True if one is, else unknown if one is.
fn any(list: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    all(list.map(|one| one.map(|holds| !holds))).map(|none| !none)
}

fn compare(test: &Test, sight: &FilterInput<'_>) -> Option<bool> {
    if field_access(sight.hop, test.field) == FieldAccess::Never {
        return None;
    }
    let number = |number: u64| match &test.value {
        Value::Range(from, to) => Some((*from..=*to).contains(&number)),
        Value::Name(name) => name.parse().ok().map(|named: u64| named == number),
        _ => None,
    };
    match test.field {
        Field::Cpu => number(u64::from(sight.cpu)),
        Field::Hop => Some(test.value == Value::Hop(sight.hop)),
        Field::Dir => Some(test.value == Value::Dir(sight.hop.direction())),
        Field::Proto => number(u64::from(sight.proto.0)),
        Field::Len => number(u64::from(sight.len)),
        Field::Socket => Some(sight.socket).filter(|socket| *socket != 0).and_then(number),
        Field::Iface => {
            Some(sight.ifindex).filter(|index| *index != 0).and_then(|index| number(u64::from(index)))
        }
        Field::Netns => netns(sight.flow?.netns, &test.value, sight.info),
        Field::Host | Field::Src | Field::Dst => ends(test.field, sight, |end| {
            let Value::Prefix(prefix) = &test.value else { return None };
            Some(end.ip()).filter(|ip| !ip.is_unspecified()).map(|ip| prefix.contains(ip))
        }),
        // A protocol without ports has none.
        Field::Port | Field::Sport | Field::Dport if sight.proto.has_ports() => {
            ends(test.field, sight, |end| {
                Some(end.port()).filter(|port| *port != 0).and_then(|port| number(u64::from(port)))
            })
        }
        Field::Port | Field::Sport | Field::Dport => Some(false),
        Field::Tgid => number(u64::from(sight.task?.tgid)),
        Field::Uid => number(u64::from(sight.task?.uid)),
        Field::Comm => match &test.value {
            Value::Name(name) => Some(sight.task?.comm == *name),
            _ => None,
        },
        Field::Cgroup | Field::Container | Field::Pod | Field::Unit => {
            cgroup(sight.task?.cgroup, test, sight.info)
        }
    }
}

/// Tests either end, the sender's or the receiver's, according to the field.
fn ends(
    field: Field,
    sight: &FilterInput<'_>,
    has: impl Fn(&std::net::SocketAddr) -> Option<bool>,
) -> Option<bool> {
    let Flow { local, remote, .. } = sight.flow?;
    let leaves = match sight.hop.spec().side {
        Direction::Tx => true,
        Direction::Rx => false,
        Direction::Off if matches!(field, Field::Host | Field::Port) => true,
        Direction::Off => return None,
    };
    let (from, to) = if leaves { (local, remote) } else { (remote, local) };
    match field {
        Field::Src | Field::Sport => has(from),
        Field::Dst | Field::Dport => has(to),
        _ => any([has(from), has(to)].into_iter()),
    }
}

fn netns(netns: u32, value: &Value, info: &NodeInfo) -> Option<bool> {
    let Value::Name(name) = value else { return None };
    if let Ok(number) = name.parse::<u32>() {
        return Some(number == netns);
    }
    let base = name.rsplit('/').next().unwrap_or(name);
    // A namespace of a pod has a slash in its name, and a path is no name.
    let row = info.netns.iter().find(|row| row.name == *name);
    let row = row.or_else(|| info.netns.iter().find(|row| row.name == base))?;
    Some(row.netns == netns)
}

/// True if a cgroup is the given one or below it.
fn cgroup(id: u64, test: &Test, info: &NodeInfo) -> Option<bool> {
    let Value::Name(name) = &test.value else { return None };
    if test.field == Field::Cgroup && name.parse() == Ok(id) {
        return Some(true);
    }
    let path = info.cgroup_path(id)?;
    Some(match test.field {
        Field::Container => {
            let by_name = info.container(id).is_some_and(|container| container.is_called(name));
            by_name || path.split('/').any(|part| part.contains(name.as_str()))
        }
        Field::Pod => info.container(id).is_some_and(|container| container.is_in_pod(name)),
        Field::Unit => unit(path) == Some(name.as_str()),
        _ => match name.parse::<u64>() {
            Ok(above) => is_below(path, info.cgroup_path(above)?),
            Err(_) => is_below(path, name),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::FlowId;
    use crate::node::{CgroupName, NetnsName};

    fn judge(text: &str, change: impl Fn(&mut FilterInput<'_>)) -> Option<bool> {
        let flow = Flow {
            id: FlowId(1),
            netns: 7,
            proto: Proto::TCP,
            local: "10.0.0.1:5000".parse().unwrap(),
            remote: "10.0.0.2:443".parse().unwrap(),
        };
        let task = Task { tgid: 12, tid: 13, uid: 1000, cgroup: 5, comm: "nginx".into() };
        let info = NodeInfo {
            netns: vec![NetnsName { netns: 7, name: "web".into() }],
            cgroups: vec![
                CgroupName { id: 4, path: "/system.slice".into() },
                CgroupName { id: 5, path: "/system.slice/docker-4fa2bc.scope".into() },
            ],
            ..NodeInfo::default()
        };
        let mut sight = FilterInput {
            hop: Hop::DevXmit,
            cpu: 3,
            proto: Proto::TCP,
            ifindex: 2,
            len: 100,
            socket: 0,
            flow: Some(&flow),
            task: Some(&task),
            info: &info,
        };
        change(&mut sight);
        CaptureFilter::parse(text).unwrap().holds(&sight)
    }

    #[test]
    fn what_is_known_is_compared() {
        for (text, holds) in [
            ("cpu 3", true),
            ("hop = dev.xmit and tx", true),
            ("rx", false),
            ("tcp and not udp", true),
            ("netns = web", true),
            ("netns = /run/netns/web", true),
            ("netns = 8", false),
            ("iface 2", true),
            ("host 10.0.0.0/24 and dst 10.0.0.2 and src 10.0.0.1", true),
            ("src 10.0.0.2", false),
            ("port 443 and dport 443 and sport 5000-5001", true),
            ("not port 443", false),
            ("len > 99", true),
            ("tgid 12 and comm nginx and uid 1000", true),
            ("cgroup = /system.slice", true),
            ("cgroup = 4", true),
            ("cgroup = /system", false),
            ("container = 4fa2", true),
            ("container = 99", false),
        ] {
            assert_eq!(judge(text, |_| {}), Some(holds), "{text}");
        }
    }

    #[test]
    fn the_sender_of_what_comes_is_the_other_end() {
        let comes = |sight: &mut FilterInput<'_>| sight.hop = Hop::DevRecv;
        assert_eq!(judge("src 10.0.0.2 and sport 443 and rx", comes), Some(true));
        assert_eq!(judge("dst 10.0.0.2", comes), Some(false));
    }

    #[test]
    fn what_is_not_known_is_neither_true_nor_false() {
        for text in ["socket 5", "not socket 5", "netns = other", "iface = eth0", "uid = root"] {
            assert_eq!(judge(text, |_| {}), None, "{text}");
        }
        assert_eq!(judge("comm nginx", |sight| sight.task = None), None);
        assert_eq!(judge("port 443", |sight| sight.flow = None), None);
        assert_eq!(judge("iface 2", |sight| sight.hop = Hop::AppSend), None);
        assert_eq!(judge("src 10.0.0.1", |sight| sight.hop = Hop::SkbDrop), None);
        // A result independent of the unknown value is certain.
        assert_eq!(judge("socket 5 and udp", |_| {}), Some(false));
        assert_eq!(judge("socket 5 or tcp", |_| {}), Some(true));
        assert_eq!(judge("port 80", |sight| sight.proto = Proto::ICMP), Some(false));
    }

    #[test]
    fn a_switch_is_an_event_of_both_tasks() {
        let task = |comm: &str| Task { tgid: 12, tid: 13, uid: 0, cgroup: 5, comm: comm.into() };
        let (next, previous, info) = (task("nginx"), task("bash"), NodeInfo::default());
        let sight = FilterInput {
            hop: Hop::SchedSwitch,
            cpu: 3,
            proto: Proto::TCP,
            ifindex: 0,
            len: 0,
            socket: 0,
            flow: None,
            task: Some(&next),
            info: &info,
        };
        let holds =
            |text: &str, previous| CaptureFilter::parse(text).unwrap().holds_for_either(&sight, previous);
        for (text, of_both, of_next) in [
            ("comm nginx", Some(true), Some(true)),
            ("comm bash", Some(true), None),
            ("comm sshd", Some(false), None),
            // Each task alone: none of them has both names.
            ("comm nginx and comm bash", Some(false), None),
            ("not comm nginx", Some(true), None),
            ("cpu 4", Some(false), Some(false)),
        ] {
            assert_eq!(holds(text, Some(&previous)), of_both, "{text}");
            assert_eq!(holds(text, None), of_next, "{text}");
        }
    }

    #[test]
    fn names_that_only_the_host_knows_are_named() {
        let needs = |text: &str| CaptureFilter::parse(text).unwrap().needs_its_host();
        assert_eq!(needs("port 80 or not uid = root"), Some(Field::Uid));
        assert_eq!(needs("iface = eth0"), Some(Field::Iface));
        assert_eq!(needs("uid = 0 and iface = 2 and comm = x"), None);
    }
}
