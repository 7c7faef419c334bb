//! Snap length: the captured payload heads equal the sent bytes, for any memory layout; without a request there
//! are none.

use crate::common;

use common::{
    CLIENT, Net, Pair, Recording, SERVER, can_capture, can_capture_with, finish, hops, quiet, undisturbed,
};
use magscope_core::node::Ability;
use magscope_core::{Hop, PayloadHead, Proto};
use magscope_probe::{CaptureOptions, Setting};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Each head matches an event with the same fields.
fn events_have_their_heads(recording: &Recording) {
    for head in recording.heads() {
        let own = |event: &&magscope_core::Event| event.cpu == head.cpu && event.record == head.event;
        let event = recording.events.iter().find(own).expect("its event");
        assert_eq!(
            (event.hop, event.time_ns, event.flow, event.extent.number(), event.len, event.ip_id),
            (head.hop, head.time_ns, head.flow, head.seq, head.of_bytes, head.ip_id)
        );
    }
}

#[test]
fn datagrams_show_as_much_as_was_asked_for_and_only_there() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let at = [
            Hop::IpOut,
            Hop::IpPost,
            Hop::DevXmit,
            Hop::DevDone,
            Hop::DevRecv,
            Hop::IpPre,
            Hop::IpIn,
            Hop::UdpRecv,
        ];
        let asked = [Hop::IpOut, Hop::DevXmit, Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::UdpRecv];
        let snap = asked.iter().map(|hop| (*hop, 64)).collect();
        let mut recording =
            net.capture_with(CaptureOptions { hops: hops(&at), snap, ..CaptureOptions::default() });
        let pair = Pair::new(&net, CLIENT, SERVER, 5100);
        let datagram = |n: usize, size: usize| (0..size).map(|i| (n + i * 7) as u8).collect::<Vec<u8>>();
        let sizes = [0, 1, 63, 64, 65, 1400];
        let send = || {
            for (n, size) in sizes.iter().enumerate() {
                pair.client.send(&datagram(n, *size)).expect("send");
                common::receive(&pair.server, &mut [0; 2000]).expect("recv");
            }
        };
        send();
        recording.drain(Duration::from_millis(30));
        let off: Setting = "snap off".parse().expect("a setting");
        recording.change(&off).expect("a change");
        send();
        let (recording, _) = finish(recording);
        events_have_their_heads(&recording);
        for hop in at {
            let heads: Vec<&PayloadHead> = recording.heads().filter(|head| head.hop == hop).collect();
            // an empty datagram has no head
            let expected = if asked.contains(&hop) { sizes.len() - 1 } else { 0 };
            assert_eq!(heads.len(), expected, "{hop}");
            for (head, (n, size)) in heads.iter().zip(sizes.iter().enumerate().skip(1)) {
                let sent = datagram(n, *size);
                assert_eq!(
                    (head.of_bytes as usize, &head.bytes[..]),
                    (*size, &sent[..sent.len().min(64)]),
                    "{hop}"
                );
            }
        }
    });
}

/// A stream in which every place has its own bytes.
fn stream(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).flat_map(|n| [n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) as u8]).collect()
}

/// Sends the stream over a connection; returns the received bytes.
fn send_stream(net: &Net, send: impl FnOnce(&mut TcpStream)) -> Vec<u8> {
    let listener = net.server.run(|| TcpListener::bind((SERVER, 5300)).expect("bind"));
    let mut near = net.client.run(|| TcpStream::connect((SERVER, 5300)).expect("connect"));
    let (mut far, _) = listener.accept().expect("accept");
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        far.read_to_end(&mut all).expect("recv");
        all
    });
    send(&mut near);
    drop(near);
    reader.join().expect("a reader")
}

#[test]
fn a_stream_shows_its_bytes_from_pages_too() {
    if !can_capture_with(&[Ability::PayloadPages]) {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let at = [Hop::TcpXmit, Hop::IpOut, Hop::DevXmit, Hop::DevRecv, Hop::IpIn, Hop::TcpRecv];
        let recording = net.capture_with(CaptureOptions {
            hops: hops(&at),
            snap: at.iter().map(|hop| (*hop, 1024)).collect(),
            ..CaptureOptions::default()
        });
        let sent = stream(200_000);
        let file = std::env::temp_dir().join(format!("magnet-scope-payload-{}", std::process::id()));
        std::fs::write(&file, &sent).expect("room");
        // first written, so that it is copied into pages; then sent from the file's pages
        let mut read = send_stream(&net, |near| near.write_all(&sent).expect("send"));
        assert!(read == sent);
        read = send_stream(&net, |near| {
            let mut from = File::open(&file).expect("our own file");
            std::io::copy(&mut from, near).expect("sendfile");
        });
        std::fs::remove_file(&file).expect("our own file");
        assert!(read == sent);
        let (recording, counters) = finish(recording);
        events_have_their_heads(&recording);
        assert!(counters.heads.0 > 40, "{} heads", counters.heads.0);
        let mut pages = 0;
        // without neighbour discovery
        let ours = |head: &&PayloadHead| {
            recording.flows.get(&head.flow.0).is_some_and(|flow| flow.proto == Proto::TCP)
        };
        for head in recording.heads().filter(ours) {
            let hop = head.hop;
            let first = recording.first_seq(head.flow.0);
            let place = head.seq.wrapping_sub(first) as usize;
            let wanted = (head.of_bytes as usize).min(1024);
            assert_eq!(
                head.bytes.len(),
                wanted,
                "{hop}: {} bytes of {} at {place}",
                head.bytes.len(),
                head.of_bytes
            );
            assert!(head.bytes[..] == sent[place..place + wanted], "{hop}: other bytes at {place}");
            pages += usize::from(head.of_bytes > 1448);
        }
        assert!(pages > 0, "no super-packet was seen");
        for hop in at.iter().filter(|hop| recording.served.contains(**hop)) {
            assert!(recording.heads().filter(ours).any(|head| head.hop == *hop), "no head at {hop}");
        }
    });
}

#[test]
fn nothing_of_the_payload_is_there_unasked() {
    if !can_capture() {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let recording = net.capture_with(CaptureOptions::default());
        Pair::new(&net, CLIENT, SERVER, 5100).send(20, 300);
        let (recording, counters) = finish(recording);
        assert!(recording.events.len() > 60);
        assert_eq!((recording.heads().count(), counters.heads), (0, (0, 0)));
        for hop in ["app.send", "app.recv", "tcp.send", "dev.done"] {
            let error = format!("snap 64 {hop}").parse::<Setting>().expect_err("no packet there").to_string();
            assert!(error.contains("not available") && error.contains("dev.recv"), "{error}");
        }
    });
}
