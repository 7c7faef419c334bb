//! What this program uses itself, for its snapshots.

use magscope_sensor::SelfUsage;

/// This program and its processor time.
pub fn own() -> SelfUsage {
    let cpu_ns = u64::try_from(crate::meters::cpu_time().as_nanos()).unwrap_or(u64::MAX);
    SelfUsage { version: env!("CARGO_PKG_VERSION").to_owned(), cpu_ns }
}
