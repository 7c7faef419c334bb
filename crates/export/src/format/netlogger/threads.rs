//! Infers thread states that a log does not contain, and renumbers threads of several hosts.

use super::read::Line;
use magscope_core::hash::Map;
use magscope_core::hop::Role;
use magscope_core::{Event, EventFlags, Hop, Proto};
use std::collections::BTreeMap;

/// Maximum number of stored sends and runs.
const MOST: usize = 1 << 16;

/// The first id beyond Linux's maximum: `PID_MAX_LIMIT`.
const FIRST_FREE: u32 = 1 << 22;

/// Unique thread ids. Two hosts of a log may use the same id.
#[derive(Default)]
pub struct Tids {
    /// The host whose thread has the original id.
    owners: Map<u32, String>,
    others: Map<(String, u32), u32>,
    /// Number of renumbered threads.
    pub renumbered: u64,
}

impl Tids {
    /// The number of a thread of a host in the recording.
    pub fn number(&mut self, host: &str, tid: u32) -> u32 {
        let Some(owner) = self.owners.get(&tid) else {
            if tid != 0 && self.owners.len() < MOST {
                self.owners.insert(tid, host.to_owned());
            }
            return tid;
        };
        if owner == host {
            return tid;
        }
        let key = (host.to_owned(), tid);
        if let Some(other) = self.others.get(&key) {
            return *other;
        }
        if self.others.len() >= MOST {
            return tid;
        }
        let other = FIRST_FREE + self.others.len() as u32;
        self.others.insert(key, other);
        self.renumbered += 1;
        other
    }
}

/// A reader that was awake when the data arrived.
#[derive(Clone, Copy)]
struct AwakeReader {
    ready_ns: u64,
    cpu: u16,
    tgid: u32,
}

/// State of the inference.
#[derive(Default)]
pub struct Threads {
    /// Threads that called `send` whose datagram is still pending, by its ID.
    sending: Map<u64, u32>,
    /// Runs of readers by thread and time. The value is the ready time of the earliest data, if another cause
    /// had woken the reader. `None` if some of its data woke it; the rest then arrived while it was awake.
    runs: BTreeMap<(u32, u64), Option<AwakeReader>>,
}

impl Threads {
    /// Assigns the thread of the preceding `send` to a datagram's `ip.out`, as in the kernel.
    pub fn send(&mut self, event: &mut Event, id: u64) {
        if event.hop == Hop::IpOut {
            event.tid = self.sending.remove(&id).unwrap_or(event.tid);
        } else if event.hop.role() == Role::Send
            && event.hop.passes(Proto::UDP)
            && !event.flags.contains(EventFlags::AT_RETURN)
        {
            if self.sending.len() >= MOST {
                self.sending.clear();
            }
            self.sending.insert(id, event.tid);
        }
    }

    /// Registers a run of a reader. If its data did not wake it, another cause had woken it before.
    pub fn run(&mut self, line: &Line<'_>, event: &Event) {
        let from = line.get(&["MAG.FROM", "mag.from"]);
        let latency_ns = line.number::<u64>(&["MAG.LAT", "mag.latency_ns"]);
        let (Some(from), Some(latency_ns)) = (from, latency_ns) else { return };
        if self.runs.len() >= MOST {
            self.runs.clear();
        }
        let at = (event.tid, event.time_ns);
        if from == Hop::TaskWake.name() {
            self.runs.insert(at, None);
            return;
        }
        let ready_ns = event.time_ns.saturating_sub(latency_ns);
        let Event { cpu, tgid, .. } = *event;
        let reader = self.runs.entry(at).or_insert(Some(AwakeReader { ready_ns, cpu, tgid }));
        if let Some(awake) = reader {
            awake.ready_ns = awake.ready_ns.min(ready_ns);
        }
    }

    /// Wake-ups of those readers, without a socket, immediately before their data was ready.
    pub fn wakes(&mut self) -> impl Iterator<Item = Event> {
        std::mem::take(&mut self.runs).into_iter().filter_map(|((tid, _), awake)| {
            let AwakeReader { ready_ns, cpu, tgid } = awake?;
            Some(Event { tid, tgid, cpu, ..Event::at(Hop::TaskWake, ready_ns.saturating_sub(1)) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_two_hosts_with_one_number_have_two() {
        let mut tids = Tids::default();
        assert_eq!((tids.number("a", 7), tids.number("b", 8), tids.number("b", 0)), (7, 8, 0));
        let other = tids.number("b", 7);
        assert!(other >= FIRST_FREE, "{other}");
        assert_eq!((tids.number("b", 7), tids.number("a", 7), tids.number("a", 0)), (other, 7, 0));
        assert_eq!(tids.renumbered, 1);
    }
}
