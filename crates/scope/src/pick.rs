//! Picks: choosing by pointing instead of by writing a filter.

use magscope_core::FlowId;

/// What a user points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Nothing: all picks are undone.
    Nothing,
    /// A connection: both its directions.
    Flow(FlowId),
    /// A process, sending or reading.
    Process(u32),
    /// A container: its cgroup's number, sending or reading.
    Container(u64),
    /// Journeys that ended so: a number of [`magscope_core::Verdict::kind`].
    Verdict(usize),
}
