//! Requests to the kernel over netlink, the parts of its answers, and its notifications.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Longest wait for an answer of the kernel.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum size of a whole answer, bytes.
const MOST_BYTES: usize = 16 << 20;
/// Size of one datagram of an answer; the kernel sends at most 32 KiB in one.
pub const BUFFER: usize = 64 << 10;

const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// The table changed during the answer.
const NLM_F_DUMP_INTR: u16 = 0x10;

/// A socket to one subsystem, in the network namespace of the thread that made it.
pub struct Netlink {
    socket: OwnedFd,
    number: u32,
}

/// One message of an answer, without its header.
pub type Message = Vec<u8>;

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The kernel has no such table.
    Refused,
    /// The answer is too long, or the table changed meanwhile.
    Incomplete,
}

impl Netlink {
    /// A socket to routing (`None`), netfilter or the lists of sockets.
    pub fn new(protocol: Option<Protocol>) -> rustix::io::Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Netlink { socket, number: 0 })
    }

    fn send(&mut self, kind: u16, flags: u16, body: &[u8]) -> rustix::io::Result<()> {
        self.number += 1;
        request(&self.socket, kind, flags, self.number, body)
    }

    /// Changes the kernel's tables and waits for its answer.
    ///
    /// # Errors
    /// The kernel refuses, does not answer within two seconds, or answers something else (`EPROTO`).
    pub fn change(&mut self, kind: u16, flags: u16, body: &[u8]) -> rustix::io::Result<()> {
        self.send(kind, NLM_F_ACK | flags, body)?;
        let mut buffer = vec![0; BUFFER];
        let (_, len) = recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        match buffer.get(..len).and_then(|answer| error_of(answer, self.number)) {
            Some(0) => Ok(()),
            Some(error) => Err(Errno::from_raw_os_error(error)),
            None => Err(Errno::PROTO),
        }
    }

    /// All messages of a table.
    ///
    /// # Errors
    /// See [`NoAnswer`].
    pub fn dump(&mut self, kind: u16, body: &[u8]) -> Result<Vec<Message>, NoAnswer> {
        self.send(kind, NLM_F_DUMP, body).map_err(|_| NoAnswer::Refused)?;
        let (mut messages, mut bytes, mut buffer) = (Vec::new(), 0, vec![0; BUFFER]);
        loop {
            let received = recv(&self.socket, buffer.as_mut_slice(), RecvFlags::empty());
            let (_, len) = received.map_err(|_| NoAnswer::Incomplete)?;
            bytes += len;
            let datagram = buffer.get(..len).filter(|_| bytes <= MOST_BYTES).ok_or(NoAnswer::Incomplete)?;
            if take(datagram, self.number, &mut messages)? {
                return Ok(messages);
            }
        }
    }
}

/// A socket that receives the notifications of these groups, a bit each, and does not block.
///
/// # Errors
/// The kernel has no such subsystem, or refuses the groups.
pub fn notified(protocol: Option<Protocol>, groups: u32) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

fn request(socket: &OwnedFd, kind: u16, flags: u16, number: u32, body: &[u8]) -> rustix::io::Result<()> {
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    request.extend(number.to_ne_bytes());
    request.extend(0_u32.to_ne_bytes());
    request.extend(body);
    send(socket, &request, SendFlags::empty()).map(|_| ())
}

/// Asks for all messages of a table; they come like notifications.
///
/// # Errors
/// The kernel refuses.
pub fn ask(socket: &OwnedFd, kind: u16, body: &[u8]) -> rustix::io::Result<()> {
    request(socket, kind, NLM_F_DUMP, 0, body)
}

/// The messages of one datagram: kind and body. Broken bytes end them.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind, ..) = head(bytes)?;
        let body = bytes.get(HEADER..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Takes the messages of one datagram; true after the last one.
fn take(mut bytes: &[u8], number: u32, messages: &mut Vec<Message>) -> Result<bool, NoAnswer> {
    while let Some((len, kind, flags, of)) = head(bytes) {
        let message = bytes.get(HEADER..len).ok_or(NoAnswer::Incomplete)?;
        if of == number {
            match kind {
                NLMSG_ERROR => return Err(NoAnswer::Refused),
                _ if flags & NLM_F_DUMP_INTR != 0 => return Err(NoAnswer::Incomplete),
                NLMSG_DONE => return Ok(true),
                _ => messages.push(message.to_vec()),
            }
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The error number in the answer to a request, 0 for success; `None` for another message.
fn error_of(answer: &[u8], number: u32) -> Option<i32> {
    let (_, kind, _, of) = head(answer)?;
    let error = i32::from_ne_bytes(answer.get(HEADER..HEADER + 4)?.try_into().ok()?);
    (kind == NLMSG_ERROR && of == number).then(|| error.wrapping_neg())
}

/// Length, kind, flags and request of a message.
fn head(bytes: &[u8]) -> Option<(usize, u16, u16, u32)> {
    Some((u32_at(bytes, 0)? as usize, u16_at(bytes, 4)?, u16_at(bytes, 6)?, u32_at(bytes, 8)?))
}

/// A number of the host's byte order.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// A number of the host's byte order.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A number of the network's byte order.
pub fn be32(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// A number of the network's byte order.
pub fn be64(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(..8)?.try_into().ok()?))
}

/// Text that ends with a zero byte.
pub fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// The attributes in these bytes: kind and value. Broken bytes end them.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(bytes, 0)?);
        // The two highest bits mark nested attributes and the network's byte order.
        let kind = u16_at(bytes, 2)? & 0x3fff;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of a kind.
pub fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(of, _)| *of == kind).map(|(_, value)| value)
}

/// An attribute with its header, padded to four bytes.
pub fn written(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_read_in_order() {
        let bytes = [written(1, b"eth0\0"), written(0x8002, &written(4, &7_u32.to_ne_bytes()))].concat();
        let found: Vec<_> = attributes(&bytes).map(|(kind, _)| kind).collect();
        assert_eq!(found, [1, 2]);
        assert_eq!(text(attribute(&bytes, 1).expect("a name")), "eth0");
        let nested = attribute(&bytes, 2).and_then(|nested| attribute(nested, 4)).expect("a number");
        assert_eq!(u32_at(nested, 0), Some(7));
        assert_eq!(attribute(&bytes, 3), None);
    }

    #[test]
    fn an_attribute_is_padded_and_its_length_is_not() {
        assert_eq!(written(3, b"lo\0"), [&7_u16.to_ne_bytes()[..], &3_u16.to_ne_bytes(), b"lo\0\0"].concat());
    }

    #[test]
    fn an_answer_has_an_error_or_is_none() {
        let mut answer = vec![0; 36];
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        answer[8..12].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(error_of(&answer, 9), Some(0));
        answer[16..20].copy_from_slice(&(-17_i32).to_ne_bytes());
        assert_eq!(error_of(&answer, 9), Some(17));
        assert_eq!(error_of(&answer, 8), None, "of another request");
        assert_eq!(error_of(&answer[..10], 9), None);
        answer[4] = 16;
        assert_eq!(error_of(&answer, 9), None, "another message");
    }

    #[test]
    fn this_kernel_lists_its_interfaces() {
        let mut netlink = Netlink::new(None).expect("a socket");
        let links = netlink.dump(18, &[0; 16]).expect("a list");
        let names: Vec<_> = links.iter().filter_map(|link| attribute(link.get(16..)?, 3).map(text)).collect();
        assert!(names.contains(&"lo".to_owned()), "{names:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_are_fatal(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut messages = Vec::new();
            let _ = take(&bytes, 1, &mut messages);
            prop_assert!(super::messages(&bytes).count() <= bytes.len() / HEADER);
            let found = attributes(&bytes).count();
            prop_assert!(found <= bytes.len() / 4);
        }

        #[test]
        fn every_attribute_comes_back(values in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 0..9)) {
            let bytes: Vec<u8> = values.iter().enumerate().flat_map(|(kind, value)| written(kind as u16, value)).collect();
            let found: Vec<Vec<u8>> = attributes(&bytes).map(|(_, value)| value.to_vec()).collect();
            prop_assert_eq!(found, values);
        }
    }
}
