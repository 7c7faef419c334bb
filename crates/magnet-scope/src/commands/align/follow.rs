//! `align --follow`: clocks of running recordings, from the packets so far.

use super::Args;
use super::row::HintRow;
use super::text::{seconds_apart, who_is_ahead};
use crate::growing::Growing;
use crate::output;
use crate::recordings::FoundDamage;
use crate::signals::Stop;
use anyhow::Result;
use jiff::Timestamp;
use magscope_core::node::{NodeInfo, make_names_unique};
use magscope_core::source::{Progress, Source};
use magscope_timeline::align::{Alignment, Online};
use magscope_timeline::merged_reader::Walker;
use magscope_timeline::pair::{Live, State, smallest_visible_step_ns};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum wait for one recording while others wait too.
const PATIENCE: Duration = Duration::from_millis(20);

/// The current state of two clocks.
#[derive(Debug, Serialize)]
struct Now {
    utc: String,
    /// Indexes of the recordings and names of their hosts.
    a: u16,
    b: u16,
    hosts: [String; 2],
    /// Basis of the bound.
    state: String,
    /// Time of the newest packet between the two, R of A, nanoseconds; absent without a bound.
    at_ns: Option<u64>,
    /// R of B minus R of A at that time, nanoseconds.
    difference_ns: Option<i64>,
    /// The difference is at least this, nanoseconds.
    lower_ns: Option<i64>,
    /// The difference is at most this, nanoseconds.
    upper_ns: Option<i64>,
    /// Error of the difference, nanoseconds.
    half_width_ns: Option<u64>,
    used: u64,
    rejected: u64,
    undecided: u64,
    /// Number of detected steps of either clock.
    steps: u64,
    /// A step of a clock below this would not be seen in the packets, nanoseconds.
    smallest_visible_step_ns: Option<u64>,
    /// Hints at steps that packets cannot prove, or at a drift beyond the assumption; with one the pair is SUSPECT.
    hints: Vec<HintRow>,
}

pub(super) fn run(args: &Args, every: Duration) -> Result<()> {
    let stop = Stop::on_signals()?;
    let damage = Arc::new(FoundDamage::default());
    let follows = args.recordings.iter().map(|dir| Growing::new(dir.clone(), stop.clone(), damage.clone()));
    let follows = follows.collect::<Result<Vec<_>>>()?;
    let mut infos: Vec<NodeInfo> = follows.iter().map(|follow| follow.info().clone()).collect();
    make_names_unique(&mut infos);
    let online = Online::new(&infos);
    if online.look(|all| all.couples().next().is_none()) {
        output::note("all of one host since one boot: they share a clock, and there is nothing to align");
        return Ok(());
    }
    let sources = follows.into_iter().map(|follow| Box::new(follow) as Box<dyn Source>).collect();
    let mut walker = Walker::live(sources, &online, args.limits.limits(), PATIENCE);
    let mut reported = Instant::now();
    loop {
        let progress = walker.step(&mut |_| {}).map_err(anyhow::Error::from_boxed)?;
        if progress == Progress::End || reported.elapsed() >= every {
            reported = Instant::now();
            print(&online, &infos, args.json)?;
        }
        if progress == Progress::End {
            damage.note();
            return Ok(());
        }
    }
}

fn print(online: &Online, infos: &[NodeInfo], json: bool) -> Result<()> {
    let utc = Timestamp::now();
    let rows =
        online.look(|all| all.couples().map(|pair| Now::of(online, all, infos, pair, utc)).collect::<Vec<_>>());
    for row in rows {
        output::text(&if json { serde_json::to_string(&row)? } else { row.line() })?;
    }
    Ok(())
}

impl Now {
    fn of(
        online: &Online,
        all: &Alignment<Live>,
        infos: &[NodeInfo],
        (a, b): (u16, u16),
        utc: Timestamp,
    ) -> Self {
        let pair = all.pair(a, b);
        let at_ns = pair.and_then(Live::newest_ns);
        let difference = at_ns.or_else(|| all.amid_ns(a, b)).map(|at_ns| all.difference_at(a, b, at_ns));
        let counts = online.counts(a, b);
        let host = |node: u16| infos.get(usize::from(node)).map_or_else(String::new, |info| info.host.clone());
        Now {
            utc: utc.to_string(),
            a,
            b,
            hosts: [host(a), host(b)],
            state: all.state(a, b).unwrap_or(State::Unsynchronised).to_string(),
            at_ns,
            difference_ns: difference.and_then(|difference| difference.estimate_ns),
            lower_ns: difference.and_then(|difference| difference.bounds.lower),
            upper_ns: difference.and_then(|difference| difference.bounds.upper),
            half_width_ns: difference.and_then(|difference| difference.half_width_ns()),
            used: counts.used,
            rejected: counts.rejected,
            undecided: counts.quarantined + counts.between_epochs,
            steps: pair.map_or(0, |pair| pair.certified().steps()),
            smallest_visible_step_ns: difference
                .and_then(|difference| difference.half_width_ns())
                .map(smallest_visible_step_ns),
            hints: HintRow::of(pair.map_or(&[][..], Live::hints)),
        }
    }

    fn line(&self) -> String {
        let clock = self.utc.get(11..19).unwrap_or_default();
        let [a, b] = &self.hosts;
        let bound = self.half_width_ns.map_or_else(String::new, |ns| format!(" ±{}", seconds_apart(ns)));
        let who = self.difference_ns.zip(self.half_width_ns).map_or_else(String::new, |(ns, half_width_ns)| {
            let ahead = (ns.unsigned_abs() > half_width_ns).then_some(ns > 0);
            format!("  {}", who_is_ahead(ns, ahead, a, b))
        });
        let Now { used, rejected, undecided, steps, .. } = self;
        let steps = if *steps > 0 { format!(", {steps} steps") } else { String::new() };
        let mut hints: Vec<String> =
            self.hints.iter().map(|hint| format!("{clock}  {a}–{b}  suspect: {}\n", hint.text)).collect();
        if let Some(ns) = self.smallest_visible_step_ns.filter(|_| !hints.is_empty()) {
            let step = seconds_apart(ns);
            hints.push(format!("{clock}  {a}–{b}  a step of a clock below {step} would not be seen\n"));
        }
        format!(
            "{clock}  {a}–{b}  {}{bound}{who}; packets: {used} used, {rejected} rejected, {undecided} undecided{steps}\n{}",
            self.state,
            hints.concat()
        )
    }
}
