//! The peer's receive window: TCP sends no byte beyond `snd_una + snd_wnd` (RFC 9293, section 3.8.6).
//!
//! Samples of a sender's connection show the window. It is closed if its end is not above `snd_nxt`: the peer's reader is
//! too slow (*zero window*), or the window is full of unacknowledged bytes. Neither number ever decreases. So a window that
//! is closed in a sample was closed since the last transmission of new bytes.
//!
//! **Limits.** Samples are 4 ms apart or more, and a closed window between two of them is not seen. A full window whose
//! bytes may be lost, or with a full congestion window, proves nothing: the wait stays the send queue's.

use super::piece::{Mark, Piece};
use crate::flow::TcpSample;
use crate::hop::Hop;
use std::collections::VecDeque;

/// Maximum number of closed intervals of a stream; the oldest are forgotten.
const MOST: usize = 256;

/// `TCP_CA_Open`: no sign of a loss.
const CA_OPEN: u8 = 0;

/// The intervals in which the receive window of a stream was closed, by the samples of its sender.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceiveWindow {
    closed: VecDeque<Closed>,
    last: Option<TcpSample>,
}

/// From an instant to a later one, nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
struct Closed {
    from_ns: u64,
    to_ns: u64,
}

impl ReceiveWindow {
    /// Applies a sample. `sent_ns` is the instant at which the byte before its `snd_nxt` was sent, if that was seen.
    pub fn note(&mut self, sample: &TcpSample, sent_ns: Option<u64>) {
        let before = self.last.replace(*sample).filter(|before| before.socket == sample.socket);
        if !is_closed(sample, before.as_ref()) {
            return;
        }
        let same = before.filter(|before| before.snd_nxt == sample.snd_nxt).map(|before| before.time_ns);
        let from_ns = sent_ns.or(same).unwrap_or(sample.time_ns).min(sample.time_ns);
        let last_ns = self.closed.back().map_or(0, |last| last.to_ns);
        self.add(Closed { from_ns: from_ns.max(last_ns), to_ns: sample.time_ns });
    }

    fn add(&mut self, closed: Closed) {
        if closed.from_ns >= closed.to_ns {
            return;
        }
        match self.closed.back_mut() {
            Some(last) if last.to_ns == closed.from_ns => last.to_ns = closed.to_ns,
            _ => self.closed.push_back(closed),
        }
        if self.closed.len() > MOST {
            self.closed.pop_front();
        }
    }

    /// Notes the delay of a piece that is now sent.
    pub fn delay(&self, piece: &mut Piece, sent: &Mark) {
        let at = |hop| piece.rungs.time_ns(hop).filter(|_| !piece.rungs.is_at_return(hop));
        if !piece.has(sent.hop)
            && let Some(from_ns) = at(Hop::TcpSend).or_else(|| at(Hop::AppSend))
        {
            piece.receive_window_ns = self.closed_ns(from_ns, sent.time_ns);
        }
    }

    /// Time within `from_ns..to_ns` in which the window was closed, nanoseconds.
    pub fn closed_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let first = self.closed.partition_point(|closed| closed.to_ns <= from_ns);
        let within = self.closed.range(first..).take_while(|closed| closed.from_ns < to_ns);
        within.map(|closed| closed.to_ns.min(to_ns) - closed.from_ns.max(from_ns)).sum()
    }
}

/// True if the window certainly holds back bytes.
fn is_closed(sample: &TcpSample, before: Option<&TcpSample>) -> bool {
    // An imported sample has a few of the fields.
    let is_whole = sample.state != 0;
    let has_unsent = sample.write_seq != sample.snd_nxt;
    let end = sample.snd_una.wrapping_add(sample.snd_wnd);
    let is_full = end.wrapping_sub(sample.snd_nxt) as i32 <= 0;
    is_whole && has_unsent && is_full && (sample.snd_wnd == 0 || is_alone(sample, before))
}

/// True if neither a loss nor the congestion window may hold the bytes back as well.
fn is_alone(sample: &TcpSample, before: Option<&TcpSample>) -> bool {
    let resent = sample.total_retrans != before.map_or(0, |before| before.total_retrans);
    !resent && sample.ca_state == CA_OPEN && sample.retrans_out == 0 && sample.packets_out < sample.cwnd
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full window of 100 bytes, of which the first is unacknowledged.
    const FULL: TcpSample = TcpSample {
        time_ns: 900,
        socket: 7,
        flow: crate::FlowId(1),
        cwnd: 10,
        ssthresh: 0,
        srtt_us: 0,
        rttvar_us: 0,
        rto_us: 0,
        packets_out: 2,
        retrans_out: 0,
        total_retrans: 0,
        snd_wnd: 100,
        rcv_wnd: 1,
        snd_una: u32::MAX - 49,
        snd_nxt: 50,
        write_seq: 5_000,
        rcv_nxt: 0,
        copied_seq: 0,
        send_queue_bytes: 0,
        recv_queue_bytes: 0,
        state: 1,
        ca_state: CA_OPEN,
        tcp_flags: 0,
    };

    #[test]
    fn only_a_window_that_holds_back_bytes_is_closed() {
        let zero = TcpSample { snd_wnd: 0, snd_una: 50, packets_out: 0, ..FULL };
        let table = [
            (FULL, true, "full"),
            (zero, true, "zero"),
            (TcpSample { ca_state: 4, ..zero }, true, "nothing can be sent into a zero window"),
            (TcpSample { snd_wnd: 101, ..FULL }, false, "room for a byte"),
            (TcpSample { write_seq: 50, ..FULL }, false, "nothing to send"),
            (TcpSample { packets_out: 10, ..FULL }, false, "the congestion window is full as well"),
            (TcpSample { ca_state: 4, ..FULL }, false, "its bytes are lost"),
            (TcpSample { total_retrans: 1, ..FULL }, false, "its bytes may have been lost"),
            (TcpSample { state: 0, ..zero }, false, "imported"),
        ];
        for (sample, closed, why) in table {
            assert_eq!(is_closed(&sample, None), closed, "{why}");
        }
    }

    #[test]
    fn a_closed_window_was_closed_since_the_last_new_byte() {
        let mut window = ReceiveWindow::default();
        window.note(&FULL, Some(100));
        assert_eq!(window.closed_ns(0, 2_000), 800);
        assert_eq!(window.closed_ns(300, 500), 200);
        window.note(&TcpSample { time_ns: 1_500, snd_wnd: 0, snd_una: 50, ..FULL }, Some(100));
        assert_eq!(window.closed_ns(0, 2_000), 1_400, "one interval");
        let next = TcpSample { time_ns: 3_000, snd_nxt: 90, snd_una: 90, snd_wnd: 0, ..FULL };
        window.note(&next, None);
        assert_eq!(window.closed_ns(0, 9_000), 1_400, "since when is unknown");
        window.note(&TcpSample { time_ns: 3_500, ..next }, None);
        assert_eq!(window.closed_ns(0, 9_000), 1_900, "no byte was sent between two samples");
    }

    #[test]
    fn the_oldest_intervals_are_forgotten() {
        let mut window = ReceiveWindow::default();
        for n in 0..=MOST as u64 {
            window.note(&TcpSample { time_ns: n * 10 + 5, snd_wnd: 0, ..FULL }, Some(n * 10));
        }
        assert_eq!(window.closed_ns(0, u64::MAX), MOST as u64 * 5);
        assert_eq!(window.closed_ns(0, 10), 0);
    }
}
