//! `magnet-scope compare A B`: significant differences between two recordings, or between several runs of one
//! workload.

mod text;

use crate::cli::LimitArgs;
use crate::failure::Usage;
use crate::recordings::FoundDamage;
use crate::reporting;
use crate::{output, sessions};
use anyhow::Result;
use magscope_core::journey::Limits;
use magscope_core::source::Source;
use magscope_report::compare::{Run, Side, common_hops, compare};
use magscope_session::Session;
use magscope_timeline::merged_reader::Piece;
use std::path::PathBuf;

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "magnet-scope compare [OPTIONS] A B\n       magnet-scope compare [OPTIONS] A1 A2 … -- B1 B2 …",
    after_help = "Two recordings of the same thing differ too. With three and more a side a step is called slower or \
    faster if the two sides differ by more than the recordings of one side do: five show smaller differences than three. \
    With fewer than three the figures have no interval and no advice."
)]
pub struct Args {
    /// Recordings before the change: one, or several and `--`
    #[arg(required = true, value_name = "A")]
    before: Vec<PathBuf>,
    /// Recordings after the change
    #[arg(last = true, value_name = "B")]
    after: Vec<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the comparison.
pub fn run(args: &Args) -> Result<()> {
    let (before, after) = args.sides()?;
    let mut in_a = sessions::open_all(&[before, after].concat())?;
    let in_b = in_a.split_off(before.len());
    let hops = common_hops(in_a.iter().chain(&in_b).map(Session::info));
    let limits = args.limits.limits();
    let damage = FoundDamage::default();
    let read = |dirs: &[PathBuf], sessions: &[Session]| {
        let mut side = Side::default();
        for (dir, session) in dirs.iter().map(PathBuf::as_path).zip(sessions) {
            let mut run = Run::new(session.info(), hops);
            if let Some((from_ns, to_ns)) = session.observed_ns() {
                run.observed(from_ns, to_ns);
            }
            read(&mut side, run, limits, &mut damage.replay(dir, session, (None, None)))?;
        }
        anyhow::Ok(side)
    };
    let comparison = compare(&read(before, &in_a)?, &read(after, &in_b)?);
    damage.note();
    if args.json {
        output::json(&comparison)
    } else {
        output::text(&text::render(&comparison, reporting::width()))
    }
}

impl Args {
    fn sides(&self) -> Result<(&[PathBuf], &[PathBuf])> {
        match (self.before.as_slice(), self.after.as_slice()) {
            ([a, b], []) => Ok((std::slice::from_ref(a), std::slice::from_ref(b))),
            (_, []) => {
                let text = "compare takes two recordings, as in `compare A B`, or several a side with `--` between \
                            them, as in `compare A1 A2 -- B1 B2`";
                Err(Usage(text.to_owned()).into())
            }
            sides => Ok(sides),
        }
    }
}

fn read(side: &mut Side, mut run: Run, limits: Limits, source: &mut impl Source) -> Result<()> {
    let walked = reporting::walk(source, limits, |piece| match piece {
        Piece::Batch(_, batch) => run.batch(batch),
        Piece::Journey(journey, _, context) => run.journey(journey, context),
    })?;
    reporting::note_evicted(&walked);
    side.add(run);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::hop::HopSet;
    use magscope_core::{Generator, GeneratorOptions};

    #[test]
    fn the_text_is_readable_at_80_columns() {
        let all = HopSet::all();
        let generator = |seed, events| {
            Generator::new(GeneratorOptions { seed, events, lose_every: 7, ..GeneratorOptions::default() })
        };
        // From 1 µs per event to 2 µs: everything is slower.
        let mut slow = Generator::new(GeneratorOptions {
            seed: 3,
            events: 40_000,
            events_per_s: 500_000,
            ..GeneratorOptions::default()
        });
        let read = |side: &mut Side, source: &mut Generator| {
            super::read(side, Run::new(source.info(), all), Limits::default(), source)
                .expect("a generator never fails");
        };
        let (mut a, mut b) = (Side::default(), Side::default());
        read(&mut a, &mut generator(1, 40_000));
        read(&mut b, &mut slow);
        let one_each = compare(&a, &b);
        for width in [80, 100] {
            let text = text::render(&one_each, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("no interval: too few") && text.contains("99 %"), "{text}");
            assert!(text.contains("resent") && text.contains("!  recordings of A: 1, of B: 1"), "{text}");
            assert!(!text.contains("slower") && !text.contains("look first"), "{text}");
        }
        let nothing = Side::default();
        assert!(text::render(&compare(&nothing, &nothing), 80).contains("No journeys"));
        assert!(text::render(&compare(&a, &nothing), 80).contains("only in A"));
    }

    #[test]
    fn several_runs_a_side_say_what_runs_differ_by() {
        let side = |seeds: std::ops::Range<u64>, events_per_s| {
            let mut side = Side::default();
            for seed in seeds {
                let options =
                    GeneratorOptions { seed, events: 20_000, events_per_s, ..GeneratorOptions::default() };
                let mut source = Generator::new(options);
                let run = Run::new(source.info(), HopSet::all());
                read(&mut side, run, Limits::default(), &mut source).expect("a generator never fails");
            }
            side
        };
        let (a, b, slow) = (side(1..4, 1_000_000), side(4..7, 1_000_000), side(7..10, 500_000));
        let same = text::render(&compare(&a, &b), 80);
        assert!(
            same.contains("3 recordings") && same.contains("no difference beyond what runs differ by"),
            "{same}"
        );
        assert!(!same.contains("slower:") && !same.contains("recordings of A:"), "{same}");
        let slower = text::render(&compare(&a, &slow), 80);
        assert!(slower.contains("slower: p50 ×") && slower.contains("runs of one side differ by"), "{slower}");
        assert!(slower.contains("TCP: slower") && slower.contains("look first at"), "{slower}");
        assert!([same, slower].iter().all(|text| text.lines().all(|line| line.chars().count() <= 80)));
    }

    #[test]
    fn sides_are_two_or_parted() {
        let args = |before: &[&str], after: &[&str]| Args {
            before: before.iter().map(PathBuf::from).collect(),
            after: after.iter().map(PathBuf::from).collect(),
            limits: LimitArgs { max_in_flight: 1 },
            json: false,
        };
        let lengths = |args: Args| args.sides().map(|(a, b)| (a.len(), b.len())).ok();
        assert_eq!(lengths(args(&["a", "b"], &[])), Some((1, 1)));
        assert_eq!(lengths(args(&["a"], &["b"])), Some((1, 1)));
        assert_eq!(lengths(args(&["a", "a"], &["b", "b", "b"])), Some((2, 3)));
        assert_eq!((lengths(args(&["a"], &[])), lengths(args(&["a", "b", "c"], &[]))), (None, None));
    }
}
