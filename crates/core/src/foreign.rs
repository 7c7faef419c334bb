//! Text from outside: a recording, a peer, the kernel.
//!
//! A host name or the name of a task can hold escape sequences, which a terminal executes. It can also hold
//! marks that reverse the direction of a line. Such text is sanitised at its entry into the model, so that no
//! front end has to do it.

use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// Replacement for an unsafe character.
pub const REPLACEMENT: char = '\u{fffd}';

/// True if a character can change more of a screen or of a file than its own place. That applies to control
/// characters (C0, DEL, C1), line and paragraph separators, and marks of direction (Unicode UAX #9).
pub const fn is_unsafe(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The same text with a replacement character for each unsafe one.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.contains(is_unsafe) { text.replace(is_unsafe, "\u{fffd}").into() } else { text.into() }
}

/// The same for text with lines.
pub fn clean_lines(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| c != '\n' && is_unsafe(c);
    if text.contains(is_unsafe) { text.replace(is_unsafe, "\u{fffd}").into() } else { text.into() }
}

/// For serde: a sanitised string.
pub fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(clean(&String::deserialize(from)?).into_owned())
}

/// For serde: sanitised strings.
pub fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    Ok(texts.iter().map(|text| clean(text).into_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::custom::{Attach, CustomProbe, Mark, ProbeValue, ValueKind};
    use crate::deciders::{
        AttachedProgram, DropRule, FilterChain, FilterFamily, FilterHook, ProgramKind, Traffic,
    };
    use crate::journey::Across;
    use crate::node::{
        Ability, Backend, CgroupName, Coverage, DropReason, HopService, HostOf, InterfaceName, LeftOut,
        MergedHosts, NetnsName, NodeInfo, Service, UnfollowedSockets,
    };
    use crate::workload::{Container, Engine, Label};
    use serde_json::Value;

    /// An escape sequence that sets the title, line ends, C1, and marks of direction.
    const DIRTY: &str = "a\u{1b}]0;x\u{7}\n\r\u{9b}31m\u{202e}\u{2066}b";

    #[test]
    fn what_a_terminal_obeys_is_replaced() {
        assert!(matches!(clean("web-1 größer"), Cow::Borrowed(_)));
        let cleaned = clean(DIRTY);
        assert!(
            !cleaned.contains(is_unsafe) && cleaned.starts_with('a') && cleaned.ends_with('b'),
            "{cleaned:?}"
        );
        assert_eq!(clean_lines("a\nb\u{1b}"), "a\nb\u{fffd}");
    }

    /// A node with every list filled. No `..`: a new field must be filled here.
    fn full() -> NodeInfo {
        let name = || "name".to_owned();
        let values = vec![ProbeValue { name: name(), expr: name(), kind: ValueKind::default() }];
        let probe = CustomProbe {
            name: name(),
            attach: Attach::ALL[0],
            target: name(),
            after: None,
            mark: Mark::Hop,
            values,
        };
        let served = Service::Served { backend: Backend::Generator, point: name(), note: name() };
        let missing = Service::Missing { because: name() };
        let hops = [served, missing].map(|service| HopService { hop: crate::Hop::ALL[0], service }).to_vec();
        NodeInfo {
            host: name(),
            kernel: name(),
            boot_id: name(),
            cpus: 1,
            clock: name(),
            netns: vec![NetnsName { netns: 1, name: name() }],
            interfaces: vec![InterfaceName { netns: 1, index: 1, name: name(), kind: name() }],
            cgroups: vec![CgroupName { id: 1, path: name() }],
            containers: vec![Container {
                engine: Engine::Docker,
                id: name(),
                name: name(),
                pod: name(),
                pod_namespace: name(),
                labels: vec![Label { key: name(), value: name() }],
                cgroup: name(),
                netns: 1,
                is_infra: true,
                joins_netns: true,
            }],
            settings: vec![name()],
            tells_order: true,
            probes: vec![probe],
            drop_reasons: vec![DropReason { number: 1, name: name() }],
            reset_reasons: vec![DropReason { number: 1, name: name() }],
            programs: vec![AttachedProgram {
                kind: ProgramKind::Tc,
                id: 1,
                name: name(),
                netns: 1,
                interface: 1,
                direction: Some(Traffic::Ingress),
                cgroup: 1,
                hook: Some(FilterHook::Input),
                peer: 1,
                peer_netns: 1,
            }],
            chains: vec![FilterChain {
                netns: 1,
                family: FilterFamily::Inet,
                table: name(),
                chain: name(),
                hook: FilterHook::Input,
                policy: true,
                rule: Some(DropRule { chain: name(), handle: 1 }),
                others: true,
            }],
            lists_deciders: true,
            not_followed: vec![UnfollowedSockets { netns: 1, kind: name(), sockets: 1 }],
            several: Some(MergedHosts {
                across: Across::OneClock,
                hosts: vec![HostOf { netns: 1, host: name() }],
            }),
            coverage: Coverage { hops, left_out: vec![LeftOut { ability: Ability::ALL[0], because: name() }] },
        }
    }

    /// Writes the unsafe text into every string with this name; returns their number.
    fn soil(value: &mut Value) -> usize {
        match value {
            Value::String(text) if text == "name" => {
                DIRTY.clone_into(text);
                1
            }
            Value::Array(all) => all.iter_mut().map(soil).sum(),
            Value::Object(all) => all.values_mut().map(soil).sum(),
            _ => 0,
        }
    }

    #[test]
    fn every_text_of_a_node_is_cleaned_where_it_is_read() {
        let mut value = serde_json::to_value(full()).expect("it is plain data");
        assert!(soil(&mut value) >= 28, "{value}");
        let read: NodeInfo = serde_json::from_value(value).expect("it is a node");
        let shown = format!("{read:?}");
        // Debug escapes unsafe characters: none is left to be escaped.
        assert!(!shown.contains("\\u{") && !shown.contains("\\n") && !shown.contains("\\r"), "{shown}");
        assert!(shown.contains(REPLACEMENT));
    }
}
