//! The join of two hosts' exports by two worker processes: the answer of one process, and no shuffle.

use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Direction, Generator, GeneratorOptions};
use magscope_distributed::{JOIN, ask};
use magscope_export::format::parquet::{Layout, Parquet};
use magscope_export::format::tables::Tables;
use magscope_export::{Chosen, Export, Output, Table, TimeLine};
use magscope_timeline::align::Aligner;
use magscope_timeline::merged_reader::{self, Piece};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use url::Url;

/// What one host sees: the events of one direction.
struct Host(Generator, Direction);

impl Source for Host {
    fn info(&self) -> &NodeInfo {
        self.0.info()
    }

    fn next(&mut self, batch: &mut Batch, wait: Duration) -> Result<Progress, SourceError> {
        let progress = self.0.next(batch, wait)?;
        batch.events.retain(|event| event.hop.direction() == self.1);
        Ok(progress)
    }
}

struct OnDisk(File);

impl Write for OnDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Output for OnDisk {
    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// Exports the hops that one host sees, in buckets.
fn export(to: &Path, direction: Direction) {
    let options = GeneratorOptions { events: 40_000, flows: 16, ..GeneratorOptions::default() };
    let mut host = Host(Generator::new(options), direction);
    let infos = [host.info().clone()];
    let create = Box::new(|name: &str| {
        let path = to.join(name);
        fs::create_dir_all(path.parent().unwrap_or(to))?;
        Ok(Box::new(OnDisk(File::create(path)?)) as Box<dyn Output>)
    });
    let line = TimeLine { to_utc_ns: Some(0) };
    let writer = Parquet::new(create, &[Table::Hops], &infos, line, Layout::ByBucket, &[]);
    let mut tables = Tables::new(&infos, line, Chosen { tables: vec![Table::Hops], filter: None }, writer);
    let alignment = Aligner::new(&infos).finish();
    let mut visit = |piece: Piece<'_>| tables.piece(&piece).expect("room");
    merged_reader::walk(&mut [&mut host], &alignment, Limits::default(), Duration::ZERO, &mut visit)
        .expect("events");
    tables.finish().expect("room");
}

/// A worker process, ended with the test.
struct Worker(Child, Url);

impl Worker {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_magscope-distributed"));
        let mut child = command.arg("worker").stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("it says where it listens");
        Worker(child, Url::parse(line.trim()).expect("an address"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_answer_as_one_process_and_no_row_moves() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = (dir.path().join("client"), dir.path().join("server"));
    export(&a, Direction::Tx);
    export(&b, Direction::Rx);
    let alone = ask(&a, &b, &[], JOIN).await.expect("an answer");
    let workers = [Worker::start(), Worker::start()];
    let urls = workers.each_ref().map(|worker| worker.1.clone());
    let joined = ask(&a, &b, &urls, JOIN).await.expect("an answer");
    println!("{}\n{}", joined.plan, joined.table().expect("text"));
    assert_eq!(joined.table().expect("text"), alone.table().expect("text"));
    assert!(!alone.table().expect("text").contains("| 0 "), "{}", alone.table().expect("text"));
    // Two tasks join; only their sums come together.
    assert!(joined.plan.contains("tasks=2"), "{}", joined.plan);
    assert!(joined.plan.contains("HashJoinExec: mode=Partitioned"), "{}", joined.plan);
    for moves in ["NetworkShuffleExec", "RepartitionExec", "NetworkBroadcastExec"] {
        assert!(!joined.plan.contains(moves), "{}", joined.plan);
    }
    // The same without what the buckets say does move rows: the test can fail.
    let unlike = JOIN.replace("a.wire_key = b.wire_key", "a.wire_key + 0 = b.wire_key + 0");
    let moved = ask(&a, &b, &urls, &unlike).await.expect("an answer");
    assert!(moved.plan.contains("NetworkShuffleExec"), "{}", moved.plan);
    assert_eq!(moved.table().expect("text"), alone.table().expect("text"));
}
