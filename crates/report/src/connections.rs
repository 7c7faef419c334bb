//! Attempts to connect and their ends, resets, and SYN-ACKs that were sent again.

use super::attempts::{Peers, UnansweredPeer, shows_drops};
use super::figures::{self, listed, plural, wrap};
use super::hop_rates::HopRates;
use magscope_core::event::error_name;
use magscope_core::hop::{Hop, Role};
use magscope_core::node::NodeInfo;
use magscope_core::{ConnectionState, Detail, Event, Extent, Omissions};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of distinct reasons of one kind over all recordings; a kernel has some dozens.
const MOST_REASONS: usize = 1_024;
/// Number of peers that a sentence names.
const NAMED_PEERS: usize = 3;

/// A reason, and how often it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PointReason {
    /// The system's words for the error, or the kernel's name of the reason.
    pub reason: String,
    /// Number of times.
    pub times: u64,
}

/// Points of TCP connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Ends of connections that were established. Where both hosts were captured, a connection has two.
    pub established_ends: u64,
    /// Attempts that failed, the most frequent error first.
    pub failed: Vec<PointReason>,
    /// Attempts that their programs closed without an answer.
    pub given_up: u64,
    /// Peers that did not answer every attempt, those with the most failures first.
    pub unanswered_peers: Vec<UnansweredPeer>,
    /// Resets that were sent, the most frequent reason first.
    pub resets_sent: Vec<PointReason>,
    /// Resets that were received and accepted.
    pub resets_received: u64,
    /// SYN-ACKs that were sent again.
    pub synacks_resent: u64,
    /// Segments that TCP did not accept and answered with a challenge acknowledgement (RFC 5961).
    pub challenge_acks: u64,
    /// Events of these points that a sampler left out: the numbers are lower bounds, unless it is 0.
    pub left_out: u64,
}

impl Connections {
    /// True without any point.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Counts points.
#[derive(Default)]
pub struct PointSums {
    established_ends: u64,
    failed: BTreeMap<u32, u64>,
    given_up: u64,
    /// By recording and number of the kernel.
    resets_sent: BTreeMap<(u16, u32), u64>,
    resets_received: u64,
    synacks_resent: u64,
    challenge_acks: u64,
}

impl PointSums {
    /// Counts an event, if it is a point.
    pub fn event(&mut self, node: u16, event: &Event) {
        if event.hop.role() != Role::Point {
            return;
        }
        match event.detail {
            Detail::ConnectionState(state) => {
                self.opened(ConnectionState::from_number(state.get()), event.extent);
            }
            Detail::Synacks(_) => self.synacks_resent += 1,
            detail if event.hop == Hop::TcpSendReset => {
                increase(&mut self.resets_sent, (node, detail.reset_reason()));
            }
            _ if event.hop == Hop::TcpRecvReset => self.resets_received += 1,
            _ if event.hop == Hop::TcpChallengeAck => self.challenge_acks += 1,
            _ => {}
        }
    }

    /// The end of an attempt. Closed without an error, it was closed by its program before.
    fn opened(&mut self, state: ConnectionState, extent: Extent) {
        match (state, extent) {
            (ConnectionState::Closed, Extent::OpenError(error)) => increase(&mut self.failed, error.get()),
            (ConnectionState::Closed, _) => self.given_up += 1,
            _ => self.established_ends += 1,
        }
    }

    pub fn finish(self, infos: &[NodeInfo], peers: &Peers, rates: &[HopRates]) -> Connections {
        let points = || Hop::ALL.iter().copied().filter(|hop| hop.role() == Role::Point);
        let left_out = rates.iter().flat_map(|node| points().map(|hop| node.sampled.overall(hop).1));
        let omissions = rates.iter().map(|of| of.sampled.omissions());
        let omissions = omissions.fold(Omissions::default(), Omissions::merged);
        let mut by_name = BTreeMap::<String, u64>::new();
        for ((node, reason), times) in self.resets_sent {
            let info = infos.get(usize::from(node)).filter(|_| reason != 0);
            let name = info.map_or_else(|| "reason unknown".to_owned(), |info| info.reset_reason(reason));
            *by_name.entry(name).or_default() += times;
        }
        Connections {
            established_ends: self.established_ends,
            failed: by_frequency(self.failed.into_iter().map(|(error, times)| (error_name(error), times))),
            given_up: self.given_up,
            unanswered_peers: peers.rows(shows_drops(infos, &omissions)),
            resets_sent: by_frequency(by_name.into_iter()),
            resets_received: self.resets_received,
            synacks_resent: self.synacks_resent,
            challenge_acks: self.challenge_acks,
            left_out: left_out.fold(0, u64::saturating_add),
        }
    }
}

/// Counts a reason; further ones beyond the maximum are not counted.
fn increase<K: Ord>(counts: &mut BTreeMap<K, u64>, reason: K) {
    if counts.len() < MOST_REASONS || counts.contains_key(&reason) {
        *counts.entry(reason).or_default() += 1;
    }
}

/// Reasons, the most frequent first.
pub fn by_frequency(times: impl Iterator<Item = (String, u64)>) -> Vec<PointReason> {
    let mut rows: Vec<_> = times.map(|(reason, times)| PointReason { reason, times }).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.times));
    rows
}

/// To whom attempts failed: `, to 10.0.0.2:80`, and `, to 10.0.0.2:80 (48) and 10.0.0.3:80 (2)`.
fn to_whom(peers: &[UnansweredPeer], times: fn(&UnansweredPeer) -> u64) -> String {
    let peers: Vec<_> = peers.iter().filter(|peer| times(peer) > 0).collect();
    match peers.as_slice() {
        [] => String::new(),
        [peer] => format!(", to {}", peer.to),
        peers => {
            let named = peers.iter().take(NAMED_PEERS).map(|peer| format!("{} ({})", peer.to, times(peer)));
            let more = if peers.len() > NAMED_PEERS { " and others" } else { "" };
            format!(", to {}{more}", named.collect::<Vec<_>>().join(", "))
        }
    }
}

fn all_of(rows: &[PointReason]) -> u64 {
    rows.iter().map(|row| row.times).sum()
}

pub fn write(out: &mut String, connections: &Connections, width: usize) -> fmt::Result {
    let listed = |rows: &[PointReason]| listed(rows.iter().map(|row| (row.times, row.reason.as_str())));
    let at_least = connections.left_out > 0;
    let begin = if at_least { "At least " } else { "" };
    let plural = |n, one, many| format!("{}{}", if at_least { "at least " } else { "" }, plural(n, one, many));
    if !connections.failed.is_empty() {
        let attempts = begin.to_owned() + &figures::plural(all_of(&connections.failed), "attempt", "attempts");
        let to = to_whom(&connections.unanswered_peers, |peer| all_of(&peer.failed));
        wrap(out, &format!("{attempts} to connect failed: {}{to}.", listed(&connections.failed)), width, "  ")?;
    }
    if connections.given_up > 0 {
        let attempts = begin.to_owned() + &figures::plural(connections.given_up, "attempt", "attempts");
        let to = to_whom(&connections.unanswered_peers, |peer| peer.given_up);
        let text = format!("{attempts} to connect had no answer when the program gave up{to}.");
        wrap(out, &text, width, "  ")?;
    }
    let ignored =
        connections.unanswered_peers.iter().fold(0, |all: u64, peer| all.saturating_add(peer.ignored));
    if ignored > 0 {
        let attempts = figures::plural(ignored, "attempt", "attempts");
        let to = to_whom(&connections.unanswered_peers, |peer| peer.ignored);
        let text = format!(
            "The SYNs of {attempts}{to}, arrived and had neither an answer nor a recorded drop: the accept queue may be full."
        );
        wrap(out, &text, width, "  ")?;
    }
    if !connections.resets_sent.is_empty() {
        let resets = plural(all_of(&connections.resets_sent), "reset", "resets");
        wrap(out, &format!("TCP sent {resets}: {}.", listed(&connections.resets_sent)), width, "  ")?;
    }
    if connections.resets_received > 0 {
        let resets = plural(connections.resets_received, "reset", "resets");
        wrap(out, &format!("TCP received {resets}."), width, "  ")?;
    }
    if connections.synacks_resent > 0 {
        let synacks = plural(connections.synacks_resent, "SYN-ACK", "SYN-ACKs");
        wrap(out, &format!("TCP sent {synacks} again: their connections were half open."), width, "  ")?;
    }
    if connections.challenge_acks > 0 {
        let challenged = plural(connections.challenge_acks, "reset or SYN", "resets or SYNs");
        let text = format!(
            "TCP did not accept {challenged} and answered with challenge acknowledgements: they may be forged or old."
        );
        wrap(out, &text, width, "  ")?;
    }
    if at_least {
        let events = figures::plural(connections.left_out, "event", "events");
        wrap(out, &format!("A sampler left out {events} of connections."), width, "  ")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::DropReason;
    use magscope_core::{DetailKind, ExtentKind};

    #[test]
    fn failures_and_resets_are_named_and_counted() {
        let point = |hop, detail: Detail, extent| Event { detail, extent, ..Event::at(hop, 1) };
        let open = |state, error| {
            point(Hop::TcpOpen, DetailKind::ConnectionState.of(state), ExtentKind::OpenError.of(error))
        };
        let reset = point(Hop::TcpSendReset, DetailKind::ResetReason.of(2), Extent::None);
        let mut sums = PointSums::default();
        for event in [
            open(1, 0),
            open(7, 111),
            open(7, 111),
            open(7, 110),
            open(7, 0),
            reset,
            point(Hop::TcpRecvReset, Detail::None, Extent::None),
            point(Hop::TcpChallengeAck, Detail::None, Extent::None),
        ] {
            sums.event(0, &event);
        }
        let reset_reasons = vec![DropReason { number: 2, name: "no_socket".to_owned() }];
        let found = sums.finish(&[NodeInfo { reset_reasons, ..NodeInfo::default() }], &Peers::default(), &[]);
        let row = |reason: &str, times| PointReason { reason: reason.to_owned(), times };
        assert_eq!(found.failed, [row("Connection refused", 2), row("Connection timed out", 1)]);
        assert_eq!(found.resets_sent, [row("no_socket", 1)]);
        assert_eq!((found.established_ends, found.resets_received, found.synacks_resent), (1, 1, 0));
        assert_eq!(found.challenge_acks, 1);
        let mut text = String::new();
        write(&mut text, &found, 80).expect("a string");
        assert!(
            text.contains("3 attempts to connect failed: 2 Connection refused, 1 Connection timed out."),
            "{text}"
        );
        assert!(text.contains("1 attempt to connect had no answer when the program gave up."), "{text}");
        assert!(!Connections::is_empty(&found));
        // A sampler makes them lower bounds.
        let mut text = String::new();
        write(&mut text, &Connections { left_out: 7, ..found }, 80).expect("a string");
        assert!(text.contains("At least 3 attempts to connect failed"), "{text}");
        assert!(text.contains("TCP received at least 1 reset."), "{text}");
        assert!(text.contains("A sampler left out 7 events of connections."), "{text}");
    }

    #[test]
    fn attempts_that_a_host_ignores_are_named() {
        let peer = UnansweredPeer {
            to: "10.0.0.2:80".to_owned(),
            answered: 3,
            failed: Vec::new(),
            given_up: 3,
            ignored: 2,
        };
        let found = Connections { given_up: 3, unanswered_peers: vec![peer], ..Connections::default() };
        let mut text = String::new();
        write(&mut text, &found, 400).expect("a string");
        let words = "The SYNs of 2 attempts, to 10.0.0.2:80, arrived and had neither an answer nor a recorded drop: the accept \
                     queue may be full.";
        assert!(text.contains(words), "{text}");
    }

    #[test]
    fn peers_are_named() {
        let peer = |to: &str, times, given_up| UnansweredPeer {
            to: to.to_owned(),
            answered: 0,
            failed: vec![PointReason { reason: "Connection refused".to_owned(), times }],
            given_up,
            ignored: 0,
        };
        let failed = |peers: &[UnansweredPeer]| to_whom(peers, |peer| all_of(&peer.failed));
        let (a, b) = (peer("10.0.0.2:80", 48, 0), peer("10.0.0.3:80", 2, 1));
        assert_eq!(failed(std::slice::from_ref(&a)), ", to 10.0.0.2:80");
        assert_eq!(failed(&[a.clone(), b.clone()]), ", to 10.0.0.2:80 (48), 10.0.0.3:80 (2)");
        assert_eq!(to_whom(&[a.clone(), b.clone()], |peer| peer.given_up), ", to 10.0.0.3:80");
        assert!(failed(&[a.clone(), b.clone(), a, b]).ends_with("10.0.0.2:80 (48) and others"));
    }
}
