//! What the threads of a log did without its saying so.

use super::read::Line;
use magscope_core::hash::Map;
use magscope_core::{Event, EventFlags, Hop};
use std::collections::BTreeMap;

/// Sends and runs that are kept, at most.
const MOST: usize = 1 << 16;

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
