//! Attempts to connect, by the peer that they were for.
//!
//! A SYN has no payload, so an attempt without an answer leaves no journey. Its end is a point (`tcp.open`): established,
//! failed with an error, or closed by its program before an answer.

use super::connections::{PointReason, by_frequency};
use magscope_core::event::error_name;
use magscope_core::flow::{Endpoint, Flow};
use magscope_core::{ConnectionState, Detail, Event, Extent};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of peers. Beyond it those without a failure are forgotten, and then new ones are not counted.
const MOST_PEERS: usize = 1_024;
/// Number of peers in a report.
const LISTED: usize = 16;

/// The attempts to connect to one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempts {
    /// Connections that were established.
    pub answered: u64,
    /// Failed attempts, by the system's error number.
    pub failed: BTreeMap<u32, u64>,
    /// Attempts that their programs closed without an answer.
    pub given_up: u64,
    /// End of the last of these that a screen can show.
    pub last_unanswered_ns: Option<u64>,
}

impl Attempts {
    /// Attempts without a connection.
    pub fn unanswered(&self) -> u64 {
        self.failed.values().fold(self.given_up, |all, times| all.saturating_add(*times))
    }

    /// All attempts.
    pub fn all(&self) -> u64 {
        self.unanswered().saturating_add(self.answered)
    }
}

/// A peer that did not answer every attempt to connect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnansweredPeer {
    /// Its address and port.
    pub to: String,
    /// Attempts that became a connection.
    pub answered: u64,
    /// Attempts that failed, the most frequent error first.
    pub failed: Vec<PointReason>,
    /// Attempts that their programs closed without an answer.
    pub given_up: u64,
}

/// Attempts by peer. Memory is bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers(BTreeMap<Endpoint, Attempts>);

impl Peers {
    /// Counts the end of an attempt; `flow` is that of its socket. `is_stored` if a screen can show the event.
    pub fn event(&mut self, event: &Event, is_stored: bool, flow: Option<&Flow>) {
        let (Detail::ConnectionState(state), Some(flow)) = (event.detail, flow) else { return };
        let state = ConnectionState::from_number(state.get());
        if self.0.len() >= MOST_PEERS && !self.0.contains_key(&flow.remote) {
            self.0.retain(|_, attempts| attempts.unanswered() > 0);
            if state != ConnectionState::Closed || self.0.len() >= MOST_PEERS {
                return;
            }
        }
        let attempts = self.0.entry(flow.remote).or_default();
        if state == ConnectionState::Closed && is_stored {
            attempts.last_unanswered_ns = Some(event.time_ns);
        }
        match (state, event.extent) {
            (ConnectionState::Closed, Extent::OpenError(error)) => {
                *attempts.failed.entry(error.get()).or_default() += 1;
            }
            (ConnectionState::Closed, _) => attempts.given_up += 1,
            _ => attempts.answered += 1,
        }
    }

    /// Peers that did not answer every attempt, in the order of their addresses.
    pub fn unanswered(&self) -> impl Iterator<Item = (&Endpoint, &Attempts)> {
        self.0.iter().filter(|(_, attempts)| attempts.unanswered() > 0)
    }

    /// Those with the most failures, as rows.
    pub fn rows(&self) -> Vec<UnansweredPeer> {
        let mut peers: Vec<_> = self.unanswered().collect();
        peers.sort_by_key(|(_, attempts)| std::cmp::Reverse(attempts.unanswered()));
        let row = |(to, attempts): (&Endpoint, &Attempts)| UnansweredPeer {
            to: to.to_string(),
            answered: attempts.answered,
            failed: by_frequency(attempts.failed.iter().map(|(error, times)| (error_name(*error), *times))),
            given_up: attempts.given_up,
        };
        peers.into_iter().take(LISTED).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::flow::{FlowId, Proto};
    use magscope_core::hop::Hop;
    use magscope_core::{DetailKind, ExtentKind};

    fn flow(peer: u32) -> Flow {
        let [a, b, c, d] = peer.to_be_bytes();
        Flow {
            id: FlowId(u64::from(peer)),
            netns: 1,
            proto: Proto::TCP,
            local: "10.0.0.1:40000".parse().expect("an address"),
            remote: Endpoint::from(([a, b, c, d], 80)),
        }
    }

    fn ended(state: u32, error: u32) -> Event {
        let (detail, extent) = (DetailKind::ConnectionState.of(state), ExtentKind::OpenError.of(error));
        Event { detail, extent, ..Event::at(Hop::TcpOpen, 1) }
    }

    #[test]
    fn attempts_are_counted_by_their_peer() {
        let mut peers = Peers::default();
        for (peer, state, error) in [(1, 7, 111), (1, 7, 111), (1, 1, 0), (2, 1, 0), (3, 7, 0), (1, 7, 110)] {
            peers.event(&ended(state, error), true, Some(&flow(peer)));
        }
        peers.event(&ended(7, 111), true, None);
        let rows = peers.rows();
        let reasons = |row: &UnansweredPeer| -> Vec<(String, u64)> {
            row.failed.iter().map(|reason| (reason.reason.clone(), reason.times)).collect()
        };
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert_eq!((rows[0].to.as_str(), rows[0].answered, rows[0].given_up), ("0.0.0.1:80", 1, 0));
        assert_eq!(
            reasons(&rows[0]),
            [("Connection refused".to_owned(), 2), ("Connection timed out".to_owned(), 1)]
        );
        assert_eq!((rows[1].to.as_str(), rows[1].given_up), ("0.0.0.3:80", 1));
    }

    #[test]
    fn many_peers_take_bounded_memory_and_hide_no_failure() {
        let mut peers = Peers::default();
        for peer in 0..5_000 {
            peers.event(&ended(1, 0), true, Some(&flow(peer)));
        }
        peers.event(&ended(7, 111), true, Some(&flow(9_999)));
        assert_eq!(peers.rows().len(), 1);
        for peer in 10_000..20_000 {
            peers.event(&ended(7, 111), true, Some(&flow(peer)));
        }
        assert!(peers.0.len() <= MOST_PEERS && peers.rows().len() == LISTED);
    }
}
