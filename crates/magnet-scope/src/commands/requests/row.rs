//! An exchange with all names, for lists and JSON.

use crate::sessions;
use magscope_core::blame::{Blame, Part};
use magscope_core::context::Context;
use magscope_core::exchange::{
    Exchange, ExchangeEnd, ExchangePart, Grade, Nested, NestedBy, RequesterBy, ThreadTime, Transfer, View,
};
use magscope_core::flow::Proto;
use magscope_report::requests::process_name;
use magscope_scope::look::part_note;
use magscope_timeline::UtcMap;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// An exchange with its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Number of the exchange; as text, because JSON readers round 64 bits.
    #[serde(serialize_with = "as_text")]
    pub id: u64,
    /// Protocol.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// What turn-taking proves.
    pub grade: Grade,
    /// Why it is broken, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken_because: Option<String>,
    /// An unanswered request that waited in the responder's socket and was not read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unread: bool,
    /// The ends in the capture.
    pub view: View,
    /// The source of the knowledge who asks.
    requester_by: RequesterBy,
    /// The end that asked.
    pub requester: End,
    /// The end that answered.
    pub responder: End,
    /// Time of the first byte, RFC 3339; absent without clock samples.
    pub start_utc: Option<String>,
    /// The same in `CLOCK_MONOTONIC` of the first recording, nanoseconds.
    pub start_ns: Option<u64>,
    /// From the first send of the request to the read of the response's last byte, by the requester's clock, nanoseconds.
    pub total_ns: Option<u64>,
    /// The same of whatever grade.
    pub envelope_ns: Option<u64>,
    /// The request.
    pub request: TransferRow,
    /// From the read of the request to the first byte of the response, by the responder's clock, nanoseconds.
    pub answer_ns: Option<u64>,
    /// How the answering thread spent that, if the scheduler's hops were captured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<ThreadTime>,
    /// The response.
    pub response: TransferRow,
    /// Since the previous exchange of the connection, nanoseconds.
    pause_ns: Option<u64>,
    /// The longest time that the requester had read everything and the response had not ended, nanoseconds.
    longest_idle_ns: u64,
    /// Where the time of each part went, in the order of the parts.
    #[serde(skip)]
    pub notes: [String; 3],
    /// Exchanges within it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub during: Vec<Inner>,
}

/// One end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    /// Address and port.
    pub addr: String,
    /// Name of the process; `?` if unknown.
    pub process: String,
    /// Name of the host or network namespace.
    pub node: String,
    /// Process, 0 if unknown.
    tgid: u32,
    /// Thread, 0 if unknown.
    tid: u32,
}

/// The bytes of one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TransferRow {
    /// Payload bytes.
    pub bytes: u64,
    /// From the first send to the read of the last byte, nanoseconds: the part of the total.
    pub ns: Option<u64>,
    /// Error bound of `ns`.
    half_width_ns: Option<u64>,
    /// Instants in `CLOCK_MONOTONIC` of the first recording, nanoseconds.
    pub first_sent_ns: Option<u64>,
    /// See `first_sent_ns`.
    pub last_read_ns: Option<u64>,
    /// From the first send to that of the last journey, without the time until the requester asked again, nanoseconds.
    pub sending_ns: Option<u64>,
    /// Number of journeys.
    journeys: u32,
    /// Retransmissions.
    pub retransmits: u32,
    /// The first and the last journey, numbers of `journeys`.
    #[serde(serialize_with = "as_text")]
    first_journey: u64,
    #[serde(serialize_with = "as_text")]
    last_journey: u64,
    /// Parts of the last journey's time.
    pub last_parts: Vec<PartTime>,
}

/// A part of a journey's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartTime {
    /// The part.
    pub part: Part,
    /// Nanoseconds.
    pub ns: u64,
}

/// An exchange within another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inner {
    /// Its number.
    #[serde(serialize_with = "as_text")]
    pub exchange: u64,
    /// Requester and service, in words; empty if forgotten.
    pub what: String,
    /// Its length, nanoseconds.
    pub envelope_ns: Option<u64>,
    /// The proof.
    pub by: NestedBy,
}

fn as_text<T: std::fmt::Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

impl Row {
    /// Resolves all names.
    pub fn of(exchange: &Exchange, context: &dyn Context, utc: &UtcMap) -> Self {
        let start_ns = exchange.start_ns();
        let has_latency = exchange.grade.has_latency();
        let inner = |nested: &Nested| Inner {
            exchange: nested.exchange,
            what: String::new(),
            envelope_ns: None,
            by: nested.by,
        };
        Row {
            id: exchange.id,
            proto: exchange.proto,
            grade: exchange.grade,
            broken_because: exchange.broken.map(|why| why.to_string()),
            unread: exchange.is_unread(),
            view: exchange.view,
            requester_by: exchange.requester_by,
            requester: End::of(&exchange.requester, context),
            responder: End::of(&exchange.responder, context),
            start_utc: start_ns.and_then(|ns| sessions::utc_text(utc, ns)),
            start_ns,
            total_ns: exchange.total_ns(),
            envelope_ns: exchange.envelope_ns(),
            request: TransferRow::of(exchange, ExchangePart::RequestTransfer, &exchange.request),
            answer_ns: exchange.answer_ns(),
            work: exchange.work.filter(|_| has_latency),
            response: TransferRow::of(exchange, ExchangePart::ResponseTransfer, &exchange.response),
            pause_ns: exchange.pause_ns,
            longest_idle_ns: exchange.longest_idle_ns,
            notes: ExchangePart::ALL.map(|part| part_note(exchange, part)),
            during: exchange.during.iter().map(inner).collect(),
        }
    }

    /// Names the exchanges within it: one may be closed after this one.
    pub fn name_inner(&mut self, named: &BTreeMap<u64, (String, Option<u64>)>) {
        for inner in &mut self.during {
            let name = named.get(&inner.exchange).cloned();
            (inner.what, inner.envelope_ns) = name.unwrap_or_default();
        }
    }
}

impl End {
    fn of(end: &ExchangeEnd, context: &dyn Context) -> Self {
        let thread = end.thread().unwrap_or_default();
        let flow = context.flow(end.node, end.flow);
        End {
            addr: end.addr.map_or_else(|| "?".to_owned(), |addr| addr.to_string()),
            process: process_name(end, context),
            node: flow.map(|flow| context.place(end.node, flow.netns)).unwrap_or_default(),
            tgid: thread.tgid,
            tid: thread.tid,
        }
    }

    /// `curl@client`.
    pub fn words(&self) -> String {
        if self.node.is_empty() { self.process.clone() } else { format!("{}@{}", self.process, self.node) }
    }
}

impl TransferRow {
    /// `transfer` is that of the part.
    fn of(exchange: &Exchange, part: ExchangePart, transfer: &Transfer) -> Self {
        let parts = transfer.last_blame.iter().flat_map(Blame::parts);
        TransferRow {
            bytes: transfer.bytes,
            ns: exchange.part_ns(part),
            half_width_ns: transfer.half_width_ns,
            first_sent_ns: transfer.first_sent_ns,
            last_read_ns: transfer.last_read_ns,
            sending_ns: transfer.sending_ns(),
            journeys: transfer.journeys,
            retransmits: transfer.retransmits,
            first_journey: transfer.first_journey,
            last_journey: transfer.last_journey,
            last_parts: parts.map(|(part, ns)| PartTime { part, ns }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::exchange::example::turn;
    use magscope_core::stored_context::StoredContext;

    #[test]
    fn the_parts_of_a_row_add_up_to_its_total_between_two_clocks() {
        // The responder's clock is estimated to be 60 ns behind, so its read seems to be before the send.
        let turn = turn(1, [1_000, 960], [1_960, 2_080]);
        let row = |exchange: &Exchange| Row::of(exchange, &StoredContext::new(Vec::new()), &UtcMap::new());
        let found = row(&turn);
        assert_eq!((found.request.ns, found.answer_ns, found.response.ns), (Some(0), Some(1_000), Some(80)));
        assert_eq!(found.total_ns, Some(1_080));
        let broken = row(&Exchange { grade: Grade::Broken, ..turn });
        assert_eq!((broken.request.ns, broken.answer_ns, broken.response.ns), (None, None, None));
    }
}
