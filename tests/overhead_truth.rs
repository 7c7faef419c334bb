//! A capture with increasing reduction, compared with a complete one of the same traffic.
//!
//! The test steps the recorder through the budget's levels with `ctl` while no traffic runs. The payload length
//! of a packet identifies its level, so counts are exact.

use crate::common::{self, hosts as wired};

use common::{eventually, is_root, magnet_scope, run, skipped, stderr};
use magscope_core::source::{Progress, Source};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{Batch, Change, Event, Flow, FlowId, Hop, Proto};
use magscope_session::Session;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Child;
use std::time::Duration;
use wired::{in_namespace, ip};

/// Number of datagram flows. With these, a sample of one in sixteen is almost never empty, and one in four
/// almost always near a quarter.
const FLOWS: usize = 256;
/// Connections with requests and answers.
const CONNECTIONS: usize = 16;
/// Maximum deviation in standard errors.
const FAR: f64 = 6.0;
/// Hops that each datagram passes, with its length.
const DATAGRAM_HOPS: [Hop; 6] =
    [Hop::AppSend, Hop::IpOut, Hop::DevXmit, Hop::DevRecv, Hop::UdpRecv, Hop::AppRecv];

/// A namespace without other traffic, removed on drop.
struct Alone(String);

impl Alone {
    fn new() -> Option<Self> {
        let alone = Alone(wired::namespace_name("truth"));
        if !ip(&["netns", "add", &alone.0]) {
            skipped("overhead_truth", "`ip netns add` (iproute2) is not there or fails");
            return None;
        }
        assert!(ip(&["-n", &alone.0, "link", "set", "lo", "up"]));
        Some(alone)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

/// Datagrams and requests, each read before the next is sent.
struct Traffic {
    namespace: String,
    pairs: Vec<(UdpSocket, UdpSocket)>,
    connections: Vec<(TcpStream, TcpStream)>,
}

impl Traffic {
    fn new(alone: &Alone) -> Self {
        let (pairs, connections) = in_namespace(&alone.0, || {
            let pair = |_| {
                let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
                near.connect(far.local_addr().expect("bound")).expect("a peer");
                far.connect(near.local_addr().expect("bound")).expect("a peer");
                (near, far)
            };
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let connection = |_| {
                let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
                let (far, _) = listener.accept().expect("it has connected");
                for end in [&near, &far] {
                    end.set_nodelay(true).expect("an option");
                }
                (near, far)
            };
            ((0..FLOWS).map(pair).collect(), (0..CONNECTIONS).map(connection).collect())
        });
        Traffic { namespace: alone.0.clone(), pairs, connections }
    }

    /// One to five datagrams of this length on each flow, and a request on each connection; returns after
    /// delivery.
    fn send(&self, len: usize) {
        for (at, (near, far)) in self.pairs.iter().enumerate() {
            for _ in 0..datagrams(at) {
                near.send(&vec![7; len]).expect("sent");
                far.recv(&mut [0; 2_000]).expect("read");
            }
        }
        for (near, far) in &self.connections {
            for (mut from, mut to) in [(near, far), (far, near)] {
                from.write_all(&vec![7; len]).expect("written");
                to.read_exact(&mut vec![0; len]).expect("read");
            }
        }
        let acknowledged = || {
            let table = in_namespace(&self.namespace, || std::fs::read_to_string("/proc/thread-self/net/tcp"));
            let table = table.expect("/proc is mounted");
            table.lines().skip(1).all(|line| line.contains(" 00000000:"))
        };
        assert!(eventually(acknowledged), "a segment is never acknowledged");
    }
}

fn datagrams(flow: usize) -> u64 {
    1 + flow as u64 % 5
}

/// A recorder of the namespace.
struct Recording {
    child: Child,
    dir: String,
}

impl Recording {
    fn start(alone: &Alone, dir: &Path) -> Self {
        let dir = dir.display().to_string();
        let arguments = ["record", "-o", &dir, "--netns", &alone.0, "--max-overhead", "off"];
        let child = magnet_scope(&arguments).spawn().expect("the binary starts");
        let recording = Recording { child, dir };
        if !eventually(|| recording.ctl(&["list"])) {
            let mut child = recording.child;
            let _ = child.kill();
            let output = child.wait_with_output().expect("it ends");
            panic!("it does not answer: {} {}", output.status, stderr(&output));
        }
        recording
    }

    fn ctl(&self, words: &[&str]) -> bool {
        let _alone = crate::ctl::alone();
        let pid = self.child.id().to_string();
        run(&[&["ctl", "--pid", &pid], words].concat()).status.success()
    }

    fn end(self) -> Seen {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it is there");
        let output = self.child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", stderr(&output));
        Seen::of(&self.dir)
    }
}

/// The content of a recording.
struct Seen {
    events: Vec<Event>,
    flows: HashMap<FlowId, Flow>,
    sums: Vec<Synthesis>,
    changes: Vec<Change>,
    /// Hits that the kernel's recursion guard refused: of a packet, of any namespace, that came while another one's
    /// program ran on the same CPU.
    refused: u64,
    report: Value,
    info: Value,
}

/// Selection key of a flow: equal in both directions.
type Connection = (u8, SocketAddr, SocketAddr);

impl Seen {
    fn of(dir: &str) -> Self {
        let json = |command: &str| {
            let output = run(&[command, dir, "--json"]);
            serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
        };
        let mut seen = Seen {
            events: Vec::new(),
            flows: HashMap::new(),
            sums: Vec::new(),
            changes: Vec::new(),
            refused: 0,
            report: json("report"),
            info: json("info"),
        };
        let session = Session::open(Path::new(dir)).expect("a session");
        let (mut replay, mut batch) = (session.replay(None, None), Batch::default());
        while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
            seen.events.append(&mut batch.events);
            seen.flows.extend(batch.flows.drain(..).map(|flow| (flow.id, flow)));
            seen.sums.append(&mut batch.synthesis);
            seen.changes.append(&mut batch.changes);
        }
        let losses = &seen.report["losses"];
        let causes = losses["causes"].as_array().into_iter().flatten();
        let refused = causes.filter(|row| row["cause"] == "refused").filter_map(|row| row["records"].as_u64());
        seen.refused = refused.sum();
        assert_eq!(losses["records"], seen.refused, "{losses}");
        seen
    }

    fn connection(&self, flow: FlowId) -> Option<Connection> {
        let Flow { proto, local, remote, .. } = self.flows.get(&flow)?;
        Some((proto.0, *local.min(remote), *local.max(remote)))
    }

    /// Events of this length by connection and hop.
    fn of_length(&self, len: usize) -> BTreeMap<Connection, BTreeMap<Hop, u64>> {
        let mut all: BTreeMap<Connection, BTreeMap<Hop, u64>> = BTreeMap::new();
        for event in self.events.iter().filter(|event| event.len as usize == len) {
            let connection = self.connection(event.flow).expect("every flow is announced");
            *all.entry(connection).or_default().entry(event.hop).or_default() += 1;
        }
        all
    }

    /// Packets and bytes at a hop between two instants.
    fn between(&self, hop: Hop, (from_ns, to_ns): (u64, u64)) -> (u64, u64) {
        let there = self.events.iter().filter(|e| e.hop == hop && (from_ns..to_ns).contains(&e.time_ns));
        there.fold((0, 0), |(n, bytes), event| (n + u64::from(event.segs.max(1)), bytes + u64::from(event.len)))
    }

    /// The kernel's counters at a hop; `None` without rejected events.
    fn counted(&self, hop: Hop) -> Option<[u64; 3]> {
        let rows = self.info["counts"].as_array()?;
        let row = rows.iter().find(|row| row["hop"] == hop.name())?;
        Some(["kept", "sampled", "synthesised"].map(|what| row[what].as_u64().unwrap_or_default()))
    }
}

/// Levels: the `ctl` commands for each, and the length of its traffic.
const STEPS: [(&[&[&str]], usize); 5] = [
    (&[], 101),
    (&[&["sample", "flows", "1/4"]], 103),
    (&[&["sample", "flows", "1/16"]], 104),
    (&[&["sample", "flows", "1/1"], &["detail", "histograms"]], 105),
    (&[&["detail", "full"]], 106),
];

fn record() -> Option<(Seen, Seen)> {
    let alone = Alone::new()?;
    let dir = tempfile::tempdir().expect("a directory");
    let whole = Recording::start(&alone, &dir.path().join("whole"));
    let part = Recording::start(&alone, &dir.path().join("part"));
    let traffic = Traffic::new(&alone);
    for (changes, len) in STEPS {
        for words in changes {
            assert!(part.ctl(words), "{words:?}");
        }
        traffic.send(len);
    }
    // The sockets close after both captures have ended, so that no further packets are seen.
    let seen = (whole.end(), part.end());
    drop(traffic);
    Some(seen)
}

#[test]
fn what_comes_of_a_part_is_true_of_the_whole() {
    if !is_root("a capture beside another") {
        return;
    }
    let Some((whole, part)) = record() else { return };
    if whole.refused + part.refused > 0 {
        skipped(
            "a capture beside another",
            "the kernel refused a hit, perhaps one of this traffic, on a busy CPU",
        );
        return;
    }
    everything_came(&whole, &part);
    let shares = [103, 104].map(|len| whole_flows_or_none(&whole, &part, len));
    assert!(shares[1] < shares[0], "{shares:?}");
    sums_are_those_of_the_events(&whole, &part, 105);
    estimates_are_near(&whole, &part);
    counters_miss_nothing(&whole, &part);
}

/// Without rejection both have every event.
fn everything_came(whole: &Seen, part: &Seen) {
    for len in [101, 106] {
        let all = whole.of_length(len);
        assert_eq!(all.len(), FLOWS + CONNECTIONS, "{len}");
        let sent: u64 = (0..FLOWS).map(datagrams).sum();
        for hop in DATAGRAM_HOPS {
            let of_udp = all.iter().filter(|((proto, ..), _)| *proto == Proto::UDP.0);
            assert_eq!(of_udp.filter_map(|(_, hops)| hops.get(&hop)).sum::<u64>(), sent, "{hop} {len}");
        }
        assert_eq!(part.of_length(len), all, "{len}");
    }
}

/// With flow sampling, each accepted flow is complete at every hop. Returns the number of flows.
fn whole_flows_or_none(whole: &Seen, part: &Seen, len: usize) -> usize {
    let (all, some) = (whole.of_length(len), part.of_length(len));
    assert_eq!(all.len(), FLOWS + CONNECTIONS);
    assert!(!some.is_empty() && some.len() < all.len(), "{} of {}", some.len(), all.len());
    for (connection, hops) in &some {
        assert_eq!(Some(hops), all.get(connection), "{connection:?} {len}");
    }
    some.len()
}

/// The kernel's sums equal sums over the other capture's events.
fn sums_are_those_of_the_events(whole: &Seen, part: &Seen, len: usize) {
    assert!(part.of_length(len).is_empty(), "no event came");
    for hop in [Hop::DevXmit, Hop::DevRecv] {
        let mut packets: BTreeMap<FlowId, (u64, u64)> = BTreeMap::new();
        for event in whole.events.iter().filter(|event| event.hop == hop && event.len as usize == len) {
            let (n, bytes) = packets.entry(event.flow).or_default();
            (*n, *bytes) = (*n + 1, *bytes + len as u64);
        }
        let mut sums: BTreeMap<FlowId, (u64, u64)> = BTreeMap::new();
        for sum in part.sums.iter().filter(|sum| sum.hop == hop) {
            let Sum::Flow(flow) = sum.of else { continue };
            let (n, bytes) = sums.entry(flow).or_default();
            (*n, *bytes) = (*n + sum.n, *bytes + sum.sum);
        }
        assert_eq!(packets.len(), FLOWS + 2 * CONNECTIONS, "{hop}");
        for (flow, (n, bytes)) in &packets {
            let (added, added_bytes) = sums.get(flow).copied().unwrap_or_default();
            assert_eq!(added_bytes, *bytes, "{flow} at {hop}");
            // Bare acknowledgements are packets too, and have no identifying length.
            let is_udp = whole.flows.get(flow).is_some_and(|flow| flow.proto == Proto::UDP);
            assert!(added == *n || !is_udp && added > *n, "{flow} at {hop}: {added} of {n}");
        }
    }
    // Each datagram's time between hops is in one bucket.
    for (from, to) in [(Hop::IpOut, Hop::DevXmit), (Hop::DevXmit, Hop::DevRecv)] {
        let times = part.sums.iter().filter(|sum| sum.hop == to && sum.of == Sum::Since(from));
        let n: u64 = times.flat_map(|sum| &sum.buckets).map(|(_, n)| u64::from(*n)).sum();
        let packets = (0..FLOWS).map(datagrams).sum::<u64>() + 2 * CONNECTIONS as u64;
        assert!(n >= packets, "{from} to {to}: {n} of {packets}");
    }
    let reported = part.report["synthesis"]["hops"].as_array().expect("what the kernel added up");
    let hits =
        |hop: Hop| reported.iter().find(|row| row["hop"] == hop.name()).and_then(|row| row["hits"].as_u64());
    assert_eq!(hits(Hop::UdpRecv), Some((0..FLOWS).map(datagrams).sum()));
}

/// The report's estimates agree with the truth within their stated error.
fn estimates_are_near(whole: &Seen, part: &Seen) {
    let rows = part.report["estimates"].as_array().expect("estimates");
    let of = |row: &Value, name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"));
    for one_in in [4, 16] {
        for hop in [Hop::DevXmit, Hop::DevRecv] {
            let row = rows.iter().find(|row| row["one_in"] == one_in && row["hop"] == hop.name());
            let row = row.unwrap_or_else(|| panic!("1/{one_in} at {hop}: {rows:?}"));
            let span = (row["from_ns"].as_u64().expect("a time"), row["to_ns"].as_u64().expect("a time"));
            let (came, there) = (part.between(hop, span), whole.between(hop, span));
            assert_eq!((row["packets"].as_u64(), row["bytes"].as_u64()), (Some(came.0), Some(came.1)), "{row}");
            for (what, error, truth) in
                [("all_packets", "packets_error", there.0), ("all_bytes", "bytes_error", there.1)]
            {
                let (estimate, error, truth) = (of(row, what), of(row, error), truth as f64);
                assert!(error > 0.0 && error < truth, "{row}");
                assert!((estimate - truth).abs() <= FAR * error, "{truth} {what}: {row}");
            }
            assert!(row["connections"].as_u64().is_some_and(|n| n > 0 && n < (FLOWS + CONNECTIONS) as u64));
        }
    }
    let stretches: Vec<u32> = rows.iter().filter_map(|row| row["one_in"].as_u64()).map(|n| n as u32).collect();
    assert!(stretches.iter().all(|one_in| [4, 16].contains(one_in)), "nothing is estimated of what came whole");
    assert!(whole.report["estimates"].is_null(), "nor where nothing was left out");
}

/// Accepted, sampled-out and summed events together equal the truth, and the report's rates use the total.
fn counters_miss_nothing(whole: &Seen, part: &Seen) {
    assert_eq!(part.changes.len(), 5, "{:?}", part.changes);
    for hop in DATAGRAM_HOPS {
        let there = whole.events.iter().filter(|event| event.hop == hop).count() as u64;
        let came = part.events.iter().filter(|event| event.hop == hop).count() as u64;
        let counted = part.counted(hop).expect("it was told what to leave out");
        assert_eq!((counted[0], counted.iter().sum::<u64>()), (came, there), "{hop}: {counted:?}");
        assert!(counted.iter().all(|n| *n > 0), "{hop}: {counted:?}");
        let rows = part.report["hops"].as_array().expect("hops");
        let row = rows.iter().find(|row| row["hop"] == hop.name()).expect("a row a hop");
        let seconds = part.report["duration_ns"].as_f64().expect("a number") / 1e9;
        let counted = row["events_per_s"].as_f64().expect("a rate") * seconds;
        assert!((counted - there as f64).abs() < 0.5, "{hop}: {counted} of {there}");
        assert_eq!(row["estimated"], true);
    }
}
