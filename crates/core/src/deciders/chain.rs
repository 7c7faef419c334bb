//! Chains of netfilter that may drop packets.

use crate::hop::Hop;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A hook of netfilter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterHook {
    /// Of a received packet, at its interface.
    Ingress,
    /// Of a received packet, before its route is chosen.
    Prerouting,
    /// Of a packet for this host.
    Input,
    /// Of a packet for another host.
    Forward,
    /// Of a packet of this host.
    Output,
    /// Of a packet that leaves, after its route is chosen.
    Postrouting,
    /// Of a packet that leaves, at its interface.
    Egress,
}

impl FilterHook {
    /// Name as in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
            Self::Egress => "egress",
        }
    }

    /// True if a packet can pass this hook after a hop and before the next one. A hop that was not passed proves
    /// nothing, because it may have been off.
    pub(super) fn is_behind(self, hop: Hop) -> bool {
        let sent = hop < Hop::DevQueue;
        match self {
            Self::Output => hop <= Hop::IpOut,
            // A packet for another host leaves after it was received.
            Self::Postrouting => hop <= Hop::IpOut || (!sent && hop <= Hop::IpPre),
            Self::Egress => sent || matches!(hop, Hop::NapiPoll | Hop::DevRecv | Hop::IpPre),
            Self::Ingress => !sent && hop <= Hop::DevRecv,
            Self::Prerouting | Self::Input | Self::Forward => !sent && hop <= Hop::IpPre,
        }
    }
}

impl fmt::Display for FilterHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The protocols of a netfilter table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterFamily {
    /// IPv4 and IPv6.
    Inet,
    /// IPv4.
    Ip,
    /// IPv6.
    Ip6,
    /// Frames of a bridge.
    Bridge,
    /// Frames of an interface.
    Netdev,
}

impl FilterFamily {
    /// Name as in rules.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inet => "inet",
            Self::Ip => "ip",
            Self::Ip6 => "ip6",
            Self::Bridge => "bridge",
            Self::Netdev => "netdev",
        }
    }

    pub(super) const fn has(self, is_ipv6: bool) -> bool {
        match self {
            Self::Ip => !is_ipv6,
            Self::Ip6 => is_ipv6,
            Self::Inet | Self::Bridge | Self::Netdev => true,
        }
    }
}

/// The rule of a chain that drops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropRule {
    /// Its chain, to which the base chain leads.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub chain: String,
    /// Its handle.
    pub handle: u64,
}

/// A base chain of netfilter that can drop packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterChain {
    /// Its network namespace.
    pub netns: u32,
    /// Protocols of its table.
    pub family: FilterFamily,
    /// Name of its table.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub table: String,
    /// Its name.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub chain: String,
    /// Its hook.
    pub hook: FilterHook,
    /// True if its policy drops.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub policy: bool,
    /// The rule that drops, if there is only one and no policy that drops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<DropRule>,
    /// True if other rules can drop, or if the rules are unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub others: bool,
}

impl FilterChain {
    /// The hop that every packet passes after `behind` and before this chain; `None` if there is none. Frames of a bridge
    /// pass no hop of IP.
    pub(super) fn hop_before(&self, behind: Hop) -> Option<Hop> {
        use FilterHook::{Egress, Forward, Input, Postrouting, Prerouting};
        match self.hook {
            _ if self.family == FilterFamily::Bridge => None,
            Prerouting | Input | Forward | Postrouting if matches!(behind, Hop::NapiPoll | Hop::DevRecv) => {
                Some(Hop::IpPre)
            }
            Egress if behind < Hop::IpPost => Some(Hop::IpPost),
            _ => None,
        }
    }
}
