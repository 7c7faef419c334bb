//! Calls that received or sent data: in a sliding window, and in total.

use magscope_client::wire::{Rate, Span, Window};
use std::collections::VecDeque;

/// Number of parts of a time window. A window may exceed its requested length by one part.
pub const PARTS: usize = 256;

/// Calls at one instant, or within one part of time.
#[derive(Clone, Copy, Debug)]
struct Part {
    ns: u64,
    calls: u64,
    bytes: u64,
}

/// Calls in one direction.
#[derive(Clone, Debug)]
pub struct Calls {
    window: Window,
    since_ns: u64,
    within: VecDeque<Part>,
    /// Calls in the window, and their bytes.
    n: u64,
    bytes: u64,
    /// Time of the last call that left the window.
    left_ns: Option<u64>,
    overall_n: u64,
    overall_bytes: u64,
    last_ns: u64,
}

/// Length of a part of a time window, nanoseconds.
fn part_ns(seconds: f64) -> u64 {
    ((seconds * 1e9) as u64 / PARTS as u64).max(1)
}

/// Start of a time window that ends in the part of `to_ns`.
fn begin_ns(seconds: f64, to_ns: u64) -> u64 {
    let part = part_ns(seconds);
    (to_ns / part).saturating_sub(PARTS as u64).saturating_mul(part)
}

impl Calls {
    pub fn new(window: Window, since_ns: u64) -> Self {
        Calls {
            window,
            since_ns,
            within: VecDeque::new(),
            n: 0,
            bytes: 0,
            left_ns: None,
            overall_n: 0,
            overall_bytes: 0,
            last_ns: since_ns,
        }
    }

    /// Total number of calls.
    pub const fn overall(&self) -> u64 {
        self.overall_n
    }

    /// Registers a call of `bytes` bytes.
    pub fn call(&mut self, at_ns: u64, bytes: u64) {
        self.overall_n += 1;
        self.overall_bytes += bytes;
        self.last_ns = self.last_ns.max(at_ns);
        self.n += 1;
        self.bytes += bytes;
        // A late call from another CPU counts at the time of the last: windows are monotonic.
        let at_ns = self.within.back().map_or(at_ns, |last| last.ns.max(at_ns));
        match self.window {
            Window::Receives(most) => {
                self.within.push_back(Part { ns: at_ns, calls: 1, bytes });
                if self.within.len() > most as usize {
                    self.leave();
                }
            }
            Window::Seconds(seconds) => {
                let ns = at_ns / part_ns(seconds) * part_ns(seconds);
                match self.within.back_mut().filter(|last| last.ns == ns) {
                    Some(last) => {
                        last.calls += 1;
                        last.bytes += bytes;
                    }
                    None => self.within.push_back(Part { ns, calls: 1, bytes }),
                }
                let from_ns = begin_ns(seconds, at_ns);
                while self.within.front().is_some_and(|first| first.ns < from_ns) {
                    self.leave();
                }
            }
        }
    }

    fn leave(&mut self) {
        let Some(first) = self.within.pop_front() else { return };
        self.n -= first.calls;
        self.bytes -= first.bytes;
        self.left_ns = Some(first.ns);
    }

    /// Bytes and duration. A time window ends at `as_of_ns`; a window of receives spans from the call before
    /// its first to its last.
    pub fn rate(&self, as_of_ns: u64, weight: f64, overall_weight: f64) -> Rate {
        let window = match (self.window, self.left_ns, self.within.front()) {
            (Window::Seconds(seconds), ..) => {
                let to_ns = as_of_ns.max(self.last_ns);
                let from_ns = begin_ns(seconds, to_ns);
                let within = self.within.iter().filter(|part| part.ns >= from_ns);
                let (calls, bytes) =
                    within.fold((0, 0), |(calls, bytes), part| (calls + part.calls, bytes + part.bytes));
                span(from_ns.max(self.since_ns), to_ns, calls, bytes, weight)
            }
            (_, Some(left_ns), _) => span(left_ns, self.last_ns, self.n, self.bytes, weight),
            // The window is not full yet: it starts with the first call.
            (_, None, Some(first)) => {
                span(first.ns, self.last_ns, self.n - 1, self.bytes - first.bytes, weight)
            }
            (_, None, None) => span(self.since_ns, self.since_ns, 0, 0, weight),
        };
        let overall = span(self.since_ns, self.last_ns, self.overall_n, self.overall_bytes, overall_weight);
        Rate { window, overall, weight }
    }
}

fn span(from_ns: u64, to_ns: u64, calls: u64, bytes: u64, weight: f64) -> Span {
    let ns = to_ns.saturating_sub(from_ns);
    let bytes_per_s = (ns > 0).then(|| bytes as f64 * weight * 1e9 / ns as f64);
    Span { from_ns, to_ns, calls, bytes, bytes_per_s }
}
