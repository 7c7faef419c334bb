//! How many may come at a time: more where there are more hosts to be read, since each is read apart.

use crate::hosts::Hosts;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Seats that are taken and given back.
#[derive(Clone, Debug)]
pub struct Seats {
    hosts: Arc<Hosts>,
    least: usize,
    each: usize,
    taken: Arc<AtomicUsize>,
}

/// A seat, given back when it goes.
#[derive(Debug)]
pub struct Seat(Arc<AtomicUsize>);

impl Seats {
    /// So many for each host, and so many at the least.
    pub fn new(hosts: &Arc<Hosts>, least: usize, each: usize) -> Self {
        Seats { hosts: hosts.clone(), least, each, taken: Arc::default() }
    }

    /// As many elsewhere, of which none is taken.
    pub fn apart(&self) -> Self {
        Seats { taken: Arc::default(), ..self.clone() }
    }

    /// How many there are.
    pub fn most(&self) -> usize {
        self.least.max(self.hosts.len().saturating_mul(self.each))
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// One of them, if one is free.
    pub fn take(&self) -> Option<Seat> {
        let most = self.most();
        let more = |taken| (taken < most).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Seat(self.taken.clone()))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
