//! The best grade of each connection that does not take turns.
//!
//! An exchange waits after its connection may have ended, so what that has shown is stored for as long.

use super::connection::Slot;
use super::grade::Grade;
use super::late::Closed;
use std::collections::BTreeMap;

/// The best grade by connection: none of those that take turns.
#[derive(Debug, Default)]
pub(super) struct BestGrades(BTreeMap<Slot, Grade>);

impl BestGrades {
    /// Notes the best grade that an exchange of a connection can have.
    pub fn note(&mut self, slot: Slot, best: Grade) {
        if best == Grade::Turn {
            self.0.remove(&slot);
        } else {
            self.0.insert(slot, best);
        }
    }

    /// The best grade that an exchange of a connection can have.
    pub fn of(&self, slot: Slot) -> Grade {
        self.0.get(&slot).copied().unwrap_or(Grade::Turn)
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets the connections that have ended and whose exchanges were all output.
    pub fn forget(&mut self, closed: &Closed, is_open: impl Fn(Slot) -> bool) {
        let waiting = closed.slots();
        self.0.retain(|slot, _| is_open(*slot) || waiting.contains(slot));
    }
}
