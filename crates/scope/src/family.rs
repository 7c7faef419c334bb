//! Families of protocols. Steps between hops are counted per family, since the hop below one differs between
//! families.

use magscope_core::Proto;
use std::fmt;

/// A family of protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP and other protocols.
    Other,
}

impl Family {
    /// Number of families.
    pub const COUNT: usize = 3;
    /// All families.
    pub const ALL: [Self; Self::COUNT] = [Self::Tcp, Self::Udp, Self::Other];

    /// The family of a protocol.
    pub const fn of(proto: Proto) -> Self {
        match proto {
            Proto::TCP => Self::Tcp,
            Proto::UDP => Self::Udp,
            _ => Self::Other,
        }
    }

    /// Stands before a number that is of this family alone, where there are others as well.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Tcp => "t",
            Self::Udp => "u",
            Self::Other => "o",
        }
    }

    /// The family of all of these, if they are of one.
    pub fn only(mut families: impl Iterator<Item = Self>) -> Option<Self> {
        let first = families.next()?;
        families.all(|family| family == first).then_some(first)
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Other => "other",
        })
    }
}
