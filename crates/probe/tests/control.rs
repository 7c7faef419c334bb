//! Changes of a running capture: many switches under load by a thread without privileges, and events of one
//! guest only.
//!
//! Each switch waits for an RCU grace period: a thousand take some 18 s on an idle machine.

use crate::common::{self, waits};

use common::{CLIENT, Net, SERVER, can_capture, can_capture_with, passes_alone};
use magscope_core::hop::HopSet;
use magscope_core::node::Ability;
use magscope_core::{Batch, CaptureFilter, Hop};
use magscope_probe::{CaptureOptions, HostFacts, Setting};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Serialises the tests: the first counts the links of its process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the load on drop, also in a panic: the scope waits for it.
struct EndOf<'a>(&'a AtomicBool);

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn hops(hops: &[Hop]) -> HopSet {
    hops.iter().copied().collect()
}

fn links() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").expect("fds").flatten();
    all.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("bpf"))).count()
}

/// Drops all capabilities of this thread; each test runs in its own thread.
fn drop_rights() {
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .expect("given away");
}

#[test]
fn many_switches_under_load_lose_and_leak_nothing() {
    if !can_capture_with(&[Ability::Filter]) {
        return;
    }
    // It counts the links of its process, and other tests attach theirs.
    if passes_alone("control::many_switches_under_load_lose_and_leak_nothing") {
        return;
    }
    let net = Net::new();
    let server = net.server.run(|| UdpSocket::bind((SERVER, 5600)).expect("bind"));
    server.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
    let client = net.client.run(|| UdpSocket::bind((CLIENT, 5601)).expect("bind"));
    client.connect((SERVER, 5600)).expect("connect");
    let (done, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let _alone = alone();
    std::thread::scope(|scope| {
        let _end = EndOf(&done);
        let mut recording = net.capture_with(CaptureOptions {
            hops: hops(&[Hop::DevXmit, Hop::DevRecv, Hop::DevQueue]),
            filter: Some(CaptureFilter::parse("udp and port 5600").expect("a filter")),
            ring_bytes_per_cpu: 32 << 20,
            ..CaptureOptions::default()
        });
        drop_rights();
        scope.spawn(|| {
            let mut buffer = [0; 64];
            while !done.load(Relaxed) {
                client.send(&[1; 64]).expect("send");
                common::receive(&server, &mut buffer).expect("recv");
                sent.fetch_add(1, Relaxed);
                // all events are stored for counting: some thousands a second suffice
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let before = links();
        let switches = std::env::var("MAGSCOPE_SWITCHES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000);
        for round in 0..switches {
            recording.change(&Setting::Disable(hops(&[Hop::DevQueue]))).expect("off");
            if round == switches / 2 {
                assert_eq!(links(), before - 1, "what is off is detached");
            }
            recording.change(&Setting::Enable(hops(&[Hop::DevQueue]))).expect("on again, without rights");
            if round % 10 == 0 {
                recording.drain(Duration::from_millis(1));
            }
        }
        assert_eq!(links(), before, "nothing is left behind");
        done.store(true, Relaxed);
        recording.drain(Duration::from_millis(50));
        let counters = recording.stop();
        assert_eq!(recording.lost(), 0);
        assert_eq!(recording.numbered() + recording.outside(), counters.hits);
        let sent = sent.load(Relaxed);
        assert!(sent > 100, "there was load: {sent}");
        for hop in [Hop::DevXmit, Hop::DevRecv] {
            let recorded = counters.hops.iter().find(|count| count.hop == hop).map_or(0, |count| count.kept);
            assert_eq!(recorded, sent, "{hop} lost nothing while dev.queue was switched");
        }
        let queue = recording.events.iter().filter(|e| e.hop == Hop::DevQueue).count() as u64;
        assert!(queue > 0 && queue < sent, "dev.queue was on for a part of them: {queue} of {sent}");
        let reported: usize = recording.batches.iter().map(|b| b.changes.len()).sum();
        assert_eq!(reported, 2 * switches, "every change is an event of the session");
        println!("{sent} datagrams, dev.queue saw {queue} of them");
    });
}

/// A starting child holds the parent's files until `exec`: links that the parent detached are still attached
/// then.
#[test]
fn a_child_that_starts_does_not_keep_a_hop_from_coming_back() {
    if !can_capture() {
        return;
    }
    // Its child would hold the links of other tests as well, and their hops would count twice.
    if passes_alone("control::a_child_that_starts_does_not_keep_a_hop_from_coming_back") {
        return;
    }
    let _alone = alone();
    let net = Net::new();
    let queue = hops(&[Hop::DevQueue]);
    let mut recording = net.capture_with(CaptureOptions {
        hops: hops(&[Hop::DevXmit, Hop::DevQueue]),
        ..CaptureOptions::default()
    });
    let mut slow = Command::new("true");
    // SAFETY: the child sleeps, which is safe after a fork.
    #[allow(unsafe_code)]
    unsafe {
        slow.pre_exec(|| {
            std::thread::sleep(Duration::from_millis(200));
            Ok(())
        });
    }
    std::thread::scope(|scope| {
        let started = scope.spawn(move || slow.status().expect("it starts"));
        std::thread::sleep(Duration::from_millis(50)); // after the fork
        recording.change(&Setting::Disable(queue)).expect("off");
        recording.change(&Setting::Enable(queue)).expect("on again, when the child has let go");
        assert!(started.join().expect("it ends").success());
    });
    recording.stop();
}

/// A process in its own cgroup.
struct CgroupProcess {
    child: Child,
    folder: PathBuf,
}

impl CgroupProcess {
    /// Starts a process that sends datagrams to a port; each input line gives a number of datagrams.
    fn new(root: &Path, name: &str, host: &common::Host, port: u16) -> Self {
        let folder = root.join(format!("magscope-{}-{name}", std::process::id()));
        // an earlier process with this number may have been killed
        let _left_over = std::fs::remove_dir(&folder);
        std::fs::create_dir(&folder).expect("a cgroup");
        let script = format!(
            "echo $$ > {}/cgroup.procs; while read n; do for i in $(seq $n); do echo x > /dev/udp/{SERVER}/{port}; done; echo done; done",
            folder.display()
        );
        let child = host.run(|| {
            Command::new("bash")
                .args(["-c", &script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("bash is installed")
        });
        CgroupProcess { child, folder }
    }

    fn send(&mut self, count: usize) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{count}").expect("it listens");
        let mut line = String::new();
        BufReader::new(self.child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it answers");
        assert_eq!(line, "done\n");
    }
}

impl Drop for CgroupProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        let _ = std::fs::remove_dir(&self.folder);
    }
}

#[test]
fn a_container_s_view_shows_its_own_events_and_no_other_s() {
    if !can_capture_with(&[Ability::Filter]) {
        return;
    }
    let _alone = alone();
    let Some(root) = HostFacts::read().expect("facts").cgroup2 else {
        println!("skipped, because no cgroup v2 hierarchy is mounted");
        return;
    };
    let net = Net::new();
    let _sink = net.server.run(|| UdpSocket::bind((SERVER, 5700)).expect("bind"));
    let mut red = CgroupProcess::new(&root, "red", &net.client, 5700);
    let mut blue = CgroupProcess::new(&root, "blue", &net.client, 5701);
    let at = hops(&[Hop::AppSend, Hop::IpOut, Hop::DevXmit]);
    let name = format!("magscope-{}-red", std::process::id());
    for filter in [format!("container = {name}"), format!("cgroup = /{name}")] {
        let filter = Some(CaptureFilter::parse(&filter).expect("a filter"));
        let mut recording = net.capture_with(CaptureOptions { hops: at, filter, ..CaptureOptions::default() });
        red.send(20);
        blue.send(30);
        recording.drain(Duration::from_millis(60));
        let counters = recording.stop();
        let ports: Vec<u16> =
            recording.events.iter().map(|e| recording.flows[&e.flow.0].remote.port()).collect();
        assert!(ports.iter().all(|port| *port == 5700), "never another's event");
        let count_at = |hop| recording.events.iter().filter(|e| e.hop == hop).count();
        // each datagram uses a new socket; ip.out of UDP runs within the send call and therefore has the
        // process
        assert_eq!((count_at(Hop::AppSend), count_at(Hop::IpOut), count_at(Hop::DevXmit)), (20, 20, 20));
        for hop in [Hop::AppSend, Hop::IpOut] {
            let count = counters.hops.iter().find(|count| count.hop == hop).expect("counted");
            assert_eq!((count.kept, count.filtered >= 30), (20, true), "{count:?}");
        }
    }
    // and by namespace: the other host's view has no event of the client's sockets
    let filter = Some(CaptureFilter::parse("netns = server").expect("a filter"));
    let mut recording = net.capture_with(CaptureOptions {
        hops: hops(&[Hop::AppSend, Hop::DevXmit, Hop::DevRecv]),
        filter,
        ..CaptureOptions::default()
    });
    red.send(10);
    recording.drain(Duration::from_millis(60));
    recording.stop();
    let of_client = recording.flows.values().filter(|flow| flow.netns == net.client.target.inode).count();
    assert_eq!((of_client, recording.events.iter().any(|e| e.hop == Hop::DevRecv)), (0, true));
}

/// A container that starts again has its path, and a cgroup of another number.
#[test]
fn what_a_filter_names_stays_in_the_capture_when_it_starts_again() {
    if !can_capture_with(&[Ability::Filter]) {
        return;
    }
    let _alone = alone();
    let Some(root) = HostFacts::read().expect("facts").cgroup2 else {
        println!("skipped, because no cgroup v2 hierarchy is mounted");
        return;
    };
    let net = Net::new();
    let _sink = net.server.run(|| UdpSocket::bind((SERVER, 5700)).expect("bind"));
    let process = || CgroupProcess::new(&root, "again", &net.client, 5700);
    let mut first = process();
    let text = format!("container = magscope-{}-again", std::process::id());
    let filter = Some(CaptureFilter::parse(&text).expect("a filter"));
    let at = hops(&[Hop::AppSend, Hop::DevXmit]);
    let mut recording = net.capture_with(CaptureOptions { hops: at, filter, ..CaptureOptions::default() });
    first.send(20);
    recording.drain_all();
    drop(first);
    let mut second = process();
    let is_set_again =
        |batch: &Batch| batch.changes.iter().any(|change| change.what == format!("filter {text}"));
    waits::until("the filter is set again", || {
        recording.drain(Duration::ZERO);
        recording.batches.iter().any(is_set_again)
    });
    second.send(30);
    recording.drain_all();
    recording.stop();
    let sent = recording.events.iter().filter(|event| event.hop == Hop::AppSend).count();
    assert_eq!(sent, 50, "those of both");
}
