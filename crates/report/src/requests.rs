//! Exchanges by service, process, cgroup, container, pod, unit or flow: their times, and where the time of the slowest goes.

mod inner;
#[cfg(test)]
mod tests;
mod text;

pub use inner::WaitedFor;
pub use text::write_requests;

use crate::figures::{count, plural};
use crate::stats::heaviest::{Heaviest, Weighed};
use crate::stats::{HopPairStats, Quantiles};
use inner::{Ended, Inner};
use magscope_core::blame::{Blame, Part};
use magscope_core::context::Context;
use magscope_core::exchange::{Exchange, ExchangeEnd, ExchangePart, Grade};
use magscope_core::flow::{Proto, Task};
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

/// Maximum number of distinct groups, the ones with the most exchanges.
const MOST: usize = 2048;
/// Number of a group's slowest exchanges whose parts are kept.
const SLOWEST: usize = 128;
/// Times from here on are long whatever the others are, nanoseconds: a person notices them.
pub(crate) const LONG_NS: u64 = 100_000_000;
/// Kind of the whole time of an exchange whose responder is not in the capture.
const OUTSIDE: usize = 6;
/// Words of that kind in a group that also has exchanges whose responder is in the capture.
pub(crate) const OUTSIDE_WORDS: &str = "until answered outside the capture";
/// Kind of the first part of the path.
const PATH: usize = OUTSIDE + 1;
/// Kind of the time of a request until the requester asked again.
const REPEATED: usize = PATH + Part::COUNT;
/// Number of kinds of parts: sending, three of the responder and the rest of its time, the time of responders outside the
/// capture, those of the path, and the time until the requester asked again.
const KINDS: usize = REPEATED + 1;

/// Grouping key of exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestsBy {
    /// The responder's port and process.
    #[default]
    Service,
    /// Both processes.
    Process,
    /// The responder's cgroup.
    Cgroup,
    /// The responder's container.
    Container,
    /// The responder's pod.
    Pod,
    /// The responder's unit of systemd.
    Unit,
    /// Both addresses.
    Flow,
}

impl RequestsBy {
    /// All, in the order of menus.
    pub const ALL: [RequestsBy; 7] =
        [Self::Service, Self::Process, Self::Cgroup, Self::Container, Self::Pod, Self::Unit, Self::Flow];

    /// Name in titles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Process => "process",
            Self::Cgroup => "cgroup",
            Self::Container => "container",
            Self::Pod => "pod",
            Self::Unit => "unit",
            Self::Flow => "flow",
        }
    }

    /// What a group is, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Service => "Port and process of the responder",
            Self::Process => "Both processes",
            Self::Cgroup => "Cgroup of the responder",
            Self::Container => "Container of the responder",
            Self::Pod => "Pod of the responder",
            Self::Unit => "Unit of systemd of the responder",
            Self::Flow => "Both addresses",
        }
    }
}

impl fmt::Display for RequestsBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The exchanges of a capture in groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestTable {
    /// Grouping key.
    pub by: RequestsBy,
    /// All exchanges by grade.
    pub grades: GradeCounts,
    /// The groups with the most exchanges.
    pub rows: Vec<RequestRow>,
    /// Number of groups outside the rows; an evicted group that returned counts each time.
    pub others: u64,
    /// Number of their exchanges by grade.
    pub rest: GradeCounts,
    /// Maximum number of remembered groups, if there were more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<u64>,
}

/// One group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestRow {
    /// TCP or UDP.
    #[serde(serialize_with = "crate::compare::as_text")]
    pub proto: Proto,
    /// Name of the group.
    pub name: String,
    /// Its exchanges by grade. Times are of turns alone.
    pub grades: GradeCounts,
    /// From the first send of the request to the read of the response's last byte, by the requester's clock.
    pub total: Option<Quantiles>,
    /// From the read of the request to the first byte of the response, by the responder's clock.
    pub answer: Option<Quantiles>,
    /// Payload of the requests, of all grades.
    pub request_bytes: u64,
    /// Payload of the responses, of all grades.
    pub response_bytes: u64,
    /// Retransmissions, of all grades.
    pub retransmits: u64,
    /// UDP: number of turns, and of requests without an answer, whose requester asked again.
    #[serde(skip)]
    pub asked_again: u64,
    /// Parts of the time of the slowest hundredth, at most 128 exchanges, the longest first.
    pub slowest: Vec<PartShare>,
    /// Number of the slowest exchange.
    pub slowest_exchange: Option<u64>,
    /// Process that got no answer to its requests; `None` without any, or of several.
    #[serde(skip)]
    pub unanswered_requester: Option<String>,
    /// Number of turns of 100 ms or more, of those of [`RequestRow::times`].
    #[serde(skip)]
    pub long: u64,
    /// What the responder waited for while it answered the slowest hundredth, if that is proven.
    #[serde(skip)]
    pub waited_for: Option<WaitedFor>,
    /// True if it was first seen after evictions and may be an evicted group: part of it may be in the rest.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_be_more: bool,
}

impl RequestRow {
    /// Protocol and name.
    pub fn label(&self) -> String {
        format!("{} {}", self.proto, self.name)
    }

    /// The times of most of its turns: the totals, or those until answered if the requesters of most are not in the
    /// capture.
    pub fn times(&self) -> Option<Quantiles> {
        if self.is_of_answers() { self.answer } else { self.total }
    }

    /// True if these are the times until answered.
    pub fn is_of_answers(&self) -> bool {
        let n = |times: Option<Quantiles>| times.map_or(0, |times| times.n);
        n(self.total) < n(self.answer).div_ceil(2)
    }

    /// What these times leave out, in words: turns whose requester is not in the capture, or those of which it is.
    pub fn times_note(&self) -> Option<String> {
        let (total, answer) = (self.total.map_or(0, |times| times.n), self.answer.map_or(0, |times| times.n));
        match (self.is_of_answers(), total, answer) {
            (true, 0, _) => Some("the requester is not in the capture: times until answered".to_owned()),
            (true, ..) => Some(format!(
                "the requester of {} is in the capture, so the times of all are until answered",
                plural(total, "turn", "turns")
            )),
            (false, ..) if total < answer => {
                let others = match answer - total {
                    1 => "the requester of 1 other is".to_owned(),
                    n => format!("the requesters of {} others are", count(n)),
                };
                Some(format!("times of {}; {others} not in the capture", plural(total, "turn", "turns")))
            }
            _ => None,
        }
    }
}

/// Number of exchanges of each grade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GradeCounts {
    /// See [`Grade::Turn`].
    pub turn: u64,
    /// See [`Grade::Handshake`].
    pub handshake: u64,
    /// See [`Grade::Overlapped`].
    pub overlapped: u64,
    /// See [`Grade::Streamed`].
    pub streamed: u64,
    /// See [`Grade::Unanswered`].
    pub unanswered: u64,
    /// See [`Grade::Unidirectional`]: no exchanges.
    pub unidirectional: u64,
    /// See [`Grade::Broken`].
    pub broken: u64,
}

impl GradeCounts {
    pub(crate) fn count(&mut self, grade: Grade) {
        *self.of_mut(grade) += 1;
    }

    fn of_mut(&mut self, grade: Grade) -> &mut u64 {
        match grade {
            Grade::Turn => &mut self.turn,
            Grade::Handshake => &mut self.handshake,
            Grade::Overlapped => &mut self.overlapped,
            Grade::Streamed => &mut self.streamed,
            Grade::Unanswered => &mut self.unanswered,
            Grade::Unidirectional => &mut self.unidirectional,
            Grade::Broken => &mut self.broken,
        }
    }

    /// Number of one grade.
    pub fn of(mut self, grade: Grade) -> u64 {
        *self.of_mut(grade)
    }

    /// All exchanges. Bytes in one direction alone are none.
    pub fn total(self) -> u64 {
        Grade::ALL.iter().filter(|grade| grade.is_exchange()).map(|grade| self.of(*grade)).sum()
    }

    /// Exchanges, and connections with bytes in one direction alone.
    pub fn with_unidirectional(self) -> u64 {
        self.total() + self.unidirectional
    }

    fn merge(&mut self, other: Self) {
        for grade in Grade::ALL {
            *self.of_mut(grade) += other.of(grade);
        }
    }
}

/// A part of a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartShare {
    /// The part, in words.
    pub part: &'static str,
    /// Sum, nanoseconds.
    pub ns: u64,
    /// Share of the whole, 0 to 1.
    pub share: f64,
}

/// The parts of one exchange, nanoseconds, in the order of [`kind_words`].
type Parts = [u64; KINDS];

/// Words of a kind of part.
fn kind_words(kind: usize) -> &'static str {
    match kind {
        0 => "sending the request",
        1 => "until answered",
        2 => "answering, on a CPU",
        3 => "answering, waiting for a CPU",
        4 => "answering, blocked",
        5 => "sending the response",
        OUTSIDE => OUTSIDE_WORDS,
        REPEATED => "until asked again",
        _ => Part::ALL.get(kind - PATH).map_or("", |part| part.words()),
    }
}

/// The time of an exchange and its parts, which add up to it, up to unseen hops of a transfer: the total, or without the
/// requester that of the answer. `None` without either.
fn parts_of(exchange: &Exchange) -> Option<(u64, Parts)> {
    let total_ns = exchange.total_ns().or_else(|| exchange.answer_ns())?;
    let mut parts = [0; KINDS];
    let Some(answer_ns) = exchange.answer_ns() else {
        parts[OUTSIDE] = total_ns;
        return Some((total_ns, parts));
    };
    match exchange.work {
        Some(work) => (parts[2], parts[3], parts[4]) = (work.on_cpu_ns, work.runnable_ns, work.blocked_ns),
        None => parts[1] = answer_ns,
    }
    let transfers = [
        (ExchangePart::RequestTransfer, &exchange.request, 0),
        (ExchangePart::ResponseTransfer, &exchange.response, 5),
    ];
    for (part, transfer, sending) in transfers {
        let (Some(all_ns), Some(sending_ns)) = (exchange.part_ns(part), transfer.sending_ns()) else {
            continue;
        };
        let mut rest_ns = all_ns;
        for (kind, ns) in [(REPEATED, transfer.repeated_ns), (sending, sending_ns)] {
            let ns = ns.min(rest_ns);
            parts[kind] += ns;
            rest_ns -= ns;
        }
        for (part, ns) in transfer.last_blame.iter().flat_map(Blame::parts) {
            let ns = ns.min(rest_ns);
            parts[PATH + part as usize] += ns;
            rest_ns -= ns;
        }
        parts[PATH + Part::Unknown as usize] += rest_ns;
    }
    Some((total_ns, parts))
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slow {
    ns: u64,
    id: Reverse<u64>,
    parts: Parts,
}

/// Names of the processes that got no answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Requesters {
    #[default]
    None,
    One(String),
    Several,
}

impl Requesters {
    fn add(&mut self, name: &str) {
        match self {
            Self::None => *self = Self::One(name.to_owned()),
            Self::One(own) if own != name => *self = Self::Several,
            _ => {}
        }
    }

    fn merge(&mut self, other: &Self) {
        match other {
            Self::None => {}
            Self::One(name) => self.add(name),
            Self::Several => *self = Self::Several,
        }
    }

    /// The name, if it is one.
    fn one(&self) -> Option<&str> {
        if let Self::One(name) = self { Some(name) } else { None }
    }
}

#[derive(Clone, Debug, Default)]
struct Sum {
    proto: Proto,
    name: String,
    grades: GradeCounts,
    total: HopPairStats,
    answer: HopPairStats,
    request_bytes: u64,
    response_bytes: u64,
    retransmits: u64,
    asked_again: u64,
    unanswered: Requesters,
    slowest: BinaryHeap<Reverse<Slow>>,
    /// What they waited for, by their numbers.
    inner: BTreeMap<u64, Inner>,
}

impl Weighed for Sum {
    fn weight(&self) -> u64 {
        self.grades.with_unidirectional()
    }

    fn merge(&mut self, other: &Self) {
        self.grades.merge(other.grades);
        self.total.merge(&other.total);
        self.answer.merge(&other.answer);
        self.request_bytes += other.request_bytes;
        self.response_bytes += other.response_bytes;
        self.retransmits += other.retransmits;
        self.asked_again += other.asked_again;
        self.unanswered.merge(&other.unanswered);
        for Reverse(slow) in &other.slowest {
            self.push(slow.clone());
        }
    }

    fn by_name(&self, other: &Self) -> Ordering {
        (self.proto, &self.name).cmp(&(other.proto, &other.name))
    }
}

impl Sum {
    fn add(&mut self, exchange: &Exchange) {
        self.grades.count(exchange.grade);
        self.request_bytes += exchange.request.bytes;
        self.response_bytes += exchange.response.bytes;
        self.retransmits += u64::from(exchange.request.retransmits) + u64::from(exchange.response.retransmits);
        let is_question = matches!(exchange.grade, Grade::Turn | Grade::Unanswered);
        self.asked_again += u64::from(is_question && exchange.request.repeats > 0);
        if let Some(ns) = exchange.answer_ns() {
            self.answer.record(ns);
        }
        if let Some(ns) = exchange.total_ns() {
            self.total.record(ns);
        }
        if let Some((ns, parts)) = parts_of(exchange) {
            self.push(Slow { ns, id: Reverse(exchange.id), parts });
        }
    }

    fn push(&mut self, slow: Slow) {
        if self.slowest.len() < SLOWEST || self.slowest.peek().is_some_and(|Reverse(fastest)| slow > *fastest) {
            self.slowest.push(Reverse(slow));
        }
        if self.slowest.len() > SLOWEST {
            self.slowest.pop();
        }
    }

    fn row(&self, may_be_more: bool) -> RequestRow {
        let (slowest, slowest_exchange) = self.shares();
        RequestRow {
            proto: self.proto,
            name: self.name.clone(),
            grades: self.grades,
            total: self.total.quantiles(),
            answer: self.answer.quantiles(),
            request_bytes: self.request_bytes,
            response_bytes: self.response_bytes,
            retransmits: self.retransmits,
            asked_again: self.asked_again,
            slowest,
            slowest_exchange,
            unanswered_requester: self.unanswered.one().map(str::to_owned),
            long: self.long(),
            waited_for: None,
            may_be_more,
        }
    }

    /// The parts of the slowest hundredth.
    fn shares(&self) -> (Vec<PartShare>, Option<u64>) {
        let slowest = self.slowest_hundredth();
        let first = slowest.first().map(|slow| slow.id.0);
        let mut sums = [0_u64; KINDS];
        for slow in slowest {
            sums.iter_mut().zip(slow.parts).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
        }
        let all: u64 = sums.iter().fold(0, |all, ns| all.saturating_add(*ns));
        // Without any responder in the capture there is no other time to confuse it with.
        let is_mixed = self.answer.n() > 0;
        let share = |(kind, ns): (usize, &u64)| PartShare {
            part: kind_words(if kind == OUTSIDE && !is_mixed { 1 } else { kind }),
            ns: *ns,
            share: *ns as f64 / all.max(1) as f64,
        };
        let mut shares: Vec<PartShare> =
            sums.iter().enumerate().filter(|(_, ns)| **ns > 0).map(share).collect();
        shares.sort_by_key(|share| Reverse(share.ns));
        (shares, first)
    }
}

/// Adds up exchanges. Memory is bounded by the number of groups.
#[derive(Debug)]
pub struct RequestSums {
    by: RequestsBy,
    groups: Heaviest<(Proto, String), Sum>,
    grades: GradeCounts,
    ended: Ended,
}

impl RequestSums {
    /// Empty sums.
    pub fn new(by: RequestsBy) -> Self {
        let (groups, grades) = (Heaviest::new(MOST), GradeCounts::default());
        RequestSums { by, groups, grades, ended: Ended::default() }
    }

    /// Counts an exchange.
    pub fn add(&mut self, exchange: &Exchange, context: &dyn Context) {
        self.grades.count(exchange.grade);
        let name = group_name(self.by, exchange, context);
        if self.by == RequestsBy::Service {
            self.ended.note(exchange, &name);
        }
        let sum = self.groups.entry((exchange.proto, name.clone()));
        (sum.proto, sum.name) = (exchange.proto, name);
        if exchange.grade == Grade::Unanswered {
            sum.unanswered.add(&process_name(&exchange.requester, context));
        }
        sum.add(exchange);
        sum.note_inner(exchange, &self.ended);
    }

    /// Number of exchanges by grade.
    pub fn grades(&self) -> GradeCounts {
        self.grades
    }

    /// Counts exchanges.
    pub fn add_all(&mut self, exchanges: &[Exchange], context: &dyn Context) {
        for exchange in exchanges {
            self.add(exchange, context);
        }
    }

    /// True without any exchange.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The table of the `top` groups so far.
    pub fn table(&self, top: usize) -> RequestTable {
        let mut sums: Vec<(&Sum, bool)> = self.groups.values().collect();
        sums.sort_by(|(a, _), (b, _)| b.weight().cmp(&a.weight()).then_with(|| a.by_name(b)));
        let mut rest = self.groups.rest().grades;
        let left_out = sums.iter().skip(top);
        left_out.clone().for_each(|(sum, _)| rest.merge(sum.grades));
        let row = |(sum, may_be_more): &(&Sum, bool)| sum.row_with(&self.ended, *may_be_more);
        RequestTable {
            by: self.by,
            grades: self.grades,
            others: self.groups.seen() - sums.len() as u64 + left_out.count() as u64,
            rows: sums.iter().take(top).map(row).collect(),
            rest,
            bound: self.groups.bound(),
        }
    }
}

/// A thread of an end of an exchange.
fn task<'c>(end: &ExchangeEnd, context: &'c dyn Context) -> Option<&'c Task> {
    context.task(end.node, end.thread()?.tid)
}

/// Name of an end's process; `?` if unknown.
pub fn process_name(end: &ExchangeEnd, context: &dyn Context) -> String {
    task(end, context).map_or_else(|| "?".to_owned(), |task| task.comm.clone())
}

/// Name of a service: port and process of the responder.
pub fn service_name(exchange: &Exchange, context: &dyn Context) -> String {
    let port = exchange.responder.addr.map_or_else(|| "?".to_owned(), |addr| format!(":{}", addr.port()));
    match task(&exchange.responder, context) {
        Some(task) => format!("{port} {}", task.comm),
        None => port,
    }
}

/// The name of a group whose responder is unknown.
const UNKNOWN: &str = "not known";

fn group_name(by: RequestsBy, exchange: &Exchange, context: &dyn Context) -> String {
    match by {
        RequestsBy::Service => service_name(exchange, context),
        RequestsBy::Process => {
            let (requester, responder) = (&exchange.requester, &exchange.responder);
            format!("{} → {}", process_name(requester, context), process_name(responder, context))
        }
        RequestsBy::Cgroup => {
            let path = task(&exchange.responder, context).map(|task| {
                let path = context.info(exchange.responder.node).and_then(|info| info.cgroup_path(task.cgroup));
                path.map_or_else(|| format!("cgroup {}", task.cgroup), str::to_owned)
            });
            path.unwrap_or_else(|| UNKNOWN.to_owned())
        }
        RequestsBy::Container | RequestsBy::Pod | RequestsBy::Unit => {
            let Some(member) = exchange.responder.member(context) else { return UNKNOWN.to_owned() };
            let name = match by {
                RequestsBy::Pod => member.pod(),
                RequestsBy::Unit => member.unit.map(str::to_owned),
                _ => member.container_name().map(str::to_owned),
            };
            let host = context.info(exchange.responder.node).filter(|_| context.nodes() > 1);
            match (name, host) {
                (Some(name), Some(info)) => format!("{}/{name}", info.host),
                (Some(name), None) => name,
                (None, _) => format!("no {}", by.name()),
            }
        }
        RequestsBy::Flow => {
            let addr = |end: &ExchangeEnd| end.addr.map_or_else(|| "?".to_owned(), |addr| addr.to_string());
            format!("{} → {}", addr(&exchange.requester), addr(&exchange.responder))
        }
    }
}
