//! What the packets of a node have proven of its addresses, for a reader that begins amid a recording.
//!
//! **The problem.** A connection's first packets may be the only ones that prove its translation, or that a node passes
//! its packets on: later ones may be merged, cut or copied there. A reader that begins behind them would show the
//! connection as halves.
//!
//! **The choice.** Who reads a whole recording keeps the proofs. A later reader of a part begins with those from before
//! that part, so that both know the same at its first event.
//!
//! **Known limits.** The first [`MOST`] proofs are kept, which is some 10 MiB.

use super::directory::StreamKey;
use crate::flow::FlowId;
use crate::hash::Map;

/// Maximum number of proofs of one kind.
const MOST: usize = 1 << 17;

/// Proofs of one node, in order of time.
#[derive(Clone, Debug, Default)]
pub struct Proofs {
    /// By time, the addresses before a translation and those after it.
    translations: Vec<(u64, StreamKey, StreamKey)>,
    /// By time, flows whose packets are passed on; true: those that the node receives.
    passed_on: Vec<(u64, FlowId, bool)>,
}

impl Proofs {
    pub(super) fn translated(&mut self, time_ns: u64, before: StreamKey, after: StreamKey) {
        if self.translations.len() < MOST {
            self.translations.push((time_ns, before, after));
        }
    }

    pub(super) fn passes_on(&mut self, time_ns: u64, flow: FlowId, receives: bool) {
        if self.passed_on.len() < MOST {
            self.passed_on.push((time_ns, flow, receives));
        }
    }
}

/// What a reader knows at its first event.
#[derive(Debug, Default)]
pub(super) struct Proven {
    /// Addresses of one stream have the same number.
    groups: Map<StreamKey, u32>,
    /// The stream of each group, once one of its packets has come.
    slots: Vec<Option<u32>>,
    passes: Map<FlowId, [bool; 2]>,
}

impl Proven {
    /// From the proofs until an instant of the node's clock, nanoseconds.
    pub fn until(proofs: &Proofs, until_ns: u64) -> Self {
        let mut proven = Proven::default();
        for (_, before, after) in proofs.translations.iter().take_while(|(ns, ..)| *ns <= until_ns) {
            let next = proven.slots.len() as u32;
            let group = *proven.groups.entry(*before).or_insert(next);
            if group == next {
                proven.slots.push(None);
            }
            proven.groups.insert(*after, group);
        }
        for (_, flow, receives) in proofs.passed_on.iter().take_while(|(ns, ..)| *ns <= until_ns) {
            proven.passes.entry(*flow).or_default()[usize::from(*receives)] = true;
        }
        proven
    }

    /// Whether a node only passes on the packets that it sends, and receives, in a flow.
    pub fn passes(&self, flow: FlowId) -> [bool; 2] {
        self.passes.get(&flow).copied().unwrap_or_default()
    }

    /// The stream that other addresses of the same packets have.
    pub fn slot(&self, key: &StreamKey) -> Option<u32> {
        *self.slots.get(*self.groups.get(key)? as usize)?
    }

    /// A stream begins at these addresses.
    pub fn begins(&mut self, key: &StreamKey, slot: u32) {
        if let Some(place) = self.groups.get(key).and_then(|group| self.slots.get_mut(*group as usize)) {
            *place = Some(slot);
        }
    }

    /// Streams of the group end, or continue in another one.
    pub fn replace(&mut self, with: impl Fn(u32) -> Option<u32>) {
        for slot in &mut self.slots {
            *slot = slot.and_then(&with);
        }
    }
}
