//! Passes over the recordings for the scans of a query.

use crate::recordings::Recordings;
use crate::{output, reporting};
use magscope_core::Hop;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::Progress;
use magscope_export::table::{Pairs, Rows};
use magscope_export::{Chosen, Export, ExportError, Periods, TableWriter, TimeLine};
use magscope_query::{Feed, Out, Want};
use magscope_scope::format::count;
use magscope_timeline::merged_reader::Piece;
use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;

/// Maximum number of names in a note.
const MOST_NAMES: usize = 16;

/// A feed of these recordings.
pub fn of(recordings: Arc<Recordings>, limits: Limits) -> Feed {
    Arc::new(move |want, out| walk(&recordings, limits, want, out).map_err(|error| format!("{error:#}")))
}

fn walk(recordings: &Recordings, limits: Limits, want: &Want, out: &Out) -> anyhow::Result<()> {
    let mut maker = Maker::new(recordings, want, out);
    let mut walker = recordings.walker(limits, None);
    let mut failed = None;
    while failed.is_none() && out.is_wanted() {
        let step = walker.step(&mut |piece| {
            if failed.is_none() {
                failed = maker.piece(&piece, out).err();
            }
        });
        if step.map_err(anyhow::Error::from_boxed)? != Progress::More {
            break;
        }
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(maker.finish(out)?),
    }
}

/// Prints that no recording has a host or namespace of this name: `between_nodes` is empty then.
fn note_unknown(name: &str, infos: &[NodeInfo]) {
    let names = || {
        infos.iter().flat_map(|info| iter::once(&info.host).chain(info.netns.iter().map(|netns| &netns.name)))
    };
    if !names().any(|other| other == name) {
        let there: BTreeSet<&str> = names().map(String::as_str).collect();
        let there: Vec<&str> = there.into_iter().take(MOST_NAMES).collect();
        output::note(&format!("no host or namespace is called `{name}`; there are {}", there.join(", ")));
    }
}

/// Ends sums over periods. Returns what came too late for its period, in words and with its number.
fn end_periods<W: TableWriter>(periods: &mut Periods<W>) -> Result<Vec<String>, ExportError> {
    let written = periods.finish()?;
    Ok(written.left_out.iter().map(|(what, n)| format!("{} {what}", count(*n))).collect())
}

/// Converts pieces to rows.
enum Maker {
    Rows(Box<Rows>),
    Pairs(Box<Pairs>),
    Periods(Box<Periods<Out>>),
}

impl Maker {
    fn new(recordings: &Recordings, want: &Want, out: &Out) -> Self {
        let (infos, line) = (recordings.infos(), TimeLine { to_utc_ns: recordings.to_utc_ns() });
        match want {
            Want::Table(table) => {
                Maker::Rows(Box::new(Rows::new(infos, line, Chosen { tables: vec![*table], filter: None })))
            }
            Want::Periods(every_ns) => {
                Maker::Periods(Box::new(Periods::new(infos, line, Chosen::default(), *every_ns, out.clone())))
            }
            Want::Between(from, to) => {
                reporting::note_unserved("hop_pair", [*from, *to].into_iter().collect(), infos);
                Maker::Pairs(Box::new(Pairs::new(infos, line, *from, *to)))
            }
            Want::Nodes(from, to) => {
                for name in [from, to] {
                    note_unknown(name, infos);
                }
                Maker::Pairs(Box::new(Pairs::new(infos, line, Hop::DevXmit, Hop::DevRecv).of_nodes(from, to)))
            }
        }
    }

    fn piece(&mut self, piece: &Piece<'_>, out: &Out) -> Result<(), ExportError> {
        match (self, piece) {
            (Maker::Rows(rows), piece) => rows.piece(piece, &mut |_, _, batch| {
                out.give(batch);
                Ok(())
            }),
            (Maker::Pairs(pairs), Piece::Journey(journey, _, context)) => {
                pairs.journey(journey, *context);
                pairs.take(false).map(|batch| batch.into_iter().for_each(|batch| out.give(batch)))
            }
            (Maker::Pairs(_), Piece::Batch(..)) => Ok(()),
            (Maker::Periods(periods), piece) => periods.piece(piece),
        }
    }

    fn finish(self, out: &Out) -> Result<(), ExportError> {
        match self {
            Maker::Rows(mut rows) => rows.finish(&mut |_, _, batch| {
                out.give(batch);
                Ok(())
            }),
            Maker::Periods(mut periods) => {
                end_periods(&mut *periods)?.iter().for_each(|late| output::note(late));
                Ok(())
            }
            Maker::Pairs(mut pairs) => {
                pairs.take(true).map(|batch| batch.into_iter().for_each(|batch| out.give(batch)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::source::Source;
    use magscope_core::{Generator, GeneratorOptions};
    use magscope_export::format::json::JsonLines;

    #[test]
    fn passes_that_come_too_late_for_their_period_are_counted() {
        let late = |every_ns| {
            let source = || Generator::new(GeneratorOptions { events: 40_000, ..GeneratorOptions::default() });
            let infos = [source().info().clone()];
            let writer = JsonLines::new(Box::new(Vec::<u8>::new()));
            let line = TimeLine { to_utc_ns: None };
            let mut periods = Periods::new(&infos, line, Chosen::default(), every_ns, writer).keeping_open(1);
            // The second time, all of it is late.
            for _ in 0..2 {
                let take = |piece: Piece<'_>| periods.piece(&piece).expect("memory takes all");
                reporting::walk(&mut source(), Limits::default(), take).expect("a generator never fails");
            }
            end_periods(&mut periods).expect("memory takes all")
        };
        assert!(late(u64::MAX).is_empty(), "one period has all");
        let words = late(1_000);
        assert!(words.len() == 1 && words[0].contains("came too late"), "{words:?}");
    }
}
