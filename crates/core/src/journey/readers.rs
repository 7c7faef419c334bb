//! Readers: when each thread was last woken and last put on a CPU.

use super::passes::Ids;
use super::piece::{ARRIVED, Mark, Piece};
use super::rungs::{Who, bit};
use crate::event::Event;
use crate::hash::Map;
use crate::hop::Hop;

/// Threads remembered.
const MAX_READERS: usize = 1 << 16;

/// When and where something happened to a thread.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    time_ns: u64,
    cpu: u16,
}

/// The last time a thread slept and was woken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader {
    /// The socket that woke it; 0 if something else did.
    socket: u64,
    who: Who,
    wake: Option<Moment>,
    run: Option<Moment>,
}

/// Threads that were woken, by tid.
#[derive(Debug, Default)]
pub(super) struct Readers {
    threads: Map<u32, Reader>,
}

impl Readers {
    /// Takes a `task.wake` or `task.run`. Returns how many threads had to be forgotten for it.
    pub fn push(&mut self, event: &Event) -> u64 {
        let moment = Some(Moment { time_ns: event.time_ns, cpu: event.cpu });
        let mut forgotten = 0;
        if event.hop == Hop::TaskWake {
            if self.threads.len() >= MAX_READERS && !self.threads.contains_key(&event.tid) {
                let horizon = event.time_ns.saturating_sub(1_000_000_000);
                let before = self.threads.len();
                self.threads.retain(|_, r| r.wake.is_some_and(|w| w.time_ns >= horizon));
                if self.threads.len() >= MAX_READERS {
                    self.threads.clear();
                }
                forgotten = (before - self.threads.len()) as u64;
            }
            let who = Who { tgid: event.tgid, tid: event.tid };
            self.threads.insert(event.tid, Reader { socket: event.socket, who, wake: moment, run: None });
        } else if let Some(reader) = self.threads.get_mut(&event.tid)
            && reader.run.is_none()
        {
            reader.run = moment;
        }
        forgotten
    }

    /// The thread, if it was `socket` that woke it. One that a timer or another socket woke was not waiting for this
    /// data, and its wake-up says nothing about it.
    pub fn of(&self, tid: u32, socket: u64) -> Option<Reader> {
        self.threads.get(&tid).copied().filter(|reader| reader.socket == socket)
    }
}

impl Reader {
    /// Gives `piece`, read at `read_ns`, its rungs at `task.wake` and `task.run`, if the thread slept in between. A reader
    /// that was awake when the data came has none: it was busy, not waiting for a CPU. One that earlier data had woken
    /// and that had no CPU yet has `task.run` alone.
    pub fn stamp(&self, piece: &mut Piece, read_ns: u64) {
        if piece.has(Hop::TaskWake) || piece.has(Hop::TaskRun) {
            return;
        }
        let ready = piece.rungs.time_ns(Hop::SockReady).or_else(|| {
            let arrived = Hop::path().iter().rev().find(|h| bit(**h) & ARRIVED != 0 && piece.has(**h));
            arrived.and_then(|hop| piece.rungs.time_ns(*hop))
        });
        let (Some(ready), Some(wake)) = (ready, self.wake) else { return };
        if wake.time_ns > read_ns {
            return;
        }
        let (who, at_return, ids) = (self.who, false, Ids::default());
        let mark = |hop, at: Moment| Mark { hop, time_ns: at.time_ns, cpu: at.cpu, who, at_return, ids };
        if wake.time_ns >= ready {
            piece.stamp(&mark(Hop::TaskWake, wake), Hop::TcpRetransmit);
        }
        let since_ns = wake.time_ns.max(ready);
        if let Some(run) = self.run.filter(|run| run.time_ns >= since_ns && run.time_ns <= read_ns) {
            piece.stamp(&mark(Hop::TaskRun, run), Hop::TcpRetransmit);
        }
    }
}
