//! `magnet-scope metrics`, read by a real Prometheus: the stored values equal the sent ones.

use crate::common::{self, agents, exports, hosts as wired, web};

use agents::{AgentChild, Running, on};
use common::{eventually, is_root, run, skipped, stderr, uninterrupted};
use exports::python_with;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use web::{Answer, connect, get};
use wired::{CLIENT, SERVER, in_namespace, ip};

const DATAGRAMS: usize = 137;
const BYTES: usize = 311;

/// A separate namespace with only a loopback device, so that the capture sees only this test.
struct Alone(String);

impl Alone {
    fn new(test: &str) -> Option<Self> {
        let name = wired::namespace_name(test);
        if !ip(&["netns", "add", &name]) {
            skipped(test, "`ip netns add` (iproute2) is not there or fails");
            return None;
        }
        let alone = Alone(name);
        assert!(ip(&["-n", &alone.0, "link", "set", "lo", "up"]));
        Some(alone)
    }

    fn get(&self, port: u16, path: &str, headers: &str) -> Option<Answer> {
        in_namespace(&self.0, || get(local(port), path, headers))
    }

    /// The first available answer.
    fn metrics(&self, headers: &str) -> Answer {
        let mut answer = None;
        let there = eventually(|| {
            answer = self.get(9464, "/metrics", headers).filter(|answer| answer.body.contains("hop_served"));
            answer.is_some()
        });
        assert!(there, "it answers");
        answer.expect("there is one")
    }

    /// Current value of a metric.
    fn figure(&self, series: &str) -> Option<u64> {
        let answer = self.get(9464, "/metrics", "")?;
        let line = answer.body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        line.parse().ok()
    }

    /// Datagrams, each read by a waiting reader.
    fn talk(&self) {
        let (own, peer) = in_namespace(&self.0, || {
            let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
            (bind(), bind())
        });
        own.connect(peer.local_addr().expect("bound")).expect("a peer");
        peer.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
        for _ in 0..DATAGRAMS {
            own.send(&[7; BYTES]).expect("sent");
            assert_eq!(uninterrupted(|| peer.recv(&mut [0; 400])).expect("read"), BYTES);
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// An external program, ended on drop.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A Prometheus in a namespace with its data directory, with native histograms or only classic ones.
fn prometheus(namespace: &str, dir: &Path, native: bool) -> Other {
    let config = dir.join("prometheus.yml");
    let text = "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: magnet-scope\n    \
                static_configs:\n      - targets: ['127.0.0.1:9464']\n";
    fs::write(&config, text).expect("a file");
    let child = in_namespace(namespace, || {
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
            .args(["--web.listen-address=127.0.0.1:9090", "--log.level=error"])
            .args(native.then_some("--enable-feature=native-histograms"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts")
    });
    Other(child)
}

/// Prometheus' value for a query of one series.
fn asked(alone: &Alone, query: &str) -> Option<String> {
    Some(answered(alone, query)?["data"]["result"][0]["value"][1].as_str()?.to_owned())
}

/// Prometheus' answer to a query.
fn answered(alone: &Alone, query: &str) -> Option<Value> {
    let encoded: String = query.bytes().fold(String::new(), |all, byte| all + &format!("%{byte:02x}"));
    let answer = alone.get(9090, &format!("/api/v1/query?query={encoded}"), "")?;
    serde_json::from_str(&answer.body).ok()
}

/// The expressions of the dashboard, in the form that Grafana sends.
fn expressions() -> Vec<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/grafana-dashboard.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(file).expect("a file")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let asked = targets.map(|target| target["expr"].as_str().expect("an expression").to_owned());
    asked.map(|text| text.replace("$__rate_interval", "1m").replace("$instance", ".*")).collect()
}

#[test]
fn prometheus_stores_what_was_sent() {
    if !is_root("metrics") {
        return;
    }
    if !is_there("prometheus") || !is_there("promtool") {
        return skipped("metrics", "prometheus is not there (scripts/setup-clients.sh)");
    }
    let Some(alone) = Alone::new("metrics") else { return };
    let dir = TempDir::new().expect("a directory");
    let sensor = on(&alone.0, &["metrics"]);
    let first = alone.metrics("");
    assert_eq!(first.status, 200);
    assert!(
        first.head.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "{}",
        first.head
    );
    assert!(first.body.ends_with("# EOF\n"), "{}", first.body);
    let prometheus = prometheus(&alone.0, dir.path(), false);
    alone.talk();

    let expected = [
        ("magnet_scope_hop_events_total{hop=\"udp.recv\"}", DATAGRAMS),
        ("magnet_scope_hop_bytes_total{hop=\"udp.recv\"}", DATAGRAMS * BYTES),
        ("magnet_scope_journeys_total{proto=\"udp\",verdict=\"complete\"}", DATAGRAMS),
        ("magnet_scope_lost_records_total{cause=\"ring_full\"}", 0),
        ("magnet_scope_hop_sampling_weight{hop=\"udp.recv\"}", 1),
    ];
    for (series, count) in expected {
        let mut stored = None;
        let same = eventually(|| {
            stored = asked(&alone, series);
            stored.as_deref() == Some(count.to_string().as_str())
        });
        assert!(same, "{series}: {stored:?} is not {count}");
    }
    // A valid histogram: every datagram was measured from the socket's queue to its reader.
    let bucket = "sum(magnet_scope_hop_latency_seconds_bucket{to=\"app.recv\",le=\"+Inf\"})";
    assert!(eventually(
        || asked(&alone, bucket).is_some_and(|n| n.parse().is_ok_and(|n: usize| n >= DATAGRAMS))
    ));
    let since = asked(&alone, "time() - magnet_scope_start_time_seconds").expect("a time");
    assert!((0.0..600.0).contains(&since.parse::<f64>().expect("a number")), "{since}");
    // All dashboard expressions are valid, and those on datagrams return data.
    for expression in expressions() {
        let answer = answered(&alone, &expression).expect("it answers");
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
    }
    let events = expressions().into_iter().find(|text| text.contains("hop_events_total")).expect("one");
    assert!(eventually(|| asked(&alone, &events).is_some()), "{events}");
    drop(prometheus);

    a_prometheus_with_native_histograms_has_them(&alone);

    // Prometheus' linter has no complaint about the plain format.
    let plain = alone.metrics("Accept: text/plain\r\n");
    assert!(plain.head.contains("text/plain; version=0.0.4"), "{}", plain.head);
    let mut lint = Command::new("promtool");
    lint.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut lint = lint.spawn().expect("it starts");
    lint.stdin.take().expect("piped").write_all(plain.body.as_bytes()).expect("it reads");
    let lint = lint.wait_with_output().expect("it ends");
    let printed = format!("{}{}", String::from_utf8_lossy(&lint.stdout), stderr(&lint));
    assert!(lint.status.success() && printed.trim().is_empty(), "{printed}\n{}", plain.body);
    let ended = sensor.end();
    assert!(ended.status.success(), "{}", stderr(&ended));
}

/// Every hop pair's times in eight buckets per octave, next to unchanged counters.
fn a_prometheus_with_native_histograms_has_them(alone: &Alone) {
    let dir = TempDir::new().expect("a directory");
    let prometheus = prometheus(&alone.0, dir.path(), true);
    // Only the sent datagrams count; HTTP traffic here uses segments.
    let text = alone.get(9464, "/metrics", "").expect("it answers").body;
    let counts = text.lines().filter_map(|line| line.strip_prefix("magnet_scope_hop_latency_seconds_count{"));
    let mut counts = counts.filter_map(|line| line.split_once("} "));
    let (labels, count) = counts.find(|(labels, _)| labels.ends_with("to=\"udp.recv\"")).expect("a pair");
    assert_eq!(count, DATAGRAMS.to_string());
    let stored = format!("histogram_count(magnet_scope_hop_latency_seconds{{{labels}}})");
    let same = eventually(|| asked(alone, &stored).as_deref() == Some(count));
    assert!(same, "{:?} is not {count}", asked(alone, &stored));
    let received = "magnet_scope_hop_events_total{hop=\"udp.recv\"}";
    assert_eq!(asked(alone, received), Some(DATAGRAMS.to_string()));
    // Its median agrees with the classic histogram at higher resolution.
    let start = format!("magnet_scope_hop_latency_seconds_bucket{{{labels},le=\"");
    let buckets = text.lines().filter_map(|line| line.strip_prefix(&start)?.split_once("\"} "));
    let buckets: Vec<(f64, u64)> = buckets
        .filter(|(le, _)| *le != "+Inf")
        .map(|(le, below)| (le.parse().expect("seconds"), below.parse().expect("a count")))
        .collect();
    let at = buckets
        .iter()
        .position(|(_, below)| 2 * below >= DATAGRAMS as u64)
        .expect("a median below ten seconds");
    let least = if at == 0 { 0.0 } else { buckets[at - 1].0 };
    let median = format!("histogram_quantile(0.5, magnet_scope_hop_latency_seconds{{{labels}}})");
    let median: f64 = asked(alone, &median).expect("an answer").parse().expect("a number");
    assert!(least * 0.9 <= median && median <= buckets[at].0 * 1.1, "{median} of {least}..{}", buckets[at].0);
    drop(prometheus);
}

/// An OpenTelemetry collector in a namespace that logs everything it receives.
struct Collector {
    other: Option<Other>,
    namespace: String,
    program: String,
    log: PathBuf,
}

impl Collector {
    fn new(test: &str, namespace: &str, dir: &Path) -> Option<Self> {
        let python = python_with(test, "rotel")?;
        let place =
            "import rotel, os; print(os.path.join(os.path.dirname(rotel.__file__), 'rotel-agent'), end='')";
        let output = Command::new(python).args(["-c", place]).output().expect("Python runs");
        let program = String::from_utf8(output.stdout).expect("a path");
        Some(Collector {
            other: None,
            namespace: namespace.to_owned(),
            program,
            log: dir.join("collector.log"),
        })
    }

    fn start(&mut self) {
        let log = fs::File::create(&self.log).expect("own directory");
        let errors = log.try_clone().expect("a file");
        let child = in_namespace(&self.namespace, || {
            Command::new(&self.program)
                .args(["start", "--exporter", "blackhole", "--debug-log", "metrics"])
                .args(["--debug-log-verbosity", "detailed"])
                .args(["--otlp-grpc-endpoint", "127.0.0.1:4317", "--otlp-http-endpoint", "127.0.0.1:4318"])
                .stdin(Stdio::null())
                .stdout(log)
                .stderr(errors)
                .spawn()
                .expect("it starts")
        });
        self.other = Some(Other(child));
    }

    /// The last value of a metric at a hop, according to the collector.
    fn value(&self, name: &str, hop: &str) -> Option<u64> {
        let log = fs::read_to_string(&self.log).ok()?;
        let last = log.rsplit_once(&format!("-> Name: {name}\n"))?.1;
        let last = last.split("-> Name: ").next()?;
        let point = last.split_once(&format!("-> hop: Str({hop})\n"))?.1;
        point.split_once("Value: ")?.1.lines().next()?.trim().parse().ok()
    }

    fn got(&self, words: &str) -> bool {
        fs::read_to_string(&self.log).is_ok_and(|log| log.contains(words))
    }
}

#[test]
fn a_collector_gets_what_was_sent_also_when_it_was_away() {
    const TEST: &str = "metrics for a collector";
    if !is_root(TEST) {
        return;
    }
    let Some(alone) = Alone::new("otlp") else { return };
    let dir = TempDir::new().expect("a directory");
    let Some(mut collector) = Collector::new(TEST, &alone.0, dir.path()) else { return };
    let sensor = on(&alone.0, &["metrics", "--otlp", "http://127.0.0.1:4317", "--otlp-every", "1s"]);
    alone.metrics("");
    alone.talk();
    // Absent until then.
    std::thread::sleep(Duration::from_millis(1500));
    collector.start();
    let is = |name: &str, value: usize| {
        let same = || collector.value(name, "udp.recv") == Some(value as u64);
        assert!(eventually(same), "{name}: {:?} is not {value}", collector.value(name, "udp.recv"));
    };
    is("magnet_scope_hop_events", DATAGRAMS);
    is("magnet_scope_hop_bytes", DATAGRAMS * BYTES);
    for words in
        ["-> host.name: Str(", "-> service.name: Str(magnet-scope)", "Name: magnet_scope_hop_latency_seconds"]
    {
        assert!(collector.got(words), "{words}");
    }
    // And again with a replacement.
    collector.other = None;
    alone.talk();
    std::thread::sleep(Duration::from_millis(1500));
    collector.start();
    let is_twice = || collector.value("magnet_scope_hop_events", "udp.recv") == Some(2 * DATAGRAMS as u64);
    assert!(eventually(is_twice), "{:?}", collector.value("magnet_scope_hop_events", "udp.recv"));
    let ended = sensor.end();
    let messages = stderr(&ended);
    assert!(ended.status.success(), "{messages}");
    assert!(
        messages.contains("does not take the figures") && messages.contains("takes the figures"),
        "{messages}"
    );
}

#[test]
fn who_asks_badly_is_answered_and_who_says_nothing_is_in_nobody_s_way() {
    if !is_root("metrics of the hostile") {
        return;
    }
    let Some(alone) = Alone::new("hostile") else { return };
    let sensor = on(&alone.0, &["metrics"]);
    alone.metrics("");
    assert_eq!(alone.get(9464, "/", "").map(|answer| answer.status), Some(200));
    assert_eq!(alone.get(9464, "/etc/passwd", "").map(|answer| answer.status), Some(404));
    let raw = |request: Vec<u8>| {
        in_namespace(&alone.0, || {
            let mut stream = connect(local(9464)).expect("it listens");
            // The server may stop reading before the request is complete.
            let _ = stream.write_all(&request);
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8_lossy(&answer).into_owned()
        })
    };
    assert!(
        raw(b"POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n".to_vec())
            .contains(" 405 ")
    );
    for request in
        [b"\x16\x03\x01 nonsense\r\n\r\n".to_vec(), [b"GET /", vec![b'x'; 1 << 20].as_slice()].concat()]
    {
        let answer = raw(request);
        assert!(answer.is_empty() || answer.contains(" 4"), "{answer}");
    }
    // More silent clients than the limit: events are still counted.
    let silent: Vec<_> = (0..40)
        .filter_map(|n| {
            in_namespace(&alone.0, || {
                let mut stream = connect(local(9464)).ok()?;
                if n % 2 == 0 {
                    stream.write_all(b"GET /metrics HTTP/1.1\r\n").ok()?;
                }
                Some(stream)
            })
        })
        .collect();
    assert!(!silent.is_empty());
    alone.talk();
    // After their timeout all metrics are available again.
    let series = "magnet_scope_hop_events_total{hop=\"udp.recv\"}";
    assert!(eventually(|| alone.figure(series) == Some(DATAGRAMS as u64)), "{:?}", alone.figure(series));
    assert_eq!(alone.figure("magnet_scope_lost_records_total{cause=\"ring_full\"}"), Some(0));
    drop(silent);
    let ended = sensor.end();
    assert!(ended.status.success(), "{}", stderr(&ended));
}

#[test]
fn agents_hosts_have_their_names() {
    if !is_root("metrics of agents") {
        return;
    }
    let Some((hosts, dir, tls)) = agents::scene("metrics") else { return };
    let client = AgentChild::start(&hosts, false, &tls, dir.path(), &[]);
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    let router = &hosts.names[1];
    let both = format!("{CLIENT},{SERVER}");
    let sensor: Running = on(router, &["metrics", "--connect", &both, "--tls", &tls]);
    assert!(client.printed("me reads") && server.printed("me reads"));
    let sender = in_namespace(&hosts.names[0], || UdpSocket::bind((CLIENT, 7000)).expect("a port"));
    let receiver = in_namespace(&hosts.names[2], || UdpSocket::bind((SERVER, 7001)).expect("a port"));
    receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    for _ in 0..DATAGRAMS {
        sender.send_to(&[7; BYTES], (SERVER, 7001)).expect("sent");
        uninterrupted(|| receiver.recv(&mut [0; 400])).expect("read");
    }
    // Both are on this machine, so each has a number, in either order.
    let complete = || -> Option<u64> {
        let answer = in_namespace(router, || get(local(9464), "/metrics", ""))?;
        let lines =
            answer.body.lines().filter(|line| line.starts_with("magnet_scope_hop_events_total{host=\""));
        let received = lines.filter(|line| line.contains(",hop=\"udp.recv\"}"));
        Some(received.filter_map(|line| line.split(' ').next_back()?.parse::<u64>().ok()).sum())
    };
    assert!(eventually(|| complete() == Some(DATAGRAMS as u64)), "{:?}", complete());
    let ended = sensor.end();
    assert!(ended.status.success(), "{}", stderr(&ended));
    client.end();
    server.end();
}

#[test]
fn other_addresses_than_this_host_s_own_are_refused_unless_meant() {
    let output = run(&["metrics", "--listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--unprotected"), "{}", stderr(&output));
}

#[test]
fn a_collector_elsewhere_is_refused() {
    let output = run(&["metrics", "--otlp", "http://10.0.0.9:4317"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("on this host"), "{}", stderr(&output));
}

#[test]
fn a_bus_that_is_away_is_an_error_and_not_this_host() {
    let output =
        run(&["metrics", "--via", "nats://127.0.0.1:1", "--listen", "127.0.0.1:0", "--duration", "1s"]);
    let messages = stderr(&output);
    assert!(!output.status.success() && messages.contains("the bus cannot be used"), "{messages}");
}
