//! Custom probes: places in the kernel or in a program that a person names, with values read there.
//!
//! [`CustomProbe`] is what was asked for, in words (`parse`); a [`ProbeHit`] is one time it was passed.

mod hit;
mod parse;

pub use hit::{ProbeHit, ValueKind};
pub use parse::BadProbe;

use crate::hop::Hop;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Values that one probe reads at most.
pub const MOST_VALUES: usize = 4;
/// Custom probes of one capture at most.
pub const MOST_PROBES: usize = 16;

/// How a custom probe is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Attach {
    /// A trampoline at a function's entry.
    Fentry,
    /// A trampoline at a function's return, with its arguments.
    Fexit,
    /// A breakpoint at a function's entry.
    Kprobe,
    /// A breakpoint at a function's return.
    Kretprobe,
    /// A tracepoint with the fields that its format names.
    Tracepoint,
    /// A tracepoint with the arguments that the kernel's types name.
    TpBtf,
    /// A breakpoint at a function of a program or library.
    Uprobe,
    /// A breakpoint at the return of such a function.
    Uretprobe,
}

impl Attach {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Fentry,
        Self::Fexit,
        Self::Kprobe,
        Self::Kretprobe,
        Self::Tracepoint,
        Self::TpBtf,
        Self::Uprobe,
        Self::Uretprobe,
    ];

    /// As it is written before the colon.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fentry => "fentry",
            Self::Fexit => "fexit",
            Self::Kprobe => "kprobe",
            Self::Kretprobe => "kretprobe",
            Self::Tracepoint => "tracepoint",
            Self::TpBtf => "tp_btf",
            Self::Uprobe => "uprobe",
            Self::Uretprobe => "uretprobe",
        }
    }

    /// Whether it stands in a program and not in the kernel, so that the process it hits is the one that runs.
    pub const fn in_program(self) -> bool {
        matches!(self, Self::Uprobe | Self::Uretprobe)
    }
}

/// How a custom probe is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// As a place that journeys pass: each hit stands with the journey whose packet it saw.
    Hop,
    /// Each by itself.
    Point,
    /// Its values, drawn over time.
    Loadline,
}

impl Mark {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hop => "hop",
            Self::Point => "point",
            Self::Loadline => "loadline",
        }
    }
}

/// A value that a probe reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeValue {
    /// What it is called.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub name: String,
    /// Where it is read: `skb->len`, `arg0`, `retval`, a field of a tracepoint.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub expr: String,
    /// What the number means, once that is known.
    #[serde(default)]
    pub kind: ValueKind,
}

/// A place that a person named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomProbe {
    /// What it is called.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub name: String,
    /// How it is attached.
    pub attach: Attach,
    /// Function, `category:name`, or `/path:symbol`.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub target: String,
    /// The hop that it stands right behind in the order of the stack; without one, it has no place in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Hop>,
    /// How it is shown.
    #[serde(rename = "as")]
    pub mark: Mark,
    /// What it reads.
    #[serde(default)]
    pub values: Vec<ProbeValue>,
}

impl CustomProbe {
    /// `fentry:tcp_rcv_established`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.attach.name(), self.target)
    }

    /// The names of its values with those of one hit: `len=1448 free=?`, where what could not be read has no number.
    pub fn told(&self, hit: &ProbeHit) -> String {
        let values = self.values.iter().enumerate();
        let told = values.map(|(i, value)| match hit.value(i) {
            Some(number) => format!("{}={}", value.name, value.kind.show(number)),
            None => format!("{}=?", value.name),
        });
        told.collect::<Vec<_>>().join(" ")
    }
}

/// In the words that it is read from.
impl fmt::Display for CustomProbe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} name={}", self.place(), self.name)?;
        if let Some(hop) = self.after {
            write!(f, " after={hop}")?;
        }
        write!(f, " as={}", self.mark.name())?;
        self.values.iter().try_for_each(|value| write!(f, " {}={}", value.name, value.expr))
    }
}
