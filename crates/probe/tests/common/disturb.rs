//! Disturbed networks: packets lost by rule (nftables), or lost, delayed, reordered and duplicated (netem).

use super::{CLIENT, Host, Net, SERVER, ip};
use std::fs;
use std::process::{Command, Output};

/// Runs a tool on a host; `None` where it is not installed.
fn tool(host: &Host, name: &str, arguments: &[&str]) -> Option<Output> {
    host.run(|| Command::new(name).args(arguments).output()).ok()
}

/// Drops and counts arrivals at `host` that match the nftables expression `what`. Prints the reason and returns
/// false without nftables.
pub fn drop_arrivals(host: &Host, what: &str) -> bool {
    let rules = format!(
        "table inet lossy {{
            counter dropped {{ }}
            chain arriving {{
                type filter hook prerouting priority raw; policy accept;
                {what} counter name dropped drop
            }}
        }}"
    );
    match tool(host, "nft", &[&rules]) {
        Some(output) if output.status.success() => true,
        Some(output) => {
            println!("skipped, because nftables refuses: {}", String::from_utf8_lossy(&output.stderr));
            false
        }
        None => {
            println!("skipped, because there is no nftables");
            false
        }
    }
}

/// The number after `word` in `text`.
fn number_after(text: &str, word: &str) -> u64 {
    let after = text.split_once(word).unwrap_or_else(|| panic!("no `{word}` in {text}")).1;
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Packets that the rule of [`drop_arrivals`] has dropped.
pub fn dropped_by_rule(host: &Host) -> u64 {
    let output = tool(host, "nft", &["list", "counter", "inet", "lossy", "dropped"]).expect("nftables");
    number_after(&String::from_utf8_lossy(&output.stdout), "packets")
}

/// Replaces the qdisc of `host`'s device with netem (`delay 20ms`, `loss 2%`, …). Prints the reason and returns
/// false without it.
pub fn netem(host: &Host, options: &[&str]) -> bool {
    let arguments = [&["qdisc", "replace", "dev", "v0", "root", "netem", "limit", "10000"], options].concat();
    match tool(host, "tc", &arguments) {
        Some(output) if output.status.success() => true,
        Some(output) => {
            let cause = String::from_utf8_lossy(&output.stderr).trim().replace('\n', " ");
            println!("skipped, because this kernel has no netem ({cause})");
            false
        }
        None => {
            println!("skipped, because there is no tc");
            false
        }
    }
}

/// Sets a token bucket with a short queue on the device of `host`, so that a fast sender loses packets there.
/// Prints the reason and returns false without it.
pub fn short_queue(host: &Host) -> bool {
    let bucket =
        ["qdisc", "replace", "dev", "v0", "root", "tbf", "rate", "20mbit", "burst", "16kb", "limit", "64kb"];
    let done = tool(host, "tc", &bucket).is_some_and(|output| output.status.success());
    if !done {
        println!("skipped, because there is no tc, or this kernel has no tbf");
    }
    done
}

/// Drops all packets except the test's own IPv4: no neighbour discovery, listener reports or ARP. netem's
/// counter then covers the test's packets alone.
pub fn only_ipv4_of_ours(net: &Net) {
    let mac = |host: &Host| {
        let output = tool(host, "ip", &["-o", "link", "show", "v0"]).expect("iproute2");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_once("link/ether ").expect("an address").1.chars().take(17).collect::<String>()
    };
    for (host, other, there) in [(&net.client, &net.server, SERVER), (&net.server, &net.client, CLIENT)] {
        let lladdr = mac(other);
        host.run(|| {
            fs::write("/proc/sys/net/ipv6/conf/v0/disable_ipv6", "1").expect("root may");
            ip(&["neigh", "replace", there, "lladdr", &lladdr, "dev", "v0", "nud", "permanent"]);
        });
    }
}

/// Packets that netem has dropped.
pub fn dropped_by_netem(host: &Host) -> u64 {
    let output = tool(host, "tc", &["-s", "qdisc", "show", "dev", "v0"]).expect("tc");
    number_after(&String::from_utf8_lossy(&output.stdout), "dropped")
}

/// Packets that have left netem, doubles included; `None` while others wait in it.
pub fn left_netem(host: &Host) -> Option<usize> {
    let output = tool(host, "tc", &["-s", "qdisc", "show", "dev", "v0"]).expect("tc");
    let text = String::from_utf8_lossy(&output.stdout);
    // `Sent 4200 bytes 42 pkt (dropped …)`, and `backlog 0b 0p requeues 0` in a line of its own
    let after = |word: &str| text.split_once(word).unwrap_or_else(|| panic!("no `{word}` in {text}")).1;
    let waiting = number_after(after("backlog"), "b ");
    (waiting == 0).then(|| number_after(after("Sent"), "bytes") as usize)
}
