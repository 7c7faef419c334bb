//! Packets that a program sends on, or back, before the stack of their host has them.

use super::network::{Between, Network};
use super::scene::{CoverageRow, Scene, Seen, run};
use serde_json::Value;
use std::process::Command;

/// Runs a program in the namespace of a host.
fn runs(network: &Network, host: usize, words: &[&str]) -> bool {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", network.host(host)]).args(words);
    command.output().is_ok_and(|output| output.status.success())
}

fn attach(network: &Network, host: usize, of: &[&str]) -> Result<(), &'static str> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/truth/rows/redirects.py");
    let attached = runs(network, host, &[&["python3", "-B", script, "attach"], of].concat());
    attached.then_some(()).ok_or("this kernel does not attach such a program")
}

/// Both interfaces of the third namespace have a program, which sends to the other one.
fn attach_both(network: &Network, kind: &str) -> Result<(), &'static str> {
    attach(network, 2, &[kind, "p1", "p2"])?;
    attach(network, 2, &[kind, "p2", "p1"])
}

/// A host takes frames of programs, and sends complete checksums, because no program completes them.
fn pass_frames(network: &Network, host: usize) -> Result<(), &'static str> {
    attach(network, host, &["passing", "v0"])?;
    let is_off = runs(network, host, &["ethtool", "-K", "v0", "tx", "off"]);
    is_off.then_some(()).ok_or("ethtool is not there, or cannot switch checksums off")
}

/// The same with programs of the drivers, whose frames only hosts with a program take.
fn attach_drivers(network: &Network) -> Result<(), &'static str> {
    pass_frames(network, 0)?;
    pass_frames(network, 1)?;
    attach_both(network, "xdp")
}

const fn between(scene: &Scene, prepare: fn(&Network) -> Result<(), &'static str>) -> Scene {
    Scene { between: Between::Programs, prepare, ..Scene::of(scene.programs, scene.server, scene.client) }
}

mod onward {
    use super::super::scene::{Scene, Seen, rows};
    use super::{attach_both, attach_drivers, between};

    const TCP: Scene = Scene::of("streams.py", &["reads", "large"], &["sends", "plainly"]);
    const UDP: Scene = Scene::of("packets.py", &["reads", "by_recvfrom"], &["sends", "one_by_one"]);

    rows! {
        a_program_of_tcx_redirects_a_stream:
            "TCP: a tcx program redirects to another interface", Seen::Complete,
            between(&TCP, |network| attach_both(network, "tcx"));
        a_program_of_tcx_redirects_datagrams:
            "UDP: a tcx program redirects to another interface", Seen::Complete,
            between(&UDP, |network| attach_both(network, "tcx"));
        a_generic_xdp_program_redirects_datagrams:
            "UDP: an XDP program in generic mode redirects to another interface", Seen::Complete,
            between(&UDP, |network| attach_both(network, "xdp_generic"));
        an_xdp_program_of_the_driver_redirects_a_stream:
            "TCP: an XDP program of a driver redirects to another interface", Seen::Complete,
            between(&TCP, attach_drivers);
        an_xdp_program_of_the_driver_redirects_datagrams:
            "UDP: an XDP program of a driver redirects to another interface", Seen::Complete,
            between(&UDP, attach_drivers);
    }
}

const OWN: &[CoverageRow] = &[CoverageRow {
    test: "an_xdp_program_sends_datagrams_back",
    words: "UDP: an XDP program of a driver sends some back (`XDP_TX`)",
    seen: Seen::Ends(
        "complete; *lost*, where they were sent back, and *perhaps taken* by the named program; what comes back is a half journey",
    ),
}];

pub const ROWS: &[&[CoverageRow]] = &[onward::ROWS, OWN];

fn of_udp<'a>(journeys: &'a [Value], to: &'a str) -> impl Iterator<Item = &'a Value> {
    let is_to = move |journey: &&Value| journey["to"].as_str().is_some_and(|end| end.ends_with(to));
    journeys.iter().filter(|journey| journey["proto"] == "udp").filter(is_to)
}

/// No hop shows the program itself: datagrams leave an interface, and others come in.
#[test]
fn an_xdp_program_sends_datagrams_back() {
    let scene = Scene {
        prepare: |network| {
            pass_frames(network, 0)?;
            attach(network, 1, &["back", "v0"])
        },
        ..Scene::of("redirects.py", &["reads_others"], &["sends_to_be_sent_back"])
    };
    let Some(outcome) = run("XDP_TX", &scene) else { return };
    let away: Vec<_> = of_udp(&outcome.journeys, ":7100").collect();
    let lost: Vec<_> = away.iter().filter(|journey| journey["verdict"] != "complete").collect();
    assert!(away.len() == 12 && lost.len() == 2, "{away:#?}");
    for journey in lost {
        let verdict = journey["verdict_text"].as_str().unwrap_or_default();
        let (hop, by) = verdict.split_once(" (").unwrap_or_default();
        assert!(matches!(hop, "lost after dev.xmit" | "lost after dev.done"), "{verdict}");
        let number = by.strip_prefix("perhaps taken by XDP program `back`, id ");
        let number = number.and_then(|rest| rest.strip_suffix(" on v0)"));
        assert!(number.is_some_and(|number| number.parse::<u32>().is_ok()), "{verdict}");
    }
    let back: Vec<_> = of_udp(&outcome.journeys, ":7101").collect();
    let are_halves = back.iter().all(|journey| journey["verdict"] == "half");
    assert!(back.len() == 2 && are_halves, "{back:#?}");
}
