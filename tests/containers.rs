//! Names of containers and pods of real engines, held against what the engines print.

mod engines;

use crate::common::agents::{Running, on};
use crate::common::hosts::{in_namespace, ip};
use crate::common::{eventually, is_root, run, stderr, stdout};
use engines::{Containerd, Docker, Podman};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A namespace of its own for an engine, so that its bridge and rules meet no others.
struct Place {
    netns: String,
    dir: TempDir,
}

impl Place {
    fn new(test: &str) -> Option<Self> {
        if !is_root(test) {
            return None;
        }
        let netns = crate::common::hosts::namespace_name("engine");
        assert!(ip(&["netns", "add", &netns]) && ip(&["-n", &netns, "link", "set", "lo", "up"]));
        Some(Place { netns, dir: tempfile::tempdir().expect("a directory") })
    }

    /// A name that no other test gives: a capture of all namespaces has the containers of all engines.
    fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.netns)
    }

    fn session(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Rows of a table of a recording.
    fn table(&self, session: &Path, table: &str) -> Vec<BTreeMap<String, Value>> {
        let out = self.session(&format!("{table}.jsonl")).display().to_string();
        let path = session.display().to_string();
        let output = run(&["export", &path, "--format", "jsonl", "--tables", table, "-o", &out]);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = fs::read_to_string(out).expect("JSON lines");
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
    }

    /// Records until [`Recording::end`].
    fn record(&self, name: &str, more: &[&str]) -> Recording {
        let session = self.session(name);
        let path = session.display().to_string();
        let recorder = on(&self.netns, &[&["record", "-o", &path, "--ring-size", "16MiB"], more].concat());
        assert!(eventually(|| session.join("meta.toml").exists()), "it records");
        Recording { recorder, session }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.netns]);
    }
}

const REQUEST: &str = "GET /page HTTP/1.0\r\n\r\n";

/// A host on the network of an engine's host.
struct Outside {
    netns: String,
}

impl Outside {
    fn of(place: &Place) -> Self {
        let netns = crate::common::hosts::namespace_name("outside");
        assert!(ip(&["netns", "add", &netns]) && ip(&["-n", &netns, "link", "set", "lo", "up"]));
        let ends = [(place.netns.as_str(), "wan", "192.0.2.1/24"), (&netns, "eth0", "192.0.2.2/24")];
        let veth =
            ["link", "add", "wan", "netns", &place.netns, "type", "veth", "peer", "name", "eth0", "netns"];
        assert!(ip(&[&veth[..], &[&netns]].concat()));
        for (host, device, address) in ends {
            assert!(ip(&["-n", host, "addr", "add", address, "dev", device]));
            assert!(ip(&["-n", host, "link", "set", device, "up"]));
        }
        Outside { netns }
    }

    /// Asks for a page and reads to the end. Returns the number of bytes read.
    fn get(&self, address: &str) -> usize {
        in_namespace(&self.netns, || {
            let mut stream = TcpStream::connect(address).expect("a published port");
            stream.write_all(REQUEST.as_bytes()).expect("asked");
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).expect("answered");
            answer.len()
        })
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.netns]);
    }
}

struct Recording {
    recorder: Running,
    session: PathBuf,
}

impl Recording {
    /// Waits until a container has this number of requests in the recording.
    fn has(&self, by: &str, name: &str, requests: u64) {
        let last = || counts(&self.session, by, &[]);
        assert!(
            eventually(|| last().get(name).is_some_and(|found| *found >= requests)),
            "{name}: {:?}",
            last()
        );
    }

    fn end(self) -> PathBuf {
        let ended = self.recorder.end();
        assert!(ended.status.success(), "{}", stderr(&ended));
        self.session
    }
}

/// Number of requests by the name of their responder's container, pod or unit.
fn counts(session: &Path, by: &str, more: &[&str]) -> BTreeMap<String, u64> {
    let path = session.display().to_string();
    let output = run(&[&["requests", &path, "--json", "--slowest", "0", "--by", by], more].concat());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let rows = found["rows"].as_array().cloned().unwrap_or_default();
    let all = |row: &Value| {
        row["grades"].as_object().map_or(0, |grades| grades.values().filter_map(Value::as_u64).sum())
    };
    rows.iter().map(|row| (row["name"].as_str().unwrap_or_default().to_owned(), all(row))).collect()
}

fn text<'r>(row: &'r BTreeMap<String, Value>, column: &str) -> &'r str {
    row.get(column).and_then(Value::as_str).unwrap_or_default()
}

/// The containers in the description of a recording's node: name to the rest.
fn described(session: &Path) -> BTreeMap<String, Value> {
    let output = run(&["info", &session.display().to_string(), "--json"]);
    let info: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let containers = info["node"]["containers"].as_array().cloned().unwrap_or_default();
    containers.into_iter().map(|one| (one["name"].as_str().unwrap_or_default().to_owned(), one)).collect()
}

/// Name of a network namespace in a recording.
fn netns_name(session: &Path, netns: u64) -> String {
    let output = run(&["info", &session.display().to_string(), "--json"]);
    let info: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names = info["node"]["netns"].as_array().cloned().unwrap_or_default();
    let found = names.iter().find(|name| name["netns"] == netns);
    found.and_then(|name| name["name"].as_str()).unwrap_or_default().to_owned()
}

#[test]
fn containers_of_docker_have_the_names_that_docker_prints() {
    const TEST: &str = "names of containers of Docker";
    const REQUESTS: usize = 5;
    let Some(place) = Place::new(TEST) else { return };
    let Some(docker) = Docker::start(TEST, &place.netns, place.dir.path()) else { return };
    let [web, client, late] = ["web", "client", "late"].map(|name| place.name(name));
    docker.serve(&web, &[]);
    docker.idle(&client, &["--label", "tier=front"]);
    let address = docker.address(&web);
    let recording = place.record("all", &["--netns", "all"]);
    for _ in 0..REQUESTS {
        assert_eq!(docker.fetch(&client, &address), "hello");
    }
    // One that starts later is captured and named.
    docker.idle(&late, &[]);
    assert_eq!(docker.fetch(&late, &address), "hello");
    recording.has("container", &web, REQUESTS as u64 + 1);
    let by_late = format!("container = {late}");
    let by_late = ["--where", by_late.as_str()];
    assert!(eventually(|| counts(&recording.session, "container", &by_late).get(&web) == Some(&1)));
    let session = recording.end();

    // Docker's own list.
    let described = described(&session);
    for (id, name) in docker.list() {
        let found = &described[&name];
        assert!(found["id"].as_str().is_some_and(|found| found.starts_with(&id)), "{name}: {found}");
        assert_eq!(found["engine"], "docker");
        let netns =
            fs::metadata(docker.inspect(&name, "{{.NetworkSettings.SandboxKey}}")).expect("a namespace").ino();
        assert_eq!(found["netns"], netns, "{name}");
        assert_eq!(netns_name(&session, netns), name);
    }
    assert_eq!(described[&client]["labels"][0]["value"], "front");

    // Exports, filters and reports agree.
    let exchanges = place.table(&session, "exchanges");
    let of = |name: &str| {
        let is = |row: &&BTreeMap<String, Value>| {
            text(row, "requester_container") == name && text(row, "responder_container") == web
        };
        exchanges.iter().filter(is).count()
    };
    assert_eq!((of(&client), of(&late)), (REQUESTS, 1));
    let journeys = place.table(&session, "journeys");
    let of_late: Vec<_> = journeys.iter().filter(|row| text(row, "sender_container") == late).collect();
    assert!(!of_late.is_empty() && of_late.iter().all(|row| text(row, "tx_netns_name") == late), "{of_late:?}");
    let path = session.display().to_string();
    let matching = run(&["report", &path, "--json", "--by", "container"]);
    let report: Value = serde_json::from_slice(&matching.stdout).expect("JSON");
    let rows = report["groups"]["rows"].as_array().cloned().unwrap_or_default();
    for name in [&web, &client, &late] {
        assert!(
            rows.iter().any(|row| row["group"] == "container" && row["name"] == **name),
            "{name}: {rows:?}"
        );
    }
    let log = place.session("log.ulm").display().to_string();
    assert!(run(&["export", &path, "--format", "ulm", "-o", &log]).status.success());
    assert!(fs::read_to_string(&log).expect("a log").contains(&format!("MAG.NODE={late}")));
}

/// Journeys between two nodes, in one direction.
fn between<'r>(rows: &'r [Value], from: &str, to: &str) -> Vec<&'r Value> {
    rows.iter().filter(|row| row["from_node"] == from && row["to_node"] == to).collect()
}

#[test]
fn requests_to_a_published_port_are_whole_journeys_through_the_host() {
    const TEST: &str = "a port that Docker publishes";
    const REQUESTS: usize = 5;
    let Some(place) = Place::new(TEST) else { return };
    let Some(docker) = Docker::start(TEST, &place.netns, place.dir.path()) else { return };
    let outside = Outside::of(&place);
    let [web, client] = ["web", "client"].map(|name| place.name(name));
    docker.serve(&web, &["--publish", "8080:80"]);
    docker.idle(&client, &[]);
    let recording = place.record("all", &["--netns", "all"]);
    let from_outside: Vec<usize> = (0..REQUESTS).map(|_| outside.get("192.0.2.1:8080")).collect();
    let address = docker.address(&web);
    for _ in 0..REQUESTS {
        assert_eq!(docker.fetch(&client, &address), "hello");
    }
    recording.has("container", &web, 2 * REQUESTS as u64);
    let session = recording.end();
    let path = session.display().to_string();
    let output = run(&["journeys", &path, "--json", "--slowest", "100000", "--where", "proto = tcp"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    // The recorder's own namespace is the engine's host.
    let is_whole = |row: &&Value| {
        let through = row["forwarders"].as_array().map(Vec::as_slice).unwrap_or_default();
        row["verdict"] == "complete" && through.len() == 1 && through[0]["node"] == place.netns
    };
    for (one, other) in [(&outside.netns, &web), (&client, &web)] {
        for (from, to) in [(one, other), (other, one)] {
            let all = between(&rows, from, to);
            assert!(all.len() >= REQUESTS, "{from} to {to}: {}", all.len());
            let others: Vec<_> = all.iter().filter(|row| !is_whole(row)).collect();
            assert!(others.is_empty(), "{from} to {to}: {} others: {:?}", others.len(), others.first());
        }
    }
    // Every byte that the client outside has sent and read.
    let bytes = |from: &str, to: &str| -> u64 {
        between(&rows, from, to).iter().filter_map(|row| row["bytes"].as_u64()).sum()
    };
    assert_eq!(bytes(&outside.netns, &web), (REQUESTS * REQUEST.len()) as u64);
    assert_eq!(bytes(&web, &outside.netns), from_outside.iter().sum::<usize>() as u64);
    let first = between(&rows, &outside.netns, &web)[0];
    assert_eq!(first["to"], "192.0.2.1:8080");
    assert_eq!(first["arrives_as"][1], format!("{address}:80"));
}

#[test]
fn a_capture_of_one_container_has_its_traffic_alone() {
    const TEST: &str = "a capture of one container";
    let Some(place) = Place::new(TEST) else { return };
    let Some(docker) = Docker::start(TEST, &place.netns, place.dir.path()) else { return };
    let [web, other, client] = ["web", "other", "client"].map(|name| place.name(name));
    docker.serve(&web, &[]);
    docker.serve(&other, &[]);
    docker.idle(&client, &[]);
    let recording = place.record("web", &["--container", &web]);
    for name in [&other, &web, &other, &web] {
        assert_eq!(docker.fetch(&client, &docker.address(name)), "hello");
    }
    recording.has("container", &web, 2);
    let session = recording.end();
    let journeys = place.table(&session, "journeys");
    assert!(!journeys.is_empty());
    for row in &journeys {
        assert!(
            [text(row, "sender_container"), text(row, "reader_container")].contains(&web.as_str()),
            "{row:?}"
        );
    }
    // A name that is not there is refused, with those that are.
    let path = place.session("none").display().to_string();
    let refused = on(&place.netns, &["record", "-o", &path, "--container", "nope"]).wait();
    assert!(!refused.status.success());
    assert!(stderr(&refused).contains("there are:"), "{}", stderr(&refused));
}

#[test]
fn containers_and_pods_of_podman_have_the_names_that_podman_prints() {
    const TEST: &str = "names of containers of Podman";
    let Some(place) = Place::new(TEST) else { return };
    let Some(podman) = Podman::start(TEST, &place.netns, place.dir.path()) else { return };
    let [alone, shop, cart] = ["alone", "shop", "cart"].map(|name| place.name(name));
    podman.serve(&alone, &[]);
    podman.pod(&shop);
    podman.serve(&cart, &["--pod", &shop]);
    let recording = place.record("all", &["--netns", "all"]);
    for name in [&alone, &cart, &cart] {
        assert_eq!(podman.fetch(name), "hello");
    }
    recording.has("container", &alone, 1);
    recording.has("container", &cart, 2);
    let session = recording.end();
    let described = described(&session);
    for (id, name, pod) in podman.list() {
        let found = &described[&name];
        assert!(found["id"].as_str().is_some_and(|found| found.starts_with(&id)), "{name}: {found}");
        assert_eq!(found["engine"], "podman");
        assert_eq!(found["pod"].as_str().unwrap_or_default(), pod, "{name}");
    }
    let of_shop = format!("pod = {shop}");
    assert_eq!(counts(&session, "pod", &["--where", &of_shop]).get(&shop), Some(&2));
    let netns = described[&cart]["netns"].as_u64().expect("a namespace");
    assert_eq!(netns_name(&session, netns), shop);
}

#[test]
fn containers_of_containerd_have_their_name_and_pod_by_cri() {
    const TEST: &str = "names of containers of containerd";
    let Some(place) = Place::new(TEST) else { return };
    let Some(containerd) = Containerd::start(TEST, &place.netns, place.dir.path()) else { return };
    // Instances of containerd share the directory of runc.
    let id = format!("{}-nginx", place.netns);
    containerd.serve(&id, "nginx", "web-7f9c", "shop");
    let recording = place.record("all", &["--netns", "all"]);
    assert_eq!(containerd.fetch(&id), "hello");
    recording.has("pod", "shop/web-7f9c", 1);
    let session = recording.end();
    let nginx = &described(&session)["nginx"];
    assert!(containerd.list().contains(&nginx["id"].as_str().expect("an id").to_owned()));
    assert_eq!((&nginx["pod"], &nginx["pod_namespace"]), (&Value::from("web-7f9c"), &Value::from("shop")));
    assert_eq!(counts(&session, "container", &["--where", "pod = web-7f9c"]).get("nginx"), Some(&1));
    assert_eq!(netns_name(&session, nginx["netns"].as_u64().expect("a namespace")), "shop/web-7f9c");
}

#[test]
fn doctor_lists_engines_and_the_number_of_their_containers() {
    const TEST: &str = "engines in doctor";
    let Some(place) = Place::new(TEST) else { return };
    let Some(docker) = Docker::start(TEST, &place.netns, place.dir.path()) else { return };
    docker.idle("web", &[]);
    let output = run(&["doctor", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let checks = found["checks"].as_array().cloned().unwrap_or_default();
    let check = checks.iter().find(|check| check["what"] == "containers").expect("a check");
    let expected = format!("docker has 1 at {}", docker.root().join("containers").display());
    assert!(check["found"].as_str().is_some_and(|text| text.contains(&expected)), "{check}");
    assert!(stdout(&run(&["doctor"])).contains("docker has 1"));
}
