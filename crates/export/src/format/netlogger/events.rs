//! Converts log lines back to events, flows and tasks of a session.
//!
//! Lines of this program give the original events, one per journey and hop. Lines of other tools have no byte
//! ranges, so all lines of one `ID` form one datagram, and a line without an `ID` is a datagram of its own. Their event
//! names are no hops; the user maps them to hops, and unmapped names are counted.

use super::counted::has_lines;
use super::groups::Groups;
use super::hosts::Hosts;
use super::read::Line;
use super::reasons::Reasons;
use super::rejoin::{is_packet, rejoin};
use super::threads::{Threads, Tids};
use super::write::{CAPTURE, FORWARDER};
use crate::mark::SpanSide;
use crate::wire::mix;
use magscope_core::clock::ClockSample;
use magscope_core::hash::{Map, Set};
use magscope_core::hop::Role;
use magscope_core::journey::Resend;
use magscope_core::node::{
    Backend, Coverage, HopService, HostOf, InterfaceName, MergedHosts, NetnsName, NodeInfo, Service,
};
use magscope_core::{
    Batch, DetailKind, Direction, Event, EventFlags, Flow, FlowId, Hop, HopSet, Loss, LossCause, Proto, Task,
    TcpSample,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Number of events held for sorting; the maximum is twice that.
const HELD: usize = 256 << 10;
/// Maximum number of counted names, namespaces, flows and threads.
const MOST: usize = 1 << 16;

/// Maximum number of events of one instant that are compared with a line.
const NEAR: usize = 1 << 10;

/// Maximum number of interfaces.
const MOST_INTERFACES: usize = 4_096;

/// The functions of MAGNET's probes in its papers, and the current hops.
const FUNCTIONS: [(&str, Hop); 9] = [
    ("inet_sendmsg", Hop::AppSend),
    ("udp_sendmsg", Hop::UdpSend),
    ("tcp_sendmsg", Hop::TcpSend),
    ("ip_push_pending_frames", Hop::IpOut),
    ("dev_queue_xmit", Hop::DevQueue),
    ("net_rx_action", Hop::DevRecv),
    ("ip_rcv_finish", Hop::IpIn),
    ("udp_recvmsg", Hop::AppRecv),
    ("inet_recvmsg", Hop::AppRecv),
];

/// Converter with its mapping of names and its results.
#[derive(Default)]
pub struct Events {
    hops: BTreeMap<String, Hop>,
    host: String,
    held: Vec<Event>,
    batch: Batch,
    flows: Map<FlowId, Flow>,
    tasks: Map<u32, String>,
    places: BTreeMap<(String, String), u32>,
    groups: Groups,
    threads: Threads,
    tids: Tids,
    reasons: Reasons,
    /// Interfaces of drops by network namespace and name.
    interfaces: BTreeMap<(u32, String), u32>,
    /// Threads that had another name in an earlier line.
    renamed: Set<u32>,
    hosts: Hosts,
    sample: Option<TcpSample>,
    seen: HopSet,
    /// The hops that the captures did not have though they were asked for, where the log says so.
    missing: Option<HopSet>,
    /// The kernel of the first host that says it.
    kernel: String,
    latest_ns: Option<u64>,
    sampled_ns: Option<u64>,
    added_wakes: u64,
    /// Lines of losses.
    losses: u64,
    /// Lines that became something.
    pub taken: u64,
    /// Lines without an ID that became datagrams of their own.
    pub unnamed: u64,
    /// Lines of TCP with neither an ID nor the place of their bytes: those of one flow have the same bytes.
    pub unplaced: u64,
    /// Lines of forwarders. A recording of a log has no event of theirs, and their time is on the wire.
    pub forwarded: u64,
    /// Lines with unmapped events, by name.
    pub unknown: BTreeMap<String, u64>,
}

impl Events {
    /// A converter with additional names for hops.
    pub fn new(hops: impl IntoIterator<Item = (String, Hop)>) -> Self {
        Events { hops: hops.into_iter().collect(), ..Events::default() }
    }

    /// Processes a line.
    pub fn line(&mut self, line: &Line<'_>) {
        let Ok(ns) = u64::try_from(line.ns) else {
            return self.reject_unknown("a time before 1970");
        };
        if self.host.is_empty() {
            line.get(&["HOST", "host"]).unwrap_or_default().clone_into(&mut self.host);
        }
        let event = line.event.as_ref();
        match event {
            CAPTURE => self.capture(line),
            "events.lost" => self.loss(line, ns),
            // The hops of that journey carry the same information.
            "journey.lost" => self.taken += 1,
            _ if is_span(event) => self.taken += 1,
            _ if event.starts_with(FORWARDER) => {
                self.forwarded += 1;
                self.taken += 1;
            }
            _ => match (self.hop(event), sampled(event)) {
                (Some(hop), _) => self.hit(line, ns, hop),
                (None, Some(field)) => self.sample(line, ns, field),
                (None, None) => self.reject_unknown(event),
            },
        }
    }

    /// What a host captured: a hop without events is no missing hop.
    fn capture(&mut self, line: &Line<'_>) {
        let hops = line.get(&["MAG.HOPS", "mag.hops"]).unwrap_or_default();
        hops.split(',').filter_map(|hop| hop.parse().ok()).for_each(|hop| self.seen.insert(hop));
        let missing = line.get(&["MAG.MISS", "mag.missing"]).unwrap_or_default();
        let all = self.missing.get_or_insert_default();
        missing.split(',').filter_map(|hop| hop.parse().ok()).for_each(|hop| all.insert(hop));
        if self.kernel.is_empty() {
            line.get(&["MAG.KERN", "mag.kernel"]).unwrap_or_default().clone_into(&mut self.kernel);
        }
    }

    fn reject_unknown(&mut self, event: &str) {
        if self.unknown.len() < MOST || self.unknown.contains_key(event) {
            *self.unknown.entry(event.chars().take(80).collect()).or_default() += 1;
        } else {
            *self.unknown.entry("(others)".to_owned()).or_default() += 1;
        }
    }

    fn hop(&self, event: &str) -> Option<Hop> {
        let named = self.hops.get(event).copied();
        let by_name = || Hop::ALL.iter().copied().find(|hop| hop.name() == event);
        named
            .or_else(by_name)
            .or_else(|| FUNCTIONS.iter().find(|(name, _)| *name == event).map(|(_, hop)| *hop))
    }

    fn hit(&mut self, line: &Line<'_>, ns: u64, hop: Hop) {
        let number = |names: &[&str]| line.number::<u32>(names).unwrap_or(0);
        let len =
            line.number::<u64>(&["VOL", "bytes", "NBYTES", "SZ"]).unwrap_or(0).min(u64::from(u32::MAX)) as u32;
        let seq = line.number::<u32>(&["MAG.SEQ"]);
        let proto = proto(line.get(&["PROT", "proto"]), seq.is_some());
        // A dropped packet was at the end of its last hop.
        let last = line.get(&["MAG.FROM", "mag.from"]).filter(|_| hop == Hop::SkbDrop);
        let flow = self.flow(line, last.and_then(|last| last.parse().ok()).unwrap_or(hop), proto);
        let (id, own_socket) = self.identity(line, proto);
        self.hosts.line(line, hop, id, hash(line.get(&["HOST", "host"]).unwrap_or_default()));
        let mut event = Event::at(hop, ns);
        event.flow = flow;
        // Without a packet, the order of a socket's datagrams identifies them.
        event.socket = mix(flow.0 ^ own_socket) | 1;
        event.proto = proto;
        event.len = len;
        event.cpu = number(&["MAG.CPU"]).min(u32::from(u16::MAX)) as u16;
        event.tgid = number(&["PS", "pid"]);
        let host = line.get(&["HOST", "host"]).unwrap_or_default();
        event.tid = self.tids.number(host, number(&["MAG.TID", "tid"]));
        let packet = is_packet(hop);
        let is_ipv6 = self.flows.get(&flow).is_some_and(|flow| flow.local.is_ipv6());
        // Above IP a datagram has no identification.
        let written = line.number::<u16>(&["MAG.IPID", "mag.ip_id"]);
        let identification = written.filter(|_| proto != Proto::TCP).unwrap_or(0);
        event.ip_id = match written {
            _ if !packet => 0,
            // IPv6 has no identification: order identifies the copy, and without order there is no latency.
            _ if proto == Proto::TCP && is_ipv6 => 0,
            // The order of the lines decides, as in the capture.
            _ if proto == Proto::TCP && is_ambiguous(line) => 0,
            // The copy number, if the bytes were sent several times.
            _ if proto == Proto::TCP => {
                number(&["MAG.TRY", "mag.again"]).min(u32::from(u16::MAX) - 1) as u16 + 1
            }
            Some(ip_id) => ip_id,
            None if seq.is_some() => 0,
            // Another tool's line: all lines of one ID form one datagram.
            None => (id as u16).max(1),
        };
        if proto != Proto::TCP {
            // The ID replaces the buffer address.
            if packet {
                event.skb = (id as u32).max(1);
            }
            self.threads.send(&mut event, id);
        }
        event.segs = u16::from(packet);
        if is_ipv6 {
            event.flags = event.flags.with(EventFlags::IPV6);
        }
        if line.get(&["MAG.RET", "mag.at_return"]).is_some() {
            event.flags = event.flags.with(EventFlags::AT_RETURN);
        }
        if packet && proto != Proto::TCP && is_ambiguous(line) {
            event.flags = event.flags.with(EventFlags::AMBIGUOUS);
        }
        let mut position = seq.unwrap_or(0);
        match hop.role() {
            Role::Ready if proto == Proto::TCP => {
                (position, event.len) = (position.wrapping_add(event.len), 0);
            }
            // That data is ready has no bytes of its own.
            Role::Ready if seq.is_some() => event.len = 0,
            Role::Drop => {
                let name = line.get(&["MSG", "msg"]).unwrap_or_default();
                let reason = self.reasons.number(number(&["MAG.RSN", "mag.reason"]), name);
                event.detail = DetailKind::DropReason.of(reason);
                event.ifindex = self.interface(line, flow);
            }
            // Wake-ups and runs belong to a thread and have no bytes.
            Role::Reader => event.len = 0,
            Role::Resend => event.detail = DetailKind::ResendReason.of(resend(line) as u32),
            Role::Ready
            | Role::Send
            | Role::Packet
            | Role::Read
            | Role::Overflow
            | Role::End
            | Role::Sample
            | Role::Point
            | Role::Task => {}
        }
        event.extent = event.extent_kind().of(position);
        if hop == Hop::SockReady {
            let poller = self.tids.number(host, number(&["MAG.POLL", "mag.poller"]));
            event.detail = DetailKind::Poller.of(poller);
        }
        if hop == Hop::TaskRun {
            self.threads.run(line, &event);
        }
        if self.flows.get(&flow).is_some_and(|of| self.groups.is_received(&event, of, identification)) {
            event.flags = event.flags.with(EventFlags::GROUP);
        }
        self.taken += 1;
        if !self.is_repeated(&event, identification) {
            self.task(line, &event);
            self.seen.insert(hop);
            self.held.push(event);
        }
    }

    /// A number for the datagram of a line, and one for its socket. A line of another tool without an ID has numbers of its
    /// own: nothing shows which others are of the same datagram, and by one socket their order would join them.
    fn identity(&mut self, line: &Line<'_>, proto: Proto) -> (u64, u64) {
        let id = line.get(&["ID", "guid"]).unwrap_or_default();
        // Lines of this program have the exact time, and an ID where it means something.
        if !id.is_empty() || line.get(&["MAG.SEQ", "MAG.NS"]).is_some() {
            return (hash(id), 0);
        }
        if proto == Proto::TCP {
            self.unplaced += 1;
            return (hash(id), 0);
        }
        self.unnamed += 1;
        let own = mix(self.unnamed);
        (own, own)
    }

    /// Number of the interface that a dropped packet was at, in the namespace of its flow; 0 without one.
    fn interface(&mut self, line: &Line<'_>, flow: FlowId) -> u32 {
        let name = line.get(&["MAG.IF", "mag.interface"]).filter(|name| !name.is_empty());
        let Some((name, flow)) = name.zip(self.flows.get(&flow)) else { return 0 };
        let free = self.interfaces.len() as u32 + 1;
        let key = (flow.netns, name.to_owned());
        if free as usize > MOST_INTERFACES && !self.interfaces.contains_key(&key) {
            return 0;
        }
        *self.interfaces.entry(key).or_insert(free)
    }

    /// True if another line was of this event. The packet of several journeys is ambiguous if it is in all of them: each
    /// receiver has a mark of its own at its arrival.
    fn is_repeated(&mut self, event: &Event, identification: u16) -> bool {
        let flow = self.flows.get(&event.flow);
        let is_repeated = flow.is_some_and(|flow| self.groups.is_repeated(event, flow, identification));
        if is_repeated && !event.is_ambiguous() {
            let place = |e: &Event| (e.hop, e.socket, e.cpu, e.ip_id);
            let near = self.held.iter_mut().rev().take(NEAR).take_while(|held| held.time_ns == event.time_ns);
            for held in near.filter(|held| place(held) == place(event)) {
                held.flags = held.flags.without(EventFlags::AMBIGUOUS);
            }
        }
        is_repeated
    }

    fn task(&mut self, line: &Line<'_>, event: &Event) {
        let Some(comm) = line.get(&["CMD", "comm"]).filter(|_| event.tid != 0) else { return };
        if self.tasks.get(&event.tid).is_some_and(|previous| previous == comm) {
            return;
        }
        if self.tasks.len() >= MOST {
            self.tasks.clear();
        }
        if self.tasks.contains_key(&event.tid) && self.renamed.len() < MOST {
            self.renamed.insert(event.tid);
        }
        // The kernel's maximum length, with room for escapes.
        let comm: String = comm.chars().take(64).collect();
        self.tasks.insert(event.tid, comm.clone());
        self.batch.tasks.push(Task { tgid: event.tgid, tid: event.tid, uid: 0, cgroup: 0, comm });
    }

    fn flow(&mut self, line: &Line<'_>, hop: Hop, proto: Proto) -> FlowId {
        let end = |ip: &[&str], port: &[&str]| {
            let ip = line.get(ip).and_then(|ip| ip.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            SocketAddr::new(ip, line.number(port).unwrap_or(0))
        };
        let from = end(&["SRC.IP", "SRC"], &["SRC.PORT"]);
        let to = end(&["DST.IP", "DST"], &["DST.PORT"]);
        let sent = hop.direction() != Direction::Rx;
        let (local, remote) = if sent { (from, to) } else { (to, from) };
        let netns = self.place(line);
        let id = flow_id(netns, proto, local, remote);
        if self.flows.len() >= MOST {
            self.flows.clear();
        }
        if let std::collections::hash_map::Entry::Vacant(e) = self.flows.entry(id) {
            let flow = Flow { id, netns, proto, local, remote };
            e.insert(flow);
            self.batch.flows.push(flow);
        }
        id
    }

    /// A namespace number for a line: its own, if present and unique among hosts.
    fn place(&mut self, line: &Line<'_>) -> u32 {
        let host = line.get(&["HOST", "host"]).unwrap_or_default();
        let node = line.get(&["MAG.NODE", "mag.node"]).unwrap_or_default();
        if let Some(number) = self.places.get(&(host.to_owned(), node.to_owned())) {
            return *number;
        }
        let asked = line.number::<u32>(&["MAG.NETN", "mag.netns"]).unwrap_or(0);
        let taken = |number: u32| number == 0 || self.places.values().any(|other| *other == number);
        let number = if taken(asked) { (1..u32::MAX).find(|n| !taken(*n)).unwrap_or(1) } else { asked };
        if self.places.len() < 4_096 {
            self.places.insert((host.to_owned(), node.to_owned()), number);
        }
        number
    }

    fn loss(&mut self, line: &Line<'_>, ns: u64) {
        let span_ns = line.number(&["MAG.LAT", "mag.latency_ns"]).unwrap_or(0);
        let message = line.get(&["MSG", "msg"]).unwrap_or_default();
        self.losses += 1;
        self.batch.losses.push(Loss {
            cpu: line.number(&["MAG.CPU", "mag.cpu"]).unwrap_or(u16::MAX),
            from_ns: ns,
            to_ns: ns.saturating_add(span_ns),
            count: line.number(&["CNT", "count"]).unwrap_or(1),
            cause: LossCause::ALL.into_iter().find(|c| c.to_string() == message).unwrap_or(LossCause::Gap),
        });
        self.taken += 1;
    }

    /// The values of one sample are in consecutive lines.
    fn sample(&mut self, line: &Line<'_>, ns: u64, field: fn(&mut TcpSample) -> &mut u32) {
        let socket = line.number::<u64>(&["ID", "guid"]).unwrap_or(0);
        if self.sample.is_none_or(|sample| (sample.time_ns, sample.socket) != (ns, socket)) {
            self.end_sample();
            let flow = self.flow(line, Hop::TcpState, Proto::TCP);
            self.sample = Some(TcpSample { time_ns: ns, socket, flow, ..TcpSample::default() });
        }
        if let (Some(sample), Some(value)) = (&mut self.sample, line.number(&["VAL", "val"])) {
            *field(sample) = value;
        }
        self.taken += 1;
    }

    fn end_sample(&mut self) {
        self.batch.tcp.extend(self.sample.take());
    }

    /// True if a batch is ready.
    pub fn is_full(&self) -> bool {
        self.held.len() >= 2 * HELD || self.batch.tcp.len() + self.batch.losses.len() >= HELD
    }

    /// The older half of the events in time order, or all, with related rows.
    pub fn take(&mut self, all: bool) -> Batch {
        self.end_sample();
        let before = self.held.len();
        self.held.extend(self.threads.wakes());
        self.added_wakes += (self.held.len() - before) as u64;
        rejoin(&mut self.held);
        let many = if all { self.held.len() } else { HELD.min(self.held.len()) };
        let mut batch = std::mem::take(&mut self.batch);
        batch.events = self.held.drain(..many).collect();
        let before = self.latest_ns;
        batch.late = batch.events.iter().filter(|e| before.is_some_and(|ns| e.time_ns < ns)).count() as u64;
        let last = batch.events.last().map(|event| event.time_ns).max(self.latest_ns);
        self.latest_ns = last;
        batch.watermark_ns = last.unwrap_or(0);
        batch.tcp.sort_by_key(|sample| sample.time_ns);
        batch.losses.sort_by_key(|loss| loss.to_ns);
        // Times are UTC, so the session's clock is UTC; one sample at each end records this.
        for ns in [batch.events.first(), batch.events.last()].into_iter().flatten().map(|e| e.time_ns) {
            if self.sampled_ns.is_none_or(|sampled| ns > sampled) {
                self.sampled_ns = Some(ns);
                batch.clock.push(ClockSample {
                    monotonic_ns: ns,
                    raw_ns: ns,
                    realtime_ns: ns as i64,
                    ..ClockSample::default()
                });
            }
        }
        batch
    }

    /// The hosts, if several, and their clock bounds.
    fn several(&self) -> Option<MergedHosts> {
        let hosts: Vec<HostOf> =
            self.places.iter().map(|((host, _), netns)| HostOf { netns: *netns, host: host.clone() }).collect();
        let is_one = hosts.iter().all(|of| of.host == hosts[0].host);
        (!is_one).then(|| MergedHosts { across: self.hosts.across(), hosts })
    }

    /// Number of threads that were renumbered because two hosts use the same id.
    pub fn renumbered(&self) -> u64 {
        self.tids.renumbered
    }

    /// Number of threads that have several names in the lines.
    pub fn renamed(&self) -> u64 {
        self.renamed.len() as u64
    }

    /// Repeated lines of senders, of datagrams to groups without an identification: an import has a datagram for each
    /// receiver.
    pub const fn unidentified(&self) -> u64 {
        self.groups.unidentified
    }

    /// Wake-ups that no line has: a reader ran that something else had woken.
    pub const fn added_wakes(&self) -> u64 {
        self.added_wakes
    }

    /// Losses that are one host's of several: a recording of several hosts has losses of all of them.
    pub fn shared_losses(&self) -> u64 {
        if self.several().is_some() { self.losses } else { 0 }
    }

    /// What is known of the host: all names that stood in the lines so far.
    pub fn info(&self, from: &str) -> NodeInfo {
        let hosts: std::collections::BTreeSet<&str> =
            self.places.keys().map(|(host, _)| host.as_str()).collect();
        let name = |(host, node): &(String, String)| match (hosts.len() > 1, node.is_empty()) {
            (_, true) if host.is_empty() => "?".to_owned(),
            (_, true) => host.clone(),
            (true, false) => format!("{host}/{node}"),
            (false, false) => node.clone(),
        };
        let interfaces = self.interfaces.iter().map(|((netns, name), index)| InterfaceName {
            netns: *netns,
            index: *index,
            name: name.clone(),
            kind: String::new(),
        });
        let netns = self.places.iter().map(|(place, number)| NetnsName { netns: *number, name: name(place) });
        let service = |hop: &Hop| HopService {
            hop: *hop,
            service: if self.seen.contains(*hop) {
                let (point, note) = (String::new(), format!("imported from {from}"));
                Service::Served { backend: Backend::Generator, point, note }
            } else if self.missing.is_some_and(|missing| !missing.contains(*hop)) && has_lines(*hop) {
                Service::Off
            } else {
                Service::Missing { because: format!("{from} has no such event") }
            },
        };
        NodeInfo {
            host: self.host.clone(),
            kernel: self.kernel.clone(),
            clock: "utc".to_owned(),
            netns: netns.collect(),
            interfaces: interfaces.collect(),
            drop_reasons: self.reasons.named(),
            several: self.several(),
            coverage: Coverage { hops: Hop::ALL.iter().map(service).collect(), ..Coverage::default() },
            ..NodeInfo::default()
        }
    }
}

/// True for the begin and the end of a request or of an answer.
fn is_span(event: &str) -> bool {
    [SpanSide::Requester, SpanSide::Responder].iter().any(|side| side.events().contains(&event))
}

/// True if the line says that its packet may be another one.
fn is_ambiguous(line: &Line<'_>) -> bool {
    line.get(&["MAG.AMB", "mag.ambiguous"]).is_some()
}

/// The kernel's reason of a retransmission.
fn resend(line: &Line<'_>) -> Resend {
    let name = line.get(&["MAG.WHY", "mag.resend"]).unwrap_or_default();
    Resend::ALL.into_iter().find(|resend| resend.name() == name).unwrap_or_default()
}

/// A number for an ID.
fn hash(id: &str) -> u64 {
    id.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
}

fn proto(text: Option<&str>, has_seq: bool) -> Proto {
    match text {
        Some(word) => Proto::of_word(word).unwrap_or(Proto::UDP),
        None if has_seq => Proto::TCP,
        None => Proto::UDP,
    }
}

fn flow_id(netns: u32, proto: Proto, local: SocketAddr, remote: SocketAddr) -> FlowId {
    let mut hash = mix(u64::from(netns) << 8 | u64::from(proto.0));
    for end in [local, remote] {
        hash = crate::wire::address(hash, end);
    }
    FlowId(hash.max(1))
}

/// The field of a sample that an event name denotes.
fn sampled(event: &str) -> Option<fn(&mut TcpSample) -> &mut u32> {
    Some(match event {
        "tcp.cwnd" => |s| &mut s.cwnd,
        "tcp.ssthresh" => |s| &mut s.ssthresh,
        "tcp.srtt_us" => |s| &mut s.srtt_us,
        "tcp.packets_out" => |s| &mut s.packets_out,
        "tcp.send_queue" => |s| &mut s.send_queue_bytes,
        "tcp.recv_queue" => |s| &mut s.recv_queue_bytes,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
