//! Datagrams that a program or rule drops: the verdict names it.

use super::super::checker::hop;
use super::network::Network;
use super::scene::{Outcome, Scene, Seen, rows};
use crate::common::hosts::ip;
use serde_json::Value;
use std::process::Command;
use std::sync::LazyLock;

const fn udp(
    prepare: fn(&Network) -> Result<(), &'static str>,
    also: fn(&Outcome) -> Result<(), &'static str>,
) -> Scene {
    Scene {
        prepare,
        also,
        loses: true,
        ..Scene::of("deciders.py", &["reads", "by_recvfrom"], &["sends", "one_by_one"])
    }
}

/// Attaches a program to the interface of a host.
fn attach(network: &Network, host: usize, of: [&str; 3]) -> Result<(), &'static str> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/truth/rows/deciders.py");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", network.host(host), "python3", "-B", script, "attach"]).args(of);
    let done = command.status().is_ok_and(|status| status.success());
    done.then_some(()).ok_or("this kernel does not attach such a program")
}

/// The same, in the list of classifiers.
fn attach_filter(network: &Network, host: usize, direction: &str) -> Result<(), &'static str> {
    let list = ["netns", "exec", network.host(host), "tc", "qdisc", "add", "dev", "v0", "clsact"];
    if !ip(&list) {
        return Err("this kernel has no clsact, or tc is not installed");
    }
    attach(network, host, ["tc", direction, "seventh"])
}

fn dropped_datagrams(outcome: &Outcome) -> impl Iterator<Item = &Value> {
    outcome.journeys.iter().filter(|journey| journey["proto"] == "udp" && journey["verdict"] == "dropped")
}

/// Every seventh datagram was dropped for this reason, by one program or rule. Its text has a number in the middle.
fn is_by(outcome: &Outcome, reason: &str, [begin, end]: [&str; 2]) {
    let dropped: Vec<u64> = outcome.talks.iter().flat_map(|talk| talk.dropped.clone()).collect();
    assert_eq!(dropped, (0..60).filter(|number| number % 7 == 3).collect::<Vec<_>>());
    let mut all = 0;
    for journey in dropped_datagrams(outcome) {
        let text = |key: &str| journey[key].as_str().unwrap_or_default().to_owned();
        let (by, verdict) = (text("dropped_by"), text("verdict_text"));
        let number = by.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
        assert!(number.is_some_and(|number| number.parse::<u64>().is_ok()), "{by}");
        assert!(verdict.contains(reason) && verdict.ends_with(&format!("({by})")), "{verdict}");
        all += 1;
    }
    assert_eq!(all, dropped.len());
}

/// One of two programs dropped them, and both are named.
fn is_by_one_of_two(outcome: &Outcome) {
    let names_both = |journey: &Value| {
        let by = journey["dropped_by"].as_str().unwrap_or_default();
        by.starts_with("one of 2: ")
            && by.contains("tcx program `seventh`")
            && by.contains("tc program `seventh`")
    };
    assert!(dropped_datagrams(outcome).all(names_both), "{:?}", outcome.journeys);
}

/// True if the kernel shows the socket of a drop (Linux 6.11): the tracepoint has an argument of this name.
static SHOWS_SOCKET: LazyLock<bool> = LazyLock::new(|| {
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default();
    types.windows(7).any(|name| name == b"\0rx_sk\0")
});

/// A filter of the socket dropped them, whose words begin so where the kernel shows the socket of a drop.
fn is_by_a_filter(outcome: &Outcome, words: &str) {
    dropped_datagrams(outcome).for_each(|journey| is_filter(journey, words));
}

/// The same of one journey or copy. A program of a cgroup above the reader's would be another candidate.
fn is_filter(dropped: &Value, words: &str) {
    let words = if *SHOWS_SOCKET { words } else { "a filter of the socket" };
    let by = dropped["dropped_by"].as_str().unwrap_or_default();
    let last = by.rsplit("; ").next().unwrap_or_default();
    let number = last.strip_prefix(words);
    assert!(number.is_some_and(|id| id.is_empty() || id.parse::<u32>().is_ok()), "{by}");
}

/// Two rules of the chain can drop, so that the rule is unknown.
fn is_by_a_chain(outcome: &Outcome) {
    let by = "netfilter table `inet row`, chain `arrivals` at input, rule unknown";
    let mut dropped = dropped_datagrams(outcome);
    assert!(dropped.all(|journey| journey["dropped_by"] == by), "{:?}", outcome.journeys);
}

/// The rules changed before the second half, and no name is certain since then.
fn is_perhaps_since_a_change(outcome: &Outcome) {
    let mut dropped: Vec<_> = dropped_datagrams(outcome).collect();
    dropped.sort_by_key(|journey| hop(journey, "dev.recv").map(|(_, ns, ..)| ns));
    assert_eq!(dropped.len(), 9, "every seventh of 60");
    for (n, journey) in dropped.into_iter().enumerate() {
        let by = journey["dropped_by"].as_str().unwrap_or_default();
        let is_certain = by.starts_with("netfilter table `inet row`, chain `arrivals` at input, rule handle ");
        let is_perhaps = by.starts_with("perhaps netfilter table `inet row`")
            && by.ends_with("; rules have changed since the capture began");
        // A drop shortly before the change may be in doubt too.
        assert!(is_perhaps || is_certain && n < 4, "{n}: {by}");
    }
}

rows! {
    a_filter_of_tc_drops_received_ones:
        "UDP: a tc program drops some at the receiver", Seen::Dropped("the named program of tc dropped it"),
        udp(
            |network| attach_filter(network, 1, "ingress"),
            |outcome| {
                is_by(outcome, "tc_ingress", ["tc program `seventh`, id ", " on v0"]);
                Ok(())
            },
        );
    a_filter_of_tc_drops_sent_ones:
        "UDP: a tc program drops some at the sender", Seen::Dropped("the named program of tc dropped it"),
        udp(
            |network| attach_filter(network, 0, "egress"),
            |outcome| {
                is_by(outcome, "tc_egress", ["tc program `seventh`, id ", " on v0"]);
                Ok(())
            },
        );
    a_program_of_tcx_drops_received_ones:
        "UDP: a tcx program drops some at the receiver", Seen::Dropped("the named program of tcx dropped it"),
        udp(
            |network| attach(network, 1, ["tcx", "ingress", "seventh"]),
            |outcome| {
                is_by(outcome, "tc_ingress", ["tcx program `seventh`, id ", " on v0"]);
                Ok(())
            },
        );
    a_program_of_tcx_drops_sent_ones:
        "UDP: a tcx program drops some at the sender", Seen::Dropped("the named program of tcx dropped it"),
        udp(
            |network| attach(network, 0, ["tcx", "egress", "seventh"]),
            |outcome| {
                is_by(outcome, "tc_egress", ["tcx program `seventh`, id ", " on v0"]);
                Ok(())
            },
        );
    one_of_two_programs_drops_received_ones:
        "UDP: a tc and a tcx program, one of which drops some",
        Seen::Dropped("one of the two named programs dropped it"),
        udp(
            |network| {
                attach_filter(network, 1, "ingress")?;
                attach(network, 1, ["tcx", "ingress", "seventh"])
            },
            |outcome| {
                is_by_one_of_two(outcome);
                Ok(())
            },
        );
    a_generic_xdp_program_drops_received_ones:
        "UDP: an XDP program in generic mode drops some",
        Seen::Dropped("the named program of XDP dropped it; marked *perhaps*, because the kernel gives no reason"),
        udp(
            |network| attach(network, 1, ["xdp_generic", "ingress", "seventh"]),
            |outcome| {
                is_by(outcome, "not_specified", ["perhaps XDP program `seventh`, id ", " on v0"]);
                Ok(())
            },
        );
    a_generic_xdp_program_passes_received_ones:
        "UDP over IPv6 through an XDP program in generic mode",
        Seen::Marked("the kernel copies the packet for it, and without an identification only order connects both"),
        Scene {
            v6: true,
            loses: false,
            ..udp(|network| attach(network, 1, ["xdp_generic", "ingress", "passes"]), |_| Ok(()))
        };
    an_xdp_program_of_the_driver_drops_received_ones:
        "UDP: an XDP program of a driver drops some",
        Seen::Dropped("the named program of XDP dropped it; marked *perhaps*, because the kernel gives no reason"),
        udp(
            |network| attach(network, 1, ["xdp", "ingress", "seventh"]),
            |outcome| {
                is_by(outcome, "not_specified", ["perhaps XDP program `seventh`, id ", " on v0"]);
                Ok(())
            },
        );
    a_program_of_a_cgroup_drops_sent_ones:
        "UDP: a program of the sender's cgroup drops some, and the calls fail",
        Seen::Dropped("the named program of the cgroup dropped it"),
        Scene {
            before_capture: true,
            loses: true,
            prepare: |_| {
                let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
                mounts.contains(" cgroup2 ").then_some(()).ok_or("no cgroup v2 is mounted")
            },
            also: |outcome| {
                let group = outcome.journeys.iter().find_map(|j| j["dropped_by"].as_str()?.rsplit_once(" on "));
                let end = group.map(|(_, path)| format!(" on {path}")).unwrap_or_default();
                assert!(end.starts_with(" on /magscope-row-"), "{end}");
                is_by(outcome, "bpf_cgroup_egress", ["cgroup program `seventh`, id ", &end]);
                Ok(())
            },
            ..Scene::of("deciders.py", &["reads_later"], &["sends_in_cgroup"])
        };
    a_filter_of_a_socket_drops_received_ones:
        "UDP: a classic filter of the receiver's socket drops some",
        Seen::Dropped("a filter of the socket dropped it; since Linux 6.11 a *classic* one"),
        Scene {
            loses: true,
            also: |outcome| {
                is_by_a_filter(outcome, "a classic socket filter");
                Ok(())
            },
            ..Scene::of("deciders.py", &["reads_through_filter"], &["sends", "one_by_one"])
        };
    a_program_of_a_socket_drops_received_ones:
        "UDP: a program of the receiver's socket drops some",
        Seen::Dropped("a filter of the socket dropped it; since Linux 6.11 the named program"),
        Scene {
            before_capture: true,
            loses: true,
            also: |outcome| {
                is_by_a_filter(outcome, "socket filter `seventh`, id ");
                Ok(())
            },
            ..Scene::of("deciders.py", &["reads_through_program"], &["sends_later"])
        };
    a_program_of_a_socket_drops_segments:
        "TCP: a program of the receiver's socket drops some segments", Seen::Complete,
        Scene {
            also: |outcome| {
                let copies = outcome.journeys.iter().filter_map(|journey| journey["copies"].as_array()).flatten();
                let dropped: Vec<_> = copies.filter(|copy| copy["drop_name"].is_string()).collect();
                assert!(!dropped.is_empty(), "nothing was dropped");
                for copy in dropped {
                    is_filter(copy, "socket filter, id ");
                }
                Ok(())
            },
            ..Scene::of("deciders.py", &["reads_stream_through_program"], &["sends_stream"])
        };
    a_program_of_a_group_refuses_received_ones:
        "UDP: a program of a `SO_REUSEPORT` group refuses some",
        Seen::Dropped("no socket was there for it (`no_socket`); the program has no name"),
        Scene {
            loses: true,
            also: |outcome| {
                let is_nameless = |journey: &Value| {
                    let verdict = journey["verdict_text"].as_str().unwrap_or_default();
                    journey["dropped_by"].is_null() && verdict.contains("no_socket")
                };
                assert!(dropped_datagrams(outcome).all(is_nameless), "{:?}", outcome.journeys);
                Ok(())
            },
            ..Scene::of("deciders.py", &["reads_in_group"], &["sends_without_peer"])
        };
    a_rule_of_netfilter_drops_received_ones:
        "UDP: a rule of nftables drops some", Seen::Dropped("the named rule dropped it"),
        udp(
            |network| {
                let lossy = network.drop_arrivals(1, "udp dport 7100 numgen inc mod 7 == 3");
                lossy.then_some(()).ok_or("nft with numgen is not there")
            },
            |outcome| {
                let chain = "netfilter table `inet row`, chain `arrivals` at input, rule handle ";
                is_by(outcome, "netfilter_drop", [chain, ""]);
                Ok(())
            },
        );
    one_of_two_rules_of_netfilter_drops_received_ones:
        "UDP: one of two rules of nftables drops some", Seen::Dropped("the named chain dropped it; rule unknown"),
        udp(
            |network| {
                let rules = "udp dport 7200 drop\n udp dport 7100 numgen inc mod 7 == 3";
                network.drop_arrivals(1, rules).then_some(()).ok_or("nft with numgen is not there")
            },
            |outcome| {
                is_by_a_chain(outcome);
                Ok(())
            },
        );
    a_rule_is_added_while_others_drop:
        "UDP: a rule of nftables drops some, and another rule is added meanwhile",
        Seen::Dropped("the named rule dropped it; marked *perhaps* after the change"),
        Scene {
            loses: true,
            prepare: |network| {
                let lossy = network.drop_arrivals(1, "udp dport 7100 numgen inc mod 7 == 3");
                lossy.then_some(()).ok_or("nft with numgen is not there")
            },
            also: |outcome| {
                is_perhaps_since_a_change(outcome);
                Ok(())
            },
            ..Scene::of("deciders.py", &["reads_and_adds_a_rule"], &["sends_in_halves"])
        };
}
