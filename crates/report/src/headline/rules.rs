//! The rules of the headline: candidates, their order, and their words.

use super::findings::{End, Findings, Service};
use super::slow::{slow_journeys, slow_requests, too_late, unread};
use super::{Evidence, Headline, HeadlineKind};
use crate::attempts::{Attempts, shows_drops};
use crate::drops::left_out_words;
use crate::figures::{count, plural, time};
use crate::requests::{RequestRow, RequestTable};
use crate::service::ServiceKey;
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
pub(super) const FEW: u64 = 10;
/// Share of a service's journeys from which loss and retransmissions come first.
pub(super) const MUCH: f64 = 0.01;
/// Least number of lost or resent journeys for that.
pub(super) const SEVERAL: u64 = 3;
/// Weight of ten times as many lost journeys, in hundredths of their share.
const OF_TEN_TIMES: f64 = 30.0;
/// Share of broken journeys from which nothing else is concluded.
const MOSTLY_BROKEN: f64 = 0.5;
/// Share of a time that is called its cause.
pub(super) const MAIN: f64 = 0.5;

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
    ("ip_innoroutes", "no route"),
    ("ip_inaddrerrors", "no route back to its source"),
    ("ip_rpfilter", "its source is not behind the interface that it came in by"),
    ("ip_inhdr", "the hop limit (TTL) is used up, or a bad header"),
    ("neigh_failed", "the next hop has not answered (ARP, neighbour discovery)"),
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
pub(super) struct Candidate {
    pub severity: f64,
    /// True for drops that have records: events that are missing elsewhere change nothing in them.
    pub is_recorded: bool,
    pub headline: Headline,
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
        .flat_map(|service| {
            [
                lost(service, facts),
                too_late(service, facts),
                unread(service, facts),
                resent(service, facts),
                slow_journeys(service),
            ]
        })
        .chain(
            rows.iter().flat_map(|row| {
                [slow_requests(row, rows), unanswered(row, &facts.omissions), asked_again(row)]
            }),
        )
        .flatten()
        .chain(facts.findings.peers().unanswered().map(|(peer, attempts)| unreached(peer, attempts, facts)));
    // Of equal ones the first: the services have a fixed order.
    let worst = candidates.reduce(|a, b| if b.severity > a.severity { b } else { a });
    let unknown = mostly_missed(facts).filter(|_| worst.as_ref().is_none_or(|worst| !worst.is_recorded));
    if let Some(text) = unknown {
        return Headline { evidence: Evidence::Losses, ..plain(HeadlineKind::MissedEvents, text) };
    }
    if let Some(Candidate { mut headline, .. }) = worst {
        // The others have it in their numbers.
        if headline.kind == HeadlineKind::Slow && facts.omissions.is_narrowed() {
            headline.text.push_str("; of what the filter or sampler lets through");
        }
        headline.text.push_str(&missed);
        return headline;
    }
    if counts.journeys == 0 {
        let has_losses = counts.dropped > 0 || counts.missed_events > 0;
        let evidence = if has_losses { Evidence::Losses } else { Evidence::None };
        return Headline {
            evidence,
            ..plain(HeadlineKind::Unknown, format!("{}{missed}", no_journeys(facts)))
        };
    }
    if facts.outcomes.whole() == 0 {
        let journeys = plural(counts.journeys, "journey", "journeys");
        let text = format!("unknown: the end of none of {journeys} was seen");
        return plain(HeadlineKind::Unknown, format!("{text}{missed}"));
    }
    nothing_wrong(facts, &missed)
}

fn plain(kind: HeadlineKind, text: String) -> Headline {
    Headline { kind, text, evidence: Evidence::None }
}

/// That more events are missing than there are; `None` with fewer. The kernel's sums have no events.
fn mostly_missed(facts: &Facts<'_>) -> Option<String> {
    let missed = facts.counts.missed_events;
    let is_most = missed > facts.events && !facts.sums;
    let share = missed as f64 / missed.saturating_add(facts.events).max(1) as f64;
    is_most.then(|| format!("unknown: {} of the events are missing", percent(share)))
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
    } else if facts.findings.lacks_flows() {
        format!("no journey can be built: the flows of the events are missing{dropped}")
    } else {
        match (left_out_hits(&facts.omissions), facts.events) {
            (Some(hits), 0) => format!("nothing recorded{over}: {hits}{dropped}"),
            (None, 0) => format!("no traffic seen{over}{dropped}"),
            (Some(hits), _) => format!("no payload seen{over}; {hits}{dropped}"),
            (None, _) => format!("no payload seen{over}{dropped}"),
        }
    }
}

/// What a filter or a sampler left out: `the filter left out 56 events of 7 hops`; `None` without any.
fn left_out_hits(omissions: &Omissions) -> Option<String> {
    let has_sampler = omissions.flows_sampled || !omissions.sampled_hops.is_empty();
    let by = match (omissions.filtered, has_sampler) {
        (true, true) => "filter or sampler",
        (false, true) => "sampler",
        (_, false) => "filter",
    };
    let hops = plural(omissions.left_out_hops.iter().count() as u64, "hop", "hops");
    let events = plural(omissions.left_out, "event", "events");
    (omissions.left_out > 0).then(|| format!("the {by} left out {events} of {hops}"))
}

/// What the instrument missed; empty if nothing.
fn missed_words(facts: &Facts<'_>) -> String {
    let counts = &facts.counts;
    match (counts.missed_events, counts.broken) {
        (0, 0) => String::new(),
        // Rows of a lost table are among them.
        (missed, 0) if counts.journeys == 0 && facts.findings.lacks_flows() => {
            format!("; {} missed", plural(missed, "record", "records"))
        }
        (missed, broken) => {
            let missed = plural(missed, "event", "events");
            format!("; {missed} missed, {} broken", plural(broken, "journey", "journeys"))
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
        text.push_str(&plural(counts.journeys, "journey", "journeys"));
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
        let cut = plural(cut, "journey", "journeys");
        _ = write!(text, "; {cut} cut by the filter or sampler"); // writing into a String cannot fail
    }
    let ambiguous = facts.findings.ambiguous();
    // Fewer do not reach the percentile.
    if ambiguous as f64 >= facts.outcomes.whole() as f64 * MUCH && ambiguous > 0 {
        let journeys = plural(ambiguous, "ambiguous journey", "ambiguous journeys");
        _ = write!(text, "; without the times of {journeys}"); // writing into a String cannot fail
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
pub(super) struct Extent {
    is_exact: bool,
    is_narrowed: bool,
    is_torn: bool,
    bad: u64,
    all: u64,
}

impl Extent {
    pub fn of(service: &Service, bad: u64, hides_more: bool, omissions: &Omissions) -> Self {
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

    pub fn share(&self) -> f64 {
        self.bad as f64 / self.all.max(1) as f64
    }

    /// `2.2 % of datagrams`, or the lower bound `at least 9 of 400 recorded datagrams`.
    pub fn words(&self, noun: &str) -> String {
        let recorded = if self.is_narrowed { "recorded " } else { "" };
        match (self.is_exact, self.is_torn) {
            (true, _) => format!("{} of {recorded}{noun}", percent(self.share())),
            (false, false) => format!("at least {} of {} {recorded}{noun}", small(self.bad), small(self.all)),
            (false, true) => format!("at least {} {noun}", small(self.bad)),
        }
    }

    /// ` (9 of 400)`, unless the words have it.
    pub fn numbers(&self) -> String {
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
    // Loss of many packets outweighs a larger share of few.
    let weight_of_many = (bad as f64).log10();
    if let End::Dropped(reason, None) = end
        && lacks_name(reason, facts.infos)
    {
        let text = format!(
            "{} {} freed by the kernel {mostly}for {reason}, which has no name here, so it may be no drop{}",
            extent.words(noun),
            direction(service),
            extent.numbers()
        );
        let evidence = Evidence::journeys(service.last_lost);
        let headline = Headline { kind: HeadlineKind::Loss, text, evidence };
        return Some(Candidate { severity: 320.0 + share, is_recorded: false, headline });
    }
    let verb = if service.ends.len() > 1 && service.dropped() > 0 && service.outcomes.lost() > 0 {
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
    let severity = if is_much {
        1_000.0 + share * 100.0 + weight_of_many * OF_TEN_TIMES
    } else {
        400.0 + share + weight_of_many
    };
    let is_recorded = matches!(end, End::Dropped(..));
    Some(Candidate { is_recorded, severity, headline: Headline { kind: HeadlineKind::Loss, text, evidence } })
}

/// True if the recordings have no names of reasons at all (`meta.toml` is lost), so that a reason may be that of a clean-up.
/// Kernels before 5.17 give no reasons: there it is 0, and means a drop.
fn lacks_name(reason: &str, infos: &[NodeInfo]) -> bool {
    let number = reason.strip_prefix("reason ").and_then(|number| number.parse::<u32>().ok());
    number.is_some_and(|number| number != 0) && infos.iter().any(|info| info.drop_reasons.is_empty())
}

/// `to :7777`, or the protocol where the port is unknown.
pub(super) fn direction(service: &Service) -> String {
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
        let is_number = reason.starts_with("reason ");
        return if is_number { reason.to_owned() } else { format!("reason {reason}") };
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
    Some(Candidate {
        is_recorded: false,
        severity,
        headline: Headline { kind: HeadlineKind::Retransmissions, text, evidence },
    })
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
    let ignored = if shows_drops(facts.infos, &facts.omissions) { attempts.ignored } else { 0 };
    let whose = match ignored {
        0 => String::new(),
        n if n == bad => "; their SYNs arrived, so the accept queue may be full".to_owned(),
        n => format!("; the SYNs of {} arrived, so the accept queue may be full", small(n)),
    };
    let text = format!("{} of {} {recorded}{noun} to connect to {peer} {why}{whose}", small(bad), small(all));
    let is_much = share >= MOSTLY_BROKEN && bad >= SEVERAL;
    let severity = if is_much { 900.0 + share * 50.0 } else { 350.0 + share };
    let evidence = attempts.last_unanswered_ns.map_or(Evidence::None, Evidence::Event);
    Candidate {
        is_recorded: false,
        severity,
        headline: Headline { kind: HeadlineKind::Unreached, text, evidence },
    }
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
    Some(Candidate { is_recorded: false, severity, headline: plain(HeadlineKind::Unanswered, text) })
}

/// Requests that were asked again, because no answer came in time. Only of protocols that ask with a single datagram: several
/// datagrams of others may be one message.
fn asked_again(row: &RequestRow) -> Option<Candidate> {
    let (again, all) = (row.asked_again, row.grades.turn.saturating_add(row.grades.unanswered));
    let port = row.name.split(' ').next().unwrap_or_default();
    if again < SEVERAL || row.proto != Proto::UDP || !ANSWERED_PORTS.contains(&port) {
        return None;
    }
    let text = format!("{} of {} requests to {} were asked again", small(again), small(all), row.name);
    let severity = 305.0 + again as f64 / all.max(1) as f64;
    Some(Candidate { is_recorded: false, severity, headline: plain(HeadlineKind::Retransmissions, text) })
}

pub(super) fn small(n: u64) -> String {
    count(n).trim().to_owned()
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if p >= 9.95 => format!("{p:.0} %"),
        p if p >= 0.095 => format!("{p:.1} %"),
        p => format!("{p:.2} %"),
    }
}
