//! The connections that an end of a flow had, one after the other, by their SYNs.
//!
//! **The problem.** Programs use addresses and ports again, sometimes within milliseconds. Journeys arrive later than the
//! events of the next connection.
//!
//! **The choice.** A journey belongs to the last connection that was opened before its send. Bytes in a SYN were sent
//! before it; their number shows whose they are. A SYN with a number that was seen already opens nothing: it was sent
//! again, or arrived twice.

use super::connection::Slot;
use super::piece::Part;

/// Maximum number of connections of an end in memory. Later journeys of older ones have no place.
const MOST: usize = 256;

/// Time after the next connection's SYN from which on a connection without journeys is forgotten, nanoseconds. Its last
/// journeys end before.
const FORGET_NS: u64 = 60_000_000_000;

/// Longest time from the send of bytes to the SYN that has them, nanoseconds.
const SYN_NS: u64 = 1_000_000_000;

/// The same for bytes that follow those in the SYN, of the same call.
const CALL_NS: u64 = 10_000_000;

/// Maximum number of bytes of the call that sent the SYN.
const SYN_BYTES: u32 = 1 << 20;

/// A connection of an end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// Instant of its SYN; 0 for one whose SYN was not seen, which may have been before all others.
    pub ns: u64,
    /// The low 32 bits of the first byte's position: of those that this end sent, and of those that it received.
    pub first: [Option<u32>; 2],
    /// Whether this end opened it.
    pub is_own: Option<bool>,
    /// Instants of this end's FIN, and of the other one's.
    pub finished_ns: [u64; 2],
    /// Instant of the end of the socket.
    pub ended_ns: u64,
    /// Position behind the last byte that the socket had accepted for sending, with its FIN: the low 32 bits.
    written: Option<u32>,
    /// The connection with its journeys.
    pub slot: Option<Slot>,
}

impl Opening {
    /// True if it had certainly ended at an instant, or never was.
    fn is_over(&self, ns: u64) -> bool {
        let never_was = self.ns == 0 && self.slot.is_none();
        never_was || self.ended_ns > 0 && self.ended_ns <= ns
    }

    /// True if the socket had accepted bytes behind a position. Its FIN is none.
    pub fn accepted_behind(&self, position: u64) -> bool {
        let Some(written) = self.written else { return false };
        let behind = written.wrapping_sub(position as u32).cast_signed();
        // Without packets in the capture, a single number behind the last byte is taken for the FIN.
        let may_be_fin = self.is_own.is_none() || self.finished_ns[0] > 0;
        behind > i32::from(may_be_fin)
    }

    /// The same for the position behind its last byte that was seen; `None` if none was.
    pub fn accepted_unseen(&self, next: Option<u64>) -> bool {
        let first = self.first[0].map(u64::from);
        next.or(first).is_some_and(|position| self.accepted_behind(position))
    }
}

/// The connections of an end, the oldest first. The first one is that whose SYN was not seen, until there are too many.
#[derive(Debug)]
pub(super) struct Openings(Vec<Opening>);

impl Default for Openings {
    fn default() -> Self {
        Openings(vec![Opening::default()])
    }
}

impl Openings {
    /// Notes a SYN that this end sent or received, with the position of the first byte behind it. `is_own`: this end opens
    /// the connection. Returns the connection that is forgotten for it, if that had journeys.
    pub fn syn(&mut self, ns: u64, sends: bool, first: u32, is_own: bool) -> Option<Slot> {
        let side = usize::from(!sends);
        if self.0.iter().any(|opening| opening.first[side] == Some(first)) {
            return None;
        }
        let last = self.last_mut();
        // The other end's SYN of the same connection.
        if last.is_own == Some(is_own) && last.first[side].is_none() {
            last.first[side] = Some(first);
            return None;
        }
        let mut opening =
            Opening { ns: ns.max(last.ns.saturating_add(1)), is_own: Some(is_own), ..Opening::default() };
        opening.first[side] = Some(first);
        self.0.push(opening);
        let is_old = |pair: &&[Opening]| {
            let [old, next] = pair else { return false };
            old.slot.is_none() && next.ns.saturating_add(FORGET_NS) < ns
        };
        let old = self.0.windows(2).take_while(is_old).count();
        self.0.drain(..old);
        if self.0.len() > MOST { self.0.remove(0).slot } else { None }
    }

    /// Notes a FIN that this end sent or received.
    pub fn fin(&mut self, ns: u64, sends: bool) {
        self.last_mut().finished_ns[usize::from(!sends)] = ns;
    }

    /// Notes the end of a socket: its reader was at `read`, and it had accepted bytes up to `written`. A program may close
    /// it later than the next connection begins. The numbers of both directions are behind the first ones of its own
    /// connection; those of the next one are often among those of a long one before.
    pub fn ended(&mut self, ns: u64, read: u32, written: Option<u32>) {
        let distance = |opening: &Opening| -> u64 {
            let positions = [(opening.first[0], written), (opening.first[1], Some(read))];
            let behind = |(first, at): (Option<u32>, Option<u32>)| {
                u64::from(at.zip(first).map_or(u32::MAX / 2, |(at, first)| at.wrapping_sub(first)))
            };
            positions.into_iter().map(behind).sum()
        };
        let open = self.0.iter_mut().rev().filter(|opening| opening.ended_ns == 0);
        if let Some(opening) = open.min_by_key(|opening| distance(opening)) {
            (opening.ended_ns, opening.written) = (ns, written);
        }
    }

    fn last_mut(&mut self) -> &mut Opening {
        if self.0.is_empty() {
            self.0.push(Opening::default());
        }
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    /// The connection of a journey that this end sent or received; `None` if it was forgotten.
    pub fn of(&self, part: &Part, is_sender: bool) -> Option<Opening> {
        let sent_ns = part.ns(true);
        let at = self.0.partition_point(|opening| opening.ns <= sent_ns).checked_sub(1)?;
        // Else it may have sent bytes with the numbers of the next one.
        let is_over = self.0.get(at).is_none_or(|before| before.is_over(sent_ns));
        let in_syn = |next: &&Opening| {
            let Some(first) = next.first[usize::from(!is_sender)] else { return false };
            let opens = next.is_own == Some(is_sender);
            let most_ns = match (part.start as u32).wrapping_sub(first) {
                0 => SYN_NS,
                1..SYN_BYTES if opens && is_over => CALL_NS,
                _ => return false,
            };
            next.ns.saturating_sub(sent_ns) < most_ns
        };
        self.0.get(at + 1).filter(in_syn).or(self.0.get(at)).copied()
    }

    /// The connection whose SYN was at this instant.
    pub fn at(&self, ns: u64) -> Option<&Opening> {
        self.0.iter().find(|opening| opening.ns == ns)
    }

    /// The same, to change it.
    pub fn at_mut(&mut self, ns: u64) -> Option<&mut Opening> {
        self.0.iter_mut().find(|opening| opening.ns == ns)
    }

    /// The instant at which a connection had ended at this end: the end of its socket, or the next SYN.
    pub fn ended_ns(&self, ns: u64, first_ns: u64) -> Option<u64> {
        let at = self.0.iter().position(|opening| opening.ns == ns)?;
        let own_ns = self.0.get(at).map(|opening| opening.ended_ns).filter(|ended_ns| *ended_ns >= first_ns);
        own_ns.filter(|ended_ns| *ended_ns > 0).or_else(|| self.0.get(at + 1).map(|next| next.ns))
    }

    /// Connections with journeys that were opened before this one.
    pub fn before(&self, ns: u64) -> impl Iterator<Item = Slot> {
        self.0.iter().filter(move |opening| opening.ns < ns).filter_map(|opening| opening.slot)
    }

    /// True if one of them has journeys.
    pub fn is_in_use(&self) -> bool {
        self.0.iter().any(|opening| opening.slot.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::super::piece::Moment;
    use super::*;

    fn sent_at(start: u64, ns: u64) -> Part {
        Part { start, end: start + 1, sent: Some(Moment { ns, who: None }), read: None, broken: None }
    }

    #[test]
    fn a_journey_is_of_the_last_connection_opened_before_its_send() {
        let mut openings = Openings::default();
        assert_eq!(openings.of(&sent_at(7, 50), true).map(|opening| opening.ns), Some(0));
        openings.syn(100, true, 1_000, true);
        openings.syn(110, false, 5_000, true);
        openings.ended(150, 5_000, Some(1_001));
        openings.syn(200, false, 8_000, false);
        openings.syn(210, true, 2_000, false);
        let of = |start, ns, is_sender| openings.of(&sent_at(start, ns), is_sender).expect("known");
        assert_eq!((of(7, 50, true).ns, of(1_000, 120, true).ns, of(8_000, 230, false).ns), (0, 100, 200));
        assert_eq!((of(1_000, 120, true).is_own, of(8_000, 230, false).is_own), (Some(true), Some(false)));
        assert_eq!(of(8_000, 190, false).ns, 200, "bytes in the SYN were sent before it");
        assert_eq!(of(8_500, 190, false).ns, 200, "so were those of the same call that followed it");
        assert_eq!(of(7_990, 190, false).ns, 100, "those before its first byte are of another");
    }

    #[test]
    fn numbers_of_the_next_connection_are_no_proof_while_this_one_sends() {
        for is_own in [true, false] {
            let mut openings = Openings::default();
            openings.syn(100, true, 1_000, is_own);
            openings.syn(110, false, 500_000, is_own);
            openings.syn(200, true, 7_000, true);
            openings.syn(210, false, 506_000, true);
            for (start, is_sender) in [(8_000, true), (507_000, false)] {
                let of = openings.of(&sent_at(start, 150), is_sender);
                assert_eq!(of.map(|opening| opening.ns), Some(100), "{start}");
            }
        }
    }

    #[test]
    fn a_syn_that_comes_again_opens_nothing() {
        let mut openings = Openings::default();
        for ns in [100, 101, 400] {
            openings.syn(ns, true, 1_000, true);
            openings.syn(ns + 10, false, 5_000, true);
        }
        assert_eq!(openings.of(&sent_at(1_500, 500), true).map(|opening| opening.ns), Some(100));
    }

    #[test]
    fn connections_that_ended_long_ago_take_no_memory() {
        let mut openings = Openings::default();
        for n in 1..=1_000 {
            let forgotten = openings.syn(n * FORGET_NS / 8, true, 1_000 * n as u32, true);
            assert_eq!(forgotten, None);
            assert!(openings.0.len() < 16, "{}", openings.0.len());
        }
        let last_ns = 1_000 * FORGET_NS / 8;
        assert_eq!(
            openings.of(&sent_at(7, last_ns - 1), true).map(|opening| opening.ns),
            Some(999 * FORGET_NS / 8)
        );
        openings.at_mut(last_ns).expect("the newest").slot = Some((7, 3));
        openings.syn(last_ns + 9 * FORGET_NS, true, 7, true);
        openings.syn(last_ns + 20 * FORGET_NS, true, 8, true);
        assert!(openings.at(last_ns).is_some(), "it has journeys");
    }

    #[test]
    fn accepted_bytes_without_any_event_show_by_the_syn() {
        let mut openings = Openings::default();
        openings.syn(100, false, 5_000, false);
        openings.syn(110, true, 1_000, false);
        openings.fin(190, true);
        openings.ended(200, 5_050, Some(1_501));
        let opening = openings.at(100).expect("its SYN");
        assert!(opening.accepted_unseen(None) && opening.accepted_unseen(Some(1_400)));
        assert!(!opening.accepted_unseen(Some(1_500)), "the rest is the FIN");
        assert!(!Opening::default().accepted_unseen(None), "nothing shows where it began");
    }

    #[test]
    fn journeys_of_a_forgotten_connection_are_of_no_other() {
        let mut openings = Openings::default();
        openings.syn(100, true, 1_000, true);
        if let Some(opening) = openings.at_mut(100) {
            opening.slot = Some((7, 3));
        }
        let forgotten: Vec<Slot> =
            (0..MOST as u64).filter_map(|n| openings.syn(1_000 + n, true, 2_000 + n as u32, true)).collect();
        assert_eq!((openings.0.len(), forgotten), (MOST, vec![(7, 3)]));
        assert_eq!(openings.of(&sent_at(1_500, 500), true).map(|opening| opening.ns), None);
    }

    /// Linux numbers connections of the same addresses by the clock.
    #[test]
    fn numbers_of_a_long_connection_reach_over_those_of_the_next() {
        let mut openings = Openings::default();
        for (n, ns) in (0..3).zip([100, 200, 300]) {
            openings.syn(ns, false, 1_000 + 10_000 * n, false);
            openings.syn(ns + 1, true, 700_000 + 10_000 * n, false);
        }
        openings.ended(250, 1_010, Some(900_000));
        openings.ended(260, 11_010, Some(910_000));
        assert_eq!([100, 200].map(|ns| openings.ended_ns(ns, 1)), [Some(250), Some(260)]);
        assert_eq!(openings.ended_ns(300, 1), None);
    }

    #[test]
    fn a_socket_that_is_closed_late_ends_its_own_connection() {
        let mut openings = Openings::default();
        openings.syn(100, true, 1_000, true);
        openings.syn(110, false, 5_000, true);
        openings.syn(200, true, 3_000_000_000, true);
        openings.syn(210, false, 5_100, true);
        openings.ended(300, 5_050, Some(1_500));
        assert_eq!((openings.ended_ns(100, 1), openings.ended_ns(200, 1)), (Some(300), None));
        openings.ended(400, 5_100, Some(3_000_000_010));
        assert_eq!(openings.ended_ns(200, 1), Some(400));
        assert!(openings.at(200).is_some_and(|opening| opening.accepted_behind(3_000_000_005)));
        assert!(!openings.at(200).is_some_and(|opening| opening.accepted_behind(3_000_000_010)));
    }
}
