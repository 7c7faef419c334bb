//! Speed and size of each format: processor time of one thread, without the time for correlation of the same
//! events.
//!
//! usage: `cargo bench -p magscope-export [-- SESSION]`; the default input is the generator. Rounds are
//! interleaved; results are medians. `ONLY=parquet` selects formats by prefix, `EVENTS` limits the recording,
//! `ROUNDS=3` limits the rounds.

use magscope_core::journey::Limits;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Generator, GeneratorOptions, node::NodeInfo};
use magscope_export::format::chrome::Chrome;
use magscope_export::format::csv::Csv;
use magscope_export::format::json::JsonLines;
use magscope_export::format::magnet::Dump;
use magscope_export::format::marked::Marked;
use magscope_export::format::netlogger::{Dialect, NetLogger};
use magscope_export::format::parquet::{Layout, Parquet};
use magscope_export::format::pcapng::{Pcapng, WIRE};
use magscope_export::format::perfetto::Perfetto;
use magscope_export::format::tables::Tables;
use magscope_export::mark::Marks;
use magscope_export::{Chosen, Export, Output, Table, TimeLine};
use magscope_session::Session;
use magscope_timeline::align::Aligner;
use magscope_timeline::merged_reader::{self, Piece};
use rustix::time::{ClockId, clock_gettime};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LINE: TimeLine = TimeLine { to_utc_ns: Some(1_767_323_045_000_000_000) };

/// Counts and discards bytes.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicU64>);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Counted {
    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// Events in memory.
struct Recording {
    info: NodeInfo,
    batches: Vec<Batch>,
}

struct Played<'r>(&'r Recording, usize);

impl Source for Played<'_> {
    fn info(&self) -> &NodeInfo {
        &self.0.info
    }

    fn next(&mut self, batch: &mut Batch, _: Duration) -> Result<Progress, SourceError> {
        let Some(next) = self.0.batches.get(self.1) else { return Ok(Progress::End) };
        batch.clone_from(next);
        self.1 += 1;
        Ok(Progress::More)
    }
}

impl Recording {
    fn read(source: &mut dyn Source, most: usize) -> Self {
        let (info, mut batches, mut batch) = (source.info().clone(), Vec::new(), Batch::default());
        let mut events = 0;
        while events < most
            && source.next(&mut batch, Duration::ZERO).expect("it can be read") == Progress::More
        {
            events += batch.events.len();
            batches.push(batch.clone());
        }
        Recording { info, batches }
    }

    fn walk(&self, mut visit: impl FnMut(Piece<'_>)) {
        let alignment = Aligner::new(std::slice::from_ref(&self.info)).finish();
        let mut played = Played(self, 0);
        merged_reader::walk(&mut [&mut played], &alignment, Limits::default(), Duration::ZERO, &mut visit)
            .expect("it is in memory");
    }
}

fn cpu_s() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

fn tables(table: Table) -> Chosen {
    Chosen { tables: vec![table], filter: None }
}

fn writer<'w>(what: &str, recording: &'w Recording, out: &Counted) -> Box<dyn Export + 'w> {
    let infos = std::slice::from_ref(&recording.info);
    let (file, out) = (Box::new(out.clone()), out.clone());
    let create = Box::new(move |_: &str| Ok(Box::new(out.clone()) as Box<dyn Output>));
    let marks = Marks::new(infos, LINE, Chosen::default());
    let parquet = |table: Table| {
        let create = create.clone();
        let writer = Parquet::new(create, &[table], infos, LINE, Layout::Flat, &[]);
        Box::new(Tables::new(infos, LINE, tables(table), writer)) as Box<dyn Export + 'w>
    };
    match what {
        "parquet events" => parquet(Table::Events),
        "parquet hops" => parquet(Table::Hops),
        "parquet journeys" => parquet(Table::Journeys),
        "csv events" => {
            let writer = Csv::new(create, &[Table::Events]);
            Box::new(Tables::new(infos, LINE, tables(Table::Events), writer))
        }
        "jsonl events" => Box::new(Tables::new(infos, LINE, tables(Table::Events), JsonLines::new(file))),
        "ulm" => Box::new(Marked::new(marks, NetLogger::new(file, Dialect::Ulm, &[]))),
        "bp" => Box::new(Marked::new(marks, NetLogger::new(file, Dialect::Bp, &[]))),
        "pcapng" => Box::new(Pcapng::new(file, infos, LINE, Chosen::default(), &WIRE)),
        "perfetto" => Box::new(Marked::new(marks, Perfetto::new(file))),
        "chrome" => Box::new(Marked::new(marks, Chrome::new(file))),
        _ => Box::new(Dump::new(file, infos, LINE)),
    }
}

const FORMATS: [&str; 11] = [
    "parquet events",
    "parquet hops",
    "parquet journeys",
    "csv events",
    "jsonl events",
    "ulm",
    "bp",
    "pcapng",
    "perfetto",
    "chrome",
    "magnet",
];

fn main() {
    let session = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let asked = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let (most, rounds) = (asked("EVENTS").unwrap_or(usize::MAX), asked("ROUNDS").unwrap_or(5));
    let generated = GeneratorOptions { events: 2_000_000, ..GeneratorOptions::default() };
    let recording = match session {
        Some(dir) => {
            let session = Session::open(Path::new(&dir)).expect("a session");
            Recording::read(&mut session.replay(None, None), most)
        }
        None => Recording::read(&mut Generator::new(generated), most),
    };
    let events: u64 = recording.batches.iter().map(|batch| batch.events.len() as u64).sum();
    let only = std::env::var("ONLY").unwrap_or_default();
    let formats: Vec<&str> = FORMATS.into_iter().filter(|what| what.starts_with(&only)).collect();
    let mut spent: Vec<Vec<f64>> = vec![Vec::new(); formats.len()];
    let (mut alone, mut made) = (Vec::new(), vec![(0, 0); formats.len()]);
    for _ in 0..rounds {
        let before = cpu_s();
        let mut seen = 0_u64;
        recording.walk(|_| seen += 1);
        assert!(std::hint::black_box(seen) > 0);
        let base = cpu_s() - before;
        alone.push(base);
        for (at, what) in formats.iter().enumerate() {
            let out = Counted::default();
            let mut export = writer(what, &recording, &out);
            let before = cpu_s();
            recording.walk(|piece| export.piece(&piece).expect("memory takes all"));
            let written = export.finish().expect("memory takes all");
            spent[at].push(cpu_s() - before - base);
            made[at] = (written.rows.iter().map(|(_, n)| n).sum::<u64>(), out.0.load(Ordering::Relaxed));
        }
    }
    println!("{events} events; reading from memory and correlating {:.2} s", median(&mut alone));
    println!("{:<18}{:>12}{:>12}{:>14}{:>12}{:>14}", "", "rows", "M rows/s", "", "bytes/row", "bytes/event");
    for ((what, spent), (rows, bytes)) in formats.iter().zip(&mut spent).zip(made) {
        let s = median(spent).max(1e-9);
        let (rate, per_row, per_event) =
            (rows as f64 / s / 1e6, bytes as f64 / rows as f64, bytes as f64 / events as f64);
        // Minimum and maximum of the rounds, as ratios to the median.
        let ends = [spent.last(), spent.first()].map(|end| s / end.copied().unwrap_or(s).max(1e-9));
        let spread = format!("({:.2}–{:.2})", ends[0], ends[1]);
        println!("{what:<18}{rows:>12}{rate:>12.2}{spread:>14}{per_row:>12.1}{per_event:>14.1}");
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
