//! What the threads of a log did without its saying so, and their numbers where it has several hosts.

use super::read::Line;
use magscope_core::hash::Map;
use magscope_core::{Event, EventFlags, Hop};
use std::collections::BTreeMap;

/// Sends and runs that are kept, at most.
const MOST: usize = 1 << 16;

/// The first number that no thread of Linux has: `PID_MAX_LIMIT`.
const FIRST_FREE: u32 = 1 << 22;

/// Numbers of threads. A recording has each of them once, and two hosts may have the same.
#[derive(Default)]
pub struct Tids {
    /// The host whose thread has its own number.
    owners: Map<u32, String>,
    others: Map<(String, u32), u32>,
    /// Threads that have another number than in the log.
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

/// A reader that was awake when the data came.
#[derive(Clone, Copy)]
struct Awake {
    ready_ns: u64,
    cpu: u16,
    tgid: u32,
}

/// What the lines so far tell of threads.
#[derive(Default)]
pub struct Threads {
    /// Those that called `send` and whose datagram has not gone out yet, by its ID.
    sending: Map<u64, u32>,
    /// Runs of readers, by thread and time: of those that something else had woken, when the earliest data they found was ready. `None`
    /// for one that some of what it read has woken: the rest came when it was awake already.
    runs: BTreeMap<(u32, u64), Option<Awake>>,
}

impl Threads {
    /// Gives a datagram's `ip.out` the thread that has just called `send` with it: in the kernel it is the same.
    pub fn send(&mut self, event: &mut Event, id: u64) {
        match event.hop {
            Hop::AppSend | Hop::UdpSend if !event.flags.contains(EventFlags::AT_RETURN) => {
                if self.sending.len() >= MOST {
                    self.sending.clear();
                }
                self.sending.insert(id, event.tid);
            }
            Hop::IpOut => event.tid = self.sending.remove(&id).unwrap_or(event.tid),
            _ => {}
        }
    }

    /// A reader runs. Where it was not woken by what it reads, something else had woken it before that came.
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
        let known = self.runs.entry(at).or_insert(Some(Awake { ready_ns, cpu, tgid }));
        if let Some(awake) = known {
            awake.ready_ns = awake.ready_ns.min(ready_ns);
        }
    }

    /// The wake-ups of those readers, of no socket, right before what they read was ready.
    pub fn wakes(&mut self) -> impl Iterator<Item = Event> {
        std::mem::take(&mut self.runs).into_iter().filter_map(|((tid, _), awake)| {
            let Awake { ready_ns, cpu, tgid } = awake?;
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
