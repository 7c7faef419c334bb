//! Ten real recordings of the same traffic, compared with each other: whatever is found between them is a false alarm.

use crate::common::hosts::{CLIENT, Hosts, RecorderChild, SERVER, in_namespace};
use crate::common::{is_root, uninterrupted};
use magscope_core::context::NodeContext;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Correlator, Limits};
use magscope_report::compare::{CONFIDENCE, Comparison, LEAST_RUNS, Run, Side, common_hops, compare};
use magscope_session::Session;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use tempfile::TempDir;

const RECORDINGS: usize = 10;
/// Recordings a side.
const SIDES: [usize; 4] = [1, 2, 3, 5];
/// Draws of each.
const DRAWS: usize = 20;
/// Questions and answers of each protocol in a recording.
const ROUNDS: usize = 1_000;
const PORT: u16 = 7_200;
/// A right program passes with at least this probability, where draws are independent of each other.
const PASSES: f64 = 0.9999;

/// The same questions and answers, one after the other, over TCP and UDP.
fn talk(hosts: &Hosts) {
    let [client, _, server] = &hosts.names;
    let limit = Some(Duration::from_secs(30));
    let (listener, answers) = in_namespace(server, || {
        let answers = UdpSocket::bind((SERVER, PORT)).expect("a port");
        answers.set_read_timeout(limit).expect("a limit");
        (TcpListener::bind((SERVER, PORT)).expect("a port"), answers)
    });
    let question = [7; 200];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.set_nodelay(true).expect("TCP");
            let mut bytes = [0; 200];
            for _ in 0..ROUNDS {
                stream.read_exact(&mut bytes).expect("a question");
                stream.write_all(&bytes).expect("an answer");
            }
            for _ in 0..ROUNDS {
                let (len, from) = uninterrupted(|| answers.recv_from(&mut bytes)).expect("a question");
                answers.send_to(&bytes[..len], from).expect("an answer");
            }
        });
        in_namespace(client, || {
            let mut stream = TcpStream::connect((SERVER, PORT)).expect("a way");
            stream.set_nodelay(true).expect("TCP");
            let mut bytes = [0; 200];
            for _ in 0..ROUNDS {
                stream.write_all(&question).expect("room");
                stream.read_exact(&mut bytes).expect("an answer");
            }
            let socket = UdpSocket::bind((CLIENT, 0)).expect("a port");
            socket.set_read_timeout(limit).expect("a limit");
            for _ in 0..ROUNDS {
                socket.send_to(&question, (SERVER, PORT)).expect("room");
                uninterrupted(|| socket.recv_from(&mut bytes)).expect("an answer");
            }
        });
    });
}

/// A recording as a side of a comparison.
fn read(session: &Session, hops: magscope_core::HopSet) -> Side {
    let mut run = Run::new(session.info(), hops);
    let mut source = session.replay(None, None);
    let mut correlator = Correlator::new(session.info().coverage.served(), Limits::default());
    let (mut batch, mut done) = (Batch::default(), Vec::new());
    loop {
        let progress = source.next(&mut batch, Duration::ZERO).expect("a whole recording");
        run.batch(&batch);
        correlator.push(&batch, &mut done);
        if progress == Progress::End {
            correlator.finish(&mut done);
        }
        for journey in done.drain(..) {
            run.journey(&journey, &NodeContext { correlator: &correlator, node: session.info() });
        }
        if progress == Progress::End {
            let mut side = Side::default();
            side.add(run);
            return side;
        }
    }
}

/// The next number of splitmix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// So many recordings for each of two sides, none of them twice. Where a side has several, those of both take turns in time: a machine
/// whose load changes once, or for a while, differs in fact, and is then on both sides.
fn drawn(runs: &[Side], a_side: usize, state: &mut u64) -> [Side; 2] {
    loop {
        let mut left: Vec<usize> = (0..runs.len()).collect();
        let mut sides: [Vec<usize>; 2] = Default::default();
        for side in &mut sides {
            for _ in 0..a_side {
                side.push(left.swap_remove(random(state) as usize % left.len()));
            }
        }
        let mut in_time: Vec<(usize, usize)> =
            sides.iter().enumerate().flat_map(|(n, side)| side.iter().map(move |at| (*at, n))).collect();
        in_time.sort_unstable();
        let turns = in_time.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
        if a_side < LEAST_RUNS || turns >= LEAST_RUNS {
            return sides.map(|side| {
                let mut all = Side::default();
                for at in side {
                    all.append(&runs[at]);
                }
                all
            });
        }
    }
}

/// What a comparison says is different.
fn alarms(comparison: &Comparison) -> Vec<String> {
    let mut all = Vec::new();
    for protocol in &comparison.protocols {
        let steps = protocol.steps.iter().map(|step| (format!("{} to {}", step.from, step.to), &step.measured));
        for (what, measured) in steps.chain([("total".to_owned(), &protocol.total)]) {
            let changes = [measured.change, measured.p50.change, measured.p99.change];
            if changes.into_iter().any(magscope_report::compare::Change::is_found) {
                all.push(format!("{} {what}: p50 {:?}, p99 {:?}", protocol.proto, measured.p50, measured.p99));
            }
        }
        let shares = protocol.shares.iter().filter(|share| share.differs);
        all.extend(shares.map(|share| format!("{} {share:?}", protocol.proto)));
    }
    for service in &comparison.services {
        let parts = service.parts.iter().map(|part| (part.part.words(), &part.measured));
        for (what, measured) in parts.chain([("total", &service.total)]) {
            if measured.change.is_found() {
                all.push(format!("{} {what}: p50 {:?}, p99 {:?}", service.service, measured.p50, measured.p99));
            }
        }
        let grades = service.grades.iter().filter(|share| share.differs);
        all.extend(grades.map(|share| format!("{} {share:?}", service.service)));
    }
    all
}

/// The least number that at most so many of `n` exceed with a probability of `PASSES`, where each happens with `p`.
fn bound(n: usize, p: f64) -> usize {
    let mut exactly = (1.0 - p).powi(n as i32);
    let mut up_to = exactly;
    let mut k = 0;
    while up_to < PASSES && k < n {
        exactly *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
        up_to += exactly;
        k += 1;
    }
    k
}

#[test]
fn recordings_of_the_same_traffic_differ_no_more_often_than_the_confidence_allows() {
    let test = "recordings_of_the_same_traffic_differ_no_more_often_than_the_confidence_allows";
    if !is_root(test) {
        return;
    }
    let Some(hosts) = Hosts::new("same") else { return };
    let dir = TempDir::new().expect("a directory");
    let sessions: Vec<Session> = (0..RECORDINGS)
        .map(|n| {
            let path = dir.path().join(n.to_string());
            let recorder = RecorderChild::start(&hosts.names[0], &path.to_string_lossy());
            talk(&hosts);
            recorder.end();
            Session::open(&path).expect("a recording")
        })
        .collect();
    let hops = common_hops(sessions.iter().map(Session::info));
    let runs: Vec<Side> = sessions.iter().map(|session| read(session, hops)).collect();

    let mut state = 1;
    let (mut false_alarms, mut with_intervals) = (0, 0);
    for a_side in SIDES {
        let mut of_these = 0;
        for _ in 0..DRAWS {
            let [a, b] = drawn(&runs, a_side, &mut state);
            let comparison = compare(&a, &b);
            assert!((comparison.confidence - CONFIDENCE).abs() < f64::EPSILON);
            let reported = alarms(&comparison);
            if a_side < LEAST_RUNS {
                assert!(reported.is_empty() && comparison.compared == 0, "{a_side} a side: {reported:?}");
                continue;
            }
            assert!(comparison.compared > 8, "{a_side} a side: {} figures", comparison.compared);
            with_intervals += 1;
            of_these += usize::from(!reported.is_empty());
            for alarm in reported {
                println!("{a_side} a side: {alarm}");
            }
        }
        println!("{a_side} a side: {of_these} of {DRAWS} comparisons found a difference");
        false_alarms += of_these;
    }
    // The draws share recordings, so that they are not independent; each table's confidence holds by itself.
    let most = bound(with_intervals, 1.0 - CONFIDENCE);
    println!("{false_alarms} false alarms in {with_intervals} comparisons with intervals; {most} are allowed");
    assert!(false_alarms <= most, "{false_alarms} of {with_intervals}, {most} allowed");
}

#[test]
fn the_bound_is_that_of_the_binomial_distribution() {
    // Of forty with one in a hundred each: P(X <= 4) = 0.99993, P(X <= 3) = 0.9993.
    assert_eq!(bound(40, 0.01), 4);
    assert_eq!((bound(1, 0.5), bound(20, 0.0)), (1, 0));
}
