//! Input and output of each layer: the same traffic at the application, TCP, IP and the device, and up again to
//! the reader.
//!
//! The borders between layers are hops. A unit is the data of one event at a border: a `send`, a segment or
//! super-packet, a `recv`. The figures follow figure 12 and table II of Hay, Feng and Gardner, *The `MAGNeT`
//! Toolkit* (2001). These compare size and spacing of an application's sends with those of its stack.
//!
//! **Known limits.** A retransmitted byte crosses the lower borders again. For a packet cut into segments below
//! `dev.xmit`, their number is known and their times are not.

use super::strip::Strip;
use magscope_core::event::{Event, EventFlags};
use magscope_core::flow::Proto;
use magscope_core::hash::Map;
use magscope_core::hop::{Hop, PATH_HOPS};

/// The distinct protocols.
pub const PROTOS: [Proto; 2] = [Proto::TCP, Proto::UDP];
/// Maximum number of flows and hops with tracked spacing; beyond it, all of them restart.
const MAX_SPELLS: usize = 1 << 16;
/// Powers of two up to the largest length of an event.
const SIZES: usize = 33;

/// The units that crossed one border.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    /// Events with payload.
    pub units: u64,
    /// Their payload, bytes.
    pub bytes: u64,
    /// The smallest, bytes.
    pub smallest_bytes: u64,
    /// The largest, bytes.
    pub largest_bytes: u64,
    /// Packets on the wire of the units, if the hop has packets.
    pub segments: u64,
    /// Events without payload: acknowledgements, SYN, FIN, empty datagrams.
    pub empty: u64,
    /// Excluded above: peeking reads, and fragments after the first, which represents the complete datagram.
    pub not_counted: u64,
    /// Number of units by the bits of their size: the largest of `sizes[n]` has at most 2ⁿ − 1 bytes.
    pub sizes: [u64; SIZES],
    /// The bytes over time.
    pub strip: Strip,
    gaps: Gaps,
}

/// Sum of the times between neighbouring units of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gaps {
    n: u64,
    ns: u64,
}

/// Neighbouring units of one flow at one hop, from the first to the last.
#[derive(Clone, Copy, Debug)]
struct Burst {
    first_ns: u64,
    last_ns: u64,
    units: u64,
    proto: usize,
}

impl Default for Units {
    fn default() -> Self {
        Units {
            units: 0,
            bytes: 0,
            smallest_bytes: u64::MAX,
            largest_bytes: 0,
            segments: 0,
            empty: 0,
            not_counted: 0,
            sizes: [0; SIZES],
            strip: Strip::default(),
            gaps: Gaps::default(),
        }
    }
}

impl Units {
    fn count(&mut self, event: &Event) -> bool {
        if event.peeks() || event.flags.contains(EventFlags::FRAGMENT) {
            self.not_counted += 1;
            return false;
        }
        if event.len == 0 {
            self.empty += 1;
            return false;
        }
        let bytes = u64::from(event.len);
        self.units += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.smallest_bytes = self.smallest_bytes.min(bytes);
        self.largest_bytes = self.largest_bytes.max(bytes);
        self.segments += u64::from(event.segs);
        self.sizes[(u32::BITS - event.len.leading_zeros()) as usize] += 1;
        self.strip.count(event.time_ns, bytes);
        true
    }

    fn merge(&mut self, other: &Self) {
        self.units += other.units;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.smallest_bytes = self.smallest_bytes.min(other.smallest_bytes);
        self.largest_bytes = self.largest_bytes.max(other.largest_bytes);
        self.segments += other.segments;
        self.empty += other.empty;
        self.not_counted += other.not_counted;
        self.sizes.iter_mut().zip(other.sizes).for_each(|(mine, theirs)| *mine += theirs);
        self.strip.merge(&other.strip);
        self.gaps.merge(other.gaps);
    }

    /// Mean payload of a unit, bytes; 0 without any.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.units.max(1) as f64
    }

    /// Mean time between neighbouring units of one flow, nanoseconds; `None` if no flow had two.
    pub fn spacing_ns(&self) -> Option<f64> {
        (self.gaps.n > 0).then(|| self.gaps.ns as f64 / self.gaps.n as f64)
    }
}

impl Gaps {
    fn merge(&mut self, other: Self) {
        self.n += other.n;
        self.ns = self.ns.saturating_add(other.ns);
    }
}

impl Burst {
    fn gaps(self) -> Gaps {
        Gaps { n: self.units - 1, ns: self.last_ns - self.first_ns }
    }
}

/// Adds up the units at the borders between layers. Memory is bounded.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    borders: [[Option<Box<Units>>; PATH_HOPS]; PROTOS.len()],
    /// By recording, flow or socket, and hop.
    spells: Map<(u16, u64, Hop), Burst>,
    /// Events of other protocols.
    others: u64,
}

impl Layers {
    /// Counts an event of a recording: sockets of two recordings may have equal numbers.
    pub fn event(&mut self, node: u16, event: &Event) {
        // Off the path no data cross a border. A wake-up carries no bytes, and neither does a ready socket.
        let Some(at) = event.hop.rank().filter(|_| is_border(event.hop)) else { return };
        let Some(proto) = PROTOS.iter().position(|proto| *proto == event.proto) else {
            self.others += 1;
            return;
        };
        let units = self.borders[proto][at].get_or_insert_default();
        // A socket without a peer has no flow: its own number is the key.
        let number = if event.flow.is_none() { event.socket } else { event.flow.0 };
        if !units.count(event) || number == 0 {
            return;
        }
        let whose = (node, number, event.hop);
        if self.spells.len() >= MAX_SPELLS && !self.spells.contains_key(&whose) {
            self.end_spells();
        }
        let t = event.time_ns;
        let new = Burst { first_ns: t, last_ns: t, units: 0, proto };
        let spell = self.spells.entry(whose).or_insert(new);
        (spell.first_ns, spell.last_ns) = (spell.first_ns.min(t), spell.last_ns.max(t));
        spell.units += 1;
    }

    /// Adds the counts of `other`, which belong to the same capture.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.borders.iter_mut().flatten().zip(other.borders.iter().flatten()) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().merge(theirs);
            }
        }
        for (key, theirs) in &other.spells {
            if self.spells.len() >= MAX_SPELLS && !self.spells.contains_key(key) {
                self.end_spells();
            }
            let spell = self.spells.entry(*key).or_insert(Burst { units: 0, ..*theirs });
            (spell.first_ns, spell.last_ns) =
                (spell.first_ns.min(theirs.first_ns), spell.last_ns.max(theirs.last_ns));
            spell.units += theirs.units;
        }
        self.others += other.others;
    }

    /// Adds up the spacing of all flows and restarts it.
    fn end_spells(&mut self) {
        for ((.., hop), spell) in self.spells.drain() {
            if let Some(units) = hop.rank().and_then(|at| self.borders[spell.proto][at].as_mut()) {
                units.gaps.merge(spell.gaps());
            }
        }
    }

    /// The units of each border, by protocol and in path order.
    pub fn finish(mut self) -> Vec<(Proto, Vec<(Hop, Units)>)> {
        self.end_spells();
        let crossed = |borders: [Option<Box<Units>>; PATH_HOPS]| {
            let hops = Hop::path().iter().copied().zip(borders);
            hops.filter_map(|(hop, units)| Some((hop, *units?))).collect::<Vec<_>>()
        };
        let all = PROTOS.into_iter().zip(self.borders.map(crossed));
        all.filter(|(_, borders)| !borders.is_empty()).collect()
    }

    /// Number of events of other protocols, which are excluded.
    pub const fn others(&self) -> u64 {
        self.others
    }
}

/// True if bytes cross from one layer to the next here: the driver's return is off the path, and a wake-up
/// carries no data.
pub fn is_border(hop: Hop) -> bool {
    !hop.spec().border.is_empty()
}
