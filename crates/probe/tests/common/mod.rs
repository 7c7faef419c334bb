//! Two hosts that live as long as this value: anonymous network namespaces joined by a veth pair.

#![allow(dead_code, clippy::missing_panics_doc)]

pub mod account;
pub mod connection;
pub mod counters;
pub mod disturb;
pub mod sockets;
pub mod tcp_info;
pub mod wire;

use magscope_core::hop::HopSet;
use magscope_core::journey::{Correlator, Journey, Limits};
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event, Flow, Hop, LossCause};
use magscope_probe::{Capture, CaptureOptions, Counters, HostFacts, NetnsTarget};
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
        options.netns = vec![self.client.target.clone(), self.server.target.clone()];
        Recording::start(options)
    }

    /// The same on a host with these facts.
    pub fn capture_on(&self, facts: &HostFacts, mut options: CaptureOptions) -> Recording {
        options.netns = vec![self.client.target.clone(), self.server.target.clone()];
        Recording::of(Capture::start_on(facts, options).expect("capture starts"))
    }
}

pub fn hops(hops: &[Hop]) -> HopSet {
    hops.iter().copied().collect()
}

/// A socket at an address that may be taken a moment longer: a program that another test starts has copies of all sockets until it is
/// executed.
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
            assert_eq!(self.server.recv(&mut buffer).expect("recv"), size);
        }
    }
}

/// Two hosts whose only connection are two network cards on one wire, of which the environment gives the names
/// (`MAGSCOPE_WIRED="eth0 eth1"`): in a virtual machine they have a real driver. `None`, and says why, where there are none.
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

/// Two hosts that say nothing by themselves: IPv6 would greet its neighbours, and counts are exact here. It is off before there is a
/// device: what a device has once begun to say to its group is dropped later, and a drop is a journey.
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

/// A capture and all that came out of it.
pub struct Recording {
    capture: Option<Capture>,
    pub batches: Vec<Batch>,
    pub events: Vec<Event>,
    pub flows: HashMap<u64, Flow>,
    pub served: HopSet,
    pub info: NodeInfo,
}

impl Recording {
    fn start(options: CaptureOptions) -> Self {
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
        self.events.extend_from_slice(&batch.events);
        for flow in &batch.flows {
            let known = self.flows.insert(flow.id.0, *flow);
            assert!(known.is_none_or(|known| known == *flow), "one id, two flows");
        }
        self.batches.push(batch);
        progress
    }

    /// Changes what is captured.
    pub fn change(&mut self, setting: &magscope_probe::Setting) -> Result<(), magscope_probe::ProbeError> {
        self.capture.as_mut().expect("running").change(setting)
    }

    /// What the capture says of itself.
    pub fn info(&self) -> &NodeInfo {
        self.capture.as_ref().expect("running").info()
    }

    /// The capture itself.
    pub fn capture(&mut self) -> &mut Capture {
        self.capture.as_mut().expect("running")
    }

    /// Drains for a while.
    pub fn drain(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.one();
        }
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

    /// The number of the first byte of a connection's flow, from the first segment with payload that was seen of it.
    pub fn first_seq(&self, flow: u64) -> u32 {
        let seen = self.events.iter().filter(|e| e.flow.0 == flow && e.len > 0 && e.segs > 0);
        seen.min_by_key(|e| e.time_ns).expect("a segment").seq
    }

    /// Events at `hop` seen on the host with this namespace, of flows (or sockets) on `port` at either end.
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

    /// Everything correlated, as one batch after the other would be live.
    pub fn journeys(&self) -> (Vec<Journey>, Correlator) {
        let mut correlator = Correlator::new(self.served, Limits::default());
        let mut done = Vec::new();
        for batch in &self.batches {
            correlator.push(batch, &mut done);
        }
        correlator.finish(&mut done);
        (done, correlator)
    }
}

thread_local! {
    /// Runs of probes in captures that this thread has ended: those that the kernel refused, and those it left out untold.
    static DISTURBED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Runs of probes that the kernel refused, as the capture tells.
pub fn refused(recording: &Recording) -> u64 {
    let losses = recording.batches.iter().flat_map(|batch| &batch.losses);
    losses.filter(|loss| loss.cause == LossCause::Refused).map(|loss| loss.count).sum()
}

/// Packets that netfilter saw and a tracepoint next to it did not, though nothing was lost. Some kernels trace nothing where an
/// interrupt comes on the time of their own first process, and do not count that; netfilter's programs run there too.
pub fn untraced(recording: &Recording) -> u64 {
    let seen = |hop: Hop| recording.events.iter().filter(|event| event.hop == hop).count() as u64;
    let left_out = |netfilter: Hop, tracepoint: Hop| {
        let both = recording.served.contains(netfilter) && recording.served.contains(tracepoint);
        if both { seen(netfilter).saturating_sub(seen(tracepoint)) } else { 0 }
    };
    left_out(Hop::IpPost, Hop::DevQueue) + left_out(Hop::IpPre, Hop::DevRecv)
}

/// Says that a capture lost nothing. Runs that the kernel refused or left out may have been hits of anything; a test that counts to
/// the last hit sees whether they were its own.
pub fn lost_nothing(recording: &Recording) {
    let (refused, (before, untold)) = (refused(recording), DISTURBED.get());
    DISTURBED.set((before + refused, untold + untraced(recording)));
    assert_eq!(recording.lost(), refused, "lost, and refused by the kernel");
}

/// Runs a test that counts to the last hit; again where it fails and the kernel has left out runs of a probe: refused, because an
/// interrupt came where one was under way, as the capture has told, or untraced. A machine that is emulated, or interrupted by
/// others, meets that now and then.
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

/// Ends a capture that may lose nothing, and holds what came of it against what the kernel counted: every record came, each
/// kind of them as often as it was kept, in order of time.
pub fn finish(mut recording: Recording) -> (Recording, Counters) {
    recording.drain(Duration::from_millis(100));
    let counters = recording.stop();
    lost_nothing(&recording);
    let outside = recording.outside();
    assert_eq!(recording.numbered() + outside, counters.hits, "every number came, or was outside");
    assert!(recording.events.is_sorted_by_key(|e| e.time_ns), "in order of time");
    // what came while probes were still being attached was kept and left out
    let came = |what: &dyn std::fmt::Display, seen: u64, kept: u64| {
        assert!(
            (seen..=seen + outside).contains(&kept),
            "{what}: {seen} came and {outside} were outside, {kept} kept"
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

/// Whether tracepoints can be looked up by their names; says why not where they cannot.
pub fn has_tracefs() -> bool {
    let places = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
    let found = places.iter().any(|events| std::path::Path::new(events).is_dir());
    if !found {
        println!("skipped, because tracefs is not mounted");
    }
    found
}

/// Whether this process may capture; says why not where it may not. CI must give every capability.
pub fn can_capture() -> bool {
    let facts = HostFacts::read().expect("/proc is there");
    let missing = facts.missing_capabilities();
    let in_ci = std::env::var_os("CI").is_some();
    if !missing.is_empty() {
        assert!(!in_ci, "this process lacks {}, which CI must give", missing.join(", "));
        println!("skipped, because this process lacks {}", missing.join(", "));
        return false;
    }
    if !facts.has(magscope_probe::facts::CAP_SYS_ADMIN) {
        assert!(!in_ci, "making network namespaces needs CAP_SYS_ADMIN, which CI must give");
        println!("skipped, because making network namespaces needs CAP_SYS_ADMIN");
        return false;
    }
    if !facts.btf {
        println!("skipped, because kernel {} lacks BTF", facts.kernel);
        return false;
    }
    true
}
