//! Connections one after the other with equal addresses and ports, as many short ones have them.

use super::{found, recorded, scene};
use crate::common::hosts::in_namespace;
use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket, sockopt};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

const PORTS: [u16; 2] = [6_201, 6_202];

fn address(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

fn bound(port: u16) -> OwnedFd {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
    bind(&socket, &address(port)).expect("the port is free");
    socket
}

/// One request and its response, of these lengths, and a reset: the ports are free at once.
fn talk(opens: u16, answers: u16, (asked, answered): (usize, usize)) {
    let listener = bound(answers);
    listen(&listener, 1).expect("a listener");
    let listener = TcpListener::from(listener);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.read_exact(&mut vec![0; asked]).expect("the request");
            stream.write_all(&vec![2; answered]).expect("the response is sent");
            // Until the reset.
            let _ = stream.read(&mut [0]);
        });
        let socket = bound(opens);
        connect(&socket, &address(answers)).expect("a connection");
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).expect("an option");
        let mut stream = TcpStream::from(socket);
        stream.write_all(&vec![1; asked]).expect("the request is sent");
        stream.read_exact(&mut vec![0; answered]).expect("the response");
    });
}

/// Requester's port, and the lengths.
type Truth = (u64, u64, u64);

fn is_truth(exchange: &Value, (port, asked, answered): &Truth) -> bool {
    let bytes = |transfer: &str| exchange[transfer]["bytes"].as_u64();
    exchange["requester"]["addr"].as_str().is_some_and(|addr| addr.ends_with(&format!(":{port}")))
        && (bytes("request"), bytes("response")) == (Some(*asked), Some(*answered))
}

#[test]
fn each_connection_on_the_same_ports_has_its_own_exchange() {
    let Some((hosts, dir)) = scene("each_connection_on_the_same_ports_has_its_own_exchange") else { return };
    let [a, b] = PORTS;
    // Short ones, one that reaches over the numbers of the next ones, and some that the other side opens.
    let talks =
        [(a, b, 10, 200_000), (a, b, 11, 1_000), (b, a, 20, 2_000), (b, a, 21, 100_000), (a, b, 12, 3_000)];
    let (session, ()) = recorded(&hosts, &[0], "default", &dir, || {
        in_namespace(&hosts.names[0], || {
            for (opens, answers, asked, answered) in talks {
                talk(opens, answers, (asked, answered));
            }
        });
    });
    let (_, exchanges) = found(&session, &[]);
    let truth: Vec<Truth> = talks
        .iter()
        .map(|(opens, _, asked, answered)| (u64::from(*opens), *asked as u64, *answered as u64))
        .collect();
    assert_eq!(exchanges.len(), truth.len(), "{exchanges:#?}");
    for (exchange, truth) in exchanges.iter().zip(&truth) {
        // A server that loses its CPU amid a response pauses.
        let grade = exchange["grade"].as_str();
        assert!(
            is_truth(exchange, truth) && matches!(grade, Some("turn" | "streamed")),
            "{truth:?}: {exchange:#}"
        );
    }
}
