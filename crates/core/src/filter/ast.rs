//! The syntax tree of a filter, and its text form.

use super::quantity;
use crate::condition::{self, Op, write_name};
use crate::flow::{FlowId, Proto};
use crate::hop::Hop;
use crate::journey::Verdict;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A condition.
pub type Expr = condition::Expr<Test>;

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    Number { what: Quantity, op: Op, value: u64 },
    Is { what: Property, equal: bool },
}

/// A property with a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Total,
    Between(Hop, Hop),
    Bytes,
    Retransmits,
    Port,
    Sport,
    Dport,
    Pid,
    Cpu,
}

/// A property that holds or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Property {
    Proto(Proto),
    /// Number of the kind of a [`Verdict`].
    Verdict(usize),
    Host(Prefix),
    Src(Prefix),
    Dst(Prefix),
    Comm(String),
    Netns(String),
    Node(String),
    Cgroup(String),
    Container(String),
    Pod(String),
    Unit(String),
    Flow(FlowIs),
    /// A port of one of these three kinds, from the first number to the last.
    Ports(Quantity, u16, u16),
}

/// A flow, for either sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowIs {
    Id(FlowId),
    Ends(Endpoint, Option<Endpoint>),
}

/// One end of a flow; each part is optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
}

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The first of them.
    pub address: IpAddr,
    /// Number of common leading bits.
    pub bits: u8,
}

/// First words of comparisons.
pub const FIELDS: [&str; 33] = [
    "total",
    "hop",
    "bytes",
    "retransmits",
    "port",
    "sport",
    "dport",
    "proto",
    "verdict",
    "host",
    "net",
    "src",
    "dst",
    "proc",
    "comm",
    "netns",
    "node",
    "cgroup",
    "container",
    "pod",
    "unit",
    "flow",
    "pid",
    "tgid",
    "cpu",
    "lost",
    "dropped",
    "resent",
    "broken",
    "tcp",
    "udp",
    "icmp",
    "igmp",
];

impl Prefix {
    /// The addresses that share the first `bits` with this one; `None` if it has fewer.
    pub fn new(address: IpAddr, bits: u8) -> Option<Self> {
        let (width, number) = bits_of(address);
        let network_bits = number & mask(bits, width)?;
        let address = match address {
            IpAddr::V4(_) => IpAddr::from((network_bits as u32).to_be_bytes()),
            IpAddr::V6(_) => IpAddr::from(network_bits.to_be_bytes()),
        };
        Some(Prefix { address, bits })
    }

    /// Parses an address, or a prefix with its length; `None` if it is neither.
    pub fn parse(word: &str) -> Option<Self> {
        let (address, bits) =
            word.split_once('/').map_or((word, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        if let Some(bits) = bits {
            let bits: u8 = bits.parse().ok()?;
            let canonical = address.to_canonical();
            // IPv4 mapped into IPv6: the last 32 of 128 bits.
            let is_mapped = canonical != address && bits >= 96;
            return if is_mapped { Self::new(canonical, bits - 96) } else { Self::new(address, bits) };
        }
        let address = address.to_canonical();
        Self::new(address, if address.is_ipv4() { 32 } else { 128 })
    }

    /// True if the prefix contains an address. IPv4 mapped into IPv6 is IPv4.
    pub fn contains(self, address: IpAddr) -> bool {
        let ((width, ours), (their_width, theirs)) = (bits_of(self.address), bits_of(address.to_canonical()));
        width == their_width && mask(self.bits, width).is_some_and(|mask| theirs & mask == ours)
    }
}

fn bits_of(address: IpAddr) -> (u8, u128) {
    match address {
        IpAddr::V4(v4) => (32, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (128, v6.to_bits()),
    }
}

/// The first `bits` of `width`.
fn mask(bits: u8, width: u8) -> Option<u128> {
    let rest = width.checked_sub(bits)?;
    Some(u128::MAX.checked_shl(u32::from(rest)).unwrap_or(0) & (u128::MAX >> (128 - width)))
}

impl Endpoint {
    /// True if an end of a flow matches. IPv4 mapped into IPv6 is IPv4.
    pub fn is(self, end: SocketAddr) -> bool {
        self.address.is_none_or(|address| address == end.ip().to_canonical())
            && self.port.is_none_or(|port| port == end.port())
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Number { what, op, value } => {
                write!(f, "{what} {} ", op.sign())?;
                match what {
                    Quantity::Total | Quantity::Between(..) => quantity::write_time(f, *value),
                    Quantity::Bytes => quantity::write_size(f, *value),
                    _ => write!(f, "{value}"),
                }
            }
            Test::Is { what, equal } => {
                let sign = if *equal { "=" } else { "!=" };
                match what {
                    Property::Proto(proto) => write!(f, "proto {sign} {proto}"),
                    Property::Verdict(kind) => {
                        write!(f, "verdict {sign} {}", Verdict::NAMES.get(*kind).copied().unwrap_or_default())
                    }
                    Property::Host(prefix) => write!(f, "host {sign} {prefix}"),
                    Property::Src(prefix) => write!(f, "src {sign} {prefix}"),
                    Property::Dst(prefix) => write!(f, "dst {sign} {prefix}"),
                    Property::Comm(comm) => write!(f, "comm {sign} ").and_then(|()| write_name(f, comm)),
                    Property::Netns(name) => write!(f, "netns {sign} ").and_then(|()| write_name(f, name)),
                    Property::Node(name) => write!(f, "node {sign} ").and_then(|()| write_name(f, name)),
                    Property::Cgroup(name) => write!(f, "cgroup {sign} ").and_then(|()| write_name(f, name)),
                    Property::Container(name) => {
                        write!(f, "container {sign} ").and_then(|()| write_name(f, name))
                    }
                    Property::Pod(name) => write!(f, "pod {sign} ").and_then(|()| write_name(f, name)),
                    Property::Unit(name) => write!(f, "unit {sign} ").and_then(|()| write_name(f, name)),
                    Property::Flow(flow) => write!(f, "flow {sign} {flow}"),
                    Property::Ports(which, from, to) => write!(f, "{which} {sign} {from}-{to}"),
                }
            }
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Total => f.write_str("total"),
            Self::Between(from, to) => write!(f, "hop({from},{to})"),
            Self::Bytes => f.write_str("bytes"),
            Self::Retransmits => f.write_str("retransmits"),
            Self::Port => f.write_str("port"),
            Self::Sport => f.write_str("sport"),
            Self::Dport => f.write_str("dport"),
            Self::Pid => f.write_str("pid"),
            Self::Cpu => f.write_str("cpu"),
        }
    }
}

impl fmt::Display for FlowIs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Ends(one, None) => one.fmt(f),
            Self::Ends(one, Some(other)) => write!(f, "{one}-{other}"),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.port) {
            (Some(IpAddr::V6(address)), Some(port)) => write!(f, "[{address}]:{port}"),
            (Some(address), Some(port)) => write!(f, "{address}:{port}"),
            (Some(address), None) => address.fmt(f),
            (None, port) => write!(f, ":{}", port.unwrap_or_default()),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if self.bits < bits_of(self.address).0 { write!(f, "/{}", self.bits) } else { Ok(()) }
    }
}
