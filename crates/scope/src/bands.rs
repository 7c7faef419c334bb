//! Bands: the forwarders that the picture has rows for, between the sender's hops and the receiver's.
//!
//! **The problem.** A picture of two ends draws a node between them as a longer wire. But which nodes there are differs
//! from journey to journey, and rows that come and go with every picture cannot be read.
//!
//! **The choice.** With a selected journey the bands are its forwarders: one band for each, in the order of the path.
//! Without a selection there are as many as any counted journey passed since the filter, a pick or the route was set, or
//! since the counts were cleared. So the first journey through a node adds its band, and only the user takes it away.
//! A band has one node, if every journey had the same one at this place, and is for lifelines through that node alone. With
//! different nodes at this place it is for all of them, and its name is their number on the path.
//!
//! A band is one row, with a stroke from a lifeline's first event in the node to its last. An open band has a title and a row
//! for each hop that the node had.

use crate::lane::Place;
use crate::lifeline::Lifeline;
use crate::names::NetnsKey;
use magscope_core::flow::canonical;
use magscope_core::journey::Rung;
use magscope_core::{Direction, Flow, Hop, HopSet};

/// The forwarders of all counted journeys, by their number on the path. Bounded as those of a journey.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passages(Vec<Passage>);

/// All forwarders of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Their node; `None` if they are several, or unknown.
    pub node: Option<NetnsKey>,
    /// The hops that they had.
    pub hops: HopSet,
}

impl Passages {
    /// Those of one journey.
    pub fn of(line: &Lifeline) -> Self {
        let mut passages = Passages::default();
        passages.add(line);
        passages
    }

    /// Adds those of a journey.
    pub fn add(&mut self, line: &Lifeline) {
        for (at, (forwarder, node)) in line.journey.forwarders.iter().zip(&line.passed).enumerate() {
            if at == self.0.len() {
                self.0.push(Passage { node: *node, hops: HopSet::EMPTY });
            }
            let passage = &mut self.0[at];
            passage.node = passage.node.filter(|_| passage.node == *node);
            forwarder.hops().for_each(|hop| passage.hops.insert(hop));
        }
    }

    /// In the order of the path.
    pub fn iter(&self) -> impl Iterator<Item = &Passage> {
        self.0.iter()
    }

    /// That of a number, from 1.
    pub fn get(&self, number: u8) -> Option<&Passage> {
        self.0.get(usize::from(number).checked_sub(1)?)
    }
}

/// A forwarder that the picture has rows for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// Its node; `None` if it is for several nodes.
    pub node: Option<NetnsKey>,
    /// Its name.
    pub name: String,
    /// True if it has a row for each hop.
    pub is_open: bool,
    /// Its hops in the order of time: those of reception, then those of sending.
    pub hops: Vec<Hop>,
}

/// The bands of a picture, in the order of the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bands(Vec<Band>);

impl Bands {
    /// The bands of these forwarders. `name` names a node, and `open` has a bit for each open band, from the first on.
    pub fn new(passages: &Passages, open: u8, name: impl Fn(NetnsKey) -> String) -> Self {
        let band = |(at, passage): (usize, &Passage)| {
            let number = at + 1;
            let name = passage.node.map_or_else(|| format!("forwarder {number}"), &name);
            let of = |direction| Hop::path().iter().filter(move |hop| hop.direction() == direction);
            let hops = of(Direction::Rx).chain(of(Direction::Tx)).copied();
            let hops = hops.filter(|hop| passage.hops.contains(*hop)).collect();
            Band { node: passage.node, name, is_open: open & bit(number as u8) != 0, hops }
        };
        Bands(passages.iter().enumerate().map(band).collect())
    }

    /// In the order of the path.
    pub fn all(&self) -> &[Band] {
        &self.0
    }

    /// That of a number, from 1.
    pub fn get(&self, number: u8) -> Option<&Band> {
        self.0.get(usize::from(number).checked_sub(1)?)
    }

    /// Their rows from the top, with the wire of every leg.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        let band = |(band, number): (&Band, u8)| {
            let hops = band.hops.iter().rev().filter(|_| band.is_open);
            let rows = hops.map(move |hop| Place::Inside(number, *hop)).collect::<Vec<_>>();
            [Place::Wire(number), Place::Forwarder(number)].into_iter().chain(rows)
        };
        self.0.iter().zip(1..=u8::MAX).rev().flat_map(band).chain([Place::Wire(0)])
    }

    /// The place of an event of a lifeline; `None` for an event without a row. Of a folded band it is the row for the first
    /// and the last event.
    pub fn place_of(&self, line: &Lifeline, rung: &Rung) -> Option<Place> {
        let number = rung.forwarder;
        if number == 0 {
            return Some(Place::Hop(rung.hop));
        }
        let (band, at) = (self.get(number)?, usize::from(number) - 1);
        if band.node.is_some() && line.passed.get(at).copied().flatten() != band.node {
            return None;
        }
        if band.is_open {
            return Some(Place::Inside(number, rung.hop));
        }
        let forwarder = line.journey.forwarders.get(at)?;
        let is_edge = forwarder.hops().next() == Some(rung.hop) || forwarder.last() == Some(rung.hop);
        is_edge.then_some(Place::Forwarder(number))
    }
}

/// The bit of the band of this number, from 1.
pub const fn bit(number: u8) -> u8 {
    match 1_u8.checked_shl((number as u32).wrapping_sub(1)) {
        Some(bit) => bit,
        None => 0,
    }
}

/// The translation of addresses in a node, in words: `DNAT 172.17.0.2:80 ← 192.0.2.7:8080`. The flows are those of the packet
/// where it came in and where it left, both as the node has them.
pub fn translation(came: &Flow, left: &Flow) -> Option<String> {
    let change = |kind, after, before| {
        (canonical(after) != canonical(before)).then(|| format!("{kind} {after} ← {before}"))
    };
    let changes = [change("DNAT", left.remote, came.local), change("SNAT", left.local, came.remote)];
    let words: Vec<_> = changes.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{FlowId, Proto};

    fn passage(netns: Option<u32>) -> Passage {
        let node = netns.map(|netns| NetnsKey { node: 0, netns });
        let hops = [Hop::IpPost, Hop::DevXmit, Hop::IpPre, Hop::DevRecv].into_iter().collect();
        Passage { node, hops }
    }

    fn places(netns: &[Option<u32>], open: u8) -> Vec<Place> {
        let passages = Passages(netns.iter().copied().map(passage).collect());
        Bands::new(&passages, open, |node| format!("node {}", node.netns)).places().collect()
    }

    #[test]
    fn without_a_forwarder_there_is_one_wire() {
        assert_eq!(places(&[], 0xff), [Place::Wire(0)]);
    }

    #[test]
    fn each_forwarder_is_a_row_between_two_wires_the_first_at_the_bottom() {
        let expected = [Place::Wire(1), Place::Forwarder(1), Place::Wire(0)];
        assert_eq!(places(&[Some(9)], 0), expected);
        let expected = [
            Place::Wire(3),
            Place::Forwarder(3),
            Place::Wire(2),
            Place::Forwarder(2),
            Place::Wire(1),
            Place::Forwarder(1),
            Place::Wire(0),
        ];
        assert_eq!(places(&[Some(9), None, Some(7)], 0), expected);
    }

    #[test]
    fn an_open_forwarder_has_a_row_for_each_hop_the_first_in_time_at_the_bottom() {
        let inside = |hop| Place::Inside(2, hop);
        let expected = [
            Place::Wire(2),
            Place::Forwarder(2),
            inside(Hop::DevXmit),
            inside(Hop::IpPost),
            inside(Hop::IpPre),
            inside(Hop::DevRecv),
            Place::Wire(1),
            Place::Forwarder(1),
            Place::Wire(0),
        ];
        assert_eq!(places(&[Some(9), Some(7)], bit(2)), expected);
    }

    #[test]
    fn a_band_of_several_nodes_has_their_number_as_its_name() {
        let bands = Bands::new(&Passages(vec![passage(Some(9)), passage(None)]), 0, |_| "host".to_owned());
        let names: Vec<_> = bands.all().iter().map(|band| band.name.as_str()).collect();
        assert_eq!(names, ["host", "forwarder 2"]);
        assert_eq!((bands.get(0), bands.get(3), bit(0), bit(9)), (None, None, 0, 0));
    }

    #[test]
    fn a_translation_names_what_changed() {
        let flow = |local: &str, remote: &str| Flow {
            id: FlowId(1),
            netns: 9,
            proto: Proto::TCP,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
        };
        let came = flow("192.0.2.7:8080", "10.0.0.5:4000");
        let words = |local, remote| translation(&came, &flow(local, remote));
        assert_eq!(words("10.0.0.5:4000", "192.0.2.7:8080"), None);
        assert_eq!(words("[::ffff:10.0.0.5]:4000", "192.0.2.7:8080"), None, "the same host");
        let published = words("10.0.0.5:4000", "172.17.0.2:80");
        assert_eq!(published.as_deref(), Some("DNAT 172.17.0.2:80 ← 192.0.2.7:8080"));
        let masqueraded = words("192.0.2.1:61000", "192.0.2.7:8080");
        assert_eq!(masqueraded.as_deref(), Some("SNAT 192.0.2.1:61000 ← 10.0.0.5:4000"));
        let both = words("192.0.2.1:61000", "172.17.0.2:80").unwrap();
        assert!(both.starts_with("DNAT 172.17.0.2:80 ← 192.0.2.7:8080, SNAT 192.0.2.1:61000"), "{both}");
    }
}
