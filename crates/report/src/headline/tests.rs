//! The rules over sums of requests, and the order of the candidates.

use super::*;
use crate::requests::{
    GradeCounts, OUTSIDE_WORDS, PartShare, RequestRow, RequestSums, RequestTable, RequestsBy, WaitedFor,
};
use crate::stats::Quantiles;
use magscope_core::exchange::example::turn;
use magscope_core::exchange::{Exchange, ExchangeEnd, Nested, NestedBy};
use magscope_core::flow::Proto;
use magscope_core::stored_context::StoredContext;
use magscope_core::{Counts, Omissions, Outcomes, Verdict};

const MS: u64 = 1_000_000;

fn times(p99_ns: u64, n: u64) -> Quantiles {
    Quantiles { p50_ns: p99_ns / 100, p90_ns: p99_ns, p99_ns, p999_ns: p99_ns, max_ns: p99_ns, n }
}

fn row(name: &str, n: u64, answer_ns: u64, total_ns: u64, parts: &[(&'static str, u64)]) -> RequestRow {
    let all: u64 = parts.iter().map(|(_, ns)| ns).sum();
    let share = |(part, ns): &(&'static str, u64)| PartShare { part, ns: *ns, share: *ns as f64 / all as f64 };
    RequestRow {
        proto: Proto::TCP,
        name: name.to_owned(),
        grades: GradeCounts { turn: n, ..GradeCounts::default() },
        total: Some(times(total_ns, n)),
        answer: Some(times(answer_ns, n)),
        request_bytes: 0,
        response_bytes: 0,
        retransmits: 0,
        asked_again: 0,
        slowest: parts.iter().map(share).collect(),
        slowest_exchange: Some(42),
        unanswered_requester: None,
        long: 0,
        waited_for: None,
        may_be_more: false,
    }
}

fn of(rows: Vec<RequestRow>) -> Headline {
    under(rows, Omissions::default())
}

fn under(rows: Vec<RequestRow>, omissions: Omissions) -> Headline {
    let table = RequestTable {
        by: RequestsBy::Service,
        grades: GradeCounts::default(),
        rows,
        others: 0,
        rest: GradeCounts::default(),
        bound: None,
    };
    let mut outcomes = Outcomes::default();
    outcomes.verdicts[Verdict::Complete.kind()] = 2_000;
    headline(&Facts {
        findings: &Findings::default(),
        requests: Some(&table),
        counts: Counts { journeys: 2_000, ..Counts::default() },
        outcomes: &outcomes,
        infos: &[],
        omissions,
        events: 20_000,
        duration_ns: 10_000 * MS,
        sums: false,
        reasons: &[],
    })
}

#[test]
fn a_slow_answerer_is_named_with_what_the_rest_takes() {
    let parts = [("answering, blocked", 300 * MS), ("the wire", 600_000)];
    let headline = of(vec![row(":6379 redis-server", 1_000, 30 * MS, 30 * MS + 60_000, &parts)]);
    let text = ":6379 redis-server answers in 30.0 ms (p99); the rest of the slowest requests is 60.0 µs";
    assert_eq!((headline.text.as_str(), headline.kind), (text, HeadlineKind::Slow));
    assert_eq!(headline.evidence, Evidence::Request(42));
}

#[test]
fn an_answer_that_waits_for_a_cpu_says_so() {
    let parts = [("answering, waiting for a CPU", 148 * MS), ("answering, on a CPU", 10 * MS)];
    let headline = of(vec![row(":443 nginx", 1_000, 16 * MS, 17 * MS, &parts)]);
    assert!(headline.text.starts_with(":443 nginx waits for a CPU, so it answers in 16.0 ms"), "{headline:?}");
}

#[test]
fn on_the_server_alone_its_answers_are_named() {
    let parts = [("answering, blocked", 30)];
    let row = RequestRow { total: None, ..row(":443", 100, 30 * MS, 0, &parts) };
    let headline = of(vec![row]);
    assert!(headline.text.ends_with("in 30.0 ms (p99); its clients are not in the capture"), "{headline:?}");
    assert_eq!(headline.kind, HeadlineKind::Slow);
}

#[test]
fn a_few_local_clients_do_not_hide_the_others() {
    let parts = [("until answered", 300 * MS)];
    let slow = row(":8080 python3", 10_000, 2_000 * MS, 0, &parts);
    for (n, note) in [(3, "the requester of 3 turns"), (12, "the requester of 12 turns")] {
        let row = RequestRow { total: Some(times(MS / 5, n)), ..slow.clone() };
        assert!(row.times_note().is_some_and(|words| words.starts_with(note)), "{:?}", row.times_note());
        assert_eq!(row.times().map(|times| times.n), Some(10_000));
        let headline = of(vec![row]);
        let text = ":8080 python3 answers in 2.00 s (p99); most of its clients are not in the capture";
        assert_eq!((headline.text.as_str(), headline.kind), (text, HeadlineKind::Slow));
    }
    let mostly_seen = RequestRow { total: Some(times(2_100 * MS, 9_000)), ..slow };
    assert_eq!(mostly_seen.times().map(|times| times.n), Some(9_000));
    assert!(mostly_seen.times_note().is_some_and(|words| words.contains("1 000 others are not")));
}

#[test]
fn a_server_outside_the_capture_is_not_blamed() {
    let parts = [("until answered", 300 * MS)];
    let row = RequestRow { answer: None, ..row(":443", 100, 0, 30 * MS, &parts) };
    let headline = of(vec![row]);
    assert!(headline.text.contains("the server is not in the capture"), "{headline:?}");
}

#[test]
fn quick_requests_and_few_that_are_a_little_slower_are_no_headline() {
    let parts = [("answering, blocked", MS)];
    for few in [row(":1", 1_000, MS, MS, &parts), row(":1", 3, 50 * MS, 50 * MS, &parts)] {
        assert_eq!(of(vec![few]).kind, HeadlineKind::NothingWrong);
    }
}

#[test]
fn few_requests_are_judged_by_the_longest() {
    let parts = [("until answered", 2_000 * MS)];
    let slow = RequestRow { long: 3, ..row(":1 a", 3, 2_000 * MS, 2_000 * MS, &parts) };
    let headline = of(vec![slow.clone()]);
    let text = "3 of 3 requests to :1 a took up to 2.00 s, 100 % of it until answered";
    assert_eq!((headline.text.as_str(), headline.kind), (text, HeadlineKind::Slow));
    assert_eq!(headline.evidence, Evidence::Request(42));
    let one = RequestRow { long: 1, ..row(":1 a", 1, 2_000 * MS, 2_000 * MS, &parts) };
    assert!(of(vec![one]).text.starts_with("1 of 1 request to :1 a took 2.00 s"));
    let of_server = RequestRow { total: None, ..slow };
    let text = "3 of 3 requests to :1 a were answered after up to 2.00 s; its clients are not in the capture";
    assert_eq!(of(vec![of_server]).text, text);
}

#[test]
fn a_long_request_among_many_quick_ones_is_no_praise() {
    let parts = [("waiting for the reader", 1_250 * MS)];
    let quick = row(":1 a", 100, MS, 2 * MS, &parts);
    let total = quick.total.map(|total| Quantiles { max_ns: 1_250 * MS, ..total });
    let one = RequestRow { total, long: 1, ..quick };
    let headline = of(vec![one.clone()]);
    let text = "1 of 100 requests to :1 a took 1.25 s, 100 % of it waiting for the reader";
    assert_eq!((headline.text.as_str(), headline.kind), (text, HeadlineKind::Slow));
    // What is slow for many comes first.
    let slow = row(":2 b", 100, 6 * MS, 6 * MS, &[("until answered", 6 * MS)]);
    assert!(of(vec![one, slow]).text.starts_with(":2 b answers in 6.00 ms"));
}

/// A service of TCP that was waited for.
fn wait(name: &str, share: f64, exchange: u64) -> WaitedFor {
    WaitedFor { proto: Proto::TCP, name: name.to_owned(), share, exchange }
}

/// Two services of which the first one waits for the second.
fn tiers(n: u64, ns: u64) -> Vec<RequestRow> {
    let parts = [("until answered", ns)];
    let inner = RequestRow { long: n, ..row(":2 b", n, ns, ns, &parts) };
    let waited_for = Some(wait(":2 b", 0.96, 7));
    let outer = RequestRow { long: n, waited_for, ..row(":1 a", n, ns + MS, ns + MS, &parts) };
    vec![outer, inner]
}

#[test]
fn a_service_that_waits_for_another_is_not_blamed_alone() {
    let headline = of(tiers(100, 31 * MS));
    assert_eq!(
        headline.text,
        ":1 a: requests take 32.0 ms (p99), 96 % of it waiting for :2 b, which answers in 31.0 ms (p99)"
    );
    assert_eq!(headline.evidence, Evidence::Request(7));
    let text = "3 of 3 requests to :1 a took up to 2.00 s, 96 % of it waiting for :2 b";
    assert_eq!(of(tiers(3, 2_000 * MS)).text, text);
    let mut on_path = tiers(100, 31 * MS);
    on_path[1].answer = Some(times(MS, 100));
    let text =
        ":1 a: requests take 32.0 ms (p99), 96 % of it waiting for :2 b, whose requests take 31.0 ms (p99)";
    assert_eq!(of(on_path).text, text);
    // A small part of the time is no cause.
    let mut own = tiers(100, 31 * MS);
    own[0].waited_for = own[0].waited_for.take().map(|wait| WaitedFor { share: 0.2, ..wait });
    assert!(of(own).text.starts_with(":1 a answers in 32.0 ms (p99)"));
}

#[test]
fn the_last_of_several_tiers_is_named() {
    let mut rows = tiers(100, 31 * MS);
    rows[1].waited_for = Some(wait(":3 c", 0.9, 8));
    rows.push(row(":3 c", 100, 30 * MS, 30 * MS, &[("until answered", 30 * MS)]));
    let text = ":1 a: requests take 32.0 ms (p99), 96 % of it waiting for :2 b, which waits for :3 c, which answers \
                in 30.0 ms (p99)";
    assert_eq!(of(rows).text, text);
}

#[test]
fn many_quick_answers_are_waited_for_without_their_figure() {
    let text = ":1 a: requests take 32.0 ms (p99), 96 % of it waiting for :2 b";
    let mut rows = tiers(100, 31 * MS);
    (rows[1].total, rows[1].answer) = (Some(times(MS, 4_000)), Some(times(MS * 4 / 5, 4_000)));
    assert_eq!(of(rows.clone()).text, text);
    // What those wait for in turn is no reason either.
    rows[1].waited_for = Some(wait(":3 c", 0.9, 8));
    assert_eq!(of(rows.clone()).text, text);
    rows.truncate(1);
    assert_eq!(of(rows.clone()).text, text, "one that is not in the table");
    rows[0].total = None;
    assert_eq!(of(rows).text, ":1 a answers in 32.0 ms (p99), 96 % of it waiting for :2 b");
}

#[test]
fn the_figure_is_that_of_the_protocol_that_was_waited_for() {
    let mut rows = tiers(100, 31 * MS);
    let other = row(":2 b", 100, 20 * MS, 20 * MS, &[("until answered", MS)]);
    rows.insert(0, RequestRow { proto: Proto::UDP, ..other });
    let headline = of(rows);
    assert!(headline.text.ends_with(":2 b, which answers in 31.0 ms (p99)"), "{headline:?}");
}

#[test]
fn the_sums_have_what_a_responder_waited_for() {
    let mut sums = RequestSums::new(RequestsBy::Service);
    let context = StoredContext::new(Vec::new());
    let to = |port: u16| ExchangeEnd { addr: Some(([10, 0, 0, 2], port).into()), ..ExchangeEnd::default() };
    let during = vec![Nested { exchange: 2, by: NestedBy::SameThread }];
    let inner = Exchange { responder: to(7_001), ..turn(2, [2 * MS, 3 * MS], [31 * MS, 32 * MS]) };
    let outer = Exchange { responder: to(8_080), during, ..turn(1, [0, MS], [33 * MS, 34 * MS]) };
    sums.add_all(&[outer, inner], &context);
    let table = sums.table(9);
    let row = table.rows.iter().find(|row| row.name == ":8080").expect("a row");
    let wait = row.waited_for.as_ref().expect("a service");
    assert_eq!((wait.name.as_str(), wait.exchange, row.long), (":7001", 2, 0));
    assert!(wait.share > 0.8 && wait.share < 0.9, "{wait:?}");
}

#[test]
fn the_slowest_service_is_named() {
    let parts = [("answering, blocked", MS)];
    let headline =
        of(vec![row(":1 a", 100, 10 * MS, 10 * MS, &parts), row(":2 b", 100, 90 * MS, 90 * MS, &parts)]);
    assert!(headline.text.starts_with(":2 b answers in 90.0 ms"), "{headline:?}");
}

#[test]
fn the_rest_is_that_of_as_many_requests_as_the_parts_are_of() {
    // The parts are of the slowest hundredth of all turns, and a tenth of their clients is not in the capture.
    let parts = [("until answered", 3_000 * MS), ("the wire", 6 * MS)];
    let row = RequestRow { total: Some(times(31 * MS, 9_000)), ..row(":1 a", 10_000, 30 * MS, 0, &parts) };
    let headline = of(vec![row]);
    assert!(headline.text.ends_with("the rest of the slowest requests is 60.0 µs"), "{headline:?}");
}

#[test]
fn times_of_servers_outside_the_capture_are_not_those_of_its_own() {
    // A few local servers answer at once; the slow ones are elsewhere.
    let parts = [(OUTSIDE_WORDS, 900 * MS), ("until answered", MS)];
    let mixed = RequestRow { answer: Some(times(MS, 200)), ..row(":443", 1_000, 0, 90 * MS, &parts) };
    let headline = of(vec![mixed]);
    let text =
        ":443: requests take 90.0 ms (p99), 100 % of it until answered by servers that are not in the capture";
    assert_eq!((headline.text.as_str(), headline.kind), (text, HeadlineKind::Slow));
    // The rest of the slowest requests is not the time of the others.
    let parts = [("until answered", 900 * MS), (OUTSIDE_WORDS, 300 * MS)];
    let mixed = RequestRow { answer: Some(times(90 * MS, 200)), ..row(":443", 1_000, 0, 90 * MS, &parts) };
    let headline = of(vec![mixed]);
    assert_eq!(headline.text, ":443 answers in 90.0 ms (p99); some of its servers are not in the capture");
}

/// A service without times.
fn silent(name: &str, proto: Proto, grades: GradeCounts) -> RequestRow {
    let requester = Some("curl".to_owned());
    let row = row(name, 0, 0, 0, &[]);
    RequestRow { proto, grades, total: None, answer: None, unanswered_requester: requester, ..row }
}

#[test]
fn a_service_that_does_not_answer_is_named_with_who_asks() {
    let grades = GradeCounts { unanswered: 100, ..GradeCounts::default() };
    let headline = of(vec![silent(":9000 server", Proto::TCP, grades)]);
    let text = ":9000 server does not answer `curl`: 100 of 100 requests without a byte in return";
    assert_eq!((headline.text.as_str(), headline.kind), (text, HeadlineKind::Unanswered));
    let several = RequestRow { unanswered_requester: None, ..silent(":9000 server", Proto::TCP, grades) };
    assert!(of(vec![several]).text.starts_with(":9000 server does not answer: 100 of 100"));
    let omissions = Omissions { filtered: true, ..Omissions::default() };
    let headline = under(vec![silent(":9000 server", Proto::TCP, grades)], omissions);
    let text = "100 of 100 recorded requests of `curl` to :9000 server have no recorded answer";
    assert_eq!((headline.text.as_str(), headline.kind), (text, HeadlineKind::Unanswered));
    // It comes before what is slow.
    let parts = [("answering, blocked", MS)];
    let slow = row(":1 a", 100, 90 * MS, 90 * MS, &parts);
    assert_eq!(of(vec![slow, silent(":2 b", Proto::TCP, grades)]).kind, HeadlineKind::Unanswered);
}

#[test]
fn few_unanswered_requests_do_not_take_the_headline_from_something_worse() {
    // The last bytes of a connection may end it, and need no answer.
    for unanswered in [1, 20, 100] {
        let grades = GradeCounts { turn: 100, unanswered, ..GradeCounts::default() };
        let few = silent(":2 b", Proto::TCP, grades);
        assert_eq!(of(vec![few.clone()]).kind, HeadlineKind::NothingWrong, "{unanswered}");
        let slow = row(":1 a", 100, 90 * MS, 90 * MS, &[("answering, blocked", MS)]);
        let headline = of(vec![few, slow]);
        assert!(headline.text.starts_with(":1 a answers in 90.0 ms"), "{headline:?}");
    }
    let grades = GradeCounts { unanswered: 2, ..GradeCounts::default() };
    assert_eq!(of(vec![silent(":2 b", Proto::TCP, grades)]).kind, HeadlineKind::NothingWrong, "too few");
}

#[test]
fn datagrams_that_need_no_answer_are_no_headline() {
    let never = GradeCounts { unanswered: 100, ..GradeCounts::default() };
    let kind = |name: &str, grades| of(vec![silent(name, Proto::UDP, grades)]).kind;
    assert_eq!(kind(":514 rsyslogd", never), HeadlineKind::NothingWrong);
    assert_eq!(kind(":53 named", never), HeadlineKind::Unanswered);
    let hardly = GradeCounts { turn: 3, ..never };
    assert_eq!(kind(":8125 server", hardly), HeadlineKind::Unanswered);
}

#[test]
fn requests_that_were_asked_again_are_better_than_praise() {
    let of = |name: &str, asked_again| {
        let quick = row(name, 111, MS, 2 * MS, &[("until answered", MS)]);
        of(vec![RequestRow { proto: Proto::UDP, asked_again, ..quick }])
    };
    let headline = of(":53 named", 11);
    let text = "11 of 111 requests to :53 named were asked again";
    assert_eq!((headline.text.as_str(), headline.kind), (text, HeadlineKind::Retransmissions));
    // Several datagrams of other protocols may be one message.
    assert_eq!(of(":443 server", 11).kind, HeadlineKind::NothingWrong);
    assert_eq!(of(":53 named", 2).kind, HeadlineKind::NothingWrong);
}
