//! Programs that query an agent about their own traffic: the answers equal their own counts, and no program
//! sees another's data.

use crate::common;
mod languages;
mod scene;
mod strangers;

use common::eventually;
use magscope_client::wire::{FourTuple, Transport};
use magscope_client::{Averages, Error, FigureOrReason, Rate, Watch, Window};
use scene::{Scene, pair};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

fn received(reported: &Averages) -> Option<Rate> {
    reported.received.get().copied()
}

#[test]
fn what_is_told_of_a_socket_is_what_its_program_counted() {
    let Some(scene) = Scene::new("counted", &[]) else { return };
    let mode = std::fs::metadata(scene.socket()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    let (mut near, mut far) = pair(scene.namespace());
    // Earlier data is not counted.
    near.write_all(&[1; 500]).expect("sent");
    far.read_exact(&mut [0; 500]).expect("read");
    let watch =
        |socket, window| Watch::socket(socket).window(window).at(scene.socket()).open().expect("it watches");
    let mut reads = watch(&far, Window::Receives(100));
    let mut sends = watch(&near, Window::Seconds(600.0));
    let nothing = reads.ask().expect("an answer");
    assert!(
        matches!(&nothing.received, FigureOrReason::Unknown { unknown } if unknown.contains("nothing of it")),
        "{nothing:?}"
    );
    let (mut bytes, mut calls, mut last) = (0, 0, Vec::new());
    for n in 1..=300_u64 {
        near.write_all(&vec![2; n as usize]).expect("sent");
        far.read_exact(&mut vec![0; n as usize]).expect("read in one call: it waits until it is there");
        (bytes, calls) = (bytes + n, calls + 1);
        last.push(n);
    }
    let mut reported = None;
    let all = eventually(|| {
        let now = reads.ask().expect("an answer");
        // Journeys are complete a little later than their reads.
        let there =
            received(&now).is_some_and(|rate| rate.overall.bytes >= bytes) && now.latency.get().is_some();
        reported = Some(now);
        there
    });
    let reported = reported.expect("it was asked");
    assert!(all, "{reported:?}");
    let rate = received(&reported).expect("known");
    // A message may be read in parts; the number of bytes is exact.
    assert_eq!(rate.overall.bytes, bytes, "{reported:?}");
    assert!(rate.overall.calls >= calls && rate.window.calls == 100, "{reported:?}");
    if rate.overall.calls == calls {
        assert_eq!(rate.window.bytes, last.iter().rev().take(100).sum::<u64>(), "{reported:?}");
    }
    for span in [rate.window, rate.overall] {
        let is = span.bytes as f64 * 1e9 / (span.to_ns - span.from_ns) as f64;
        // The last digits depend on the formatting.
        let same = span.bytes_per_s.is_some_and(|reported| (reported - is).abs() <= is * 1e-12);
        assert!(same, "{:?} is not {is}", span.bytes_per_s);
    }
    assert_eq!(rate.overall.from_ns, reads.since_ns());
    assert_eq!((reported.lost_overall, reported.leaves_out.len(), rate.weight), (0, 0, 1.0));
    let latency = reported.latency.get().unwrap_or_else(|| panic!("both ends are here: {reported:?}"));
    assert!(latency.journeys > 0 && latency.mean_ns > 0.0 && latency.p50_ns <= latency.p99_ns, "{latency:?}");
    let sent = sends.ask().expect("an answer");
    let rate = *sent.sent.get().expect("known");
    assert_eq!((rate.overall.bytes, rate.overall.calls), (bytes, calls), "{sent:?}");
    assert_eq!(
        (rate.window.bytes, rate.window.calls),
        (bytes, calls),
        "a window of ten minutes has all of it: {sent:?}"
    );
}

#[test]
fn datagrams_a_process_and_what_only_root_may_ask() {
    let Some(scene) = Scene::new("root", &["--hops", "+udp.recv,app.copy"]) else { return };
    let (own, peer) = scene.inside(|| {
        let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        (bind(), bind())
    });
    let (from, to) = (own.local_addr().expect("bound"), peer.local_addr().expect("bound"));
    own.connect(to).expect("a peer");
    peer.connect(from).expect("a peer");
    let window = Window::Receives(50);
    let mut all = vec![
        Watch::socket(&peer),
        Watch::process(),
        Watch::container(),
        Watch::flow(FourTuple { proto: Transport::Udp, local: to, remote: from, netns: None }),
    ]
    .into_iter()
    .map(|watch| watch.window(window).at(scene.socket()).open().expect("root may"))
    .collect::<Vec<_>>();
    for _ in 0..100 {
        own.send(&[7; 311]).expect("sent");
        assert_eq!(peer.recv(&mut [0; 400]).expect("read"), 311);
    }
    for watched in &mut all {
        let mut reported = None;
        let there = eventually(|| {
            let now = watched.ask().expect("an answer");
            // Journeys are complete a little later than their reads.
            let there =
                received(&now).is_some_and(|rate| rate.overall.calls >= 100) && now.latency.get().is_some();
            reported = Some(now);
            there
        });
        assert!(there, "{reported:?}");
        let reported = reported.expect("asked");
        let rate = received(&reported).expect("known");
        assert_eq!(
            (rate.overall.bytes, rate.window.calls, rate.window.bytes),
            (31_100, 50, 15_550),
            "{reported:?}"
        );
        let Some(latency) = reported.latency.get() else { panic!("{reported:?}") };
        assert!(latency.journeys > 0, "{latency:?}");
    }
}

#[test]
fn a_change_is_told_without_asking() {
    let Some(scene) = Scene::new("change", &[]) else { return };
    let (mut near, mut far) = pair(scene.namespace());
    let watch = Watch::socket(&far).window(Window::Seconds(0.5)).on_change(0.2).at(scene.socket());
    let mut watched = watch.open().expect("it watches");
    let mut exchange = || {
        near.write_all(&[1; 1000]).expect("sent");
        far.read_exact(&mut [0; 1000]).expect("read");
    };
    let mut reported = Vec::new();
    // A notification arrives by poll, and another when traffic stops: the rate is zero.
    assert!(eventually(|| {
        exchange();
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(watched.as_fd(), rustix::event::PollFlags::IN)];
        let none = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        let readable = rustix::event::poll(&mut fds, Some(&none)).expect("polled") > 0;
        let came = watched.next_within(Duration::ZERO).expect("it goes on");
        assert!(!readable || came.is_some());
        reported.extend(came);
        reported.iter().filter_map(received).any(|rate| rate.window.bytes_per_s.is_some_and(|rate| rate > 0.0))
    }));
    loop {
        let now = received(&watched.next().expect("it falls")).expect("known");
        if now.window.bytes_per_s == Some(0.0) {
            break;
        }
    }
    // Queries work in parallel.
    assert!(watched.ask().is_ok());
}

#[test]
fn a_hop_that_is_not_served_is_unknown_and_why() {
    let Some(scene) = Scene::new("unserved", &["--hops", "app.send,dev.xmit"]) else { return };
    let (mut near, far) = pair(scene.namespace());
    let mut watched = Watch::socket(&near).at(scene.socket()).open().expect("it watches");
    near.write_all(&[1; 1000]).expect("sent");
    assert!(eventually(|| watched
        .ask()
        .expect("an answer")
        .sent
        .get()
        .is_some_and(|rate| rate.overall.bytes == 1000)));
    let reported = watched.ask().expect("an answer");
    let FigureOrReason::Unknown { unknown } = &reported.received else { panic!("{reported:?}") };
    assert!(unknown.contains("app.recv is not captured"), "{unknown}");
    assert!(reported.latency.get().is_none());
    drop(far);
}

#[test]
fn where_the_kernel_only_adds_up_there_is_nothing_to_tell() {
    let Some(scene) = Scene::new("summed", &["--detail", "histograms"]) else { return };
    let (mut near, mut far) = pair(scene.namespace());
    let mut watched = Watch::socket(&far).at(scene.socket()).open().expect("it watches");
    near.write_all(&[1; 1000]).expect("sent");
    far.read_exact(&mut [0; 1000]).expect("read");
    let reported = watched.ask().expect("an answer");
    for figure in [&reported.received, &reported.sent] {
        assert!(
            matches!(figure, FigureOrReason::Unknown { unknown } if unknown.contains("no records")),
            "{reported:?}"
        );
    }
    assert!(
        matches!(&reported.latency, FigureOrReason::Unknown { unknown } if unknown.contains("no records")),
        "{reported:?}"
    );
}

#[test]
fn an_agent_that_is_killed_leaves_nobody_waiting() {
    let Some(mut scene) = Scene::new("killed", &[]) else { return };
    let (_near, far) = pair(scene.namespace());
    let watch = Watch::socket(&far).on_change(0.1).at(scene.socket());
    let mut watched = watch.open().expect("it watches");
    let waits = std::thread::spawn(move || watched.next());
    scene.kill();
    assert!(matches!(waits.join().expect("it returns"), Err(Error::Ended)));
    // A program that the agent is starting holds the agent's sockets until `exec`.
    assert!(eventually(|| matches!(watch.open(), Err(Error::Connect { .. }))));
    let Err(error) = watch.open() else { panic!("nobody is there") };
    assert!(error.to_string().contains("magnet-scope agent"), "{error}");
}

#[test]
fn an_agent_serves_programs_only_where_it_is_to() {
    let Some(scene) = Scene::new("off", &[]) else { return };
    let second = scene.second(&["--watch-socket", "off", "--duration", "1s"]);
    assert!(second.status.success() && !common::stderr(&second).contains("serving programs"), "{second:?}");
    let taken = scene.second(&["--watch-socket", &scene.socket().display().to_string(), "--duration", "1s"]);
    assert!(!taken.status.success() && common::stderr(&taken).contains("--watch-socket PATH"), "{taken:?}");
}
