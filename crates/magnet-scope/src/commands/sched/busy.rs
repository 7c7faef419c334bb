//! Busy tasks.

use anyhow::{Context, Result};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

/// Threads in a busy loop, ended on drop.
pub struct Busy {
    end: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Starts `count` tasks.
    pub fn start(count: u16) -> Result<Self> {
        let mut busy = Busy { end: Arc::default(), threads: Vec::new() };
        for _ in 0..count {
            let end = busy.end.clone();
            let compute = move || {
                let mut x = 0_u64;
                while !end.load(Relaxed) {
                    for _ in 0..10_000 {
                        x = black_box(x.wrapping_add(1));
                    }
                }
            };
            let thread = thread::Builder::new().name("magnet-busy".to_owned()).spawn(compute);
            busy.threads.push(thread.context("cannot start a thread")?);
        }
        Ok(busy)
    }

    /// Name for the output.
    pub fn name(&self) -> String {
        match self.threads.len() {
            1 => "one busy task".to_owned(),
            n => format!("{n} busy tasks"),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.end.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // the thread cannot have panicked
            let _ = thread.join();
        }
    }
}
