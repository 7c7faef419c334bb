//! pcapng compared with tshark and tcpdump.

use crate::common::exports::{export, table, tool};
use crate::common::{stderr, stdout};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

#[test]
fn tshark_reads_the_packets_to_the_nanosecond() {
    let test = "tshark_reads_the_packets_to_the_nanosecond";
    if !tool(test, "tshark") || !tool(test, "tcpdump") {
        return;
    }
    for session in ["demo", "drops", "half", "retransmissions"] {
        let dir = TempDir::new().expect("a directory");
        let out = export(&dir, session, "pcapng", &["--hops", "dev.xmit,dev.recv,ip.out,ip.in"]);
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r"]).arg(&out).args(["-T", "fields", "-E", "separator=;"]);
        for field in [
            "frame.time_epoch",
            "frame.interface_name",
            "ip.src",
            "ip.dst",
            "tcp.seq_raw",
            "tcp.len",
            "udp.length",
            "ip.id",
            "frame.packet_id",
            "frame.comment",
        ] {
            tshark.args(["-e", field]);
        }
        let output = tshark.output().expect("tshark runs");
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        let seen: Vec<Vec<&str>> = text.lines().map(|line| line.split(';').collect()).collect();
        let wire = ["dev.xmit", "dev.recv", "ip.out", "ip.in"];
        let events = table(&dir, session, "events");
        let flows: BTreeSet<String> =
            table(&dir, session, "flows").iter().map(|flow| flow["flow"].to_string()).collect();
        let events: Vec<_> = events
            .iter()
            .filter(|e| wire.contains(&e["hop"].as_str().unwrap_or_default()))
            .filter(|e| e.get("flow").is_some_and(|flow| flows.contains(&flow.to_string())))
            .collect();
        assert!(!events.is_empty());
        assert_eq!(seen.len(), events.len(), "{session}");
        assert_eq!(read_by_tcpdump(&out), events.len(), "{session}");
        let mut numbered = 0;
        for (fields, event) in seen.iter().zip(&events) {
            let ns: i128 = fields[0].replace('.', "").parse().expect("a time");
            assert_eq!(Value::from(i64::try_from(ns).expect("a time of today")), event["ts_ns"], "{session}");
            assert!(fields[1].ends_with(event["hop"].as_str().expect("a hop")), "{fields:?}");
            match event["proto"].as_str() {
                Some("tcp") => {
                    // A SYN uses a sequence number before the first byte.
                    let syn = event["tcp_flags"].as_u64().map_or(0, |flags| flags >> 1 & 1);
                    let seq = event["seq"].as_u64().map(|seq| seq.wrapping_sub(syn) & 0xffff_ffff);
                    assert_eq!(Some(fields[4]), seq.map(|seq| seq.to_string()).as_deref(), "{fields:?}");
                    assert_eq!(fields[5], event["len"].to_string(), "{fields:?}");
                }
                Some("udp") if event["flags"].as_u64().is_some_and(|flags| flags & 0x28 == 0) => {
                    let length: u64 =
                        fields[6].split(',').next().unwrap_or_default().parse().expect("a length");
                    assert_eq!(Value::from(length - 8), event["len"], "{fields:?}");
                }
                _ => {}
            }
            if !fields[8].is_empty() {
                numbered += 1;
                assert!(
                    fields[9].starts_with(&format!("journey {}: ", fields[8].trim_start_matches("0x")))
                        || !fields[9].is_empty(),
                    "{fields:?}"
                );
            }
        }
        let carrying = events.iter().filter(|e| e["len"] != 0).count();
        assert!(
            numbered > 0 && numbered <= seen.len() && carrying > 0,
            "{session}: {numbered} of {}",
            seen.len()
        );
    }
}

/// Number of packets that tcpdump reads, from several interfaces.
fn read_by_tcpdump(file: &Path) -> usize {
    let output = Command::new("tcpdump").args(["-n", "-r"]).arg(file).arg("ip or ip6").output();
    let output = output.expect("tcpdump runs");
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).lines().filter(|line| line.contains(" IP")).count()
}
