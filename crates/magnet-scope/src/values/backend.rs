//! Kinds of probes by name.

use super::listed;
use clap::builder::{PossibleValue, TypedValueParser};
use magscope_core::node::Backend;

/// The selectable kinds. Return trampolines belong to `fentry`.
pub const KINDS: [Backend; 7] = [
    Backend::TpBtf,
    Backend::Fentry,
    Backend::Netfilter,
    Backend::CgroupSkb,
    Backend::Tracepoint,
    Backend::KprobeMulti,
    Backend::Kprobe,
];

/// Parser of their names.
pub fn parser() -> impl TypedValueParser<Value = Backend> {
    listed::parser(KINDS, |kind| PossibleValue::new(kind.name()))
}
