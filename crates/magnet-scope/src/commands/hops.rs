//! `magnet-scope hops`: the hops, and what serves each on this kernel.

mod bench;
mod probe;

use crate::failure::Hint;
use crate::wrap::wrap;
use crate::{output, reporting};
use anyhow::Result;
use magscope_core::CustomProbe;
use magscope_core::hop::{Direction, Hop, HopSet, Layer};
use magscope_core::node::Service;
use magscope_probe::{HostFacts, ProbeError, cost, default_hops, plan};
use serde::Serialize;

/// Arguments of `hops`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Measure the cost of a hit of each hop; attaches each in turn, takes about ten seconds, needs root
    #[arg(long)]
    cost: bool,
    /// Measure every kind of probe that can serve each hop; takes about a minute, needs root
    #[arg(long, conflicts_with = "cost")]
    bench: bool,
    /// Look up a custom probe instead: its values and the available ones; attaches nothing
    #[arg(long, value_name = "PLACE", value_parser = crate::cli::probe, conflicts_with_all = ["cost", "bench"])]
    probe: Vec<CustomProbe>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Indentation of continuation lines.
const INDENT: &str = "                   ";
/// Rounds of attach and detach per hop.
const ROUNDS: usize = 5;

/// A row of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The hop.
    pub hop: Hop,
    direction: Direction,
    layer: Layer,
    default: bool,
    once: &'static str,
    /// Measured cost of a hit, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_ns: Option<f64>,
    /// The quartiles of the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_quartiles_ns: Option<(f64, f64)>,
    /// Its service, independent of privileges.
    #[serde(flatten)]
    pub service: Service,
    /// True if its programs were loaded as a test.
    tried: bool,
}

/// The service of each hop on this host, assuming all capabilities.
pub fn rows(facts: &HostFacts) -> Vec<Row> {
    let tried = !is_untried(facts);
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
            once: row.hop.spec().frequency.words(),
            hit_ns: None,
            hit_quartiles_ns: None,
            service: row.service,
            tried,
        })
        .collect()
}

/// The facts, with programs that fail to load if this process can test them.
pub fn tried() -> Result<HostFacts> {
    let facts = HostFacts::read()?;
    if facts.check().is_err() {
        return Ok(facts);
    }
    magscope_probe::tried(&facts).map_err(crate::capture::explain)
}

/// Text about abilities that this kernel lacks, one paragraph each.
pub fn left_out(facts: &HostFacts, width: usize) -> String {
    let mut text = String::new();
    for (ability, because) in &facts.left_out {
        wrap(&mut text, &format!("  {ability:<16} {}", ability.consequence()), width, INDENT);
        wrap(&mut text, &format!("{INDENT}because: {because}"), width, INDENT);
    }
    if !text.is_empty() {
        text.insert_str(0, "Left out on this kernel:\n");
    }
    text
}

/// Paragraph below an untested table.
pub fn untried(width: usize) -> String {
    let mut text = String::new();
    let line =
        "Not tried, for want of capabilities: a kernel may refuse what it has. As root this table is certain.";
    wrap(&mut text, line, width, "");
    text
}

/// True if this process cannot test the kernel's features.
pub fn is_untried(facts: &HostFacts) -> bool {
    !facts.missing_capabilities().is_empty()
}

/// Prints the table.
pub fn run(args: &Args) -> Result<()> {
    if !args.probe.is_empty() {
        return probe::run(&HostFacts::read()?, &args.probe, args.json);
    }
    if args.bench {
        return bench::run(&HostFacts::read()?, args.json);
    }
    let facts = tried()?;
    let mut rows = rows(&facts);
    if args.cost {
        measure(&facts, &mut rows)?;
    }
    if args.json {
        return output::json(&rows);
    }
    let width = reporting::width();
    let table = format!("{}{}", table(&rows, width), left_out(&facts, width));
    output::text(&if is_untried(&facts) { format!("{table}\n{}", untried(width)) } else { table })
}

/// Fails if capabilities for attachment are missing.
fn may_measure(facts: &HostFacts) -> Result<()> {
    let missing = facts.missing_capabilities();
    if missing.is_empty() {
        return Ok(());
    }
    let hint = Hint::new(
        "cannot measure what a hit costs",
        "",
        "try with sudo; `magnet-scope hops` alone needs no privilege",
    );
    Err(anyhow::Error::new(ProbeError::Privileges { missing }).context(hint))
}

/// Adds the cost of a hit, if the measurement's traffic hits the hop.
fn measure(facts: &HostFacts, rows: &mut [Row]) -> Result<()> {
    may_measure(facts)?;
    let served = rows.iter_mut().filter(|row| matches!(row.service, Service::Served { .. }));
    // every task hits the scheduler's hops, so their cost is not per packet
    for row in served.filter(|row| row.hop.layer() != Layer::Sched) {
        if let Some(cost) = cost::measure(facts, [row.hop].into_iter().collect(), ROUNDS)? {
            row.hit_ns = Some(cost.hit_ns);
            row.hit_quartiles_ns = Some(cost.quartiles_ns);
        }
    }
    Ok(())
}

/// The rows as text for a terminal of `width` columns. `*` marks the default set.
pub fn table(rows: &[Row], width: usize) -> String {
    let measured = rows.iter().any(|row| row.hit_ns.is_some());
    let column = |text: &str| if measured { format!("{text:<19}") } else { String::new() };
    let mut text =
        format!("  {:<18}{:<4}{:<11}{:<13}{}SERVED BY\n", "HOP", "DIR", "LAYER", "ONCE", column("A HIT, ns"));
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
        let served = match &row.service {
            Service::Served { .. } if !row.tried => format!("not tried: {served}"),
            _ => served,
        };
        let hit = match (row.hit_ns, row.hit_quartiles_ns) {
            (Some(ns), Some((low, high))) => format!("{ns:>4.0} ({low:.0} to {high:.0})"),
            _ => "   ·".to_owned(),
        };
        let hit = column(&hit);
        let line = format!("{mark} {:<18}{direction:<4}{layer:<11}{:<13}{hit}{served}", row.hop, row.once);
        wrap(&mut text, &line, width, INDENT);
    }
    if measured {
        let explanation = "A hit: median (and quartiles) over attaching and detaching; · where the measurement's traffic does \
                   not pass";
        wrap(&mut text, explanation, width, "");
    }
    text.push_str("* in the default set; `--hops all`, `--hops +NAME,-NAME` change it\n");
    text
}
