//! Consumers: what uses a socket in the kernel, in place of a process.

use serde::Serialize;
use std::fmt;

/// What takes the bytes of a socket in the kernel, from [`crate::Detail::Consumer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Consumer {
    /// Other code of the kernel: RPC, storage protocols, and what is unknown here.
    Kernel = 1,
    /// A BPF program of a sockmap.
    Sockmap = 2,
    /// Multipath TCP: the socket is a subflow.
    Mptcp = 3,
    /// TLS in the kernel.
    Tls = 4,
    /// ESP in TCP (RFC 8229).
    Espintcp = 5,
    /// Shared memory communications (RFC 7609).
    Smc = 6,
}

impl Consumer {
    /// All of them.
    pub const ALL: [Consumer; 6] =
        [Self::Kernel, Self::Sockmap, Self::Mptcp, Self::Tls, Self::Espintcp, Self::Smc];

    /// The consumer of this number in a record; numbers of a later version are other code of the kernel.
    pub const fn from_number(number: u32) -> Self {
        match number {
            2 => Self::Sockmap,
            3 => Self::Mptcp,
            4 => Self::Tls,
            5 => Self::Espintcp,
            6 => Self::Smc,
            _ => Self::Kernel,
        }
    }

    /// Display name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "the kernel",
            Self::Sockmap => "a sockmap",
            Self::Mptcp => "MPTCP",
            Self::Tls => "TLS in the kernel",
            Self::Espintcp => "ESP in TCP",
            Self::Smc => "SMC",
        }
    }
}

impl fmt::Display for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
