//! The receive queue of one UDP socket, as the arrivals and reads of a capture show it.
//!
//! **The problem.** A read does not name its datagram. Datagrams leave a queue in the order in which they entered
//! it, but a capture sees arrivals shortly before they enter. Two CPUs can pass the hop in one order and enter the
//! queue in the other. A capture also misses datagrams that were there before it began, and datagrams that the kernel
//! discards.
//!
//! **The choice.** At the return of a read the kernel's own queue shows which datagram is first in it now, or that it
//! is empty. So everything certainly before that one has left. If exactly one entry can have left, the read took it.
//! Otherwise the read is ambiguous, and the queue agrees with the kernel's again.
//!
//! **Known limits.**
//! - Logs have no such observation. There the oldest entry of the right length is taken ([`Queue::read_by_order`]).
//! - A thread is unknown until its first read returns. Until then a read that overlaps it can be assigned wrongly. The
//!   first read of a thread beside others is ambiguous.
//! - A thread that has read nothing for [`SEVERAL_NS`] counts as one without a read under way.

use super::entry::{Arrival, Entry, Place};
use super::losses::Losses;
use super::sockets::{DatagramRef, Match, Queued, Read};
use std::collections::VecDeque;

/// Maximum distance of a read from the head of its queue, without an observation of the kernel's queue; and the number
/// of later arrivals that are compared with the first in the queue.
const RESYNC_WINDOW: usize = 32;
/// Time that a reader counts as one of several after another thread's read from the same socket.
const SEVERAL_NS: u64 = 1_000_000_000;
/// Readers of one socket that are distinguished.
const MAX_READERS: usize = 8;
/// Minimum time after the previous datagram for a datagram to be the cause of a wake-up: a wake-up takes
/// microseconds.
const ALONE_NS: u64 = 1_000_000;
/// Time from the hop of an arrival to its entry into the queue, for arrivals whose record was lost.
const ON_THE_WAY_NS: u64 = 100_000;

/// What a read showed of the queue that it left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// Nothing was observed.
    Unknown,
    /// No datagram was left.
    Empty,
    /// This buffer is first.
    Buffer(u32),
}

/// Entries that can be the one that a read took.
#[derive(Default)]
struct Candidates {
    /// Positions of those that certainly have left the queue, ascending.
    left: Vec<usize>,
    /// Positions of those that may have left it.
    maybe: Vec<usize>,
}

impl Candidates {
    /// All, those that certainly have left first.
    fn all(&self) -> impl Iterator<Item = usize> {
        self.left.iter().chain(&self.maybe).copied()
    }
}

/// What bounds the datagrams that a read can have taken.
#[derive(Clone, Copy)]
struct Bounded {
    len: u32,
    /// True if it took none from before the capture.
    is_complete: bool,
    /// True if other threads read the socket lately. An earlier doubtful read may then have taken any of the datagrams
    /// that have left, whatever their lengths.
    several: bool,
}

/// The conditions of a read, besides its own data.
#[derive(Clone, Copy)]
pub(super) struct Conditions<'a> {
    pub losses: &'a Losses,
    /// The instant since which the capture leaves out no arrival and no read of the socket.
    pub order_since_ns: Option<u64>,
    /// True if the capture records the datagrams that the kernel discards.
    pub shows_drops: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Entry>,
    /// Number of entries at the back without a notification of the reader.
    unannounced: usize,
    /// Arrivals since closed entries were removed.
    unpruned: usize,
    /// The first arrival.
    begin_ns: u64,
    /// The last arrival, and the one before.
    pub last_ns: u64,
    before_ns: u64,
    /// Instant since which this queue has all datagrams that the kernel's has.
    agreed_ns: u64,
    /// Time since when no datagram from before the capture is in the kernel's queue; `None` until a read shows it.
    complete_ns: Option<u64>,
    /// True once a read has shown the kernel's queue.
    is_observed: bool,
    /// The datagram that was first in the kernel's queue at the return of the last read.
    first: Option<DatagramRef>,
    /// The last doubtful choice of several.
    confused_ns: u64,
    /// Arrivals until this time are doubted.
    doubt_ns: u64,
    /// The last eviction from this queue, while the kernel's queue still had the entry.
    pub parted_ns: u64,
    /// The last reader.
    reader: Reader,
    /// Other threads that read recently; the newest is the last.
    others: Vec<Reader>,
}

/// A thread that reads a socket, with the time of its last return.
#[derive(Clone, Copy, Debug, Default)]
struct Reader {
    /// 0 for a thread that has not returned yet: only what it took is missing.
    tid: u32,
    last_ns: u64,
}

impl Queue {
    /// A queue that may lack entries from before an instant.
    pub fn since(parted_ns: u64) -> Self {
        // Most sockets have one datagram waiting at a time.
        Queue { parted_ns, waiting: VecDeque::with_capacity(1), ..Queue::default() }
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// All entries, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Queued> {
        self.waiting.iter().map(|entry| &entry.run)
    }

    /// True if it may lack entries of the kernel's queue.
    pub fn is_parted(&self) -> bool {
        self.agreed_ns < self.parted_ns
    }

    /// Evicts the oldest entry.
    pub fn evict(&mut self, time_ns: u64) {
        self.waiting.pop_front();
        self.parted_ns = time_ns;
    }

    pub fn push(&mut self, arrival: Arrival) {
        let Arrival { run, skb, cpu, time_ns } = arrival;
        // One CPU queues a datagram before it handles the next.
        self.are_queued(cpu, time_ns);
        if self.last_ns == 0 {
            self.begin_ns = time_ns;
        }
        self.before_ns = std::mem::replace(&mut self.last_ns, time_ns);
        self.waiting.push_back(Entry {
            run,
            skb,
            cpu,
            hop_ns: time_ns,
            place: Place::Unknown,
            is_doubted: false,
            is_assigned: false,
        });
        self.unannounced += 1;
        self.unpruned += 1;
    }

    /// The arrivals of this CPU are in the queue by now.
    fn are_queued(&mut self, cpu: u16, time_ns: u64) {
        let newest = self.waiting.iter_mut().rev().take(RESYNC_WINDOW);
        let of_cpu = newest.filter(|entry| entry.cpu == cpu).take_while(|entry| entry.place == Place::Unknown);
        of_cpu.for_each(|entry| entry.place = Place::Queued(time_ns));
    }

    /// The datagrams that a `sock.ready` announces.
    pub fn announced(&mut self, cpu: u16, time_ns: u64, each: impl FnMut(&Queued)) {
        self.are_queued(cpu, time_ns);
        let new = self.unannounced.min(self.waiting.len());
        self.iter().rev().take(new).for_each(each);
        self.unannounced = 0;
    }

    /// Removes the newest entry that is equal to this datagram.
    pub fn remove_newest(&mut self, datagram: DatagramRef) -> bool {
        let at = self.waiting.iter().rposition(|entry| entry.run.first == datagram);
        at.and_then(|at| self.remove(at)).is_some()
    }

    /// Removes the first of the oldest entries that fits.
    pub fn remove_near_head(&mut self, fits: impl Fn(&Queued) -> bool) -> Option<Queued> {
        let at = self.iter().take(RESYNC_WINDOW).position(fits)?;
        self.remove(at)
    }

    /// Keeps the entries that are open. Without those of doubtful reads, later reads are not certain.
    pub fn retain(&mut self, is_open: impl Fn(&DatagramRef) -> bool) {
        if self.waiting.iter().any(|entry| entry.is_assigned) {
            self.complete_ns = None;
        }
        self.waiting.retain(|entry| is_open(&entry.run.first));
        self.unannounced = self.unannounced.min(self.waiting.len());
    }

    /// Removes entries that the kernel dropped, so that few of them are among the next ones. Each arrival pays for two
    /// looks at most.
    fn prune(&mut self, is_open: impl Fn(&DatagramRef) -> bool) {
        if self.unpruned >= (RESYNC_WINDOW / 2).max(self.waiting.len() / 2) {
            self.waiting.retain(|entry| entry.is_assigned || is_open(&entry.run.first));
            self.unannounced = self.unannounced.min(self.waiting.len());
            self.unpruned = 0;
        }
    }

    fn remove(&mut self, at: usize) -> Option<Queued> {
        let entry = self.waiting.remove(at)?;
        self.unannounced = self.unannounced.min(self.waiting.len());
        Some(entry.run)
    }

    /// A reader of this socket was woken: it had slept, so both queues were empty except for new arrivals.
    pub fn reader_slept(&mut self, tid: u32, time_ns: u64, order_since_ns: Option<u64>) {
        // The kernel's own queue shows more, and a reader can sleep beside datagrams that it does not want yet. A thread
        // that slept had no read under way.
        if self.is_observed {
            let mut readers = self.others.iter_mut().chain([&mut self.reader]);
            if let Some(reader) = readers.find(|reader| reader.tid == tid) {
                reader.last_ns = reader.last_ns.max(time_ns);
            }
            return;
        }
        let order_since_ns = order_since_ns.map(|since_ns| since_ns.max(self.parted_ns));
        // Of the entries during an omission only the last can still be present, if it arrived alone: it woke the
        // reader.
        if order_since_ns.is_some_and(|since_ns| self.agreed_ns < since_ns && self.last_ns >= since_ns)
            && self.last_ns.saturating_sub(self.before_ns) > ALONE_NS
        {
            self.waiting.drain(..self.waiting.len().saturating_sub(1));
        }
        if self.waiting.len() <= 1 {
            self.agreed_ns = self.last_ns;
        }
    }

    /// The datagram that a copy to a reader's memory names by its buffer.
    pub fn copied(&self, skb: u32, is_open: impl Fn(&DatagramRef) -> bool) -> Option<Queued> {
        let entry = self.waiting.iter().find(|entry| entry.skb == skb && is_open(&entry.run.first))?;
        Some(entry.run.clone())
    }

    /// The datagram that a read took, if one can be named.
    pub fn read(
        &mut self,
        read: &Read,
        conditions: Conditions<'_>,
        is_open: impl Fn(&DatagramRef) -> bool,
    ) -> Option<Match> {
        while self.waiting.front().is_some_and(|entry| !entry.is_assigned && !is_open(&entry.run.first)) {
            self.remove(0);
        }
        self.prune(&is_open);
        let previous_ns = self.note_reader(read);
        match read.front {
            Front::Unknown if !self.is_observed || read.looks => self.read_by_order(read, conditions, is_open),
            // It changed during each look.
            Front::Unknown | Front::Empty | Front::Buffer(_) => {
                self.read_by_front(read, previous_ns, conditions, is_open)
            }
        }
    }

    /// Stores the thread of a read. Returns the time of its previous one; 0 if unknown.
    fn note_reader(&mut self, read: &Read) -> u64 {
        let Read { tid, time_ns: last_ns, .. } = *read;
        let before = std::mem::replace(&mut self.reader, Reader { tid, last_ns });
        if before.tid != tid && before.tid != 0 {
            // A new thread is the one that was missing.
            let is_new = self.others.iter().all(|other| other.tid != tid);
            self.others.retain(|other| !is_new || other.tid != 0);
            if self.others.len() >= MAX_READERS {
                self.others.remove(0);
            }
            self.others.push(before);
        }
        let mut previous = std::iter::once(&before).chain(&self.others).filter(|reader| reader.tid == tid);
        let previous_ns = previous.next().map_or(0, |reader| reader.last_ns);
        self.others.retain(|other| other.tid != tid && last_ns.saturating_sub(other.last_ns) < SEVERAL_NS);
        previous_ns
    }

    /// True if several threads read this socket lately.
    fn has_several_readers(&self) -> bool {
        !self.others.is_empty()
    }

    fn candidates(&self, read: &Read, at: Option<usize>, is_open: impl Fn(&DatagramRef) -> bool) -> Candidates {
        let mut found = Candidates::default();
        let first = at.and_then(|at| Some((at, self.waiting.get(at)?)));
        for (n, entry) in self.waiting.iter().enumerate() {
            let has_left = match first {
                Some((at, _)) if n == at => continue,
                Some((at, _)) if n > at + RESYNC_WINDOW => break,
                _ if entry.has_left() => true,
                Some((_, first)) if first.is_before(entry) => continue,
                Some((at, first)) => n < at && entry.is_before(first),
                None => matches!(entry.place, Place::Queued(at_ns) if at_ns <= read.time_ns),
            };
            if entry.is_assigned || is_open(&entry.run.first) {
                if has_left { &mut found.left } else { &mut found.maybe }.push(n);
            }
        }
        found
    }

    /// The entry that has a buffer now. The buffer of a datagram that was taken is used again at once, also before the
    /// read returns; only such entries can be between the old one and the new one.
    fn position_of(&self, skb: u32, is_open: impl Fn(&DatagramRef) -> bool) -> Option<usize> {
        let is_here = |entry: &Entry| !entry.has_left() && (entry.is_assigned || is_open(&entry.run.first));
        let has_it = |entry: &Entry| entry.skb == skb && is_here(entry);
        let first = self.waiting.iter().position(has_it)?;
        let near = self.waiting.iter().enumerate().skip(first).take(RESYNC_WINDOW);
        near.filter(|(_, entry)| has_it(entry)).max_by_key(|(_, entry)| entry.hop_ns).map(|(n, _)| n)
    }

    /// All arrivals in the queue at `time_ns` are entries here if they are as young as `agreed_ns`. But an arrival from
    /// before the capture may still have been on its way.
    fn note_complete(&mut self, agreed_ns: u64, time_ns: u64) {
        let all_arrived = agreed_ns >= self.begin_ns.saturating_add(ON_THE_WAY_NS);
        self.complete_ns = self.complete_ns.or(all_arrived.then_some(time_ns));
    }

    fn position_of_front(&self, front: Front, is_open: impl Fn(&DatagramRef) -> bool) -> Option<usize> {
        match front {
            Front::Buffer(skb) => self.position_of(skb, is_open),
            Front::Empty | Front::Unknown => None,
        }
    }

    /// The only reader found the queue empty. So all that was in it had left for earlier reads, which have returned, and
    /// no earlier read took a later arrival. Returns those that no read was assigned to.
    fn was_empty(&mut self, empty_ns: u64) -> Vec<Queued> {
        let mut gone = Vec::new();
        self.note_complete(empty_ns, empty_ns);
        let is_complete = self.complete_ns.is_some_and(|since_ns| since_ns <= empty_ns);
        let had_left = |entry: &Entry| matches!(entry.place, Place::Queued(at_ns) if at_ns <= empty_ns);
        let near = self.waiting.len().min(2 * RESYNC_WINDOW);
        for n in (0..near).rev() {
            let Some(entry) = self.waiting.get_mut(n) else { continue };
            if had_left(entry) || entry.has_left() {
                let is_unread = !entry.is_assigned;
                gone.extend(self.remove(n).filter(|_| is_unread));
            } else if is_complete && entry.hop_ns > empty_ns {
                entry.is_doubted = false;
            }
        }
        gone
    }

    /// The read took an entry that is no longer in the kernel's queue.
    fn read_by_front(
        &mut self,
        read: &Read,
        previous_ns: u64,
        conditions: Conditions<'_>,
        is_open: impl Fn(&DatagramRef) -> bool,
    ) -> Option<Match> {
        let (several, time_ns) = (self.has_several_readers(), read.time_ns);
        let at = self.position_of_front(read.front, &is_open);
        self.is_observed = true;
        let agreed_ns = self.agreed_ns;
        let in_doubt = conditions.losses.overlap(agreed_ns, read.time_ns);
        let since_ns = conditions.order_since_ns.map(|since_ns| since_ns.max(self.parted_ns));
        let torn = since_ns.is_none_or(|since_ns| agreed_ns < since_ns);
        if at.is_none() && read.front != Front::Empty {
            // The first datagram is one from before the capture, or its arrival was lost or left out, or an earlier read
            // in doubt was assigned to it. So this read may have taken any.
            self.complete_ns = None;
            self.first = None;
            self.doubt_ns = read.time_ns;
            return None;
        }
        let mut gone = Vec::new();
        // A read since then may have taken what arrived since.
        if !several && read.empty_ns > previous_ns {
            gone = self.was_empty(read.empty_ns);
        }
        let at = at.and_then(|_| self.position_of_front(read.front, &is_open));
        let is_new = previous_ns == 0;
        let previous_ns = previous_ns.max(read.empty_ns);
        let doubt_ns = std::mem::take(&mut self.doubt_ns);
        let near = at.unwrap_or(self.waiting.len()).saturating_add(RESYNC_WINDOW);
        let doubted = self.waiting.iter_mut().take(near).take_while(|entry| entry.hop_ns <= doubt_ns);
        doubted.for_each(|entry| entry.is_doubted = true);
        let found = self.candidates(read, at, &is_open);
        // The read took its datagram after the thread's previous return.
        let is_complete = self.complete_ns.is_some_and(|since_ns| {
            previous_ns >= since_ns || read.time_ns.saturating_sub(since_ns) >= SEVERAL_NS
        });
        // Reads that were under way at a doubtful choice may have taken what was assigned there.
        let is_settled = !several
            || !is_new
                && previous_ns >= self.confused_ns
                && self.others.iter().all(|other| other.last_ns >= self.confused_ns);
        let read = Bounded { len: read.len, is_complete: is_complete && is_settled, several };
        let exact = !several && conditions.shows_drops && !in_doubt;
        let chosen = if exact { self.choose_of_one_reader(read, &found) } else { self.choose(read, &found) };
        let free = chosen.and_then(|(n, _)| self.waiting.get(n)).filter(|entry| !entry.is_assigned);
        let run = free.map(|entry| entry.run.clone());
        let ambiguous = in_doubt || chosen.is_some_and(|(_, is_certain)| !is_certain);
        let firm: Vec<usize> = found.left.iter().copied().filter(|n| self.waiting[*n].is_firm()).collect();
        let mut removed = chosen.map(|(n, _)| n);
        if let Some((n, false)) = chosen {
            if found.all().nth(1).is_some() {
                self.confused_ns = time_ns;
            }
            found.all().for_each(|n| self.waiting[n].is_doubted = true);
            if (several || found.maybe.contains(&n)) && !self.waiting[n].is_assigned {
                self.waiting[n].is_assigned = true;
                removed = None;
            }
        }
        // Arrivals from here on are complete, unless they are lost.
        self.agreed_ns = match at.and_then(|at| self.waiting.get(at)) {
            Some(first) => agreed_ns.max(first.hop_ns),
            None => agreed_ns.max(time_ns.saturating_sub(ON_THE_WAY_NS)),
        };
        self.note_complete(self.agreed_ns, time_ns);
        gone.extend(self.take_out(at, removed, &found, &firm, in_doubt));
        let in_doubt_since_ns = in_doubt.then_some(agreed_ns);
        let is_match = run.is_some() || !gone.is_empty();
        is_match.then_some(Match { run, ambiguous, in_doubt_since_ns, torn, gone })
    }

    /// The candidate that the only reader took, and whether no other can be it. All discarded datagrams are known, so
    /// one has left since the last read, besides those whose earlier reads are in doubt.
    fn choose_of_one_reader(&self, read: Bounded, found: &Candidates) -> Option<(usize, bool)> {
        let entry = |n: usize| self.waiting.get(n);
        // Whether the kernel discarded an entry that was read according to a doubtful assignment is unknown.
        let was_first = |n: &usize| {
            let entry = entry(*n).filter(|entry| !entry.is_assigned);
            self.first.is_some() && entry.map(|entry| entry.run.first) == self.first
        };
        let first = found.all().find(was_first);
        let mut firm = found.left.iter().copied().filter(|n| entry(*n).is_some_and(Entry::is_firm));
        match (first.or_else(|| firm.next()), firm.find(|n| Some(*n) != first)) {
            (Some(one), None) => return Some((one, true)),
            // There is another reader, whose first read has not returned yet.
            (Some(_), Some(_)) => return self.choose(read, found),
            (None, _) => {}
        }
        // Of those on their way to the queue the first one is taken first.
        let precedes_all = |n: &usize| {
            let me = entry(*n).filter(|entry| entry.is_firm());
            let mut others = found.all().filter(|other| other != n).filter_map(entry);
            me.is_some_and(|me| others.all(|other| me.is_before(other)))
        };
        match found.maybe.iter().find(|n| precedes_all(n)) {
            Some(one) if found.left.is_empty() => Some((*one, read.is_complete)),
            Some(_) | None => self.choose(read, found),
        }
    }

    /// The candidate that a read took, and whether no other can be it.
    fn choose(&self, read: Bounded, found: &Candidates) -> Option<(usize, bool)> {
        let entry = |n: &usize| self.waiting.get(*n);
        let is_sure = |n: usize| read.is_complete && entry(&n).is_some_and(Entry::is_firm);
        let has_length = |n: &usize| entry(n).is_some_and(|entry| entry.run.first.len == read.len);
        let is_free = |n: &usize| entry(n).is_some_and(|entry| !entry.is_assigned);
        let mut fitting = found.all().filter(has_length);
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => Some((one, is_sure(one) && (!read.several || found.all().nth(1).is_none()))),
            (Some(one), Some(_)) => Some((found.all().filter(has_length).find(is_free).unwrap_or(one), false)),
            // The buffer was too small for the datagram.
            (None, _) => {
                let one = found.all().find(is_free).or_else(|| found.all().next())?;
                Some((one, found.all().nth(1).is_none() && is_sure(one)))
            }
        }
    }

    /// Removes the entry that was read. Others that have left the queue wait for the read of another thread, and are
    /// removed and returned where no such thread is known. The entry at `at` is the first of the kernel's queue. `in_doubt`:
    /// records were lost since the last read. Those of reads may be among them, so they show no other thread.
    fn take_out(
        &mut self,
        at: Option<usize>,
        chosen: Option<usize>,
        found: &Candidates,
        firm: &[usize],
        in_doubt: bool,
    ) -> Vec<Queued> {
        let first = at.and_then(|at| self.waiting.get(at)).map(|first| first.run.first);
        let mut removed: Vec<usize> = chosen.into_iter().collect();
        let mut others: Vec<usize> = found.left.iter().rev().copied().filter(|n| Some(*n) != chosen).collect();
        // What no read was assigned to waits before what one was, and of these the newest first.
        others.sort_by_key(|n| self.waiting.get(*n).is_some_and(|entry| entry.is_assigned));
        if self.others.is_empty() && !in_doubt && others.iter().any(|n| firm.contains(n)) {
            self.others.push(Reader { tid: 0, last_ns: self.reader.last_ns.saturating_sub(1) });
        }
        let mut waiting = 0;
        for n in others {
            let Some(entry) = self.waiting.get_mut(n) else { continue };
            if !entry.has_left() {
                entry.place = Place::Left(self.reader.last_ns);
            }
            // A thread that has returned since did not take it.
            let may_wait = self.others.iter().filter(|other| entry.has_left_after(other.last_ns)).count();
            if waiting < may_wait { waiting += 1 } else { removed.push(n) }
        }
        removed.sort_unstable();
        let mut unread = Vec::new();
        for n in removed.into_iter().rev() {
            let is_unread = self.waiting.get(n).is_some_and(|entry| !entry.is_assigned) && Some(n) != chosen;
            unread.extend(self.remove(n).filter(|_| is_unread));
        }
        self.put_first(first);
        unread
    }

    /// Moves the entry that is first in the kernel's queue before those that are behind it there. No read has taken any
    /// of them.
    fn put_first(&mut self, first: Option<DatagramRef>) {
        self.first = first;
        let Some(first) = first else { return };
        let to = self.waiting.iter().take_while(|entry| entry.has_left()).count();
        if let Some(from) = self.waiting.iter().position(|entry| entry.run.first == first)
            && from > to
            && let Some(entry) = self.waiting.remove(from)
        {
            self.waiting.insert(to, entry);
        }
        let mut behind = self.waiting.range_mut(to..).take(RESYNC_WINDOW);
        if let Some(first) = behind.next() {
            first.is_doubted = false;
            behind.filter(|entry| first.is_before(entry)).for_each(|entry| entry.is_doubted = false);
        }
    }

    /// The oldest entry of the right length, where nothing is known of the kernel's queue.
    fn read_by_order(
        &mut self,
        read: &Read,
        conditions: Conditions<'_>,
        is_open: impl Fn(&DatagramRef) -> bool,
    ) -> Option<Match> {
        let Read { len, time_ns, looks, .. } = *read;
        let fits = |entry: &Entry| entry.run.first.len == len && is_open(&entry.run.first);
        let found = self.waiting.iter().take(RESYNC_WINDOW).position(fits);
        // No length fits: the buffer was too small for the datagram, and the order decides.
        let at = found.unwrap_or(0);
        let run = self.waiting.get(at)?.run.clone();
        // After a lost arrival or read, the order proves nothing.
        let agreed_ns = self.agreed_ns;
        let in_doubt = conditions.losses.overlap(agreed_ns, time_ns);
        let torn = conditions.order_since_ns.is_none_or(|since_ns| agreed_ns < since_ns.max(self.parted_ns));
        // Two threads may return in another order than that of their reads.
        let alike = self.has_several_readers()
            && self.waiting.iter().take(RESYNC_WINDOW).filter(|d| fits(d)).nth(1).is_some();
        if !looks {
            self.remove(at);
            // With arrivals left out, the kernel's queue may hold more.
            if self.waiting.is_empty() && !in_doubt && !torn {
                self.agreed_ns = time_ns;
            }
        }
        let in_doubt_since_ns = in_doubt.then_some(agreed_ns);
        let ambiguous = found != Some(0) || in_doubt || alike;
        Some(Match { run: Some(run), ambiguous, in_doubt_since_ns, torn, gone: Vec::new() })
    }
}
