//! Two of the machines have agents, and the third watches both live.

use super::{
    ANSWER_BYTES, CLIENT, DATAGRAMS, REQUEST_BYTES, REQUESTS, SERVER, booted, common, is_guest, journeys,
    no_packet_is_early, tool,
};
use magscope_core::journey::{Across, Limits};
use magscope_core::source::Source;
use magscope_core::{Hop, LossCause, Proto, Verdict};
use magscope_fleet::pki::{Folder, Validity};
use magscope_fleet::{Credentials, FleetError, Grants, HostDiscovery, Likely, ReadOptions, StartAt, Terms};
use magscope_timeline::align::Online;
use magscope_timeline::merged_reader::{Piece, Walker};
use magscope_timeline::pair::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// Addresses of the agents, from the third machine.
const AGENTS: [&str; 2] = ["10.88.1.1:6246", "10.88.2.1:6246"];
/// Result file of the third machine, which also records both.
const SEEN: &str = "/recording/seen.json";
const FAR: &str = "/recording/far";
/// Timeout for further data.
const QUIET: Duration = Duration::from_secs(30);

/// Waits until the local agent's first viewer has disconnected.
#[test]
#[ignore = "runs in a machine that has an agent"]
fn guest_is_watched() {
    if !is_guest("client") && !is_guest("server") {
        return;
    }
    let readers = || {
        let about = Command::new("/bin/magnet-scope")
            .args(["agent", "about", "unix:/run/magnet-scope/agent.sock", "--json"])
            .output();
        let about: Value = serde_json::from_slice(&about.expect("it runs").stdout).unwrap_or_default();
        about["streams"].as_u64()
    };
    for wanted in [true, false] {
        while readers().is_some_and(|streams| (streams > 0) != wanted) {
            std::thread::sleep(Duration::from_millis(500));
        }
    }
}

/// Shows both live, as for a picture, until all traffic was seen, and records both in parallel.
#[test]
#[ignore = "runs in the machine that watches"]
fn guest_watches() {
    if !is_guest("mirror") {
        return;
    }
    let credentials = Credentials { folder: Folder::new("/tls"), identity: "viewer-me".to_owned() };
    let options = |address: &&str| ReadOptions {
        address: address.parse().expect("an address"),
        credentials: Some(credentials.clone()),
        from: StartAt::Back(Duration::from_hours(1)),
        terms: Terms::default(),
    };
    let requests: Vec<ReadOptions> = AGENTS.iter().map(options).collect();
    let (hosts, discovery) = loop {
        match HostDiscovery::enter(&requests, None) {
            Ok((hosts, discovery)) if hosts.len() == 2 => break (hosts, discovery),
            Ok(_) | Err(FleetError::Connect { likely: Likely::Nobody, .. }) => {} // still booting
            Err(error) => panic!("{error}"),
        }
        std::thread::sleep(Duration::from_millis(500));
    };
    let both = AGENTS.join(",");
    let mut recorder = Command::new("/bin/magnet-scope")
        .args(["record", "--connect", &both, "--tls", "/tls", "--back", "1h", "-o", FAR])
        .spawn()
        .expect("it runs");
    let infos: Vec<_> = hosts.iter().map(|host| host.info().clone()).collect();
    let online = Online::new(&infos);
    let sources = hosts.into_iter().map(|host| Box::new(host) as Box<dyn Source>).collect();
    let mut walker = Walker::live(sources, &online, Limits::default(), Duration::from_millis(5));
    let (mut seen, mut newest) = (Seen::default(), Instant::now());
    // Refused probe runs make the data incomplete.
    while !seen.is_all() && newest.elapsed() < QUIET {
        let before = seen.datagrams + seen.segments;
        walker.step(&mut |piece| seen.add(&piece)).expect("agents are there");
        if seen.datagrams + seen.segments > before || before == 0 {
            newest = Instant::now();
        }
    }
    let pair = online.look(|all| all.state(0, 1));
    assert_eq!(pair, Some(State::Certified));
    std::fs::write(SEEN, serde_json::to_vec(&seen).expect("JSON")).expect("written");
    // Until the recorder has the same data.
    std::thread::sleep(Duration::from_secs(2));
    tool("kill", &["-INT", &recorder.id().to_string()]);
    assert!(recorder.wait().expect("it ends").success());
    drop((walker, discovery));
}

/// Live results for traffic between the client's and the server's ends.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen {
    /// Complete datagram journeys and their bytes, and the same for TCP.
    datagrams: u64,
    datagram_bytes: u64,
    segments: u64,
    stream_bytes: u64,
    /// Number of these with an interval between their halves.
    bounded: u64,
    /// Number with wrong order, or faster than netem's minimum.
    early: u64,
    /// The greatest half width, nanoseconds.
    worst_half_width_ns: u64,
    /// Lost records by cause.
    lost: BTreeMap<String, u64>,
}

impl Seen {
    fn add(&mut self, piece: &Piece<'_>) {
        let (journey, names) = match piece {
            Piece::Journey(journey, _, names) => (journey, names),
            Piece::Batch(_, batch) => {
                for loss in &batch.losses {
                    *self.lost.entry(loss.cause.to_string()).or_default() += loss.count;
                }
                return;
            }
        };
        let Some(flow) = names.tx_flow(journey) else { return };
        let ends = [flow.local.ip(), flow.remote.ip()].map(|ip| ip.to_string());
        let to_server = ends == [CLIENT, SERVER];
        if !(to_server || ends == [SERVER, CLIENT]) || journey.bytes() == 0 {
            return;
        }
        if journey.verdict != Verdict::Complete {
            return;
        }
        if journey.proto == Proto::UDP {
            self.datagrams += 1;
            self.datagram_bytes += journey.bytes();
        } else {
            self.segments += 1;
            self.stream_bytes += journey.bytes();
        }
        // Before packets and clock samples in both directions the time on the wire is unknown.
        let (Across::Bounded { .. }, Some(half_width_ns)) = (journey.across, journey.across.half_width_ns())
        else {
            assert_eq!(journey.across, Across::Apart);
            return;
        };
        self.bounded += 1;
        self.worst_half_width_ns = self.worst_half_width_ns.max(half_width_ns);
        // netem is on the path: the true time has this minimum.
        let least_ns = if to_server { 800_000 } else { 5_500_000 };
        let wire = journey.latencies().find(|step| step.to == Hop::DevRecv && step.from == Hop::DevXmit);
        // Of a range that was sent again, no time is measured if the arrived copy is unknown.
        let enough = wire.map_or(journey.retransmits() > 0, |wire| wire.ns + wire.half_width_ns >= least_ns);
        self.early += u64::from(journey.disordered() > 0 || !enough);
    }

    fn is_all(&self) -> bool {
        let stream = REQUESTS * (REQUEST_BYTES + ANSWER_BYTES);
        self.datagrams >= DATAGRAMS as u64 * 2 && self.stream_bytes >= stream as u64
    }
}

#[test]
fn machines_are_watched_live() {
    let dir = TempDir::new().expect("a directory");
    // The machines' wall clocks show 2024, 2027 and 2031.
    let year = |year: u32| SystemTime::UNIX_EPOCH + Duration::from_hours(24) * (366 * (year - 1970));
    let validity = Validity { from: year(2020), to: year(2040) };
    let folder = Folder::new(dir.path().join("tls"));
    folder.init(validity).expect("an authority");
    for (name, address) in [("client", "10.88.1.1"), ("server", "10.88.2.1")] {
        folder.host(&[name.to_owned(), address.to_owned()], validity).expect("a certificate");
    }
    folder.viewer("me", &Grants::default(), validity).expect("a certificate");
    for attempt in 1..=2 {
        let out = dir.path().join(attempt.to_string());
        if let Err(because) = booted(&out, Some(folder.path())) {
            return common::skipped("machines, live", &because);
        }
        let seen = std::fs::read(out.join("mirror/seen.json")).expect("what was seen live");
        let seen: Seen = serde_json::from_slice(&seen).expect("JSON");
        println!("{seen:?}");
        assert_eq!(seen.early, 0, "received before it was sent: {seen:?}");
        assert!(seen.bounded > (seen.datagrams + seen.segments) * 4 / 5, "{seen:?}");
        // As above: data around a refused probe is ambiguous, and not every byte is in a complete journey.
        if seen.lost.values().sum::<u64>() > 0 {
            let refused = LossCause::Refused.to_string();
            assert!(seen.lost.keys().all(|cause| *cause == refused), "{seen:?}");
            assert!(seen.datagrams > DATAGRAMS as u64 / 2 && seen.segments > REQUESTS as u64 / 2, "{seen:?}");
            continue;
        }
        assert!(seen.is_all(), "{seen:?}");
        // In hindsight, from the recordings of the third machine.
        let far =
            ["10.88.1.1", "10.88.2.1"].map(|host| out.join("mirror/far").join(host).display().to_string());
        no_packet_is_early(&journeys(&[&far[0], &far[1]]));
        return;
    }
    println!("in both runs their kernels refused runs of a probe; of the rest nothing was early");
}
