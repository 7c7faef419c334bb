//! Requests and responses: the exchanges of the capture so far, by service, and the slowest.

use crate::format::{count, duration, percent};
use crate::names::Names;
use magscope_core::context::Context;
use magscope_core::exchange::{Exchange, ExchangeBuilder, ExchangeEnd, ExchangePart, Grade, Transfer};
use magscope_core::{Batch, Blame, Journey};
use magscope_report::requests::{
    RequestRow, RequestSums, RequestTable, RequestsBy, process_name, service_name,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Number of slowest requests in memory.
pub const MOST_SLOWEST: usize = 64;
/// Number of exchanges whose names are stored for those around them.
const MOST_NAMED: usize = 1 << 14;
/// Number of parts of the path in a note, and of inner exchanges.
const NOTES: usize = 3;
const INNER: usize = 4;

/// One part of a request's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestPart {
    /// The part.
    pub part: ExchangePart,
    /// Its begin, nanoseconds from the begin of the request.
    pub from_ns: u64,
    /// Duration, nanoseconds.
    pub ns: u64,
    /// Payload, for a transfer.
    pub bytes: Option<u64>,
    /// Where the time went.
    pub note: String,
}

/// A request among the slowest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// Number of the exchange.
    pub id: u64,
    /// Instant of the first byte, nanoseconds on the time line.
    pub start_ns: u64,
    /// Duration, nanoseconds.
    pub total_ns: u64,
    /// The requester: process and node.
    pub requester: String,
    /// The responder: process and node.
    pub responder: String,
    /// Port and process of the responder.
    pub service: String,
    /// Its parts; empty without the responder.
    pub parts: Vec<RequestPart>,
    /// Requests within it: what was asked, its duration, and the proof.
    pub during: Vec<String>,
}

/// The view of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestPanel<'a> {
    /// By service, those with the most exchanges first.
    pub table: RequestTable,
    /// The slowest first.
    pub slowest: Vec<&'a SlowRequest>,
}

/// Smallest share of a part that is named.
const NAMED: f64 = 0.01;

impl RequestPanel<'_> {
    /// Number and share of turns, and of the other grades; what to expect without any exchange.
    pub fn title(&self) -> String {
        let grades = self.table.grades;
        let all = grades.total();
        if all == 0 {
            return "no request and no response yet: they show when both programs send and read in turns"
                .to_owned();
        }
        let others = Grade::ALL.into_iter().filter(|grade| *grade != Grade::Turn && grades.of(*grade) > 0);
        let others: Vec<String> =
            others.map(|grade| format!(", {} {grade}", count(grades.of(grade)))).collect();
        let share = percent(grades.turn as f64 / all as f64);
        format!(
            "turns: {} of {} exchanges ({}){}",
            count(grades.turn),
            count(all),
            share.trim(),
            others.concat()
        )
    }
}

/// Where the time of a service's slowest requests goes: `until answered 92 %, waiting for a CPU 5 %`.
pub fn slowest_parts(row: &RequestRow) -> String {
    let named = row.slowest.iter().filter(|part| part.share >= NAMED);
    let named: Vec<String> = named.map(|part| format!("{} {:.0} %", part.part, part.share * 100.0)).collect();
    named.join(", ")
}

/// Exchanges so far.
#[derive(Debug)]
pub struct Requests {
    builder: ExchangeBuilder,
    sums: RequestSums,
    /// By duration and number, the shortest first.
    slowest: BTreeMap<(u64, Reverse<u64>), SlowRequest>,
    named: BTreeMap<u64, (String, Option<u64>)>,
    ready: Vec<Exchange>,
}

impl Default for Requests {
    fn default() -> Self {
        Requests {
            builder: ExchangeBuilder::new(),
            sums: RequestSums::new(RequestsBy::Service),
            slowest: BTreeMap::new(),
            named: BTreeMap::new(),
            ready: Vec::new(),
        }
    }
}

impl Requests {
    /// Takes the events of a batch. `visit` gets every exchange that was closed.
    pub fn batch(&mut self, node: u16, batch: &Batch, names: &Names, visit: impl FnMut(&Exchange)) {
        self.builder.batch(node, batch, &mut self.ready);
        self.collect(names, visit);
    }

    /// Takes a journey. `visit` gets every exchange that was closed.
    pub fn journey(&mut self, journey: &Journey, names: &Names, visit: impl FnMut(&Exchange)) {
        self.builder.journey(journey, names, &mut self.ready);
        self.collect(names, visit);
    }

    /// Ends the source: closes what is open. `visit` gets every exchange that was closed.
    pub fn end(&mut self, names: &Names, visit: impl FnMut(&Exchange)) {
        self.builder.finish(&mut self.ready);
        self.collect(names, visit);
    }

    fn collect(&mut self, names: &Names, mut visit: impl FnMut(&Exchange)) {
        for exchange in self.ready.drain(..) {
            visit(&exchange);
            self.sums.add(&exchange, names);
            if !exchange.requester.flow.is_none() {
                let what = service_name(&exchange, names);
                self.named.insert(exchange.id, (what, exchange.envelope_ns()));
                if self.named.len() > MOST_NAMED {
                    self.named.pop_first();
                }
            }
            let Some(total_ns) = exchange.total_ns() else { continue };
            let key = (total_ns, Reverse(exchange.id));
            let is_full = self.slowest.len() >= MOST_SLOWEST;
            if is_full && self.slowest.first_key_value().is_some_and(|(fastest, _)| key < *fastest) {
                continue;
            }
            self.slowest.insert(key, slow_request(&exchange, total_ns, names, &self.named));
            if is_full {
                self.slowest.pop_first();
            }
        }
    }

    /// The view, with at most this many services and slowest requests.
    pub fn panel(&self, services: usize, slowest: usize) -> RequestPanel<'_> {
        RequestPanel {
            table: self.sums.table(services),
            slowest: self.slowest.values().rev().take(slowest).collect(),
        }
    }
}

fn slow_request(
    exchange: &Exchange,
    total_ns: u64,
    names: &Names,
    named: &BTreeMap<u64, (String, Option<u64>)>,
) -> SlowRequest {
    let inner = exchange.during.iter().take(INNER).map(|inner| {
        let (what, ns) = named.get(&inner.exchange).cloned().unwrap_or_default();
        let took = ns.map_or_else(String::new, |ns| format!(" {}", duration(ns).trim()));
        format!("during: {what}{took}, {}", inner.by.name().replace('-', " "))
    });
    SlowRequest {
        id: exchange.id,
        start_ns: exchange.start_ns().unwrap_or(0),
        total_ns,
        requester: end_name(&exchange.requester, names),
        responder: end_name(&exchange.responder, names),
        service: service_name(exchange, names),
        parts: parts(exchange),
        during: inner.collect(),
    }
}

fn end_name(end: &ExchangeEnd, names: &Names) -> String {
    let context: &dyn Context = names;
    let process = process_name(end, context);
    match context.flow(end.node, end.flow) {
        Some(flow) => format!("{process}@{}", context.place(end.node, flow.netns)),
        None => process,
    }
}

/// The parts one behind the other.
fn parts(exchange: &Exchange) -> Vec<RequestPart> {
    let mut from_ns = 0_u64;
    exchange
        .parts()
        .map(|(part, ns)| {
            let transfer = match part {
                ExchangePart::RequestTransfer => Some(&exchange.request),
                ExchangePart::UntilAnswered => None,
                ExchangePart::ResponseTransfer => Some(&exchange.response),
            };
            let begin_ns = from_ns;
            from_ns = from_ns.saturating_add(ns);
            RequestPart {
                part,
                from_ns: begin_ns,
                ns,
                bytes: transfer.map(|transfer| transfer.bytes),
                note: part_note(exchange, part),
            }
        })
        .collect()
}

/// Where the time of a part went, the longest first: `waiting for a CPU 5.13 ms, the wire 25.8 µs`. Empty if unknown.
pub fn part_note(exchange: &Exchange, part: ExchangePart) -> String {
    let mut times: Vec<(u64, &str)> = match part {
        ExchangePart::UntilAnswered => exchange.work.map_or_else(Vec::new, |work| {
            let waiting = (work.runnable_ns, "waiting for a CPU");
            vec![(work.on_cpu_ns, "on a CPU"), waiting, (work.blocked_ns, "blocked")]
        }),
        ExchangePart::RequestTransfer => transfer_times(&exchange.request),
        ExchangePart::ResponseTransfer => transfer_times(&exchange.response),
    };
    times.sort_by(|a, b| b.cmp(a));
    let shown = times.iter().filter(|(ns, _)| *ns > 0).take(NOTES);
    let shown: Vec<String> = shown.map(|(ns, words)| format!("{words} {}", duration(*ns).trim())).collect();
    shown.join(", ")
}

fn transfer_times(transfer: &Transfer) -> Vec<(u64, &'static str)> {
    let blame = transfer.last_blame.iter().flat_map(Blame::parts);
    let sending = transfer.sending_ns().map(|ns| (ns, "sending"));
    blame.map(|(part, ns)| (ns, part.words())).chain(sending).collect()
}
