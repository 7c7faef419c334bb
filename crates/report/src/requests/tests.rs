//! The sums of exchanges, and the parts of their times.

use super::*;
use magscope_core::exchange::example::turn;

fn exchange(id: u64, answer_ns: u64) -> Exchange {
    turn(id, [100, 150], [150 + answer_ns, 250 + answer_ns])
}

#[test]
fn the_parts_of_an_exchange_are_its_total() {
    let one = exchange(1, 7_000);
    let (ns, parts) = parts_of(&one).expect("a total");
    assert_eq!(Some(ns), one.total_ns());
    assert_eq!(Some(parts.iter().sum::<u64>()), one.total_ns());
    assert_eq!(parts[1], 7_000);
    let broken = Exchange { grade: Grade::Broken, ..one };
    assert_eq!(parts_of(&broken), None);
    // Without the requester there is the answer.
    let mut of_server = exchange(1, 7_000);
    of_server.request.first_sent_ns = None;
    of_server.response.last_read_ns = None;
    let (ns, parts) = parts_of(&of_server).expect("an answer");
    assert_eq!((Some(ns), parts.iter().sum::<u64>()), (of_server.answer_ns(), ns));
}

#[test]
fn the_parts_are_the_total_between_two_clocks() {
    let mut one = exchange(1, 7_000);
    // The responder's clock is estimated to be 60 ns behind, so its read seems to be before the send.
    one.request.last_read_ns = Some(90);
    one.response.first_sent_ns = Some(7_090);
    one.response.last_sent_ns = Some(7_090);
    let (ns, parts) = parts_of(&one).expect("a total");
    assert_eq!((Some(ns), parts[1]), (one.total_ns(), 7_000));
    assert_eq!(parts.iter().sum::<u64>(), ns);
}

#[test]
fn the_time_until_asked_again_is_not_sending() {
    let mut one = exchange(1, 7_000);
    // The first datagram left 100 ns before the second, and was read.
    one.request.first_sent_ns = Some(0);
    (one.request.repeats, one.request.repeated_ns) = (1, 100);
    let (ns, parts) = parts_of(&one).expect("a total");
    assert_eq!((ns, parts.iter().sum::<u64>()), (7_250, 7_250));
    assert_eq!((parts[0], parts[REPEATED], kind_words(REPEATED)), (0, 100, "until asked again"));
    let mut sum = Sum::default();
    for grade in [Grade::Turn, Grade::Unanswered, Grade::Streamed] {
        sum.add(&Exchange { grade, ..one.clone() });
    }
    sum.add(&exchange(2, 10));
    let mut both = sum.clone();
    both.merge(&sum);
    assert_eq!((sum.row(false).asked_again, both.row(false).asked_again), (2, 4));
}

#[test]
fn the_note_on_times_counts_in_words() {
    let row = |of_both: u64, of_server: u64| {
        let mut sum = Sum::default();
        for id in 0..of_both + of_server {
            let mut one = exchange(id, 7_000);
            if id >= of_both {
                one.request.first_sent_ns = None;
                one.response.last_read_ns = None;
            }
            sum.add(&one);
        }
        sum.row(false).times_note()
    };
    let words = "times of 1 turn; the requester of 1 other is not in the capture";
    assert_eq!(row(1, 1).as_deref(), Some(words));
    let words = "times of 3 turns; the requesters of 2 others are not in the capture";
    assert_eq!(row(3, 2).as_deref(), Some(words));
    let words = "the requester of 1 turn is in the capture, so the times of all are until answered";
    assert_eq!(row(1, 4).as_deref(), Some(words));
    assert_eq!(row(3, 0), None);
}

/// Without the responder there is the time from request to response alone.
fn outside(id: u64, total_ns: u64) -> Exchange {
    let mut of_client = exchange(id, total_ns);
    of_client.request.last_read_ns = None;
    of_client.response.first_sent_ns = None;
    of_client
}

#[test]
fn times_of_responders_outside_the_capture_are_no_times_until_answered() {
    let mut sum = Sum::default();
    (1..=50).for_each(|id| sum.add(&exchange(id, 1_000)));
    (51..=100).for_each(|id| sum.add(&outside(id, 9_000_000)));
    let (shares, _) = sum.shares();
    assert_eq!((shares.len(), shares[0].part), (1, OUTSIDE_WORDS), "{shares:?}");
    let mut alone = Sum::default();
    alone.add(&outside(1, 9_000_000));
    assert_eq!(alone.shares().0[0].part, "until answered");
}

#[test]
fn who_got_no_answer_is_named_if_it_is_one() {
    let of = |names: &[&str]| {
        let mut all = Requesters::default();
        for name in names {
            all.add(name);
        }
        all
    };
    assert_eq!((of(&[]).one(), of(&["curl", "curl"]).one()), (None, Some("curl")));
    assert_eq!(of(&["curl", "wget", "curl"]).one(), None);
    let merged: [(&[&str], &[&str], Option<&str>); 3] =
        [(&["curl"], &["curl"], Some("curl")), (&["curl"], &["a", "b"], None), (&[], &["b"], Some("b"))];
    for (first, second, one) in merged {
        let mut all = of(first);
        all.merge(&of(second));
        assert_eq!(all.one(), one);
    }
}

#[test]
fn bytes_in_one_direction_alone_are_no_exchange() {
    let mut sum = Sum::default();
    let grades = [Grade::Turn, Grade::Unidirectional, Grade::Unidirectional, Grade::Broken];
    for grade in grades {
        sum.add(&Exchange { grade, ..exchange(1, 10) });
    }
    let grades = sum.row(false).grades;
    assert_eq!((grades.broken, grades.unidirectional), (1, 2));
    assert_eq!((grades.total(), grades.with_unidirectional()), (2, 4));
}

#[test]
fn shares_are_of_the_slowest_hundredth() {
    let mut sum = Sum::default();
    (1..=1_000).for_each(|id| sum.add(&exchange(id, if id % 100 == 0 { 1_000_000 + id } else { 10 })));
    let (shares, slowest) = sum.shares();
    assert_eq!(slowest, Some(1_000));
    assert_eq!(shares[0].part, "until answered");
    assert!(shares[0].share > 0.99, "{shares:?}");
    assert!((shares.iter().map(|share| share.share).sum::<f64>() - 1.0).abs() < 1e-9);
}
