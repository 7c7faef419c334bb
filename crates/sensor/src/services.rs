//! Requests by service, as metrics have them. The number of services is bounded, because each is a time series.

use crate::histogram::Histogram;
use crate::snapshot::{GradeCount, ServiceTally};
use crate::sums::clean;
use magscope_core::Proto;
use magscope_core::exchange::{Exchange, Grade, RequesterBy};
use std::collections::BTreeMap;

/// Maximum number of services of a host. Exchanges of further services are one series together.
const MOST_SERVICES: usize = 64;

/// Protocol, and port and process of the responder; no port for all others together.
pub type Service = (Proto, Option<(u16, String)>);

/// Exchanges of one service.
#[derive(Clone, Debug, Default)]
struct ServiceSum {
    grades: BTreeMap<&'static str, u64>,
    total: Histogram,
    answer: Histogram,
}

/// Exchanges by service.
#[derive(Clone, Debug, Default)]
pub struct Services(BTreeMap<Service, ServiceSum>);

/// The service of an exchange whose responder is this process. Exchanges whose requester is unknown belong to no
/// service: their port may be the client's.
pub fn service(exchange: &Exchange, process: &str) -> Service {
    let addr = exchange.responder.addr.filter(|_| exchange.requester_by != RequesterBy::Unknown);
    (exchange.proto, addr.map(|addr| (addr.port(), clean(process))))
}

impl Services {
    /// Counts an exchange.
    pub fn add(&mut self, service: &Service, exchange: &Exchange) {
        let sum = self.entry(service);
        *sum.grades.entry(exchange.grade.name()).or_default() += 1;
        if let Some(ns) = exchange.total_ns() {
            sum.total.record(ns);
        }
        if let Some(ns) = exchange.answer_ns() {
            sum.answer.record(ns);
        }
    }

    fn entry(&mut self, service: &Service) -> &mut ServiceSum {
        let is_full = self.0.len() >= MOST_SERVICES && !self.0.contains_key(service);
        self.0.entry(if is_full { (service.0, None) } else { service.clone() }).or_default()
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (service, more) in &other.0 {
            let sum = self.entry(service);
            for (grade, n) in &more.grades {
                *sum.grades.entry(grade).or_default() += n;
            }
            sum.total.merge(&more.total);
            sum.answer.merge(&more.answer);
        }
    }

    /// As plain data.
    pub fn tally(&self) -> Vec<ServiceTally> {
        let grades = |sum: &ServiceSum| {
            let count = |grade: Grade| {
                let n = sum.grades.get(grade.name()).copied().unwrap_or(0);
                (n > 0).then(|| GradeCount { grade: grade.name().to_owned(), n })
            };
            Grade::ALL.into_iter().filter_map(count).collect()
        };
        let tally = |(service, sum): (&Service, &ServiceSum)| ServiceTally {
            proto: service.0.to_string(),
            port: service.1.as_ref().map(|(port, _)| *port),
            process: service
                .1
                .as_ref()
                .map_or_else(|| "other services".to_owned(), |(_, process)| process.clone()),
            grades: grades(sum),
            total: sum.total.times(),
            answer: sum.answer.times(),
        };
        self.0.iter().map(tally).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::exchange::{ExchangeEnd, Transfer, View};

    fn turn(port: u16, answer_ns: u64, requester_by: RequesterBy) -> Exchange {
        let transfer = |sent: u64, read: u64| Transfer {
            bytes: 1,
            journeys: 1,
            first_sent_ns: Some(sent),
            last_sent_ns: Some(sent),
            last_read_ns: Some(read),
            half_width_ns: Some(0),
            ..Transfer::default()
        };
        let addr = format!("10.0.0.2:{port}").parse().ok();
        Exchange {
            id: 1,
            proto: Proto::TCP,
            grade: Grade::Turn,
            broken: None,
            view: View::Both,
            requester_by,
            requester: ExchangeEnd::default(),
            responder: ExchangeEnd { addr, ..ExchangeEnd::default() },
            request: transfer(10, 20),
            response: transfer(20 + answer_ns, 30 + answer_ns),
            pause_ns: None,
            longest_idle_ns: 0,
            work: None,
            during: Vec::new(),
        }
    }

    #[test]
    fn services_are_bounded_and_none_is_forgotten() {
        let mut services = Services::default();
        for port in 1..=200 {
            let exchange = turn(port, 1_000, RequesterBy::Handshake);
            services.add(&service(&exchange, "server"), &exchange);
        }
        let tallies = services.tally();
        assert_eq!(tallies.len(), MOST_SERVICES + 1);
        let others = tallies.iter().find(|tally| tally.port.is_none()).expect("the others");
        assert_eq!((others.total.n, others.answer.n), (136, 136));
        let mut twice = services.clone();
        twice.merge(&services);
        assert_eq!(twice.tally().iter().map(|tally| tally.total.n).sum::<u64>(), 400);
    }

    #[test]
    fn who_asks_must_be_known() {
        let by_ports = turn(80, 7, RequesterBy::Ports);
        assert_eq!(service(&by_ports, "a\nb"), (Proto::TCP, Some((80, "a?b".to_owned()))));
        assert_eq!(service(&turn(80, 7, RequesterBy::Unknown), "x"), (Proto::TCP, None));
    }
}
