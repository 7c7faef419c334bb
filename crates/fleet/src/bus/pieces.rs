//! The pieces of a batch that fit into one message each.

use magscope_core::{Batch, PayloadHead};

/// Maximum number of rows in a message, and of payload bytes.
const MAX_ROWS: usize = 8 << 10;
const MAX_PAYLOAD: usize = 256 << 10;

/// Number of rows in the tables of a batch that pieces divide.
pub fn rows(batch: &Batch) -> usize {
    let Batch { events, flows, tasks, tcp, hits, heads, synthesis, names, changes, .. } = batch;
    let announced = flows.len() + tasks.len() + names.len() + changes.len();
    events.len() + announced + tcp.len() + hits.len() + heads.len() + synthesis.len()
}

/// Rows of names in a message, at most: one may have many names.
const MOST_NAMES: usize = 1;

/// Takes the part of a batch that fits into a message; `None` if nothing is left.
pub fn first_piece(whole: &mut Batch) -> Option<Batch> {
    fn first<T>(from: &mut Vec<T>, most: usize) -> Vec<T> {
        if from.len() <= most {
            return std::mem::take(from);
        }
        let rest = from.split_off(most);
        std::mem::replace(from, rest)
    }
    if rows(whole) == 0 {
        return None;
    }
    let fitting = fitting(&whole.heads);
    Some(Batch {
        events: first(&mut whole.events, MAX_ROWS),
        flows: first(&mut whole.flows, MAX_ROWS),
        tasks: first(&mut whole.tasks, MAX_ROWS),
        tcp: first(&mut whole.tcp, MAX_ROWS),
        hits: first(&mut whole.hits, MAX_ROWS),
        heads: first(&mut whole.heads, fitting),
        synthesis: first(&mut whole.synthesis, MAX_ROWS),
        names: first(&mut whole.names, MOST_NAMES),
        changes: first(&mut whole.changes, MAX_ROWS),
        ..Batch::default()
    })
}

/// Number of heads that fit into the byte limit.
fn fitting(heads: &[PayloadHead]) -> usize {
    let mut bytes = 0;
    let fits = heads.iter().take_while(|head| {
        bytes += head.bytes.len();
        bytes <= MAX_PAYLOAD
    });
    fits.take(MAX_ROWS).count().max(1)
}

/// Moves the first half of every table out of a batch.
pub fn halve(batch: &mut Batch) -> Batch {
    fn half<T>(from: &mut Vec<T>) -> Vec<T> {
        let rest = from.split_off(from.len().div_ceil(2));
        std::mem::replace(from, rest)
    }
    Batch {
        events: half(&mut batch.events),
        flows: half(&mut batch.flows),
        tasks: half(&mut batch.tasks),
        tcp: half(&mut batch.tcp),
        hits: half(&mut batch.hits),
        heads: half(&mut batch.heads),
        synthesis: half(&mut batch.synthesis),
        names: half(&mut batch.names),
        changes: half(&mut batch.changes),
        ..Batch::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{Change, Event, Hop};

    #[test]
    fn pieces_are_small_and_none_is_left_out() {
        let mut whole = Batch {
            events: (0..20_000).map(|ns| Event::at(Hop::IpOut, ns)).collect(),
            heads: vec![head(); 10],
            ..Batch::default()
        };
        let (mut events, mut heads, mut pieces) = (Vec::new(), 0, 0);
        while let Some(mut piece) = first_piece(&mut whole) {
            let first = halve(&mut piece);
            for piece in [first, piece] {
                assert!(piece.events.len() <= MAX_ROWS && piece.heads.len() <= 2);
                events.extend(piece.events.iter().map(|event| event.time_ns));
                heads += piece.heads.len();
            }
            pieces += 1;
        }
        assert_eq!((events, heads, pieces), ((0..20_000).collect(), 10, 5));
    }

    #[test]
    fn repeated_changes_are_divided_too() {
        let change = Change { from_ns: 1, to_ns: 2, what: "detail both".to_owned() };
        let mut whole = Batch { changes: vec![change; 10_000], ..Batch::default() };
        let mut changes = 0;
        while let Some(mut piece) = first_piece(&mut whole) {
            let first = halve(&mut piece);
            assert!(first.changes.len() <= MAX_ROWS / 2);
            changes += first.changes.len() + piece.changes.len();
        }
        assert_eq!(changes, 10_000);
    }

    fn head() -> PayloadHead {
        let (hop, proto) = (Hop::IpOut, magscope_core::Proto::UDP);
        let flow = magscope_core::FlowId(1);
        let bytes = vec![0; 100_000];
        PayloadHead {
            time_ns: 1,
            flow,
            seq: 0,
            of_bytes: 0,
            event: 0,
            record: 0,
            cpu: 0,
            ip_id: 0,
            hop,
            proto,
            bytes,
        }
    }
}
