//! Socket system calls that the standard library lacks: options, batches, and other wait calls.

#![allow(dead_code, unsafe_code, clippy::missing_panics_doc)]

use std::io::Error;
use std::mem::{size_of, zeroed};
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Sets an option whose value is an `int`.
pub fn set(socket: &impl AsRawFd, level: i32, name: i32, value: i32) {
    let size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointer is to an integer of the given size.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(&value).cast(), size) };
    assert_eq!(done, 0, "setsockopt {level} {name}: {}", Error::last_os_error());
}

/// A UDP socket bound with `SO_REUSEADDR` and `SO_REUSEPORT`, so that others can be bound to the same address.
pub fn bind_shared(address: SocketAddr, options: &[i32]) -> UdpSocket {
    let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointer is passed; the returned descriptor has no other owner.
    let socket =
        unsafe { OwnedFd::from_raw_fd(check(libc::socket(domain, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))) };
    for option in options {
        set(&socket, libc::SOL_SOCKET, *option, 1);
    }
    let address: rustix::net::SocketAddrAny = address.into();
    rustix::net::bind(&socket, &address).expect("bind");
    UdpSocket::from(socket)
}

fn check(result: i32) -> i32 {
    assert!(result >= 0, "{}", Error::last_os_error());
    result
}

/// Repeats a call that a signal has interrupted. A child's end interrupts timed waits of any thread, although
/// nothing handles that signal.
fn repeated(call: impl Fn() -> i32) -> i32 {
    loop {
        let result = call();
        if result >= 0 || Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return check(result);
        }
    }
}

fn name_of(to: SocketAddrV4) -> libc::sockaddr_in {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut name: libc::sockaddr_in = unsafe { zeroed() };
    name.sin_family = libc::AF_INET as u16;
    name.sin_port = to.port().to_be();
    name.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
    name
}

/// One `sendmmsg` of these payloads. Returns the number accepted.
pub fn send_many(socket: &UdpSocket, to: SocketAddrV4, payloads: &[Vec<u8>]) -> usize {
    let mut name = name_of(to);
    let mut vectors: Vec<libc::iovec> = payloads
        .iter()
        .map(|p| libc::iovec { iov_base: p.as_ptr().cast_mut().cast(), iov_len: p.len() })
        .collect();
    let mut messages: Vec<libc::mmsghdr> = vectors
        .iter_mut()
        .map(|vector| {
            // SAFETY: all zeros is a valid value of this plain structure.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_name = std::ptr::from_mut(&mut name).cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            message
        })
        .collect();
    // SAFETY: every pointer in the messages refers to data that outlives the call.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), messages.len() as u32, 0) };
    check(sent) as usize
}

/// Closing this socket sends a reset.
pub fn reset_at_close(socket: &impl AsRawFd) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    let (at, size) = ((&raw const linger).cast(), size_of::<libc::linger>() as libc::socklen_t);
    // SAFETY: the pointer and the size are those of a `linger` that outlives the call.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_LINGER, at, size) };
    assert_eq!(set, 0, "SO_LINGER");
}

/// One `recvmmsg` of at most `most` datagrams; waits for the first. Returns their lengths.
pub fn receive_many(socket: &UdpSocket, most: usize) -> Vec<usize> {
    let mut buffers = vec![[0_u8; 2048]; most];
    let mut vectors: Vec<libc::iovec> =
        buffers.iter_mut().map(|b| libc::iovec { iov_base: b.as_mut_ptr().cast(), iov_len: b.len() }).collect();
    let mut messages: Vec<libc::mmsghdr> = vectors
        .iter_mut()
        .map(|vector| {
            // SAFETY: all zeros is a valid value of this plain structure.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            message
        })
        .collect();
    let (room, count) = (messages.as_mut_ptr(), messages.len() as u32);
    // SAFETY: every pointer in the messages refers to data that outlives the call.
    let once = || unsafe {
        libc::recvmmsg(socket.as_raw_fd(), room, count, libc::MSG_WAITFORONE, std::ptr::null_mut())
    };
    let got = repeated(once);
    messages.iter().take(got as usize).map(|m| m.msg_len as usize).collect()
}

/// An epoll instance that watches sockets.
pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn new(watched: &[(&dyn AsRawFd, u32)]) -> Self {
        // SAFETY: no pointer is passed; the returned descriptor has no other owner.
        let me = unsafe { OwnedFd::from_raw_fd(check(libc::epoll_create1(libc::EPOLL_CLOEXEC))) };
        for (socket, events) in watched {
            let fd = socket.as_raw_fd();
            let mut event = libc::epoll_event { events: *events, u64: fd as u64 };
            // SAFETY: the event outlives the call.
            check(unsafe { libc::epoll_ctl(me.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) });
        }
        Epoll(me)
    }

    /// The descriptors that are ready, after at most `time`.
    pub fn wait(&self, time: Duration) -> Vec<i32> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        let (watch, room) = (self.0.as_raw_fd(), events.as_mut_ptr());
        // SAFETY: the buffer has room for the given number of events.
        let n = repeated(|| unsafe { libc::epoll_wait(watch, room, 16, time.as_millis() as i32) });
        events[..n as usize].iter().map(|e| e.u64 as i32).collect()
    }
}

/// Waits in `poll` until a socket is readable. Returns whether it is.
pub fn poll(socket: &impl AsRawFd, time: Duration) -> bool {
    let mut one = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let one = &raw mut one;
    // SAFETY: the count matches the one descriptor.
    repeated(|| unsafe { libc::poll(one, 1, time.as_millis() as i32) }) == 1
}

/// Waits in `select` until a socket is readable. Returns whether it is.
pub fn select(socket: &impl AsRawFd, time: Duration) -> bool {
    let fd = socket.as_raw_fd();
    let time = libc::timeval { tv_sec: time.as_secs() as i64, tv_usec: i64::from(time.subsec_micros()) };
    // SAFETY: a set of zeros is empty, and the descriptor is below FD_SETSIZE or the assertion fails.
    let once = || unsafe {
        assert!((fd as usize) < libc::FD_SETSIZE);
        let (mut set, mut time): (libc::fd_set, _) = (zeroed(), time);
        libc::FD_SET(fd, &raw mut set);
        libc::select(fd + 1, &raw mut set, std::ptr::null_mut(), std::ptr::null_mut(), &raw mut time)
    };
    repeated(once) == 1
}

/// Id of the current thread.
pub fn tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// A raw socket; with `IPPROTO_RAW` its packets bring their own header.
pub fn raw(domain: i32, protocol: i32) -> OwnedFd {
    // SAFETY: no pointer is passed; the returned descriptor has no other owner.
    unsafe { OwnedFd::from_raw_fd(check(libc::socket(domain, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol))) }
}

/// Sends one packet unchanged.
pub fn send_raw(socket: &OwnedFd, to: SocketAddrV4, packet: &[u8]) {
    let name = name_of(to);
    // SAFETY: buffer and name outlive the call and have the given sizes.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            packet.as_ptr().cast(),
            packet.len(),
            0,
            std::ptr::from_ref(&name).cast(),
            size_of::<libc::sockaddr_in>() as u32,
        )
    };
    assert_eq!(sent, packet.len() as isize, "{}", Error::last_os_error());
}

/// An IPv4 header for `payload` bytes; the kernel fills the checksum in.
pub fn ipv4_header(from: &str, to: &str, protocol: u8, ip_id: u16, frag_off: u16, payload: u16) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend((20 + payload).to_be_bytes());
    header.extend(ip_id.to_be_bytes());
    header.extend(frag_off.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    for address in [from, to] {
        let address: std::net::Ipv4Addr = address.parse().expect("an address");
        header.extend(address.octets());
    }
    header
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Sends an ICMP echo request with `size` bytes and waits for its answer.
pub fn echo(to: SocketAddrV4, id: u16, number: u16, size: usize) {
    let socket = raw(libc::AF_INET, libc::IPPROTO_ICMP);
    let mut packet = vec![8, 0, 0, 0];
    packet.extend(id.to_be_bytes());
    packet.extend(number.to_be_bytes());
    packet.extend(vec![7; size]);
    let sum = checksum(&packet).to_be_bytes();
    packet[2..4].copy_from_slice(&sum);
    send_raw(&socket, to, &packet);
    let mut answer = vec![0_u8; 20 + packet.len()];
    loop {
        assert!(poll(&socket, Duration::from_secs(10)), "an answer");
        // SAFETY: the buffer has the given size.
        let got = unsafe { libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), 0) };
        if check(got as i32) as usize == answer.len()
            && answer[20] == 0
            && answer[26..28] == number.to_be_bytes()
        {
            return;
        }
    }
}

/// Runs ethtool.
pub fn ethtool(arguments: &[&str]) {
    let output = std::process::Command::new("ethtool").args(arguments).output().expect("ethtool is installed");
    assert!(output.status.success(), "ethtool {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
