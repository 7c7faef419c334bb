//! A comparison of two recordings, of which the second takes twice as long.

use magscope_core::Correlator;
use magscope_core::hop::HopSet;
use magscope_core::journey::Limits;
use magscope_core::stored_context::StoredContext;
use magscope_gui::{Compared, Spreads};
use magscope_report::compare::{Run, Side, compare};

/// The comparison.
pub fn compared() -> Compared {
    let (before, after) = (side(1), side(2));
    Compared {
        comparison: compare(&before.0, &after.0),
        names: ("before.session".to_owned(), "after.session".to_owned()),
        spreads: (before.1, after.1),
        notes: Vec::new(),
    }
}

/// Requests at a rate, correlated into one side of a comparison, with all times multiplied.
fn side(times: u64) -> (Side, Spreads) {
    let info = super::made_up::info();
    let (mut side, mut spreads) = (Side::default(), Spreads::default());
    // The number of recordings that a verdict needs.
    for per_s in [390.0, 400.0, 410.0] {
        let mut correlator = Correlator::of_node(&info, Limits::default());
        let (mut run, mut done) = (Run::new(&info, HopSet::all()), Vec::new());
        let mut world = super::made_up::World::new(per_s);
        for tenth in 1..=20 {
            let mut batch = world.batch_until(tenth * 100_000_000).clone();
            for event in &mut batch.events {
                event.time_ns *= times;
            }
            batch.watermark_ns *= times;
            correlator.push(&batch, &mut done);
        }
        for journey in &done {
            run.journey(journey, &StoredContext::default());
            spreads.add(journey);
        }
        side.add(run);
    }
    (side, spreads)
}
