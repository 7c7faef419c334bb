//! Attempts to connect, by the peer that they were for.
//!
//! A SYN has no payload, so an attempt without an answer leaves no journey. Its end is a point (`tcp.open`): established,
//! failed with an error, or closed by its program before an answer.
//!
//! **An attempt that is ignored.** A listening socket whose accept queue is full ignores a SYN, and the kernel frees it without
//! a record. So the SYN of such an attempt is the last event of its packet at `dev.recv`, and neither an answer nor a drop
//! follows.
//!
//! A SYN that a router passed on has not arrived. Masquerading changes its addresses there, and not its sequence number.
//!
//! **Known limits.** Attempts are found by the client's address and port. A program of XDP or a lost record look like a full
//! queue, so the words are *may be*.

use super::connections::{PointReason, by_frequency};
use magscope_core::event::error_name;
use magscope_core::flow::{Endpoint, Flow, Proto};
use magscope_core::hop::Hop;
use magscope_core::node::NodeInfo;
use magscope_core::{ConnectionState, Detail, Event, Extent, Omissions};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of peers. Beyond it those without a failure are forgotten, and then new ones are not counted.
const MOST_PEERS: usize = 1_024;
/// Number of peers in a report.
const LISTED: usize = 16;
/// Maximum number of attempts under way whose SYNs are followed. Beyond it all of them are forgotten.
const MOST_SYNS: usize = 4_096;
/// Bits of a header of TCP.
const SYN: u8 = 2;
const ACK: u8 = 16;
/// The system's number of the error of an attempt without an answer, `ETIMEDOUT`.
const TIMED_OUT: u32 = 110;

/// The attempts to connect to one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempts {
    /// Connections that were established.
    pub answered: u64,
    /// Failed attempts, by the system's error number.
    pub failed: BTreeMap<u32, u64>,
    /// Attempts that their programs closed without an answer.
    pub given_up: u64,
    /// Attempts without an answer whose SYNs arrived, and were neither answered nor dropped with a record.
    pub ignored: u64,
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
    /// Attempts without an answer whose SYNs arrived at a host of the capture, which neither answered nor dropped them with a
    /// record; 0 if drops were left out.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub ignored: u64,
}

/// True if every drop at these hosts has a record, and every packet that left one of them.
pub(crate) fn shows_drops(infos: &[NodeInfo], omissions: &Omissions) -> bool {
    let is_served = infos.iter().all(|info| {
        let served = info.coverage.served();
        served.contains(Hop::SkbDrop) && served.contains(Hop::DevXmit)
    });
    let is_switched = omissions.switched_hops.contains(Hop::DevXmit);
    is_served && !is_switched && !omissions.hides_drops() && !omissions.is_narrowed()
}

/// The SYN of an attempt under way.
#[derive(Clone, Copy, Debug, Default)]
struct Syn {
    /// Its sequence number.
    seq: u32,
    /// It came to a host of the capture and has not left it.
    has_arrived: bool,
    /// One of its copies was answered or dropped.
    has_end: bool,
}

/// Attempts by peer. Memory is bounded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peers {
    by_peer: BTreeMap<Endpoint, Attempts>,
    /// Those under way, by the client's address and port.
    syns: BTreeMap<Endpoint, Syn>,
    /// The client of each of these, by the sequence number.
    clients: BTreeMap<u32, Endpoint>,
}

impl Peers {
    /// True for an event of a SYN or of its answer on their paths, or of their drop.
    pub const fn is_of_syn(event: &Event) -> bool {
        event.tcp_flags & SYN != 0
            && event.proto.0 == Proto::TCP.0
            && matches!(event.hop, Hop::IpOut | Hop::DevXmit | Hop::DevRecv | Hop::SkbDrop)
    }

    /// Follows the SYN of an attempt; `flow` is that of the packet from this end's side.
    pub fn syn(&mut self, event: &Event, flow: Option<&Flow>) {
        let Some(flow) = flow else { return };
        let is_answer = event.tcp_flags & ACK != 0;
        let is_received = event.hop == Hop::DevRecv;
        if event.hop == Hop::SkbDrop {
            // The direction of a dropped packet is not recorded, and its addresses may have been translated.
            let client = self.clients.get(&event.seq()).copied();
            for end in [flow.local, flow.remote].into_iter().chain(client) {
                self.note_syn(end, |syn| syn.has_end = true);
            }
        } else if is_answer {
            let client = if is_received { flow.local } else { flow.remote };
            self.note_syn(client, |syn| syn.has_end = true);
        } else if is_received {
            self.note_syn(flow.remote, |syn| syn.has_arrived = true);
        } else {
            self.sent(event.seq(), flow.local);
        }
    }

    /// Follows a SYN that its client sent, or that a host which received it passed on: then `from` may be a translated address.
    fn sent(&mut self, seq: u32, from: Endpoint) {
        if let Some(client) = self.clients.get(&seq).copied() {
            self.note_syn(client, |syn| syn.has_arrived = false);
            return;
        }
        if self.syns.len() >= MOST_SYNS {
            self.syns.clear();
            self.clients.clear();
        }
        if let Some(earlier) = self.syns.insert(from, Syn { seq, ..Syn::default() }) {
            self.clients.remove(&earlier.seq);
        }
        self.clients.insert(seq, from);
    }

    fn note_syn(&mut self, client: Endpoint, note: impl FnOnce(&mut Syn)) {
        if let Some(syn) = self.syns.get_mut(&client) {
            note(syn);
        }
    }

    /// Counts the end of an attempt; `flow` is that of its socket. `is_stored` if a screen can show the event.
    pub fn event(&mut self, event: &Event, is_stored: bool, flow: Option<&Flow>) {
        let (Detail::ConnectionState(state), Some(flow)) = (event.detail, flow) else { return };
        let state = ConnectionState::from_number(state.get());
        let syn = self.syns.remove(&flow.local);
        if let Some(syn) = syn {
            self.clients.remove(&syn.seq);
        }
        let syn = syn.unwrap_or_default();
        if self.by_peer.len() >= MOST_PEERS && !self.by_peer.contains_key(&flow.remote) {
            self.by_peer.retain(|_, attempts| attempts.unanswered() > 0);
            if state != ConnectionState::Closed || self.by_peer.len() >= MOST_PEERS {
                return;
            }
        }
        let attempts = self.by_peer.entry(flow.remote).or_default();
        if state == ConnectionState::Closed && is_stored {
            attempts.last_unanswered_ns = Some(event.time_ns);
        }
        let is_unanswered = state == ConnectionState::Closed
            && match event.extent {
                Extent::OpenError(error) => error.get() == TIMED_OUT,
                _ => true,
            };
        attempts.ignored += u64::from(is_unanswered && syn.has_arrived && !syn.has_end);
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
        self.by_peer.iter().filter(|(_, attempts)| attempts.unanswered() > 0)
    }

    /// Those with the most failures, as rows. Without `shows_drops` a SYN may have been dropped without a record.
    pub fn rows(&self, shows_drops: bool) -> Vec<UnansweredPeer> {
        let mut peers: Vec<_> = self.unanswered().collect();
        peers.sort_by_key(|(_, attempts)| std::cmp::Reverse(attempts.unanswered()));
        let row = |(to, attempts): (&Endpoint, &Attempts)| UnansweredPeer {
            to: to.to_string(),
            answered: attempts.answered,
            failed: by_frequency(attempts.failed.iter().map(|(error, times)| (error_name(*error), *times))),
            given_up: attempts.given_up,
            ignored: if shows_drops { attempts.ignored } else { 0 },
        };
        peers.into_iter().take(LISTED).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::flow::FlowId;
    use magscope_core::node::{Backend, Coverage, Service};
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
        let rows = peers.rows(true);
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

    /// The peers after an attempt of a client whose SYN passed these hops, and had these flags.
    fn after(hops: &[(Hop, u8)], error: u32) -> Peers {
        let at_client = flow(2);
        let at_server = Flow { local: at_client.remote, remote: at_client.local, ..at_client };
        let mut peers = Peers::default();
        for (hop, tcp_flags) in hops {
            let event = Event { tcp_flags: *tcp_flags, ..Event::at(*hop, 1) };
            assert!(Peers::is_of_syn(&event), "{hop}");
            let is_at_client = (*hop == Hop::DevXmit) == (*tcp_flags == SYN);
            peers.syn(&event, Some(if is_at_client { &at_client } else { &at_server }));
        }
        peers.event(&ended(7, error), true, Some(&at_client));
        assert!(peers.syns.is_empty() && peers.clients.is_empty());
        peers
    }

    #[test]
    fn a_syn_that_left_from_a_translated_address_has_not_arrived() {
        let at_client = flow(2);
        let at_router = Flow { local: at_client.remote, remote: at_client.local, ..at_client };
        let translated = Flow { local: "192.0.2.1:50000".parse().expect("an address"), ..at_client };
        let ignored = |later: &[(Hop, u32)]| {
            let mut peers = Peers::default();
            let syn =
                |hop, seq| Event { tcp_flags: SYN, extent: ExtentKind::Stream.of(seq), ..Event::at(hop, 1) };
            peers.syn(&syn(Hop::DevXmit, 7), Some(&at_client));
            peers.syn(&syn(Hop::DevRecv, 7), Some(&at_router));
            for (hop, seq) in later {
                peers.syn(&syn(*hop, *seq), Some(&translated));
            }
            peers.event(&ended(7, TIMED_OUT), true, Some(&at_client));
            peers.rows(true)[0].ignored
        };
        assert_eq!(ignored(&[]), 1);
        assert_eq!(ignored(&[(Hop::DevXmit, 7)]), 0);
        assert_eq!(ignored(&[(Hop::SkbDrop, 7)]), 0, "it was dropped after its translation");
        assert_eq!(ignored(&[(Hop::DevXmit, 8), (Hop::SkbDrop, 9)]), 1, "others");
    }

    #[test]
    fn a_syn_may_have_left_where_sent_packets_have_no_record() {
        let of = |infos: &[NodeInfo], omissions: Omissions| shows_drops(infos, &omissions);
        let full = NodeInfo { coverage: Coverage::full(Backend::Generator), ..NodeInfo::default() };
        assert!(of(std::slice::from_ref(&full), Omissions::default()));
        for hop in [Hop::DevXmit, Hop::SkbDrop] {
            let mut info = full.clone();
            for row in info.coverage.hops.iter_mut().filter(|row| row.hop == hop) {
                row.service = Service::Off;
            }
            assert!(!of(&[full.clone(), info], Omissions::default()), "{hop}");
            let switched_hops = [hop].into_iter().collect();
            assert!(
                !of(std::slice::from_ref(&full), Omissions { switched_hops, ..Omissions::default() }),
                "{hop}"
            );
        }
    }

    #[test]
    fn a_syn_that_arrived_without_an_answer_and_a_drop_was_ignored() {
        let ignored = |hops: &[(Hop, u8)], error| after(hops, error).rows(true)[0].ignored;
        let (sent, arrived) = ((Hop::DevXmit, SYN), (Hop::DevRecv, SYN));
        assert_eq!(ignored(&[sent, arrived], 0), 1);
        assert_eq!(ignored(&[sent, arrived, sent, arrived], TIMED_OUT), 1, "it was sent again");
        assert_eq!(ignored(&[sent, arrived], 111), 0, "a refused one was answered");
        assert_eq!(ignored(&[sent], 0), 0);
        assert_eq!(ignored(&[sent, arrived, sent], 0), 0, "a router passed it on");
        assert_eq!(ignored(&[sent, arrived, (Hop::SkbDrop, SYN)], 0), 0);
        assert_eq!(ignored(&[sent, arrived, (Hop::DevXmit, SYN | ACK)], 0), 0, "its answer was lost");
        assert_eq!(after(&[sent, arrived], 0).rows(false)[0].ignored, 0, "a drop may have no record");
    }

    #[test]
    fn many_peers_take_bounded_memory_and_hide_no_failure() {
        let mut peers = Peers::default();
        for peer in 0..5_000 {
            peers.event(&ended(1, 0), true, Some(&flow(peer)));
        }
        peers.event(&ended(7, 111), true, Some(&flow(9_999)));
        assert_eq!(peers.rows(true).len(), 1);
        for peer in 10_000..20_000 {
            peers.event(&ended(7, 111), true, Some(&flow(peer)));
        }
        assert!(peers.by_peer.len() <= MOST_PEERS && peers.rows(true).len() == LISTED);
    }
}
