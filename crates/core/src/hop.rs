//! Hops: the named places in the stack with events.
//!
//! `table.rs` has one row per hop with all of its properties ([`HopSpec`]). The kernel's numbers, the rows of the
//! documents and every list of hops come from it. The numbers ([`Hop::id`]) are part of the record contract
//! (`bpf/record.h`) and of the session format, and never change meaning. The position of a hop is its row: a [`Hop`]
//! in memory is its row's index, so comparisons and positions cost no look-up. Only [`Hop::id`] and [`Hop::from_id`]
//! translate, where records and files are written and read.

mod spec;

pub use spec::{Frequency, HopSpec, Protocols, Role};

use crate::blame::Part;
use crate::event::DetailKind;
use crate::flow::Proto;
use crate::words;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The direction of a packet at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the application to the wire.
    Tx,
    /// From the wire to the application.
    Rx,
    /// Not on the path of a packet: state, loss and scheduler events.
    Off,
}

/// The layer of a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// `send`, `recv` and other calls of a process.
    Socket,
    /// TCP and UDP.
    Transport,
    /// IPv4 and IPv6, the netfilter hooks included.
    Ip,
    /// Queueing disciplines and network devices.
    Device,
    /// Wake-up and dispatch of tasks.
    Sched,
}

macro_rules! hops {
    ($( $(#[$doc:meta])* $variant:ident { id: $id:literal, $($column:ident: $value:expr),* $(,)? } )*) => {
        /// A named place in the stack. Its order is that of the table: the path in stack order, then the hops off
        /// the path. A cast gives the position in the table, not the number of records: that is [`Hop::id`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Hop { $( $(#[$doc])* $variant, )* }

        impl Hop {
            /// All hops: the sender's path, the receiver's path, then those off the path.
            pub const ALL: &'static [Hop] = &[ $( Hop::$variant, )* ];

            /// The hop with this number in the record contract.
            pub const fn from_id(id: u8) -> Option<Hop> { match id { $( $id => Some(Hop::$variant), )* _ => None } }
        }

        /// The table, with the ranks of the path.
        const TABLE: [HopSpec; Hop::ALL.len()] = {
            #[allow(clippy::enum_glob_use, reason = "the columns name variants alone")]
            use {Direction::*, Frequency::*, Layer::*, Part::*, Protocols::*, Role::*};
            ranked([ $( HopSpec { hop: Hop::$variant, id: $id, rank: None, $($column: $value,)* }, )* ])
        };
    };
}

include!("hop/table.rs");

const fn ranked<const N: usize>(mut table: [HopSpec; N]) -> [HopSpec; N] {
    let mut at = 0;
    while at < N {
        if !matches!(table[at].direction, Direction::Off) {
            table[at].rank = Some(at as u8);
        }
        at += 1;
    }
    table
}

/// Size of an array with an element per hop number; all numbers are smaller.
pub const HOP_IDS: usize = 64;

/// Number of levels of a full ladder: the hops on a packet's path, `app.send` to `app.recv`.
pub const PATH_HOPS: usize = {
    let mut count = 0;
    while count < TABLE.len() && TABLE[count].rank.is_some() {
        count += 1;
    }
    count
};

/// Number of hops on the sender's path, the first part of the table.
const TX_HOPS: usize = {
    let mut count = 0;
    while matches!(TABLE[count].direction, Direction::Tx) {
        count += 1;
    }
    count
};

/// The first hop of the receiver's path.
pub(crate) const FIRST_RX: Hop = Hop::ALL[TX_HOPS];

/// Columns that every event needs, each by the position of the hop.
const ID: [u8; Hop::ALL.len()] = {
    let mut ids = [0; Hop::ALL.len()];
    let mut row = 0;
    while row < TABLE.len() {
        ids[row] = TABLE[row].id;
        row += 1;
    }
    ids
};

const ROLE: [Role; Hop::ALL.len()] = {
    let mut roles = [Role::Task; Hop::ALL.len()];
    let mut row = 0;
    while row < TABLE.len() {
        roles[row] = TABLE[row].role;
        row += 1;
    }
    roles
};

const DETAIL: [DetailKind; Hop::ALL.len()] = {
    let mut details = [DetailKind::None; Hop::ALL.len()];
    let mut row = 0;
    while row < TABLE.len() {
        details[row] = TABLE[row].detail;
        row += 1;
    }
    details
};

impl Hop {
    /// All properties of this hop.
    pub const fn spec(self) -> &'static HopSpec {
        const ROWS: &[HopSpec] = &TABLE;
        &ROWS[self as usize]
    }

    /// The number of the hop in records and recordings. It never changes its meaning and says nothing of order.
    pub const fn id(self) -> u8 {
        ID[self as usize]
    }

    /// The name used on screens, on the command line and in files.
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// The direction of packets at this hop.
    pub const fn direction(self) -> Direction {
        match self.rank() {
            Some(rank) if rank < TX_HOPS => Direction::Tx,
            Some(_) => Direction::Rx,
            None => Direction::Off,
        }
    }

    /// The part of this hop's events in a journey.
    pub const fn role(self) -> Role {
        ROLE[self as usize]
    }

    /// The kind of number that this hop adds to an event.
    pub const fn detail(self) -> DetailKind {
        DETAIL[self as usize]
    }

    /// This hop's position on the path (0 is `app.send`), or `None` for hops off the path.
    pub const fn rank(self) -> Option<usize> {
        let row = self as usize;
        if row < PATH_HOPS { Some(row) } else { None }
    }

    /// True for a hop of the path that is recorded only if it is asked for by name. Not every packet passes it, so no
    /// conclusion rests on an event that is missing there.
    pub const fn is_optional(self) -> bool {
        self.rank().is_some() && !self.spec().full
    }

    /// The layer of this hop.
    pub const fn layer(self) -> Layer {
        self.spec().layer
    }

    /// True if packets of this protocol pass the hop.
    pub const fn passes(self, proto: Proto) -> bool {
        self.spec().protocols.has(proto)
    }

    /// The hops a packet passes, in stack order: down through the sender, up through the receiver.
    pub fn path() -> &'static [Hop] {
        &Self::ALL[..PATH_HOPS]
    }

    /// The hops on the path of a packet in this direction, in stack order.
    pub fn path_in(direction: Direction) -> impl DoubleEndedIterator<Item = Hop> + Clone {
        Self::path().iter().copied().filter(move |hop| hop.direction() == direction)
    }

    /// A number for formats that sort by one: from 1 on along the path, from 32 on off the path. Not the number of
    /// the record contract.
    pub const fn order(self) -> u8 {
        let row = self as usize;
        if row < PATH_HOPS { row as u8 + 1 } else { (32 + row - PATH_HOPS) as u8 }
    }

    /// True if the process of the event (tgid, tid) is the one that uses the socket.
    pub const fn knows_process(self) -> bool {
        self.spec().has_process
    }
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no hop, with the nearest valid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no hop is called `{name}`; the nearest is `{nearest}` (`magnet-scope hops` lists them all)")]
pub struct UnknownHop {
    /// The given text.
    pub name: String,
    /// The nearest hop by edit distance.
    pub nearest: Hop,
}

impl FromStr for Hop {
    type Err = UnknownHop;

    fn from_str(name: &str) -> Result<Self, UnknownHop> {
        if let Some(hop) = Self::ALL.iter().find(|h| h.name().eq_ignore_ascii_case(name)) {
            return Ok(*hop);
        }
        let nearest = words::nearest(name, Self::ALL.iter().map(|hop| hop.name()));
        let nearest = Self::ALL.iter().copied().find(|hop| Some(hop.name()) == nearest).unwrap_or(Hop::AppSend);
        Err(UnknownHop { name: words::shown(name), nearest })
    }
}

impl Serialize for Hop {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Hop {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let name = String::deserialize(d)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

/// A set of hops, one bit per hop number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HopSet(pub u64);

impl HopSet {
    /// No hop.
    pub const EMPTY: HopSet = HopSet(0);

    /// All hops.
    pub fn all() -> Self {
        Hop::ALL.iter().copied().collect()
    }

    /// The hops of a list in a setting, such as `dev.xmit,app.recv`; all of them for `all`, and for a list without a
    /// name of this version.
    pub fn listed(list: &str) -> Self {
        let hops = Self::named(list);
        if hops.is_empty() { Self::all() } else { hops }
    }

    /// The hops that a list names, without names of another version.
    pub fn named(list: &str) -> Self {
        list.split([',', ' ']).filter_map(|hop| hop.trim().parse::<Hop>().ok()).collect()
    }

    /// The hops whose row of the table has a property.
    pub fn with(property: impl Fn(&HopSpec) -> bool) -> Self {
        Hop::ALL.iter().copied().filter(|hop| property(hop.spec())).collect()
    }

    /// True if `hop` is in the set.
    pub const fn contains(self, hop: Hop) -> bool {
        self.0 & (1 << hop.id()) != 0
    }

    /// Puts `hop` in.
    pub const fn insert(&mut self, hop: Hop) {
        self.0 |= 1 << hop.id();
    }

    /// Removes `hop`.
    pub const fn remove(&mut self, hop: Hop) {
        self.0 &= !(1 << hop.id());
    }

    /// True for the empty set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The hops in the set, in the order of [`Hop::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Hop> {
        Hop::ALL.iter().copied().filter(move |h| self.contains(*h))
    }
}

impl FromIterator<Hop> for HopSet {
    fn from_iter<I: IntoIterator<Item = Hop>>(hops: I) -> Self {
        let mut set = HopSet::EMPTY;
        for hop in hops {
            set.insert(hop);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_path_agree() {
        for hop in Hop::ALL {
            assert_eq!(Hop::from_id(hop.id()), Some(*hop));
            assert_eq!(hop.name().parse::<Hop>(), Ok(*hop));
            assert_eq!(hop.rank().is_none(), hop.direction() == Direction::Off);
        }
        for (i, hop) in Hop::path().iter().enumerate() {
            assert_eq!(hop.rank(), Some(i));
        }
    }

    #[test]
    fn an_unknown_hop_names_the_nearest() {
        let error = "dev.xmitt".parse::<Hop>().unwrap_err();
        assert_eq!(error.nearest, Hop::DevXmit);
        let long = "x".repeat(1 << 20);
        assert!(long.parse::<Hop>().unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn a_set_keeps_what_it_is_given() {
        let mut set: HopSet = [Hop::AppSend, Hop::SchedExit].into_iter().collect();
        assert!(set.contains(Hop::AppSend) && set.contains(Hop::SchedExit) && !set.contains(Hop::AppRecv));
        set.remove(Hop::AppSend);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Hop::SchedExit]);
        assert_eq!(HopSet::all().iter().count(), Hop::ALL.len());
    }
}
