//! A client, a router and a server in separate namespaces, and their recorders.

#![allow(dead_code)] // each test file uses a part

use super::{eventually, magnet_scope, skipped};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub const CLIENT: &str = "10.77.1.2";
pub const SERVER: &str = "10.77.2.2";
/// The server after [`Hosts::add_ipv6`].
pub const SERVER_6: &str = "fd77:2::2";

/// Prefix of the tests' namespaces.
pub const NAMESPACES: &str = "ms-";

/// A unique name for a network namespace.
pub fn namespace_name(purpose: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{NAMESPACES}{}-{}-{purpose}", std::process::id(), NUMBER.fetch_add(1, Relaxed))
}

/// A client, a router and a server: namespaces removed on drop.
pub struct Hosts {
    /// Names of client, router, server.
    pub names: [String; 3],
}

impl Hosts {
    pub fn new(test: &str) -> Option<Self> {
        let name = |role: &str| namespace_name(&format!("{test}-{role}"));
        let hosts = Hosts { names: [name("c"), name("r"), name("s")] };
        for namespace in &hosts.names {
            if !ip(&["netns", "add", namespace]) {
                skipped(test, "`ip netns add` (iproute2) is not there or fails");
                return None;
            }
        }
        let [client, router, server] = &hosts.names;
        for (host, device, port) in [(client, "c0", "r1"), (server, "s0", "r2")] {
            assert!(ip(&[
                "link", "add", device, "netns", host, "type", "veth", "peer", "name", port, "netns", router
            ]));
        }
        hosts.address_client();
        hosts.address([server, "s0", SERVER, "r2", "10.77.2.1"]);
        in_namespace(router, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").expect("a router"));
        Some(hosts)
    }

    /// Addresses and a route between the client and the router.
    pub fn address_client(&self) {
        self.address([&self.names[0], "c0", CLIENT, "r1", "10.77.1.1"]);
    }

    fn address(&self, [host, device, address, port, gateway]: [&str; 5]) {
        for (namespace, device, address) in [(host, device, address), (&*self.names[1], port, gateway)] {
            assert!(ip(&["-n", namespace, "addr", "add", &format!("{address}/24"), "dev", device]));
            assert!(ip(&["-n", namespace, "link", "set", device, "up"]));
            assert!(ip(&["-n", namespace, "link", "set", "lo", "up"]));
        }
        assert!(ip(&["-n", host, "route", "add", "default", "via", gateway]));
    }

    /// Adds IPv6 addresses and routes; false where the kernel has no IPv6.
    pub fn add_ipv6(&self) -> bool {
        let [client, router, server] = &self.names;
        let all = "/proc/sys/net/ipv6/conf/all/forwarding";
        if !in_namespace(router, || std::fs::write(all, "1").is_ok()) {
            return false;
        }
        let ends = [(client, "c0", "r1", "fd77:1::"), (server, "s0", "r2", "fd77:2::")];
        ends.iter().all(|(host, device, port, net)| {
            let add = |namespace: &str, address: &str, device: &str| {
                ip(&["-n", namespace, "addr", "add", address, "dev", device, "nodad"])
            };
            add(host, &format!("{net}2/64"), device)
                && add(router, &format!("{net}1/64"), port)
                && ip(&["-n", host, "route", "add", "default", "via", &format!("{net}1")])
        })
    }

    /// Enables source NAT of IPv4 on the router.
    pub fn translate(&self) -> bool {
        self.translate_family("ip")
    }

    /// Enables source NAT of `ip` or `ip6` on the router.
    pub fn translate_family(&self, family: &str) -> bool {
        let rules = format!(
            "table {family} nat {{\n chain post {{\n type nat hook postrouting priority 100\n \
             oifname \"r2\" masquerade random\n }}\n}}\n"
        );
        let mut nft = Command::new("ip");
        nft.args(["netns", "exec", &self.names[1], "nft", "-f", "-"]).stdin(std::process::Stdio::piped());
        let Ok(mut nft) = nft.spawn() else { return false };
        let written = nft.stdin.take().is_some_and(|mut stdin| stdin.write_all(rules.as_bytes()).is_ok());
        written && nft.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for namespace in &self.names {
            ip(&["netns", "del", namespace]);
        }
    }
}

pub fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(std::process::Stdio::null()).status().is_ok_and(|s| s.success())
}

/// Runs `work` on a host, in a temporary thread.
pub fn in_namespace<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let file = File::open(Path::new("/run/netns").join(name)).expect("the namespace");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may enter");
            work()
        });
        thread.join().expect("the work is done")
    })
}

/// A recorder of one host.
pub struct RecorderChild(Child);

impl RecorderChild {
    pub fn start(namespace: &str, dir: &str) -> Self {
        let child = magnet_scope(&["record", "--netns", namespace, "--hops", "all", "-o", dir]).spawn();
        let child = RecorderChild(child.expect("the binary starts"));
        assert!(eventually(|| Path::new(dir).join("meta.toml").exists()), "it records");
        child
    }

    /// A recorder that was started otherwise.
    pub fn of(child: Child) -> Self {
        RecorderChild(child)
    }

    pub fn end(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::INT).expect("it is there");
        assert!(self.0.wait().expect("it ends").success());
    }
}
