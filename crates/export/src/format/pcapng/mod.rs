//! pcapng (draft-ietf-opsawg-pcapng) for Wireshark and tshark: packets at hops, one interface per hop.
//!
//! A packet has the number of its journey (`epb_packetid`) and a comment with verdict and latency. These are
//! final only at the end of the journey, so a bounded number of packets wait; packets that are written earlier
//! have no number. `docs/adr/0009-formats-written-here.md` has the reason for an own writer.
//!
//! A loss has a host and a time, but no hop and no namespace. The first packet of the host after the loss has the
//! number (`epb_dropcount`), and a comment states that the records may be of other interfaces.

mod block;
mod comment;
mod headers;

use crate::Chosen;
use crate::error::ExportError;
use crate::names::Names;
use crate::output::{Export, Output, Written};
use crate::timeline::TimeLine;
use block::{Packet, interface, lost_after, section, statistics};
use comment::comment;
use magscope_core::change::HopCount;
use magscope_core::context::Context;
use magscope_core::head::PayloadHead;
use magscope_core::hop::Role;
use magscope_core::node::NodeInfo;
use magscope_core::{Event, Flow, Hop, HopSet, Journey, Loss};
use magscope_timeline::merged_reader::Piece;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;

/// Maximum number of packets that wait for their journeys: about 100 bytes each.
const WAITING: usize = 512 << 10;
/// Maximum size of their payload, bytes.
const WAITING_PAYLOAD: usize = 64 << 20;
/// Maximum number of journeys in the comment of a packet.
const NAMED: usize = 4;
/// Maximum difference between an event's time and the same time in its journey after clock mapping,
/// nanoseconds.
const MAPPED_NS: u64 = 5_000;
/// Maximum number of losses that wait for a later packet; beyond it they are merged.
const LOSSES: usize = 64 << 10;

/// The hops that see packets on the wire.
pub const WIRE: [Hop; 2] = [Hop::DevXmit, Hop::DevRecv];
/// True for a hop that sees packets pass.
fn has_packets(hop: Hop) -> bool {
    hop.role() == Role::Packet && hop.spec().has_packet
}

/// Why an export of these hops would be empty: no packets pass at any of them. `None` if packets pass at one.
pub fn reason_for_none(hops: &[Hop]) -> Option<String> {
    if hops.iter().any(|hop| has_packets(*hop)) {
        return None;
    }
    let names = |hops: HopSet| hops.iter().map(Hop::name).collect::<Vec<_>>().join(",");
    let chosen = names(hops.iter().copied().collect());
    let fitting = names(HopSet::all().iter().filter(|hop| has_packets(*hop)).collect());
    Some(format!(
        "no packets pass at the chosen hops ({chosen}): calls, waits and wake-ups have none, so the pcapng \
         would be empty; choose with --hops among {fitting}"
    ))
}

/// A waiting packet.
struct Waiting {
    node: u16,
    event: Event,
    flow: Flow,
    /// Payload head, if recorded.
    payload: Vec<u8>,
    journeys: Vec<(u64, Box<str>)>,
    /// Number of further journeys in the packet.
    more: u32,
}

/// Key of a packet: node, hop, CPU and time.
type Place = (u16, Hop, u16, u64);

/// Writes pcapng.
pub struct Pcapng {
    file: Option<Box<dyn Output>>,
    chosen: Chosen,
    hops: HopSet,
    /// Chosen hops without packets.
    hops_without: HopSet,
    line: TimeLine,
    names: Names,
    new_flows: Vec<Flow>,
    interfaces: BTreeMap<(u16, u32, Hop), u32>,
    waiting: VecDeque<Waiting>,
    /// Sequence numbers of waiting packets.
    places: BTreeMap<Place, u64>,
    gone: u64,
    payload_bytes: usize,
    buffer: Vec<u8>,
    packets: u64,
    unnumbered: u64,
    without_flow: u64,
    /// Events at `hops_without`.
    without_packet: u64,
    /// Lost records without a later packet so far, by node and end of the loss.
    lost: BTreeMap<(u16, u64), u64>,
    /// The kernel's counters of each hop, written last.
    counts: BTreeMap<(u16, Hop), HopCount>,
    probed: u64,
}

impl Pcapng {
    /// Packets of these hops, as far as hops see packets. The first piece fails if none of them does.
    pub fn new(
        file: Box<dyn Output>,
        infos: &[NodeInfo],
        line: TimeLine,
        chosen: Chosen,
        hops: &[Hop],
    ) -> Self {
        let mut buffer = Vec::new();
        section(&mut buffer, infos);
        Pcapng {
            file: Some(file),
            chosen,
            hops: hops.iter().copied().filter(|hop| has_packets(*hop)).collect(),
            hops_without: hops.iter().copied().filter(|hop| !has_packets(*hop)).collect(),
            line,
            names: Names::new(infos),
            new_flows: Vec::new(),
            interfaces: BTreeMap::new(),
            waiting: VecDeque::new(),
            places: BTreeMap::new(),
            gone: 0,
            payload_bytes: 0,
            buffer,
            packets: 0,
            unnumbered: 0,
            without_flow: 0,
            without_packet: 0,
            lost: BTreeMap::new(),
            counts: BTreeMap::new(),
            probed: 0,
        }
    }

    /// Fails if no chosen hop sees packets: the file would be empty.
    fn check_hops(&self) -> Result<(), ExportError> {
        if !self.hops.is_empty() {
            return Ok(());
        }
        let chosen: Vec<Hop> = self.hops_without.iter().collect();
        reason_for_none(&chosen).map_or(Ok(()), |reason| Err(ExportError::Format(reason)))
    }

    fn loss(&mut self, node: u16, loss: &Loss) {
        let (mut to_ns, mut count) = (loss.to_ns, loss.count);
        if self.lost.len() >= LOSSES {
            let last = self.lost.range((node, 0)..=(node, u64::MAX)).next_back();
            if let Some((key, earlier)) = last.map(|(key, earlier)| (*key, *earlier)) {
                self.lost.remove(&key);
                (to_ns, count) = (to_ns.max(key.1), count.saturating_add(earlier));
            }
        }
        let lost = self.lost.entry((node, to_ns)).or_default();
        *lost = lost.saturating_add(count);
    }

    /// Records of a node that were lost up to an instant and are not in an earlier packet.
    fn lost_before(&mut self, node: u16, ns: u64) -> u64 {
        let mut lost = 0_u64;
        while let Some((key, count)) = self.lost.range((node, 0)..=(node, ns)).next() {
            let (key, count) = (*key, *count);
            self.lost.remove(&key);
            lost = lost.saturating_add(count);
        }
        lost
    }

    /// Writes the losses after the last packet of each host, and returns their number of records.
    fn lost_at_end(&mut self) -> u64 {
        let mut of_nodes: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        for ((node, to_ns), count) in std::mem::take(&mut self.lost) {
            let (end_ns, lost) = of_nodes.entry(node).or_default();
            (*end_ns, *lost) = (to_ns, lost.saturating_add(count));
        }
        for (node, (ns, lost)) in &of_nodes {
            let ns = u64::try_from(self.line.ns(*ns)).unwrap_or(0);
            if let Some((_, interface)) = self.interfaces.iter().find(|((of, ..), _)| of == node) {
                lost_after(&mut self.buffer, *interface, ns, *lost);
            }
        }
        of_nodes.values().fold(0, |all, (_, lost)| all.saturating_add(*lost))
    }

    fn event(&mut self, node: u16, event: &Event) {
        if !self.hops.contains(event.hop) {
            self.without_packet += u64::from(self.hops_without.contains(event.hop));
            return;
        }
        let Some(flow) = self.names.flow(node, event.flow).copied() else {
            self.without_flow += 1;
            return;
        };
        let number = self.gone + self.waiting.len() as u64;
        self.places.insert((node, event.hop, event.cpu, event.time_ns), number);
        self.waiting.push_back(Waiting {
            node,
            event: *event,
            flow,
            payload: Vec::new(),
            journeys: Vec::new(),
            more: 0,
        });
    }

    fn head(&mut self, node: u16, head: &PayloadHead) {
        let Some(number) = self.places.get(&(node, head.hop, head.cpu, head.time_ns)) else { return };
        let Some(packet) = self.waiting.get_mut((number - self.gone) as usize) else { return };
        if packet.payload.is_empty() && packet.event.record == head.event {
            packet.payload.clone_from(&head.bytes);
            self.payload_bytes += head.bytes.len();
        }
    }

    fn journey(&mut self, journey: &Journey, context: &dyn Context) {
        if !self.chosen.wants(journey, context) {
            return;
        }
        let mut text: Option<Box<str>> = None;
        for rung in journey.all_rungs().filter(|rung| self.hops.contains(rung.hop)) {
            let node = journey.node_of(&rung);
            let Some(number) = self.place((node, rung.hop, rung.cpu, rung.time_ns)) else { continue };
            let Some(packet) = self.waiting.get_mut((number - self.gone) as usize) else { continue };
            if packet.journeys.iter().any(|(id, _)| *id == journey.id) {
                continue;
            }
            if packet.journeys.len() < NAMED {
                let text = text.get_or_insert_with(|| comment(journey));
                packet.journeys.push((journey.id, text.clone()));
            } else {
                packet.more += 1;
            }
        }
    }

    /// The waiting packet with this key.
    fn place(&self, at: Place) -> Option<u64> {
        if let Some(number) = self.places.get(&at) {
            return Some(*number);
        }
        let (node, hop, cpu, ns) = at;
        if node == 0 {
            return None;
        }
        let near = self.places.range(
            (node, hop, cpu, ns.saturating_sub(MAPPED_NS))..=(node, hop, cpu, ns.saturating_add(MAPPED_NS)),
        );
        near.min_by_key(|((.., other_ns), _)| other_ns.abs_diff(ns)).map(|(_, number)| *number)
    }

    /// Writes the oldest packets until `keep` wait.
    fn drain(&mut self, keep: usize) -> Result<(), ExportError> {
        while self.waiting.len() > keep || self.payload_bytes > WAITING_PAYLOAD {
            let Some(packet) = self.waiting.pop_front() else { break };
            self.payload_bytes -= packet.payload.len();
            let Event { hop, cpu, time_ns, .. } = packet.event;
            if self.places.get(&(packet.node, hop, cpu, time_ns)) == Some(&self.gone) {
                self.places.remove(&(packet.node, hop, cpu, time_ns));
            }
            self.gone += 1;
            self.packet(&packet)?;
        }
        Ok(())
    }

    fn packet(&mut self, waiting: &Waiting) -> Result<(), ExportError> {
        // With a journey filter, only packets of matching journeys are written.
        if self.chosen.filter.is_some() && waiting.journeys.is_empty() {
            return Ok(());
        }
        let event = &waiting.event;
        let number = self.interfaces.len() as u32;
        let place = self.names.place(waiting.node, waiting.flow.netns);
        let host = self.names.host_of(waiting.node, waiting.flow.netns);
        let id = *self.interfaces.entry((waiting.node, waiting.flow.netns, event.hop)).or_insert_with(|| {
            interface(&mut self.buffer, &format!("{host}/{place} {}", event.hop), event.hop);
            number
        });
        self.packets += 1;
        self.unnumbered += u64::from(waiting.journeys.is_empty());
        let (mut data, original_len) = headers::of(event, &waiting.flow);
        let room = (original_len as usize).saturating_sub(data.len());
        data.extend(waiting.payload.iter().take(room));
        let mut comments: Vec<String> =
            waiting.journeys.iter().map(|(_, comment)| comment.to_string()).collect();
        if waiting.more > 0 {
            comments.push(format!("and {} more journeys", waiting.more));
        }
        if event.segs > 1 {
            comments.push(format!("super-packet of {} segments", event.segs));
        }
        let lost = self.lost_before(waiting.node, event.time_ns);
        if lost > 0 {
            comments.push(format!(
                "{lost} records of this host were lost before this packet, at hops that are not known: \
                 they need not be packets of this interface"
            ));
        }
        let packet = Packet {
            interface: id,
            ns: u64::try_from(self.line.ns(event.time_ns)).unwrap_or(0),
            data: &data,
            original_len,
            outbound: event.hop.direction() == magscope_core::Direction::Tx,
            id: waiting.journeys.first().map(|(id, _)| *id),
            queue: u32::from(event.cpu),
            lost,
            comments: &comments,
        };
        packet.write(&mut self.buffer);
        if self.buffer.len() >= 64 << 10 { self.pass_on() } else { Ok(()) }
    }

    fn pass_on(&mut self) -> Result<(), ExportError> {
        if let Some(file) = &mut self.file {
            file.write_all(&self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }
}

impl Export for Pcapng {
    fn piece(&mut self, piece: &Piece<'_>) -> Result<(), ExportError> {
        self.check_hops()?;
        match piece {
            Piece::Batch(node, batch) => {
                self.names.learn(*node, batch, &mut self.new_flows);
                batch.losses.iter().for_each(|loss| self.loss(*node, loss));
                batch.events.iter().for_each(|event| self.event(*node, event));
                batch.heads.iter().for_each(|head| self.head(*node, head));
                self.counts.extend(batch.counts.iter().map(|count| ((*node, count.hop), *count)));
                self.probed += batch.hits.len() as u64;
                self.drain(WAITING)
            }
            Piece::Journey(journey, _, context) => {
                self.journey(journey, *context);
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> Result<Written, ExportError> {
        self.check_hops()?;
        self.drain(0)?;
        // Readers take the last statistics of an interface: its counters come after.
        let lost_at_end = self.lost_at_end();
        for ((node, _, hop), number) in &self.interfaces {
            if let Some(count) = self.counts.get(&(*node, *hop)) {
                statistics(
                    &mut self.buffer,
                    *number,
                    u64::try_from(self.line.ns(count.time_ns)).unwrap_or(0),
                    count,
                );
            }
        }
        self.pass_on()?;
        if let Some(file) = self.file.take() {
            file.close()?;
        }
        let left_out = [
            ("packets without a flow, whose addresses are not known, are left out", self.without_flow),
            (
                "packets have no journey: they carry no payload, or their journey ended too late",
                self.unnumbered,
            ),
            ("hits of custom probes are no packets and are left out", self.probed),
            (
                "events at chosen hops are no packets and are left out: no packets pass there",
                self.without_packet,
            ),
            ("records were lost after the last packet of their host: no packet has their number", lost_at_end),
        ];
        let left_out = left_out.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| (Cow::from(what), n));
        Ok(Written {
            rows: vec![("packets", self.packets)],
            left_out: left_out.chain(self.names.left_out()).collect(),
        })
    }
}

#[cfg(test)]
mod tests;
