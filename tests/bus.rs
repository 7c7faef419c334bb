//! Agents that publish on a bus, and viewers that subscribe: a real NATS server between two hosts.

use crate::common::{self, agents, hosts as wired, talk};

use agents::{AgentChild, Running, on, run_on, scene};
use common::{eventually, is_root, run, skipped, stderr};
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event, Hop};
use magscope_fleet::{
    Buckets, BusReadOptions, Host, HostDiscovery, Keep, Memory, Publisher, StartAt, Terms, Via,
};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use talk::{
    DATAGRAMS, Talk, came, connections, events, info, journeys, locally, recordings, seen, traffic,
    without_wake_ups,
};
use wired::{Hosts, RecorderChild, in_namespace};

/// Addresses of the bus, on the router, from each host.
const BUS: [&str; 2] = ["tls://10.77.1.1:4222", "tls://10.77.2.1:4222"];
const CONNECTIONS: usize = 40;

/// A NATS server on the router, ended on drop.
struct Server {
    child: Child,
    namespace: String,
    configuration: PathBuf,
    log: PathBuf,
}

impl Server {
    /// A server that accepts certificates of the authority and stores data below `dir`; `None` if the program
    /// is missing.
    fn start(test: &str, hosts: &Hosts, dir: &Path, tls: &str) -> Option<Self> {
        let made = run(&["agent", "init", tls, "--host", "bus,10.77.1.1,10.77.2.1,127.0.0.1"]);
        assert!(made.status.success(), "{}", stderr(&made));
        let store = dir.join("bus").display().to_string();
        let text = format!(
            "listen: \"0.0.0.0:4222\"\njetstream {{ store_dir: \"{store}\", max_mem: 64MB, max_file: 4GB }}\n\
             tls {{ cert_file: \"{tls}/host-bus.pem\", key_file: \"{tls}/host-bus.key\", ca_file: \"{tls}/ca.pem\", \
             verify: true, timeout: 10 }}\n"
        );
        Self::with(test, hosts, dir, "bus.conf", &text)
    }

    fn with(test: &str, hosts: &Hosts, dir: &Path, name: &str, text: &str) -> Option<Self> {
        let configuration = dir.join(name);
        fs::write(&configuration, text).expect("own directory");
        let log = dir.join(format!("{name}.log"));
        let namespace = hosts.names[1].clone();
        let Ok(child) = spawn(&namespace, &configuration, &log) else {
            skipped(test, "there is no nats-server: scripts/setup-clients.sh installs it");
            return None;
        };
        let server = Server { child, namespace, configuration, log };
        server.is_ready();
        Some(server)
    }

    fn is_ready(&self) {
        let ready = || fs::read_to_string(&self.log).is_ok_and(|log| log.contains("Server is ready"));
        assert!(eventually(ready), "{:?}", fs::read_to_string(&self.log));
    }

    /// Kills the server.
    fn kill(&mut self) {
        self.child.kill().expect("it is there");
        self.child.wait().expect("it ends");
    }

    /// Starts a replacement.
    fn restart(&mut self) {
        fs::remove_file(&self.log).expect("its log");
        self.child = spawn(&self.namespace, &self.configuration, &self.log).expect("it was there");
        self.is_ready();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(namespace: &str, configuration: &Path, log: &Path) -> std::io::Result<Child> {
    let mut server = Command::new("nats-server");
    server.arg("-c").arg(configuration).arg("-l").arg(log);
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    in_namespace(namespace, || server.spawn())
}

/// An agent that publishes, as `client` or `server`.
fn agent(hosts: &Hosts, server: bool, tls: &str, dir: &Path, more: &[&str]) -> AgentChild {
    let name = if server { "server" } else { "client" };
    let publish = ["--via", BUS[usize::from(server)], "--via-name", name, "--health", "200ms"];
    let arguments: Vec<&str> = publish.iter().chain(more).copied().collect();
    let agent = AgentChild::start(hosts, server, tls, dir, &arguments);
    assert!(
        agent.printed(&format!("publishing as {name} at {}", BUS[usize::from(server)])),
        "{:?}",
        agent.messages()
    );
    agent
}

/// A viewer on the router that has started to record the bus. Returns its directory.
fn viewer(hosts: &Hosts, tls: &str, dir: &Path, name: &str, more: &[&str]) -> (Running, PathBuf) {
    let far = dir.join(name);
    let place = far.display().to_string();
    let arguments = ["record", "--via", BUS[0], "--tls", tls, "-o", &place];
    let arguments: Vec<&str> = arguments.iter().chain(more).copied().collect();
    (on(&hosts.names[1], &arguments), far)
}

/// Waits until it records `many` hosts.
fn records(far: &Path, many: usize) {
    assert!(eventually(|| recordings(far).len() == many), "{:?}", recordings(far));
}

fn both(far: &Path) -> Vec<PathBuf> {
    let all = recordings(far);
    assert_eq!(all.len(), 2, "{all:?}");
    all
}

fn journeys_of(dirs: &[PathBuf]) -> BTreeMap<String, usize> {
    journeys(&dirs.iter().map(PathBuf::as_path).collect::<Vec<_>>())
}

/// Packets of an export by hop, as workers count them.
fn packets(dirs: &[PathBuf], out: &Path) -> BTreeMap<String, usize> {
    let mut arguments = vec!["export".to_owned()];
    arguments.extend(dirs.iter().map(|dir| dir.display().to_string()));
    let out = out.display().to_string();
    arguments.extend(
        ["--format", "jsonl", "--tables", "hops", "--where", "port = 7001 or port = 7002", "-o", &out]
            .map(str::to_owned),
    );
    let output = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", stderr(&output));
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(&out).expect("it was written").lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        *counts.entry(row["hop"].to_string()).or_default() += 1;
    }
    counts
}

fn summed<const N: usize>(all: [BTreeMap<String, usize>; N]) -> BTreeMap<String, usize> {
    let mut sum = BTreeMap::new();
    for (what, count) in all.into_iter().flatten() {
        *sum.entry(what).or_default() += count;
    }
    sum
}

#[test]
fn what_the_bus_carries_is_what_hosts_record_themselves_whole_and_by_workers() {
    const TEST: &str = "a bus between hosts";
    if !is_root(TEST) {
        return;
    }
    let Some((hosts, dir, tls)) = scene("bus") else { return };
    let Some(_server) = Server::start(TEST, &hosts, dir.path(), &tls) else { return };
    let client = agent(&hosts, false, &tls, dir.path(), &[]);
    let server = agent(&hosts, true, &tls, dir.path(), &[]);
    let own = ["own-client", "own-server"].map(|name| dir.path().join(name));
    let recorders = [
        RecorderChild::start(&hosts.names[0], &own[0].display().to_string()),
        RecorderChild::start(&hosts.names[2], &own[1].display().to_string()),
    ];
    let (all, far) = viewer(&hosts, &tls, dir.path(), "far", &[]);
    let (low, one) = viewer(&hosts, &tls, dir.path(), "w1", &["--buckets", "0-31"]);
    let (high, two) =
        viewer(&hosts, &tls, dir.path(), "w2", &["--buckets", "32-63", "--hosts", "client,server"]);
    for far in [&far, &one, &two] {
        records(far, 2);
    }
    traffic(&hosts, Duration::from_millis(3));
    connections(&hosts, CONNECTIONS);
    // Until the last journeys are complete.
    std::thread::sleep(Duration::from_millis(500));
    recorders.into_iter().for_each(RecorderChild::end);
    let near = without_wake_ups(&journeys_of(&own));
    let carried = || journeys_of(&both(&far));
    assert!(eventually(|| without_wake_ups(&carried()) == near), "{near:#?} and {:#?}", carried());
    let parts = || [&one, &two].map(|far| journeys_of(&both(far)));
    assert!(eventually(|| summed(parts()) == carried()), "{:#?} and {:#?}", carried(), parts());
    for viewer in [all, low, high] {
        let ended = viewer.end();
        assert!(ended.status.success(), "{}", stderr(&ended));
    }
    for dir in [&far, &one, &two].into_iter().flat_map(|far| both(far)) {
        let info = info(&dir);
        let losses: Vec<u64> =
            info["losses"].as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).collect();
        assert!(info["closed"] == true && !losses.is_empty() && losses.iter().all(|n| *n == 0), "{info}");
    }
    let whole = journeys_of(&both(&far));
    let complete: usize =
        whole.iter().filter(|(what, _)| what.contains("\"complete\"")).map(|(_, count)| count).sum();
    assert!(complete >= DATAGRAMS * 2 + CONNECTIONS * 2, "{whole:#?}");
    assert_eq!(near, without_wake_ups(&whole));
    let parts = parts();
    assert!(parts.iter().all(|part| part.values().sum::<usize>() > 10), "each has its part: {parts:#?}");
    assert_eq!(summed(parts), whole);
    let counts = [&far, &one, &two].map(|far| packets(&both(far), &far.join("hops.jsonl")));
    let [all, low, high] = counts;
    assert_eq!(summed([low, high]), all);
    assert!(client.printed("; bus: ") && server.printed(" 0 missed"), "they say how the bus stands");
    // No other agent can use that host name meanwhile.
    let socket = dir.path().join("twin.sock").display().to_string();
    let twin = [
        "agent",
        "--socket",
        &socket,
        "--tls",
        &tls,
        "--identity",
        "host-client",
        "--via",
        BUS[0],
        "--via-name",
        "client",
    ];
    let twin = run_on(&hosts.names[0], &twin);
    let messages = stderr(&twin);
    assert!(!twin.status.success() && messages.contains("another agent publishes as `client`"), "{messages}");
    assert!(messages.contains("--via-name NAME"), "{messages}");
    client.end();
    server.end();
}

#[test]
fn a_bus_that_was_away_loses_nothing_that_an_agent_still_has() {
    const TEST: &str = "a bus that goes away";
    if !is_root(TEST) {
        return;
    }
    let Some((hosts, dir, tls)) = scene("gone") else { return };
    let Some(mut bus) = Server::start(TEST, &hosts, dir.path(), &tls) else { return };
    let server = agent(&hosts, true, &tls, dir.path(), &[]);
    let (all, far) = viewer(&hosts, &tls, dir.path(), "far", &[]);
    records(&far, 1);
    let recording = recordings(&far)[0].clone();
    traffic(&hosts, Duration::from_millis(1));
    assert!(eventually(|| events(&recording) > 0));
    // The bus is killed; the agent stores events meanwhile.
    bus.kill();
    assert!(server.printed("the bus is away"));
    locally(&hosts, 200);
    bus.restart();
    let came = |bytes| came(&recording, bytes);
    assert!(eventually(|| came(200) == DATAGRAMS), "{} of {DATAGRAMS}", came(200));
    let missed = || info(&recording)["losses"]["missed"].as_u64();
    assert_eq!(missed(), Some(0));

    // Its disk with unread data is lost too: the agent recreates the streams.
    bus.kill();
    fs::remove_dir_all(dir.path().join("bus")).expect("its store");
    locally(&hosts, 100);
    bus.restart();
    // After a loss, the first datagrams of a socket are ambiguous, because only their order identifies the
    // reads.
    let all_of = |bytes| {
        let (all, whole) = seen(&recording, bytes);
        all == DATAGRAMS && whole > DATAGRAMS / 2
    };
    assert!(eventually(|| all_of(100)), "{:?}", seen(&recording, 100));

    // The agent is killed and replaced.
    server.kill();
    let server = agent(&hosts, true, &tls, dir.path(), &[]);
    locally(&hosts, 50);
    assert!(eventually(|| all_of(50)), "{:?}", seen(&recording, 50));
    let ended = all.end();
    let messages = stderr(&ended);
    assert!(ended.status.success(), "{messages}");
    assert!(messages.contains("is away, trying again") && messages.contains("is back"), "{messages}");
    assert!(came(200) == DATAGRAMS && all_of(100) && all_of(50), "each once");
    assert!(missed().is_some_and(|missed| missed >= 1), "what came between the two agents nobody has seen");
    let exchanged: usize = journeys_of(&[recording]).values().sum();
    assert_eq!(exchanged, DATAGRAMS * 2, "each once");
    let ended = server.end();
    assert!(ended.last().is_some_and(|line| line.ends_with(" 0 waiting, 0 missed")), "{ended:?}");
}

#[test]
fn hosts_come_to_a_bus_while_others_are_read() {
    const TEST: &str = "a bus to which hosts come";
    if !is_root(TEST) {
        return;
    }
    let Some((hosts, dir, tls)) = scene("late") else { return };
    let Some(_bus) = Server::start(TEST, &hosts, dir.path(), &tls) else { return };
    let _client = agent(&hosts, false, &tls, dir.path(), &[]);
    // One viewer takes all hosts, the other waits for named ones.
    let (all, far) = viewer(&hosts, &tls, dir.path(), "far", &[]);
    let (named, waiting) = viewer(&hosts, &tls, dir.path(), "named", &["--hosts", "client,server"]);
    for far in [&far, &waiting] {
        records(far, 1);
    }
    let _server = agent(&hosts, true, &tls, dir.path(), &[]);
    for far in [&far, &waiting] {
        records(far, 2);
    }
    traffic(&hosts, Duration::from_millis(3));
    let complete = |far: &Path| -> usize {
        let journeys = journeys_of(&both(far));
        journeys.iter().filter(|(what, _)| what.contains("\"complete\"")).map(|(_, count)| count).sum()
    };
    for far in [&far, &waiting] {
        assert!(eventually(|| complete(far) >= DATAGRAMS * 2), "{:#?}", journeys_of(&both(far)));
    }
    let messages = [all, named].map(|viewer| {
        let ended = viewer.end();
        assert!(ended.status.success(), "{}", stderr(&ended));
        stderr(&ended)
    });
    assert!(messages.iter().all(|text| text.contains("recording server into")), "{messages:?}");
    assert!(messages[1].contains("no host `server` publishes there yet, waiting for it"), "{}", messages[1]);
}

#[test]
fn a_host_that_is_booted_anew_comes_to_a_bus_as_another() {
    const TEST: &str = "a bus with a host that is booted again";
    const URL: &str = "nats://127.0.0.1:4334";
    if !is_root(TEST) {
        return;
    }
    let Some((hosts, dir, _)) = scene("anew") else { return };
    let store = dir.path().join("bus").display().to_string();
    let text = format!("listen: \"127.0.0.1:4334\"\njetstream {{ store_dir: \"{store}\", max_file: 1GB }}\n");
    let Some(_bus) = Server::with(TEST, &hosts, dir.path(), "plain.conf", &text) else { return };
    let via = Via { servers: vec![URL.parse().expect("a server")], credentials: None, creds: None };
    let keep = Keep { bytes: 1 << 26, time: None };
    let publish = |boot_id: &str, from_ns: u64| {
        let info = NodeInfo { host: "web-1".to_owned(), boot_id: boot_id.to_owned(), ..NodeInfo::default() };
        let (memory, mut writer) = Memory::new(info, 1 << 26).expect("Arrow");
        let events =
            (0..100).map(|n| Event { record: n, ..Event::at(Hop::SchedSwitch, from_ns + u64::from(n)) });
        let batch = Batch { events: events.collect(), watermark_ns: from_ns + 100, ..Batch::default() };
        let publisher = Publisher::start(&via, &memory, "web-1", keep).expect("the bus is there");
        writer.push(&batch).expect("kept");
        (publisher, writer)
    };
    in_namespace(&hosts.names[1], || {
        // Data before the first viewer belongs to the first boot; the second viewer takes only the second boot,
        // for any start position.
        let (first, writer) = publish("one", 1_000_000);
        let options = BusReadOptions {
            via: via.clone(),
            only: Vec::new(),
            buckets: Buckets::ALL,
            from: StartAt::Back(Duration::from_mins(1)),
            terms: Terms::default(),
        };
        let enter = || HostDiscovery::enter(&[], Some(&options)).expect("a host is there");
        let (mut before, discovery) = enter();
        let mut before = before.pop().expect("one");
        assert_eq!(read(&mut before, 100), 100);
        drop(writer);
        first.end(Duration::from_secs(10)).expect("it was published");

        let (second, writer) = publish("two", 500);
        let mut came = None;
        assert!(eventually(|| {
            came = discovery.arrived();
            came.is_some()
        }));
        let mut came = came.expect("it was there");
        assert_eq!(came.info().boot_id, "two");
        assert_eq!(read(&mut came, 100), 100, "nothing of it was lost until it was seen");
        assert_eq!(
            read(&mut before, usize::MAX),
            0,
            "and nothing more came of the one before, which has ended"
        );
        let (mut later, _discovery) = enter();
        assert_eq!(later.len(), 1);
        assert_eq!(read(&mut later[0], 100), 100);
        drop(writer);
        second.end(Duration::from_secs(10)).expect("it was published");
    });
}

/// Reads until `events` events have arrived or the source ends; returns their number.
fn read(host: &mut Host, events: usize) -> usize {
    let (mut batch, mut came) = (Batch::default(), 0);
    let over = eventually(|| {
        let progress = host.next(&mut batch, Duration::from_millis(10)).expect("a source");
        came += batch.events.len();
        assert_eq!(batch.lost(), 0);
        came >= events || progress == Progress::End
    });
    assert!(over, "{came} of {events} have come");
    came
}

#[test]
fn what_a_bus_forgets_before_it_is_read_is_counted() {
    const TEST: &str = "a bus that forgets";
    if !is_root(TEST) {
        return;
    }
    let Some((hosts, dir, tls)) = scene("small") else { return };
    let Some(_bus) = Server::start(TEST, &hosts, dir.path(), &tls) else { return };
    let server = agent(&hosts, true, &tls, dir.path(), &["--via-keep", "1M", "--filter", "udp"]);
    // Both start with the first published message.
    let (fast, quick) = viewer(&hosts, &tls, dir.path(), "quick", &["--back", "10m"]);
    let (slow, late) = viewer(&hosts, &tls, dir.path(), "late", &["--back", "10m", "--buckets", "0-63"]);
    for far in [&quick, &late] {
        records(far, 1);
    }
    locally(&hosts, 30);
    for far in [&quick, &late] {
        assert!(eventually(|| events(&recordings(far)[0]) > 0));
    }
    let talk = Talk::new(&hosts);
    let info_of = |far: &Path| info(&recordings(far)[0]);
    let number = |info: &Value, key: &str| info[key].as_u64().unwrap_or(0);
    let missed = || info_of(&late)["losses"]["missed"].as_u64().unwrap_or(0);
    let mut exchanges = 0;
    // How much the bus sends ahead to a subscriber depends on the size of its messages, and so on how busy the machine
    // is. One round suffices on a machine that is not.
    while missed() == 0 {
        slow.signal(Signal::STOP);
        let began = info_of(&quick);
        let since = |key: &str| number(&info_of(&quick), key) - number(&began, key);
        while since("bytes") < 4_000_000 || since("duration_ns") < 12_000_000_000 {
            talk.exchange(500, Duration::ZERO);
            exchanges += 500;
            assert!(exchanges < 1_000_000);
        }
        slow.signal(Signal::CONT);
        let end_ns = number(&info_of(&quick), "duration_ns");
        assert!(eventually(|| number(&info_of(&late), "duration_ns") >= end_ns), "the slow viewer goes on");
    }
    locally(&hosts, 77);
    // The first reads after a loss are ambiguous.
    let last = |far: &Path| seen(&recordings(far)[0], 77);
    let has_come = |far: &Path| last(far).0 == DATAGRAMS && last(far).1 > DATAGRAMS / 2;
    assert!(eventually(|| has_come(&quick) && has_come(&late)), "{:?} {:?}", last(&quick), last(&late));
    let ended = server.end().last().cloned().unwrap_or_default();
    let sent = ended.split_once("; bus: ").and_then(|(_, bus)| bus.split_once(" sent")?.0.parse::<u64>().ok());
    // Each viewer has every published record or reports its loss. Only events are counted: samples are TCP's.
    let total = |far: &Path| {
        let info = info(&recordings(far)[0]);
        let losses: u64 =
            info["losses"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum();
        info["events"].as_u64().map(|events| events + losses)
    };
    assert!(sent.is_some() && ended.contains(" 0 missed"), "{ended}");
    assert!(
        eventually(|| total(&quick) == sent && total(&late) == sent),
        "{ended}: {:?} {:?}",
        total(&quick),
        total(&late)
    );
    for viewer in [fast, slow] {
        let ended = viewer.end();
        assert!(ended.status.success() && stderr(&ended).contains("its agent has ended"), "{}", stderr(&ended));
    }
    assert_eq!((total(&quick), total(&late)), (sent, sent));
    let losses = info(&recordings(&late)[0])["losses"].clone();
    assert!(losses["missed"].as_u64().is_some_and(|missed| missed > 0), "{losses}");
}

#[test]
fn who_may_not_use_a_bus_is_told_why() {
    const TEST: &str = "a bus that lets nobody in";
    if !is_root(TEST) {
        return;
    }
    let Some((hosts, dir, tls)) = scene("shut") else { return };
    let Some(_bus) = Server::start(TEST, &hosts, dir.path(), &tls) else { return };
    let other = dir.path().join("other").display().to_string();
    let made = run(&["agent", "init", &other, "--host", "server,10.77.2.2", "--viewer", "me"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let out = dir.path().join("out").display().to_string();
    let refused = |arguments: &[&str], words: &[&str]| {
        let arguments: Vec<&str> = ["record", "-o", &out].iter().chain(arguments).copied().collect();
        let output = run_on(&hosts.names[1], &arguments);
        let messages = stderr(&output);
        assert!(!output.status.success(), "{arguments:?}: {messages}");
        for words in words {
            assert!(messages.contains(words), "{words} is not in: {messages}");
        }
        assert!(!messages.contains("s3cr3t"), "{messages}");
    };
    let hint = ["likely cause:", "next step:"];
    // A foreign authority: neither side trusts the other.
    refused(&["--via", BUS[0], "--tls", &other], &["the bus cannot be used", "ertificate", hint[0], hint[1]]);
    // The right authority with a foreign certificate.
    let mixed = dir.path().join("mixed");
    fs::create_dir(&mixed).expect("own directory");
    fs::copy(Path::new(&tls).join("ca.pem"), mixed.join("ca.pem")).expect("it is there");
    for file in ["viewer-me.pem", "viewer-me.key"] {
        fs::copy(Path::new(&other).join(file), mixed.join(file)).expect("it is there");
    }
    let mixed = mixed.display().to_string();
    refused(&["--via", BUS[0], "--tls", &mixed], &["the bus cannot be used", "does not let you in", hint[1]]);
    // A closed port; no publisher; no JetStream; no NATS server.
    refused(&["--via", "tls://10.77.1.1:4999", "--tls", &tls], &["no NATS server listens there", hint[1]]);
    refused(&["--via", BUS[0], "--tls", &tls], &["no host publishes there", "magnet-scope agent --via"]);
    refused(&["--via", "nats://me:s3cr3t@10.77.1.1:4222"], &["for this host alone", "tls://"]);
    refused(&["--via", "me:s3cr3t@10.77.1.1"], &["tls://HOST:4222"]);
    refused(&["--via", BUS[0], "--buckets", "0-64"], &["no buckets"]);
    let plain = "listen: \"127.0.0.1:4333\"\nauthorization { user: me, password: s3cr3t }\n";
    let Some(_plain) = Server::with(TEST, &hosts, dir.path(), "plain.conf", plain) else { return };
    refused(&["--via", "nats://me:s3cr3t@127.0.0.1:4333"], &["the server has no JetStream", hint[1]]);
    refused(&["--via", "nats://me:s3cr3t-not@127.0.0.1:4333"], &["does not let you in", hint[1]]);
    let socket = dir.path().join("agent.sock").display().to_string();
    let nowhere = run_on(&hosts.names[2], &["agent", "--socket", &socket, "--via", "nats://127.0.0.1:4999"]);
    let messages = stderr(&nowhere);
    assert!(!nowhere.status.success() && messages.contains("no NATS server listens there"), "{messages}");
}
