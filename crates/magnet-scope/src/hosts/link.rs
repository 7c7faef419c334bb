//! Joins two namespaces with a veth pair and gives both ends their addresses, over netlink: the demo needs no other
//! program.

use super::namespace::Netns;
use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with,
};
use std::fs;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The server's addresses.
pub const SERVER: (&str, &str) = ("10.77.0.2", "fd77::2");
const CLIENT: (&str, &str) = ("10.77.0.1", "fd77::1");
/// Name of the link in both namespaces.
const LINK: &str = "veth0";

// linux/netlink.h
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const REQUEST_AND_ACK: u16 = 1 | 4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
// linux/rtnetlink.h
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
// linux/if_link.h, linux/if_addr.h, linux/veth.h
const LINK_NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const LINK_NETNS_PROCESS: u16 = 19;
const INFO_KIND: u16 = 1;
const INFO_DATA: u16 = 2;
const VETH_PEER: u16 = 1;
const ADDRESS: u16 = 1;
const LOCAL_ADDRESS: u16 = 2;
/// Without duplicate address detection.
const NO_DAD: u8 = 2;
/// `IFF_UP`
const UP: u32 = 1;

/// True if this kernel has IPv6.
pub fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

/// Creates the pair and brings it up. Each end is a namespace and a process in it. Leaves this thread in one of
/// the two.
pub fn join(client: (&Netns, u32), server: (&Netns, u32)) -> Result<()> {
    client.0.enter()?;
    // Created inside, so that no link appears in the host's own namespace.
    Routing::open()?.add_pair(server.1).context("cannot create the demo's link")?;
    configure(CLIENT)?;
    server.0.enter()?;
    configure(SERVER)
}

/// Brings this namespace's links up and gives the end of the pair its addresses.
fn configure((v4, v6): (&str, &str)) -> Result<()> {
    let mut routing = Routing::open()?;
    let ipv6 = has_ipv6();
    if ipv6 {
        // Duplicate address detection would delay IPv6 by a second, and the host may disable IPv6 for new
        // interfaces. If these writes fail, the kernel refuses the address below.
        for (setting, value) in [("disable_ipv6", "0"), ("accept_dad", "0")] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{LINK}/{setting}"), value);
        }
    }
    for link in ["lo", LINK] {
        routing.bring_up(link).with_context(|| format!("cannot bring up the demo's link {link}"))?;
    }
    for (address, length) in [(v4, 24), (v6, 64)].into_iter().take(1 + usize::from(ipv6)) {
        routing
            .add_address(address.parse()?, length)
            .with_context(|| format!("cannot give the demo's link the address {address}"))?;
    }
    Ok(())
}

/// A socket to the routing subsystem, in the network namespace of the thread that made it.
struct Routing {
    socket: OwnedFd,
    number: u32,
}

impl Routing {
    fn open() -> Result<Self> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)
            .context("cannot open a netlink socket")?;
        Ok(Routing { socket, number: 0 })
    }

    /// A veth pair: one end here, the other in the namespace of a process.
    fn add_pair(&mut self, peer_process: u32) -> Result<()> {
        let mut peer = link_header(0, 0);
        attribute(&mut peer, LINK_NAME, &name(LINK));
        attribute(&mut peer, LINK_NETNS_PROCESS, &peer_process.to_ne_bytes());
        let mut data = Vec::new();
        attribute(&mut data, VETH_PEER, &peer);
        let mut info = Vec::new();
        attribute(&mut info, INFO_KIND, &name("veth"));
        attribute(&mut info, INFO_DATA, &data);
        let mut body = link_header(0, 0);
        attribute(&mut body, LINK_NAME, &name(LINK));
        attribute(&mut body, LINK_INFO, &info);
        self.change(NEW_LINK, CREATE | EXCLUSIVE, &body)
    }

    fn bring_up(&mut self, link: &str) -> Result<()> {
        let index = netdevice::name_to_index(&self.socket, link)?;
        self.change(NEW_LINK, 0, &link_header(index, UP))
    }

    fn add_address(&mut self, address: IpAddr, prefix_length: u8) -> Result<()> {
        let index = netdevice::name_to_index(&self.socket, LINK)?;
        let (family, bytes, flags) = match address {
            IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec(), 0),
            IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec(), NO_DAD),
        };
        // struct ifaddrmsg: family, length of the prefix, flags, scope, index
        let mut body = vec![family.as_raw() as u8, prefix_length, flags, 0];
        body.extend(index.to_ne_bytes());
        attribute(&mut body, LOCAL_ADDRESS, &bytes);
        attribute(&mut body, ADDRESS, &bytes);
        self.change(NEW_ADDRESS, CREATE | EXCLUSIVE, &body)
    }

    /// Sends a request and waits for the kernel's answer.
    fn change(&mut self, kind: u16, flags: u16, body: &[u8]) -> Result<()> {
        self.number += 1;
        let mut request = Vec::with_capacity(HEADER + body.len());
        request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend((REQUEST_AND_ACK | flags).to_ne_bytes());
        request.extend(self.number.to_ne_bytes());
        request.extend(0_u32.to_ne_bytes());
        request.extend(body);
        send(&self.socket, &request, SendFlags::empty())?;
        let mut answer = vec![0; 4096];
        let (_, length) = recv(&self.socket, answer.as_mut_slice(), RecvFlags::empty())?;
        match error_of(&answer[..length.min(answer.len())]) {
            Some(0) => Ok(()),
            Some(error) => Err(Errno::from_raw_os_error(-error).into()),
            None => bail!("the kernel's answer is not one to a request"),
        }
    }
}

/// The error number of an answer, 0 for success; nothing if the answer has none.
fn error_of(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(answer.get(HEADER..HEADER + 4)?.try_into().ok()?);
    (kind == NLMSG_ERROR).then_some(error)
}

/// `struct ifinfomsg`: family, type, index, flags, and the flags to change.
fn link_header(index: u32, flags: u32) -> Vec<u8> {
    let mut header = vec![0; 4];
    for field in [index, flags, flags] {
        header.extend(field.to_ne_bytes());
    }
    header
}

/// Appends an attribute, padded to four bytes.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(((4 + value.len()) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// A name with its final zero byte.
fn name(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_padded_and_its_length_is_not() {
        let mut message = Vec::new();
        attribute(&mut message, LINK_NAME, &name("lo"));
        assert_eq!(message.len(), 8);
        assert_eq!(message[..2], 7_u16.to_ne_bytes());
        assert_eq!(message[4..], *b"lo\0\0");
    }

    #[test]
    fn an_answer_has_an_error_or_is_none() {
        let mut answer = vec![0; 36];
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        assert_eq!(error_of(&answer), Some(0));
        answer[16..20].copy_from_slice(&(-17_i32).to_ne_bytes());
        assert_eq!(error_of(&answer), Some(-17));
        answer[4] = NEW_LINK as u8;
        assert_eq!(error_of(&answer), None);
        assert_eq!(error_of(&answer[..10]), None);
    }
}
