//! Summary of several recordings: clock relations, joined connections, and failures with reasons.

use magscope_core::node::NodeInfo;
use magscope_scope::format::{self, count, counted, duration};
use magscope_timeline::align::Alignment;
use magscope_timeline::join::{JoinCounters, Pairing};
use magscope_timeline::merged_reader::ReadSummary;
use magscope_timeline::pair::Recorded;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// Maximum number of connections listed, those with the most journeys first.
const MOST_PAIRINGS: usize = 20;

/// Several recordings together.
#[derive(Clone, Debug, Serialize)]
pub struct Joint {
    /// In the given order; the first one's clock is the common one.
    recordings: Vec<Recording>,
    /// True if all are of one boot of one host.
    one_clock: bool,
    /// Each pair of clocks.
    clocks: Vec<Clocks>,
    /// Message about contradictory clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    contradiction: Option<String>,
    /// Counters of the join.
    join: JoinCounters,
    /// Connections with the most journeys.
    connections: Vec<Pairing>,
    /// Number of unlisted connections.
    other_connections: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Recording {
    directory: String,
    host: String,
}

/// Relation of the second's clock to the first's.
#[derive(Clone, Debug, Serialize)]
struct Clocks {
    /// Indexes of the recordings, from 0.
    nodes: (u16, u16),
    /// Time of the other values, on the first's unslewed clock, nanoseconds.
    at_ns: u64,
    /// Basis of the bound.
    state: String,
    /// The second's unslewed clock minus the first's, nanoseconds.
    offset_ns: Option<i64>,
    /// Its error.
    half_width_ns: Option<u64>,
    /// Lower bound of the difference.
    lower_ns: Option<i64>,
    /// Upper bound of the difference.
    upper_ns: Option<i64>,
    /// Drift of the difference, and its error.
    drift_ppm: Option<f64>,
    drift_half_width_ppm: Option<f64>,
    min_round_trip_ns: Option<u64>,
    packets_used: u64,
    packets_rejected: u64,
    /// True if a UTC source contradicts the packets, or itself, and was dropped.
    external_refuted: bool,
    /// Indexes of the recordings whose source it is: both where packets alone contradict it.
    utc_refuted: Vec<u16>,
    /// A step of a clock below this is not seen in the packets, nanoseconds.
    smallest_visible_step_ns: Option<u64>,
    /// Hints at such a step, or at a drift beyond the assumption.
    hints: Vec<String>,
}

impl Clocks {
    /// `None` without information.
    fn of(alignment: &Alignment, nodes: (u16, u16)) -> Option<Self> {
        let (a, b) = nodes;
        let at_ns = alignment.amid_ns(a, b).or_else(|| Some(alignment.clock(a)?.samples().last()?.raw_ns))?;
        alignment.bounds_at(a, b, at_ns)?;
        let utc_refuted = alignment.refuted_utc(a, b);
        let pair = alignment.pair(a, b);
        let shown = alignment.difference_at(a, b, at_ns);
        let drift = pair.and_then(Recorded::drift_ppm);
        Some(Clocks {
            nodes,
            at_ns,
            state: alignment.state(a, b)?.to_string(),
            offset_ns: shown.estimate_ns,
            half_width_ns: shown.half_width_ns(),
            lower_ns: shown.bounds.lower,
            upper_ns: shown.bounds.upper,
            drift_ppm: drift.map(|(ppm, _)| ppm),
            drift_half_width_ppm: drift.map(|(_, half)| half),
            min_round_trip_ns: pair.and_then(Recorded::min_round_trip_ns),
            packets_used: pair.map_or(0, |pair| pair.counts().used),
            packets_rejected: pair.map_or(0, |pair| pair.counts().rejected),
            external_refuted: !utc_refuted.is_empty(),
            utc_refuted,
            smallest_visible_step_ns: pair.and_then(Recorded::smallest_visible_step_ns),
            hints: pair.map_or(&[][..], Recorded::hints).iter().map(ToString::to_string).collect(),
        })
    }
}

impl Joint {
    pub fn new(dirs: &[PathBuf], infos: &[NodeInfo], alignment: &Alignment, walked: &ReadSummary) -> Self {
        let recordings = dirs
            .iter()
            .zip(infos)
            .map(|(dir, info)| Recording { directory: dir.display().to_string(), host: info.host.clone() });
        let clocks = alignment.couples().filter_map(|nodes| Clocks::of(alignment, nodes));
        let amid = alignment.clocks().skip(1).find_map(|b| alignment.amid_ns(0, b));
        let contradiction = amid.and_then(|raw_0_ns| alignment.at(raw_0_ns).err()).map(|e| e.to_string());
        let (listed, others) = walked.pairings.split_at(walked.pairings.len().min(MOST_PAIRINGS));
        Joint {
            one_clock: (1..infos.len() as u16).all(|node| alignment.state(0, node).is_none()),
            recordings: recordings.collect(),
            clocks: clocks.collect(),
            contradiction,
            join: walked.join,
            connections: listed.to_vec(),
            other_connections: others.len() as u64,
        }
    }

    /// True if the summary has content: a single recording without translated addresses has none.
    pub fn is_worth_saying(&self) -> bool {
        self.recordings.len() > 1 || self.connections.iter().any(|c| c.translated.is_some())
    }

    /// The summary as text, one item per line.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        for (at, recording) in self.recordings.iter().enumerate().filter(|_| self.recordings.len() > 1) {
            let _ = writeln!(text, "recording {}: {} in {}", at + 1, self.host(at as u16), recording.directory);
        }
        for clocks in &self.clocks {
            self.clocks_line(&mut text, clocks);
        }
        if let Some(contradiction) = &self.contradiction {
            let _ = writeln!(text, "clocks: {contradiction}");
        }
        if self.recordings.len() > 1 && self.clocks.is_empty() {
            let what = if self.one_clock {
                "one, that of one host"
            } else {
                "UNSYNCHRONISED, because no packet certainly crossed"
            };
            let _ = writeln!(text, "clocks: {what}");
        }
        let _ = writeln!(
            text,
            "joined: {} of halves; alone: {}",
            counted(self.join.joined, "journey", "journeys"),
            counted(self.join.alone, "half", "halves")
        );
        if self.recordings.len() > 1 && self.join.joined > 0 && self.join.uncertain == self.join.joined {
            text.push_str("nothing shows that these are recordings of one network: equal addresses and identifications alone joined them\n");
        }
        for connection in
            self.connections.iter().filter(|c| self.recordings.len() > 1 || c.translated.is_some())
        {
            connection_line(&mut text, connection);
        }
        if self.other_connections > 0 && self.recordings.len() > 1 {
            let _ =
                writeln!(text, "  and {} more", counted(self.other_connections, "connection", "connections"));
        }
        text
    }

    fn host(&self, node: u16) -> &str {
        self.recordings.get(usize::from(node)).map_or("", |recording| &recording.host)
    }

    fn clocks_line(&self, text: &mut String, clocks: &Clocks) {
        let (a, b) = (self.host(clocks.nodes.0), self.host(clocks.nodes.1));
        let _ = write!(text, "clocks: {b} against {a} {}", clocks.state);
        if let (Some(offset_ns), Some(half_width_ns)) = (clocks.offset_ns, clocks.half_width_ns) {
            let _ = write!(text, " {} ± {}", signed(offset_ns), duration(half_width_ns));
            if offset_ns.unsigned_abs() <= half_width_ns {
                text.push_str(" (which is ahead is not resolvable)");
            }
        } else {
            for (what, bound) in [("at least", clocks.lower_ns), ("at most", clocks.upper_ns)] {
                if let Some(ns) = bound {
                    let _ = write!(text, " {what} {}", signed(ns));
                }
            }
        }
        if let Some(drift) = clocks.drift_ppm.zip(clocks.drift_half_width_ppm) {
            let _ = write!(text, ", drift {}", format::drift(drift));
        }
        if let Some(round_trip_ns) = clocks.min_round_trip_ns {
            let _ = write!(text, ", shortest round trip {}", duration(round_trip_ns));
        }
        let used = counted(clocks.packets_used, "packet", "packets");
        let _ = writeln!(text, "; {used} used, {} rejected", count(clocks.packets_rejected));
        for hint in &clocks.hints {
            let _ = writeln!(text, "clocks: {b} against {a} suspect: {hint}");
        }
        if let Some(step_ns) = clocks.smallest_visible_step_ns.filter(|_| !clocks.hints.is_empty()) {
            let step = duration(step_ns);
            let _ = writeln!(text, "clocks: {b} against {a}: a step of a clock below {step} would not be seen");
        }
        match clocks.utc_refuted.as_slice() {
            [] => {}
            [one] => {
                let _ = writeln!(
                    text,
                    "clocks: the UTC of {} is not as good as claimed: it contradicts itself",
                    self.host(*one)
                );
            }
            _ => {
                let _ = writeln!(
                    text,
                    "clocks: the UTC of {a} or {b} is not as good as claimed: packets contradict it"
                );
            }
        }
    }
}

fn connection_line(text: &mut String, c: &Pairing) {
    let _ = write!(text, "  {} {}→{}: {}", c.proto, c.from, c.to, counted(c.joined, "journey", "journeys"));
    if c.uncertain > 0 {
        let _ = write!(
            text,
            ", {} of them uncertain: equal identifications alone prove nothing",
            count(c.uncertain)
        );
    }
    if let Some((from, to)) = c.translated {
        let _ = write!(text, ", through an address translation: arrives as {from}→{to}");
    }
    if let Some(because) = c.because {
        let alone = counted(c.tx_only + c.rx_only, "half", "halves");
        let _ = write!(text, "; {alone} not joined, because {because}");
    }
    text.push('\n');
}

/// `+3600.000000012 s`: all digits, because the small ones matter.
fn signed(ns: i64) -> String {
    let (sign, ns) = (if ns < 0 { '−' } else { '+' }, ns.unsigned_abs());
    format!("{sign}{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}
