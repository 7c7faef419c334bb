//! The pieces of a batch that fit into one message each.

use magscope_core::workload::Names;
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

/// True if [`halve`] makes two batches with rows of it.
pub fn can_be_halved(batch: &Batch) -> bool {
    rows(batch) > 1 || batch.names.iter().any(|names| entries(names) > 1)
}

/// Number of names in a row.
fn entries(names: &Names) -> usize {
    let Names { time_ns: _, netns, interfaces, cgroups, containers } = names;
    netns.len() + interfaces.len() + cgroups.len() + containers.len()
}

/// Halves tables. The extra rows of odd numbers go to either half in turn, so that none is empty.
#[derive(Default)]
struct Halver {
    is_second: bool,
}

impl Halver {
    /// Moves the first half out.
    fn half<T>(&mut self, from: &mut Vec<T>) -> Vec<T> {
        let mut first = from.len() / 2;
        if !from.len().is_multiple_of(2) {
            first += usize::from(!self.is_second);
            self.is_second = !self.is_second;
        }
        let rest = from.split_off(first);
        std::mem::replace(from, rest)
    }
}

/// Moves the first half of every table out of a batch; of a single row of names, the first half of the names.
/// Neither half is empty if [`can_be_halved`].
pub fn halve(batch: &mut Batch) -> Batch {
    let mut halver = Halver::default();
    if rows(batch) == 1
        && let Some(names) = batch.names.first_mut()
    {
        let half = Names {
            time_ns: names.time_ns,
            netns: halver.half(&mut names.netns),
            interfaces: halver.half(&mut names.interfaces),
            cgroups: halver.half(&mut names.cgroups),
            containers: halver.half(&mut names.containers),
        };
        return Batch { names: vec![half], ..Batch::default() };
    }
    Batch {
        events: halver.half(&mut batch.events),
        flows: halver.half(&mut batch.flows),
        tasks: halver.half(&mut batch.tasks),
        tcp: halver.half(&mut batch.tcp),
        hits: halver.half(&mut batch.hits),
        heads: halver.half(&mut batch.heads),
        synthesis: halver.half(&mut batch.synthesis),
        names: halver.half(&mut batch.names),
        changes: halver.half(&mut batch.changes),
        ..Batch::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::CgroupName;
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

    /// Halves a batch to the end, and counts its events and cgroups.
    fn divided(mut batch: Batch, pieces: &mut usize) -> (usize, usize) {
        if !can_be_halved(&batch) {
            *pieces += 1;
            return (batch.events.len(), batch.names.iter().map(|names| names.cgroups.len()).sum());
        }
        let first = halve(&mut batch);
        // Otherwise it has no end.
        assert!(rows(&first) > 0 && rows(&batch) > 0, "{first:?} {batch:?}");
        let (a, b) = (divided(first, pieces), divided(batch, pieces));
        (a.0 + b.0, a.1 + b.1)
    }

    #[test]
    fn a_row_of_names_is_divided_into_its_names() {
        let cgroups = (0..9).map(|id| CgroupName { id, path: format!("/{id}") }).collect();
        let names = Names { time_ns: 3, cgroups, ..Names::default() };
        let batch = Batch { events: vec![Event::at(Hop::IpOut, 1)], names: vec![names], ..Batch::default() };
        let mut pieces = 0;
        assert_eq!((divided(batch, &mut pieces), pieces), ((1, 9), 10));
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
