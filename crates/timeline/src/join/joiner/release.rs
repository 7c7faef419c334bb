//! Halves of running recordings that have waited long enough.
//!
//! **Problem**: running recordings have no end at which halves that still wait are output alone, so bytes from and to
//! hosts that are not captured would never be seen.
//!
//! **Choice**: a half is output alone when every recording has been read for a while beyond it. That while is short
//! where one end of a connection alone was ever seen, and as long as two halves may be apart where both were.
//!
//! **Limits**: a reader that takes the first bytes of a connection later than that has a half of its own.

use super::super::connection::Connection;
use super::super::half::Half;
use super::{Joined, Joiner};
use std::collections::BTreeSet;

/// How long a half waits where its connection has one end so far, nanoseconds.
const ONE_END_NS: u64 = 2_000_000_000;

impl Joiner<'_> {
    /// Outputs halves alone that have waited long enough, in a time that grows with those that wait. All recordings have
    /// been read to `read_ns` of the common time line.
    pub fn release_old(&mut self, read_ns: i64, done: &mut Vec<Joined>) {
        let has_both =
            |connection: usize| self.connections.get(connection).is_some_and(Connection::has_both_ends);
        let is_older = |half: &Half, ns: u64| self.rough_ns(half).saturating_add_unsigned(ns) < read_ns;
        let (mut old, mut in_order) = (Vec::new(), BTreeSet::new());
        for (number, (connection, half)) in
            self.waiting.iter().filter(|(_, (_, half))| is_older(half, ONE_END_NS))
        {
            if !has_both(*connection) || is_older(half, self.limits.max_apart_ns) {
                old.push((*number, *connection));
            }
            if has_both(*connection) && !half.is_stream() {
                in_order.insert(*connection);
            }
        }
        for connection in in_order {
            self.join_by_order(connection, done);
        }
        for (number, connection) in old {
            if let Some(half) = self.take(number) {
                self.alone(connection, half, false, done);
            }
        }
    }
}
