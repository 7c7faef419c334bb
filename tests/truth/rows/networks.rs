//! Ways over other networks than a plain wire.

use super::super::checker::hop;
use super::network::{Between, Device, Network};
use super::scene::{Outcome, Scene, Seen, rows};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const TCP: Scene = Scene::of("streams.py", &["reads", "large"], &["sends", "plainly"]);
const UDP: Scene = Scene::of("packets.py", &["reads", "by_recvfrom"], &["sends", "one_by_one"]);
const LONG_UDP: Scene = Scene::of("packets.py", &["reads", "by_recvfrom"], &["sends", "of_several_lengths"]);

const fn big(v6: bool) -> Scene {
    let prepare = |network: &Network| {
        let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/truth/rows/networks.py");
        let enlarged = network.names.iter().all(|host| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", host, "python3", "-B", programs, "big", "v0", "180000"]);
            command.status().is_ok_and(|status| status.success())
        });
        enlarged.then_some(()).ok_or("this kernel has no super-packets above 64 KiB")
    };
    let also = |outcome: &Outcome| {
        let bytes = outcome.journeys.iter().filter_map(|journey| journey["bytes"].as_u64()).max();
        (bytes > Some(65_536)).then_some(()).ok_or("no packet had more than 64 KiB")
    };
    Scene { v6, prepare, also, ..Scene::of("streams.py", &["reads", "large"], &["sends", "much"]) }
}

/// Received datagrams or segments that did not pass `napi.poll` between their driver and `dev.recv`.
fn without_poll(journeys: &[Value]) -> Vec<&Value> {
    let time = |journey: &Value, name: &str| hop(journey, name).map(|(_, ns, ..)| ns);
    let is_without = |journey: &&Value| {
        let times = ["dev.xmit", "napi.poll", "dev.recv"].map(|name| time(journey, name));
        let is_talk = journey["proto"] == "tcp" || journey["proto"] == "udp";
        is_talk && times[2].is_some() && (times.contains(&None) || !times.is_sorted())
    };
    journeys.iter().filter(is_without).collect()
}

/// The server's interface merges packets: it holds each for a millisecond, in which the next ones come.
const fn merging(v6: bool, scene: &'static Scene) -> Scene {
    let prepare = |network: &Network| {
        let [client, server] = [network.host(0), network.host(1)];
        let runs = |host: &str, words: &[&str]| {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", host]).args(words);
            command.status().is_ok_and(|status| status.success())
        };
        if !runs(client, &["ethtool", "-K", "v0", "tso", "off", "gso", "off"])
            || !runs(server, &["ethtool", "-K", "v0", "gro", "on"])
        {
            return Err("ethtool is not there, or this kernel's veth does not merge packets");
        }
        let holds = "echo 1000000 >/sys/class/net/v0/gro_flush_timeout";
        runs(server, &["sh", "-c", holds]).then_some(()).ok_or("this kernel holds no packets to merge them")
    };
    let also = |outcome: &Outcome| {
        let time = |journey: &Value, name: &str| hop(journey, name).map(|(_, ns, ..)| ns);
        let mut sent_at = BTreeMap::new();
        let has_merged = outcome.journeys.iter().any(|journey| {
            let ends = (time(journey, "dev.recv"), time(journey, "dev.xmit"));
            let (Some(received), Some(sent)) = ends else { return false };
            *sent_at.entry(received).or_insert(sent) != sent
        });
        has_merged.then_some(()).ok_or("the interface merged no packets")
    };
    Scene { v6, prepare, also, ..*scene }
}

const WITH_POLL: &str = "default,ip.post,dev.queue,napi.poll,ip.pre,ip.in,app.copy";

/// The same, and the hop before GRO is recorded.
const fn polled(v6: bool, scene: &'static Scene) -> Scene {
    let also = |outcome: &Outcome| {
        let without = without_poll(&outcome.journeys);
        assert!(without.is_empty(), "{} of {}: {}", without.len(), outcome.journeys.len(), without[0]);
        (merging(false, &TCP).also)(outcome)
    };
    Scene { hops: WITH_POLL, also, ..merging(v6, scene) }
}

const EQUAL_DATAGRAMS: Scene = Scene::of("packets.py", &["reads", "with_gro"], &["sends", "of_one_length"]);

/// The same, and each inner packet is tied to its outer one.
const fn tunnel(device: Device, scene: &'static Scene) -> Scene {
    let also = |outcome: &Outcome| {
        let is_talk = |journey: &&Value| journey["proto"] == "tcp" || journey["proto"] == "udp";
        for journey in outcome.journeys.iter().filter(is_talk) {
            is_tied(journey).unwrap_or_else(|what| panic!("{what}: {journey}"));
        }
        Ok(())
    };
    Scene { also, ..through(device, scene) }
}

/// Whether a journey has the hops of its outer packet at both hosts, between those of the tunnel's devices.
fn is_tied(journey: &Value) -> Result<(), &'static str> {
    let nodes = ["from_node", "to_node"].map(|key| journey[key].clone());
    let tunnels = journey["tunnels"].as_array().into_iter().flatten();
    let outer: Vec<Value> = tunnels.map(|one| one["node"].clone()).collect();
    if outer != nodes {
        return Err("not one passage of an outer packet at each host");
    }
    let rungs = || journey["rungs"].as_array().into_iter().flatten();
    let of = |tunnel: u64| rungs().filter(move |rung| rung["tunnel"].as_u64().unwrap_or(0) == tunnel);
    let time = |rung: &Value| rung["time_ns"].as_u64();
    let at = |name: &str| of(0).find(|rung| rung["hop"] == name).and_then(time);
    let ends = |n| (of(n).filter_map(time).min(), of(n).filter_map(time).max());
    let ((first, left), (came, last)) = (ends(1), ends(2));
    let times = [at("dev.xmit"), first, left, came, last, at("dev.recv")];
    let is_whole = !times.contains(&None) && times.is_sorted();
    is_whole.then_some(()).ok_or("its outer packet has no hops, or not between its own")
}

const fn through(device: Device, scene: &'static Scene) -> Scene {
    Scene { between: Between::Device(device), ..*scene }
}

const OUTER_FOURTH_IS_LOST: fn(&Network) -> Result<(), &'static str> = |network| {
    let lossy = network.drop_arrivals(1, "udp dport 4789 udp length > 300 numgen inc mod 4 == 3");
    lossy.then_some(()).ok_or("nft with numgen is not there")
};

rows! {
    large_super_packets_over_ipv4:
        "BIG TCP over IPv4", Seen::Complete, big(false);
    large_super_packets_over_ipv6:
        "BIG TCP over IPv6", Seen::Complete, big(true);
    a_bridge_between_two_hosts:
        "TCP through a bridge", Seen::Complete, Scene { between: Between::Bridge, ..TCP };
    a_bridge_between_datagrams:
        "UDP through a bridge, some in fragments", Seen::Complete, Scene { between: Between::Bridge, ..LONG_UDP };
    a_pair_of_netkit_devices:
        "TCP through a pair of netkit devices", Seen::Complete, Scene { between: Between::Netkit, ..TCP };
    a_pair_of_netkit_devices_between_datagrams:
        "UDP through a pair of netkit devices", Seen::Complete, Scene { between: Between::Netkit, ..UDP };
    a_bond_between_two_hosts:
        "TCP through a bonding interface", Seen::Complete, through(Device::Bond, &TCP);
    a_bond_between_datagrams:
        "UDP through a bonding interface", Seen::Complete, through(Device::Bond, &UDP);
    an_ipvlan_between_two_hosts:
        "TCP through ipvlan", Seen::Complete, through(Device::Ipvlan, &TCP);
    an_ipvlan_between_datagrams:
        "UDP through ipvlan", Seen::Complete, through(Device::Ipvlan, &UDP);
    a_macvlan_between_two_hosts:
        "TCP through macvlan", Seen::Complete, through(Device::Macvlan, &TCP);
    a_macvlan_between_datagrams:
        "UDP through macvlan", Seen::Complete, through(Device::Macvlan, &UDP);
    a_vlan_between_two_hosts:
        "TCP through a VLAN", Seen::Complete, through(Device::Vlan, &TCP);
    a_vlan_between_datagrams:
        "UDP through a VLAN", Seen::Complete, through(Device::Vlan, &UDP);
    a_tunnel_between_two_hosts:
        "TCP through VXLAN, each with its outer packet", Seen::Complete,
        tunnel(Device::Vxlan, &TCP);
    a_tunnel_between_datagrams:
        "UDP through VXLAN, each with its outer packet", Seen::Complete,
        tunnel(Device::Vxlan, &UDP);
    outer_packets_are_dropped:
        "UDP through VXLAN, and a rule drops some outer packets",
        Seen::Dropped("a rule of netfilter dropped its outer packet"),
        Scene { prepare: OUTER_FOURTH_IS_LOST, loses: true, ..through(Device::Vxlan, &UDP) };
    a_geneve_tunnel_between_two_hosts:
        "TCP through Geneve, each with its outer packet", Seen::Complete,
        tunnel(Device::Geneve, &TCP);
    a_geneve_tunnel_between_datagrams:
        "UDP through Geneve, each with its outer packet", Seen::Complete,
        tunnel(Device::Geneve, &UDP);
    a_gre_tunnel_between_two_hosts:
        "TCP through GRE, each with its outer packet", Seen::Complete,
        tunnel(Device::Gre, &TCP);
    a_gre_tunnel_between_datagrams:
        "UDP through GRE, each with its outer packet", Seen::Complete,
        tunnel(Device::Gre, &UDP);
    an_ip_tunnel_between_two_hosts:
        "TCP through IP-in-IP, each with its outer packet", Seen::Complete,
        tunnel(Device::IpIp, &TCP);
    an_ip_tunnel_between_datagrams:
        "UDP through IP-in-IP, each with its outer packet", Seen::Complete,
        tunnel(Device::IpIp, &UDP);
    ipsec_between_two_hosts:
        "TCP through IPsec with an interface", Seen::Complete, through(Device::Ipsec, &TCP);
    ipsec_between_datagrams:
        "UDP through IPsec with an interface", Seen::Complete, through(Device::Ipsec, &UDP);
    wireguard_between_two_hosts:
        "TCP through WireGuard", Seen::Complete, through(Device::WireGuard, &TCP);
    wireguard_between_datagrams:
        "UDP through WireGuard, each with its outer packet", Seen::Complete,
        tunnel(Device::WireGuard, &UDP);
    merged_segments_over_ipv4:
        "TCP over IPv4: segments that the receiving interface merges (GRO)", Seen::Complete, merging(false, &TCP);
    merged_segments_over_ipv6:
        "TCP over IPv6: segments that the receiving interface merges (GRO)", Seen::Complete, merging(true, &TCP);
    merged_datagrams_over_ipv4:
        "UDP over IPv4: datagrams that the receiving interface merges, read with `UDP_GRO`", Seen::Complete,
        merging(false, &EQUAL_DATAGRAMS);
    merged_datagrams_over_ipv6:
        "UDP over IPv6: datagrams that the receiving interface merges, read with `UDP_GRO`",
        Seen::Marked("merged datagrams share a buffer, and those of IPv6 have no identification"),
        merging(true, &EQUAL_DATAGRAMS);
    polled_segments_over_ipv4:
        "TCP over IPv4: segments that the receiving interface merges (GRO), with `napi.poll`", Seen::Complete,
        polled(false, &TCP);
    polled_segments_over_ipv6:
        "TCP over IPv6: segments that the receiving interface merges (GRO), with `napi.poll`", Seen::Complete,
        polled(true, &TCP);
    polled_datagrams_over_ipv4:
        "UDP over IPv4: datagrams that the receiving interface merges, with `napi.poll`", Seen::Complete,
        polled(false, &EQUAL_DATAGRAMS);
    polled_datagrams_over_ipv6:
        "UDP over IPv6: datagrams that the receiving interface merges; `napi.poll` is in no journey",
        Seen::Marked("merged datagrams share a buffer, and those of IPv6 have no identification"),
        Scene { hops: WITH_POLL, ..merging(true, &EQUAL_DATAGRAMS) };
}
