//! `magnet-scope query DIR… "SELECT …"`: SQL over recordings.

mod feed;

use super::export::target::{self, Target};
use crate::cli::{LimitArgs, PartArgs};
use crate::failure::{Cancelled, Hint, Usage};
use crate::output;
use crate::recordings::Recordings;
use crate::signals::Stop;
use anyhow::{Context as _, Result};
use clap::ValueEnum;
use magscope_export::ExportError;
use magscope_export::answer::{Answer, Form};
use magscope_query::{Ended, Engine, QueryError};
use magscope_scope::format::count;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Arguments of `query`.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "magnet-scope query [OPTIONS] <DIR>... <SQL>",
    after_help = "Tables: events, hops, journeys, exchanges, nested, flows, tcp, losses, clock, hits, heads, counts, sums, histograms \
    (docs/formats.md). Besides SQL's own functions there are \
    percentile(ns, 99), journey_duration(hop, ts_ns, at_return), and the tables hop_pair('dev.queue', 'dev.xmit'), \
    between_nodes('client', 'server') and periods(1000), sums over so many milliseconds. docs/queries.md has queries to begin with.\n\n  \
    magnet-scope query my.session \"SELECT hop, percentile(latency_ns, 99) FROM hops WHERE whole GROUP BY hop\""
)]
pub struct Args {
    /// The directories that `magnet-scope record` made, 64 at most, and the query as the last argument; options may come anywhere
    // One list of both, because a positional behind a list of directories would end at the first option.
    #[arg(value_name = "DIR|SQL", required = true, num_args = 1..=65)]
    dirs_and_sql: Vec<PathBuf>,
    /// Output file; `-` is stdout
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    output: PathBuf,
    /// Replace an existing output
    #[arg(long)]
    replace: bool,
    /// The output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: Format,
    #[command(flatten)]
    part: PartArgs,
    /// Memory limit of the query; ORDER BY, DISTINCT and GROUP BY beyond it use a temporary file (in TMPDIR),
    /// one side of a join and the values of a count(DISTINCT …) fail
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse, default_value = "1GiB")]
    memory: u64,
    #[command(flatten)]
    limits: LimitArgs,
}

impl Args {
    /// The recordings and the query behind them.
    fn dirs_and_sql(&self) -> Result<(&[PathBuf], &str)> {
        match self.dirs_and_sql.split_last() {
            Some((sql, dirs)) if !dirs.is_empty() => {
                let sql = sql.to_str().ok_or_else(|| Usage("the query is no UTF-8".to_owned()))?;
                Ok((dirs, sql))
            }
            _ => {
                let what =
                    "a query needs a recording and the SQL behind it: magnet-scope query DIR \"SELECT …\"";
                Err(Usage(what.to_owned()).into())
            }
        }
    }
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, ValueEnum)]
enum Format {
    #[default]
    /// Aligned columns, to be read
    Table,
    /// Comma-separated values
    Csv,
    /// A JSON object a row
    Jsonl,
    /// A Parquet file
    Parquet,
}

impl From<Format> for Form {
    fn from(format: Format) -> Self {
        match format {
            Format::Table => Self::Text,
            Format::Csv => Self::Csv,
            Format::Jsonl => Self::JsonLines,
            Format::Parquet => Self::Parquet,
        }
    }
}

/// Runs the query.
pub fn run(args: &Args) -> Result<()> {
    let (dirs, sql) = args.dirs_and_sql()?;
    let stop = Stop::on_signals()?;
    let limits = args.limits.limits();
    let recordings = Arc::new(Recordings::open(dirs, args.part, limits)?);
    let memory_bytes = usize::try_from(args.memory).unwrap_or(usize::MAX);
    let missing: Vec<String> = recordings.missing().into_iter().chain(recordings.clocks_apart()).collect();
    let engine = Engine::new(&feed::of(recordings.clone(), limits), memory_bytes)
        .map_err(|error| Stopped::from(error).into_user_error(&args.output))?;
    let target = if args.output == Path::new("-") {
        Target::stdout(None)
    } else {
        Target::at(&args.output, false, args.replace, None)?
    };
    let file = target.create("answer").with_context(|| target::cannot(&args.output))?;
    let mut answer = Answer::new(args.format.into(), file);
    let ended = engine.query(sql, &|| stop.is_raised(), |batch| Ok::<_, Stopped>(answer.rows(batch)?));
    recordings.note_damage();
    let more = match ended {
        Ok(Ended::Whole) => answer.finish().map_err(Stopped::from),
        Ok(Ended::Stopped) => {
            return Err(Cancelled("cancelled; the answer is not whole".to_owned()).into());
        }
        Err(stopped) => Err(stopped),
    };
    let more = more.map_err(|stopped| stopped.into_user_error(&args.output))?;
    target.commit()?;
    if more > 0 {
        let what = "more rows; --format csv, jsonl or parquet writes them all, LIMIT fewer";
        output::note(&format!("{} {what}", count(more)));
    }
    for missing in &missing {
        output::note(missing);
    }
    Ok(())
}

/// Reason for an incomplete answer.
#[derive(Debug, thiserror::Error)]
enum Stopped {
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Export(#[from] ExportError),
}

impl Stopped {
    /// The error for the user.
    fn into_user_error(self, output: &Path) -> anyhow::Error {
        match self {
            Stopped::Export(error) => anyhow::Error::new(error).context(target::cannot(output)),
            Stopped::Query(error) => {
                let (likely, next) = error.hint();
                anyhow::Error::new(error).context(Hint::new("the query cannot be answered", likely, next))
            }
        }
    }
}
