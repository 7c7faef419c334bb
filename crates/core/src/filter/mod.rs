//! The filter: selects journeys by a line of text.
//!
//! ```text
//! total > 5ms and hop(dev.queue,dev.xmit) > 1ms
//! proto = udp and (port = 53 or host = 10.0.0.0/8) and not verdict = complete
//! ```
//!
//! The words are those of the capture filter and of the filter of requests, and words of tcpdump are read where they mean one
//! thing: `tcp port 443`, `src host 10.0.0.1`, `dst port 80`, `net 10.0.0.0/8`, `&&`, `||`, `!`. An `=` may be left out before a
//! name, an address, a port or a number of a process or CPU.
//!
//! `or` binds weakest, then `and`, then `not`. Comparisons are `<` `<=` `>` `>=` `=` `!=` on
//!
//! | word | meaning | example |
//! |---|---|---|
//! | `total` | first hop to last | `total >= 1.5ms` |
//! | `hop(A,B)` | from one hop to a later one | `hop(sock.ready,app.recv) > 20ms` |
//! | `bytes` | payload; `kB` `MB` `GB` (or `k` `M` `G`) are powers of 1000 as on the screens, `KiB` `MiB` `GiB`
//! of 1024 | `bytes < 4kB` |
//! | `retransmits` | number of retransmissions | `retransmits > 0` |
//! | `port`, `sport`, `dport` | of either end, the sender's, the receiver's | `dport = 443` |
//! | `pid`, `tgid` | the sending or the reading process | `pid = 4711` |
//! | `cpu` | the CPU at any hop, on either host | `cpu = 3` |
//!
//! and, with `=` and `!=` alone, on `proto` (`tcp`, `udp`), `verdict` (a name of [`Verdict::NAMES`]), `host` or
//! `net` (an address or a prefix, of either end), `src`, `dst` (of the sender, of the receiver), `comm` or `proc`
//! (the sending or the reading process), `netns` (name or number, of either end), `node` (name of a namespace or of
//! a host, of either end), `cgroup` (of either process: `/system.slice` is that path and all below it,
//! `nginx.service` a directory on the path, `4242` a number), `container` (name or id, of either end; if no container
//! has it, the cgroups with this text in their name), `pod`
//! (`shop/web-7f9c` or `web-7f9c`), `unit` (`nginx.service`) and `flow` (for either sender:
//! `10.0.0.1:4000-10.0.0.2:80`, one end as `10.0.0.1`, `[fd00::1]:80` or `:443`, or the number of a flow).
//!
//! Some words are complete conditions: `lost`, `dropped` and `broken` are verdicts, `resent` or `retransmitted` is
//! `retransmits > 0`, `tcp`, `udp`, `icmp`, `icmp6` and `igmp` are protocols.
//!
//! **Unknown is false.** A comparison with an unseen value is false, with any operator: a journey that never
//! passed `dev.queue` is neither slower nor faster there than anything. With either end, `=` and `<` hold if
//! one end matches, `!=` if no known end is equal; the same applies to CPUs.
//!
//! **Known limits.** No arithmetic, no patterns: `comm` matches the complete name only.

mod ast;
pub(crate) mod matching;
pub(crate) mod parse;
pub(crate) mod quantity;

pub use crate::condition::{FilterError, MAX_CHARS, MAX_DEPTH, Problem};
pub use ast::{FIELDS, Prefix};
use ast::{Property, Quantity, Test};

use crate::context::Context;
use crate::hop::{Hop, HopSet};
use crate::journey::{Journey, Verdict};
use std::fmt;
use std::str::FromStr;

/// A condition on journeys, parsed from text. Its text form parses to the same filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    root: ast::Expr,
}

impl Filter {
    /// Parses a filter. The error has the position and a valid example.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::parse(text).map(|root| Filter { root })
    }

    /// The hops in the filter, and those that alone supply its fields: without one of them that part of the
    /// filter matches no journey.
    pub fn hops(&self) -> HopSet {
        let mut hops = Vec::new();
        self.root.tests(&mut |test| match test {
            Test::Number { what: Quantity::Between(from, to), .. } => hops.extend([*from, *to]),
            Test::Is { what: Property::Verdict(kind), equal: true }
                if Verdict::NAMES.get(*kind) == Some(&"dropped") =>
            {
                hops.push(Hop::SkbDrop);
            }
            _ => {}
        });
        hops.into_iter().collect()
    }

    /// True if a journey matches; `context` resolves its flows and processes.
    pub fn matches(&self, journey: &Journey, context: &dyn Context) -> bool {
        matching::holds(&self.root, journey, context)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}
