//! The capture filter: selects the events that the kernel records, as a line of text.
//!
//! ```text
//! port 443 and not comm = sshd
//! udp and (host 10.0.0.0/8 or iface = eth1) and dir = rx
//! container = 4fa2 and hop = dev.xmit
//! ```
//!
//! Words, signs and precedence are those of the journeys' filter ([`crate::filter`]); the `=` may be left out,
//! and numbers
//! can be ranges (`port 8000-8099`).
//!
//! | word | meaning | kind |
//! |---|---|---|
//! | `cpu` | CPU of the event | number |
//! | `hop` | hop of the event | a hop's name |
//! | `dir` | `tx`, `rx`, `off` (hops off a packet's path) | |
//! | `proto` | `tcp`, `udp`, `icmp`, `icmp6` (also valid alone) or a number | |
//! | `netns` | network namespace: name, inode number or path | |
//! | `iface` | interface: name or index | |
//! | `host`, `src`, `dst` | address or prefix of either end, the sender, the receiver | |
//! | `port`, `sport`, `dport` | likewise | number |
//! | `len` | payload, bytes | number |
//! | `socket` | the socket's cookie | number |
//! | `tgid` (`pid`) | process | number |
//! | `comm` | complete name of the process | |
//! | `uid` (`user`) | user of the process: name or number | |
//! | `cgroup` | at or below a cgroup: path or id | |
//! | `container` | in a container: its name, its id or the first characters of that | |
//! | `pod` | in a pod: `shop/web-7f9c` or `web-7f9c` | |
//! | `unit` | in a unit of systemd: `nginx.service` | |
//!
//! **Unknown fields are not guessed.** An event is kept only if the filter certainly matches: a comparison with
//! an unknown field is neither true nor false, and neither is its negation. (The journeys' filter, which works
//! on recorded data, treats such a comparison as false.) The kernel counts these events separately, as
//! *undecided*.

mod ast;
mod field_access;
mod filter_input;
mod parse;

pub use ast::{Expr, Field, Test, Value};
pub use field_access::{FieldAccess, field_access};
pub use filter_input::FilterInput;

use crate::filter::FilterError;
use crate::hop::HopSet;
use std::fmt;
use std::str::FromStr;

/// A condition on events, parsed from text. Its text form parses to the same filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureFilter {
    root: Expr,
}

impl CaptureFilter {
    /// Parses a filter. The error has the position and a valid example.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        parse::parse(text).map(|root| CaptureFilter { root })
    }

    /// The syntax tree.
    pub fn expr(&self) -> &Expr {
        &self.root
    }

    /// Conjunction of two filters.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let alone = self.clone();
        Expr::all(vec![self.root, other.root]).map_or(alone, |root| CaptureFilter { root })
    }

    /// A filter of one comparison.
    pub fn of(test: Test) -> Self {
        CaptureFilter { root: Expr::Test(test) }
    }

    /// The fields of the filter, each once.
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        self.root.tests(&mut |test| {
            if !fields.contains(&test.field) {
                fields.push(test.field);
            }
        });
        fields
    }

    /// The fields of the filter that some of `hops` can never have, each with those hops.
    pub fn blind_spots(&self, hops: HopSet) -> Vec<(Field, HopSet)> {
        let blind = |field: Field| -> HopSet {
            hops.iter().filter(|hop| field_access(*hop, field) == FieldAccess::Never).collect()
        };
        self.fields()
            .into_iter()
            .map(|field| (field, blind(field)))
            .filter(|(_, hops)| !hops.is_empty())
            .collect()
    }

    /// The hops that the filter asks for, without those that it excludes.
    pub fn asked_hops(&self) -> HopSet {
        let mut asked = HopSet::EMPTY;
        collect_hops(&self.root, true, &mut asked);
        asked
    }

    /// True if the filter uses fields that hops below the socket layer have only from stored sockets.
    pub fn needs_memory(&self) -> bool {
        self.fields().into_iter().any(Field::is_of_process)
    }
}

/// Adds the hops of comparisons that are not negated, if `is_asked`, else those of negated ones.
fn collect_hops(expr: &Expr, is_asked: bool, hops: &mut HopSet) {
    match expr {
        Expr::All(list) | Expr::Any(list) => {
            for expr in list {
                collect_hops(expr, is_asked, hops);
            }
        }
        Expr::Not(inner) => collect_hops(inner, !is_asked, hops),
        Expr::Test(test) => {
            if let Value::Hop(hop) = test.value
                && is_asked
            {
                hops.insert(hop);
            }
        }
    }
}

impl FromStr for CaptureFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

impl fmt::Display for CaptureFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}
