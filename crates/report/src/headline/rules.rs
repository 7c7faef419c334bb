//! The rules of the headline: candidates, their order, and their words.

use super::findings::{End, Findings, Service};
use super::{Evidence, Headline, HeadlineKind};
use crate::attempts::Attempts;
use crate::drops::left_out_words;
use crate::figures::{count, time};
use crate::requests::{OUTSIDE_WORDS, RequestRow, RequestTable};
use crate::service::ServiceKey;
use magscope_core::blame::Part;
use magscope_core::event::error_name;
use magscope_core::exchange::Grade;
use magscope_core::flow::{Endpoint, Proto};
use magscope_core::hop::Hop;
use magscope_core::node::NodeInfo;
use magscope_core::{Counts, Omissions, Outcomes};
use std::fmt::Write as _;

/// Number of services with requests that the headline looks at, those with the most exchanges.
pub const REQUEST_SERVICES: usize = 64;
/// Times from here on are named, nanoseconds. Below it no person waits.
pub const SLOW_NS: u64 = 5_000_000;
/// Least number of journeys or requests for a statement on percentiles.
const FEW: u64 = 10;
/// Share of a service's journeys from which loss and retransmissions come first.
const MUCH: f64 = 0.01;
/// Least number of lost or resent journeys for that.
const SEVERAL: u64 = 3;
/// Share of broken journeys from which nothing else is concluded.
const MOSTLY_BROKEN: f64 = 0.5;
/// Share of a time that is called its cause.
const MAIN: f64 = 0.5;

/// Ports of UDP whose protocols answer each request, as services are named. To others, as those of logs, nobody may
/// answer.
const ANSWERED_PORTS: [&str; 2] = [":53", ":123"];

/// The kernel's reasons of drops, in other words.
const REASONS: &[(&str, &str)] = &[
    ("socket_rcvbuff", "the receive buffer is full"),
    ("socket_backlog", "the socket's backlog is full"),
    ("proto_mem", "the protocol's memory is used up"),
    ("no_socket", "no socket listens there"),
    ("qdisc_drop", "the queue of the sending interface is full"),
    ("full_ring", "the ring of the interface is full"),
    ("cpu_backlog", "the backlog of a CPU is full"),
    ("netfilter_drop", "a rule of netfilter"),
    ("socket_filter", "the socket's filter"),
    ("xdp", "a program of XDP"),
    ("tc_ingress", "a program or action of tc"),
    ("tc_egress", "a program or action of tc"),
    ("bpf_cgroup_egress", "a BPF program of a cgroup"),
    ("udp_csum", "a wrong checksum"),
    ("tcp_csum", "a wrong checksum"),
    ("ip_csum", "a wrong checksum"),
    ("ip_outnoroutes", "no route"),
    ("ip_inaddrerrors", "no route back to its source"),
];

/// What the headline is concluded from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Journeys by service.
    pub findings: &'a Findings,
    /// Requests by service, the ones with the most exchanges.
    pub requests: Option<&'a RequestTable>,
    /// The counts of every surface.
    pub counts: Counts,
    /// Journeys that ended.
    pub outcomes: &'a Outcomes,
    /// The recordings, with their hops.
    pub infos: &'a [NodeInfo],
    /// What any of them left out at any time.
    pub omissions: Omissions,
    /// Events of every hop.
    pub events: u64,
    /// Observed time, nanoseconds.
    pub duration_ns: u64,
    /// True if the kernel adds up in place of events: there are no journeys.
    pub sums: bool,
    /// Dropped packets by the kernel's reason, the most frequent first.
    pub reasons: &'a [(String, u64)],
}

/// A candidate and its severity.
struct Candidate {
    severity: f64,
    headline: Headline,
}

/// The headline of these facts.
pub fn headline(facts: &Facts<'_>) -> Headline {
    let counts = &facts.counts;
    let missed = missed_words(facts);
    let broken = counts.broken as f64 / counts.journeys.max(1) as f64;
    if broken >= MOSTLY_BROKEN {
        let text = format!(
            "unknown: {} of {} journeys may lack an event, because {} events were missed",
            small(counts.broken),
            small(counts.journeys),
            small(counts.missed_events)
        );
        return Headline { evidence: Evidence::Losses, ..plain(HeadlineKind::MissedEvents, text) };
    }
    let services = facts.findings.services();
    let rows = facts.requests.map_or(&[][..], |table| &table.rows);
    let candidates = services
        .iter()
        .flat_map(|service| [lost(service, facts), resent(service, facts), slow_journeys(service)])
        .chain(rows.iter().flat_map(|row| [slow_requests(row), unanswered(row, &facts.omissions)]))
        .flatten()
        .chain(facts.findings.peers().unanswered().map(|(peer, attempts)| unreached(peer, attempts, facts)));
    // Of equal ones the first: the services have a fixed order.
    let worst = candidates.reduce(|a, b| if b.severity > a.severity { b } else { a });
    if let Some(Candidate { mut headline, .. }) = worst {
        // The others have it in their numbers.
        if headline.kind == HeadlineKind::Slow && facts.omissions.is_narrowed() {
            headline.text.push_str("; of what the filter or sampler lets through");
        }
        headline.text.push_str(&missed);
        return headline;
    }
    if counts.journeys == 0 {
        let evidence = if counts.dropped > 0 { Evidence::Losses } else { Evidence::None };
        return Headline {
            evidence,
            ..plain(HeadlineKind::Unknown, format!("{}{missed}", no_journeys(facts)))
        };
    }
    if facts.outcomes.whole() == 0 {
        let text = format!("unknown: the end of none of {} journeys was seen", small(counts.journeys));
        return plain(HeadlineKind::Unknown, format!("{text}{missed}"));
    }
    nothing_wrong(facts, &missed)
}

fn plain(kind: HeadlineKind, text: String) -> Headline {
    Headline { kind, text, evidence: Evidence::None }
}

fn no_journeys(facts: &Facts<'_>) -> String {
    let mut dropped = match facts.counts.dropped {
        0 => String::new(),
        n => format!("; the kernel dropped {}", packets(facts, n)),
    };
    dropped.push_str(&drops_left_out(&facts.omissions));
    let over =
        if facts.duration_ns == 0 { String::new() } else { format!(" in {}", time(facts.duration_ns).trim()) };
    if facts.sums {
        format!("the kernel adds up, so there are no journeys to judge{dropped}")
    } else if facts.events > 0 {
        format!("no payload seen{over}{dropped}")
    } else {
        format!("no traffic seen{over}{dropped}")
    }
}

/// What the instrument missed; empty if nothing.
fn missed_words(facts: &Facts<'_>) -> String {
    let counts = &facts.counts;
    match (counts.missed_events, counts.broken) {
        (0, 0) => String::new(),
        (missed, broken) => {
            let several = |n: u64| if n == 1 { "" } else { "s" };
            let missed = format!("{} event{} missed", small(missed), several(missed));
            format!("; {missed}, {} journey{} broken", small(broken), several(broken))
        }
    }
}

fn nothing_wrong(facts: &Facts<'_>, missed: &str) -> Headline {
    let counts = &facts.counts;
    let mut text = match (missed.is_empty(), facts.omissions.is_narrowed()) {
        (_, true) => "nothing wrong in what the filter or sampler lets through: ",
        (true, false) => "nothing is wrong: ",
        (false, false) => "nothing wrong seen: ",
    }
    .to_owned();
    let per_s = counts.journeys as f64 * 1e9 / facts.duration_ns.max(1) as f64;
    if facts.duration_ns >= 1_000_000_000 && per_s >= 1.0 {
        _ = write!(text, "{} journeys/s", small(per_s.round() as u64)); // writing into a String cannot fail
    } else {
        _ = write!(text, "{} journeys", small(counts.journeys)); // writing into a String cannot fail
    }
    if let Some(ns) = facts.findings.p99_ns() {
        _ = write!(text, ", p99 {}", time(ns).trim()); // writing into a String cannot fail
    }
    let omissions = &facts.omissions;
    let has_drops = facts.infos.iter().all(|info| info.coverage.served().contains(Hop::SkbDrop));
    let drops = match (has_drops, counts.dropped) {
        (false, 0) => ", drops are not captured".to_owned(),
        (true, 0) if omissions.hides_drops() && omissions.drops.unknown() > 0 => {
            ", drops are not known".to_owned()
        }
        (true, 0) if omissions.is_narrowed() || omissions.hides_drops() => ", no drop recorded".to_owned(),
        (true, 0) => ", no drop".to_owned(),
        (_, n) => {
            let seen = if omissions.hides_drops() { "seen " } else { "" };
            format!(", none of them {seen}dropped; {} without a lost journey", packets(facts, n))
        }
    };
    text.push_str(&drops);
    text.push_str(&drops_left_out(omissions));
    let cut = facts.outcomes.filtered();
    if cut > 0 {
        _ = write!(text, "; {} journeys cut by the filter or sampler", small(cut)); // writing into a String cannot fail
    }
    text.push_str(missed);
    plain(HeadlineKind::NothingWrong, text)
}

/// `12 packets (no_socket)`; at least as many if a drop may have no record.
fn packets(facts: &Facts<'_>, n: u64) -> String {
    let noun = if n == 1 { "packet" } else { "packets" };
    let least = if facts.omissions.undercounts_drops() { "at least " } else { "" };
    let n = small(n);
    match facts.reasons.first() {
        Some((reason, _)) if facts.reasons.len() == 1 => format!("{least}{n} {noun} ({reason})"),
        Some((reason, _)) => format!("{least}{n} {noun} (mostly {reason})"),
        None => format!("{least}{n} {noun}"),
    }
}

/// Why drops may be missing; empty if none can.
fn drops_left_out(omissions: &Omissions) -> String {
    let drops = omissions.drops;
    let words = left_out_words(drops);
    if !words.is_empty() {
        return format!(
            "; {} of {} drop records left out: {words}",
            small(drops.left_out()),
            small(drops.all())
        );
    }
    if omissions.switched_hops.contains(Hop::SkbDrop) {
        return "; drops were recorded for a part of the time".to_owned();
    }
    if omissions.hides_drops() { "; drops are sampled".to_owned() } else { String::new() }
}

/// How many journeys of a service are bad, with the certainty that the records give.
///
/// A share is exact only if each journey is recorded in one piece, and its end as well. Otherwise the number is a lower bound,
/// and without complete journeys their number is that of pieces, so it is left out.
struct Extent {
    is_exact: bool,
    is_narrowed: bool,
    is_torn: bool,
    bad: u64,
    all: u64,
}

impl Extent {
    fn of(service: &Service, bad: u64, hides_more: bool, omissions: &Omissions) -> Self {
        let is_torn = omissions.tears_journeys();
        let is_exact = !is_torn && !hides_more && service.outcomes.filtered() == 0;
        Extent {
            is_exact,
            is_narrowed: omissions.is_narrowed(),
            is_torn,
            bad,
            all: service.outcomes.journeys(),
        }
    }

    fn share(&self) -> f64 {
        self.bad as f64 / self.all.max(1) as f64
    }

    /// `2.2 % of datagrams`, or the lower bound `at least 9 of 400 recorded datagrams`.
    fn words(&self, noun: &str) -> String {
        let recorded = if self.is_narrowed { "recorded " } else { "" };
        match (self.is_exact, self.is_torn) {
            (true, _) => format!("{} of {recorded}{noun}", percent(self.share())),
            (false, false) => format!("at least {} of {} {recorded}{noun}", small(self.bad), small(self.all)),
            (false, true) => format!("at least {} {noun}", small(self.bad)),
        }
    }

    /// ` (9 of 400)`, unless the words have it.
    fn numbers(&self) -> String {
        if self.is_exact { format!(" ({} of {})", small(self.bad), small(self.all)) } else { String::new() }
    }
}

fn lost(service: &Service, facts: &Facts<'_>) -> Option<Candidate> {
    let bad = service.bad();
    if bad == 0 {
        return None;
    }
    let omissions = &facts.omissions;
    // A loss is found by the absence of later events, so only drops can lack their records.
    let extent = Extent::of(service, bad, omissions.hides_drops(), omissions);
    let share = extent.share();
    let noun = match service.key.proto {
        Proto::UDP => "datagrams",
        Proto::TCP => "byte ranges",
        _ => "packets",
    };
    // The order may rest on an estimate.
    let weight = omissions.drops.weight();
    let is_much = share * weight >= MUCH && bad as f64 * weight >= SEVERAL as f64;
    let (end, of_end) = service.ends.iter().max_by_key(|(_, n)| **n)?;
    let (verb, why) = match end {
        End::Dropped(reason, by) => {
            ("dropped", drop_words(service.key, reason, by.as_deref(), service.reader.as_deref()))
        }
        // Their drop may be among the records that were left out.
        End::LostAfter(hop) if omissions.hides_drops() || omissions.is_narrowed() => {
            ("lost", format!("not seen after {hop}"))
        }
        End::LostAfter(hop) => ("lost", format!("not seen after {hop}, and no record is missing")),
    };
    let mostly = if *of_end < bad { "mostly " } else { "" };
    let verb =
        if service.ends.len() > 1 && service.outcomes.dropped_journeys() > 0 && service.outcomes.lost() > 0 {
            "dropped or lost"
        } else {
            verb
        };
    let left_out = if omissions.hides_drops() { drops_left_out(omissions) } else { String::new() };
    let text = format!(
        "{} {} {verb}: {mostly}{why}{}{left_out}",
        extent.words(noun),
        direction(service),
        extent.numbers(),
    );
    let evidence = Evidence::journeys(service.last_lost);
    let severity = if is_much { 1_000.0 + share * 100.0 } else { 400.0 + share };
    Some(Candidate { severity, headline: Headline { kind: HeadlineKind::Loss, text, evidence } })
}

/// `to :7777`, or the protocol where the port is unknown.
fn direction(service: &Service) -> String {
    let words = service.key.words();
    match service.key.port {
        Some(_) => words.split_once(' ').map_or(words.clone(), |(_, rest)| rest.to_owned()),
        None => format!("of {words}"),
    }
}

/// The cause of drops of `service`.
fn drop_words(service: ServiceKey, reason: &str, by: Option<&str>, reader: Option<&str>) -> String {
    if let Some(by) = by {
        return format!("{by} ({reason})");
    }
    if reason == "no_socket" && !service.to_port {
        return format!("no socket listens at their destinations ({reason})");
    }
    let Some((_, words)) = REASONS.iter().find(|(name, _)| *name == reason) else {
        return format!("reason {reason}");
    };
    match reader.filter(|_| matches!(reason, "socket_rcvbuff" | "socket_backlog")) {
        Some(reader) => format!("{words} ({reason}), reader `{reader}`"),
        None => format!("{words} ({reason})"),
    }
}

fn resent(service: &Service, facts: &Facts<'_>) -> Option<Candidate> {
    let resent = service.outcomes.resent;
    if resent == 0 {
        return None;
    }
    let extent = Extent::of(service, resent, false, &facts.omissions);
    let share = extent.share();
    let wait_ns = service.longest_resend_ns;
    let wait = if wait_ns >= 1_000 {
        format!(", waiting up to {} for it", time(wait_ns).trim())
    } else {
        String::new()
    };
    let text =
        format!("{} {} resent{}{wait}", extent.words("byte ranges"), direction(service), extent.numbers());
    let evidence = Evidence::journeys(service.last_resent);
    // Nobody waits for what is sent again without need.
    let is_much = share >= MUCH && resent >= SEVERAL && !wait.is_empty();
    let severity = if is_much { 550.0 + share * 100.0 } else { 300.0 + share };
    Some(Candidate { severity, headline: Headline { kind: HeadlineKind::Retransmissions, text, evidence } })
}

fn unreached(peer: &Endpoint, attempts: &Attempts, facts: &Facts<'_>) -> Candidate {
    let (bad, all) = (attempts.unanswered(), attempts.all());
    let share = bad as f64 / all as f64;
    let noun = if all == 1 { "attempt" } else { "attempts" };
    let most = attempts.failed.iter().max_by_key(|(_, times)| **times);
    let why = match most {
        Some((error, times)) if *times == bad => format!("failed: {}", error_name(*error)),
        Some((error, times)) if *times >= attempts.given_up => {
            format!("failed: mostly {}", error_name(*error))
        }
        Some(_) => "failed: mostly no answer before the program gave up".to_owned(),
        None => "had no answer when the program gave up".to_owned(),
    };
    let recorded = if facts.omissions.is_narrowed() { "recorded " } else { "" };
    let text = format!("{} of {} {recorded}{noun} to connect to {peer} {why}", small(bad), small(all));
    let is_much = share >= MOSTLY_BROKEN && bad >= SEVERAL;
    let severity = if is_much { 900.0 + share * 50.0 } else { 350.0 + share };
    let evidence = attempts.last_unanswered_ns.map_or(Evidence::None, Evidence::Event);
    Candidate { severity, headline: Headline { kind: HeadlineKind::Unreached, text, evidence } }
}

/// A service that leaves requests without an answer. The last bytes of a connection need none if they end a protocol (the
/// `close_notify` of TLS, `QUIT`), so one for each answered request shows nothing.
fn unanswered(row: &RequestRow, omissions: &Omissions) -> Option<Candidate> {
    let (bad, all) = (row.grades.unanswered, row.grades.total());
    let port = row.name.split(' ').next().unwrap_or_default();
    let answered = [Grade::Turn, Grade::Handshake, Grade::Overlapped, Grade::Streamed];
    let has_answers = answered.into_iter().any(|grade| row.grades.of(grade) > 0);
    let may_be_one_way = row.proto == Proto::UDP && !has_answers && !ANSWERED_PORTS.contains(&port);
    if bad < SEVERAL || bad <= all - bad || may_be_one_way {
        return None;
    }
    let requester = row.unanswered_requester.as_deref().filter(|name| *name != "?");
    let share = bad as f64 / all as f64;
    let (name, bad, all) = (&row.name, small(bad), small(all));
    let (severity, text) = if omissions.is_narrowed() {
        // The answers may have been left out.
        let from = requester.map(|requester| format!(" of `{requester}`")).unwrap_or_default();
        let text = format!("{bad} of {all} recorded requests{from} to {name} have no recorded answer");
        (350.0 + share, text)
    } else {
        let whom = requester.map(|requester| format!(" `{requester}`")).unwrap_or_default();
        let text = format!("{name} does not answer{whom}: {bad} of {all} requests without a byte in return");
        (850.0 + share * 50.0, text)
    };
    Some(Candidate { severity, headline: plain(HeadlineKind::Unreached, text) })
}

/// Severity of a time from [`SLOW_NS`] on: a hundred for each power of ten.
fn slowness(ns: u64) -> Option<f64> {
    (ns >= SLOW_NS).then(|| 500.0 + (ns as f64 / SLOW_NS as f64).log10() * 100.0)
}

fn slow_journeys(service: &Service) -> Option<Candidate> {
    if service.times.n() < FEW {
        return None;
    }
    let p99_ns = service.times.quantile_ns(0.99);
    let severity = slowness(p99_ns)?;
    let (_, parts) = service.slowest_parts();
    let all_ns = parts.iter().fold(0_u64, |all, (_, ns)| all.saturating_add(*ns));
    let (part, ns) = parts.first().copied()?;
    let share = ns as f64 / all_ns.max(1) as f64;
    let reader = service.reader.as_deref().map(|reader| format!(" (`{reader}`)")).unwrap_or_default();
    let of_reader = matches!(part, Part::ReceiveWindow | Part::Scheduler | Part::ReaderAway | Part::Reading);
    let cause = match (share >= MAIN, part) {
        (true, Part::Unknown) => "most of it between hops that are not observed".to_owned(),
        (true, _) => {
            format!("{} {}{}", percent(share), within(part), if of_reader { &reader } else { "" })
        }
        (false, _) => format!("the most of it, {}, {}", percent(share), within(part)),
    };
    let text = format!("{}: p99 {}, {cause}", service.key.words(), time(p99_ns).trim());
    let evidence = Evidence::journeys(service.slow_keys());
    // Requests say more than the journeys that they consist of.
    Some(Candidate {
        severity: severity - 50.0,
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

fn slow_requests(row: &RequestRow) -> Option<Candidate> {
    // On the server alone there are its answers, without the totals of most clients.
    let total = row.times().filter(|total| total.n >= FEW)?;
    let severity = slowness(total.p99_ns)?;
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
    let text = if let Some(times) = row.answer.filter(|_| answer >= MAIN) {
        let verb = if waiting >= MAIN { "waits for a CPU, so it answers" } else { "answers" };
        let rest_ns = all_ns.saturating_sub(answer_ns) / slowest;
        let rest = match row.total {
            Some(_) if row.is_of_answers() => "most of its clients are not in the capture".to_owned(),
            Some(_) if outside_ns > 0 => "some of its servers are not in the capture".to_owned(),
            Some(_) => format!("the rest of the slowest requests is {}", time(rest_ns).trim()),
            None => "its clients are not in the capture".to_owned(),
        };
        format!("{name} {verb} in {} (p99); {rest}", time(times.p99_ns).trim())
    } else {
        let longest = row.slowest.first().filter(|part| part.share > 0.0)?;
        let cause = match longest.part {
            "until answered" if row.answer.is_none() => {
                "until answered, the server is not in the capture".to_owned()
            }
            OUTSIDE_WORDS => format!(
                "{} of it until answered by servers that are not in the capture",
                percent(longest.share)
            ),
            part => format!("{} of it {part}", percent(longest.share)),
        };
        format!("{name}: requests take {} (p99), {cause}", time(total.p99_ns).trim())
    };
    let evidence = row.slowest_exchange.map_or(Evidence::None, Evidence::Request);
    Some(Candidate { severity, headline: Headline { kind: HeadlineKind::Slow, text, evidence } })
}

fn small(n: u64) -> String {
    count(n).trim().to_owned()
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p >= 9.95 => format!("{p:.0} %"),
        p if p >= 0.095 => format!("{p:.1} %"),
        p => format!("{p:.2} %"),
    }
}
