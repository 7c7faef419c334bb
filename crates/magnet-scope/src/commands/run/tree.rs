//! A process and its descendants, from the scheduler's forks.

use magscope_core::exchange::Exchange;
use magscope_core::hash::Set;
use magscope_core::{Batch, Hop};

/// Maximum number of known threads; beyond it later ones are unknown.
const MOST: usize = 1 << 20;

/// The threads of a process and of its descendants.
#[derive(Clone, Debug)]
pub struct ProcessTree {
    threads: Set<u32>,
}

impl ProcessTree {
    /// The tree of a process.
    pub fn of(pid: u32) -> Self {
        ProcessTree { threads: Set::from_iter([pid]) }
    }

    /// Takes the forks of a batch.
    pub fn batch(&mut self, batch: &Batch) {
        for event in batch.events.iter().filter(|event| event.hop == Hop::SchedFork) {
            if self.threads.len() < MOST
                && (self.threads.contains(&event.tid) || self.threads.contains(&event.tgid))
            {
                self.threads.insert(event.detail.other_tid());
            }
        }
    }

    /// True if a thread of the tree asked or answered.
    pub fn has(&self, exchange: &Exchange) -> bool {
        let ends = [&exchange.requester, &exchange.responder];
        let mut threads = ends.into_iter().flat_map(|end| [end.sender, end.reader]).flatten();
        threads.any(|thread| self.threads.contains(&thread.tid) || self.threads.contains(&thread.tgid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{DetailKind, Event};

    #[test]
    fn children_of_children_belong_to_the_tree() {
        let fork = |parent: u32, child: u32| Event {
            tid: parent,
            tgid: parent,
            detail: DetailKind::OtherThread.of(child),
            ..Event::at(Hop::SchedFork, 1)
        };
        let mut tree = ProcessTree::of(10);
        tree.batch(&Batch { events: vec![fork(10, 11), fork(11, 12), fork(7, 8)], ..Batch::default() });
        assert_eq!([10, 11, 12, 7, 8].map(|tid| tree.threads.contains(&tid)), [true, true, true, false, false]);
    }
}
