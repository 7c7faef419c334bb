//! Networks of a client and a server, in namespaces that are removed on drop.

use crate::common::hosts::{in_namespace, ip, namespace_name};
use crate::common::{is_root, skipped};
use std::io::Write;
use std::process::{Command, Stdio};

/// What lies between the client and the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// A pair of virtual interfaces.
    Wire,
    /// A bridge in a third namespace.
    Bridge,
    /// A pair of netkit devices, which pass packets without link layer.
    Netkit,
    /// Two interfaces of a third namespace, between which nothing forwards but programs.
    Programs,
    /// A pair of virtual interfaces, and on each of them a device with the addresses.
    Device(Device),
    /// Nothing: client and server are one host.
    Loopback,
}

/// A device on an interface.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Bond,
    Ipvlan,
    Macvlan,
    Vlan,
    // Tunnels from the client's first address to the server's:
    Geneve,
    Gre,
    IpIp,
    /// `IPsec` with an interface.
    Ipsec,
    Vxlan,
    WireGuard,
}

impl Device {
    const fn is_tunnel(self) -> bool {
        match self {
            Self::Geneve | Self::Gre | Self::IpIp | Self::Ipsec | Self::Vxlan | Self::WireGuard => true,
            Self::Bond | Self::Ipvlan | Self::Macvlan | Self::Vlan => false,
        }
    }

    /// Arguments of `ip link add` on the host with the first of these addresses.
    fn arguments([own, peer]: [&'static str; 2], device: Self) -> Vec<&'static str> {
        let (link, options): (&[_], &[_]) = match device {
            Self::Bond => (&[], &["bond", "mode", "active-backup", "miimon", "100"]),
            Self::Ipvlan => (&["link", "v0"], &["ipvlan", "mode", "l2"]),
            Self::Macvlan => (&["link", "v0"], &["macvlan", "mode", "bridge"]),
            Self::Vlan => (&["link", "v0"], &["vlan", "id", "7"]),
            Self::Geneve => (&[], &["geneve", "id", "7", "remote", peer]),
            Self::Gre => (&[], &["gre", "local", own, "remote", peer]),
            Self::IpIp => (&[], &["ipip", "local", own, "remote", peer]),
            Self::Ipsec => (&[], &["xfrm", "dev", "v0", "if_id", "7"]),
            Self::Vxlan => (&[], &["vxlan", "id", "7", "local", own, "remote", peer, "dstport", "4789"]),
            Self::WireGuard => (&[], &["wireguard"]),
        };
        [link, &["name", "x0", "type"], options].concat()
    }
}

/// The link layer of a device: its address without the last digit.
#[derive(Clone, Copy)]
enum Link {
    None,
    Own(&'static str),
    /// That of the interface below.
    Inherited(&'static str),
}

pub struct Network {
    /// Names of client, server and what is between them; of one host, its name alone.
    pub names: Vec<String>,
    /// Addresses of client and server that programs use.
    pub ends: [&'static str; 2],
    /// Addresses of the outer packets.
    pub outer: Option<[&'static str; 2]>,
}

const V4: [&str; 2] = ["10.81.0.1", "10.81.0.2"];
const V6: [&str; 2] = ["fd81::1", "fd81::2"];
const INNER: [&str; 2] = ["10.82.0.1", "10.82.0.2"];

impl Network {
    pub fn new(test: &str, between: Between, v6: bool) -> Option<Self> {
        if !is_root(test) {
            return None;
        }
        if Command::new("python3").arg("--version").output().is_err() {
            skipped(test, "python3 is not installed");
            return None;
        }
        let hosts = match between {
            Between::Bridge | Between::Programs => 3,
            Between::Wire | Between::Netkit | Between::Device(_) => 2,
            Between::Loopback => 1,
        };
        let names: Vec<_> = ["rc", "rs", "rb"][..hosts].iter().map(|host| namespace_name(host)).collect();
        let (ends, outer) = match between {
            Between::Wire | Between::Netkit | Between::Bridge | Between::Programs => {
                (if v6 { V6 } else { V4 }, None)
            }
            Between::Device(device) => (INNER, device.is_tunnel().then_some(V4)),
            Between::Loopback => (["127.0.0.1"; 2], None),
        };
        let network = Network { names, ends, outer };
        for name in &network.names {
            if !ip(&["netns", "add", name]) {
                skipped(test, "`ip netns add` (iproute2) is not there or fails");
                return None;
            }
        }
        match between {
            Between::Loopback => {
                assert!(ip(&["-n", &network.names[0], "link", "set", "lo", "up"]));
                return Some(network);
            }
            Between::Wire | Between::Device(_) => network.wire(),
            Between::Netkit => {
                if !network.netkit() {
                    skipped(test, "this kernel makes no netkit devices (Linux 6.7 and later do)");
                    return None;
                }
                network.addresses("v0", [V4, V6], Link::None);
                return Some(network);
            }
            Between::Programs => network.ports(),
            Between::Bridge => {
                if !network.bridge() {
                    skipped(test, "this kernel makes no bridges");
                    return None;
                }
            }
        }
        network.addresses("v0", [V4, V6], Link::Own("02:00:00:00:00:0"));
        if let Between::Device(device) = between
            && let Err(because) = network.device(device)
        {
            skipped(test, because);
            return None;
        }
        Some(network)
    }

    fn wire(&self) {
        let [client, server] = [&self.names[0], &self.names[1]];
        let peer = ["peer", "name", "v0", "netns", server];
        assert!(ip(&[&["link", "add", "v0", "netns", client, "type", "veth"][..], &peer].concat()));
    }

    /// The kernel names the peer, because not every iproute2 has options of netkit.
    fn netkit(&self) -> bool {
        let [client, server] = [&self.names[0], &self.names[1]];
        ip(&["-n", client, "link", "add", "v0", "type", "netkit"])
            && ip(&["-n", client, "link", "set", "nk0", "netns", server])
            && ip(&["-n", server, "link", "set", "nk0", "name", "v0"])
    }

    fn bridge(&self) -> bool {
        let between = &self.names[2];
        if !ip(&["-n", between, "link", "add", "b0", "type", "bridge", "forward_delay", "0"]) {
            return false;
        }
        assert!(ip(&["-n", between, "link", "set", "b0", "up"]));
        self.ports();
        ["p1", "p2"].iter().all(|port| ip(&["-n", between, "link", "set", port, "master", "b0"]))
    }

    /// An interface for each host in the third namespace.
    fn ports(&self) {
        let between = &self.names[2];
        for (host, port) in self.names.iter().zip(["p1", "p2"]) {
            let peer = ["peer", "name", port, "netns", between];
            assert!(ip(&[&["link", "add", "v0", "netns", host, "type", "veth"][..], &peer].concat()));
            assert!(ip(&["-n", between, "link", "set", port, "up"]));
        }
    }

    /// A device on each host's interface, or why there is none.
    fn device(&self, device: Device) -> Result<(), &'static str> {
        for (n, host) in self.names.iter().enumerate() {
            let add = Device::arguments([V4[n], V4[1 - n]], device);
            if !ip(&[&["-n", host, "link", "add"][..], &add].concat()) {
                return Err("this kernel makes no such device");
            }
            if device == Device::Bond {
                assert!(ip(&["-n", host, "link", "set", "v0", "down"]));
                assert!(ip(&["-n", host, "link", "set", "v0", "master", "x0"]));
            }
        }
        let has_keys = match device {
            Device::Ipsec => self.exchange_ipsec_keys(),
            Device::WireGuard => self.exchange_wireguard_keys(),
            _ => true,
        };
        if !has_keys {
            return Err(
                "its keys could not be set: `wg` (wireguard-tools) or a module of the kernel is not there",
            );
        }
        let link = match device {
            Device::Gre | Device::IpIp | Device::Ipsec | Device::WireGuard => Link::None,
            Device::Ipvlan => Link::Inherited("02:00:00:00:00:0"),
            _ => Link::Own("02:00:00:00:01:0"),
        };
        self.addresses("x0", [INNER, ["fd82::1", "fd82::2"]], link);
        Ok(())
    }

    /// A security association in each direction, for the packets of the device.
    fn exchange_ipsec_keys(&self) -> bool {
        let key = format!("0x{}", "5a".repeat(20));
        self.names.iter().enumerate().all(|(n, host)| {
            let xfrm = |arguments: &str| {
                let all: Vec<_> = ["-n", host, "xfrm"].into_iter().chain(arguments.split(' ')).collect();
                ip(&all)
            };
            let state = |from: usize| {
                let (src, dst) = (V4[from], V4[1 - from]);
                xfrm(&format!(
                    "state add src {src} dst {dst} proto esp spi {} reqid 1 mode tunnel if_id 7 aead \
                     rfc4106(gcm(aes)) {key} 128",
                    257 + from
                ))
            };
            let policy = |direction: &str, from: usize| {
                let (src, dst) = (V4[from], V4[1 - from]);
                xfrm(&format!(
                    "policy add src 10.82.0.0/24 dst 10.82.0.0/24 dir {direction} if_id 7 tmpl src {src} dst {dst} \
                     proto esp reqid 1 mode tunnel"
                ))
            };
            state(0) && state(1) && policy("out", n) && policy("in", 1 - n)
        })
    }

    /// A pair of keys for each host, which knows the other one's address; false without `wg`.
    fn exchange_wireguard_keys(&self) -> bool {
        let keys = [0, 1].map(|_| {
            let own = output_of("wg genkey", "")?;
            let public = output_of("wg pubkey", &own)?;
            Some([own, public])
        });
        let [Some(client), Some(server)] = keys else { return false };
        let ends = [(&client[0], &server[1]), (&server[0], &client[1])];
        ends.into_iter().enumerate().all(|(n, (own, other))| {
            let command = format!(
                "ip netns exec {} wg set x0 private-key /proc/self/fd/0 listen-port 51820 peer {} allowed-ips \
                 0.0.0.0/0 endpoint {}:51820",
                self.names[n],
                other.trim(),
                V4[1 - n]
            );
            output_of(&command, own).is_some()
        })
    }

    /// The ends know each other, so that no packet waits for its neighbour's address.
    fn addresses(&self, device: &str, families: [[&str; 2]; 2], link: Link) {
        let (mac, is_own) = match link {
            Link::None => (None, false),
            Link::Own(mac) => (Some(mac), true),
            Link::Inherited(mac) => (Some(mac), false),
        };
        for (n, host) in self.names[..2].iter().enumerate() {
            let on = |arguments: &[&str]| assert!(ip(&[&["-n", host], arguments].concat()), "{arguments:?}");
            let macs = mac.map(|mac| [1, 2].map(|host| format!("{mac}{host}")));
            let own = macs.iter().filter(|_| is_own).flat_map(|macs| ["address", &macs[n]]);
            on(&["link", "set", device, "up"].into_iter().chain(own).collect::<Vec<_>>());
            for (family, length) in families.iter().zip(["24", "64"]) {
                let address = format!("{}/{length}", family[n]);
                let nodad: &[&str] = if length == "64" { &["nodad"] } else { &[] };
                on(&[&["addr", "add", &address, "dev", device][..], nodad].concat());
                let Some(macs) = &macs else { continue };
                let neighbour = ["neigh", "replace", family[1 - n], "lladdr", &macs[1 - n], "dev", device];
                on(&[&neighbour[..], &["nud", "permanent"]].concat());
            }
        }
    }

    /// Drops arriving packets of a host that match an expression of nft; false if nft cannot.
    pub fn drop_arrivals(&self, host: usize, expression: &str) -> bool {
        let rules = format!(
            "table inet row {{\n chain arrivals {{\n type filter hook input priority 0\n {expression} drop\n }}\n}}\n"
        );
        let mut nft = Command::new("ip");
        nft.args(["netns", "exec", &self.names[host], "nft", "-f", "-"]).stdin(Stdio::piped());
        let Ok(mut nft) = nft.spawn() else { return false };
        let written = nft.stdin.take().is_some_and(|mut stdin| stdin.write_all(rules.as_bytes()).is_ok());
        written && nft.wait().is_ok_and(|status| status.success())
    }

    /// Sets a value of `/proc/sys/net` on both hosts.
    pub fn set(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/net/{name}");
        for host in &self.names[..2] {
            in_namespace(host, || std::fs::write(&path, value).expect("a setting of the kernel"));
        }
    }

    /// Name of the client (0) or the server (1).
    pub fn host(&self, n: usize) -> &str {
        self.names.get(n).unwrap_or(&self.names[0])
    }

    /// Name of the host with this end, `address:port`.
    pub fn host_of(&self, end: &str) -> String {
        let address = |n: usize| end.trim_start_matches('[').strip_prefix(self.ends[n]);
        let is = |n: &usize| address(*n).is_some_and(|rest| rest.starts_with([':', ']']));
        let host = [0, 1].into_iter().find(is);
        self.host(host.unwrap_or_else(|| panic!("{end} is no end of this network"))).to_owned()
    }
}

/// The output of a program that gets `input`; `None` if it is not there or fails.
fn output_of(command: &str, input: &str) -> Option<String> {
    let mut words = command.split_whitespace();
    let mut command = Command::new(words.next()?);
    let piped = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.spawn().ok()?;
    child.stdin.take()?.write_all(input.as_bytes()).ok()?;
    let output = child.wait_with_output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}
