//! Requests and responses: the exchanges of the capture so far, by service, and the slowest.

use crate::choice::Choice;
use crate::format::{count, counted, duration, percent};
use crate::names::Names;
use magscope_core::context::Context;
use magscope_core::exchange::{
    Exchange, ExchangeBuilder, ExchangeEnd, ExchangeFilter, ExchangePart, Grade, Transfer,
};
use magscope_core::{Batch, Blame, FlowId, Journey};
use magscope_report::requests::{
    RequestRow, RequestSums, RequestTable, RequestsBy, process_name, service_name,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

/// Number of slowest requests in memory.
pub const MOST_SLOWEST: usize = 64;
/// Number of exchanges whose names are stored for those around them.
const MOST_NAMED: usize = 1 << 14;
/// Number of recent exchanges in memory, for the journeys of the picture.
const MOST_RECENT: usize = 1 << 10;
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

/// A journey of an exchange. Numbers of journeys are unique for each end only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JourneyRef {
    id: u64,
    sender: FlowId,
    receiver: FlowId,
}

impl JourneyRef {
    /// The journeys that ended the request and the response of an exchange.
    pub(crate) fn last_of(exchange: &Exchange) -> [Option<Self>; 2] {
        let (requester, responder) = (exchange.requester.flow, exchange.responder.flow);
        let of = |transfer: &Transfer, sender, receiver| {
            (transfer.journeys > 0).then_some(JourneyRef { id: transfer.last_journey, sender, receiver })
        };
        [of(&exchange.request, requester, responder), of(&exchange.response, responder, requester)]
    }

    /// True for this journey.
    pub(crate) fn is(&self, journey: &Journey) -> bool {
        self.id == journey.id && are_ends(journey, self.sender, self.receiver)
    }
}

/// True if a journey went from one of these flows to the other; one of them may not be in the capture.
fn are_ends(journey: &Journey, sender: FlowId, receiver: FlowId) -> bool {
    !sender.is_none() && journey.tx_flow == sender || !receiver.is_none() && journey.rx_flow == receiver
}

/// A request among the slowest, or that of a journey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// Number of the exchange.
    pub id: u64,
    /// Its grade.
    pub grade: Grade,
    /// The journeys that ended the request and the response.
    pub last_journeys: [Option<JourneyRef>; 2],
    /// Instant of the first byte, nanoseconds on the time line.
    pub start_ns: u64,
    /// Duration, nanoseconds; without a latency by its grade, the time between its first and its last byte; without the
    /// requester, that of the answer.
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
    /// The slowest first; before them the request of a journey, if that was asked for.
    pub slowest: Vec<&'a SlowRequest>,
    /// Number of the selected exchange.
    pub selected: Option<u64>,
    /// Whether a filter chose among the exchanges.
    pub filtered: Filtered,
    /// The filter of the screen as text; empty without one.
    pub filter: String,
}

/// Whether a filter chose among the exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtered {
    /// All, without a filter.
    #[default]
    All,
    /// Those that match, of all.
    Matching,
    /// Those that match, of the last ones in memory and of later ones.
    Lately,
    /// All, because the filter is one of journeys alone.
    JourneysOnly,
}

/// Smallest share of a part that is named.
const NAMED: f64 = 0.01;

impl RequestPanel<'_> {
    /// Number and share of turns, and of the other grades; what to expect without any exchange.
    pub fn title(&self) -> String {
        let grades = self.table.grades;
        let all = grades.total();
        let of = match self.filtered {
            Filtered::All => String::new(),
            Filtered::Matching => format!("{}: ", self.filter),
            Filtered::Lately => {
                format!("{}, of the last {} and later ones: ", self.filter, count(MOST_RECENT as u64))
            }
            Filtered::JourneysOnly => format!("all, {} is of journeys: ", self.filter),
        };
        if all == 0 && matches!(self.filtered, Filtered::Matching | Filtered::Lately) {
            return format!("{of}none");
        }
        if all == 0 {
            return "no request and no response yet: they show when both programs send and read in turns"
                .to_owned();
        }
        let others = Grade::ALL.into_iter().filter(|grade| *grade != Grade::Turn && grades.of(*grade) > 0);
        let others: Vec<String> =
            others.map(|grade| format!(", {} {grade}", count(grades.of(grade)))).collect();
        let share = percent(grades.turn as f64 / all as f64);
        format!(
            "{of}turns: {} of {} exchanges ({}){}",
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

/// The services without a row, in words; `None` if each has one.
pub fn more_services(table: &RequestTable) -> Option<String> {
    if table.others == 0 {
        return None;
    }
    let services = counted(table.others, "more service", "more services");
    let exchanges = counted(table.rest.total(), "exchange", "exchanges");
    Some(match table.bound {
        None => format!("{services}, {exchanges}"),
        // One that was dropped and came again counts each time.
        Some(bound) => format!("at most {services}, {exchanges}: only {} are remembered", count(bound)),
    })
}

/// Exchanges so far.
#[derive(Debug)]
pub struct Requests {
    builder: ExchangeBuilder,
    all: Listing,
    /// What a filter chose.
    matching: Option<Matching>,
    named: BTreeMap<u64, (String, Option<u64>)>,
    /// The latest exchanges, with the names of their ends at that time.
    recent: VecDeque<(Exchange, EndNames)>,
    /// The request of a journey.
    chosen: Option<SlowRequest>,
    ready: Vec<Exchange>,
    /// Numbers of those that came to the slowest, until they are fetched.
    fresh: Vec<u64>,
}

/// Sums and the slowest of some exchanges.
#[derive(Debug)]
struct Listing {
    sums: RequestSums,
    /// By duration and number, the shortest first.
    slowest: BTreeMap<(u64, Reverse<u64>), SlowRequest>,
}

/// The exchanges that a filter chose.
#[derive(Debug)]
struct Matching {
    filter: ExchangeFilter,
    listing: Listing,
    /// True if earlier ones were not in memory any more.
    lately: bool,
}

impl Default for Listing {
    fn default() -> Self {
        Listing { sums: RequestSums::new(RequestsBy::Service), slowest: BTreeMap::new() }
    }
}

impl Listing {
    /// Counts an exchange. Returns true if it is among the slowest.
    fn add(&mut self, exchange: &Exchange, names: &Names, slow: impl FnOnce() -> SlowRequest) -> bool {
        self.sums.add(exchange, names);
        let Some(total_ns) = exchange.total_ns().or_else(|| exchange.answer_ns()) else { return false };
        let key = (total_ns, Reverse(exchange.id));
        let is_full = self.slowest.len() >= MOST_SLOWEST;
        if is_full && self.slowest.first_key_value().is_some_and(|(fastest, _)| key < *fastest) {
            return false;
        }
        self.slowest.insert(key, slow());
        if is_full {
            self.slowest.pop_first();
        }
        true
    }
}

/// Names of an exchange.
#[derive(Clone, Debug)]
struct EndNames {
    requester: String,
    responder: String,
    service: String,
}

impl EndNames {
    fn of(exchange: &Exchange, names: &Names) -> Self {
        EndNames {
            requester: end_name(&exchange.requester, names),
            responder: end_name(&exchange.responder, names),
            service: service_name(exchange, names),
        }
    }
}

impl Default for Requests {
    fn default() -> Self {
        Requests {
            builder: ExchangeBuilder::new(),
            all: Listing::default(),
            matching: None,
            named: BTreeMap::new(),
            recent: VecDeque::new(),
            chosen: None,
            ready: Vec::new(),
            fresh: Vec::new(),
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
            if !exchange.requester.flow.is_none() {
                let what = service_name(&exchange, names);
                self.named.insert(exchange.id, (what, exchange.envelope_ns()));
                if self.named.len() > MOST_NAMED {
                    self.named.pop_first();
                }
            }
            let end_names = EndNames::of(&exchange, names);
            let slow = || slow_request(&exchange, &end_names, &self.named);
            let mut is_slow = self.all.add(&exchange, names, slow);
            if let Some(Matching { filter, listing, .. }) = &mut self.matching
                && filter.matches(&exchange, names)
            {
                is_slow |= listing.add(&exchange, names, slow);
            }
            if is_slow {
                self.fresh.push(exchange.id);
            }
            if self.recent.len() >= MOST_RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back((exchange, end_names));
        }
    }

    /// Shows those alone that match, of those in memory and of later ones; without a filter all.
    pub fn filter_by(&mut self, filter: Option<ExchangeFilter>, names: &Names) {
        self.chosen = None;
        self.matching = filter.map(|filter| {
            let mut listing = Listing::default();
            for (exchange, end_names) in &self.recent {
                if filter.matches(exchange, names)
                    && listing.add(exchange, names, || slow_request(exchange, end_names, &self.named))
                {
                    self.fresh.push(exchange.id);
                }
            }
            let lately = self.all.sums.grades().total() > self.recent.len() as u64;
            Matching { filter, listing, lately }
        });
    }

    /// What the view shows.
    fn shown(&self) -> &Listing {
        self.matching.as_ref().map_or(&self.all, |matching| &matching.listing)
    }

    /// The services of all exchanges so far, at most this many: those with the most exchanges.
    pub fn table(&self, services: usize) -> RequestTable {
        self.all.sums.table(services)
    }

    /// The view, with at most this many services and slowest requests. `filter` is that of the screen.
    pub fn panel(
        &self,
        services: usize,
        slowest: usize,
        selected: Option<u64>,
        filter: Option<&Choice>,
    ) -> RequestPanel<'_> {
        let filtered = match &self.matching {
            Some(matching) if matching.lately => Filtered::Lately,
            Some(_) => Filtered::Matching,
            None if filter.is_some() => Filtered::JourneysOnly,
            None => Filtered::All,
        };
        let table = self.shown().sums.table(services);
        let slowest = self.listed().take(slowest).collect();
        let filter = filter.map_or_else(String::new, ToString::to_string);
        RequestPanel { table, slowest, selected, filtered, filter }
    }

    /// The requests of the view: the one of a journey, then the slowest.
    pub fn listed(&self) -> impl Iterator<Item = &SlowRequest> {
        let is_other = |slow: &&SlowRequest| self.chosen.as_ref().is_none_or(|chosen| chosen.id != slow.id);
        self.chosen.iter().chain(self.shown().slowest.values().rev().filter(is_other))
    }

    /// Those that came to the slowest since the last call, with the journeys that ended them.
    pub fn take_fresh(&mut self) -> Vec<(u64, [Option<JourneyRef>; 2])> {
        let fresh = std::mem::take(&mut self.fresh);
        let of = |id| self.all_slowest().find(|slow| slow.id == id);
        fresh.into_iter().filter_map(|id| Some((id, of(id)?.last_journeys))).collect()
    }

    /// True for one of the slowest.
    pub fn is_slowest(&self, id: u64) -> bool {
        self.all_slowest().any(|slow| slow.id == id)
    }

    /// The slowest of all, and those of what a filter chose.
    fn all_slowest(&self) -> impl Iterator<Item = &SlowRequest> {
        let matching = self.matching.iter().flat_map(|matching| matching.listing.slowest.values());
        self.all.slowest.values().chain(matching)
    }

    /// Lists one of the slowest that a filter leaves out, before the others.
    pub fn list_also(&mut self, id: u64) {
        if !self.listed().any(|slow| slow.id == id) {
            self.chosen = self.all.slowest.values().find(|slow| slow.id == id).cloned();
        }
    }

    /// Lists the slowest alone again.
    pub fn unchoose(&mut self) {
        self.chosen = None;
    }

    /// Lists the exchange of a journey before the slowest. Returns its number, if it is still in memory.
    pub fn choose(&mut self, journey: &Journey) -> Option<u64> {
        let (first_ns, last_ns) = journey.span_ns()?;
        let has = |(exchange, _): &&(Exchange, EndNames)| {
            let (requester, responder) = (exchange.requester.flow, exchange.responder.flow);
            let is_of_ends = are_ends(journey, requester, responder) || are_ends(journey, responder, requester);
            let (Some(from_ns), Some(to_ns)) = (exchange.start_ns(), exchange.end_ns()) else { return false };
            // Exchanges of a connection follow each other.
            is_of_ends && first_ns <= to_ns && last_ns >= from_ns
        };
        let (exchange, end_names) = self.recent.iter().rev().find(has)?;
        self.chosen = Some(slow_request(exchange, end_names, &self.named));
        Some(exchange.id)
    }
}

fn slow_request(
    exchange: &Exchange,
    end_names: &EndNames,
    named: &BTreeMap<u64, (String, Option<u64>)>,
) -> SlowRequest {
    let inner = exchange.during.iter().take(INNER).map(|inner| {
        let (what, ns) = named.get(&inner.exchange).cloned().unwrap_or_default();
        let took = ns.map_or_else(String::new, |ns| format!(" {}", duration(ns).trim()));
        format!("during: {what}{took}, {}", inner.by.name().replace('-', " "))
    });
    SlowRequest {
        id: exchange.id,
        grade: exchange.grade,
        last_journeys: JourneyRef::last_of(exchange),
        start_ns: exchange.start_ns().unwrap_or(0),
        total_ns: exchange.envelope_ns().or_else(|| exchange.answer_ns()).unwrap_or(0),
        requester: end_names.requester.clone(),
        responder: end_names.responder.clone(),
        service: end_names.service.clone(),
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
    if part == ExchangePart::UntilAnswered && exchange.is_unread() {
        return "the request was not read".to_owned();
    }
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
    let repeated = [(transfer.repeated_ns, "until asked again")];
    blame.map(|(part, ns)| (ns, part.words())).chain(sending).chain(repeated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::exchange::example::turn;

    #[test]
    fn services_without_a_row_are_counted() {
        let mut table = RequestSums::new(RequestsBy::Service).table(1);
        assert_eq!(more_services(&table), None);
        (table.others, table.rest.turn, table.rest.streamed) = (3, 119, 1);
        assert_eq!(more_services(&table).as_deref(), Some("3 more services, 120 exchanges"));
        (table.others, table.rest.turn, table.rest.streamed) = (1, 1, 0);
        assert_eq!(more_services(&table).as_deref(), Some("1 more service, 1 exchange"));
        table.bound = Some(2_048);
        let words = "at most 1 more service, 1 exchange: only 2 048 are remembered";
        assert_eq!(more_services(&table).as_deref(), Some(words));
    }

    #[test]
    fn the_time_until_asked_again_is_no_sending() {
        let mut one = exchange(1, 10);
        (one.request.first_sent_ns, one.request.repeats, one.request.repeated_ns) = (Some(60), 1, 40);
        let note = part_note(&one, ExchangePart::RequestTransfer);
        assert!(note.starts_with("until asked again ") && !note.contains("sending"), "{note}");
    }

    /// A turn whose answer takes this many microseconds.
    fn exchange(id: u64, answer_us: u64) -> Exchange {
        let answered_ns = 150 + 1_000 * answer_us;
        turn(id, [100, 150], [answered_ns, answered_ns + 50])
    }

    fn add(requests: &mut Requests, exchanges: impl Iterator<Item = Exchange>) {
        requests.ready.extend(exchanges);
        requests.collect(&Names::default(), |_| ());
    }

    fn shown(requests: &Requests) -> (u64, Vec<u64>, Filtered) {
        let panel = requests.panel(10, 100, None, None);
        (panel.table.grades.total(), panel.slowest.iter().map(|slow| slow.id).collect(), panel.filtered)
    }

    #[test]
    fn a_filter_chooses_of_what_is_in_memory_and_of_what_comes() {
        let mut requests = Requests::default();
        let names = Names::default();
        let slow = || Some(ExchangeFilter::parse("answer > 1190us").expect("a filter"));
        add(&mut requests, (1..=1_000).map(|id| exchange(id, id)));
        requests.filter_by(slow(), &names);
        assert_eq!(shown(&requests), (0, vec![], Filtered::Matching), "all of them are in memory");

        add(&mut requests, (1_001..=1_200).map(|id| exchange(id, id)));
        let ten: Vec<u64> = (1_191..=1_200).rev().collect();
        assert_eq!(
            shown(&requests),
            (10, ten.clone(), Filtered::Matching),
            "later ones are chosen when they end"
        );
        assert_eq!(requests.table(10).grades.total(), 1_200, "the headline is about all");

        requests.filter_by(None, &names);
        let (all, slowest, chosen) = shown(&requests);
        assert_eq!((all, slowest.len(), chosen), (1_200, MOST_SLOWEST, Filtered::All));
        requests.filter_by(slow(), &names);
        assert_eq!(shown(&requests), (10, ten, Filtered::Lately), "the first 176 are forgotten");

        add(&mut requests, [exchange(1_201, 5), exchange(1_202, 2_000)].into_iter());
        let (chosen, slowest, _) = shown(&requests);
        assert_eq!((chosen, slowest[0]), (11, 1_202));
        let fresh: Vec<u64> = requests.take_fresh().into_iter().map(|(id, _)| id).collect();
        assert!(fresh.contains(&1_202) && !fresh.contains(&1_201), "their journeys are kept");
        // One that is slow among the chosen alone.
        requests.filter_by(ExchangeFilter::parse("answer < 6us").ok(), &names);
        assert_eq!(shown(&requests), (1, vec![1_201], Filtered::Lately));
        assert!(requests.is_slowest(1_201) && requests.is_slowest(1_202) && !requests.is_slowest(300));
        // The evidence of the headline is about all.
        requests.list_also(1_202);
        assert_eq!(shown(&requests), (1, vec![1_202, 1_201], Filtered::Lately));
        requests.unchoose();
        requests.list_also(1_201);
        assert_eq!(shown(&requests).1, [1_201]);
    }
}
