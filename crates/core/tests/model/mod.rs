//! A model stack: a miniature sender, network and receiver. It gives the events of a kernel with the truth
//! about each of them. Equal seeds give equal worlds.
#![allow(dead_code)]

pub mod capture;
pub mod node;
pub mod tcp;
pub mod truth;
pub mod tunnel;
pub mod udp;
pub mod udp_kinds;

use magscope_core::node::InterfaceName;
use magscope_core::{Event, Flow, FlowId, Hop, Proto};
use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};

/// splitmix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// The true subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Bytes `[from, to)` of a stream, counted from its first byte.
    Bytes { stream: usize, from: u64, to: u64 },
    /// A datagram by its number; each network copy has its own.
    Datagram(usize),
    /// Number of datagrams from this number on: a super-packet, or its read.
    Run(usize, usize),
    /// Every datagram at a socket, or a thread.
    Nothing,
}

/// An event and the truth about it.
#[derive(Clone, Copy, Debug)]
pub struct True {
    pub event: Event,
    pub about: About,
}

/// One direction of a connection.
#[derive(Clone, Copy, Debug)]
pub struct StreamTruth {
    pub from: FlowId,
    pub to: FlowId,
    pub first_seq: u32,
    /// Most bytes of a segment.
    pub mss: u64,
    pub reader_tid: u32,
    /// Bytes that the sender's calls passed to the kernel.
    pub written: u64,
    /// Bytes that the reader has taken, and that its socket has received in order.
    pub copied: u64,
    pub received: u64,
}

/// Bytes of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Segment {
    pub from: u64,
    pub to: u64,
    /// Number of the pass, from 1.
    pub pass: usize,
    /// IPv4 identification; 0 over IPv6.
    pub ip_id: u16,
}

/// Disturbances of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    /// Per cent of packets.
    pub lost: u64,
    pub duplicated: u64,
    pub delayed: u64,
    /// Per cent of reads.
    pub peeked: u64,
    pub spliced: u64,
    /// Per cent of connections whose network fails permanently.
    pub dead: u64,
    /// Per cent of connections whose sockets are destroyed; some of their readers stop before.
    pub closed: u64,
    /// Per cent of streams that the kernel takes from their socket.
    pub consumed: u64,
}

/// Everything that happened.
#[derive(Debug)]
pub struct World {
    pub random: Random,
    pub weather: Weather,
    pub events: Vec<True>,
    pub flows: Vec<Flow>,
    pub interfaces: Vec<InterfaceName>,
    pub streams: Vec<StreamTruth>,
    /// The datagram of which each is a copy; itself for the sent one.
    pub datagrams: Vec<usize>,
    /// Length of a datagram, where a test checks it.
    pub lengths: HashMap<usize, u32>,
    /// The packets of an event at a packet hop, by its time: the sender's pass and its bytes. `tcp.retransmit`
    /// has the reported pass.
    pub passes: HashMap<u64, Vec<Segment>>,
    /// Passes of all senders so far.
    pub passes_made: usize,
    /// Index of the event at a time; no two have the same.
    pub at: HashMap<u64, usize>,
    /// The bytes that arrived in a stream's socket, by time.
    pub arrivals: HashMap<usize, BTreeMap<u64, (u64, u64)>>,
    pub next_buffer: u32,
    /// When a buffer was allocated, if that was before its first event.
    pub allocated_ns: HashMap<u32, u64>,
}

impl World {
    pub fn new(seed: u64, weather: Weather) -> Self {
        World {
            random: Random(seed),
            weather,
            events: Vec::new(),
            flows: Vec::new(),
            interfaces: Vec::new(),
            streams: Vec::new(),
            datagrams: Vec::new(),
            lengths: HashMap::new(),
            passes: HashMap::new(),
            passes_made: 0,
            at: HashMap::new(),
            arrivals: HashMap::new(),
            next_buffer: 1,
            allocated_ns: HashMap::new(),
        }
    }

    /// Emits an event; a nanosecond or two later than requested if that time is taken.
    pub fn emit(&mut self, mut event: Event, about: About) -> u64 {
        while self.at.contains_key(&event.time_ns) {
            event.time_ns += 1;
        }
        self.at.insert(event.time_ns, self.events.len());
        if let About::Bytes { stream, from, to } = about
            && event.hop == Hop::TcpRecv
        {
            self.arrivals.entry(stream).or_default().insert(event.time_ns, (from, to));
        }
        self.events.push(True { event, about });
        event.time_ns
    }

    /// Two ends off the loopback.
    pub fn connect(&mut self, proto: Proto) -> (FlowId, FlowId) {
        let n = self.flows.len() as u16;
        let client = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), 1000 + n));
        let server = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 2), 80));
        let (a, b) = (FlowId(u64::from(n) + 1), FlowId(u64::from(n) + 2));
        self.flows.push(Flow { id: a, netns: 1, proto, local: client, remote: server });
        self.flows.push(Flow { id: b, netns: 2, proto, local: server, remote: client });
        (a, b)
    }

    /// Two ends with the addresses of others, in other namespaces.
    pub fn namesakes(&mut self, of: (FlowId, FlowId)) -> (FlowId, FlowId) {
        let first = self.flows.len() as u64 + 1;
        for (id, of) in [(first, of.0), (first + 1, of.1)] {
            let flow = self.flows.iter().find(|flow| flow.id == of).copied().expect("a flow");
            self.flows.push(Flow { id: FlowId(id), netns: flow.netns + 100, ..flow });
        }
        (FlowId(first), FlowId(first + 1))
    }

    /// A flow of its own.
    pub fn flow(&mut self, netns: u32, local: SocketAddr, remote: SocketAddr) -> FlowId {
        let id = FlowId(self.flows.len() as u64 + 1);
        self.flows.push(Flow { id, netns, proto: Proto::UDP, local, remote });
        id
    }

    /// A buffer of its own. A capture sees those that are free used again (`capture::addresses`).
    pub fn buffer(&mut self) -> u32 {
        self.next_buffer += 1;
        self.next_buffer
    }

    /// The pass of a byte at a time.
    pub fn pass_at(&self, time_ns: u64, byte: u64) -> Option<usize> {
        let segments = self.passes.get(&time_ns)?;
        segments.iter().find(|s| s.from <= byte && byte < s.to).map(|s| s.pass)
    }

    /// The event at a time.
    pub fn event_at(&self, time_ns: u64) -> Option<&True> {
        self.at.get(&time_ns).and_then(|index| self.events.get(*index))
    }
}
