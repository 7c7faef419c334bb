//! The last reads of watches by time and CPU. A journey that ends with one of these reads belongs to the watch.

use magscope_core::Event;
use std::collections::{HashMap, VecDeque};

/// Maximum number of reads. A journey is complete some tenths of a second after its read.
const MOST: usize = 1 << 16;

/// The last reads.
#[derive(Clone, Debug, Default)]
pub struct Reads {
    by: HashMap<(u64, u16), Box<[u64]>>,
    order: VecDeque<(u64, u16)>,
}

impl Reads {
    /// Adds a read of these watches.
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

    /// The watches of the read at that time on that CPU.
    pub fn find(&self, time_ns: u64, cpu: u16) -> &[u64] {
        self.by.get(&(time_ns, cpu)).map_or(&[], |watches| watches)
    }
}
