//! Real traffic of many patterns: the journeys balance with the counters of the sockets.

use crate::common::{self, waits};

use common::account::Books;
use common::connection::{Connection, listen, read};
use common::counters::counter;
use common::tcp_info::TcpInfo;
use common::{CLIENT, Net, SERVER, SERVER6, address, can_capture, finish, undisturbed};
use magscope_core::journey::{Journey, Verdict};
use magscope_core::{Event, Hop};
use magscope_probe::plan::full_hops;
use rustix::net::sockopt;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Reproducible pseudo-random sizes: `count` of them in `1..=most`.
fn sizes(count: usize, most: u32, mut seed: u32) -> Vec<usize> {
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        1 + ((seed >> 8) % most) as usize
    };
    (0..count).map(|_| next()).collect()
}

/// Captures a connection with `traffic`, which returns the bytes up and down, and checks both directions.
fn account(to: &str, port: u16, traffic: impl FnOnce(&Connection) -> (u64, u64)) -> (Vec<Journey>, TcpInfo) {
    let net = Net::new();
    let recording = net.capture(full_hops());
    let connection = Connection::open(&net, to, port);
    let (up, down) = traffic(&connection);
    let (client, server) = connection.settled();
    let recording = finish(recording).0;
    let books = Books::open(&recording);
    let (from, to) = (connection.from(), connection.to());
    let up_direction = books.one_direction(&net, from, to, true);
    up_direction.balances(up, &client, &server);
    books.one_direction(&net, from, to, false).balances(down, &server, &client);
    // the client's SYN takes one sequence number and is acknowledged too
    assert_eq!((client.bytes_acked, server.bytes_acked), (up + 1, down));
    assert_eq!(counter(&net.client, "Tcp", "RetransSegs"), u64::from(client.total_retrans));
    assert_eq!(books.resent_bytes(), client.bytes_retrans + server.bytes_retrans);
    assert_eq!(books.correlator.counters().resets, 0);
    (up_direction.journeys, client)
}

#[test]
fn bulk_v4() {
    if can_capture() {
        undisturbed(|| {
            account(SERVER, 5201, |c| (c.upload([262_144; 32], 100_000), 0));
        });
    }
}

#[test]
fn bulk_v6() {
    if can_capture() {
        undisturbed(|| {
            account(SERVER6, 5202, |c| (c.upload([300_000; 20], 65_536), 0));
        });
    }
}

#[test]
fn requests_and_responses() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (journeys, _) = account(SERVER, 5203, |c| {
            c.client.set_nodelay(true).expect("TCP_NODELAY");
            c.server.set_nodelay(true).expect("TCP_NODELAY");
            let (requests, responses) = (sizes(300, 700, 1), sizes(300, 9_000, 2));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for (request, response) in requests.iter().zip(&responses) {
                        read(&c.server, *request, 4096);
                        (&c.server).write_all(&vec![2; *response]).expect("write");
                    }
                });
                for (request, response) in requests.iter().zip(&responses) {
                    (&c.client).write_all(&vec![1; *request]).expect("write");
                    read(&c.client, *response, 4096);
                }
            });
            (requests.iter().sum::<usize>() as u64, responses.iter().sum::<usize>() as u64)
        });
        // one request at a time, each below a segment and below the read buffer: a request is a journey
        let sizes_seen: Vec<usize> = journeys.iter().map(|j| j.bytes() as usize).collect();
        assert_eq!(sizes_seen, sizes(300, 700, 1));
    });
}

/// Checks that every write ends with the end of a journey: two writes never share one.
fn are_cut_at(journeys: &[Journey], writes: &[usize]) {
    let first = journeys.first().expect("journeys").range.start;
    let ends: BTreeSet<u64> = journeys.iter().map(|j| j.range.end - first).collect();
    let mut at = 0;
    for write in writes {
        at += *write as u64;
        assert!(ends.contains(&at), "a journey over the end of a write, at {at}");
    }
}

#[test]
fn many_small_writes_at_once() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let writes = sizes(2_000, 90, 3);
        // How many of them share a segment depends on when the reader runs.
        let (journeys, _) = account(SERVER, 5204, |c| {
            c.client.set_nodelay(true).expect("TCP_NODELAY");
            (c.upload(writes.clone(), 1_000), 0)
        });
        are_cut_at(&journeys, &writes);
    });
}

#[test]
fn small_writes_that_nagle_gathers() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let writes = sizes(2_000, 90, 4);
        let (journeys, counted) = account(SERVER6, 5205, |c| (c.upload(writes.clone(), 1_000), 0));
        are_cut_at(&journeys, &writes);
        assert!(counted.data_segs_out < 2_000, "{} segments", counted.data_segs_out);
    });
}

#[test]
fn writes_behind_a_cork_leave_together() {
    undisturbed(|| {
        const MORE: usize = 10;
        if !can_capture() {
            return;
        }
        let writes = [50; 200];
        let (journeys, counted) = account(SERVER, 5206, |c| {
            for round in writes.chunks(MORE * 2) {
                let (corked, more) = round.split_at(MORE);
                sockopt::set_tcp_cork(&c.client, true).expect("TCP_CORK");
                for size in corked {
                    (&c.client).write_all(&vec![1; *size]).expect("write");
                }
                sockopt::set_tcp_cork(&c.client, false).expect("TCP_CORK");
                for (i, size) in more.iter().enumerate() {
                    let flag = if i + 1 < more.len() {
                        rustix::net::SendFlags::MORE
                    } else {
                        rustix::net::SendFlags::empty()
                    };
                    assert_eq!(rustix::net::send(&c.client, &vec![1; *size], flag), Ok(*size));
                }
                read(&c.server, round.iter().sum(), 1_000_000);
            }
            (writes.iter().sum::<usize>() as u64, 0)
        });
        are_cut_at(&journeys, &writes);
        assert_eq!(counted.data_segs_out, 20, "one segment a cork and one a run of MSG_MORE");
        assert_eq!(journeys.len(), 200);
        // all bytes of a segment are sent at once, whenever they were written
        let leaving: BTreeSet<u64> = journeys.iter().filter_map(|j| j.rungs.time_ns(Hop::IpOut)).collect();
        assert_eq!(leaving.len(), 20);
    });
}

#[test]
fn a_window_that_closes_and_opens() {
    undisturbed(|| {
        const ROUNDS: usize = 12;
        if !can_capture() {
            return;
        }
        let net = Net::new();
        let recording = net.capture(full_hops());
        let listener = listen(&net.server, SERVER, 5207);
        sockopt::set_socket_recv_buffer_size(&listener, 8_000).expect("SO_RCVBUF");
        let connection = Connection::accept(&net, &listener);
        sockopt::set_socket_send_buffer_size(&connection.client, 30_000).expect("SO_SNDBUF");
        // the writer fills the window and its own buffer before the reader starts
        connection.client.set_nonblocking(true).expect("non-blocking");
        let (mut sent, mut got) = (0, 0);
        let payload = [1; 5_000];
        for _ in 0..ROUNDS {
            loop {
                match (&connection.client).write(&payload) {
                    Ok(n) => sent += n,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
            let stopped = TcpInfo::of(&connection.client);
            assert!(stopped.notsent_bytes > 0, "the window was meant to close: {stopped:?}");
            let there = TcpInfo::of(&connection.server).bytes_received as usize - got;
            read(&connection.server, there, 3_000);
            got += there;
        }
        read(&connection.server, sent - got, 3_000);
        let (client, server) = connection.settled();
        let recording = finish(recording).0;
        let books = Books::open(&recording);
        let direction = books.one_direction(&net, connection.from(), connection.to(), true);
        direction.balances(sent as u64, &client, &server);
    });
}

#[test]
fn a_slow_reader() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let (journeys, _) = account(SERVER, 5208, |c| {
            let total = 400_000;
            std::thread::scope(|scope| {
                scope.spawn(|| (&c.client).write_all(&vec![1; total]).expect("write"));
                for _ in 0..total / 4_000 {
                    std::thread::sleep(Duration::from_millis(1));
                    read(&c.server, 4_000, 4_000);
                }
            });
            (total as u64, 0)
        });
        assert!(journeys.len() >= 100, "a hundred reads cut it: {}", journeys.len());
    });
}

#[test]
fn both_directions_at_once() {
    if can_capture() {
        undisturbed(|| {
            account(SERVER, 5209, |c| {
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        for size in sizes(150, 30_000, 5) {
                            (&c.server).write_all(&vec![2; size]).expect("write");
                        }
                    });
                    scope.spawn(|| read(&c.client, sizes(150, 30_000, 5).iter().sum(), 10_000));
                    c.upload(sizes(200, 20_000, 6), 7_000);
                });
                (
                    sizes(200, 20_000, 6).iter().sum::<usize>() as u64,
                    sizes(150, 30_000, 5).iter().sum::<usize>() as u64,
                )
            });
        });
    }
}

#[test]
fn two_hundred_flows_at_once() {
    undisturbed(|| {
        const FLOWS: usize = 200;
        if !can_capture() {
            return;
        }
        let net = Net::new();
        let recording = net.capture(full_hops());
        let listener = listen(&net.server, SERVER, 5210);
        let connections: Vec<Connection> = (0..FLOWS).map(|_| Connection::accept(&net, &listener)).collect();
        let plan = |i: usize| sizes(12, 4_000, i as u32);
        std::thread::scope(|scope| {
            for (i, connection) in connections.iter().enumerate() {
                scope.spawn(move || read(&connection.server, plan(i).iter().sum(), 500 + 20 * i));
            }
            // four writers, each with its own fifty connections
            for quarter in 0..4 {
                let connections = &connections;
                scope.spawn(move || {
                    for round in 0..12 {
                        for i in (quarter..FLOWS).step_by(4) {
                            (&connections[i].client).write_all(&vec![1; plan(i)[round]]).expect("write");
                        }
                    }
                });
            }
        });
        let counted: Vec<_> = connections.iter().map(Connection::settled).collect();
        let recording = finish(recording).0;
        let books = Books::open(&recording);
        for (i, (connection, (client, server))) in connections.iter().zip(&counted).enumerate() {
            let direction = books.one_direction(&net, connection.from(), connection.to(), true);
            direction.balances(plan(i).iter().sum::<usize>() as u64, client, server);
            are_cut_at(&direction.journeys, &plan(i));
        }
        assert_eq!(books.resent_bytes(), counted.iter().map(|(client, _)| client.bytes_retrans).sum::<u64>());
        let segments: u64 = counted.iter().map(|(client, _)| u64::from(client.total_retrans)).sum();
        assert_eq!(counter(&net.client, "Tcp", "RetransSegs"), segments);
    });
}

/// The socket's own drop counter: the last column of `/proc/net/udp`.
fn drops_of(net: &Net, port: u16) -> usize {
    let text =
        net.server.run(|| std::fs::read_to_string("/proc/thread-self/net/udp")).expect("/proc is mounted");
    let local = format!(":{port:04X} ");
    let line = text.lines().find(|line| line.contains(&local)).expect("the socket");
    line.split_whitespace().last().and_then(|drops| drops.parse().ok()).expect("a number")
}

#[test]
fn bursts_into_a_small_udp_buffer() {
    undisturbed(|| {
        const PORT: u16 = 5211;
        if !can_capture() {
            return;
        }
        let net = Net::new();
        let recording = net.capture(full_hops());
        let server = net.server.run(|| UdpSocket::bind(address(SERVER, PORT)).expect("bind"));
        sockopt::set_socket_recv_buffer_size(&server, 20_000).expect("SO_RCVBUF");
        server.set_nonblocking(true).expect("non-blocking");
        let client = net.client.run(|| UdpSocket::bind(address(CLIENT, 0)).expect("bind"));
        let (mut sent, mut read, mut number) = (0, Vec::new(), 0);
        let mut buffer = [0; 2_000];
        for burst in 5..45 {
            for _ in 0..burst {
                // the length is the number, so that each read identifies its datagram
                number = number % 1_300 + 1;
                client.send_to(&[0; 1_300][..number], address(SERVER, PORT)).expect("send");
                sent += 1;
            }
            // the loop's end reads the last burst; the reader leaves some datagrams behind now and then
            for _ in 0..burst / 2 + 8 {
                match common::receive(&server, &mut buffer) {
                    Ok(len) => read.push(len),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        let mut dropped = 0;
        waits::until("each datagram is read or dropped", || {
            while let Ok(len) = common::receive(&server, &mut buffer) {
                read.push(len);
            }
            dropped = drops_of(&net, PORT);
            dropped + read.len() == sent
        });
        assert_eq!(counter(&net.server, "Udp", "InDatagrams"), read.len() as u64);
        assert_eq!(counter(&net.server, "Udp", "RcvbufErrors"), dropped as u64);
        assert!(dropped > 20, "{sent} sent, {} read, {dropped} dropped", read.len());

        let recording = finish(recording).0;
        let (journeys, correlator) = recording.journeys();
        let mine = |j: &&Journey| correlator.flow(j.tx_flow).is_some_and(|f| f.remote.port() == PORT);
        let mine: Vec<&Journey> = journeys.iter().filter(mine).collect();
        assert_eq!(mine.len(), sent, "a datagram is a journey");
        assert!(mine.iter().all(|j| j.disordered() == 0 && !j.ambiguous));
        let mut complete: Vec<&&Journey> = mine.iter().filter(|j| j.verdict == Verdict::Complete).collect();
        complete.sort_by_key(|j| j.rungs.time_ns(Hop::AppRecv));
        let lengths: Vec<usize> = complete.iter().map(|j| j.bytes() as usize).collect();
        assert_eq!(lengths, read, "what was read, in the order it was read");
        let gone =
            mine.iter().filter(|j| matches!(j.verdict, Verdict::Dropped { hop: Hop::UdpRecv, .. })).count();
        assert_eq!(gone, dropped, "the socket's own count");
        let full = recording.events.iter().filter(|e: &&Event| e.hop == Hop::SockFull).count();
        assert_eq!(full, dropped, "sock.full");
    });
}

/// A send buffer that is full ends a call early. The next call with the rest of the data is a call of its own.
#[test]
fn each_call_after_a_short_write_is_seen() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = Net::new();
        let recording = net.capture([Hop::TcpSend].into_iter().collect());
        let connection = Connection::open(&net, SERVER, 5213);
        connection.client.set_nonblocking(true).expect("a socket");
        let payload = vec![1; 4_000_000];
        let mut begins = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| read(&connection.server, payload.len(), 100_000));
            let mut sent = 0;
            while sent < payload.len() {
                match (&connection.client).write(&payload[sent..]) {
                    Ok(n) => {
                        begins.push(sent as u32);
                        sent += n;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                        std::thread::yield_now();
                    }
                }
            }
        });
        assert!(begins.len() > 1, "the buffer has room for everything");
        let events = finish(recording).0.events;
        let first = events.first().expect("a call").seq();
        // A call that finds no room at all is seen too, at the same byte.
        let mut seen: Vec<u32> = events.iter().map(|event| event.seq().wrapping_sub(first)).collect();
        seen.dedup();
        assert_eq!(seen, begins);
    });
}

/// During the copy of a call, its thread migrates to another processor and back.
#[test]
fn a_call_that_moves_to_another_processor_is_told_once() {
    if !can_capture() {
        return;
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        println!("skipped, because there is one processor");
        return;
    }
    undisturbed(|| {
        const CALLS: usize = 40;
        let net = Net::new();
        let recording = net.capture([Hop::TcpSend].into_iter().collect());
        let connection = Connection::open(&net, SERVER, 5212);
        let (tid, done) = (rustix::thread::gettid(), AtomicBool::new(false));
        let only = |cpus: &[usize]| {
            let mut set = rustix::thread::CpuSet::new();
            for cpu in cpus {
                set.set(*cpu);
            }
            rustix::thread::sched_setaffinity(Some(tid), &set).expect("a thread of this process");
        };
        let (mut asked, payload) = (Vec::new(), vec![1; 2_000_000]);
        std::thread::scope(|scope| {
            scope.spawn(|| read(&connection.server, CALLS * payload.len(), 100_000));
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for cpu in [0, 1] {
                        only(&[cpu]);
                        std::thread::sleep(Duration::from_micros(100));
                    }
                }
            });
            for _ in 0..CALLS {
                let mut left = &payload[..];
                while !left.is_empty() {
                    asked.push(left.len() as u32);
                    left = &left[(&connection.client).write(left).expect("write")..];
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        only(&(0..cpus).collect::<Vec<_>>());
        let reported: Vec<u32> = finish(recording).0.events.iter().map(|event| event.len).collect();
        assert_eq!(reported, asked);
    });
}
