//! Upload progress of a recording, which permits retention to delete segments.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Shared counter: the uploader advances it in segment order, and the recorder checks it before a deletion.
#[derive(Clone, Debug, Default)]
pub struct Shipped(Arc<AtomicU32>);

impl Shipped {
    /// Segments with numbers below this one are uploaded.
    pub fn below(&self) -> u32 {
        self.0.load(Acquire)
    }

    /// Marks segments with numbers below this one as uploaded. The value never decreases.
    pub fn set_below(&self, number: u32) {
        self.0.fetch_max(number, Release);
    }
}

impl PartialEq for Shipped {
    /// True if both share one counter.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Shipped {}
