//! Recordings of journeys with the marks that the golden ones do not have.

use magscope_core::node::{Backend, Coverage, HopService, InterfaceName, NetnsName, NodeInfo, Service};
use magscope_core::{Batch, DetailKind, Event, ExtentKind, Flow, FlowId, Hop, Proto, Task};
use magscope_session::{RecordOptions, Recorder};
use std::path::Path;

/// One second, nanoseconds.
const S: u64 = 1_000_000_000;
/// Size of a segment: a batch of events is at most half of it.
const SEGMENT_BYTES: u64 = 64 << 10;
/// Flows of the sender and of the receiver: of datagrams, of a stream, and of datagrams from `::`.
const FLOWS: [(Proto, [&str; 2]); 3] = [
    (Proto::UDP, ["10.0.0.1:4000", "10.0.0.2:80"]),
    (Proto::TCP, ["10.0.0.1:5000", "10.0.0.2:80"]),
    (Proto::ICMPV6, ["[::]:0", "[ff02::16]:0"]),
];
/// Network namespaces of the sender and of the receiver.
const NETNS: [u32; 2] = [1, 2];

/// Hops that the captures have.
const HOPS: [Hop; 11] = [
    Hop::AppSend,
    Hop::TcpSend,
    Hop::IpOut,
    Hop::DevXmit,
    Hop::DevRecv,
    Hop::IpIn,
    Hop::TcpRecv,
    Hop::UdpRecv,
    Hop::AppRecv,
    Hop::TcpRetransmit,
    Hop::SkbDrop,
];

/// Writes the recordings; returns their paths.
pub fn recordings(dir: &Path) -> [String; 3] {
    let marked = [
        names("bash", 0),
        filler(),
        names("python3", 0),
        in_order(),
        stream(&[3]),
        stream(&[4, 0]),
        // More copies than a journey lists.
        stream(&[5; 12]),
        without(stream(&[6]), Hop::AppRecv),
        stream(&[7]),
        dropped(),
        from_anybody(),
        unread(),
        names("python3", 60),
    ];
    let sampled = [names("bash", 0), unread(), names("python3", 60)];
    let blind = [names("bash", 0), names("python3", 0)].map(|batch| without(batch, Hop::AppRecv));
    [
        ("marked", &marked[..], info(&HOPS)),
        // A sampler of events may have left out what is missing.
        ("sampled", &sampled, NodeInfo { settings: vec!["sample 1/2 dev.recv".to_owned()], ..info(&HOPS) }),
        ("blind", &blind, info(&HOPS.map(|hop| if hop == Hop::AppRecv { Hop::UdpRecv } else { hop }))),
    ]
    .map(|(name, batches, info)| {
        let options = RecordOptions { segment_bytes: SEGMENT_BYTES, ..RecordOptions::default() };
        let path = dir.join(name);
        let mut recorder = Recorder::create(&path, &info, options).expect("a place");
        batches.iter().enumerate().for_each(|(n, batch)| recorder.append(&at(n, batch)).expect("room"));
        recorder.close().expect("it is written");
        path.to_string_lossy().into_owned()
    })
}

fn without(mut batch: Batch, hop: Hop) -> Batch {
    batch.events.retain(|event| event.hop != hop);
    batch
}

fn info(hops: &[Hop]) -> NodeInfo {
    let point = String::new();
    let served = Service::Served { backend: Backend::Generator, point: point.clone(), note: point };
    let missing = Service::Missing { because: "not asked for".to_owned() };
    let service = |hop: &Hop| HopService {
        hop: *hop,
        service: if hops.contains(hop) { served.clone() } else { missing.clone() },
    };
    let netns = |(netns, name): (u32, &str)| NetnsName { netns, name: name.to_owned() };
    NodeInfo {
        host: "a".to_owned(),
        clock: "monotonic".to_owned(),
        netns: NETNS.into_iter().zip(["client", "server"]).map(netns).collect(),
        interfaces: vec![InterfaceName {
            netns: NETNS[1],
            index: 9,
            name: "eth7".to_owned(),
            kind: String::new(),
        }],
        coverage: Coverage { hops: Hop::ALL.iter().map(service).collect(), ..Coverage::default() },
        ..NodeInfo::default()
    }
}

/// A batch in the second after the one before it, with all flows.
fn at(n: usize, batch: &Batch) -> Batch {
    let mut batch = batch.clone();
    let later_ns = (n as u64 + 1) * S;
    batch.events.iter_mut().for_each(|event| event.time_ns += later_ns);
    batch.events.sort_by_key(|event| event.time_ns);
    batch.watermark_ns = batch.events.last().map_or(later_ns, |event| event.time_ns);
    for (n, (proto, ends)) in FLOWS.into_iter().enumerate() {
        let [local, remote] = ends.map(|end| end.parse().expect("an address"));
        let sent = Flow { id: flow(n, 0), netns: NETNS[0], proto, local, remote };
        batch
            .flows
            .extend([sent, Flow { id: flow(n, 1), netns: NETNS[1], local: remote, remote: local, ..sent }]);
    }
    batch
}

fn flow(n: usize, end: u64) -> FlowId {
    FlowId(n as u64 * 2 + 1 + end)
}

/// An event of a flow: a packet of 100 bytes.
fn event(n: usize, hop: Hop, ns: u64) -> Event {
    let receives = hop.direction() == magscope_core::Direction::Rx;
    // The packet of a datagram is made by the thread that sends it.
    let has_thread = hop.knows_process() || hop == Hop::IpOut && FLOWS[n].0 == Proto::UDP;
    let thread = if has_thread { 5 + u32::from(receives) } else { 0 };
    let socket = if thread > 0 || hop == Hop::UdpRecv { 50 + n as u64 * 2 + u64::from(receives) } else { 0 };
    Event {
        flow: flow(n, u64::from(receives)),
        proto: FLOWS[n].0,
        len: 100,
        segs: 1,
        tid: thread,
        tgid: thread,
        socket,
        ..Event::at(hop, ns)
    }
}

fn datagram(n: usize, hop: Hop, ns: u64, ip_id: u16, skb: u32) -> Event {
    Event { ip_id, skb, ..event(n, hop, ns) }
}

/// A datagram whose sender has this name.
fn names(comm: &str, seconds: u64) -> Batch {
    let ip_id = 100 + seconds as u16 + comm.len() as u16;
    let sent = [(Hop::AppSend, 10), (Hop::IpOut, 20), (Hop::DevXmit, 30)];
    let came = [(Hop::DevRecv, 40), (Hop::IpIn, 50), (Hop::UdpRecv, 60), (Hop::AppRecv, 70)];
    let events = sent.into_iter().chain(came);
    let events = events.map(|(hop, ns)| datagram(0, hop, seconds * S + ns, ip_id, 0x40)).map(packets_only);
    let task = |tid, comm: &str| Task { tgid: tid, tid, uid: 0, cgroup: 0, comm: comm.to_owned() };
    Batch { events: events.collect(), tasks: vec![task(5, comm), task(6, "reader")], ..Batch::default() }
}

/// Events of no journey. They fill a batch of the recording, so that names of threads change from one to the next.
fn filler() -> Batch {
    let events = (0..SEGMENT_BYTES / 64).map(|ns| Event::at(Hop::SchedSwitch, ns)).collect();
    Batch { events, ..Batch::default() }
}

/// Without the fields of a packet where there is none.
fn packets_only(event: Event) -> Event {
    if event.hop.spec().has_packet { event } else { Event { ip_id: 0, skb: 0, segs: 0, ..event } }
}

/// Datagrams without an identification, in buffers of the receiver's own: only their order says which is which.
fn in_order() -> Batch {
    let mut events = Vec::new();
    for n in 0..4_u32 {
        let ns = u64::from(n);
        for (hop, after_ns) in [(Hop::AppSend, 10), (Hop::IpOut, 20), (Hop::DevXmit, 30)] {
            events.push(packets_only(datagram(0, hop, 100 * ns + after_ns, 0, 0x100 + n)));
        }
        for (hop, after_ns) in [(Hop::DevRecv, 40), (Hop::IpIn, 50), (Hop::UdpRecv, 60), (Hop::AppRecv, 70)] {
            events.push(packets_only(datagram(0, hop, 10_000 + 100 * ns + after_ns, 0, 0x200 + n)));
        }
    }
    Batch { events, ..Batch::default() }
}

/// 100 bytes of a stream, sent once for each identification. Without one nothing shows which copy arrived.
fn stream(ids: &[u16]) -> Batch {
    let first = u32::from(ids[0]) * 100;
    let of = |hop, ns| Event { extent: ExtentKind::Stream.of(first), ..event(1, hop, ns) };
    let mut events = vec![packets_only(of(Hop::TcpSend, 10))];
    for (n, id) in ids.iter().enumerate() {
        let ip_id = if ids.len() == 2 { 0 } else { 10 * id + n as u16 };
        let ns = 1_000 * (n as u64 + 1);
        events.push(Event { ip_id, ..of(Hop::IpOut, ns) });
        events.push(Event { ip_id, ..of(Hop::DevXmit, ns + 10) });
        if n > 0 {
            events.push(Event {
                detail: DetailKind::ResendReason.of(2),
                ip_id: 0,
                segs: 0,
                ..of(Hop::TcpRetransmit, ns + 20)
            });
        }
    }
    let last = ids.len() as u16 - 1;
    let ip_id = if ids.len() == 2 { 0 } else { 10 * ids[0] + last };
    for (hop, ns) in [(Hop::DevRecv, 40), (Hop::IpIn, 50), (Hop::TcpRecv, 60)] {
        events.push(Event { ip_id, ..of(hop, 100_000 + ns) });
    }
    events.push(packets_only(of(Hop::AppRecv, 100_070)));
    Batch { events, ..Batch::default() }
}

/// A datagram that the kernel dropped at an interface.
fn dropped() -> Batch {
    let sent = [(Hop::IpOut, 20), (Hop::DevXmit, 30), (Hop::DevRecv, 40)];
    let mut events: Vec<Event> = sent.map(|(hop, ns)| datagram(0, hop, ns, 200, 0x300)).into();
    events.push(Event {
        detail: DetailKind::DropReason.of(5),
        ifindex: 9,
        flow: flow(0, 1),
        ..datagram(0, Hop::SkbDrop, 45, 200, 0x300)
    });
    Batch { events, ..Batch::default() }
}

/// A datagram that nothing reads.
fn unread() -> Batch {
    let sent = [(Hop::IpOut, 20), (Hop::DevXmit, 30)];
    Batch { events: sent.map(|(hop, ns)| datagram(0, hop, ns, 201, 0x301)).into(), ..Batch::default() }
}

/// Reports of hosts without an address: what one sends and what another receives are two journeys.
fn from_anybody() -> Batch {
    let mut events = Vec::new();
    for n in 0..2_u32 {
        for (hop, ns) in [(Hop::IpOut, 20), (Hop::DevXmit, 30), (Hop::DevRecv, 40), (Hop::IpIn, 50)] {
            events.push(datagram(2, hop, 1_000 * u64::from(n) + ns, 0, 0x400 + n));
        }
    }
    Batch { events, ..Batch::default() }
}
