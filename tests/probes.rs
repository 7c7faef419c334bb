//! Custom probes, end to end: command line, recording, reports and journeys.

use crate::common;

use common::{has_tracefs, is_root, run, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

#[test]
fn probes_are_recorded_and_shown_as_what_they_are() {
    if !is_root("custom probes in the demo") || !has_tracefs("custom probes in the demo") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session").display().to_string();
    let probes = [
        "--probe",
        "tp_btf:net_dev_start_xmit name=given after=dev.xmit size=skb->truesize skb->len",
        "--probe",
        "tp_btf:netif_receive_skb name=came as=loadline skb->len",
        "--probe",
        "tracepoint:skb:kfree_skb name=gone as=point reason",
    ];
    let output = run(&[&["demo", "--duration", "2s", "-o", &session], &probes[..]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("nothing lost"), "{}", stderr(&output));

    let report = stdout(&run(&["report", &session]));
    assert_eq!(report, stdout(&output), "a recording says the same as the capture did");
    for part in
        ["given: tp_btf:net_dev_start_xmit, after dev.xmit", "came: tp_btf:netif_receive_skb", "loadlines:"]
    {
        assert!(report.contains(part), "{part} is not in\n{report}");
    }
    let report = run(&["report", "--json", &session]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let events =
        |hop: &str| report["hops"].as_array().expect("hops").iter().find(|row| row["hop"] == hop).cloned();
    let sent = events("dev.xmit").expect("a row")["events"].as_u64().expect("a number");
    let row = &report["probes"][0];
    // a custom probe also sees packets other than IP: some ARP requests
    let hits = row["hits"].as_u64().expect("a number");
    assert!(hits >= sent && hits < sent + 100, "{hits} hits, {sent} events");
    assert!(row["read"][1]["highest"].as_f64() > row["read"][1]["lowest"].as_f64(), "{row}");

    let info = run(&["info", "--verify", "--json", &session]);
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    assert_eq!(info["damage"], serde_json::json!([]));
    assert_eq!(info["node"]["probes"][2]["as"], "point");

    let journeys = run(&["journeys", "--json", "--slowest", "50", &session]);
    let journeys: Value = serde_json::from_slice(&journeys.stdout).expect("JSON");
    let mut held = 0;
    for journey in journeys.as_array().expect("one array") {
        let rungs = journey["rungs"].as_array().expect("rungs");
        let Some(rung) = rungs.iter().find(|rung| rung["hop"] == "dev.xmit") else { continue };
        let passed = journey["probes"].as_array().unwrap_or_else(|| panic!("a probe passed: {journey}"));
        // the same tracepoint, so the times are close
        let near = |hit: &&Value| {
            hit["time_ns"]
                .as_u64()
                .zip(rung["time_ns"].as_u64())
                .is_some_and(|(a, b)| a.abs_diff(b) < 1_000_000)
        };
        let hit = passed.iter().find(near).unwrap_or_else(|| panic!("one at dev.xmit: {journey}"));
        assert_eq!((&hit["probe"], &hit["after"]), (&"given".into(), &"dev.xmit".into()));
        assert!(
            hit["values"][1][1].as_u64() >= journey["bytes"].as_u64(),
            "the packet is no shorter: {journey}"
        );
        held += 1;
    }
    assert!(held > 10, "{held} journeys passed dev.xmit");
    let text = stdout(&run(&["journeys", "--slowest", "5", &session]));
    assert!(text.contains("given after dev.xmit +") && text.contains("size="), "{text}");
    assert!(!text.contains("came") && !text.contains("head at"), "only what was asked for: {text}");
}

#[test]
fn payload_is_kept_where_it_was_asked_for_and_nowhere_else() {
    if !is_root("payload in the demo") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session").display().to_string();
    let pcap = "udp port 5204 or tcp port 5202";
    let output = run(&["demo", "--duration", "2s", "-o", &session, "--snap", "dev.recv=48", "--pcap", pcap]);
    assert!(output.status.success(), "{}", stderr(&output));
    let info = stdout(&run(&["info", &session]));
    assert!(info.contains(&format!("pcap {pcap}")) && info.contains("snap 48 dev.recv"), "{info}");
    let journeys = run(&["journeys", "--json", "--slowest", "200", &session]);
    let journeys: Value = serde_json::from_slice(&journeys.stdout).expect("JSON");
    let (mut held, ports) = (0, [":5204", ":5202"]);
    for journey in journeys.as_array().expect("one array") {
        let ends = [&journey["from"], &journey["to"]].map(|end| end.as_str().unwrap_or_default().to_owned());
        assert!(ends.iter().any(|end| ports.iter().any(|port| end.ends_with(port))), "only these: {journey}");
        for head in journey["heads"].as_array().into_iter().flatten() {
            assert_eq!(head["hop"], "dev.recv");
            let (bytes, of) =
                (head["bytes"].as_array().expect("bytes").len() as u64, head["of_bytes"].as_u64());
            assert_eq!(Some(bytes), of.map(|of| of.min(48)), "{journey}");
            held += 1;
        }
    }
    assert!(held > 20, "{held} heads");
    let text = stdout(&run(&["journeys", "--slowest", "5", &session]));
    assert!(text.contains("head at dev.recv +") && text.contains("    0000  "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn what_is_wrong_is_said_before_anything_is_attached() {
    let looked = run(&["hops", "--probe", "tp_btf:net_dev_start_xmit skb->len"]);
    if looked.status.success() {
        let text = stdout(&looked);
        assert!(text.contains("len reads skb->len") && text.contains("struct sk_buff *skb"), "{text}");
        let wrong = run(&["hops", "--probe", "tp_btf:net_dev_start_xmit skb->lenn"]);
        assert_eq!(wrong.status.code(), Some(1));
        assert!(stderr(&wrong).contains("`len`"), "{}", stderr(&wrong));
    }
    let wrong = run(&["live", "--duration", "1s", "--probe", "fentri:f"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("fentry"), "{}", stderr(&wrong));
    let wrong = run(&["live", "--duration", "1s", "--snap", "app.send=64"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("not available at app.send"), "{}", stderr(&wrong));
    let wrong = run(&["live", "--duration", "1s", "--pcap", "tcp prot 443"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("libpcap"), "{}", stderr(&wrong));
}
