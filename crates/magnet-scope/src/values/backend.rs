//! Kinds of probes by name.

use clap::builder::{PossibleValuesParser, TypedValueParser};
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

/// Parser of names; an invalid one is answered with all names and the nearest.
pub fn parser() -> impl TypedValueParser<Value = Backend> {
    let names = KINDS.map(Backend::name);
    PossibleValuesParser::new(names).map(|name| {
        // the parser accepts nothing else
        KINDS.into_iter().find(|kind| kind.name() == name).unwrap_or(Backend::TpBtf)
    })
}
