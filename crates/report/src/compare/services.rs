//! Requests of one service in the captures of both sides.

use super::side::{Sum, Times};
use super::{Measured, Share, as_text, measured, share_rows};
use crate::requests::{GradeCounts, service_name};
use magscope_core::batch::Batch;
use magscope_core::context::Context;
use magscope_core::exchange::{Exchange, ExchangePart, ExchangeReader, Grade, RequesterBy};
use magscope_core::flow::Proto;
use magscope_core::journey::Journey;
use magscope_core::node::NodeInfo;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of services in a capture; the exchanges of further ones are counted only. Each has four tables of times,
/// of up to 600 kB.
pub(super) const MOST_SERVICES: usize = 16;

/// The requests of one service in both sides. Times are of exchanges of the grade `turn`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceDifference {
    /// TCP or UDP.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// Port and process of the responder.
    pub service: String,
    /// From the first send of the request to the read of the response's last byte.
    pub total: Measured,
    /// The three parts of it.
    pub parts: Vec<PartDifference>,
    /// Shares of exchanges by grade.
    pub grades: Vec<Share>,
}

/// One part of the time of requests in both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartDifference {
    /// The part.
    pub part: ExchangePart,
    /// The figures.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Exchanges of one service in one capture.
#[derive(Clone, Debug, Default)]
struct ServiceSum {
    grades: GradeCounts,
    total: Sum,
    parts: [Sum; ExchangePart::ALL.len()],
}

/// Stored summary of a service in one capture.
#[derive(Clone, Debug)]
pub(super) struct FoldedService {
    grades: GradeCounts,
    total: Times,
    parts: [Times; ExchangePart::ALL.len()],
}

/// The services of one capture during the read.
#[derive(Debug)]
pub(super) struct Services {
    reader: ExchangeReader,
    sums: BTreeMap<(Proto, String), ServiceSum>,
    others: u64,
}

/// The services of one capture.
#[derive(Clone, Debug, Default)]
pub(super) struct FoldedServices {
    pub services: BTreeMap<(Proto, String), FoldedService>,
    /// Exchanges of further services.
    pub others: u64,
}

impl Services {
    pub fn new(info: &NodeInfo) -> Self {
        let reader = ExchangeReader::new(std::slice::from_ref(info));
        Services { reader, sums: BTreeMap::new(), others: 0 }
    }

    pub fn batch(&mut self, batch: &Batch) {
        let complete = self.reader.batch(0, batch);
        self.add(&complete);
    }

    pub fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        let complete = self.reader.journey(journey, context);
        self.add(&complete);
    }

    fn add(&mut self, exchanges: &[Exchange]) {
        for exchange in exchanges {
            // Its port may be the client's, and it has no times.
            if exchange.requester_by == RequesterBy::Unknown {
                continue;
            }
            let key = (exchange.proto, service_name(exchange, self.reader.context()));
            if self.sums.len() >= MOST_SERVICES && !self.sums.contains_key(&key) {
                self.others += 1;
                continue;
            }
            self.sums.entry(key).or_default().add(exchange);
        }
    }

    pub fn fold(mut self) -> FoldedServices {
        let open = self.reader.finish();
        self.add(&open);
        let services = self.sums.iter().map(|(key, sum)| (key.clone(), sum.fold())).collect();
        FoldedServices { services, others: self.others }
    }
}

impl ServiceSum {
    fn add(&mut self, exchange: &Exchange) {
        self.grades.count(exchange.grade);
        if let Some(ns) = exchange.total_ns() {
            self.total.record(ns);
        }
        for (sum, part) in self.parts.iter_mut().zip(ExchangePart::ALL) {
            if let Some(ns) = exchange.part_ns(part) {
                sum.record(ns);
            }
        }
    }

    fn fold(&self) -> FoldedService {
        FoldedService {
            grades: self.grades,
            total: self.total.fold(),
            parts: self.parts.each_ref().map(Sum::fold),
        }
    }
}

/// Compares the services that have times in any capture, those with the most exchanges first.
pub(super) fn compare(a: &[FoldedServices], b: &[FoldedServices], miss: f64) -> Vec<ServiceDifference> {
    let names: BTreeSet<&(Proto, String)> = a.iter().chain(b).flat_map(|run| run.services.keys()).collect();
    let mut all: Vec<ServiceDifference> = names.into_iter().map(|name| difference(name, a, b, miss)).collect();
    all.retain(|row| {
        [&row.total].into_iter().chain(row.parts.iter().map(|part| &part.measured)).any(has_times)
    });
    all.sort_by_key(|row| std::cmp::Reverse(row.grades.iter().map(|share| share.a + share.b).sum::<u64>()));
    all
}

fn has_times(measured: &Measured) -> bool {
    measured.n_a + measured.n_b > 0
}

fn difference(
    key: &(Proto, String),
    a: &[FoldedServices],
    b: &[FoldedServices],
    miss: f64,
) -> ServiceDifference {
    let of = |runs: &[FoldedServices]| -> Vec<FoldedService> {
        runs.iter().filter_map(|run| run.services.get(key).cloned()).collect()
    };
    let (a, b) = (of(a), of(b));
    let times = |runs: &[FoldedService], which: &dyn Fn(&FoldedService) -> Times| -> Vec<Times> {
        runs.iter().map(which).collect()
    };
    let both = |which: &dyn Fn(&FoldedService) -> Times| measured(&times(&a, which), &times(&b, which), miss);
    let parts = ExchangePart::ALL.into_iter().enumerate();
    ServiceDifference {
        proto: key.0,
        service: key.1.clone(),
        total: both(&|run| run.total),
        parts: parts.map(|(at, part)| PartDifference { part, measured: both(&|run| run.parts[at]) }).collect(),
        grades: share_rows(
            &Grade::ALL.map(Grade::name),
            (&a, &b),
            |run, kind| Grade::ALL.get(kind).map_or(0, |grade| run.grades.of(*grade)),
            |run| run.grades.with_unidirectional(),
            miss,
        ),
    }
}
