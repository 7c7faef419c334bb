//! `magnet-scope hops`: the places where an event can be taken, and what serves each on this kernel.

use crate::output;
use anyhow::Result;
use magscope_core::hop::{Direction, Hop, HopSet, Layer};
use magscope_core::node::Service;
use magscope_probe::plan::is_per_packet;
use magscope_probe::{HostFacts, default_hops, plan};
use serde::Serialize;
use std::fmt::Write;

/// Arguments of `hops`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// A row of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Which hop.
    pub hop: Hop,
    direction: Direction,
    layer: Layer,
    default: bool,
    cost: &'static str,
    /// What serves it, whoever asks.
    #[serde(flatten)]
    pub service: Service,
}

/// What serves each hop on this host, given every capability: who asks is another question than what the kernel has.
pub fn rows(facts: &HostFacts) -> Vec<Row> {
    let facts = HostFacts { capabilities: u64::MAX, ..facts.clone() };
    let default = default_hops();
    plan(&facts, HopSet::all())
        .coverage
        .hops
        .into_iter()
        .map(|row| Row {
            hop: row.hop,
            direction: row.hop.direction(),
            layer: row.hop.layer(),
            default: default.contains(row.hop),
            cost: cost(row.hop),
            service: row.service,
        })
        .collect()
}

/// How often a stream pays for a hop; one hit costs 100 to 300 ns.
fn cost(hop: Hop) -> &'static str {
    match hop {
        _ if is_per_packet(hop) => "a packet",
        Hop::TaskWake | Hop::TaskRun => "a wake-up",
        Hop::SchedSwitch | Hop::SchedWakeup | Hop::SchedFork | Hop::SchedExit => "any task's",
        Hop::TcpRetransmit | Hop::SkbDrop | Hop::SockFull => "rare",
        Hop::TcpState => "4 ms",
        _ => "a call",
    }
}

/// Prints the table.
pub fn run(args: &Args) -> Result<()> {
    let rows = rows(&HostFacts::read()?);
    if args.json { output::json(&rows) } else { output::text(&table(&rows)) }
}

/// The rows as text. `*` marks the default set.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!("  {:<15}{:<4}{:<11}{:<11}SERVED BY\n", "HOP", "DIR", "LAYER", "ONCE");
    for row in rows {
        let mark = if row.default { '*' } else { ' ' };
        let direction = format!("{:?}", row.direction).to_lowercase();
        let layer = format!("{:?}", row.layer).to_lowercase();
        let served = match &row.service {
            Service::Served { backend, point, note } if note.is_empty() => format!("{backend} {point}"),
            Service::Served { backend, point, note } => format!("{backend} {point} ({note})"),
            Service::Off => "off".to_owned(),
            Service::Missing { because } => format!("MISSING: {because}"),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{mark} {:<15}{direction:<4}{layer:<11}{:<11}{served}", row.hop, row.cost);
    }
    text.push_str("* in the default set; `--hops all`, `--hops +NAME,-NAME` change it\n");
    text
}
