//! TCP sockets that the kernel itself uses: their bytes end as delivered to it, and no call has a range of its own.

use super::network::{Between, Network};
use super::scene::{CoverageRow, Outcome, Scene, Seen, run};
use crate::common::skipped;
use serde_json::Value;
use std::fs;

const NOT_FOLLOWED: &str = "*delivered*, because the kernel takes the bytes from the socket";

const HAS_MULTIPATH: fn(&Network) -> Result<(), &'static str> = |_| {
    let enabled = fs::read_to_string("/proc/sys/net/mptcp/enabled").unwrap_or_default();
    if enabled.trim() == "1" { Ok(()) } else { Err("this kernel has no MPTCP") }
};

const IS_NAMED: fn(&Outcome) -> Result<(), &'static str> = |outcome| {
    let mut journeys = of_tcp(&outcome.journeys);
    assert!(journeys.all(|journey| words(journey).contains("MPTCP")), "{:?}", outcome.journeys);
    Ok(())
};

mod multipath {
    use super::super::scene::{Scene, Seen, rows};
    use super::{HAS_MULTIPATH, IS_NAMED, NOT_FOLLOWED};

    rows! {
        a_subflow_delivers_to_multipath_tcp:
            "TCP: subflows of Multipath TCP", Seen::Noted(NOT_FOLLOWED),
            Scene {
                prepare: HAS_MULTIPATH,
                also: IS_NAMED,
                ..Scene::of("consumers.py", &["reads_multipath"], &["sends_multipath"])
            };
    }
}

const OWN: &[CoverageRow] = &[
    CoverageRow {
        test: "a_sockmap_takes_what_its_socket_receives",
        words: "TCP: a sockmap's verdict program (`sk_skb`)",
        seen: Seen::Ends(NOT_FOLLOWED),
    },
    CoverageRow {
        test: "what_a_sockmap_redirects_has_no_journey",
        words: "TCP: a sockmap's program that redirects to a receive queue (`sk_msg`)",
        seen: Seen::Ends("no journey, because TCP has none of the bytes; the calls name the sockmap"),
    },
    CoverageRow {
        test: "tls_in_the_kernel_has_no_range_of_its_calls",
        words: "TCP: TLS in the kernel",
        seen: Seen::Ends("*delivered* from `tcp.send` on, because calls have other bytes than the stream"),
    },
];

pub const ROWS: &[&[CoverageRow]] = &[multipath::ROWS, OWN];

fn words(journey: &Value) -> &str {
    journey["verdict_text"].as_str().unwrap_or_default()
}

/// Without those of neighbours' discovery.
fn of_tcp(journeys: &[Value]) -> impl Iterator<Item = &Value> {
    journeys.iter().filter(|journey| journey["proto"] == "tcp")
}

/// Bytes of the journeys to an end with a verdict.
fn bytes(journeys: &[Value], to: &str, verdict: &str) -> u64 {
    let its = of_tcp(journeys).filter(|j| j["to"].as_str().is_some_and(|end| end.ends_with(to)));
    its.filter(|j| j["verdict"] == verdict).filter_map(|j| j["bytes"].as_u64()).sum()
}

/// The kernel sends the bytes back: both directions have all of them, and none was dropped.
#[test]
fn a_sockmap_takes_what_its_socket_receives() {
    let scene = Scene::of("consumers.py", &["echoes_by_sockmap"], &["sends_to_sockmap"]);
    let Some(Outcome { journeys, .. }) = run("a sockmap", &scene) else { return };
    assert_eq!(bytes(&journeys, ":7100", "delivered"), 30_000, "{journeys:#?}");
    assert_eq!(bytes(&journeys, ":7101", "complete"), 30_000, "{journeys:#?}");
    assert_eq!(of_tcp(&journeys).filter_map(|j| j["bytes"].as_u64()).sum::<u64>(), 60_000, "{journeys:#?}");
    assert!(journeys.iter().any(|journey| words(journey).contains("a sockmap")));
}

/// No call has a range, so no journey is invented.
#[test]
fn what_a_sockmap_redirects_has_no_journey() {
    let scene =
        Scene { between: Between::Loopback, ..Scene::of("consumers.py", &["redirects_messages"], &["idles"]) };
    let Some(Outcome { journeys, .. }) = run("a redirecting sockmap", &scene) else { return };
    assert_eq!(of_tcp(&journeys).count(), 0, "{journeys:#?}");
}

/// Ciphertext is longer than what the calls say.
#[test]
fn tls_in_the_kernel_has_no_range_of_its_calls() {
    let test = "TLS in the kernel";
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp").unwrap_or_default();
    if !available.split_whitespace().any(|name| name == "tls") {
        return skipped(test, "this kernel has no TLS");
    }
    let scene = Scene::of("consumers.py", &["reads_tls"], &["sends_tls"]);
    let Some(Outcome { journeys, .. }) = run(test, &scene) else { return };
    let delivered = bytes(&journeys, ":7100", "delivered");
    assert!(delivered > 30_000, "{delivered} bytes of ciphertext: {journeys:#?}");
    assert_eq!(bytes(&journeys, ":7100", "complete"), 0, "{journeys:#?}");
}
