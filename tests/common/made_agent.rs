//! Agents with clocks that are made: the stream of a real agent is read, its times are moved, and it is served again at
//! a socket of its own, as that of another host.

#![allow(dead_code)] // each test file uses a part

use super::eventually;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event};
use magscope_fleet::{
    Address, Hosts, Listen, Memory, READER_BYTES, ReadOptions, Remote, StartAt, Terms, serve,
};
use rustix::time::{ClockId, clock_gettime};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A clock by the real one, `CLOCK_MONOTONIC` of this host.
#[derive(Debug, Default)]
pub struct MadeClock {
    /// What it is ahead at first, nanoseconds.
    ahead_ns: i64,
    /// Steps: instant and size. The wall clock steps with it, so that no sample shows it.
    steps: Mutex<Vec<(u64, i64)>>,
    /// What the wall clock alone is set ahead.
    set_ns: AtomicI64,
    /// The error of UTC that it claims; 0 for none.
    utc_error_ns: AtomicU64,
}

/// Now, nanoseconds of `CLOCK_MONOTONIC`.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl MadeClock {
    /// What it is ahead of the first offset at an instant.
    fn moved_ns(&self, at_ns: u64) -> i64 {
        let steps = self.steps.lock().expect("no panic");
        steps.iter().filter(|(from_ns, _)| at_ns >= *from_ns).map(|(_, by_ns)| by_ns).sum()
    }

    fn at(&self, at_ns: u64) -> u64 {
        at_ns.saturating_add_signed(self.ahead_ns + self.moved_ns(at_ns))
    }

    /// A step now.
    pub fn step(&self, by_ns: i64) {
        self.steps.lock().expect("no panic").push((now_ns(), by_ns));
    }

    /// Claims that UTC is right to this.
    pub fn claim(&self, utc_error_ns: u64) {
        self.utc_error_ns.store(utc_error_ns, Relaxed);
    }

    /// Sets the wall clock alone.
    pub fn set(&self, ahead_ns: i64) {
        self.set_ns.store(ahead_ns, Relaxed);
    }

    fn rewrite(&self, batch: &mut Batch) {
        let at = |ns: &mut u64| *ns = self.at(*ns);
        batch.events.iter_mut().for_each(|event: &mut Event| at(&mut event.time_ns));
        batch.tcp.iter_mut().for_each(|sample| at(&mut sample.time_ns));
        batch.hits.iter_mut().for_each(|hit| at(&mut hit.time_ns));
        batch.heads.iter_mut().for_each(|head| at(&mut head.time_ns));
        batch.counts.iter_mut().for_each(|count| at(&mut count.time_ns));
        for change in &mut batch.changes {
            at(&mut change.from_ns);
            at(&mut change.to_ns);
        }
        for loss in &mut batch.losses {
            at(&mut loss.from_ns);
            at(&mut loss.to_ns);
        }
        for sample in &mut batch.clock {
            let moved_ns = self.moved_ns(sample.monotonic_ns);
            // R runs as the true time does.
            sample.raw_ns = self.at(sample.monotonic_ns);
            at(&mut sample.monotonic_ns);
            sample.realtime_ns += moved_ns + self.set_ns.load(Relaxed);
            sample.utc_error_ns = Some(self.utc_error_ns.load(Relaxed)).filter(|ns| *ns > 0);
        }
        if !matches!(batch.watermark_ns, 0 | u64::MAX) {
            at(&mut batch.watermark_ns);
        }
    }
}

/// An agent with a made clock, ended on drop.
pub struct MadeAgent {
    /// Its address.
    pub address: String,
    /// Its clock.
    pub clock: Arc<MadeClock>,
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl MadeAgent {
    /// Serves the stream of the agent at `from` as that of host `name`, whose clock is ahead, at a socket in `dir`.
    pub fn start(from: &Path, dir: &Path, name: &str, ahead_ns: i64) -> Self {
        let options = ReadOptions {
            address: Address::Unix(from.to_owned()),
            credentials: None,
            from: StartAt::Now,
            terms: Terms::default(),
        };
        let mut remote = Remote::connect(&options).expect("the agent answers").remove(0);
        let info = NodeInfo { host: name.to_owned(), boot_id: name.to_owned(), ..remote.info().clone() };
        let (memory, mut writer) = Memory::new(info, 64 << 20).expect("a memory");
        let path = dir.join(format!("made-{name}.sock"));
        let listener = UnixListener::bind(&path).expect("a socket");
        let (clock, end) =
            (Arc::new(MadeClock { ahead_ns, ..MadeClock::default() }), Arc::new(AtomicBool::new(false)));
        let (made, stop) = (clock.clone(), end.clone());
        let copying = std::thread::spawn(move || {
            let mut batch = Batch::default();
            while !stop.load(Relaxed) {
                match remote.next(&mut batch, Duration::from_millis(20)) {
                    Ok(Progress::More) => made.rewrite(&mut batch),
                    Ok(Progress::End) | Err(_) => return,
                }
                writer.push(&batch).expect("it is stored");
            }
        });
        let (hosts, stop) = (Hosts::of(vec![memory.clone()]), end.clone());
        let serving = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let report: magscope_fleet::Reporter = Arc::new(|_: &str| ());
            let listeners = vec![Listen::Unix(listener)];
            let served = runtime.block_on(serve(hosts, listeners, READER_BYTES, report, stop));
            runtime.shutdown_timeout(Duration::from_secs(1));
            served.expect("it serves");
        });
        assert!(eventually(|| memory.holds().range_ns.is_some()), "something came from {}", from.display());
        MadeAgent { address: format!("unix:{}", path.display()), clock, end, threads: vec![copying, serving] }
    }
}

impl Drop for MadeAgent {
    fn drop(&mut self) {
        self.end.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
