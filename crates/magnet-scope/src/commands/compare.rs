//! `magnet-scope compare A B`: where the time went in one recording and not in the other.

mod text;

use crate::reporting::{self, Piece};
use crate::{output, sessions};
use anyhow::Result;
use magscope_core::compare::{Side, compare, sides};
use magscope_core::source::Source;
use std::path::PathBuf;

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recording to compare with: before
    a: PathBuf,
    /// The recording that is compared: after
    b: PathBuf,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Prints the comparison.
pub fn run(args: &Args) -> Result<()> {
    let (in_a, in_b) = (sessions::open(&args.a)?, sessions::open(&args.b)?);
    let (mut a, mut b) = sides(in_a.info(), in_b.info());
    read(&mut a, &mut in_a.replay(None, None))?;
    read(&mut b, &mut in_b.replay(None, None))?;
    let comparison = compare(&a, &b);
    if args.json {
        output::json(&comparison)
    } else {
        output::text(&text::render(&comparison, reporting::width()))
    }
}

fn read(side: &mut Side, source: &mut impl Source) -> Result<()> {
    reporting::walk(source, |piece| match piece {
        Piece::Batch(batch) => side.batch(batch),
        Piece::Journey(journey, _) => side.journey(journey),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{Generator, GeneratorOptions};

    #[test]
    fn the_text_is_readable_at_80_columns() {
        let generator = |seed, events| {
            Generator::new(GeneratorOptions { seed, events, lose_every: 7, ..GeneratorOptions::default() })
        };
        // From 1 µs an event to 2 µs: everything is slower.
        let mut slow = Generator::new(GeneratorOptions {
            seed: 3,
            events: 40_000,
            events_per_s: 500_000,
            ..GeneratorOptions::default()
        });
        let (mut a, mut b) = sides(slow.info(), slow.info());
        read(&mut a, &mut generator(1, 40_000)).expect("a generator never fails");
        read(&mut b, &mut slow).expect("a generator never fails");
        let slower = compare(&a, &b);
        for width in [80, 100] {
            let text = text::render(&slower, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("slower: p50 ×") && text.contains("99 %"), "{text}");
            assert!(text.contains("resent"), "{text}");
        }
        assert!(text::render(&compare(&a, &a), 80).contains("no difference that n="));
        let (nothing, _) = sides(slow.info(), slow.info());
        assert!(text::render(&compare(&nothing, &nothing), 80).contains("No journeys"));
        assert!(text::render(&compare(&a, &nothing), 80).contains("only in A"));
    }
}
