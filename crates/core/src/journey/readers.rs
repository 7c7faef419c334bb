//! Readers: the last wake-up and the last run of each thread.

use super::ip_ids::IpIds;
use super::journey::Presence;
use super::piece::{ARRIVED, Mark, Piece};
use super::rungs::{ThreadRef, bit};
use crate::event::Event;
use crate::hash::Map;
use crate::hop::Hop;

/// Maximum number of stored threads, and of polled sockets.
const MAX_READERS: usize = 1 << 16;
/// Longest pause of a polling reader: the kernel's timers have a slack of 50 µs, so a sleep takes longer.
const SPIN_NS: u64 = 50_000;

/// Instant and CPU of an event of a thread.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadInstant {
    time_ns: u64,
    cpu: u16,
}

/// A thread that reads a socket now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    tid: u32,
    socket: u64,
    /// Instant of its last empty read of this socket.
    empty_read_ns: Option<u64>,
}

impl Asked {
    /// The read of an `app.copy` or `app.recv`.
    pub fn by(event: &Event) -> Self {
        let ago_ns = event.detail.empty_read_ns();
        let empty_read_ns = (ago_ns != 0).then(|| event.time_ns.saturating_sub(u64::from(ago_ns)));
        Asked { tid: event.tid, socket: event.socket, empty_read_ns }
    }
}

/// The last sleep and wake-up of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reader {
    /// The socket that woke it; 0 if something else did.
    socket: u64,
    who: ThreadRef,
    wake: Option<ThreadInstant>,
    run: Option<ThreadInstant>,
    /// Instant at which its last read, of any socket, returned.
    read_ns: u64,
    /// True if the socket of the current read woke it.
    woken_by_this: bool,
    /// Instant of its last empty read, or of its own busy poll of the device.
    asked_ns: Option<u64>,
}

/// Threads that were woken, by tid.
#[derive(Debug, Default)]
pub(super) struct Readers {
    threads: Map<u32, Reader>,
    /// The thread whose busy poll last fetched a socket's data, and the instant, by socket.
    pollers: Map<u64, (u32, u64)>,
}

impl Readers {
    /// Processes a `task.wake` or `task.run`. Returns the number of threads evicted for it.
    pub fn push(&mut self, event: &Event) -> u64 {
        let moment = Some(ThreadInstant { time_ns: event.time_ns, cpu: event.cpu });
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
            let who = ThreadRef { tgid: event.tgid, tid: event.tid };
            let reader = Reader { socket: event.socket, who, wake: moment, ..Reader::default() };
            self.threads.insert(event.tid, reader);
        } else if let Some(reader) = self.threads.get_mut(&event.tid)
            && reader.run.is_none()
        {
            reader.run = moment;
        }
        forgotten
    }

    /// Processes an `app.recv` or `sock.ready` after its correlation.
    pub fn note(&mut self, event: &Event) {
        if event.hop == Hop::SockReady {
            let poller = event.detail.poller_tid();
            if poller != 0 {
                if self.pollers.len() >= MAX_READERS {
                    self.pollers.clear();
                }
                self.pollers.insert(event.socket, (poller, event.time_ns));
            }
        } else if !event.peeks()
            && let Some(reader) = self.threads.get_mut(&event.tid)
        {
            reader.read_ns = event.time_ns;
        }
    }

    /// State of the reading thread.
    pub fn of(&self, asked: &Asked) -> Option<Reader> {
        let thread = self.threads.get(&asked.tid).copied();
        let polled = self.pollers.get(&asked.socket).filter(|(tid, _)| *tid == asked.tid).map(|(_, ns)| *ns);
        let asked_ns = polled.max(asked.empty_read_ns);
        if thread.is_none() && asked_ns.is_none() {
            return None;
        }
        let thread = thread.unwrap_or_default();
        Some(Reader { woken_by_this: thread.socket == asked.socket, asked_ns, ..thread })
    }
}

impl Reader {
    /// Sets the events at `task.wake` and `task.run` of `piece`, read at `read_ns`, if the thread slept in
    /// between. A reader awake at the arrival has none: it was busy and not waiting for a CPU. A reader woken
    /// earlier for another reason, but without a CPU yet, has `task.run` alone. A later wake-up for another
    /// reason is unrelated to these data.
    pub fn set_wake_up(&self, piece: &mut Piece, read_ns: u64) {
        if piece.has(Hop::TaskWake) || piece.has(Hop::TaskRun) {
            return;
        }
        let ready = piece.rungs.time_ns(Hop::SockReady).or_else(|| {
            let arrived = Hop::path().iter().rev().find(|h| bit(**h) & ARRIVED != 0 && piece.has(**h));
            arrived.and_then(|hop| piece.rungs.time_ns(*hop))
        });
        let Some(ready) = ready else { return };
        let wake = self.wake.filter(|wake| wake.time_ns <= read_ns);
        let was_asleep = wake.is_some_and(|wake| wake.time_ns >= ready);
        if !was_asleep && self.asked_ns.is_some_and(|asked| asked.saturating_add(SPIN_NS) >= ready) {
            piece.presence = Presence::Polling;
        }
        let Some(wake) = wake else { return };
        if was_asleep && !self.woken_by_this {
            return;
        }
        let (who, at_return, ids) = (self.who, false, IpIds::default());
        let mark = |hop, at: ThreadInstant| Mark {
            hop,
            time_ns: at.time_ns,
            cpu: at.cpu,
            who,
            at_return,
            doubtful: false,
            ids,
        };
        if was_asleep {
            piece.set_hop_time(&mark(Hop::TaskWake, wake), Hop::TcpRetransmit);
        }
        let since_ns = wake.time_ns.max(ready);
        if let Some(run) = self.run.filter(|run| run.time_ns >= since_ns && run.time_ns <= read_ns) {
            piece.set_hop_time(&mark(Hop::TaskRun, run), Hop::TcpRetransmit);
            let was_busy = self.read_ns >= run.time_ns && self.read_ns <= read_ns;
            piece.presence = if was_busy { Presence::Busy } else { Presence::Unsaid };
        }
    }
}
