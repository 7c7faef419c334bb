//! The syntax tree of a capture filter, and its text form.

use crate::condition::{self, write_name};
use crate::filter::Prefix;
use crate::flow::Proto;
use crate::hop::{Direction, Hop};
use std::fmt;

/// A condition.
pub type Expr = condition::Expr<Test>;

/// One comparison: equality, or membership in a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The compared field.
    pub field: Field,
    /// With what.
    pub value: Value,
}

/// A property of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// The CPU.
    Cpu,
    /// The hop.
    Hop,
    /// Direction of packets at the hop.
    Dir,
    /// IP protocol.
    Proto,
    /// Network namespace.
    Netns,
    /// Interface.
    Iface,
    /// Address of either end.
    Host,
    /// Address of the sender.
    Src,
    /// Address of the receiver.
    Dst,
    /// Port of either end.
    Port,
    /// Port of the sender.
    Sport,
    /// Port of the receiver.
    Dport,
    /// Payload, bytes.
    Len,
    /// Cookie of the socket.
    Socket,
    /// Process.
    Tgid,
    /// Name of the process.
    Comm,
    /// User of the process.
    Uid,
    /// Cgroup of the process.
    Cgroup,
    /// Cgroup of the process, by the name or id of a container.
    Container,
    /// Cgroup of the process, by the name of a pod.
    Pod,
    /// Cgroup of the process, by the name of a unit of systemd.
    Unit,
}

/// The operand of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// From the first to the last number. A range that ends before it begins is empty.
    Range(u64, u64),
    /// A name to be resolved on the host.
    Name(String),
    /// Addresses that begin alike.
    Prefix(Prefix),
    /// A hop.
    Hop(Hop),
    /// A direction.
    Dir(Direction),
}

impl Field {
    /// All fields.
    pub const ALL: [Field; 21] = [
        Self::Cpu,
        Self::Hop,
        Self::Dir,
        Self::Proto,
        Self::Netns,
        Self::Iface,
        Self::Host,
        Self::Src,
        Self::Dst,
        Self::Port,
        Self::Sport,
        Self::Dport,
        Self::Len,
        Self::Socket,
        Self::Tgid,
        Self::Comm,
        Self::Uid,
        Self::Cgroup,
        Self::Container,
        Self::Pod,
        Self::Unit,
    ];

    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Hop => "hop",
            Self::Dir => "dir",
            Self::Proto => "proto",
            Self::Netns => "netns",
            Self::Iface => "iface",
            Self::Host => "host",
            Self::Src => "src",
            Self::Dst => "dst",
            Self::Port => "port",
            Self::Sport => "sport",
            Self::Dport => "dport",
            Self::Len => "len",
            Self::Socket => "socket",
            Self::Tgid => "tgid",
            Self::Comm => "comm",
            Self::Uid => "uid",
            Self::Cgroup => "cgroup",
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Unit => "unit",
        }
    }

    /// The largest valid number; `None` for a field without numbers.
    pub(super) const fn largest(self) -> Option<u64> {
        match self {
            Self::Cpu | Self::Port | Self::Sport | Self::Dport => Some(u16::MAX as u64),
            Self::Len | Self::Tgid => Some(u32::MAX as u64),
            Self::Socket => Some(u64::MAX),
            _ => None,
        }
    }

    /// True for a property of the process, which is available only at the socket layer.
    pub const fn is_of_process(self) -> bool {
        match self {
            Self::Tgid | Self::Comm | Self::Uid => true,
            _ => self.is_of_cgroup(),
        }
    }
}

impl Field {
    /// True for a property of the process's cgroup.
    pub const fn is_of_cgroup(self) -> bool {
        matches!(self, Self::Cgroup | Self::Container | Self::Pod | Self::Unit)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.field)?;
        match (&self.value, self.field) {
            (Value::Range(from, _), Field::Proto) => {
                match u8::try_from(*from).ok().and_then(|number| Proto(number).name()) {
                    Some(name) => write!(f, "= {name}"),
                    None => write!(f, "= {from}"),
                }
            }
            (Value::Range(from, to), _) if from == to => write!(f, "= {from}"),
            (Value::Range(from, to), _) if from > to => f.write_str("< 0"),
            (Value::Range(from, to), _) => write!(f, "= {from}-{to}"),
            (Value::Name(name), _) => f.write_str("= ").and_then(|()| write_name(f, name)),
            (Value::Prefix(prefix), _) => write!(f, "= {prefix}"),
            (Value::Hop(hop), _) => write!(f, "= {hop}"),
            (Value::Dir(dir), _) => write!(f, "= {}", direction(*dir)),
        }
    }
}

pub(super) const fn direction(dir: Direction) -> &'static str {
    match dir {
        Direction::Tx => "tx",
        Direction::Rx => "rx",
        Direction::Off => "off",
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
