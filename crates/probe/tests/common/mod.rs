//! Two hosts for the lifetime of a value: anonymous network namespaces joined by a veth pair.

#![allow(dead_code, clippy::missing_panics_doc)]

pub mod account;
pub mod connection;
pub mod counters;
pub mod disturb;
pub mod sockets;
pub mod tcp_info;
pub mod waits;
pub mod wire;

use magscope_core::hop::HopSet;
use magscope_core::journey::{Correlator, Journey, Limits};
use magscope_core::node::{Ability, NodeInfo};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event, Flow, Hop, LossCause};
use magscope_probe::{Capture, CaptureOptions, Counters, HostFacts, NetnsTarget, RingKind};
use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// One of the two hosts.
pub struct Host {
    pub target: NetnsTarget,
    /// Keeps the namespace alive.
    _file: File,
}

impl Host {
    /// Runs `work` on this host; sockets made there stay there.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        // in a thread of its own, so that a panic cannot leave the test's thread in the wrong namespace
        let done = std::thread::scope(|scope| scope.spawn(|| self.target.within(work)).join());
        match done {
            Ok(result) => result.expect("the namespace can be entered"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn new(name: &str) -> Self {
        let file = std::thread::spawn(|| {
            // SAFETY: a thread of its own, which ends right after; only it changes namespace.
            #[allow(unsafe_code)]
            unsafe {
                rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET).expect("root may unshare");
            }
            File::open("/proc/thread-self/ns/net").expect("/proc is mounted")
        })
        .join()
        .expect("unshare");
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        Host { target: NetnsTarget::at(&path, name).expect("a namespace"), _file: file }
    }
}

pub struct Net {
    pub client: Host,
    pub server: Host,
}

pub const CLIENT: &str = "10.78.0.1";
pub const SERVER: &str = "10.78.0.2";
pub const CLIENT6: &str = "fd78::1";
pub const SERVER6: &str = "fd78::2";

pub fn address(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().expect("an address"), port)
}

impl Net {
    pub fn new() -> Self {
        Self::linked(true)
    }

    fn linked(ipv6: bool) -> Self {
        let net = Net { client: Host::new("client"), server: Host::new("server") };
        if !ipv6 {
            net.client.run(without_ipv6);
            net.server.run(without_ipv6);
        }
        let there = net.server.target.path.to_string_lossy().into_owned();
        net.client.run(|| {
            ip(&["link", "add", "v0", "type", "veth", "peer", "name", "v0", "netns", &there]);
        });
        for (host, v4, v6) in [(&net.client, CLIENT, CLIENT6), (&net.server, SERVER, SERVER6)] {
            host.run(|| {
                ip(&["link", "set", "lo", "up"]);
                ip(&["addr", "add", &format!("{v4}/24"), "dev", "v0"]);
                if ipv6 {
                    ip(&["addr", "add", &format!("{v6}/64"), "dev", "v0", "nodad"]);
                }
                ip(&["link", "set", "v0", "up"]);
            });
        }
        net
    }

    pub fn capture(&self, hops: HopSet) -> Recording {
        self.capture_with(CaptureOptions { hops, ..CaptureOptions::default() })
    }

    pub fn capture_with(&self, mut options: CaptureOptions) -> Recording {
        options.ring = ring(options.ring);
        options.netns = vec![self.client.target.clone(), self.server.target.clone()];
        Recording::start(options)
    }

    /// The same on a host with these facts.
    pub fn capture_on(&self, facts: &HostFacts, mut options: CaptureOptions) -> Recording {
        options.ring = ring(options.ring);
        options.netns = vec![self.client.target.clone(), self.server.target.clone()];
        Recording::of(Capture::start_on(facts, options).expect("capture starts"))
    }
}

/// The kind of rings that a run of the tests is for: `MAGSCOPE_TEST_RING=mapped` or `kernel`, else `default`.
pub fn ring(default: RingKind) -> RingKind {
    let Some(word) = std::env::var_os("MAGSCOPE_TEST_RING") else { return default };
    let found = RingKind::ALL.into_iter().find(|kind| word == kind.word());
    found.unwrap_or_else(|| panic!("MAGSCOPE_TEST_RING is {}, which is no kind of rings", word.display()))
}

pub fn hops(hops: &[Hop]) -> HopSet {
    hops.iter().copied().collect()
}

/// Binds with retries: a child that another test starts holds copies of all sockets until `exec`.
fn bind(at: SocketAddr) -> UdpSocket {
    for _ in 0..100 {
        match UdpSocket::bind(at) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                std::thread::sleep(Duration::from_millis(20));
            }
            bound => return bound.expect("bind"),
        }
    }
    panic!("{at} is taken");
}

/// Two sockets, each connected to the other.
pub struct Pair {
    pub client: UdpSocket,
    pub server: UdpSocket,
}

impl Pair {
    pub fn new(net: &Net, from: &str, to: &str, port: u16) -> Self {
        let at = |ip: &str, port: u16| SocketAddr::new(ip.parse().expect("an address"), port);
        let server = net.server.run(|| bind(at(to, port)));
        let client = net.client.run(|| bind(at(from, port + 1)));
        client.connect(at(to, port)).expect("connect");
        server.connect(at(from, port + 1)).expect("connect");
        server.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        Pair { client, server }
    }

    /// Sends datagrams, each read before the next.
    pub fn send(&self, count: usize, size: usize) {
        let (payload, mut buffer) = (vec![7u8; size], vec![0u8; 2048]);
        for _ in 0..count {
            assert_eq!(self.client.send(&payload).expect("send"), size);
            assert_eq!(receive(&self.server, &mut buffer).expect("recv"), size);
        }
    }
}

/// Receives a datagram. A wait with a time-out ends early if a child of this program ends while another thread
/// starts, although nothing handles that signal; the wait then begins again.
pub fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match socket.recv(buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

/// Set in the child process that runs a single test.
const ALONE_HERE: &str = "MAGSCOPE_TEST_ALONE";

/// Runs the test in a process of its own and returns true, unless this is that process.
pub fn passes_alone(test: &str) -> bool {
    if std::env::var_os(ALONE_HERE).is_some() {
        return false;
    }
    let own = std::env::current_exe().expect("this program");
    let status = Command::new(own).args(["--exact", test, "--nocapture"]).env(ALONE_HERE, "1").status();
    assert!(status.is_ok_and(|status| status.success()), "it passes by itself");
    true
}

/// Two hosts joined only by two network cards on one wire, named by the environment (`MAGSCOPE_WIRED="eth0
/// eth1"`). In a virtual machine the cards have a real driver. Prints the reason and returns `None` without the
/// variable.
pub fn wired() -> Option<Net> {
    let Ok(names) = std::env::var("MAGSCOPE_WIRED") else {
        println!("skipped, because MAGSCOPE_WIRED names no two network cards on one wire");
        return None;
    };
    let net = Net { client: Host::new("client"), server: Host::new("server") };
    let hosts = [(&net.client, CLIENT), (&net.server, SERVER)];
    for ((host, address), card) in hosts.into_iter().zip(names.split(' ')) {
        let path = host.target.path.to_string_lossy().into_owned();
        ip(&["link", "set", card, "netns", &path]);
        host.run(|| {
            without_ipv6();
            ip(&["link", "set", "lo", "up"]);
            ip(&["addr", "add", &format!("{address}/24"), "dev", card]);
            ip(&["link", "set", card, "up"]);
        });
    }
    Some(net)
}

/// Two hosts without background traffic, because the tests count exactly. IPv6 is disabled before the device
/// exists: later multicast reports would be dropped, and a drop is a journey.
pub fn quiet() -> Net {
    Net::linked(false)
}

fn without_ipv6() {
    std::fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("IPv6 is there");
}

pub fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A capture and its results.
pub struct Recording {
    capture: Option<Capture>,
    pub batches: Vec<Batch>,
    pub events: Vec<Event>,
    pub flows: HashMap<u64, Flow>,
    pub served: HopSet,
    pub info: NodeInfo,
}

impl Recording {
    pub fn start(options: CaptureOptions) -> Self {
        Self::of(Capture::start(options).expect("capture starts"))
    }

    fn of(capture: Capture) -> Self {
        let info = capture.info().clone();
        Recording {
            capture: Some(capture),
            batches: Vec::new(),
            events: Vec::new(),
            flows: HashMap::new(),
            served: info.coverage.served(),
            info,
        }
    }

    fn one(&mut self) -> Progress {
        let capture = self.capture.as_mut().expect("running");
        let mut batch = Batch::default();
        let progress = capture.next(&mut batch, Duration::from_millis(20)).expect("a batch");
        let (events, samples) = (batch.events.iter(), batch.tcp.iter());
        let times = events.map(|event| event.time_ns).chain(samples.map(|sample| sample.time_ns));
        let times = times.chain(batch.hits.iter().map(|hit| hit.time_ns));
        let newest_ns = times.chain(batch.heads.iter().map(|head| head.time_ns)).max();
        assert!(newest_ns <= Some(batch.watermark_ns), "a row came before events that are older than it");
        self.events.extend_from_slice(&batch.events);
        for flow in &batch.flows {
            let previous = self.flows.insert(flow.id.0, *flow);
            assert!(previous.is_none_or(|previous| previous == *flow), "one id, two flows");
        }
        self.batches.push(batch);
        progress
    }

    /// Changes what is captured.
    pub fn change(&mut self, setting: &magscope_probe::Setting) -> Result<(), magscope_probe::ProbeError> {
        self.capture.as_mut().expect("running").change(setting)
    }

    /// Node information of the capture.
    pub fn info(&self) -> &NodeInfo {
        self.capture.as_ref().expect("running").info()
    }

    /// The capture itself.
    pub fn capture(&mut self) -> &mut Capture {
        self.capture.as_mut().expect("running")
    }

    /// Drains once, and on for a while.
    pub fn drain(&mut self, time: Duration) {
        let end = Instant::now() + time;
        self.one();
        while Instant::now() < end {
            self.one();
        }
    }

    /// Drains until every record that the kernel has counted is here, or was lost.
    pub fn drain_all(&mut self) {
        waits::until("every record comes", || {
            self.one();
            let counters = self.capture().counters().expect("counters");
            self.numbered() + self.outside() + counters.lost() >= counters.hits
        });
    }

    /// Detaches, drains to the end, returns the kernel's counters.
    pub fn stop(&mut self) -> Counters {
        self.capture.as_mut().expect("running").stop();
        while self.one() == Progress::More {}
        self.capture.as_ref().expect("running").counters().expect("counters")
    }

    /// Events before all probes were attached or after the first was detached.
    pub fn outside(&self) -> u64 {
        self.capture.as_ref().expect("running").outside()
    }

    pub fn lost(&self) -> u64 {
        self.batches.iter().map(Batch::lost).sum()
    }

    /// Records that carry a number: events and TCP samples.
    pub fn numbered(&self) -> u64 {
        // a batch of its own keeps its events too
        self.batches.iter().map(Batch::numbered).sum()
    }

    /// Hits of custom probes.
    pub fn hits(&self) -> impl Iterator<Item = &magscope_core::ProbeHit> {
        self.batches.iter().flat_map(|batch| &batch.hits)
    }

    /// First bytes of payload.
    pub fn heads(&self) -> impl Iterator<Item = &magscope_core::PayloadHead> {
        self.batches.iter().flat_map(|batch| &batch.heads)
    }

    /// The sequence number of the first byte of a flow, from its first segment with payload.
    pub fn first_seq(&self, flow: u64) -> u32 {
        let seen = self.events.iter().filter(|e| e.flow.0 == flow && e.len > 0 && e.segs > 0);
        seen.min_by_key(|e| e.time_ns).expect("a segment").seq()
    }

    /// Events at `hop` on the host with this namespace, of flows (or sockets) with `port` at either end.
    pub fn at(&self, hop: Hop, netns: u32, port: u16) -> Vec<&Event> {
        let mine = |e: &&Event| {
            e.hop == hop
                && self
                    .flows
                    .get(&e.flow.0)
                    .is_some_and(|f| f.netns == netns && (f.local.port() == port || f.remote.port() == port))
        };
        self.events.iter().filter(mine).collect()
    }

    /// Correlates all batches in order, as in a live capture.
    pub fn journeys(&self) -> (Vec<Journey>, Correlator) {
        let mut correlator = Correlator::of_node(&self.info, Limits::default());
        let mut done = Vec::new();
        for batch in &self.batches {
            correlator.push(batch, &mut done);
        }
        correlator.finish(&mut done);
        (done, correlator)
    }
}

thread_local! {
    /// Probe runs in captures that this thread has ended: refused ones, and unreported ones.
    static DISTURBED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Probe runs that the kernel refused, as reported by the capture.
pub fn refused(recording: &Recording) -> u64 {
    let losses = recording.batches.iter().flat_map(|batch| &batch.losses);
    losses.filter(|loss| loss.cause == LossCause::Refused).map(|loss| loss.count).sum()
}

/// Packets seen by netfilter and not by the adjacent tracepoint, without a loss. Some kernels do not trace
/// interrupts during their first process and do not count these runs. Netfilter programs do run there. Each flow
/// is compared by itself: a flow that passes only the tracepoint hides no packet of another.
pub fn untraced(recording: &Recording) -> u64 {
    let left_out = |netfilter: Hop, tracepoint: Hop| -> u64 {
        if !recording.served.contains(netfilter) || !recording.served.contains(tracepoint) {
            return 0;
        }
        let mut more: HashMap<u64, i64> = HashMap::new();
        for event in &recording.events {
            let more = more.entry(event.flow.0).or_default();
            *more += i64::from(event.hop == netfilter) - i64::from(event.hop == tracepoint);
        }
        more.into_values().filter_map(|more| u64::try_from(more).ok()).sum()
    };
    left_out(Hop::IpPost, Hop::DevQueue) + left_out(Hop::IpPre, Hop::DevRecv)
}

/// Asserts that a capture lost nothing. Refused or unreported runs may have been hits of any kind; tests with
/// exact counts show whether their own are affected.
pub fn lost_nothing(recording: &Recording) {
    let (refused, (before, unobserved)) = (refused(recording), DISTURBED.get());
    DISTURBED.set((before + refused, unobserved + untraced(recording)));
    assert_eq!(recording.lost(), refused, "lost, and refused by the kernel");
}

/// Runs a test with exact counts, and repeats it after a failure if the kernel omitted probe runs. These runs
/// were refused during an interrupt, or untraced. Emulated or busy machines show this now and then.
pub fn undisturbed(test: impl Fn()) {
    for attempt in 1.. {
        DISTURBED.set((0, 0));
        let Err(panic) = catch_unwind(AssertUnwindSafe(&test)) else { return };
        let (refused, untraced) = DISTURBED.get();
        if (refused, untraced) == (0, 0) || attempt == 5 {
            resume_unwind(panic);
        }
        println!(
            "once more, because the kernel refused {refused} runs of a probe, as was told, and traced nothing of {untraced} packets"
        );
    }
}

/// Events are in order of time, but for those that the capture counts as late: a host that stops one CPU for longer
/// than events are held back makes some.
fn in_order_of_time(recording: &Recording) {
    let mut newest_ns = 0;
    let is_late = |event: &&Event| {
        newest_ns = newest_ns.max(event.time_ns);
        event.time_ns < newest_ns
    };
    let found = recording.events.iter().filter(is_late).count() as u64;
    let late = recording.batches.iter().map(|batch| batch.late).sum::<u64>();
    assert!(found <= late, "{found} events are not in order of time, and {late} are counted as late");
}

/// Ends a capture that must lose nothing and compares it with the kernel's counters. All records must be
/// present, each kind in the right number, in time order.
pub fn finish(mut recording: Recording) -> (Recording, Counters) {
    recording.drain(Duration::from_millis(100));
    let counters = recording.stop();
    lost_nothing(&recording);
    let outside = recording.outside();
    assert_eq!(recording.numbered() + outside, counters.hits, "every number came, or was outside");
    in_order_of_time(&recording);
    // hits during attachment were accepted and then dropped
    let came = |what: &dyn std::fmt::Display, seen: u64, recorded: u64| {
        assert!(
            (seen..=seen + outside).contains(&recorded),
            "{what}: {seen} came and {outside} were outside, {recorded} kept"
        );
    };
    for count in &counters.hops {
        let seen = match count.hop {
            Hop::TcpState => recording.batches.iter().map(|batch| batch.tcp.len()).sum(),
            hop => recording.events.iter().filter(|e| e.hop == hop).count(),
        };
        came(&count.hop, seen as u64, count.kept);
    }
    for (number, count) in counters.probes.iter().enumerate() {
        let seen = recording.hits().filter(|hit| usize::from(hit.probe) == number).count();
        came(&format_args!("probe {number}"), seen as u64, count.kept);
    }
    came(&"heads", recording.heads().count() as u64, counters.heads.0);
    (recording, counters)
}

/// True if tracepoints can be looked up by name; prints the reason otherwise.
pub fn has_tracefs() -> bool {
    let places = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
    let found = places.iter().any(|events| std::path::Path::new(events).is_dir());
    if !found {
        println!("skipped, because tracefs is not mounted");
    }
    found
}

/// True if this process may capture; prints the reason otherwise. CI must grant every capability.
pub fn can_capture() -> bool {
    facts_to_capture().is_some()
}

fn facts_to_capture() -> Option<HostFacts> {
    let facts = HostFacts::read().expect("/proc is there");
    let missing = facts.missing_capabilities();
    let in_ci = std::env::var_os("CI").is_some();
    if !missing.is_empty() {
        assert!(!in_ci, "this process lacks {}, which CI must give", missing.join(", "));
        println!("skipped, because this process lacks {}", missing.join(", "));
        return None;
    }
    if !facts.has(magscope_probe::facts::CAP_SYS_ADMIN) {
        assert!(!in_ci, "making network namespaces needs CAP_SYS_ADMIN, which CI must give");
        println!("skipped, because making network namespaces needs CAP_SYS_ADMIN");
        return None;
    }
    if !facts.btf {
        println!("skipped, because kernel {} lacks BTF", facts.kernel);
        return None;
    }
    Some(facts)
}

/// True if this process may capture and this kernel has these abilities; prints the reason otherwise. It asks what the
/// kernel is known to lack, so a program that it refuses to load fails the test.
pub fn can_capture_with(abilities: &[Ability]) -> bool {
    let Some(facts) = facts_to_capture() else { return false };
    let lacking = abilities.iter().find_map(|ability| facts.left_out.get(ability));
    if let Some(because) = lacking {
        println!("skipped, because {because}");
    }
    lacking.is_none()
}
