//! An exchange as tests of reports, tables and screens need it. Its instants are what they compare.

use super::{Exchange, ExchangeEnd, Grade, RequesterBy, Transfer, View};
use crate::flow::Proto;

/// A turn whose ends were both seen: 10 bytes each way, without threads, on clocks that agree. `asked` and `answered` are
/// the instants at which the request and the response were sent and read, nanoseconds.
pub fn turn(id: u64, asked: [u64; 2], answered: [u64; 2]) -> Exchange {
    Exchange {
        id,
        proto: Proto::TCP,
        grade: Grade::Turn,
        broken: None,
        view: View::Both,
        requester_by: RequesterBy::Handshake,
        requester: ExchangeEnd::default(),
        responder: ExchangeEnd::default(),
        request: transfer(asked),
        response: transfer(answered),
        pause_ns: None,
        longest_idle_ns: 0,
        work: None,
        during: Vec::new(),
    }
}

fn transfer([sent_ns, read_ns]: [u64; 2]) -> Transfer {
    Transfer {
        bytes: 10,
        journeys: 1,
        first_sent_ns: Some(sent_ns),
        last_sent_ns: Some(sent_ns),
        first_read_ns: Some(read_ns),
        last_read_ns: Some(read_ns),
        half_width_ns: Some(0),
        ..Transfer::default()
    }
}
