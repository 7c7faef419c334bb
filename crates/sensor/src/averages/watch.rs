//! One watch.

use super::calls::Calls;
use super::times::Latencies;
use super::{Key, Subject};
use magscope_client::wire::Window;
use magscope_core::Hop;

/// Maximum number of flows per watch: namespaces can reuse the same addresses.
pub const MOST_KEYS: usize = 64;

/// State of one watch.
pub struct Watch {
    pub subject: Subject,
    pub keys: Vec<Key>,
    pub window: Window,
    pub since_ns: u64,
    pub received: Calls,
    pub sent: Calls,
    pub latencies: Latencies,
    /// Records lost since its start.
    pub lost: u64,
    pub restarted: Option<String>,
}

impl Watch {
    pub fn new(subject: Subject, keys: Vec<Key>, window: Window, since_ns: u64) -> Self {
        Watch {
            subject,
            keys,
            window,
            since_ns,
            received: Calls::new(window, since_ns),
            sent: Calls::new(window, since_ns),
            latencies: Latencies::new(window),
            lost: 0,
            restarted: None,
        }
    }

    /// Registers a call.
    pub fn call(&mut self, received: bool, at_ns: u64, bytes: u64) {
        if at_ns >= self.since_ns {
            let calls = if received { &mut self.received } else { &mut self.sent };
            calls.call(at_ns, bytes);
        }
    }

    /// Registers a journey by its read time.
    pub fn journey(&mut self, read_ns: u64, ns: u64, first: Hop) {
        if read_ns >= self.since_ns {
            self.latencies.journey(read_ns, ns, first);
        }
    }

    /// Registers records lost up to that instant.
    pub fn lost(&mut self, at_ns: u64, count: u64) {
        if at_ns >= self.since_ns {
            self.lost = self.lost.saturating_add(count);
        }
    }

    /// Number of calls.
    pub const fn calls(&self) -> u64 {
        self.received.overall() + self.sent.overall()
    }

    /// Resets the watch, because later events are not comparable with earlier ones.
    pub fn restart(&mut self, at_ns: u64, why: &str) {
        let since_ns = self.since_ns.max(at_ns);
        let (subject, keys) = (self.subject.clone(), std::mem::take(&mut self.keys));
        *self = Watch { restarted: Some(why.to_owned()), ..Watch::new(subject, keys, self.window, since_ns) };
    }
}
