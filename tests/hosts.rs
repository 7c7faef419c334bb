//! Two hosts recorded separately: with a common clock, with separate clocks, and with an address translator
//! between them.

use crate::common::{self, hosts as wired, two_clocks};

use common::{is_root, run, skipped, stderr, uninterrupted};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use two_clocks::{clocks_are_sampled, journeys, name_of, play, skewed, wire, with_a_clock_of_its_own};
use wired::{CLIENT, Hosts, RecorderChild, SERVER, in_namespace};

/// Number and lengths of TCP requests and answers.
const REQUESTS: usize = 40;
const REQUEST_BYTES: usize = 300;
const ANSWER_BYTES: usize = 5000;
/// Size of the final bulk transfer.
const BULK_BYTES: usize = 300_000;
const DATAGRAMS: usize = 30;
const DATAGRAM_BYTES: usize = 400;

fn echo(mut stream: TcpStream) {
    let mut request = [0; REQUEST_BYTES];
    for _ in 0..REQUESTS {
        stream.read_exact(&mut request).expect("a request");
        stream.write_all(&[7; ANSWER_BYTES]).expect("an answer");
    }
    let mut bulk = vec![0; BULK_BYTES];
    stream.read_exact(&mut bulk).expect("the bulk");
    stream.write_all(b"!").expect("the end");
}

/// Exchanges TCP and UDP, with every byte counted.
fn talk(hosts: &Hosts) {
    let [client, _, server] = &hosts.names;
    let (listener, udp) = in_namespace(server, || {
        let listener = TcpListener::bind((SERVER, 7000)).expect("a port");
        let udp = UdpSocket::bind((SERVER, 7001)).expect("a port");
        udp.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
        (listener, udp)
    });
    std::thread::scope(|scope| {
        scope.spawn(|| echo(listener.accept().expect("a client").0));
        scope.spawn(|| {
            let mut datagram = [0; DATAGRAM_BYTES];
            for _ in 0..DATAGRAMS {
                let (len, from) = uninterrupted(|| udp.recv_from(&mut datagram)).expect("a datagram");
                udp.send_to(&datagram[..len / 2], from).expect("an answer");
            }
        });
        in_namespace(client, || {
            let mut stream = TcpStream::connect((SERVER, 7000)).expect("a way");
            let mut answer = [0; ANSWER_BYTES];
            for _ in 0..REQUESTS {
                stream.write_all(&[1; REQUEST_BYTES]).expect("a request");
                stream.read_exact(&mut answer).expect("an answer");
            }
            stream.write_all(&vec![2; BULK_BYTES]).expect("the bulk");
            stream.read_exact(&mut answer[..1]).expect("the end");
            let udp = UdpSocket::bind((CLIENT, 0)).expect("a port");
            udp.connect(SocketAddr::new(SERVER.parse().expect("an address"), 7001)).expect("a peer");
            udp.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
            for _ in 0..DATAGRAMS {
                udp.send(&[3; DATAGRAM_BYTES]).expect("a datagram");
                uninterrupted(|| udp.recv(&mut answer)).expect("an answer");
            }
        });
    });
}

/// Records both ends of that exchange; returns the two directories.
fn record(hosts: &Hosts, dir: &TempDir) -> (String, String) {
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (a, b) = (path("client"), path("server"));
    let recorders = [RecorderChild::start(&hosts.names[0], &a), RecorderChild::start(&hosts.names[2], &b)];
    // A bound needs two clock samples before and after it.
    clocks_are_sampled(&a, 2);
    clocks_are_sampled(&b, 2);
    talk(hosts);
    clocks_are_sampled(&a, 3);
    clocks_are_sampled(&b, 3);
    recorders.into_iter().for_each(RecorderChild::end);
    (a, b)
}

/// Bytes of complete journeys to and from a port.
fn complete_bytes(rows: &[Value], proto: &str, port: u16) -> (u64, u64) {
    let at = |end: &Value| end.as_str().is_some_and(|end| end.ends_with(&format!(":{port}")));
    let sum = |end: &str| {
        let mine =
            rows.iter().filter(|row| row["proto"] == proto && at(&row[end]) && row["verdict"] == "complete");
        mine.filter_map(|row| row["bytes"].as_u64()).sum()
    };
    (sum("to"), sum("from"))
}

fn all_is_complete(rows: &[Value]) {
    let (up, down) = ((REQUESTS * REQUEST_BYTES + BULK_BYTES) as u64, (REQUESTS * ANSWER_BYTES + 1) as u64);
    assert_eq!(complete_bytes(rows, "tcp", 7000), (up, down), "every byte of TCP is in one complete journey");
    let (up, down) = ((DATAGRAMS * DATAGRAM_BYTES) as u64, (DATAGRAMS * DATAGRAM_BYTES / 2) as u64);
    assert_eq!(complete_bytes(rows, "udp", 7001), (up, down), "and every datagram");
}

#[test]
fn clocks_are_told_while_recordings_run() {
    if !is_root("clocks of recordings that run") {
        return;
    }
    let Some(hosts) = Hosts::new("now") else { return };
    let dir = TempDir::new().expect("a directory");
    let (a, b) = record(&hosts, &dir);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (another, run_a, run_b) = (path("another"), path("run-a"), path("run-b"));
    with_a_clock_of_its_own(&b, &another);
    let reported = std::thread::scope(|scope| {
        scope.spawn(|| play(&a, &run_a));
        scope.spawn(|| play(&another, &run_b));
        while [&run_a, &run_b].iter().any(|run| !Path::new(run).join("meta.toml").exists()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let output = run(&["align", "--follow=100ms", "--json", &run_a, &run_b]);
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    });
    let rows: Vec<Value> = reported.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(rows.len() > 1, "it reports while the recordings run: {reported}");
    for row in &rows {
        assert_eq!(row["rejected"], 0, "{row}");
        let Some(at_ns) = row["at_ns"].as_u64() else { continue };
        let Some(difference_ns) = row["difference_ns"].as_i64() else { continue };
        let (truth_ns, half_width_ns) =
            ((skewed(at_ns) - at_ns) as i64, row["half_width_ns"].as_u64().expect("a bound"));
        assert!(difference_ns.abs_diff(truth_ns) <= half_width_ns, "{row}, truly {truth_ns}");
    }
    let last = rows.last().expect("a row");
    assert_eq!(last["state"], "CERTIFIED", "{reported}");
    let both_directions = (2 * REQUESTS + 2 * DATAGRAMS) as u64;
    assert!(last["used"].as_u64() >= Some(both_directions), "{last}");
    println!("{} lines; in the end ±{} ns by {} packets", rows.len(), last["half_width_ns"], last["used"]);
}

#[test]
fn two_recordings_join_on_one_clock_and_on_two() {
    if !is_root("two hosts recorded apart") {
        return;
    }
    let (Some(hosts), dir) = (Hosts::new("two"), TempDir::new().expect("a directory")) else { return };
    let (a, b) = record(&hosts, &dir);
    let (one_clock, messages) = journeys(&[&a, &b]);
    assert!(messages.contains("clocks: one, that of one host"), "{messages}");
    all_is_complete(&one_clock);
    let truth: HashMap<String, i64> =
        one_clock.iter().filter_map(|row| Some((name_of(row), wire(row)?.0))).collect();
    assert!(truth.len() > REQUESTS && truth.values().all(|ns| *ns >= 0));

    let other = dir.path().join("skewed").display().to_string();
    with_a_clock_of_its_own(&b, &other);
    let (two_clocks, messages) = journeys(&[&a, &other]);
    assert!(messages.contains("CERTIFIED") && messages.contains("0 rejected"), "{messages}");
    all_is_complete(&two_clocks);
    let mut compared = 0;
    for row in two_clocks.iter().filter(|row| row["verdict"] == "complete" && row["from"] != Value::Null) {
        assert_eq!(row["across"], "bounded", "{row}");
        let Some((ns, half_width_ns)) = wire(row) else { continue };
        assert!(ns >= 0 && half_width_ns > 0, "{row}");
        // The server's times are changed; the client's journeys keep their names.
        if let Some(true_ns) = truth.get(&name_of(row)) {
            compared += 1;
            assert!((ns - true_ns).abs() <= half_width_ns, "{true_ns} is not {ns} ± {half_width_ns}: {row}");
        }
    }
    assert!(compared > REQUESTS, "{compared} of {}", truth.len());

    round_trips(&two_clocks, &journeys(&[&a]).0, &journeys(&[&other]).0);
    let report = run(&["report", "--json", &a, &other]);
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let clocks = &report["joint"]["clocks"][0];
    let at = clocks["at_ns"].as_u64().expect("an instant");
    let difference = (skewed(at) - at) as i64;
    let (lower, upper) =
        (clocks["lower_ns"].as_i64().expect("a bound"), clocks["upper_ns"].as_i64().expect("a bound"));
    assert!(lower <= difference && difference <= upper, "{difference} is outside of {clocks}");
    // TCP and UDP both crossed, in separate rows.
    let bounded = |hop: &Value| {
        hop["protocols"].as_array().is_some_and(|rows| {
            rows.len() == 2 && rows.iter().all(|row| row["half_width"]["n"].as_u64() > Some(0))
        })
    };
    assert!(report["hops"].as_array().expect("hops").iter().any(bounded), "{}", report["hops"]);
    aligned(&a, &b, &other, &dir);
    every_output_has_one_value(&a, &other, clocks);
}

/// `align` and `report` show one difference, with both bounds. It holds at each instant of `align`.
fn every_output_has_one_value(a: &str, other: &str, reported: &Value) {
    let output = run(&["align", "--json", a, other]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let pair = &table["pairs"][0];
    for (here, there) in [
        ("at_ns", "at_ns"),
        ("lower_ns", "lower_ns"),
        ("upper_ns", "upper_ns"),
        ("difference_ns", "offset_ns"),
        ("half_width_ns", "half_width_ns"),
        ("state", "state"),
    ] {
        assert_eq!(pair[here], reported[there], "{here} of `align`, {there} of `report`");
    }
    let instants = pair["over_time"].as_array().expect("instants");
    assert_eq!(instants.len(), 101);
    for instant in instants {
        let of = |name: &str| instant[name].as_i64().expect("a bound");
        let at = instant["at_ns"].as_u64().expect("an instant");
        let truth = (skewed(at) - at) as i64;
        assert!(of("lower_ns") <= truth && truth <= of("upper_ns"), "{instant}, truly {truth}");
        assert!((of("lower_ns")..=of("upper_ns")).contains(&of("estimate_ns")), "{instant}");
    }
}

/// The sum of both directions and the server's time must equal the client's measured round trip. An error of
/// one direction is the opposite error of the other.
fn round_trips(joined: &[Value], client: &[Value], server: &[Value]) {
    let time_ns = |row: &Value, hop: &str| {
        row["rungs"].as_array()?.iter().find(|rung| rung["hop"] == hop)?["time_ns"].as_i64()
    };
    let server_end = format!("{SERVER}:7001");
    let of = |rows: &[Value], end: &str| -> Vec<Value> {
        let mut rows: Vec<Value> =
            rows.iter().filter(|row| row["proto"] == "udp" && row[end] == *server_end).cloned().collect();
        rows.sort_by_key(|row| time_ns(row, "dev.xmit").or_else(|| time_ns(row, "dev.recv")));
        rows
    };
    let (there, back) = (of(joined, "to"), of(joined, "from"));
    let (sent, answered) = (of(client, "to"), of(client, "from"));
    let (asked, replied) = (of(server, "to"), of(server, "from"));
    for rows in [&there, &back, &sent, &answered, &asked, &replied] {
        assert_eq!(rows.len(), DATAGRAMS);
    }
    for i in 0..DATAGRAMS {
        let at = |rows: &[Value], hop: &str| time_ns(&rows[i], hop).expect("it passed");
        let measured_ns = at(&answered, "dev.recv") - at(&sent, "dev.xmit");
        let inside_ns = at(&replied, "dev.xmit") - at(&asked, "dev.recv");
        let ((there_ns, bound_ns), (back_ns, _)) =
            (wire(&there[i]).expect("a wire"), wire(&back[i]).expect("a wire"));
        let rebuilt_ns = there_ns + inside_ns + back_ns;
        // A delay is never negative, so the sum has an error up to the bound.
        assert!((rebuilt_ns - measured_ns).abs() <= bound_ns, "{rebuilt_ns} of {measured_ns} ± {bound_ns}");
    }
}

/// `align` reports the applied skew.
fn aligned(a: &str, b: &str, other: &str, dir: &TempDir) {
    let plot = dir.path().join("bounds.svg").display().to_string();
    let output = run(&["align", "--json", "--plot", &plot, a, other]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let pair = &table["pairs"][0];
    assert_eq!((&pair["state"], &pair["rejected"]), (&Value::from("CERTIFIED"), &Value::from(0)), "{pair}");
    // More than an hour, plus 40 ppm of an unknown uptime: fractions of a second a few hours after boot.
    let difference = pair["difference_ns"].as_i64().expect("an estimate");
    assert!(difference > 3_600_000_000_000, "{pair}");
    let half_width = pair["half_width_ns"].as_u64().expect("a bound");
    assert!(half_width > 0 && half_width < 10_000_000, "{pair}");
    assert!(pair["used"].as_u64() > Some(REQUESTS as u64), "{pair}");
    let drawn = std::fs::read_to_string(&plot).expect("a plot");
    assert!(
        drawn.starts_with("<svg") && drawn.contains("certified bounds") && drawn.contains("polyline"),
        "{drawn}"
    );
    let text = |dirs: &[&str]| {
        let output = run(&[&["align"], dirs].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(text(&[a, other]).contains("0–1  CERTIFIED ±"));
    assert!(text(&[a, b]).contains("they share a clock"));
    let image = dir.path().join("bounds.png").display().to_string();
    let output = run(&["align", "--plot", &image, a, other]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(std::fs::read(&image).expect("a plot").starts_with(b"\x89PNG"));
    let refused = run(&["align", "--plot", "bounds.jpg", a, other]);
    assert!(!refused.status.success() && stderr(&refused).contains(".svg or .png"), "{}", stderr(&refused));
}

#[test]
fn an_address_translation_on_the_way_is_found_and_said() {
    if !is_root("two hosts with a translator between them") {
        return;
    }
    let (Some(hosts), dir) = (Hosts::new("nat"), TempDir::new().expect("a directory")) else { return };
    if !hosts.translate() {
        return skipped("two hosts with a translator between them", "nftables cannot translate addresses here");
    }
    let (a, b) = record(&hosts, &dir);
    let (rows, messages) = journeys(&[&a, &b]);
    assert!(messages.contains("through an address translation: arrives as 10.77.2.1:"), "{messages}");
    let (up, down) = ((REQUESTS * REQUEST_BYTES + BULK_BYTES) as u64, (REQUESTS * ANSWER_BYTES + 1) as u64);
    assert_eq!(complete_bytes(&rows, "tcp", 7000), (up, down), "{messages}");
    // The client's datagrams have identifications and join; for the others the reason is reported.
    let udp: Vec<_> = rows.iter().filter(|row| row["proto"] == "udp").collect();
    assert!(!udp.is_empty());
    let alone = udp.iter().filter(|row| row["verdict"] != "complete").count();
    assert!(alone == 0 || messages.contains("not joined, because"), "{alone} alone: {messages}");
}
