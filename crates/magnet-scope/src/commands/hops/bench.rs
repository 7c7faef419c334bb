//! `magnet-scope hops --bench`: cost of a hit for every kind of probe that can serve its hop here.

use super::{ROUNDS, may_measure};
use crate::output;
use crate::values::backend::KINDS;
use anyhow::Result;
use magscope_core::hop::{Hop, HopSet, Layer};
use magscope_core::node::Backend;
use magscope_probe::{HostFacts, cost, plan_by};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// Longer than any hop needs with fast attachment; a slow (emulated) machine runs fewer rounds.
const AT_MOST: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize)]
struct Row {
    hop: Hop,
    costs: Vec<Cell>,
}

#[derive(Debug, Serialize)]
struct Cell {
    backend: Backend,
    point: String,
    hit_ns: f64,
    hit_quartiles_ns: (f64, f64),
}

/// Measures and prints.
pub fn run(facts: &HostFacts, json: bool) -> Result<()> {
    may_measure(facts)?;
    let mut rows = Vec::new();
    for hop in Hop::ALL.iter().copied().filter(|hop| hop.layer() != Layer::Sched) {
        let costs = costs(facts, hop)?;
        if !costs.is_empty() {
            rows.push(Row { hop, costs });
        }
    }
    if json { output::json(&rows) } else { output::text(&table(&rows)) }
}

/// Measures each kind in turn; kinds that this kernel lacks and hops without traffic are omitted.
fn costs(facts: &HostFacts, hop: Hop) -> Result<Vec<Cell>> {
    let hops: HopSet = [hop].into_iter().collect();
    let mut cells = Vec::new();
    for backend in KINDS {
        let Some(probe) = plan_by(facts, hops, Some(backend)).probes.pop() else { continue };
        let what = cost::Measurement { hops, backend: Some(backend), rounds: ROUNDS, at_most: AT_MOST };
        if let Some(cost) = cost::measure_so(facts, what)? {
            cells.push(Cell {
                backend,
                point: probe.point.to_owned(),
                hit_ns: cost.hit_ns,
                hit_quartiles_ns: cost.quartiles_ns,
            });
        }
    }
    Ok(cells)
}

fn table(rows: &[Row]) -> String {
    let used: Vec<Backend> = KINDS
        .into_iter()
        .filter(|kind| rows.iter().any(|row| row.costs.iter().any(|c| c.backend == *kind)))
        .collect();
    let mut text = format!("{:<18}", "A HIT, ns");
    // Writing into a String cannot fail.
    for kind in &used {
        let _ = write!(text, " {:>21}", kind.name());
    }
    text.push('\n');
    for row in rows {
        let _ = write!(text, "{:<18}", row.hop);
        for kind in &used {
            let cell = row.costs.iter().find(|cell| cell.backend == *kind).map_or_else(
                || "·".to_owned(),
                |cell| {
                    let (low, high) = cell.hit_quartiles_ns;
                    // A cost of zero or less is hidden by noise.
                    let median = if low > 0.0 { format!("{:.0}", cell.hit_ns) } else { "?".to_owned() };
                    format!("{median} ({low:.0} to {high:.0})")
                },
            );
            // longer cells still have a gap
            let _ = write!(text, " {cell:>21}");
        }
        text.push('\n');
    }
    text.push_str("Median (and quartiles) over attaching and detaching, each hop alone; · where that kind does not serve the hop here");
    let hidden = rows.iter().flat_map(|row| &row.costs).any(|cell| cell.hit_quartiles_ns.0 <= 0.0);
    text.push_str(if hidden { ";\n? where other work on this machine hides it.\n" } else { ".\n" });
    text
}
