//! Passes over the recordings for the scans of a query.

use crate::recordings::Recordings;
use crate::{output, reporting};
use magscope_core::Hop;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::Progress;
use magscope_export::table::{Pairs, Rows};
use magscope_export::{Chosen, Export, ExportError, Periods, TimeLine};
use magscope_query::{Feed, Out, Want};
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
            Maker::Periods(mut periods) => periods.finish().map(|_| ()),
            Maker::Pairs(mut pairs) => {
                pairs.take(true).map(|batch| batch.into_iter().for_each(|batch| out.give(batch)))
            }
        }
    }
}
