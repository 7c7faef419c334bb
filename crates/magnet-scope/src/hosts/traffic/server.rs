//! The reading side.

use super::{BULK, REQUESTS, SLOW, UDP_V4, UDP_V6, UNREAD, fault, server_address, work};
use anyhow::{Context, Result};
use magscope_scope::TourFault;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Opens every port and starts reading.
pub fn start() -> Result<()> {
    serve("bulk-reader", BULK, read_bulk)?;
    serve("responder", REQUESTS, respond)?;
    serve("slow-reader", SLOW, read_slowly)?;
    receive("udp4-reader", UDP_V4)?;
    receive("udp6-reader", UDP_V6)?;
    receive_slowly("idle-reader", UNREAD)
}

/// Reads 50 datagrams a second, from a receive buffer for a few.
fn receive_slowly(name: &str, port: u16) -> Result<()> {
    let address = server_address(port)?;
    let socket = UdpSocket::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    set_socket_recv_buffer_size(&socket, 8 * 1024).context("cannot set a receive buffer")?;
    work(name, move || {
        let mut datagram = [0; 2048];
        loop {
            socket.recv(&mut datagram)?;
            thread::sleep(Duration::from_millis(20));
        }
    })
}

/// One connection per port.
fn serve(name: &str, port: u16, body: fn(TcpStream) -> io::Result<()>) -> Result<()> {
    let address = server_address(port)?;
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    work(name, move || {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        // The parent handles the client's end: it ends the client first, then this process.
        match body(stream) {
            Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
                Ok(())
            }
            other => other,
        }
    })
}

fn receive(name: &str, port: u16) -> Result<()> {
    let address = server_address(port)?;
    let socket = UdpSocket::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    work(name, move || {
        let mut datagram = [0; 2048];
        loop {
            socket.recv(&mut datagram)?;
        }
    })
}

fn read_bulk(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    while stream.read(&mut buffer)? > 0 {}
    Ok(())
}

fn respond(mut stream: TcpStream) -> io::Result<()> {
    let mut message = [0; 1000];
    loop {
        stream.read_exact(&mut message[..2])?;
        let size = usize::from(u16::from_le_bytes([message[0], message[1]])).clamp(2, message.len());
        stream.read_exact(&mut message[2..size])?;
        if fault::is(TourFault::SlowAnswers) {
            thread::sleep(Duration::from_millis(30));
        }
        stream.write_all(&message[..size])?;
    }
}

/// Reads promptly, but pauses for 40 ms every half second, with data available and the reader away.
fn read_slowly(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let mut attentive = Instant::now();
    while stream.read(&mut buffer)? > 0 {
        if attentive.elapsed() > Duration::from_millis(500) {
            thread::sleep(Duration::from_millis(40));
            attentive = Instant::now();
        }
    }
    Ok(())
}
