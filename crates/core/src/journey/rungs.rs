//! Rungs: time and place of one journey at each hop of the path.

use crate::flow::FlowId;
use crate::hop::{Direction, Hop, PATH_HOPS};
use serde::Serialize;

/// A process and one of its threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct ThreadRef {
    /// Process; 0 if unknown.
    pub tgid: u32,
    /// Thread; 0 if unknown.
    pub tid: u32,
}

impl ThreadRef {
    /// True without a process and a thread.
    pub const fn is_none(self) -> bool {
        self.tgid == 0 && self.tid == 0
    }
}

/// One hop of one journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// The hop.
    pub hop: Hop,
    /// Instant at which it passed, nanoseconds of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The CPU it happened on.
    pub cpu: u16,
    /// Process, 0 if the hop has none.
    pub tgid: u32,
    /// Thread, 0 if the hop has none.
    pub tid: u32,
    /// The flow of this event's end: the sender's on its path, the receiver's on its own.
    pub flow: FlowId,
    /// Number of the copy; 0 at the sockets' hops, and everywhere in a journey that was sent once.
    pub copy: u32,
    /// Recorded at the return of the call: it names the process, but is not part of the time order.
    pub at_return: bool,
    /// Number of the forwarder on the path, from 1; 0 at both ends.
    pub forwarder: u8,
    /// Number of the outer packet whose hop it is, from 1; 0 outside of tunnels.
    pub tunnel: u8,
    /// Its time is on the sender's clock, false for the receiver's. They may be one.
    pub on_sender_clock: bool,
}

impl Rung {
    /// True if this belongs to a copy and `next` to a later one, or if the copies before `next` were not seen.
    pub const fn is_copy_before(&self, next: &Rung) -> bool {
        if self.copy == 0 {
            next.copy > 1 && matches!(self.hop.direction(), Direction::Tx)
        } else {
            next.copy > self.copy
        }
    }
}

/// The times of a journey at the hops of the path, one place per hop.
///
/// Stored as columns, because a million of them are in flight and most places are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rungs {
    time_ns: [u64; PATH_HOPS],
    cpu: [u16; PATH_HOPS],
    present: u32,
    at_return: u32,
}

impl Default for Rungs {
    fn default() -> Self {
        Rungs { time_ns: [0; PATH_HOPS], cpu: [0; PATH_HOPS], present: 0, at_return: 0 }
    }
}

/// The bit of a hop of the path; 0 for the others.
pub(super) const fn bit(hop: Hop) -> u32 {
    match hop.rank() {
        Some(index) => 1 << index,
        None => 0,
    }
}

/// The bits of every hop from `first` to `last`, both included.
pub(super) const fn bits(first: Hop, last: Hop) -> u32 {
    (bit(last) << 1) - bit(first)
}

/// The hops of these bits, in path order.
fn hops_of(mut bits: u32) -> impl Iterator<Item = Hop> {
    std::iter::from_fn(move || {
        let hop = Hop::path().get(bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(*hop)
    })
}

impl Rungs {
    /// True if there is an event at `hop`.
    pub const fn has(&self, hop: Hop) -> bool {
        self.present & bit(hop) != 0
    }

    /// Instant at which `hop` was passed, if it was.
    pub fn time_ns(&self, hop: Hop) -> Option<u64> {
        let index = hop.rank()?;
        if self.present & (1 << index) == 0 { None } else { self.time_ns.get(index).copied() }
    }

    /// The CPU at `hop`, if passed.
    pub fn cpu(&self, hop: Hop) -> Option<u16> {
        let index = hop.rank()?;
        if self.present & (1 << index) == 0 { None } else { self.cpu.get(index).copied() }
    }

    /// True if the event at `hop` was recorded at the return of the call.
    pub const fn is_at_return(&self, hop: Hop) -> bool {
        self.at_return & bit(hop) != 0
    }

    /// The passed hops, in path order.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + use<> {
        hops_of(self.present)
    }

    /// The latest time at any of these hops.
    pub(super) fn newest_ns(&self, hops: u32) -> Option<u64> {
        hops_of(self.present & hops).filter_map(|hop| self.time_ns(hop)).max()
    }

    /// Number of hops passed.
    pub const fn len(&self) -> usize {
        self.present.count_ones() as usize
    }

    /// True if no hop was passed.
    pub const fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// The highest passed hop of the path.
    pub fn last(&self) -> Option<Hop> {
        let index = self.present.checked_ilog2()?;
        Hop::path().get(index as usize).copied()
    }

    pub(super) const fn present(&self) -> u32 {
        self.present
    }

    /// Those in the time order.
    pub(super) const fn in_order(&self) -> u32 {
        self.present & !self.at_return
    }

    pub(crate) fn set(&mut self, hop: Hop, time_ns: u64, cpu: u16, at_return: bool) {
        let Some(index) = hop.rank() else { return };
        self.time_ns[index] = time_ns;
        self.cpu[index] = cpu;
        self.present |= 1 << index;
        if at_return {
            self.at_return |= 1 << index;
        } else {
            self.at_return &= !(1 << index);
        }
    }

    /// Moves all times.
    pub(super) fn shift(&mut self, ns: i64) {
        for hop in self.hops() {
            if let Some(time_ns) = hop.rank().and_then(|index| self.time_ns.get_mut(index)) {
                *time_ns = time_ns.saturating_add_signed(ns);
            }
        }
    }

    /// Copies the events of another at some hops.
    pub(super) fn take(&mut self, other: &Rungs, hops: u32) {
        for hop in hops_of(other.present & hops) {
            if let (Some(time_ns), Some(cpu)) = (other.time_ns(hop), other.cpu(hop)) {
                self.set(hop, time_ns, cpu, other.is_at_return(hop));
            }
        }
    }

    /// Sets the event unless there is one.
    pub(super) fn set_first(&mut self, hop: Hop, time_ns: u64, cpu: u16) {
        if !self.has(hop) {
            self.set(hop, time_ns, cpu, false);
        }
    }

    pub(super) fn clear(&mut self, hops: u32) {
        self.present &= !hops;
        self.at_return &= !hops;
    }
}
