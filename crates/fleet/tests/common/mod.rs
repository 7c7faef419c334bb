//! An agent without a kernel: the capture's content is synthetic and known exactly.

#![allow(dead_code)] // each test file uses a part

use magscope_core::clock::ClockSample;
use magscope_core::node::{Backend, Coverage, NodeInfo};
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event, Flow, FlowId, Hop, LossCause, PayloadHead, Proto, Task};
use magscope_fleet::pki::{Folder, Validity};
use magscope_fleet::{
    Address, Credentials, FleetError, Hosts, Listen, Memory, READER_BYTES, ReadOptions, Remote, StartAt, Terms,
    serve,
};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Waits up to two minutes until `holds` returns true; returns its result. A busy machine needs some seconds.
pub fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_mins(10);
    while Instant::now() < end {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    holds()
}

/// Description of a fictitious host.
pub fn info() -> NodeInfo {
    NodeInfo {
        host: "web-1".to_owned(),
        boot_id: "b".to_owned(),
        cpus: 2,
        coverage: Coverage::full(Backend::Generator),
        ..NodeInfo::default()
    }
}

/// Flow number `n`: port 1000 + n to port 80.
pub fn flow(n: u64) -> Flow {
    let port = 1000 + n as u16;
    Flow {
        id: FlowId(n + 1),
        netns: 1,
        proto: Proto::UDP,
        local: format!("10.0.0.1:{port}").parse().expect("an address"),
        remote: "10.0.0.2:80".parse().expect("an address"),
    }
}

/// Batch number `n` of 100 events at four hops of eight flows, with a reading of the clocks; the first announces everything.
pub fn batch(n: u64) -> Batch {
    let event = |i: u64| {
        let hop = [Hop::AppSend, Hop::DevXmit, Hop::DevRecv, Hop::AppRecv][(i / 8 % 4) as usize];
        let number = n * 100 + i;
        let tid = if hop.knows_process() { 7 } else { 0 };
        Event {
            flow: flow(i % 8).id,
            record: number as u32,
            tid,
            tgid: tid,
            proto: Proto::UDP,
            len: 100,
            ..Event::at(hop, 1_000_000 + number * 1000)
        }
    };
    let monotonic_ns = 1_000_000 + n * 100_000;
    let head = PayloadHead {
        time_ns: monotonic_ns,
        flow: flow(1).id,
        seq: 0,
        of_bytes: 100,
        event: 0,
        record: 0,
        cpu: 0,
        ip_id: 0,
        hop: Hop::DevXmit,
        proto: Proto::UDP,
        bytes: b"a secret of the person who sends it".to_vec(),
    };
    let first = n == 0;
    Batch {
        events: (0..100).map(event).collect(),
        flows: if first { (0..8).map(flow).collect() } else { Vec::new() },
        tasks: if first {
            vec![Task { tgid: 7, tid: 7, uid: 0, cgroup: 1, comm: "iperf3".into() }]
        } else {
            Vec::new()
        },
        clock: vec![ClockSample { monotonic_ns, raw_ns: monotonic_ns, ..ClockSample::default() }],
        heads: vec![head],
        watermark_ns: 1_000_000 + (n + 1) * 100_000,
        ..Batch::default()
    }
}

/// Numbered records of a batch.
pub const RECORDS: u64 = 101;

/// A server that ends on drop.
pub struct Serving {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Its messages about peers.
    pub messages: Arc<Mutex<Vec<String>>>,
    /// Its port.
    pub port: u16,
}

impl Serving {
    /// Serves this memory at a port: plain on loopback, or with TLS by the keys of a folder.
    pub fn start(memory: &Arc<Memory>, port: u16, keys: Option<(Folder, &str)>) -> Self {
        Self::of(Hosts::of(vec![memory.clone()]), port, keys)
    }

    /// Serves several hosts, as a relay does.
    pub fn of(hosts: Arc<Hosts>, port: u16, keys: Option<(Folder, &str)>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let listen = match keys {
            Some((folder, identity)) => Listen::Tls(listener, folder, identity.to_owned()),
            None => Listen::Loopback(listener),
        };
        let (stop, messages) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (end, lines) = (stop.clone(), messages.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let runtime = runtime.expect("threads");
            let report = Arc::new(move |text: &str| lines.lock().expect("no panic").push(text.to_owned()));
            runtime.block_on(serve(hosts, vec![listen], READER_BYTES, report, end)).expect("it serves");
            runtime.shutdown_timeout(Duration::from_secs(1));
        });
        Serving { stop, thread: Some(thread), messages, port }
    }

    /// The address without TLS.
    pub fn plain(&self) -> Address {
        format!("insecure:127.0.0.1:{}", self.port).parse().expect("an address")
    }

    /// The address with TLS.
    pub fn tls(&self) -> Address {
        format!("127.0.0.1:{}", self.port).parse().expect("an address")
    }

    /// True if a message contained this text.
    pub fn has_message(&self, words: &str) -> bool {
        eventually(|| self.messages.lock().expect("no panic").iter().any(|line| line.contains(words)))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it served without a panic");
        }
    }
}

/// An authority with a host's certificate for 127.0.0.1 and a viewer's.
pub fn authority() -> (TempDir, Folder) {
    let dir = tempfile::tempdir().expect("a directory");
    let folder = Folder::new(dir.path().join("tls"));
    let validity = Validity::days(2);
    assert!(folder.init(validity).expect("it is made"));
    folder.host(&["web-1".into(), "127.0.0.1".into()], validity).expect("it is made");
    folder.viewer("me", &magscope_fleet::Grants::default(), validity).expect("it is made");
    (dir, folder)
}

/// Credentials of a viewer.
#[allow(clippy::unnecessary_wraps)] // as required by `ReadOptions`
pub fn viewer(folder: &Folder, identity: &str) -> Option<Credentials> {
    Some(Credentials { folder: folder.clone(), identity: identity.to_owned() })
}

/// Reads an agent.
pub fn connect(
    address: Address,
    credentials: Option<Credentials>,
    from: StartAt,
    terms: Terms,
) -> Result<Remote, FleetError> {
    let mut hosts = Remote::connect(&ReadOptions { address, credentials, from, terms })?;
    assert_eq!(hosts.len(), 1);
    Ok(hosts.remove(0))
}

/// Summary of a received stream.
#[derive(Default)]
pub struct Came {
    /// Record numbers in order.
    pub records: Vec<u32>,
    /// Hops of its events.
    pub hops: Vec<Hop>,
    /// Announced flows and threads.
    pub flows: Vec<FlowId>,
    /// Bytes of payload.
    pub payload: usize,
    /// Records reported as missed.
    pub missed: u64,
    /// Reported gaps, as time ranges.
    pub gaps: Vec<(u64, u64)>,
    /// Flows used before their announcement.
    pub unknown: u64,
}

impl Came {
    /// Reads until `events` events have arrived or were missed.
    pub fn read(&mut self, remote: &mut dyn Source, events: u64, mut pause: impl FnMut()) {
        let (mut batch, end) = (Batch::default(), Instant::now() + Duration::from_mins(1));
        while (self.records.len() as u64) + self.missed < events {
            assert!(
                Instant::now() < end,
                "{} came, {} were missed, of {events}",
                self.records.len(),
                self.missed
            );
            let progress = remote.next(&mut batch, Duration::from_millis(100)).expect("a source");
            assert_eq!(progress, Progress::More, "after {} events", self.records.len());
            self.add(&batch);
            pause();
        }
    }

    /// Adds a batch.
    pub fn add(&mut self, batch: &Batch) {
        self.flows.extend(batch.flows.iter().map(|flow| flow.id));
        self.unknown += batch.events.iter().filter(|event| !self.flows.contains(&event.flow)).count() as u64;
        self.records.extend(batch.events.iter().map(|event| event.record));
        self.hops.extend(batch.events.iter().map(|event| event.hop));
        self.payload += batch.heads.iter().map(|head| head.bytes.len()).sum::<usize>();
        for loss in batch.losses.iter().filter(|loss| loss.cause == LossCause::Missed) {
            self.missed += loss.count;
            self.gaps.push((loss.from_ns, loss.to_ns));
        }
    }
}
