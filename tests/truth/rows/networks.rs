//! Ways over other networks than a plain wire.

use super::network::{Between, Network};
use super::scene::{Outcome, Scene, Seen, rows};
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

rows! {
    large_super_packets_over_ipv4:
        "BIG TCP over IPv4", Seen::Complete, big(false);
    large_super_packets_over_ipv6:
        "BIG TCP over IPv6", Seen::Complete, big(true);
    a_bridge_between_two_hosts:
        "TCP through a bridge", Seen::Complete, Scene { between: Between::Bridge, ..TCP };
    a_bridge_between_datagrams:
        "UDP through a bridge, some in fragments", Seen::Complete, Scene { between: Between::Bridge, ..LONG_UDP };
    a_tunnel_between_two_hosts:
        "TCP through VXLAN; the outer packets are a flow of their own", Seen::Complete,
        Scene { between: Between::Vxlan, ..TCP };
    a_tunnel_between_datagrams:
        "UDP through VXLAN; the outer packets are a flow of their own", Seen::Complete,
        Scene { between: Between::Vxlan, ..UDP };
}
