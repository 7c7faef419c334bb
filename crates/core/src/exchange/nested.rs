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
const MOST_READS: usize = 256;
/// Maximum number of threads with stored reads.
const MOST_THREADS: usize = 1 << 14;
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
    exchange: u64,
    /// Instant of the read of its last byte.
    read_ns: u64,
    /// Instant of the last send of its response so far; `None` before, and if none is expected any more that of the read.
    answered_ns: Option<u64>,
}

/// Who asked and who read requests lately. Memory is bounded; forgotten exchanges are not found in others.
#[derive(Debug, Default)]
pub(super) struct Processes {
    asked: BTreeMap<u64, Asked>,
    of_process: Map<(u16, u32), VecDeque<u64>>,
    /// By thread: the requests that it read.
    reads: Map<(u16, u32), VecDeque<ReadRequest>>,
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
            self.note_read((node, thread.tid), ReadRequest { exchange: group.id, read_ns: ns, answered_ns });
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
            let read = ReadRequest { exchange: exchange.id, read_ns: ns, answered_ns };
            self.note_read((responder.node, thread.tid), read);
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

    fn note_read(&mut self, thread: (u16, u32), read: ReadRequest) {
        if self.reads.len() >= MOST_THREADS && !self.reads.contains_key(&thread) {
            self.reads.clear();
        }
        let reads = self.reads.entry(thread).or_default();
        if let Some(same) = reads.iter_mut().rev().find(|other| other.exchange == read.exchange) {
            *same = read;
            return;
        }
        reads.push_back(read);
        if reads.len() > MOST_READS {
            reads.pop_front();
        }
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
        let is_alone = reader.tid == sender.tid
            && self.reads.get(&(responder.node, reader.tid)).is_none_or(|reads| {
                // Of two that it had to answer at once, either may be the reason.
                !reads.iter().any(|read| {
                    let is_open = read.answered_ns.is_none_or(|answered_ns| answered_ns > from_ns);
                    read.exchange != exchange.id && read.read_ns < to_ns && (read.read_ns > from_ns || is_open)
                })
            });
        let inner = ids.iter().filter_map(|id| {
            let asked = self.asked.get(id)?;
            let is_within = *id != exchange.id && asked.from_ns >= from_ns && asked.to_ns <= to_ns;
            let is_same_thread = is_alone && asked.threads == [reader.tid; 2];
            let by = if is_same_thread { NestedBy::SameThread } else { NestedBy::SameProcess };
            is_within.then_some(Nested { exchange: *id, by })
        });
        inner.take(MOST_DURING).collect()
    }
}
