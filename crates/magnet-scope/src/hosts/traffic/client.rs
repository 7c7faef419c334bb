//! The sending side.

use super::pace::{Pace, Sizes};
use super::{BULK, REQUESTS, SLOW, UDP_V4, UDP_V6, UNREAD, fault, server_address, work};
use anyhow::Result;
use magscope_scope::TourFault;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// Connects everything and starts sending.
pub fn start() -> Result<()> {
    let (bulk, requests, slow) = (server_address(BULK)?, server_address(REQUESTS)?, server_address(SLOW)?);
    let (udp_v4, udp_v6) = (server_address(UDP_V4)?, server_address(UDP_V6)?);
    work("bulk-sender", move || stream(bulk, 256 * 1024, Duration::from_millis(20)))?;
    work("requester", move || request(requests))?;
    work("feeder", move || stream(slow, 1000, Duration::from_millis(10)))?;
    work("udp4-sender", move || datagrams(udp_v4, Duration::from_millis(2)))?;
    work("udp6-sender", move || datagrams(udp_v6, Duration::from_millis(10)))?;
    let unread = server_address(UNREAD)?;
    work("burst-sender", move || burst(unread, Duration::from_millis(2)))
}

/// Sends datagrams while the fault lasts.
fn burst(to: SocketAddr, every: Duration) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(to)?;
    let mut pace = Pace::new(every);
    loop {
        fault::wait_for(TourFault::FullBuffer);
        pace.wait();
        socket.send(&[0x4d; 600])?;
    }
}

fn stream(to: SocketAddr, bytes: usize, every: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let chunk = vec![0x4d; bytes];
    let mut pace = Pace::new(every);
    loop {
        pace.wait();
        stream.write_all(&chunk)?;
    }
}

/// Sends a request and waits for the answer. The first two bytes of a message are its length.
fn request(to: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    let mut message = [0x4d; 1000];
    let (mut pace, mut sizes) = (Pace::new(Duration::from_millis(5)), Sizes::new(1));
    loop {
        pace.wait();
        let size = sizes.next(100, message.len());
        message[..2].copy_from_slice(&(size as u16).to_le_bytes());
        stream.write_all(&message[..size])?;
        stream.read_exact(&mut message[..size])?;
    }
}

fn datagrams(to: SocketAddr, every: Duration) -> io::Result<()> {
    let any: SocketAddr =
        if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    let datagram = [0x4d; 1200];
    let (mut pace, mut sizes) = (Pace::new(every), Sizes::new(2));
    loop {
        pace.wait();
        socket.send(&datagram[..sizes.next(64, datagram.len())])?;
    }
}
