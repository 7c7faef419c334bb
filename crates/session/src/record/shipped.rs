//! How far a recording is kept elsewhere: what retention may delete without regret.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Told by whoever copies closed segments to another place, in their order; asked by the recorder before it deletes one.
#[derive(Clone, Debug, Default)]
pub struct Shipped(Arc<AtomicU32>);

impl Shipped {
    /// Segments with numbers below this one are kept elsewhere.
    pub fn below(&self) -> u32 {
        self.0.load(Acquire)
    }

    /// Segments with numbers below this one are kept elsewhere from now on. Never goes back.
    pub fn set_below(&self, number: u32) {
        self.0.fetch_max(number, Release);
    }
}

impl PartialEq for Shipped {
    /// Whether both are told by the same.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Shipped {}
