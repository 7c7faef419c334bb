//! The balance of one direction of a TCP connection: its journeys against its events, and both against the
//! counters of the two sockets.

use super::tcp_info::TcpInfo;
use super::{Net, Recording};
use magscope_core::hop::Direction;
use magscope_core::journey::{Correlator, Journey, Verdict};
use magscope_core::{Event, EventFlags, Flow, FlowId, Hop};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

/// A recording, indexed by flow.
pub struct Books<'a> {
    recording: &'a Recording,
    events: HashMap<FlowId, Vec<Event>>,
    journeys: HashMap<FlowId, Vec<Journey>>,
    pub correlator: Correlator,
}

/// One direction: the bytes from `tx` to `rx`, numbered from the first byte of the connection.
pub struct OneDirection<'a> {
    books: &'a Books<'a>,
    tx: FlowId,
    rx: FlowId,
    first: u32,
    /// Journeys in stream order.
    pub journeys: Vec<Journey>,
}

impl<'a> Books<'a> {
    pub fn open(recording: &'a Recording) -> Self {
        let (done, correlator) = recording.journeys();
        let (mut events, mut journeys): (HashMap<_, Vec<_>>, HashMap<_, Vec<_>>) = Default::default();
        for event in &recording.events {
            events.entry(event.flow).or_default().push(*event);
        }
        for journey in done {
            let flow = if journey.tx_flow.is_none() { journey.rx_flow } else { journey.tx_flow };
            journeys.entry(flow).or_default().push(journey);
        }
        Books { recording, events, journeys, correlator }
    }

    /// All retransmitted bytes: within journeys, and after the end of a journey.
    pub fn resent_bytes(&self) -> u64 {
        let of_journey = |j: &Journey| j.bytes() * u64::from(j.retransmits());
        let in_journeys: u64 = self.journeys.values().flatten().map(of_journey).sum();
        in_journeys + self.correlator.counters().resent_after_end_bytes
    }

    fn flow(&self, netns: u32, local: SocketAddr, remote: SocketAddr) -> FlowId {
        let is_it = |flow: &&Flow| (flow.netns, flow.local, flow.remote) == (netns, local, remote);
        let flow = self.recording.flows.values().find(is_it);
        flow.unwrap_or_else(|| panic!("no flow {local} to {remote} in {netns}")).id
    }

    /// The direction client to server if `up`, else server to client.
    pub fn one_direction(
        &self,
        net: &Net,
        client: SocketAddr,
        server: SocketAddr,
        up: bool,
    ) -> OneDirection<'_> {
        let here = self.flow(net.client.target.inode, client, server);
        let there = self.flow(net.server.target.inode, server, client);
        let (tx, rx) = if up { (here, there) } else { (there, here) };
        let of_tx = self.events.get(&tx).map_or(&[][..], Vec::as_slice);
        let syn = of_tx.iter().find(|e| e.hop == Hop::IpOut && e.tcp_flags & 2 != 0).expect("a SYN");
        let mut journeys = self.journeys.get(&tx).cloned().unwrap_or_default();
        let strays = self.journeys.get(&rx).into_iter().flatten().filter(|j| j.tx_flow.is_none());
        journeys.extend(strays.cloned());
        journeys.sort_by_key(|j| j.range.start);
        OneDirection { books: self, tx, rx, first: syn.seq(), journeys }
    }
}

impl OneDirection<'_> {
    /// Stream offset of a sequence number.
    pub fn place(&self, seq: u32) -> u64 {
        u64::from(seq.wrapping_sub(self.first))
    }

    /// The events of this direction at `hop`, in order of time.
    pub fn at(&self, hop: Hop) -> impl Iterator<Item = &Event> {
        let flow = if hop.direction() == Direction::Rx { self.rx } else { self.tx };
        self.books.events.get(&flow).into_iter().flatten().filter(move |e| e.hop == hop)
    }

    /// Events at the hop that carry payload.
    pub fn payload_at(&self, hop: Hop) -> impl Iterator<Item = &Event> {
        self.at(hop).filter(|e| e.len > 0)
    }

    fn bytes_at(&self, hop: Hop) -> u64 {
        self.at(hop).map(|e| u64::from(e.len)).sum()
    }

    fn segments_at(&self, hop: Hop) -> u64 {
        self.payload_at(hop).map(|e| u64::from(e.segs)).sum()
    }

    fn span(&self, event: &Event) -> (u64, u64) {
        let start = self.place(event.seq());
        (start, start + u64::from(event.len))
    }

    /// The first time that each byte hit `hop`, from its events alone: start of a range to its end and time.
    fn first_pass(&self, hop: Hop) -> BTreeMap<u64, (u64, u64)> {
        let mut passed: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for event in self.payload_at(hop) {
            let (mut at, end) = self.span(event);
            while at < end {
                let before = passed.range(..=at).next_back().map(|(_, (end, _))| *end);
                if let Some(covered) = before.filter(|covered| *covered > at) {
                    at = covered;
                    continue;
                }
                let next = passed.range(at..).next().map_or(end, |(start, _)| end.min(*start));
                passed.insert(at, (next, event.time_ns));
                at = next;
            }
        }
        passed
    }

    /// Each byte of the stream belongs to exactly one journey.
    pub fn is_gapless(&self, bytes: u64) {
        let mut at = 0;
        for journey in &self.journeys {
            assert_eq!(self.place(journey.range.start as u32), at, "a hole or an overlap: {journey:?}");
            at += journey.bytes();
        }
        assert_eq!(at, bytes, "bytes in journeys");
    }

    /// A journey's first time at a hop, over all copies, is that of the first event at the hop that covers its
    /// bytes.
    pub fn rungs_are_events(&self) {
        let served = self.books.recording.served;
        let packets = [Hop::IpOut, Hop::IpPost, Hop::DevQueue, Hop::DevXmit, Hop::DevDone];
        let arrivals = [Hop::DevRecv, Hop::IpPre, Hop::IpIn, Hop::TcpRecv];
        let ends = [Hop::AppSend, Hop::AppCopy, Hop::AppRecv];
        for hop in packets.into_iter().chain(arrivals).chain(ends).filter(|hop| served.contains(*hop)) {
            let passed = self.first_pass(hop);
            for journey in &self.journeys {
                let start = self.place(journey.range.start as u32);
                let end = start + journey.bytes();
                let found = passed.range(..=start).next_back().filter(|(_, (to, _))| *to > start);
                let rungs = journey.all_rungs().filter(|rung| rung.hop == hop);
                let Some(time_ns) = rungs.map(|rung| rung.time_ns).min() else {
                    assert!(found.is_none(), "{hop} was passed, and has no rung: {journey:?}");
                    continue;
                };
                let Some((_, (to, first_ns))) = found else { panic!("{hop} was not passed: {journey:?}") };
                assert!(*to >= end, "{hop}: a journey over two events: {journey:?}");
                if hop == Hop::AppSend && time_ns != *first_ns {
                    // A call offers bytes that the socket may not accept; the next call offers them again and
                    // sends them.
                    let offers = |e: &&Event| {
                        let (from, to) = self.span(e);
                        e.time_ns == time_ns
                            && from <= start
                            && to >= end
                            && !e.flags.contains(EventFlags::AT_RETURN)
                    };
                    assert_eq!(self.at(hop).filter(offers).count(), 1, "nobody offered it then: {journey:?}");
                    continue;
                }
                assert_eq!(time_ns, *first_ns, "{hop}: not its first pass: {journey:?}");
            }
        }
        let reported: Vec<&Event> = self.at(Hop::SockReady).collect();
        for journey in &self.journeys {
            let end = self.place(journey.range.start as u32) + journey.bytes();
            let first = reported.iter().find(|e| self.place(e.seq()) >= end && e.seq() != 0).map(|e| e.time_ns);
            assert_eq!(journey.rungs.time_ns(Hop::SockReady), first, "sock.ready: {journey:?}");
        }
    }

    /// The retransmission count equals the passes at `ip.out` beyond the first, except passes after the
    /// journey's end.
    fn retransmits_are_second_passes(&self) {
        for journey in &self.journeys {
            let start = self.place(journey.range.start as u32);
            let covers = |e: &&Event| {
                let (from, to) = self.span(e);
                from <= start && start < to
            };
            let passes: Vec<&Event> = self.payload_at(Hop::IpOut).filter(covers).collect();
            let end_ns = journey.rungs.time_ns(Hop::AppRecv).unwrap_or(u64::MAX);
            let before = passes.iter().filter(|e| e.time_ns <= end_ns).count();
            let counted = journey.retransmits() as usize + 1;
            assert!((before..=passes.len()).contains(&counted), "{journey:?} went out as {passes:#?}");
        }
    }

    /// Invariants of every direction under any network disturbance, once all bytes are read. `bytes` is the
    /// application's total; `sender` and `receiver` are the socket counters.
    pub fn balances(&self, bytes: u64, sender: &TcpInfo, receiver: &TcpInfo) {
        self.is_whole(bytes, sender, receiver);
        assert_eq!(sender.bytes_sent - sender.bytes_retrans, bytes, "bytes sent once");
        assert_eq!(self.bytes_at(Hop::TcpRetransmit), sender.bytes_retrans, "tcp.retransmit");
        let mss = sender.snd_mss;
        let segments: u32 = self.payload_at(Hop::TcpRetransmit).map(|e| e.len.div_ceil(mss)).sum();
        assert_eq!(segments, sender.total_retrans, "segments sent again");
    }

    /// The subset of invariants that holds if the sender's own device refuses packets. TCP then resends the
    /// bytes without counting a retransmission.
    pub fn is_whole(&self, bytes: u64, sender: &TcpInfo, receiver: &TcpInfo) {
        self.is_gapless(bytes);
        for journey in &self.journeys {
            assert_eq!(journey.verdict, Verdict::Complete, "{journey:?}");
            assert_eq!((journey.tx_flow, journey.rx_flow), (self.tx, self.rx), "{journey:?}");
            assert_eq!(journey.disordered(), 0, "{journey:?}");
        }
        self.rungs_are_events();

        assert_eq!(bytes, receiver.bytes_received, "bytes received");
        let taken = |e: &Event| e.flags.contains(EventFlags::AT_RETURN);
        if self.at(Hop::AppSend).all(taken) {
            assert_eq!(self.bytes_at(Hop::AppSend), bytes, "app.send");
        } else {
            assert!(self.bytes_at(Hop::AppSend) >= bytes, "offered at app.send, and taken");
        }
        assert_eq!(self.bytes_at(Hop::AppRecv), bytes, "app.recv");
        assert_eq!(self.bytes_at(Hop::IpOut), sender.bytes_sent, "bytes sent, those sent again included");
        assert_eq!(self.segments_at(Hop::IpOut), u64::from(sender.data_segs_out), "segments sent");
        assert_eq!(self.segments_at(Hop::IpIn), u64::from(receiver.data_segs_in), "segments received");

        self.retransmits_are_second_passes();
        let again: u64 = self.journeys.iter().map(|j| j.bytes() * u64::from(j.retransmits())).sum();
        let most = sender.bytes_sent - bytes;
        assert!(again <= most, "bytes sent again: {again} of {most}");
    }
}
