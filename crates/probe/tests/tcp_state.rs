//! Samples of a connection's state, compared with `TCP_INFO` and with the connection's events.

use crate::common;

use common::tcp_info::TcpInfo;
use common::{Net, SERVER, SERVER6, address, can_capture, finish, undisturbed};
use magscope_core::{Event, Hop, TcpSample};
use magscope_probe::CaptureOptions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

const ROUNDS: usize = 12;
const BYTES: usize = 3_000;

/// Longer than the sample interval of a socket, and than a delayed acknowledgement.
fn settle() {
    std::thread::sleep(Duration::from_millis(100));
}

fn against_tcp_info(to: &str, port: u16) {
    let net = Net::new();
    let hops = [Hop::TcpState, Hop::TcpSend, Hop::TcpRecv, Hop::AppRecv, Hop::AppCopy];
    let recording =
        net.capture_with(CaptureOptions { hops: hops.into_iter().collect(), ..CaptureOptions::default() });
    let listener = net.server.run(|| TcpListener::bind(address(to, port)).expect("bind"));
    let mut client = net.client.run(|| TcpStream::connect(address(to, port)).expect("connect"));
    client.set_nodelay(true).expect("an option");
    let (mut server, _) = listener.accept().expect("accept");
    server.set_nodelay(true).expect("an option");
    let mut infos = Vec::new();
    let mut buffer = vec![1; BYTES];
    for round in 0..ROUNDS {
        settle();
        // all data is acknowledged: the next sample must equal these values, except for the data sent then
        TcpInfo::once_acknowledged(&client);
        infos.push(TcpInfo::of(&client));
        client.write_all(&buffer).expect("write");
        server.read_exact(&mut buffer).expect("read");
        server.write_all(&buffer[..100 + round]).expect("write");
        client.read_exact(&mut buffer[..100 + round]).expect("read");
    }
    settle();
    let (recording, _) = finish(recording);

    let netns = net.client.target.inode;
    let mine = |sample: &&TcpSample| {
        let flow = recording.flows.get(&sample.flow.0);
        flow.is_some_and(|f| f.netns == netns && f.remote.port() == port)
    };
    let samples: Vec<TcpSample> = recording.batches.iter().flat_map(|b| &b.tcp).filter(mine).copied().collect();
    let sends: Vec<Event> = recording.at(Hop::TcpSend, netns, port).into_iter().copied().collect();
    let reads: Vec<Event> = recording.at(Hop::AppRecv, netns, port).into_iter().copied().collect();
    assert_eq!((sends.len(), reads.len()), (ROUNDS, ROUNDS));
    let mut compared = 0;
    for (round, info) in infos.iter().enumerate() {
        let (send, read) = (&sends[round], &reads[round]);
        let next = sends.get(round + 1).map_or(u64::MAX, |send| send.time_ns);
        // the first segment after the client's send: an acknowledgement or the answer
        let sample = samples.iter().find(|s| s.time_ns > send.time_ns && s.time_ns < next);
        let sample = sample.unwrap_or_else(|| panic!("round {round} has no sample"));
        let context = format!("round {round}: {sample:?} {info:?}");
        if sample.total_retrans > info.total_retrans {
            println!("not compared, because a timer expired on a busy machine: {context}");
            continue;
        }
        compared += 1;
        // equal to the idle values: nothing has arrived since, and TCP has not processed this segment yet
        assert_eq!((sample.srtt_us, sample.rttvar_us), (info.rtt, info.rttvar), "{context}");
        assert_eq!((sample.cwnd, sample.ssthresh), (info.snd_cwnd, info.snd_ssthresh), "{context}");
        assert_eq!(sample.retrans_out, info.retrans, "{context}");
        assert_eq!((sample.state, sample.ca_state), (info.small[0], info.small[1]), "{context}");
        if sample.rto_us > 0 {
            // TCP_INFO rounds to ticks as well
            assert!(sample.rto_us.abs_diff(info.rto) <= 10_000, "{context}");
        }
        // in flight is the data sent since: two segments, all written bytes
        assert_eq!(
            (sample.packets_out, sample.send_queue_bytes as usize),
            (BYTES.div_ceil(1_428) as u32, BYTES),
            "{context}"
        );
        assert_eq!(
            (sample.snd_una, sample.write_seq),
            (send.seq(), send.seq().wrapping_add(send.len)),
            "{context}"
        );
        assert_eq!(sample.snd_nxt, sample.write_seq, "{context}");
        // all earlier data was read
        let begin = read.seq();
        assert_eq!(
            (sample.rcv_nxt, sample.copied_seq, sample.recv_queue_bytes),
            (begin, begin, 0),
            "{context}"
        );
        assert!(sample.snd_wnd as usize > BYTES && sample.rcv_wnd as usize > BYTES, "{context}");
        // a segment in the middle of a connection: an acknowledgement, with data mostly pushed
        assert!([0x10, 0x18].contains(&sample.tcp_flags), "{context}");
    }
    assert!(compared > ROUNDS / 2, "{compared} of {ROUNDS} were compared");
}

#[test]
fn a_sample_says_what_the_socket_says_v4() {
    if can_capture() {
        undisturbed(|| against_tcp_info(SERVER, 5901));
    }
}

#[test]
fn a_sample_says_what_the_socket_says_v6() {
    if can_capture() {
        undisturbed(|| against_tcp_info(SERVER6, 5902));
    }
}
