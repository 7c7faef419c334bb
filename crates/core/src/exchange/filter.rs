//! The filter: selects exchanges by a line of text, in the language of the journeys' filter ([`crate::filter`]).
//!
//! ```text
//! answer > 20ms and hop(task.wake,task.run) > 1ms
//! grade = turn and port = 443 and not comm = curl
//! ```
//!
//! | word | meaning |
//! |---|---|
//! | `request` (`total`) | the whole; false without a latency by its grade. Without the requester in the capture, `request > x` holds if the answer alone took longer |
//! | `request_transfer`, `answer`, `response_transfer` | its three parts; false likewise |
//! | `pause` | since the previous exchange of the connection |
//! | `on_cpu`, `runnable`, `blocked` | the answering thread's time, where the scheduler's hops were captured; false likewise |
//! | `hop(A,B)` | of the journey that ended the request, or of the one that ended the response |
//! | `request_bytes`, `response_bytes` | payload |
//! | `retransmits` | of both directions |
//! | `port` | of the responder |
//! | `pid`, `comm`, `host`, `container`, `pod`, `unit` | of either end |
//! | `grade` | a name of [`Grade`] |
//! | `proto` | `tcp` or `udp` |
//! | `unanswered`, `broken` | complete conditions |

use super::exchange::{Exchange, ExchangePart};
use super::grade::Grade;
use crate::condition::{self, Expr, FilterError, Kind, Language, Op, Parser, write_name};
use crate::context::Context;
use crate::filter::Prefix;
use crate::filter::matching::{either, of_either};
use crate::filter::parse::{
    SIZE, TIME, equality, hop_pair, no_field, number, op_or_equal, port_range, prefix, protocol, unknown,
};
use crate::filter::quantity::{TIMES, write_size, write_time};
use crate::flow::Proto;
use crate::hop::{Hop, HopSet};
use crate::size;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Number { what: Quantity, op: Op, value: u64 },
    Is { what: Property, equal: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Total,
    Part(ExchangePart),
    Pause,
    OnCpu,
    Runnable,
    Blocked,
    Between(Hop, Hop),
    RequestBytes,
    ResponseBytes,
    Retransmits,
    Port,
    Pid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Property {
    Grade(Grade),
    Proto(Proto),
    Comm(String),
    Host(Prefix),
    Container(String),
    Pod(String),
    Unit(String),
    /// The port of the responder, from the first number to the last.
    Ports(u16, u16),
}

/// Names of the quantities without arguments; of several, the first is written.
const QUANTITIES: [(&str, Quantity); 14] = [
    ("request", Quantity::Total),
    ("total", Quantity::Total),
    ("request_transfer", Quantity::Part(ExchangePart::RequestTransfer)),
    ("answer", Quantity::Part(ExchangePart::UntilAnswered)),
    ("response_transfer", Quantity::Part(ExchangePart::ResponseTransfer)),
    ("pause", Quantity::Pause),
    ("on_cpu", Quantity::OnCpu),
    ("runnable", Quantity::Runnable),
    ("blocked", Quantity::Blocked),
    ("request_bytes", Quantity::RequestBytes),
    ("response_bytes", Quantity::ResponseBytes),
    ("retransmits", Quantity::Retransmits),
    ("port", Quantity::Port),
    ("pid", Quantity::Pid),
];
/// All first words of comparisons.
pub const FIELDS: [&str; 29] = [
    "request",
    "total",
    "request_transfer",
    "answer",
    "response_transfer",
    "pause",
    "on_cpu",
    "runnable",
    "blocked",
    "request_bytes",
    "response_bytes",
    "retransmits",
    "port",
    "pid",
    "hop",
    "grade",
    "proto",
    "comm",
    "host",
    "container",
    "pod",
    "unit",
    "unanswered",
    "broken",
    "resent",
    "net",
    "proc",
    "tcp",
    "udp",
];

/// A condition on exchanges, parsed from text. Its text form parses to the same filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeFilter {
    root: Expr<Test>,
}

impl ExchangeFilter {
    /// Parses a filter. The error has the position and a valid example.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let root = condition::parse(text, "a comparison, as in `answer > 20ms`", |parser| {
            test(parser).map(Expr::Test)
        })?;
        Ok(ExchangeFilter { root })
    }

    /// The hops in the filter: without one of them that part of the filter matches no exchange.
    pub fn hops(&self) -> HopSet {
        let mut hops = Vec::new();
        self.root.tests(&mut |test| {
            if let Test::Number { what, .. } = test {
                match what {
                    Quantity::Between(from, to) => hops.extend([*from, *to]),
                    Quantity::OnCpu | Quantity::Runnable | Quantity::Blocked => {
                        hops.extend([Hop::SchedSwitch, Hop::SchedWakeup]);
                    }
                    _ => {}
                }
            }
        });
        hops.into_iter().collect()
    }

    /// True if the filter compares a number that the exchange does not have: one of its ends or a hop is not in the
    /// capture, its grade has no times, or it is the first of its connection and has no pause. That comparison is false.
    pub fn compares_unknown(&self, exchange: &Exchange) -> bool {
        let mut is_unknown = false;
        self.root.tests(&mut |test| {
            if let Test::Number { what, .. } = test {
                is_unknown |= !compare(*what, Op::AtLeast, 0, exchange);
            }
        });
        is_unknown
    }

    /// True if an exchange matches; `context` resolves its processes. A comparison with what is not known is false.
    pub fn matches(&self, exchange: &Exchange, context: &dyn Context) -> bool {
        holds(&self.root, exchange, context)
    }
}

impl FromStr for ExchangeFilter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

fn test(parser: &mut Parser<'_>) -> Result<Test, FilterError> {
    let (position, Kind::Word(word)) = parser.peek() else { return Err(parser.no_comparison()) };
    parser.next();
    let field = word.to_ascii_lowercase();
    if let Some((_, what)) = QUANTITIES.iter().find(|(name, _)| *name == field) {
        return read_number(parser, *what);
    }
    let is = |what| Ok(Test::Is { what, equal: true });
    match field.as_str() {
        "hop" => {
            let (from, to) = hop_pair(parser)?;
            read_number(parser, Quantity::Between(from, to))
        }
        "grade" => {
            let (equal, position, word) = equality(parser, "grade, as in `grade = turn`")?;
            let names = Grade::ALL.map(Grade::name);
            let grade = Grade::from_name(&word.to_ascii_lowercase());
            let grade = grade.ok_or_else(|| unknown(position, "grade", word, &names))?;
            Ok(Test::Is { what: Property::Grade(grade), equal })
        }
        "proto" => {
            let (equal, position, word) = equality(parser, "protocol, as in `proto = tcp`")?;
            Ok(Test::Is { what: Property::Proto(protocol(position, word)?), equal })
        }
        "comm" => {
            let (equal, _, word) = equality(parser, "process's name, as in `comm = nginx`")?;
            Ok(Test::Is { what: Property::Comm(word.to_owned()), equal })
        }
        "host" => {
            let (equal, position, word) = equality(parser, "address or prefix, as in `host = 10.0.0.0/8`")?;
            Ok(Test::Is { what: Property::Host(prefix(position, word)?), equal })
        }
        "container" => {
            let (equal, _, word) = equality(parser, "container's name or id, as in `container = web`")?;
            Ok(Test::Is { what: Property::Container(word.to_owned()), equal })
        }
        "pod" => {
            let (equal, _, word) = equality(parser, "pod's name, as in `pod = shop/web-7f9c`")?;
            Ok(Test::Is { what: Property::Pod(word.to_owned()), equal })
        }
        "unit" => {
            let (equal, _, word) = equality(parser, "unit's name, as in `unit = nginx.service`")?;
            Ok(Test::Is { what: Property::Unit(word.to_owned()), equal })
        }
        "unanswered" => is(Property::Grade(Grade::Unanswered)),
        "broken" => is(Property::Grade(Grade::Broken)),
        "retransmitted" => Ok(Test::Number { what: Quantity::Retransmits, op: Op::More, value: 0 }),
        "tcp" | "udp" => Ok(Test::Is { what: Property::Proto(protocol(position, &field)?), equal: true }),
        _ => Err(no_field(Language::Requests, position, word, &FIELDS)),
    }
}

fn read_number(parser: &mut Parser<'_>, what: Quantity) -> Result<Test, FilterError> {
    let is_name = matches!(what, Quantity::Port | Quantity::Pid);
    let op = op_or_equal(parser, is_name, "`<`, `<=`, `>`, `>=`, `=` or `!=`")?;
    if what == Quantity::Port
        && let Some((equal, from, to)) = port_range(parser, op)?
    {
        return Ok(Test::Is { what: Property::Ports(from, to), equal });
    }
    let value = match what {
        Quantity::RequestBytes | Quantity::ResponseBytes => {
            number(parser, &size::UNITS, false, u64::MAX, SIZE)?
        }
        Quantity::Port => {
            number(parser, &[], false, u64::from(u16::MAX), "a port or a range, as in `443` or `8000-8099`")?
        }
        Quantity::Retransmits => number(parser, &[], false, u64::MAX, "a number, as in `0`")?,
        Quantity::Pid => number(parser, &[], false, u64::MAX, "a process's number, as in `4711`")?,
        _ => number(parser, &TIMES, true, u64::MAX, TIME)?,
    };
    Ok(Test::Number { what, op, value })
}

fn holds(expr: &Expr<Test>, exchange: &Exchange, context: &dyn Context) -> bool {
    match expr {
        Expr::All(all) => all.iter().all(|expr| holds(expr, exchange, context)),
        Expr::Any(any) => any.iter().any(|expr| holds(expr, exchange, context)),
        Expr::Not(inner) => !holds(inner, exchange, context),
        Expr::Test(Test::Number { what, op, value }) => compare(*what, *op, *value, exchange),
        Expr::Test(Test::Is { what, equal }) => is(what, *equal, exchange, context),
    }
}

fn compare(what: Quantity, op: Op, value: u64, exchange: &Exchange) -> bool {
    let one = |actual: Option<u64>| actual.is_some_and(|actual| op.holds(actual, value));
    let (request, response) = (&exchange.request, &exchange.response);
    let work = exchange.work.filter(|_| exchange.grade.has_latency());
    match what {
        // Without the requester, the answer is certainly shorter than the whole.
        Quantity::Total if exchange.total_ns().is_none() => {
            matches!(op, Op::More | Op::AtLeast) && one(exchange.answer_ns())
        }
        Quantity::Total => one(exchange.total_ns()),
        Quantity::Part(part) => one(exchange.part_ns(part)),
        Quantity::Pause => one(exchange.pause_ns),
        Quantity::OnCpu => one(work.map(|work| work.on_cpu_ns)),
        Quantity::Runnable => one(work.map(|work| work.runnable_ns)),
        Quantity::Blocked => one(work.map(|work| work.blocked_ns)),
        Quantity::Between(from, to) => {
            let steps = [request, response].into_iter().filter_map(|transfer| transfer.last_step_ns(from, to));
            of_either(steps, op, value)
        }
        Quantity::RequestBytes => one(Some(request.bytes)),
        Quantity::ResponseBytes => one(Some(response.bytes)),
        Quantity::Retransmits => one(Some(u64::from(request.retransmits) + u64::from(response.retransmits))),
        Quantity::Port => one(exchange.responder.addr.map(|addr| u64::from(addr.port()))),
        Quantity::Pid => {
            let threads = [exchange.requester.thread(), exchange.responder.thread()].into_iter().flatten();
            of_either(threads.map(|thread| u64::from(thread.tgid)), op, value)
        }
    }
}

fn is(what: &Property, equal: bool, exchange: &Exchange, context: &dyn Context) -> bool {
    let ends = [&exchange.requester, &exchange.responder].into_iter();
    match what {
        Property::Grade(grade) => (exchange.grade == *grade) == equal,
        Property::Proto(proto) => (exchange.proto == *proto) == equal,
        Property::Comm(comm) => {
            let tasks = ends.filter_map(|end| context.task(end.node, end.thread()?.tid));
            either(tasks, equal, |task| task.comm == *comm)
        }
        Property::Host(prefix) => {
            either(ends.filter_map(|end| end.addr), equal, |addr| prefix.contains(addr.ip()))
        }
        Property::Ports(first, last) => {
            let port = exchange.responder.addr.map(|addr| addr.port());
            either(port.into_iter(), equal, |port| (*first..=*last).contains(&port))
        }
        Property::Container(name) => {
            either(ends.filter_map(|end| end.member(context)), equal, |end| end.is_in_container(name))
        }
        Property::Pod(name) => {
            either(ends.filter_map(|end| end.member(context)), equal, |end| end.is_in_pod(name))
        }
        Property::Unit(name) => {
            either(ends.filter_map(|end| end.member(context)), equal, |end| end.is_in_unit(name))
        }
    }
}

impl fmt::Display for ExchangeFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Number { what, op, value } => {
                if let Quantity::Between(from, to) = what {
                    write!(f, "hop({from},{to})")?;
                } else {
                    let name = QUANTITIES.iter().find(|(_, other)| other == what).map(|(name, _)| *name);
                    f.write_str(name.unwrap_or_default())?;
                }
                write!(f, " {} ", op.sign())?;
                match what {
                    Quantity::RequestBytes | Quantity::ResponseBytes => write_size(f, *value),
                    Quantity::Port | Quantity::Retransmits | Quantity::Pid => write!(f, "{value}"),
                    _ => write_time(f, *value),
                }
            }
            Test::Is { what, equal } => {
                let sign = if *equal { "=" } else { "!=" };
                match what {
                    Property::Grade(grade) => write!(f, "grade {sign} {grade}"),
                    Property::Proto(proto) => write!(f, "proto {sign} {proto}"),
                    Property::Ports(from, to) => write!(f, "port {sign} {from}-{to}"),
                    Property::Comm(comm) => write!(f, "comm {sign} ").and_then(|()| write_name(f, comm)),
                    Property::Container(name) => {
                        write!(f, "container {sign} ").and_then(|()| write_name(f, name))
                    }
                    Property::Pod(name) => write!(f, "pod {sign} ").and_then(|()| write_name(f, name)),
                    Property::Unit(name) => write!(f, "unit {sign} ").and_then(|()| write_name(f, name)),
                    Property::Host(prefix) => write!(f, "host {sign} {prefix}"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_its_text() {
        for text in [
            "answer > 20ms and hop(task.wake,task.run) > 1ms",
            "grade = turn and (port = 443 or proto = udp)",
            "not comm = curl and request_bytes >= 4k",
            "blocked > 1s or pause < 5us",
            "request > 20ms and response_transfer > 1ms and request_transfer < 1ms",
            "host = 10.0.0.0/8 and pid != 7 and retransmits > 0",
            "grade = unanswered or grade = broken",
            "(container = web and pod = shop/web-7f9c) or not unit = nginx.service",
        ] {
            let filter = ExchangeFilter::parse(text).expect("a filter");
            assert_eq!(filter.to_string(), text);
        }
        assert_eq!(
            ExchangeFilter::parse("unanswered").map(|f| f.to_string()),
            Ok("grade = unanswered".to_owned())
        );
        assert_eq!(ExchangeFilter::parse("total > 5ms"), ExchangeFilter::parse("request > 5ms"));
    }

    #[test]
    fn every_word_is_a_field_and_the_other_way_around() {
        for (name, _) in QUANTITIES {
            assert!(FIELDS.contains(&name), "{name}");
        }
        for field in FIELDS {
            let error = ExchangeFilter::parse(field).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(!error.contains("no field"), "{field}: {error}");
        }
    }

    #[test]
    fn mistakes_name_what_would_be_right() {
        for (text, expected) in [("answr > 5ms", "answer"), ("answer > 5", "unit"), ("grade = tun", "turn")] {
            let error = ExchangeFilter::parse(text).expect_err("a mistake").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
