//! Several threads read one TCP socket: each read that is not marked is its own thread's.

use crate::common;
use crate::model;

use common::*;
use magscope_core::journey::{Journey, Verdict};
use magscope_core::{Event, Hop, Proto};
use model::Random;
use proptest::prelude::*;

/// A read: its true bytes, its thread, the instant at which it took them, and its return.
struct ReadCall {
    from: u32,
    to: u32,
    tid: u32,
    taken_ns: u64,
    returned_ns: u64,
}

/// Threads take bytes one after the other, and return in any order. Up to `late` per cent return late.
fn reads(random: &mut Random, threads: u64, late: u64) -> Vec<ReadCall> {
    let (mut at, mut now_ns, mut free_ns) = (1_000, 1_000_000, vec![0; threads as usize]);
    let mut taken = Vec::new();
    for _ in 0..random.within(2, 40) {
        let thread = random.within(0, threads - 1) as usize;
        now_ns = free_ns[thread].max(now_ns) + random.within(1, 2_000);
        let len = if random.chance(50) { 100 } else { random.within(1, 300) as u32 };
        let wait_ns = if random.chance(late) { random.within(1, 3_000_000) } else { random.within(1, 20) };
        free_ns[thread] = now_ns + wait_ns;
        let tid = 70 + thread as u32;
        taken.push(ReadCall { from: at, to: at + len, tid, taken_ns: now_ns, returned_ns: now_ns + wait_ns });
        at += len;
    }
    taken
}

/// The events of the reads: each has its range from the position at its return.
fn events(taken: &[ReadCall]) -> Vec<Event> {
    let end = taken.last().map_or(1_000, |read| read.to);
    let mut events = vec![tcp(Hop::TcpSend, 0, CLIENT, 1_000, end - 1_000)];
    events.extend(run(&PACKET_TX, 10, CLIENT, 1_000, end - 1_000));
    events.extend(run(&PACKET_RX, 100, SERVER, 1_000, end - 1_000));
    events.push(tcp(Hop::SockReady, 110, SERVER, end, 0));
    for read in taken {
        let position =
            taken.iter().filter(|other| other.taken_ns <= read.returned_ns).map(|other| other.to).max();
        let seen = position.unwrap_or(read.to);
        let event =
            tcp(Hop::AppRecv, read.returned_ns, SERVER, seen - (read.to - read.from), read.to - read.from);
        events.push(by(event, read.tid, 70));
    }
    events.sort_by_key(|event| event.time_ns);
    events
}

fn unmarked_reads_are_true(seed: u64, threads: u64, late: u64) -> Result<(), String> {
    let mut random = Random(seed);
    let taken = reads(&mut random, threads, late);
    let done: Vec<Journey> = correlate(coverage(), flows(Proto::TCP), events(&taken)).0;
    for journey in &done {
        let start = journey.range.start as u32;
        let own = taken.iter().find(|read| read.from <= start && start < read.to).ok_or("no read")?;
        let reader = journey.reader.map_or(0, |reader| reader.tid);
        let is_true = reader == own.tid && journey.rungs.time_ns(Hop::AppRecv) == Some(own.returned_ns);
        match journey.verdict {
            Verdict::ReadUnseen => {}
            Verdict::Complete if journey.ambiguous || is_true => {}
            _ => return Err(format!("of thread {}, returned at {}: {journey:?}", own.tid, own.returned_ns)),
        }
    }
    if threads == 1 && done.iter().any(|journey| journey.ambiguous || journey.verdict != Verdict::Complete) {
        return Err("one reader is never in doubt".to_owned());
    }
    Ok(())
}

proptest! {
    #[test]
    fn an_unmarked_read_is_its_own_threads(seed in any::<u64>(), threads in 1..5_u64, late in 0..60_u64) {
        unmarked_reads_are_true(seed, threads, late).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn two_reads_that_return_after_each_other_are_marked() {
    let taken = |from, to, tid, taken_ns, returned_ns| ReadCall { from, to, tid, taken_ns, returned_ns };
    let both = [taken(1_000, 1_100, 71, 1_900, 2_000), taken(1_100, 1_200, 72, 1_950, 1_990)];
    let done = correlate(coverage(), flows(Proto::TCP), events(&both)).0;
    assert_eq!(ranges(&done), [(1_000, 100), (1_100, 100)]);
    assert_eq!(done[0].verdict, Verdict::ReadUnseen);
    assert!(done[1].ambiguous, "{:?}", done[1]);
}

#[test]
fn a_socket_that_is_handed_over_has_no_marked_read() {
    let taken = |from, to, tid, taken_ns, returned_ns| ReadCall { from, to, tid, taken_ns, returned_ns };
    let both = [taken(1_000, 1_100, 71, 1_050, 1_100), taken(1_100, 1_200, 72, 1_900, 2_000)];
    let done = correlate(coverage(), flows(Proto::TCP), events(&both)).0;
    assert!(done.iter().all(|j| j.verdict == Verdict::Complete && !j.ambiguous), "{done:?}");
}
