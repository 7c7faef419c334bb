//! Bytes that the peer's receive window holds back wait for its reader, not in a queue of the sender.

use crate::common;
use common::*;
use magscope_core::blame::{Blame, Part};
use magscope_core::journey::{Correlator, Journey, Limits};
use magscope_core::{Batch, Event, Hop, Proto, TcpSample};

/// Two segments of a stream.
const FIRST: (u32, u32) = (100, 50);
const SECOND: (u32, u32) = (150, 50);
/// Instant at which the second one is sent.
const RELEASED_NS: u64 = 9_000;

/// The sender's connection before the acknowledgement that releases the second segment.
const CLOSED: TcpSample = TcpSample {
    time_ns: RELEASED_NS - 10,
    socket: 0,
    flow: CLIENT,
    cwnd: 10,
    ssthresh: 0,
    srtt_us: 0,
    rttvar_us: 0,
    rto_us: 0,
    packets_out: 1,
    retrans_out: 0,
    total_retrans: 0,
    snd_wnd: 50,
    rcv_wnd: 1,
    snd_una: 100,
    snd_nxt: 150,
    write_seq: 200,
    rcv_nxt: 0,
    copied_seq: 0,
    send_queue_bytes: 100,
    recv_queue_bytes: 0,
    state: 1,
    ca_state: 0,
    tcp_flags: 0,
};

/// Both segments are written at once, and the second one is sent later.
fn events() -> Vec<Event> {
    let send = tcp(Hop::TcpSend, 0, CLIENT, 100, 100);
    let pass = |at_ns, (seq, len)| {
        let end = seq + len;
        let read = [
            tcp(Hop::SockReady, at_ns + 200, SERVER, end, 0),
            tcp(Hop::AppRecv, at_ns + 210, SERVER, seq, len),
        ];
        let out = run(&PACKET_TX, at_ns, CLIENT, seq, len);
        [out, run(&PACKET_RX, at_ns + 100, SERVER, seq, len), read.to_vec()].concat()
    };
    [vec![send], pass(10, FIRST), pass(RELEASED_NS, SECOND)].concat()
}

/// Before both segments, with an open window.
const OPEN: TcpSample = TcpSample { time_ns: 5, snd_wnd: 9_000, snd_nxt: 100, packets_out: 0, ..CLOSED };

/// The journeys of both segments, with these samples of the sender's connection.
fn both(samples: &[TcpSample]) -> [Journey; 2] {
    let mut correlator = Correlator::new(coverage(), Limits::default());
    let mut done = Vec::new();
    let batch = Batch { tcp: samples.to_vec(), ..batch(flows(Proto::TCP), events()) };
    correlator.push(&batch, &mut done);
    correlator.finish(&mut done);
    done.sort_by_key(|journey| journey.range.start);
    done.try_into().expect("two journeys")
}

/// Time in the send queue, and time of the receive window.
fn parts(journey: &Journey) -> (Option<u64>, Option<u64>) {
    let blame = Blame::of(journey, coverage()).expect("it has a time");
    assert_eq!(blame.parts().map(|(_, ns)| ns).sum::<u64>(), blame.total_ns());
    (blame.ns(Part::SendQueue), blame.ns(Part::ReceiveWindow))
}

#[test]
fn a_full_receive_window_is_not_the_senders_queue() {
    let [first, second] = both(&[OPEN, CLOSED]);
    assert_eq!(parts(&first), (Some(10), None));
    // From the transmission that filled the window to its acknowledgement.
    assert_eq!(parts(&second), (Some(20), Some(RELEASED_NS - 20)));
    assert_eq!(second.receive_window_ns, RELEASED_NS - 20);
    assert_eq!(Blame::of(&second, coverage()).and_then(|blame| blame.largest()), Some(Part::ReceiveWindow));
}

#[test]
fn a_zero_window_is_that_of_the_reader() {
    let zero = TcpSample { snd_wnd: 0, snd_una: 150, packets_out: 0, ..CLOSED };
    let earlier = TcpSample { time_ns: 4_000, ..zero };
    assert_eq!(parts(&both(&[OPEN, earlier, zero])[1]), (Some(20), Some(RELEASED_NS - 20)));
    assert_eq!(
        parts(&both(&[earlier, zero])[1]),
        (Some(4_010), Some(RELEASED_NS - 4_010)),
        "since the first sample"
    );
    assert_eq!(parts(&both(&[OPEN, earlier])[1]), (Some(RELEASED_NS - 3_990), Some(3_990)));
}

#[test]
fn an_open_window_is_not_blamed() {
    let table = [
        (TcpSample { snd_wnd: 51, ..CLOSED }, "room for a byte"),
        (TcpSample { cwnd: 1, ..CLOSED }, "the congestion window is full as well"),
        (TcpSample { ca_state: 4, ..CLOSED }, "its bytes are lost"),
        (TcpSample { flow: SERVER, ..CLOSED }, "the other end"),
        (TcpSample { time_ns: RELEASED_NS + 1, ..CLOSED }, "after its transmission"),
    ];
    for (sample, why) in table {
        let [_, second] = both(&[OPEN, sample]);
        assert_eq!(parts(&second), (Some(RELEASED_NS), None), "{why}");
    }
}

#[test]
fn bytes_of_a_call_that_waits_for_room_were_held_back_too() {
    let zero = TcpSample { snd_wnd: 0, snd_una: 150, packets_out: 0, ..CLOSED };
    // TCP has sent all that it accepted, and the call has more.
    let all_sent = TcpSample { time_ns: 8_995, snd_wnd: 9_000, write_seq: 150, ..zero };
    assert_eq!(parts(&both(&[OPEN, zero, all_sent])[1]), (Some(20), Some(RELEASED_NS - 20)));
}
