//! Joins two namespaces with a veth pair and gives both ends their addresses, over netlink: the demo needs no other
//! program.

use super::namespace::Netns;
use anyhow::{Context, Result};
use magscope_probe::netlink::{Netlink, written};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// The server's addresses.
pub const SERVER: (&str, &str) = ("10.77.0.2", "fd77::2");
const CLIENT: (&str, &str) = ("10.77.0.1", "fd77::1");
/// Name of the link in both namespaces.
const LINK: &str = "veth0";

// linux/netlink.h
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

/// The routing subsystem of the network namespace that the thread was in.
struct Routing(Netlink);

impl Routing {
    fn open() -> Result<Self> {
        Ok(Routing(Netlink::new(None).context("cannot open a netlink socket")?))
    }

    /// A veth pair: one end here, the other in the namespace of a process.
    fn add_pair(&mut self, peer_process: u32) -> Result<()> {
        let peer = [
            link_header(0, 0),
            written(LINK_NAME, &name(LINK)),
            written(LINK_NETNS_PROCESS, &peer_process.to_ne_bytes()),
        ];
        let data = written(INFO_DATA, &written(VETH_PEER, &peer.concat()));
        let info = [written(INFO_KIND, &name("veth")), data].concat();
        let body = [link_header(0, 0), written(LINK_NAME, &name(LINK)), written(LINK_INFO, &info)].concat();
        Ok(self.0.change(NEW_LINK, CREATE | EXCLUSIVE, &body)?)
    }

    fn bring_up(&mut self, link: &str) -> Result<()> {
        Ok(self.0.change(NEW_LINK, 0, &link_header(index(link)?, UP))?)
    }

    fn add_address(&mut self, address: IpAddr, prefix_length: u8) -> Result<()> {
        let (family, bytes, flags) = match address {
            IpAddr::V4(address) => (AddressFamily::INET, address.octets().to_vec(), 0),
            IpAddr::V6(address) => (AddressFamily::INET6, address.octets().to_vec(), NO_DAD),
        };
        // struct ifaddrmsg: family, length of the prefix, flags, scope, index
        let header =
            [&[family.as_raw() as u8, prefix_length, flags, 0], &index(LINK)?.to_ne_bytes()[..]].concat();
        let body = [header, written(LOCAL_ADDRESS, &bytes), written(ADDRESS, &bytes)].concat();
        Ok(self.0.change(NEW_ADDRESS, CREATE | EXCLUSIVE, &body)?)
    }
}

/// The number of a link of this thread's namespace.
fn index(link: &str) -> Result<u32> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(netdevice::name_to_index(&socket, link)?)
}

/// `struct ifinfomsg`: family, type, index, flags, and the flags to change.
fn link_header(index: u32, flags: u32) -> Vec<u8> {
    let mut header = vec![0; 4];
    for field in [index, flags, flags] {
        header.extend(field.to_ne_bytes());
    }
    header
}

/// A name with its final zero byte.
fn name(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}
