//! `magnet-scope hops --probe PLACE`: the values that a custom probe would read, and those available at its
//! place.

use crate::failure::Hint;
use crate::{output, reporting, wrap::wrap};
use anyhow::Result;
use magscope_core::CustomProbe;
use magscope_core::custom::ValueKind;
use magscope_probe::custom::{Resolved, Resolver};
use magscope_probe::{HostFacts, ProbeError};
use serde::Serialize;

/// A resolved probe.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    probe: CustomProbe,
    /// Available names as C declarations.
    offered: Vec<String>,
    /// True if the probe sees packets or sockets, so that hits belong to journeys.
    knows_packet: bool,
    knows_socket: bool,
}

/// Resolves each probe and prints the result.
pub fn run(facts: &HostFacts, probes: &[CustomProbe], json: bool) -> Result<()> {
    let resolver = Resolver::new(facts).map_err(|cause| Hint::error(cause, "", "use a kernel with BTF"))?;
    let mut rows = Vec::new();
    for probe in probes {
        let resolved = resolver.resolve(0, probe);
        let refused = |cause| ProbeError::Custom { probe: probe.place(), cause };
        rows.push(Row::of(resolved.map_err(refused)?));
    }
    if json { output::json(&rows) } else { output::text(&text(&rows)) }
}

impl Row {
    fn of(resolved: Resolved) -> Self {
        let (knows_packet, knows_socket) = (resolved.plan.has_skb != 0, resolved.plan.has_sock != 0);
        Row { probe: resolved.probe, offered: resolved.offered, knows_packet, knows_socket }
    }
}

fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut line = |what: &str| wrap(&mut text, what, reporting::width(), "    ");
    for row in rows {
        line(&row.probe.to_string());
        for value in &row.probe.values {
            let kind = match value.kind {
                ValueKind::Signed => "a number with a sign",
                ValueKind::Unsigned => "a number",
                ValueKind::Address => "an address",
            };
            line(&format!("  {} reads {}, {kind}", value.name, value.expr));
        }
        line(&match (row.knows_packet, row.knows_socket) {
            (true, _) => "  sees a packet: a hit stands with the journey of its bytes".to_owned(),
            (_, true) => "  sees a socket: a hit names its flow".to_owned(),
            _ => "  sees neither packet nor socket: a hit has a time and values alone".to_owned(),
        });
        let offered = if row.offered.is_empty() { "nothing".to_owned() } else { row.offered.join(", ") };
        line(&format!("  there is to read: {offered}"));
    }
    text
}
