//! The memory that serves readers: one budget in bytes, and a share of it for each identity.
//!
//! A stream reserves the maximum of its work before it starts. It also accounts for later growth: the queue to
//! its client, and the tables of its filter. A stream that does not fit is refused, or ends, with a message.
//! The limits:
//!
//! - an identity has at most half of the streams and bytes; one with limits in its certificate has a quarter;
//! - identities with limits have together at most half.

use crate::grants::Grants;
use crate::hosts::Hosts;
use crate::pki::Peer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Default budget of an agent, bytes. With the default capture memory it fits the `MemoryMax` of the packaged
/// unit.
pub const READER_BYTES: u64 = 256 << 20;
/// Maximum number of concurrent streams, each with a thread: base value, and per host of a relay.
const STREAMS: (usize, usize) = (32, 8);
/// Base memory of a stream, bytes: its thread, and up to 400 KiB in the transport for a client that does not
/// read.
const STREAM_BYTES: u64 = 512 << 10;

/// Counts the streams and the bytes that serve readers.
#[derive(Debug)]
pub struct ReaderBudget {
    hosts: Arc<Hosts>,
    limit_bytes: u64,
    used: Mutex<BTreeMap<Identity, Usage>>,
}

/// The reading identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    limited: bool,
    name: String,
}

/// Streams and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    streams: usize,
    bytes: u64,
}

/// A limit of the budget does not allow a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{whose} at most {most}; end streams that are not needed{advice}")]
pub struct Exhausted {
    whose: String,
    most: String,
    advice: &'static str,
}

/// One stream's share of the budget, returned on drop.
#[derive(Debug)]
pub struct ReaderPermit {
    budget: Arc<ReaderBudget>,
    identity: Identity,
    reserved_bytes: u64,
    bytes: u64,
}

impl Usage {
    fn fits(self, most: Self, whose: impl Fn() -> String) -> Result<(), Exhausted> {
        if self.streams > most.streams {
            let most = format!("{} streams at a time", most.streams);
            return Err(Exhausted { whose: whose(), most, advice: "" });
        }
        if self.bytes > most.bytes {
            let most = format!("{:.0} MiB of memory", most.bytes as f64 / f64::from(1 << 20));
            let advice = ", or give the agent a larger `--reader-memory`";
            return Err(Exhausted { whose: whose(), most, advice });
        }
        Ok(())
    }

    fn part(self, of: usize) -> Self {
        Usage { streams: self.streams / of, bytes: self.bytes / of as u64 }
    }

    fn add(self, other: Self) -> Self {
        Usage { streams: self.streams + other.streams, bytes: self.bytes.saturating_add(other.bytes) }
    }
}

impl ReaderBudget {
    /// A budget of so many bytes for the readers of these hosts.
    pub fn new(hosts: Arc<Hosts>, limit_bytes: u64) -> Arc<Self> {
        Arc::new(ReaderBudget { hosts, limit_bytes, used: Mutex::default() })
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<Identity, Usage>> {
        // A panic elsewhere leaves the table consistent.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn total(&self) -> Usage {
        self.used().values().copied().fold(Usage::default(), Usage::add)
    }

    /// Streams that are being read.
    pub fn streams(&self) -> usize {
        self.total().streams
    }

    /// Bytes that serve readers.
    pub fn bytes(&self) -> u64 {
        self.total().bytes
    }

    /// The limit, bytes.
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// Reserves a stream and `work_bytes` for its work, in addition to the base memory.
    ///
    /// # Errors
    /// [`Exhausted`], with the limit.
    pub fn admit(self: &Arc<Self>, peer: &Peer, work_bytes: u64) -> Result<ReaderPermit, Exhausted> {
        let identity = Identity { limited: peer.grants != Grants::default(), name: peer.name.clone() };
        let bytes = STREAM_BYTES.saturating_add(work_bytes);
        self.change(&identity, |usage| usage.add(Usage { streams: 1, bytes }))?;
        Ok(ReaderPermit { budget: self.clone(), identity, reserved_bytes: bytes, bytes })
    }

    /// Changes what an identity uses, unless it grows beyond a limit.
    fn change(&self, identity: &Identity, to: impl FnOnce(Usage) -> Usage) -> Result<(), Exhausted> {
        let streams = STREAMS.0.max(self.hosts.len().saturating_mul(STREAMS.1));
        let all = Usage { streams, bytes: self.limit_bytes };
        let mut used = self.used();
        let before = used.get(identity).copied().unwrap_or_default();
        let after = to(before);
        if after.streams > before.streams || after.bytes > before.bytes {
            let others = |limited: bool| {
                let others = used.iter().filter(|(other, _)| *other != identity && (!limited || other.limited));
                others.map(|(_, usage)| *usage).fold(after, Usage::add)
            };
            let own = all.part(if identity.limited { 4 } else { 2 });
            after.fits(own, || format!("the streams of `{}` together have", identity.name))?;
            if identity.limited {
                let whose = || "the streams of all viewers with limits together have".to_owned();
                others(true).fits(all.part(2), whose)?;
            }
            others(false).fits(all, || "all streams together have".to_owned())?;
        }
        if after == Usage::default() {
            used.remove(identity);
        } else {
            used.insert(identity.clone(), after);
        }
        Ok(())
    }
}

impl ReaderPermit {
    /// Accounts for `bytes` in addition to the reservation.
    ///
    /// # Errors
    /// [`Exhausted`]: the bytes are not accounted for, and the stream must release them.
    pub fn hold(&mut self, bytes: u64) -> Result<(), Exhausted> {
        let (before, after) = (self.bytes, self.reserved_bytes.saturating_add(bytes));
        if before != after {
            let other = |usage: Usage| Usage { bytes: usage.bytes.saturating_sub(before) + after, ..usage };
            self.budget.change(&self.identity, other)?;
            self.bytes = after;
        }
        Ok(())
    }
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        let less = |usage: Usage| Usage {
            streams: usage.streams.saturating_sub(1),
            bytes: usage.bytes.saturating_sub(self.bytes),
        };
        // A reduction is never refused.
        let _ = self.budget.change(&self.identity, less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, no_payload: bool) -> Peer {
        Peer { name: name.to_owned(), grants: Grants { no_payload, ..Grants::default() } }
    }

    fn admitted(budget: &Arc<ReaderBudget>, peer: &Peer, bytes: u64) -> Vec<ReaderPermit> {
        std::iter::from_fn(|| budget.admit(peer, bytes).ok()).take(1_000).collect()
    }

    #[test]
    fn nobody_holds_all_streams() {
        let budget = ReaderBudget::new(Arc::default(), READER_BYTES);
        let guest = admitted(&budget, &peer("guest", true), 0);
        let other = admitted(&budget, &peer("other", true), 0);
        assert_eq!((guest.len(), other.len()), (8, 8));
        let third = budget.admit(&peer("third", true), 0).expect_err("limited viewers have half").to_string();
        assert!(third.contains("viewers with limits") && third.contains("16 streams"), "{third}");
        let own = admitted(&budget, &peer("me", false), 0);
        assert_eq!((own.len(), budget.streams()), (16, 32));
        let full = budget.admit(&peer("root", false), 0).expect_err("it is full").to_string();
        assert!(full.contains("32 streams"), "{full}");
        drop(guest);
        assert!(budget.admit(&peer("root", false), 0).is_ok());
        drop((own, other));
        assert_eq!((budget.streams(), budget.bytes()), (0, 0));
    }

    #[test]
    fn bytes_are_counted_as_they_grow_and_shrink() {
        let budget = ReaderBudget::new(Arc::default(), 64 << 20);
        let guest = peer("guest", true);
        let mut permit = budget.admit(&guest, 8 << 20).expect("16 MiB are its share");
        let refused = budget.admit(&guest, 8 << 20).expect_err("more than its share").to_string();
        assert!(refused.contains("`guest`") && refused.contains("16 MiB"), "{refused}");
        permit.hold(7 << 20).expect("it fits");
        assert_eq!(budget.bytes(), (15 << 20) + STREAM_BYTES);
        assert!(permit.hold(9 << 20).is_err());
        assert_eq!(budget.bytes(), (15 << 20) + STREAM_BYTES, "a refusal changes nothing");
        permit.hold(0).expect("less always fits");
        assert!(budget.admit(&guest, 7 << 20).is_ok());
        drop(permit);
        assert_eq!(budget.bytes(), 0);
    }
}
