//! The last reads that belong to a watch, by their instant and CPU: journeys that ended with one of them are the watch's.

use magscope_core::Event;
use std::collections::{HashMap, VecDeque};

/// Reads that are remembered. A journey is told within some tenths of a second of its read.
const MOST: usize = 1 << 16;

/// The last reads.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    by: HashMap<(u64, u16), Box<[u64]>>,
    order: VecDeque<(u64, u16)>,
}

impl Reads {
    /// One of these watches.
    pub fn add(&mut self, event: &Event, watches: &[u64]) {
        let key = (event.time_ns, event.cpu);
        if self.by.insert(key, watches.into()).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.by.remove(&oldest);
        }
    }

    /// Whose the read at that instant on that CPU was.
    pub fn find(&self, time_ns: u64, cpu: u16) -> &[u64] {
        self.by.get(&(time_ns, cpu)).map_or(&[], |watches| watches)
    }
}
