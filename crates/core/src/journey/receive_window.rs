//! The peer's receive window: TCP sends no byte beyond `snd_una + snd_wnd` (RFC 9293, section 3.8.6).
//!
//! Samples of a sender's connection show the window. It is closed if its end is not above `snd_nxt`: the peer's reader is
//! too slow (*zero window*), or the window is full of unacknowledged bytes. Neither number decreases, so a window that is
//! closed in a sample was closed since the last transmission of new bytes.
//!
//! **Limits.** Samples are 4 ms apart or more, and a closed window between two of them is not seen. Only since the first
//! sample with unsent bytes is it known when bytes were sent. A full window whose bytes may be lost, or with a full
//! congestion window, proves nothing: the wait stays the send queue's. A peer that shrinks its window, which RFC 9293
//! discourages, may have closed it later than assumed.

use super::journey::{Journey, SOCKET_TX};
use super::piece::{Mark, Piece};
use super::rungs::bit;
use super::state::StreamRef;
use crate::flow::TcpSample;
use crate::hash::Map;
use crate::hop::Hop;
use std::collections::VecDeque;

/// Maximum number of closed intervals of a stream; the oldest are forgotten.
const MOST: usize = 256;

/// `TCP_CA_Open`: no sign of a loss.
const CA_OPEN: u8 = 0;

/// Maximum number of streams with unsent bytes; a further one is not followed.
const MOST_STREAMS: usize = 4096;

/// The receive windows of the streams whose samples show bytes that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct ReceiveWindows(Map<StreamRef, ReceiveWindow>);

impl ReceiveWindows {
    /// Applies a sample of the sender's connection; see [`ReceiveWindow::note`]. `waits`: declared bytes were not sent.
    pub fn note(&mut self, stream: StreamRef, sample: &TcpSample, is_last: bool, waits: bool) {
        if !has_unsent(sample) && !waits {
            self.0.remove(&stream);
        } else if self.0.len() < MOST_STREAMS || self.0.contains_key(&stream) {
            self.0.entry(stream).or_default().note(sample, is_last);
        }
    }

    /// New bytes of a stream were sent.
    pub fn note_sent(&mut self, stream: StreamRef, time_ns: u64) {
        if let Some(window) = self.0.get_mut(&stream) {
            window.sent_ns = Some(time_ns);
        }
    }

    /// Notes the delay of a piece that is now sent.
    pub fn delay(&self, stream: StreamRef, piece: &mut Piece, sent: &Mark) {
        let at = |hop| piece.rungs.time_ns(hop).filter(|_| !piece.rungs.is_at_return(hop));
        if let Some(window) = self.0.get(&stream)
            && !piece.has(sent.hop)
            && let Some(from_ns) = at(Hop::TcpSend).or_else(|| at(Hop::AppSend))
        {
            piece.receive_window_ns = window.closed_ns(from_ns, sent.time_ns);
        }
    }

    /// Forgets a stream.
    pub fn remove(&mut self, stream: StreamRef) {
        self.0.remove(&stream);
    }
}

/// The intervals in which the receive window of a stream was closed, by the samples of its sender.
#[derive(Clone, Debug, Default)]
struct ReceiveWindow {
    closed: VecDeque<Closed>,
    last: Option<Last>,
    /// Instant of the last transmission of new bytes since the first sample, nanoseconds.
    sent_ns: Option<u64>,
}

/// The last sample.
#[derive(Clone, Copy, Debug)]
struct Last {
    time_ns: u64,
    socket: u64,
    snd_nxt: u32,
    total_retrans: u32,
}

impl Last {
    const fn of(sample: &TcpSample) -> Self {
        let TcpSample { time_ns, socket, snd_nxt, total_retrans, .. } = *sample;
        Last { time_ns, socket, snd_nxt, total_retrans }
    }
}

/// From an instant to a later one, nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
struct Closed {
    from_ns: u64,
    to_ns: u64,
}

impl ReceiveWindow {
    /// Applies a sample. `is_last`: the last transmission that was seen reached its `snd_nxt`.
    fn note(&mut self, sample: &TcpSample, is_last: bool) {
        let before = self.last.replace(Last::of(sample)).filter(|before| before.socket == sample.socket);
        if !is_closed(sample, before.as_ref()) {
            return;
        }
        let same = before.filter(|before| before.snd_nxt == sample.snd_nxt).map(|before| before.time_ns);
        let from_ns = self.sent_ns.filter(|_| is_last).or(same).unwrap_or(sample.time_ns).min(sample.time_ns);
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

    /// Time within `from_ns..to_ns` in which the window was closed, nanoseconds.
    fn closed_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let first = self.closed.partition_point(|closed| closed.to_ns <= from_ns);
        let within = self.closed.range(first..).take_while(|closed| closed.from_ns < to_ns);
        within.map(|closed| closed.to_ns.min(to_ns) - closed.from_ns.max(from_ns)).sum()
    }
}

/// True if bytes wait to be sent. An imported sample has a few of the fields, and shows none.
const fn has_unsent(sample: &TcpSample) -> bool {
    sample.state != 0 && sample.write_seq != sample.snd_nxt
}

/// True if the window certainly holds back bytes.
fn is_closed(sample: &TcpSample, before: Option<&Last>) -> bool {
    let end = sample.snd_una.wrapping_add(sample.snd_wnd);
    let is_full = end.wrapping_sub(sample.snd_nxt) as i32 <= 0;
    has_unsent(sample) && is_full && (sample.snd_wnd == 0 || is_alone(sample, before))
}

/// True if neither a loss nor the congestion window may hold the bytes back as well.
fn is_alone(sample: &TcpSample, before: Option<&Last>) -> bool {
    let resent = sample.total_retrans != before.map_or(0, |before| before.total_retrans);
    !resent && sample.ca_state == CA_OPEN && sample.retrans_out == 0 && sample.packets_out < sample.cwnd
}

impl Journey {
    /// The part of [`Journey::receive_window_ns`] in a step of `step_ns`: all of it in the step out of the send queue.
    pub fn receive_window_within_ns(&self, from: Hop, to: Hop, step_ns: u64) -> u64 {
        let leaves =
            matches!(from, Hop::AppSend | Hop::TcpSend) && bit(to) & (SOCKET_TX | bit(Hop::DevDone)) == 0;
        if leaves { self.receive_window_ns.min(step_ns) } else { 0 }
    }
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
        let mut window = ReceiveWindow { sent_ns: Some(100), ..ReceiveWindow::default() };
        window.note(&FULL, true);
        assert_eq!(window.closed_ns(0, 2_000), 800);
        assert_eq!(window.closed_ns(300, 500), 200);
        window.note(&TcpSample { time_ns: 1_500, snd_wnd: 0, snd_una: 50, ..FULL }, true);
        assert_eq!(window.closed_ns(0, 2_000), 1_400, "one interval");
        let next = TcpSample { time_ns: 3_000, snd_nxt: 90, snd_una: 90, snd_wnd: 0, ..FULL };
        window.note(&next, false);
        assert_eq!(window.closed_ns(0, 9_000), 1_400, "since when is unknown");
        window.note(&TcpSample { time_ns: 3_500, ..next }, false);
        assert_eq!(window.closed_ns(0, 9_000), 1_900, "no byte was sent between two samples");
    }

    #[test]
    fn the_oldest_intervals_are_forgotten() {
        let mut window = ReceiveWindow::default();
        for n in 0..=MOST as u64 {
            window.sent_ns = Some(n * 10);
            window.note(&TcpSample { time_ns: n * 10 + 5, snd_wnd: 0, ..FULL }, true);
        }
        assert_eq!(window.closed_ns(0, u64::MAX), MOST as u64 * 5);
        assert_eq!(window.closed_ns(0, 10), 0);
    }
}
