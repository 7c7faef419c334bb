//! Comparison of two recordings or sets of recordings.

use crate::failure::Cancelled;
use crate::recordings::Recordings;
use crate::sessions;
use anyhow::Result;
use magscope_core::hop::HopSet;
use magscope_core::journey::Limits;
use magscope_gui::{Compared, Job, Spreads};
use magscope_report::compare::{Run, Side, common_hops, compare};
use magscope_timeline::merged_reader::Piece;
use std::cell::Cell;
use std::path::PathBuf;

use crate::cli::PartArgs;

/// Reads both and compares them.
pub fn compared(before: &[PathBuf], after: &[PathBuf], limits: Limits, job: &Job) -> Result<Compared> {
    let open = |dirs: &[PathBuf]| {
        Recordings::open_watched(dirs, PartArgs::default(), limits, &|_| !job.is_cancelled())
    };
    let (a, b) = (open(before)?, open(after)?);
    sessions::require_distinct(a.opened().chain(b.opened()))?;
    let hops = common_hops(a.infos().iter().chain(b.infos()));
    let all = (a.events() + b.events()).max(1);
    let read = Cell::new(0_u64);
    let (side_a, spread_a) = side(&a, hops, limits, job, &read, all)?;
    let (side_b, spread_b) = side(&b, hops, limits, job, &read, all)?;
    let name = |dirs: &[PathBuf]| {
        let names =
            dirs.iter().map(|dir| dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned());
        names.collect::<Vec<_>>().join(" + ")
    };
    Ok(Compared {
        comparison: compare(&side_a, &side_b),
        names: (name(before), name(after)),
        spreads: (spread_a, spread_b),
        notes: damage_of(&a, &b),
    })
}

/// Damage of both sides, found at the opening and by reading, which must be over.
fn damage_of(before: &Recordings, after: &Recordings) -> Vec<String> {
    let of = |side: &'static str, recordings: &Recordings| {
        recordings.damage().into_iter().map(move |what| format!("{side}: {what}")).collect::<Vec<_>>()
    };
    [of("before", before), of("after", after)].concat()
}

fn side(
    recordings: &Recordings,
    hops: HopSet,
    limits: Limits,
    job: &Job,
    read: &Cell<u64>,
    all: u64,
) -> Result<(Side, Spreads)> {
    let info = recordings.infos().first().cloned().unwrap_or_default();
    let (mut side, mut run, mut spreads) = (Side::default(), Run::new(&info, hops), Spreads::default());
    recordings.walk_watched(
        limits,
        &|batch| {
            read.set(read.get() + batch.events.len() as u64);
            job.at(read.get() as f64 / all as f64);
            !job.is_cancelled()
        },
        |piece| match piece {
            Piece::Batch(_, batch) => run.batch(batch),
            Piece::Journey(journey, _, context) => {
                run.journey(journey, context);
                spreads.add(journey);
            }
        },
    )?;
    if job.is_cancelled() {
        return Err(Cancelled("cancelled".to_owned()).into());
    }
    side.add(run);
    Ok((side, spreads))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_that_only_reading_finds_is_in_the_notes() {
        let golden = |name: &str| {
            let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
            vec![PathBuf::from(golden).join(name).join("session")]
        };
        let (damaged, whole) = (golden("damaged"), golden("demo"));
        let compared = compared(&damaged, &whole, Limits::default(), &Job::default());
        let notes = compared.expect("golden recordings").notes;
        let by_reading = notes.iter().find(|note| note.contains("the checksum differs"));
        assert!(by_reading.is_some_and(|note| note.starts_with("before: ")), "{notes:?}");
        assert!(!notes.iter().any(|note| note.starts_with("after: ")), "{notes:?}");
    }
}
