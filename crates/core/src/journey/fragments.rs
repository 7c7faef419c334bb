//! Fragments: the parts of a datagram that have passed each hop.
//!
//! A datagram passes a hop with the last of its fragments, because without it there is no datagram. On the
//! sender's path the time is that of the first fragment, on the receiver's that of the last. So the wire has
//! the time of all of them. A datagram with a lost fragment is lost behind the last hop that all of them have
//! passed.

use super::piece::Mark;
use super::state::StreamRef;
use crate::event::{Event, EventFlags};
use crate::flow::{Flow, Proto};
use crate::hash::Map;
use crate::hop::{Direction, Hop};
use std::net::IpAddr;

/// Maximum number of stored datagrams, and of separate parts of one at a hop.
const MAX_ASSEMBLIES: usize = 1 << 12;
const MAX_PARTS: usize = 1 << 6;
/// Time after which an identification is reused.
const FRESH_NS: u64 = 1_000_000_000;
/// The UDP or ICMP header before the payload, in the first fragment.
const HEADER: u32 = 8;

/// Common fields of the fragments of one datagram: the hosts from one end's side, the direction and the
/// identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    netns: u32,
    proto: Proto,
    local: IpAddr,
    remote: IpAddr,
    receives: bool,
    ip_id: u16,
}

/// A datagram in fragments, on one host.
#[derive(Debug, Default)]
struct Assembly {
    datagram: Option<(StreamRef, u64)>,
    /// Bytes after the IP header; 0: unknown yet.
    total: u32,
    at: Vec<AtHop>,
    last_ns: u64,
    /// Duplicate fragments, which the kernel will drop.
    twice: u32,
    /// Fragments that wait for the first.
    lone: u64,
}

/// Fragments at one hop.
#[derive(Debug)]
struct AtHop {
    first: Mark,
    last: Mark,
    ifindex: u32,
    /// Disjoint and in order.
    parts: Vec<(u32, u32)>,
    reported: bool,
}

/// The effect of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piecemeal {
    /// No change.
    Nothing,
    /// The first fragment of its datagram at this host: the caller must supply the datagram.
    Unknown,
    /// The datagram that it is part of.
    Part,
}

/// Datagrams in fragments.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    assemblies: Map<Key, Assembly>,
    /// Evicted fragments without a known datagram, since the last read of this counter.
    pub stray: u64,
}

/// True if an event belongs to a fragment.
pub(super) fn is_fragment(event: &Event) -> bool {
    event.flags.contains(EventFlags::FRAGMENT) || event.flags.contains(EventFlags::MORE)
}

fn key(event: &Event, flow: &Flow, receives: bool) -> Key {
    let (local, remote) = (flow.local.ip(), flow.remote.ip());
    Key { netns: flow.netns, proto: flow.proto, local, remote, receives, ip_id: event.ip_id }
}

impl Fragments {
    /// Processes a fragment at a packet hop.
    pub fn push(&mut self, event: &Event, flow: &Flow, mark: &Mark) -> Piecemeal {
        let receives = event.hop.direction() == Direction::Rx;
        let is_first = !event.flags.contains(EventFlags::FRAGMENT);
        if self.assemblies.len() >= MAX_ASSEMBLIES {
            self.make_room(event.time_ns);
        }
        let key = key(event, flow, receives);
        let assembly = self.assemblies.entry(key).or_default();
        let stale = event.time_ns.saturating_sub(assembly.last_ns) > FRESH_NS;
        let again = assembly.at.iter().any(|at| at.first.hop == event.hop && at.covers(event));
        let device = assembly.at.iter().find(|at| at.first.hop == event.hop).map(|at| at.ifindex);
        if again && !stale {
            // A stacked device, or the network's copy; at the sender another datagram.
            if receives || device != Some(event.ifindex) {
                assembly.twice += u32::from(receives && device == Some(event.ifindex));
                return Piecemeal::Nothing;
            }
        }
        if stale || again {
            self.stray += assembly.lone;
            *assembly = Assembly::default();
        }
        assembly.last_ns = event.time_ns;
        assembly.take(event, mark);
        if assembly.datagram.is_some() {
            Piecemeal::Part
        } else if is_first {
            Piecemeal::Unknown
        } else {
            assembly.lone += 1;
            Piecemeal::Nothing
        }
    }

    /// Sets the datagram of this fragment.
    pub fn is_part_of(&mut self, event: &Event, flow: &Flow, datagram: (StreamRef, u64)) {
        let receives = event.hop.direction() == Direction::Rx;
        if let Some(assembly) = self.assemblies.get_mut(&key(event, flow, receives)) {
            assembly.datagram = Some(datagram);
            assembly.lone = 0;
        }
    }

    /// The datagram of this fragment, the hops that it has now passed completely, and its bytes after the IP
    /// header, if known.
    pub fn passed(&mut self, event: &Event, flow: &Flow) -> Option<((StreamRef, u64), Vec<Mark>, u32)> {
        let receives = event.hop.direction() == Direction::Rx;
        let assembly = self.assemblies.get_mut(&key(event, flow, receives))?;
        let (datagram, total) = (assembly.datagram?, assembly.total);
        let whole = assembly.at.iter_mut().filter(|at| !at.reported && at.parts[..] == [(0, total)]);
        let marks = whole.map(|at| {
            at.reported = true;
            if receives { at.last } else { at.first }
        });
        Some((datagram, marks.collect(), total))
    }

    /// The datagram of a dropped fragment; `None` if it is unknown or a duplicate.
    pub fn dropped(&mut self, event: &Event, flow: &Flow) -> Option<(StreamRef, u64)> {
        for receives in [true, false] {
            let Some(assembly) = self.assemblies.get_mut(&key(event, flow, receives)) else { continue };
            if assembly.twice > 0 {
                assembly.twice -= 1;
                return None;
            }
            return assembly.datagram;
        }
        None
    }

    /// Ends the input. Returns the number of fragments that still waited for the first of their datagram.
    pub fn finish(&mut self) -> u64 {
        let lone = self.assemblies.values().map(|a| a.lone).sum();
        self.assemblies.clear();
        lone
    }

    /// Evicts complete entries, or all.
    fn make_room(&mut self, now_ns: u64) {
        let mut stray = 0;
        let mut leaves = |assembly: &Assembly| stray += assembly.lone;
        self.assemblies.retain(|_, a| {
            let stays = now_ns.saturating_sub(a.last_ns) < FRESH_NS;
            if !stays {
                leaves(a);
            }
            stays
        });
        if self.assemblies.len() >= MAX_ASSEMBLIES {
            self.assemblies.values().for_each(leaves);
            self.assemblies.clear();
        }
        self.stray += stray;
    }
}

/// The range of a fragment's bytes after the IP header.
fn span(event: &Event) -> (u32, u32) {
    if event.flags.contains(EventFlags::FRAGMENT) {
        let from = event.extent.fragment_offset();
        (from, from.saturating_add(event.len))
    } else {
        (0, event.extent.fragment_bytes())
    }
}

impl Assembly {
    fn take(&mut self, event: &Event, mark: &Mark) {
        let (from, to) = span(event);
        if !event.flags.contains(EventFlags::MORE) {
            self.total = to;
        } else if !event.flags.contains(EventFlags::FRAGMENT) && event.proto == Proto::UDP {
            self.total = event.len.saturating_add(HEADER);
        }
        let at = if let Some(at) = self.at.iter_mut().find(|at| at.first.hop == event.hop) {
            at
        } else {
            if self.at.len() >= Hop::path().len() {
                return;
            }
            self.at.push(AtHop {
                first: *mark,
                last: *mark,
                ifindex: event.ifindex,
                parts: Vec::new(),
                reported: false,
            });
            let Some(at) = self.at.last_mut() else { return };
            at
        };
        if from >= to || at.parts.len() >= MAX_PARTS {
            return;
        }
        at.last = *mark;
        let place = at.parts.partition_point(|part| part.0 < from);
        at.parts.insert(place, (from, to));
        at.parts.dedup_by(|next, part| {
            let touches = next.0 <= part.1;
            if touches {
                part.1 = part.1.max(next.1);
            }
            touches
        });
    }
}

impl AtHop {
    fn covers(&self, event: &Event) -> bool {
        let (from, to) = span(event);
        self.parts.iter().any(|part| part.0 <= from && part.1 >= to)
    }
}

/// The payload of a datagram with this number of bytes after its IP header.
pub(super) const fn payload(total: u32) -> u32 {
    total.saturating_sub(HEADER)
}
