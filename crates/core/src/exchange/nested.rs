//! Exchanges within exchanges: a server that asks others while it answers.

use super::connection::{Connection, End};
use super::exchange::Exchange;
use super::group::Group;
use crate::hash::Map;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of stored exchanges that processes of the capture began.
const MOST_ASKED: usize = 1 << 16;
/// Maximum number of them of one process, and of stored reads of one thread.
const MOST_OF_PROCESS: usize = 1 << 12;
const MOST_OF_THREAD: usize = 1 << 12;
/// Maximum number of stored reads of all threads: more than exchanges wait for those within them.
const MOST_READS: usize = 1 << 17;
/// Maximum number of reads that are looked at for one that was answered.
const MOST_LOOKED_AT: usize = 64;
/// Maximum number of exchanges within one.
const MOST_DURING: usize = 64;

/// An exchange that the responder of another one began and ended meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Nested {
    /// Number of the inner exchange.
    pub exchange: u64,
    /// The proof that it belongs to the outer one.
    pub by: NestedBy,
}

/// The proof that one exchange belongs to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NestedBy {
    /// One thread read the outer request, asked, read the inner response, and answered. It had no other request to
    /// answer meanwhile.
    SameThread,
    /// The same process asked meanwhile. It may have been for another request.
    SameProcess,
}

impl NestedBy {
    /// Words on screens and in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameThread => "same-thread",
            Self::SameProcess => "same-process",
        }
    }
}

/// An exchange by its requester.
#[derive(Clone, Copy, Debug)]
struct Asked {
    process: (u16, u32),
    /// Threads of the first send and of the last read.
    threads: [u32; 2],
    from_ns: u64,
    to_ns: u64,
}

/// A request by its reader.
#[derive(Clone, Copy, Debug)]
struct ReadRequest {
    /// Instant of the read of its last byte.
    read_ns: u64,
    /// Instant of the last send of its response so far; `None` before, and if none is expected any more that of the read.
    answered_ns: Option<u64>,
}

impl ReadRequest {
    /// The last instant at which it was seen.
    fn last_ns(&self) -> u64 {
        self.answered_ns.map_or(self.read_ns, |answered_ns| answered_ns.max(self.read_ns))
    }
}

/// The requests that a thread read, by exchange.
#[derive(Debug, Default)]
struct Reads {
    requests: BTreeMap<u64, ReadRequest>,
    /// The last instant of one that was forgotten; 0 if none was.
    forgotten_ns: u64,
}

/// Who asked and who read requests lately. Memory is bounded; forgotten exchanges are not found in others, and a forgotten
/// read proves nothing.
#[derive(Debug, Default)]
pub(super) struct Processes {
    asked: BTreeMap<u64, Asked>,
    of_process: Map<(u16, u32), VecDeque<u64>>,
    reads: Map<(u16, u32), Reads>,
    /// Number of the reads of all threads.
    stored: usize,
    /// By recording: the last instant of any read, and of those that were forgotten for all threads.
    last_ns: Map<u16, u64>,
    forgotten_ns: Map<u16, u64>,
}

impl Processes {
    /// Stores the state of a connection's open exchanges.
    pub fn note(&mut self, connection: &Connection) {
        for group in connection.group.iter().chain(&connection.pending) {
            self.note_group(group, connection.requester_end(), connection.responder_end());
        }
    }

    fn note_group(&mut self, group: &Group, requester: Option<End>, responder: Option<End>) {
        if let (Some(End { node, .. }), Some(thread), Some(ns)) =
            (responder, group.request.reader, group.request.transfer.last_read_ns)
        {
            let answered_ns = group.response.transfer.last_sent_ns;
            self.note_read((node, thread.tid), group.id, ReadRequest { read_ns: ns, answered_ns });
        }
        let (request, response) = (&group.request, &group.response);
        if let (Some(End { node, .. }), Some(sender), Some(reader), Some(from_ns), Some(to_ns)) = (
            requester,
            request.sender,
            response.reader,
            request.transfer.first_sent_ns,
            response.transfer.last_read_ns,
        ) {
            let process = (node, sender.tgid);
            self.note_asked(group.id, Asked { process, threads: [sender.tid, reader.tid], from_ns, to_ns });
        }
    }

    /// Stores a closed exchange.
    pub fn note_closed(&mut self, exchange: &Exchange) {
        let (requester, responder) = (&exchange.requester, &exchange.responder);
        if let (Some(thread), Some(ns), false) =
            (responder.reader, exchange.request.last_read_ns, responder.flow.is_none())
        {
            let answered_ns = exchange.response.last_sent_ns.or(Some(ns));
            self.note_read((responder.node, thread.tid), exchange.id, ReadRequest { read_ns: ns, answered_ns });
        }
        if let (Some(sender), Some(reader), Some(from_ns), Some(to_ns)) =
            (requester.sender, requester.reader, exchange.request.first_sent_ns, exchange.response.last_read_ns)
        {
            let process = (requester.node, sender.tgid);
            self.note_asked(exchange.id, Asked { process, threads: [sender.tid, reader.tid], from_ns, to_ns });
        }
    }

    fn note_asked(&mut self, id: u64, asked: Asked) {
        if self.asked.insert(id, asked).is_some() {
            return;
        }
        let of_process = self.of_process.entry(asked.process).or_default();
        of_process.push_back(id);
        if of_process.len() > MOST_OF_PROCESS
            && let Some(oldest) = of_process.pop_front()
        {
            self.asked.remove(&oldest);
        }
        if self.asked.len() > MOST_ASKED
            && let Some((_, oldest)) = self.asked.pop_first()
            && let Some(of_process) = self.of_process.get_mut(&oldest.process)
        {
            of_process.pop_front();
            if of_process.is_empty() {
                self.of_process.remove(&oldest.process);
            }
        }
    }

    fn note_read(&mut self, thread: (u16, u32), exchange: u64, read: ReadRequest) {
        if self.stored >= MOST_READS {
            self.forget_reads();
        }
        let last_ns = self.last_ns.entry(thread.0).or_default();
        *last_ns = read.last_ns().max(*last_ns);
        let reads = self.reads.entry(thread).or_default();
        if reads.requests.insert(exchange, read).is_some() {
            return;
        }
        self.stored += 1;
        if reads.requests.len() > MOST_OF_THREAD {
            // One that is still to be answered may be the reason of much to come.
            let answered =
                reads.requests.iter().take(MOST_LOOKED_AT).find(|(_, read)| read.answered_ns.is_some());
            let oldest = answered.map_or(exchange, |(oldest, _)| *oldest);
            let forgotten_ns = reads.requests.remove(&oldest).map_or(0, |read| read.last_ns());
            reads.forgotten_ns = reads.forgotten_ns.max(forgotten_ns);
            self.stored -= 1;
        }
    }

    /// Forgets the reads of requests that were answered, and all of them if too many were not.
    fn forget_reads(&mut self) {
        self.forgotten_ns = self.last_ns.clone();
        self.reads.retain(|_, reads| {
            reads.requests.retain(|_, read| read.answered_ns.is_none());
            !reads.requests.is_empty()
        });
        self.stored = self.reads.values().map(|reads| reads.requests.len()).sum();
        if self.stored > MOST_READS / 2 {
            self.reads.clear();
            self.stored = 0;
        }
    }

    /// True if a thread read no other request that it had to answer between two instants: of two, either may be the reason
    /// of what it did.
    fn is_alone(&self, thread: (u16, u32), exchange: u64, from_ns: u64, to_ns: u64) -> bool {
        let Some(reads) = self.reads.get(&thread) else { return false };
        let is_other = |(id, read): (&u64, &ReadRequest)| {
            let is_open = read.answered_ns.is_none_or(|answered_ns| answered_ns > from_ns);
            *id != exchange && read.read_ns < to_ns && (read.read_ns > from_ns || is_open)
        };
        let forgotten_ns = self.forgotten_ns.get(&thread.0).copied().unwrap_or_default();
        from_ns > forgotten_ns.max(reads.forgotten_ns) && !reads.requests.iter().any(is_other)
    }

    /// The exchanges that the responder of this one began and ended between the read of the request and the last send of
    /// the response, in order.
    pub fn during(&self, exchange: &Exchange) -> Vec<Nested> {
        let responder = &exchange.responder;
        let (Some(reader), Some(sender)) = (responder.reader, responder.sender) else { return Vec::new() };
        let (Some(from_ns), Some(to_ns)) = (exchange.request.last_read_ns, exchange.response.last_sent_ns)
        else {
            return Vec::new();
        };
        let Some(ids) = self.of_process.get(&(responder.node, reader.tgid)) else { return Vec::new() };
        let inner = ids.iter().filter_map(|id| {
            let asked = self.asked.get(id)?;
            let is_within = *id != exchange.id && asked.from_ns >= from_ns && asked.to_ns <= to_ns;
            is_within.then_some((*id, asked.threads == [reader.tid; 2]))
        });
        let inner: Vec<(u64, bool)> = inner.take(MOST_DURING).collect();
        // What was not seen may have been another request.
        let is_seen = exchange.broken.is_none_or(|why| !why.is_of_unseen());
        let is_proven = is_seen
            && reader == sender
            && !reader.is_none()
            && inner.iter().any(|(_, is_same_thread)| *is_same_thread)
            && self.is_alone((responder.node, reader.tid), exchange.id, from_ns, to_ns);
        let nested = |(exchange, is_same_thread): (u64, bool)| {
            let by = if is_proven && is_same_thread { NestedBy::SameThread } else { NestedBy::SameProcess };
            Nested { exchange, by }
        };
        inner.into_iter().map(nested).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::end::ExchangeEnd;
    use super::super::example::turn;
    use super::super::grade::BrokenBy;
    use super::*;
    use crate::flow::FlowId;
    use crate::journey::ThreadRef;

    const WORKER: ThreadRef = ThreadRef { tgid: 200, tid: 201 };
    const OTHER: ThreadRef = ThreadRef { tgid: 300, tid: 301 };

    /// An exchange of one instant for each of its calls.
    fn exchange(id: u64, (asks, answers): (ThreadRef, ThreadRef), ns: [u64; 4]) -> Exchange {
        let end = |flow, thread| ExchangeEnd {
            flow: FlowId(flow),
            reader: Some(thread),
            sender: Some(thread),
            ..ExchangeEnd::default()
        };
        Exchange {
            requester: end(2 * id, asks),
            responder: end(2 * id + 1, answers),
            ..turn(id, [ns[0], ns[1]], [ns[2], ns[3]])
        }
    }

    /// An outer exchange from 1010 to 1090 ns, and one within it.
    fn noted(processes: &mut Processes) -> Exchange {
        let outer = exchange(1, (OTHER, WORKER), [1_000, 1_010, 1_090, 1_100]);
        processes.note_closed(&exchange(2, (WORKER, OTHER), [1_020, 1_030, 1_040, 1_050]));
        processes.note_closed(&outer);
        outer
    }

    fn proof(processes: &Processes, outer: &Exchange) -> Option<NestedBy> {
        processes.during(outer).first().map(|nested| nested.by)
    }

    /// A request to the same thread, from its read to its answer.
    fn read_between(processes: &mut Processes, id: u64, read_ns: u64, answered_ns: u64) {
        let ns = [read_ns - 1, read_ns, answered_ns, answered_ns + 1];
        processes.note_closed(&exchange(id, (OTHER, WORKER), ns));
    }

    #[test]
    fn what_is_forgotten_of_one_recording_proves_nothing_of_another() {
        let mut processes = Processes::default();
        let read = |ns| ReadRequest { read_ns: ns, answered_ns: Some(ns) };
        let later_ns = 3_600_000_000_000;
        for id in 0..=MOST_READS as u64 {
            processes.note_read((0, id as u32 % 64), id, read(later_ns + id));
        }
        let id = MOST_READS as u64 + 1;
        processes.note_read((1, 7), id, read(1_000));
        assert!(processes.is_alone((1, 7), id, 900, 2_000), "its clock is an hour behind");
        processes.note_read((0, 7), id + 1, read(later_ns + 1_000));
        assert!(!processes.is_alone((0, 7), id + 1, later_ns + 900, later_ns + 2_000), "others were forgotten");
    }

    #[test]
    fn one_thread_with_one_request_proves_what_it_asked_for() {
        let mut processes = Processes::default();
        let outer = noted(&mut processes);
        assert_eq!(proof(&processes, &outer), Some(NestedBy::SameThread));
        let broken = Exchange { broken: Some(BrokenBy::EventLoss), ..outer.clone() };
        assert_eq!(proof(&processes, &broken), Some(NestedBy::SameProcess), "a request may have been missed");
        read_between(&mut processes, 3, 900, 1_005);
        assert_eq!(proof(&processes, &outer), Some(NestedBy::SameThread), "it had been answered");
        read_between(&mut processes, 4, 1_015, 1_080);
        assert_eq!(proof(&processes, &outer), Some(NestedBy::SameProcess));
    }

    #[test]
    fn a_forgotten_request_of_the_thread_leaves_no_proof() {
        let mut processes = Processes::default();
        let outer = noted(&mut processes);
        read_between(&mut processes, 4, 1_015, 1_080);
        for id in 10..10 + 2 * MOST_OF_THREAD as u64 {
            read_between(&mut processes, id, 10_000 + 10 * id, 10_005 + 10 * id);
        }
        assert_eq!(proof(&processes, &outer), Some(NestedBy::SameProcess));
        assert!(processes.stored <= MOST_OF_THREAD + 1, "{}", processes.stored);
    }

    #[test]
    fn the_requests_of_too_many_threads_leave_no_proof() {
        let mut processes = Processes::default();
        let outer = noted(&mut processes);
        for id in 10..10 + MOST_READS as u64 {
            let read = ReadRequest { read_ns: 10_000 + id, answered_ns: Some(10_001 + id) };
            processes.note_read((0, id as u32), id, read);
        }
        assert!(processes.stored <= MOST_READS, "{}", processes.stored);
        processes.note_closed(&outer);
        assert_eq!(proof(&processes, &outer), Some(NestedBy::SameProcess));
        // One that is still to be answered is remembered.
        let mut processes = Processes::default();
        processes.note_read((0, WORKER.tid), 9, ReadRequest { read_ns: 900, answered_ns: None });
        processes.forget_reads();
        assert_eq!((processes.stored, processes.reads.len()), (1, 1));
    }
}
