//! `magnet-scope export DIR… --format FORMAT -o OUT`: recordings in formats of other tools.
//!
//! The recordings are read once, in constant memory. The output gets its final name when complete.

mod compress;
pub mod follow;
pub mod format;
mod progress;
#[cfg(feature = "gui")]
pub mod selection;
pub(super) mod target;

use crate::cli::PartArgs;
use crate::cli::{LimitArgs, SessionsArgs};
use crate::failure::{Cancelled, Usage};
use crate::recordings::Recordings;
use crate::signals::Stop;
use crate::{output, reporting};
use anyhow::{Context, Result};
use compress::Compression;
use format::Format;
use magscope_core::{Filter, Hop};
use magscope_export::format::pcapng::{WIRE, reason_for_none};
use magscope_export::{Chosen, Export, ExportError, Table, TimeLine, Written};
use magscope_scope::format::{bytes, count};
use magscope_timeline::merged_reader::Piece;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use target::Target;

/// Arguments of `export`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Tables: events, hops (a row a journey and hop), journeys, exchanges (requests with their responses), nested, flows, tcp, losses, clock, hits, heads, counts, sums, histograms; docs/formats.md \
    describes each column.\n\n\
    magnet-scope export my.session --format parquet -o my.parquet\n  \
    magnet-scope export a.session b.session --format ulm -o - --where 'total > 1ms' | less"
)]
pub struct Args {
    #[command(flatten)]
    sessions: SessionsArgs,
    /// Verify the recordings first, and fail if one is damaged
    #[arg(long)]
    strict: bool,
    /// The output format; by default the ending of the output's name selects it
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    part: PartArgs,
    /// Output file or directory; `-` is stdout
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Tables to write, separated by commas; one table becomes a file, several a directory
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    tables: Vec<Table>,
    /// Export only journeys that match, as in `journeys`: `total > 5ms and proto = tcp`
    #[arg(long = "where", value_name = "EXPR")]
    filter: Option<Filter>,
    #[command(flatten)]
    limits: LimitArgs,
    /// pcapng: packets at these hops, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = WIRE)]
    hops: Vec<Hop>,
    /// Export sums over intervals of this length in place of events, by hop, flow, process and cgroup: `1s`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::positive, conflicts_with_all = ["tables", "follow"])]
    every: Option<Duration>,
    /// Parquet: hops and journeys in directories by `wire_bucket`, so that engines join two hosts without moving rows
    #[arg(long)]
    buckets: bool,
    /// Compress the output
    #[arg(long, value_name = "HOW", num_args = 0..=1, default_missing_value = "zstd", require_equals = true)]
    compress: Option<Compression>,
    /// Replace an existing output
    #[arg(long)]
    replace: bool,
    /// Follow a running recording until it ends or Ctrl-C: for ULM, BP and JSON lines
    #[arg(long)]
    follow: bool,
}

/// Writes it.
pub fn run(args: &Args) -> Result<()> {
    let part = args.part;
    let unsaid = || {
        let names = format::names();
        Usage(format!("say which format with --format, or by the end of the output's name: {names}"))
    };
    let format = args.format.or_else(|| Format::of(&args.output)).ok_or_else(unsaid)?;
    args.check(format, part)?;
    let stop = Stop::on_signals()?;
    let chosen = args.chosen();
    let target = args.target(format, &chosen)?;
    if args.follow {
        return follow::run(args, format, chosen, target, &stop);
    }
    let began = Instant::now();
    let limits = args.limits.limits();
    let recordings = Recordings::open(&args.sessions.dirs, part, limits)?;
    if args.strict {
        recordings.require_whole()?;
    }
    let asked = args.filter.as_ref().map(Filter::hops).unwrap_or_default();
    reporting::note_unserved("--where", asked, recordings.infos());
    if format == Format::Pcapng {
        reporting::note_unserved("--hops", args.hops.iter().copied().collect(), recordings.infos());
    }
    let about = recordings.about();
    let line = TimeLine { to_utc_ns: recordings.to_utc_ns() };
    if line.to_utc_ns.is_none() {
        output::note("the recording has no clock samples: times are those of its own clock, not UTC");
    }
    let writer = format.writer(&target, recordings.infos(), line, chosen, &about, args);
    let mut fed = ExportFeed::new(writer.with_context(|| target::cannot(&args.output))?, format);
    let bar = progress::bar(recordings.events());
    let failed = RefCell::new(&mut fed);
    let walked = recordings.walk_watched(
        limits,
        &|batch| {
            bar.inc(batch.events.len() as u64);
            !stop.is_raised() && failed.borrow().error.is_none()
        },
        |piece| failed.borrow_mut().piece(&piece),
    );
    bar.finish_and_clear();
    recordings.note_damage();
    let walked = walked?;
    if stop.is_raised() {
        return Err(Cancelled("cancelled; nothing was written".to_owned()).into());
    }
    reporting::note_evicted(&walked);
    let written = fed.finish().map_err(|error| target::failed(&args.output, error))?;
    let size = target.commit()?;
    print_written(&args.output, &written, size, began);
    recordings.missing().iter().chain(&recordings.clocks_apart()).for_each(|note| output::note(note));
    if args.filter.is_some() && format.is_tables() && args.every.is_none() {
        let whole: Vec<&str> = args
            .chosen()
            .tables
            .iter()
            .filter(|table| !table.is_filtered())
            .map(|table| table.name())
            .collect();
        if !whole.is_empty() {
            output::note(&format!("`--where` chooses among journeys: {} are whole", whole.join(", ")));
        }
    }
    Ok(())
}

/// Note of formats that cannot hold [`magscope_core::Synthesis`].
const ADDED_UP: &str = "sums that the kernel added up are left out: they are in parquet, csv and jsonl";

/// Feeds an export until its first error.
struct ExportFeed<'e> {
    export: Box<dyn Export + 'e>,
    format: Format,
    /// Number of kernel sums that the format cannot hold.
    sums: u64,
    error: Option<ExportError>,
}

impl<'e> ExportFeed<'e> {
    fn new(export: Box<dyn Export + 'e>, format: Format) -> Self {
        ExportFeed { export, format, sums: 0, error: None }
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        if let Piece::Batch(_, batch) = piece
            && !self.format.is_tables()
        {
            self.sums += batch.synthesis.len() as u64;
        }
        if self.error.is_none() {
            self.error = self.export.piece(piece).err();
        }
    }

    fn finish(mut self) -> Result<Written, ExportError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut written = self.export.finish()?;
        if self.sums > 0 {
            written.left_out.push((ADDED_UP.into(), self.sums));
        }
        Ok(written)
    }
}

impl Args {
    fn chosen(&self) -> Chosen {
        let tables = if self.every.is_some() { vec![Table::Periods] } else { self.tables.clone() };
        Chosen { tables, filter: self.filter.clone() }
    }

    fn check(&self, format: Format, part: PartArgs) -> Result<()> {
        let stdout = self.output == Path::new("-");
        let dir = format.is_dir(&self.chosen(), self.buckets);
        let usage = |text: &str| Err(Usage(text.to_owned()).into());
        if stdout && dir {
            return usage(
                "several tables make a directory, which does not go to stdout; choose one with --tables",
            );
        }
        if self.filter.is_some() && format == Format::Magnet {
            return usage("--where chooses journeys, and magnet has no journeys: it has every event");
        }
        if !self.tables.is_empty() && !format.is_tables() {
            return usage("--tables is for parquet, csv and jsonl; the other formats have no tables");
        }
        if self.buckets && format != Format::Parquet {
            return usage("--buckets lays out Parquet files; the other formats have none");
        }
        if self.every.is_some() && !format.is_tables() {
            return usage("--every makes a table: write it as parquet, csv or jsonl");
        }
        if self.every.is_some_and(|every| every < Duration::from_millis(1)) {
            return usage("--every is at least `1ms`");
        }
        if self.compress.is_some() && !format.can_compress() {
            return usage("this format is not compressed from outside: those who read it would not know it");
        }
        if format == Format::Pcapng
            && let Some(reason) = reason_for_none(&self.hops)
        {
            return usage(&reason);
        }
        if self.follow && !format.can_follow() {
            return usage(
                "--follow is for ulm, bp and jsonl: what the other formats write is whole only at the end",
            );
        }
        if self.follow && (part.from.is_some() || part.until.is_some()) {
            return usage(
                "--follow goes on from the beginning to the end; without it --from and --until choose a part",
            );
        }
        if self.follow && self.sessions.dirs.len() > 1 {
            return usage(
                "--follow goes on with one recording: the clocks of several are known only at their end",
            );
        }
        Ok(())
    }

    fn target(&self, format: Format, chosen: &Chosen) -> Result<Target> {
        if self.output == Path::new("-") {
            return Ok(Target::stdout(self.compress));
        }
        Target::at(&self.output, format.is_dir(chosen, self.buckets), self.replace, self.compress)
    }
}

/// Prints a summary for the user.
fn print_written(path: &Path, written: &Written, size: Option<u64>, began: Instant) {
    let rows: Vec<String> = written.rows.iter().map(|(what, n)| format!("{} {what}", count(*n))).collect();
    let rows = if rows.is_empty() { "nothing".to_owned() } else { rows.join(", ") };
    let seconds = began.elapsed().as_secs_f64();
    if let Some(size) = size {
        let path = path.display();
        output::note(&format!("{path}: {rows}; {} in {seconds:.1} s", bytes(size)));
    } else {
        output::note(&format!("{rows}; in {seconds:.1} s"));
    }
    for (what, n) in &written.left_out {
        output::note(&format!("{} {what}", count(*n)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    #[test]
    fn hops_without_packets_are_wrong_usage_of_pcapng_alone() {
        let words = ["magnet-scope", "export", "a.session", "-o", "a.pcapng", "--hops", "app.send"];
        let cli = Cli::try_parse_from(words).expect("a command line");
        let Some(Command::Export(args)) = cli.command else { panic!("another subcommand") };
        let error = args.check(Format::Pcapng, args.part).expect_err("the file would be empty");
        assert!(error.downcast_ref::<Usage>().is_some(), "{error:#}");
        assert!(error.to_string().contains("no packets pass at the chosen hops (app.send)"), "{error:#}");
        assert!(args.check(Format::Ulm, args.part).is_ok());
    }
}
