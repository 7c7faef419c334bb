//! The hops of outer packets among those of a journey inside them.
//!
//! They are a list of their own ([`Journey::tunnels`]), because each outer packet is a journey too: what counts hops
//! counts them there. What shows one journey shows them in their places.

use super::across::Across;
use super::journey::{Journey, Latency, is_senders};
use super::rungs::Rung;
use crate::hop::Hop;

impl Journey {
    /// The same events with those of the outer packets in their places: behind the device of the tunnel that sent them,
    /// before that which received them.
    fn with_tunnels(&self, mut all: Vec<Rung>) -> Vec<Rung> {
        for (at, number) in self.tunnels.iter().zip(1..) {
            let Some((from_ns, to_ns)) = at.span_ns() else { continue };
            let is_on_its_clock =
                |rung: &Rung| self.across == Across::OneClock || rung.on_sender_clock != at.is_receivers;
            let is_here = |rung: &Rung| {
                is_on_its_clock(rung) && rung.copy <= self.copy && !rung.at_return && rung.hop != Hop::DevDone
            };
            let leaves = at.hops().next().is_some_and(is_senders);
            let place = if leaves {
                let before = all.iter().rposition(|rung| is_here(rung) && rung.time_ns <= from_ns);
                before.map(|index| (index + 1, all.get(index).map_or(0, |rung| rung.forwarder)))
            } else {
                let after = all.iter().position(|rung| is_here(rung) && rung.time_ns >= to_ns);
                after.map(|index| (index, all.get(index).map_or(0, |rung| rung.forwarder)))
            };
            let Some((index, forwarder)) = place else { continue };
            // An outer packet is between two hops of the one inside.
            let before = all.get(..index).unwrap_or_default().iter().rfind(|&rung| is_here(rung));
            let after = all.get(index..).unwrap_or_default().iter().find(|&rung| is_here(rung));
            let is_between = before.is_none_or(|rung| rung.time_ns <= from_ns)
                && after.is_none_or(|rung| rung.time_ns >= to_ns);
            if !is_between {
                continue;
            }
            let outer: Vec<Rung> =
                self.passage(at).map(|rung| Rung { forwarder, tunnel: number, ..rung }).collect();
            all.splice(index..index, outer);
        }
        all
    }

    /// The path with the hops of outer packets ([`Journey::tunnels`]).
    pub fn path_with_tunnels(&self) -> impl Iterator<Item = Rung> + '_ {
        let (plain, tunnelled) = self.either();
        plain
            .into_iter()
            .flat_map(Self::path)
            .chain(tunnelled.into_iter().flat_map(|journey| journey.with_tunnels(journey.path().collect())))
    }

    /// This journey, as the first without any tunnel, else as the second.
    const fn either(&self) -> (Option<&Self>, Option<&Self>) {
        if self.tunnels.is_empty() { (Some(self), None) } else { (None, Some(self)) }
    }

    /// The same with the hops of outer packets ([`Journey::tunnels`]).
    pub fn spans_with_tunnels(&self) -> impl Iterator<Item = (Rung, Option<Latency>)> + '_ {
        let (plain, tunnelled) = self.either();
        plain.into_iter().flat_map(Self::spans).chain(tunnelled.into_iter().flat_map(|journey| {
            let all = journey.with_tunnels(journey.all_rungs().collect());
            journey.measured(journey.pairs_of(all.into_iter()))
        }))
    }
}
