//! Rows of foreign containers, with real traffic of two cgroups.

use super::target::{RELAY, Target};
use crate::common::hosts::{CLIENT, SERVER, in_namespace};
use crate::common::{eventually, is_root, run, skipped, stderr};
use magscope_core::Batch;
use magscope_core::source::{Progress, Source};
use magscope_fleet::pki::Folder;
use magscope_fleet::{Address, Credentials, ReadOptions, Remote, StartAt, Terms};
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PORTS: [(&str, u16); 2] = [("own", 7401), ("foreign", 7402)];
const DATAGRAMS: usize = 50;

/// A cgroup of version 2, wherever that is mounted. Removed when it goes.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let root = mounts.find(|words| words.get(2) == Some(&"cgroup2"))?[1].to_owned();
        let path = PathBuf::from(format!("{root}/ms-{}-{name}", std::process::id()));
        fs::create_dir(&path).ok()?;
        path.join("cgroup.procs").exists().then_some(Cgroup(path))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its processes have ended.
        let _ = fs::remove_dir(&self.0);
    }
}

/// A process in its cgroup with one socket.
struct Sender(Child);

impl Sender {
    fn new(target: &Target, cgroup: &Cgroup, name: &str, port: u16) -> Self {
        let script = format!(
            "echo $$ > {}/cgroup.procs; exec 3<>/dev/udp/{CLIENT}/{port}; while read -r; do \
             for i in {{1..{DATAGRAMS}}}; do echo secret-of-{name} >&3; done 2>/dev/null; echo sent; done",
            cgroup.0.display()
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Sender(in_namespace(&target.hosts.names[2], || bash.spawn()).expect("bash is there"))
    }

    fn send(&mut self) {
        writeln!(self.0.stdin.as_mut().expect("piped")).expect("it listens");
        let mut line = [0; 5];
        self.0.stdout.as_mut().expect("piped").read_exact(&mut line).expect("it answers");
        assert_eq!(&line, b"sent\n");
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Received data of both owners.
#[derive(Default, Debug)]
struct Came {
    payload: [usize; 2],
    rows: [usize; 2],
    sums: usize,
}

impl Came {
    fn add(&mut self, batch: &Batch) {
        let ports = |flow: &magscope_core::Flow| [flow.local.port(), flow.remote.port()];
        for (at, (name, port)) in PORTS.iter().enumerate() {
            let secret = format!("secret-of-{name}");
            let has = |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
            self.payload[at] += batch.heads.iter().filter(|head| has(&head.bytes)).count();
            let flows: Vec<_> = batch.flows.iter().filter(|flow| ports(flow).contains(port)).collect();
            self.rows[at] += flows.len();
        }
        self.sums += batch.counts.len() + batch.synthesis.len();
    }
}

/// A capture holds events for 5 ms until their order is certain. Readings of the clocks are not held and may
/// precede events of that time.
const HELD_NS: u64 = 5_000_000;

/// Reads an address with a certificate until a reading of its clocks shows that all events before an instant have come.
fn read(target: &Target, address: &str, identity: &str, until_ns: u64) -> Came {
    let address: Address = address.parse().expect("an address");
    let credentials = Some(Credentials { folder: Folder::new(&target.tls), identity: identity.to_owned() });
    let options = ReadOptions {
        address,
        credentials,
        from: StartAt::Back(Duration::from_mins(5)),
        terms: Terms::default(),
    };
    in_namespace(&target.hosts.names[0], || {
        let mut hosts = Remote::connect(&options).expect("it is let in");
        let (mut came, mut batch) = (Came::default(), Batch::default());
        let end = Instant::now() + Duration::from_mins(1);
        loop {
            assert!(Instant::now() < end, "{identity}: no reading of the clocks after the traffic: {came:?}");
            let progress = hosts[0].next(&mut batch, Duration::from_millis(100)).expect("a source");
            came.add(&batch);
            let is_past = batch.clock.iter().any(|clock| clock.monotonic_ns > until_ns + HELD_NS);
            if is_past || progress == Progress::End {
                return came;
            }
        }
    })
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[test]
fn nothing_of_a_foreign_container_comes_from_an_agent_or_a_relay() {
    const TEST: &str = "rows of foreign containers";
    if !is_root(TEST) {
        return;
    }
    let cgroups = PORTS.map(|(name, _)| Cgroup::new(name));
    let [Some(own), Some(foreign)] = cgroups else {
        skipped(TEST, "no cgroup of version 2 can be made");
        return;
    };
    let Some(target) = Target::start("rows", &["--snap", "64"]) else { return };
    let container = |cgroup: &Cgroup| cgroup.0.file_name().expect("a name").to_string_lossy().into_owned();
    let limits = [
        ("own".to_owned(), format!("containers={}", container(&own))),
        ("nosuch".to_owned(), "containers=nosuch".to_owned()),
        ("blind".to_owned(), format!("no-payload&containers={}", container(&own))),
    ];
    for (name, limit) in &limits {
        let made = run(&["agent", "init", &target.tls, "--viewer", &format!("{name}?{limit}")]);
        assert!(made.status.success(), "{}", stderr(&made));
    }
    // Both send from the server, whose agent is read.
    let mut senders: Vec<Sender> = PORTS
        .iter()
        .zip([&own, &foreign])
        .map(|((name, port), cgroup)| Sender::new(&target, cgroup, name, *port))
        .collect();
    // Payload is not held and precedes the events that show its owner: that of a new socket may be refused.
    senders.iter_mut().for_each(Sender::send);
    read(&target, SERVER, "viewer-me", now_ns());
    senders.iter_mut().for_each(Sender::send);
    let until_ns = now_ns();
    for address in [SERVER, RELAY] {
        // The relay has all data since its start.
        let all = read(&target, address, "viewer-me", until_ns);
        assert!(all.payload[0] > 0 && all.payload[1] > 0 && all.rows[1] > 0, "{address}: {all:?}");
        let came = read(&target, address, "viewer-own", until_ns);
        assert!(came.payload[0] > 0 && came.rows[0] > 0, "{address}: its own comes: {came:?} of {all:?}");
        assert_eq!((came.payload[1], came.rows[1], came.sums), (0, 0, 0), "{address}: {came:?} of {all:?}");
        let came = read(&target, address, "viewer-blind", until_ns);
        assert_eq!((came.payload, came.rows[1]), ([0, 0], 0), "{address}: {came:?} of {all:?}");
        let came = read(&target, address, "viewer-nosuch", until_ns);
        assert_eq!((came.payload, came.rows, came.sums), ([0, 0], [0, 0], 0), "{address}: {came:?} of {all:?}");
    }
    assert!(eventually(|| target.agent.printed("reads")));
}
