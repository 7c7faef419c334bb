//! Custom probes: user-defined places in the kernel or in a program, with values read there.
//!
//! [`CustomProbe`] is the definition, with a text form (`parse`); a [`ProbeHit`] is one hit.

mod hit;
mod parse;

pub use hit::{ProbeHit, ValueKind};
pub use parse::BadProbe;

use crate::hop::Hop;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Maximum number of values of one probe.
pub const MOST_VALUES: usize = 4;
/// Maximum number of custom probes of one capture.
pub const MOST_PROBES: usize = 16;

/// Attachment type of a custom probe.
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
    /// All types.
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

    /// Its name before the colon.
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

    /// True for a probe in a program, whose hits belong to the running process.
    pub const fn in_program(self) -> bool {
        matches!(self, Self::Uprobe | Self::Uretprobe)
    }
}

/// Display of a custom probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    /// A place on the path of journeys: each hit belongs to the journey of its packet.
    Hop,
    /// A single point per hit.
    Point,
    /// Its values over time.
    Loadline,
}

impl Mark {
    /// Text form.
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
    /// Display name.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub name: String,
    /// Source of the value: `skb->len`, `arg0`, `retval`, a field of a tracepoint.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub expr: String,
    /// Interpretation of the number, once resolved.
    #[serde(default)]
    pub kind: ValueKind,
}

/// A user-defined probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CustomProbe {
    /// Display name.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub name: String,
    /// Attachment type.
    pub attach: Attach,
    /// Function, `category:name`, or `/path:symbol`.
    #[serde(deserialize_with = "crate::foreign::text")]
    pub target: String,
    /// The hop directly before it in the order of the stack; `None` for a probe without a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Hop>,
    /// Display type.
    #[serde(rename = "as")]
    pub mark: Mark,
    /// Values to read.
    #[serde(default)]
    pub values: Vec<ProbeValue>,
}

impl CustomProbe {
    /// `fentry:tcp_rcv_established`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.attach.name(), self.target)
    }

    /// The names of its values with those of one hit: `len=1448 free=?`, with `?` for a failed read.
    pub fn text(&self, hit: &ProbeHit) -> String {
        let values = self.values.iter().enumerate();
        let reported = values.map(|(i, value)| match hit.value(i) {
            Some(number) => format!("{}={}", value.name, value.kind.show(number)),
            None => format!("{}=?", value.name),
        });
        reported.collect::<Vec<_>>().join(" ")
    }
}

/// The text form that the parser accepts.
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
