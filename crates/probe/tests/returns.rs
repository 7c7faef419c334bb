//! Breakpoints at returns: of a call that the kernel did not follow to its end, a loss remains.

use crate::common::{self, sockets};

use common::waits::{until, until_arrived, until_asleep};
use common::{CLIENT, Pair, SERVER, can_capture, hops, quiet, receive};
use magscope_core::node::Backend;
use magscope_core::{Hop, LossCause};
use magscope_probe::{CaptureOptions, HostFacts, plan_by};
use sockets::tid;
use std::sync::Mutex;
use std::time::Duration;

/// The kernel reports the returns of so many calls at once as it has prepared for, and no others. While many threads
/// wait in a read, those of other threads are not reported: each is an event or a loss.
#[test]
fn reads_whose_return_is_not_reported_are_losses() {
    const SLEEPERS: u16 = 96;
    const READS: usize = 300;
    if !can_capture() {
        return;
    }
    let net = quiet();
    let options = CaptureOptions {
        hops: hops(&[Hop::AppRecv]),
        backend: Some(Backend::Kprobe),
        ..CaptureOptions::default()
    };
    let facts = HostFacts::read().expect("facts");
    let plan = plan_by(&facts, options.hops, options.backend);
    if !plan.coverage.served().contains(Hop::AppRecv) {
        println!("unreported returns: skipped, because this kernel has no breakpoints for app.recv");
        return;
    }
    let sleepers: Vec<Pair> = (0..SLEEPERS).map(|n| Pair::new(&net, CLIENT, SERVER, 6_000 + 2 * n)).collect();
    for sleeper in &sleepers {
        sleeper.server.set_read_timeout(Some(Duration::from_mins(5))).expect("a time-out");
    }
    let pair = Pair::new(&net, CLIENT, SERVER, 5_300);
    let mut recording = net.capture_with(options);
    let asleep = Mutex::new(Vec::new());
    let reads_so_far = std::thread::scope(|scope| {
        for sleeper in &sleepers {
            let asleep = &asleep;
            scope.spawn(move || {
                asleep.lock().expect("no thread fails").push(tid());
                receive(&sleeper.server, &mut [0; 64]).expect("a datagram");
            });
        }
        until("all have begun", || asleep.lock().expect("no thread fails").len() == sleepers.len());
        asleep.lock().expect("no thread fails").iter().for_each(|tid| until_asleep(*tid));
        for _ in 0..READS {
            pair.client.send(&[7; 100]).expect("send");
            until_arrived(&pair.server);
            assert_eq!(receive(&pair.server, &mut [0; 200]).expect("recv"), 100);
        }
        // The next call of the thread reports what its last one missed.
        pair.server.set_nonblocking(true).expect("a socket");
        assert!(pair.server.recv(&mut [0; 200]).is_err());
        recording.drain_all();
        let own = recording.events.iter().filter(|event| event.tid == tid() && event.len == 100).count();
        for sleeper in &sleepers {
            sleeper.client.send(&[7; 10]).expect("send");
        }
        own
    });
    recording.stop();
    let losses = recording.batches.iter().flat_map(|batch| &batch.losses);
    let refused: u64 = losses.filter(|loss| loss.cause == LossCause::Refused).map(|loss| loss.count).sum();
    println!(
        "of {READS} reads beside {SLEEPERS} waiting threads {reads_so_far} were reported, {refused} losses"
    );
    assert!(reads_so_far as u64 + refused >= READS as u64);
}
