//! The last leg on real sockets: the reader, its waker, and the blame. Order and names only, no durations.

use crate::common::{self, sockets};

use common::counters::counter;
use common::waits::{until_arrived, until_asleep, until_delivered};
use common::{CLIENT, Net, Recording, SERVER, can_capture, undisturbed};
use magscope_core::blame::{Blame, Part};
use magscope_core::journey::{Journey, Verdict};
use magscope_core::{FlowId, Hop};
use magscope_probe::clock::monotonic_ns;
use magscope_probe::plan::full_hops;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sockets::{Epoll, tid};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

fn address(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

fn server(net: &Net, port: u16) -> UdpSocket {
    let socket = net.server.run(|| UdpSocket::bind(address(SERVER, port)).expect("bind"));
    socket.set_read_timeout(Some(WAIT)).expect("a time-out");
    socket
}

fn client(net: &Net, port: u16) -> UdpSocket {
    let socket = net.client.run(|| UdpSocket::bind(address(CLIENT, 0)).expect("bind"));
    socket.connect(address(SERVER, port)).expect("connect");
    socket
}

fn finish(recording: Recording, port: u16) -> Vec<Journey> {
    let mine = complete(recording, port);
    assert!(mine.iter().all(|j| j.disordered() == 0), "{mine:#?}");
    mine
}

/// The journeys to a port, all of them complete.
fn complete(recording: Recording, port: u16) -> Vec<Journey> {
    let (recording, _) = common::finish(recording);
    let (journeys, correlator) = recording.journeys();
    let is_mine = |id: FlowId| correlator.flow(id).is_some_and(|f| f.local.port() == port);
    let mine: Vec<_> = journeys.into_iter().filter(|j| is_mine(j.rx_flow) && j.bytes() > 0).collect();
    assert!(mine.iter().all(|j| j.verdict == Verdict::Complete), "{mine:#?}");
    mine
}

fn blame(journey: &Journey, part: Part) -> u64 {
    Blame::of(journey, full_hops()).and_then(|b| b.ns(part)).unwrap_or(0)
}

fn reader(journey: &Journey) -> u32 {
    journey.reader.map_or(0, |who| who.tid)
}

/// The reader was woken for this datagram, ran, then read: the scheduler's time is present and the reader was
/// never away. False if the wake-up or the run is missing: some kernels trace no switch away from their first
/// process.
fn was_woken(journey: &Journey, by: u32) -> bool {
    let times =
        [Hop::SockReady, Hop::TaskWake, Hop::TaskRun, Hop::AppRecv].map(|hop| journey.rungs.time_ns(hop));
    assert!(times.iter().flatten().is_sorted(), "{journey:?}");
    assert_eq!(reader(journey), by, "{journey:?}");
    let is_whole = times.iter().all(Option::is_some);
    if is_whole {
        assert_eq!(blame(journey, Part::ReaderAway), 0, "{journey:?}");
        assert!(blame(journey, Part::Scheduler) > 0 && blame(journey, Part::Reading) > 0, "{journey:?}");
    }
    is_whole
}

/// Sends one datagram at a time to a reader that `waits` and then reads without blocking.
fn one_waiting(port: u16, waits: impl Fn(&UdpSocket) + Sync) {
    const COUNT: usize = 10;
    let net = Net::new();
    let recording = net.capture(full_hops());
    let (server, client) = (server(&net, port), client(&net, port));
    let (got, (named, name)) = (AtomicUsize::new(0), mpsc::channel());
    let by = std::thread::scope(|scope| {
        scope.spawn(|| {
            named.send(tid()).expect("the sender waits");
            for n in 0..COUNT {
                waits(&server);
                assert_eq!(common::receive(&server, &mut [0; 2000]).expect("recv"), 100 + n);
                got.fetch_add(1, SeqCst);
            }
        });
        let by = name.recv().expect("its number");
        for n in 0..COUNT {
            // then the reader waits for this datagram, and nothing else wakes it
            common::waits::until("the reader has read all", || got.load(SeqCst) == n);
            until_asleep(by);
            client.send(&vec![1; 100 + n]).expect("send");
        }
        by
    });
    let mine = finish(recording, port);
    assert_eq!(mine.len(), COUNT);
    let woken = mine.iter().filter(|journey| was_woken(journey, by)).count();
    assert!(woken > COUNT / 2, "{woken} of {COUNT} have a wake-up and a run: {mine:#?}");
}

#[test]
fn a_reader_in_recv_is_woken_for_its_datagram() {
    if can_capture() {
        undisturbed(|| one_waiting(5301, |_| {}));
    }
}

#[test]
fn a_reader_in_poll_is_woken_for_its_datagram() {
    if can_capture() {
        undisturbed(|| one_waiting(5302, |socket| assert!(sockets::poll(socket, WAIT))));
    }
}

#[test]
fn a_reader_in_select_is_woken_for_its_datagram() {
    if can_capture() {
        undisturbed(|| one_waiting(5303, |socket| assert!(sockets::select(socket, WAIT))));
    }
}

#[test]
fn a_reader_in_epoll_is_woken_for_its_datagram_by_level_and_by_edge() {
    if !can_capture() {
        return;
    }
    for (port, events) in [(5304, libc::EPOLLIN), (5305, libc::EPOLLIN | libc::EPOLLET)] {
        undisturbed(|| {
            let epoll = Mutex::new(None);
            one_waiting(port, |socket| {
                let mut epoll = epoll.lock().expect("no panic");
                let epoll = epoll.get_or_insert_with(|| Epoll::new(&[(socket as &dyn AsRawFd, events as u32)]));
                assert_eq!(epoll.wait(WAIT), [socket.as_raw_fd()]);
            });
        });
    }
}

/// Keeps this thread on one CPU.
fn stay_on(cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).expect("one of its CPUs");
}

/// Longest pause between two reads of a reader that counts as present, nanoseconds.
const SPIN_NS: u64 = 50_000;

/// Reads in a loop, without blocking, until `ended`. Adds, for each datagram, the instant at which the last read without
/// one began.
fn spin(socket: &UdpSocket, empty_ns: &Mutex<Vec<u64>>, reads: &AtomicU64, ended: &AtomicBool) {
    let mut last_empty_ns = 0;
    while !ended.load(SeqCst) {
        let begin_ns = monotonic_ns();
        if common::receive(socket, &mut [0; 2000]).is_ok() {
            empty_ns.lock().expect("no panic").push(last_empty_ns);
        } else {
            last_empty_ns = begin_ns;
        }
        reads.fetch_add(1, SeqCst);
    }
}

/// Other load may take the reader's CPU, or the sender's. So datagrams are sent until the reader's own notes show
/// often enough that it was there.
#[test]
fn a_reader_that_spins_was_there() {
    const COUNT: usize = 20;
    if !can_capture() {
        return;
    }
    // On one CPU the sender takes it from the reader.
    let mine = sched_getaffinity(None).expect("own CPUs");
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| mine.is_set(*cpu));
    let (Some(near), Some(far)) = (cpus.next(), cpus.next()) else {
        println!("skipped, because reader and sender need a CPU each");
        return;
    };
    undisturbed(|| {
        let (net, port) = (Net::new(), 5306);
        let recording = net.capture(full_hops());
        let (server, client) = (server(&net, port), client(&net, port));
        server.set_nonblocking(true).expect("non-blocking");
        let (reads, ended) = (AtomicU64::new(0), AtomicBool::new(false));
        let empty_ns = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                stay_on(far);
                spin(&server, &empty_ns, &reads, &ended);
            });
            stay_on(near);
            let (mut sent, mut proofs) = (0, 0);
            while sent < COUNT || proofs < COUNT / 5 {
                let before = reads.load(SeqCst);
                while reads.load(SeqCst) < before + 2 {}
                client.send(&[1; 100]).expect("send");
                let sent_ns = monotonic_ns();
                sent += 1;
                let noted = || empty_ns.lock().expect("no panic").get(sent - 1).copied();
                while noted().is_none() {}
                proofs += usize::from(noted().is_some_and(|empty| empty + SPIN_NS >= sent_ns));
            }
            ended.store(true, SeqCst);
        });
        let mut mine = complete(recording, port);
        mine.sort_by_key(|journey| journey.rungs.time_ns(Hop::AppRecv));
        // The datagram is in the queue before its socket calls for a reader: one that spins may have read it by then.
        let is_early = |j: &Journey| j.rungs.time_ns(Hop::AppRecv) < j.rungs.time_ns(Hop::SockReady);
        assert!(mine.iter().all(|j| j.disordered() == 0 || is_early(j)), "{mine:#?}");
        let empty_ns = empty_ns.into_inner().expect("no panic");
        assert_eq!(mine.len(), empty_ns.len());
        assert!(mine.iter().all(|j| !j.rungs.has(Hop::TaskWake)), "nobody slept");
        let mut present = 0;
        for (journey, empty_ns) in mine.iter().zip(empty_ns) {
            let Some(ready_ns) = journey.rungs.time_ns(Hop::SockReady) else { continue };
            if empty_ns + SPIN_NS >= ready_ns && !is_early(journey) {
                present += 1;
                let is_reading = blame(journey, Part::Reading) > 0 && blame(journey, Part::ReaderAway) == 0;
                assert!(is_reading, "{journey:#?}");
            }
        }
        assert!(present > 0, "{mine:#?}");
    });
}

/// Sleeps twice as long as all since `begin` has taken, so that this is the largest part of a journey.
fn stay_away(begin: Instant) {
    std::thread::sleep(PAUSE.max(2 * begin.elapsed()));
}

#[test]
fn a_reader_that_comes_late_was_away() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5307);
        let recording = net.capture(full_hops());
        let (server, client) = (server(&net, port), client(&net, port));
        for _ in 0..5 {
            let begin = Instant::now();
            client.send(&[1; 100]).expect("send");
            until_arrived(&server);
            stay_away(begin);
            common::receive(&server, &mut [0; 2000]).expect("recv");
        }
        let mine = finish(recording, port);
        assert_eq!(mine.len(), 5);
        for journey in &mine {
            assert!(!journey.rungs.has(Hop::TaskWake), "{journey:?}");
            assert_eq!(Blame::of(journey, full_hops()).and_then(|b| b.largest()), Some(Part::ReaderAway));
        }
    });
}

#[test]
fn what_lies_behind_what_is_read_first_waits_for_the_reader() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5308);
        let recording = net.capture(full_hops());
        let (server, client) = (server(&net, port), client(&net, port));
        let (begin, before) = (Instant::now(), counter(&net.server, "Ip", "InDelivers"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                common::receive(&server, &mut [0; 2000]).expect("recv");
                // busy with the first datagram while the others arrive
                until_delivered(&net.server, before + 3);
                stay_away(begin);
                for _ in 1..3 {
                    common::receive(&server, &mut [0; 2000]).expect("recv");
                }
            });
            for n in 0..3 {
                client.send(&vec![1; 100 + n]).expect("send");
            }
        });
        let mine = finish(recording, port);
        assert_eq!(mine.len(), 3);
        for journey in &mine[1..] {
            assert_eq!(
                Blame::of(journey, full_hops()).and_then(|b| b.largest()),
                Some(Part::ReaderAway),
                "{journey:?}"
            );
        }
    });
}

#[test]
fn threads_that_share_a_socket_are_each_named_for_what_they_read() {
    const COUNT: usize = 40;
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5309);
        let recording = net.capture(full_hops());
        let (server, client) = (server(&net, port), client(&net, port));
        let read = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let n = common::receive(&server, &mut [0; 2000]).expect("recv");
                        if n == 1 {
                            return; // one for each reader, as end mark
                        }
                        read.lock().expect("no panic").push((n as u64, tid()));
                    }
                });
            }
            for n in 0..COUNT {
                if n % 2 == 0 {
                    std::thread::sleep(PAUSE);
                }
                client.send(&vec![1; 100 + n]).expect("send");
            }
            std::thread::sleep(PAUSE);
            client.send(&[0]).expect("send");
            client.send(&[0]).expect("send");
        });
        let mine = finish(recording, port);
        let mut read = read.into_inner().expect("no panic");
        read.sort_unstable();
        let mut reported: Vec<_> =
            mine.iter().filter(|j| j.bytes() > 1).map(|j| (j.bytes(), reader(j))).collect();
        reported.sort_unstable();
        assert_eq!(reported, read);
        for journey in mine.iter().filter(|j| j.rungs.has(Hop::TaskWake)) {
            let wake = journey.rungs.time_ns(Hop::TaskWake);
            assert!(wake >= journey.rungs.time_ns(Hop::SockReady), "{journey:?}");
        }
    });
}

#[test]
fn sockets_of_one_port_have_their_own_readers() {
    const COUNT: usize = 40;
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5310);
        let recording = net.capture(full_hops());
        let shared = || net.server.run(|| sockets::bind_shared(address(SERVER, port), &[libc::SO_REUSEPORT]));
        let servers = [shared(), shared()];
        let clients: Vec<_> = (0..8).map(|_| client(&net, port)).collect();
        let read = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for socket in &servers {
                socket.set_read_timeout(Some(PAUSE)).expect("a time-out");
                let read = &read;
                scope.spawn(move || {
                    while read.lock().expect("no panic").len() < COUNT {
                        if let Ok(n) = common::receive(socket, &mut [0; 2000]) {
                            read.lock().expect("no panic").push((n as u64, tid()));
                        }
                    }
                });
            }
            for n in 0..COUNT {
                std::thread::sleep(PAUSE / 5);
                clients[n % clients.len()].send(&vec![1; 100 + n]).expect("send");
            }
        });
        let mine = finish(recording, port);
        let mut read = read.into_inner().expect("no panic");
        read.sort_unstable();
        let mut reported: Vec<_> = mine.iter().map(|j| (j.bytes(), reader(j))).collect();
        reported.sort_unstable();
        assert_eq!(reported, read);
        assert!(mine.iter().all(|j| !j.ambiguous));
    });
}

#[test]
fn threads_that_read_one_connection_in_turn_are_each_named() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (net, port) = (Net::new(), 5311);
        let recording = net.capture(full_hops());
        let listener = net.server.run(|| TcpListener::bind(address(SERVER, port)).expect("bind"));
        let mut client = net.client.run(|| TcpStream::connect(address(SERVER, port)).expect("connect"));
        let (peer, _) = listener.accept().expect("accept");
        let mut read = Vec::new();
        for n in 0..10 {
            client.write_all(&vec![1; 100 + n]).expect("write");
            let mut peer = peer.try_clone().expect("a second descriptor");
            let thread = std::thread::spawn(move || (peer.read(&mut [0; 2000]).expect("read") as u64, tid()));
            read.push(thread.join().expect("the reader"));
        }
        let mine = finish(recording, port);
        let reported: Vec<_> = mine.iter().map(|j| (j.bytes(), reader(j))).collect();
        assert_eq!(reported, read);
    });
}
