//! The rules of times: slow journeys, slow requests, bytes that came too late, and datagrams that nobody read.

use super::findings::Service;
use super::rules::{Candidate, Extent, FEW, Facts, MAIN, MUCH, SEVERAL, direction, percent, small};
use super::{Evidence, Headline, HeadlineKind, SLOW_NS};
use crate::figures::time;
use crate::requests::{LONG_NS, OUTSIDE_WORDS, RequestRow, WaitedFor};
use crate::stats::Quantiles;
use magscope_core::blame::Part;

/// Share of the requests of a service from which long ones are the rule.
const MOST: f64 = 0.5;
/// Severity of single long times: below what concerns many, above retransmissions that nobody waited for.
const RARE: f64 = 310.0;
/// Maximum number of services that a text follows from one to the next.
const MOST_TIERS: usize = 3;

/// Severity of a time from [`SLOW_NS`] on: a hundred for each power of ten.
fn slowness(ns: u64) -> Option<f64> {
    (ns >= SLOW_NS).then(|| 500.0 + (ns as f64 / SLOW_NS as f64).log10() * 100.0)
}

pub(super) fn slow_journeys(service: &Service) -> Option<Candidate> {
    let times = service.times.quantiles()?;
    // Few have no percentile, and one long time is among many quick ones.
    let (ns, figure, severity) = if times.n < FEW {
        (times.max_ns, "up to", (times.max_ns >= LONG_NS).then_some(RARE)?)
    } else {
        // Requests say more than the journeys that they consist of.
        (times.p99_ns, "p99", slowness(times.p99_ns)? - 50.0)
    };
    let (_, parts) = service.slowest_parts();
    let all_ns = parts.iter().fold(0_u64, |all, (_, ns)| all.saturating_add(*ns));
    let (part, part_ns) = parts.first().copied()?;
    let share = part_ns as f64 / all_ns.max(1) as f64;
    let reader = service.reader.as_deref().map(|reader| format!(" (`{reader}`)")).unwrap_or_default();
    let of_reader = matches!(part, Part::ReceiveWindow | Part::Scheduler | Part::ReaderAway | Part::Reading);
    let cause = match (share >= MAIN, part) {
        (true, Part::Unknown) => "most of it between hops that are not observed".to_owned(),
        (true, _) => {
            format!("{} {}{}", percent(share), within(part), if of_reader { &reader } else { "" })
        }
        (false, _) => format!("the most of it, {}, {}", percent(share), within(part)),
    };
    let text = format!("{}: {figure} {}, {cause}", service.key.words(), time(ns).trim());
    let evidence = Evidence::journeys(service.slow_keys());
    Some(Candidate {
        is_recorded: false,
        severity,
        headline: Headline { kind: HeadlineKind::Slow, text, evidence },
    })
}

/// A part as the place or the state that time went by in: `in the sender's stack`.
fn within(part: Part) -> String {
    match part {
        Part::SenderStack | Part::ReceiverStack | Part::Reading => format!("in {}", part.words()),
        Part::Wire => format!("on {}", part.words()),
        _ => part.words().to_owned(),
    }
}

/// Slow requests of a service; `rows` are those of all services, for those that it waits for.
pub(super) fn slow_requests(row: &RequestRow, rows: &[RequestRow]) -> Option<Candidate> {
    // On the server alone there are its answers, without the totals of most clients.
    let times = row.times()?;
    let wait = main_wait(row);
    let slowness = if times.n < FEW { None } else { slowness(times.p99_ns) };
    let (severity, text) = match (slowness, wait) {
        (Some(severity), Some(wait)) => {
            let takes = if row.is_of_answers() { " answers in" } else { ": requests take" };
            let took = format!("{}{takes} {} (p99)", row.name, time(times.p99_ns).trim());
            // What is quicker than that, each of many, is no reason for it.
            let least_ns = times.p99_ns as f64 * MAIN;
            let waits = waits_words(wait, rows, least_ns, MOST_TIERS);
            (severity, format!("{took}, {} of it waiting for {waits}", percent(wait.share)))
        }
        (Some(severity), None) => (severity, slow_words(row, times)?),
        (None, _) => long_words(row, times, wait)?,
    };
    let exchange = wait.map(|wait| wait.exchange).or(row.slowest_exchange);
    let evidence = exchange.map_or(Evidence::None, Evidence::Request);
    Some(Candidate {
        is_recorded: false,
        severity,
        headline: Headline { kind: HeadlineKind::Slow, text, evidence },
    })
}

/// The other service that most of the time of the slowest requests went to.
fn main_wait(row: &RequestRow) -> Option<&WaitedFor> {
    row.waited_for.as_ref().filter(|wait| wait.share >= MAIN && !is_of(wait, row))
}

/// True if the service that was waited for is that of the row.
fn is_of(wait: &WaitedFor, row: &RequestRow) -> bool {
    wait.proto == row.proto && wait.name == row.name
}

/// The service that was waited for, and its times from `least_ns` on: `:7001 b, which answers in 31.3 ms (p99)`.
fn waits_words(wait: &WaitedFor, rows: &[RequestRow], least_ns: f64, tiers: usize) -> String {
    let row = rows.iter().find(|row| is_of(wait, row));
    let ns = |times: Quantiles| if times.n < FEW { times.max_ns } else { times.p99_ns };
    let is_long = |times: &Quantiles| ns(*times) as f64 >= least_ns;
    let Some((row, times)) = row.and_then(|row| Some((row, row.times().filter(is_long)?))) else {
        return wait.name.clone();
    };
    if let Some(next) = main_wait(row).filter(|_| tiers > 1) {
        return format!("{}, which waits for {}", wait.name, waits_words(next, rows, least_ns, tiers - 1));
    }
    let figure = |times: Quantiles| match times.n {
        n if n < FEW => format!("up to {}", time(times.max_ns).trim()),
        _ => format!("{} (p99)", time(times.p99_ns).trim()),
    };
    // The time may be that of its requests on their path.
    let is_main = |answer: &Quantiles| answer.p99_ns as f64 >= times.p99_ns as f64 * MAIN;
    let answer = row.answer.filter(is_main).filter(is_long);
    match answer {
        Some(answer) => format!("{}, which answers in {}", wait.name, figure(answer)),
        None => format!("{}, whose requests take {}", wait.name, figure(times)),
    }
}

/// Long requests among quick ones, or among few, with their severity; `None` without any.
fn long_words(row: &RequestRow, times: Quantiles, wait: Option<&WaitedFor>) -> Option<(f64, String)> {
    if times.max_ns < LONG_NS {
        return None;
    }
    // Their number is one of buckets.
    let long = row.long.clamp(1, times.n.max(1));
    let share = long as f64 / times.n.max(1) as f64;
    let is_of_answers = row.is_of_answers();
    let took = match (is_of_answers, long) {
        (false, _) => "took",
        (true, 1) => "was answered after",
        (true, _) => "were answered after",
    };
    let cause = match (wait, row.slowest.first()) {
        (Some(wait), _) => format!(", {} of it waiting for {}", percent(wait.share), wait.name),
        (None, _) if is_of_answers && row.total.is_none() => "; its clients are not in the capture".to_owned(),
        (None, _) if is_of_answers => "; most of its clients are not in the capture".to_owned(),
        (None, Some(part)) if part.share >= MAIN => {
            format!(", {} of it {}", percent(part.share), part.part)
        }
        (None, _) => String::new(),
    };
    let noun = if times.n == 1 { "request" } else { "requests" };
    let up_to = if long == 1 { "" } else { "up to " };
    let (n, longest, name) = (small(times.n), time(times.max_ns), &row.name);
    let text = format!("{} of {n} {noun} to {name} {took} {up_to}{}{cause}", small(long), longest.trim());
    let is_much = share >= MOST && long >= SEVERAL;
    let severity = slowness(times.max_ns).filter(|_| is_much).unwrap_or(RARE + 10.0 + share);
    Some((severity, text))
}

/// Requests of which the percentile is slow.
fn slow_words(row: &RequestRow, total: Quantiles) -> Option<String> {
    let all_ns: u64 = row.slowest.iter().fold(0, |all, part| all.saturating_add(part.ns));
    // As many as the parts are of.
    let turns = [row.total, row.answer].into_iter().flatten().map(|times| times.n).max().unwrap_or_default();
    let slowest = turns.div_ceil(100).clamp(1, 128);
    let share = |is: &dyn Fn(&str) -> bool| -> (u64, f64) {
        let ns = row
            .slowest
            .iter()
            .filter(|part| is(part.part))
            .fold(0_u64, |all, part| all.saturating_add(part.ns));
        (ns, ns as f64 / all_ns.max(1) as f64)
    };
    let (answer_ns, answer) = share(&|part| part == "until answered" || part.starts_with("answering"));
    let (_, waiting) = share(&|part| part == "answering, waiting for a CPU");
    let (outside_ns, _) = share(&|part| part == OUTSIDE_WORDS);
    let name = &row.name;
    if let Some(times) = row.answer.filter(|_| answer >= MAIN) {
        let verb = if waiting >= MAIN { "waits for a CPU, so it answers" } else { "answers" };
        let rest_ns = all_ns.saturating_sub(answer_ns) / slowest;
        let rest = match row.total {
            Some(_) if row.is_of_answers() => "most of its clients are not in the capture".to_owned(),
            Some(_) if outside_ns > 0 => "some of its servers are not in the capture".to_owned(),
            Some(_) => format!("the rest of the slowest requests is {}", time(rest_ns).trim()),
            None => "its clients are not in the capture".to_owned(),
        };
        return Some(format!("{name} {verb} in {} (p99); {rest}", time(times.p99_ns).trim()));
    }
    let longest = row.slowest.first().filter(|part| part.share > 0.0)?;
    let cause = match longest.part {
        "until answered" if row.answer.is_none() => {
            "until answered, the server is not in the capture".to_owned()
        }
        OUTSIDE_WORDS => {
            format!("{} of it until answered by servers that are not in the capture", percent(longest.share))
        }
        part => format!("{} of it {part}", percent(longest.share)),
    };
    Some(format!("{name}: requests take {} (p99), {cause}", time(total.p99_ns).trim()))
}

/// Bytes that came to a connection whose reader had closed it: no loss of the network.
pub(super) fn too_late(service: &Service, facts: &Facts<'_>) -> Option<Candidate> {
    let late = service.late;
    if late == 0 {
        return None;
    }
    let omissions = &facts.omissions;
    let extent = Extent::of(service, late, omissions.hides_drops(), omissions);
    let share = extent.share();
    let reader = match (service.key.port, service.key.to_port) {
        (Some(_), false) => "the client",
        (Some(_), true) => "the server",
        (None, _) => "the reader",
    };
    let text = format!(
        "{} {} came after {reader} had closed{}",
        extent.words("byte ranges"),
        direction(service),
        extent.numbers()
    );
    let is_much = share >= MUCH && late >= SEVERAL;
    let severity = if is_much { 600.0 + share * 50.0 } else { 300.0 + share };
    let evidence = Evidence::journeys(service.last_late);
    Some(Candidate {
        is_recorded: false,
        severity,
        headline: Headline { kind: HeadlineKind::Slow, text, evidence },
    })
}

/// Datagrams that were thrown away in the queue of their socket: the network had delivered them.
pub(super) fn unread(service: &Service, facts: &Facts<'_>) -> Option<Candidate> {
    let bad = service.unread;
    if bad == 0 {
        return None;
    }
    let omissions = &facts.omissions;
    let extent = Extent::of(service, bad, omissions.hides_drops(), omissions);
    let share = extent.share();
    let text = format!(
        "{} {} thrown away unread in the queue of their socket, which was closed, or a read failed{}",
        extent.words("datagrams"),
        direction(service),
        extent.numbers()
    );
    // Any loss of the network comes first.
    let is_much = share >= MUCH && bad >= SEVERAL;
    let severity = if is_much { 380.0 + share } else { 290.0 + share };
    let evidence = Evidence::journeys(service.last_unread);
    Some(Candidate {
        is_recorded: false,
        severity,
        headline: Headline { kind: HeadlineKind::Slow, text, evidence },
    })
}
