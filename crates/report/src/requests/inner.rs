//! What responders wait for while they answer: the exchanges within the slowest ones.
//!
//! **The problem.** A service that asks another one is as slow as that is. Its own answers are the longer ones, so they look
//! like the cause.
//!
//! **The choice.** Only exchanges count that the answering thread itself began and ended ([`NestedBy::SameThread`]). An
//! exchange may be output before those within it, so these are looked up again when a table is made.
//!
//! **Known limits.** The times of the latest [`MOST_ENDED`] exchanges are stored. A slow exchange of long ago has those within
//! it only if they were output before it.

use super::{LONG_NS, RequestRow, SLOWEST, Slow, Sum};
use magscope_core::exchange::{Exchange, NestedBy};
use magscope_core::flow::Proto;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of the latest exchanges whose times are stored for those around them.
const MOST_ENDED: usize = 1 << 14;
/// Shorter exchanges are not stored, nanoseconds: no slow one waits for them.
const SHORT_NS: u64 = 100_000;
/// Maximum number of services that one exchange waited for.
const MOST_SERVICES: usize = 4;
/// Maximum number of exchanges within one that are looked up again.
const MOST_MISSING: usize = 8;

/// The service that a responder waited for most while it answered the slowest requests.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitedFor {
    /// TCP or UDP: a service of each may have the same name.
    pub proto: Proto,
    /// Name of the service, as of its group.
    pub name: String,
    /// Share of the time of the slowest requests, 0 to 1.
    pub share: f64,
    /// Number of the longest exchange with it.
    pub exchange: u64,
}

/// The time of one exchange or of several with one service.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wait {
    proto: Proto,
    service: Arc<str>,
    /// Sum, nanoseconds.
    ns: u64,
    /// Time and number of the longest.
    longest: (u64, u64),
}

/// What a responder waited for within one exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inner {
    waits: Vec<Wait>,
    /// Numbers of exchanges that were not output yet.
    missing: Vec<u64>,
}

impl Wait {
    /// The service, as groups are named.
    fn key(&self) -> (Proto, &str) {
        (self.proto, &self.service)
    }
}

impl Inner {
    fn add(&mut self, wait: &Wait) {
        if let Some(own) = self.waits.iter_mut().find(|own| own.key() == wait.key()) {
            own.ns = own.ns.saturating_add(wait.ns);
            own.longest = own.longest.max(wait.longest);
        } else if self.waits.len() < MOST_SERVICES {
            self.waits.push(wait.clone());
        }
    }
}

/// The times of exchanges that were output, by number.
#[derive(Debug, Default)]
pub(super) struct Ended(BTreeMap<u64, Wait>);

impl Ended {
    /// Stores the time of an exchange with a service, as its requester has it.
    pub fn note(&mut self, exchange: &Exchange, service: &str) {
        let Some(ns) = exchange.envelope_ns().filter(|ns| *ns >= SHORT_NS) else { return };
        let (proto, service) = (exchange.proto, Arc::from(service));
        self.0.insert(exchange.id, Wait { proto, service, ns, longest: (ns, exchange.id) });
        if self.0.len() > MOST_ENDED {
            self.0.pop_first();
        }
    }

    /// What the responder of an exchange waited for; `None` if nothing is proven.
    pub fn within(&self, exchange: &Exchange) -> Option<Inner> {
        let mut inner = Inner::default();
        for nested in exchange.during.iter().filter(|nested| nested.by == NestedBy::SameThread) {
            match self.0.get(&nested.exchange) {
                Some(wait) => inner.add(wait),
                None if inner.missing.len() < MOST_MISSING => inner.missing.push(nested.exchange),
                None => {}
            }
        }
        (inner != Inner::default()).then_some(inner)
    }

    /// The service that most of the time of some exchanges went to. `all_ns` is their time.
    pub fn most<'i>(&self, inner: impl Iterator<Item = &'i Inner>, all_ns: u64) -> Option<WaitedFor> {
        let mut sums: BTreeMap<(Proto, Arc<str>), Wait> = BTreeMap::new();
        for of_one in inner {
            let found = of_one.missing.iter().filter_map(|id| self.0.get(id));
            for wait in of_one.waits.iter().chain(found) {
                let none = || Wait { ns: 0, ..wait.clone() };
                let sum = sums.entry((wait.proto, Arc::clone(&wait.service))).or_insert_with(none);
                sum.ns = sum.ns.saturating_add(wait.ns);
                sum.longest = sum.longest.max(wait.longest);
            }
        }
        let most = sums.into_values().max_by_key(|wait| wait.ns)?;
        let share = most.ns as f64 / all_ns.max(1) as f64;
        let (name, exchange) = (most.service.to_string(), most.longest.1);
        Some(WaitedFor { proto: most.proto, name, share: share.min(1.0), exchange })
    }
}

impl Sum {
    /// The slowest hundredth, at least one exchange, the slowest first.
    pub(super) fn slowest_hundredth(&self) -> Vec<&Slow> {
        let mut slowest: Vec<&Slow> = self.slowest.iter().map(|Reverse(slow)| slow).collect();
        slowest.sort_by(|a, b| b.cmp(a));
        let turns = self.total.n().max(self.answer.n());
        slowest.truncate(usize::try_from(turns.div_ceil(100)).unwrap_or(SLOWEST));
        slowest
    }

    /// Number of turns of [`LONG_NS`] or more, of the times that [`RequestRow::times`] has.
    pub(super) fn long(&self) -> u64 {
        let is_of_answers = self.total.n() < self.answer.n().div_ceil(2);
        let times = if is_of_answers { &self.answer } else { &self.total };
        times.n().saturating_sub(times.at_most(LONG_NS - 1))
    }

    /// Stores what the responder of one of the slowest exchanges waited for.
    pub(super) fn note_inner(&mut self, exchange: &Exchange, ended: &Ended) {
        let Some(inner) = ended.within(exchange) else { return };
        self.inner.insert(exchange.id, inner);
        if self.inner.len() > 2 * SLOWEST {
            let slowest: BTreeSet<u64> = self.slowest.iter().map(|Reverse(slow)| slow.id.0).collect();
            self.inner.retain(|id, _| slowest.contains(id));
        }
    }

    /// The row, with what the responders of the slowest exchanges waited for.
    pub(super) fn row_with(&self, ended: &Ended, may_be_more: bool) -> RequestRow {
        let slowest = self.slowest_hundredth();
        let all_ns = slowest.iter().fold(0_u64, |all, slow| all.saturating_add(slow.ns));
        let inner = slowest.iter().filter_map(|slow| self.inner.get(&slow.id.0));
        RequestRow { waited_for: ended.most(inner, all_ns), ..self.row(may_be_more) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::exchange::Nested;
    use magscope_core::exchange::example::turn;

    const MS: u64 = 1_000_000;

    /// An exchange of 40 ms that the other one is within.
    fn outer(by: NestedBy) -> Exchange {
        let during = vec![Nested { exchange: 2, by }];
        Exchange { during, ..turn(1, [0, 10], [40 * MS - 10, 40 * MS]) }
    }

    fn inner() -> Exchange {
        turn(2, [MS, MS + 10], [31 * MS - 10, 31 * MS])
    }

    #[test]
    fn an_exchange_within_is_found_whichever_was_output_first() {
        let mut first = Ended::default();
        first.note(&inner(), ":2 b");
        let found = first.within(&outer(NestedBy::SameThread)).expect("one within");
        let mut last = Ended::default();
        let missing = last.within(&outer(NestedBy::SameThread)).expect("one within");
        assert_eq!(last.most([&missing].into_iter(), 40 * MS), None);
        last.note(&inner(), ":2 b");
        for (ended, inner) in [(&first, &found), (&last, &missing)] {
            let most = ended.most([inner].into_iter(), 40 * MS).expect("a service");
            assert_eq!((most.name.as_str(), most.exchange), (":2 b", 2));
            assert!((most.share - 0.75).abs() < 1e-9, "{most:?}");
        }
    }

    #[test]
    fn services_of_one_name_differ_by_protocol() {
        let mut ended = Ended::default();
        ended.note(&Exchange { proto: Proto::UDP, ..turn(3, [0, 10], [9 * MS, 10 * MS]) }, ":2 b");
        ended.note(&inner(), ":2 b");
        let nested = |exchange| Nested { exchange, by: NestedBy::SameThread };
        let outer = Exchange { during: vec![nested(2), nested(3)], ..outer(NestedBy::SameThread) };
        let early = Ended::default().within(&outer).expect("two within");
        let found = ended.within(&outer).expect("two within");
        for inner in [early, found] {
            let most = ended.most([&inner].into_iter(), 40 * MS).expect("a service");
            assert_eq!((most.proto, most.exchange), (Proto::TCP, 2));
            assert!((most.share - 0.75).abs() < 1e-9, "{most:?}");
        }
    }

    #[test]
    fn an_exchange_of_another_thread_proves_nothing() {
        let mut ended = Ended::default();
        ended.note(&inner(), ":2 b");
        assert_eq!(ended.within(&outer(NestedBy::SameProcess)), None);
    }

    #[test]
    fn many_exchanges_take_bounded_memory() {
        let mut ended = Ended::default();
        for id in 0..2 * MOST_ENDED as u64 {
            ended.note(&turn(id, [0, 10], [MS, 2 * MS]), ":2 b");
        }
        ended.note(&turn(u64::MAX, [0, 10], [20, 30]), ":2 b");
        assert_eq!(ended.0.len(), MOST_ENDED, "and a short one is not stored");
    }
}
