//! Kinds of probes by name.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use magscope_core::node::Backend;

/// The kinds that can be asked for. Return trampolines come with `fentry`.
pub const KINDS: [Backend; 7] = [
    Backend::TpBtf,
    Backend::Fentry,
    Backend::Netfilter,
    Backend::CgroupSkb,
    Backend::Tracepoint,
    Backend::KprobeMulti,
    Backend::Kprobe,
];

/// Takes one of the names; a wrong one is answered with all of them and the nearest.
pub fn parser() -> impl TypedValueParser<Value = Backend> {
    let names = KINDS.map(Backend::name);
    PossibleValuesParser::new(names).map(|name| {
        // the parser has let nothing else through
        KINDS.into_iter().find(|kind| kind.name() == name).unwrap_or(Backend::TpBtf)
    })
}
