//! Limits connections, in total and per key: an address or an identity.
//!
//! Two rules apply. A peer without a known identity replaces another connection: the one idle longest of the
//! key with the most. Idle connections therefore never block others. A peer with a known identity is refused
//! above its share: no peer can end another's connection.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Maximum numbers of connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// In total.
    pub total: usize,
    /// Per key.
    pub each: usize,
}

/// Counts connections and hands out permits. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct ConnectionLimiter(Arc<Mutex<Connections>>);

#[derive(Debug, Default)]
struct Connections {
    next: u64,
    /// Connections by last activity, oldest first.
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    key: String,
    /// True until the peer has sent data; such connections are replaced first.
    silent: bool,
    replaced: Arc<Notify>,
}

/// Permit for one connection, returned on drop.
#[derive(Debug)]
pub struct ConnectionPermit {
    limiter: ConnectionLimiter,
    number: u64,
    replaced: Arc<Notify>,
}

/// The key of an address: an IPv6 network of 64 bits counts as one address, because one host can use all of it.
pub fn address_key(ip: IpAddr) -> String {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
    }
}

impl ConnectionLimiter {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        // A panic elsewhere leaves the table consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of open connections.
    pub fn open(&self) -> usize {
        self.connections().open.len()
    }

    /// A permit, or `None` at the limit.
    pub fn admit(&self, key: &str, most: ConnectionLimits) -> Option<ConnectionPermit> {
        let mut all = self.connections();
        let own = all.open.values().filter(|open| open.key == key).count();
        (own < most.each && all.open.len() < most.total).then(|| self.add(&mut all, key))
    }

    /// A permit in any case; the second value is true if another connection has to end.
    pub fn admit_or_replace(&self, key: &str, most: ConnectionLimits) -> (ConnectionPermit, bool) {
        let mut all = self.connections();
        let own = all.open.values().filter(|open| open.key == key).count();
        let from = if own >= most.each {
            Some(key.to_owned())
        } else if all.open.len() >= most.total {
            all.greediest()
        } else {
            None
        };
        let idle = from.and_then(|from| all.idlest(&from));
        let replaced = idle.and_then(|at| all.open.remove(&at));
        if let Some(open) = &replaced {
            open.replaced.notify_one();
        }
        (self.add(&mut all, key), replaced.is_some())
    }

    fn add(&self, all: &mut Connections, key: &str) -> ConnectionPermit {
        let (number, replaced) = (all.next, Arc::<Notify>::default());
        all.next += 1;
        all.open.insert(number, Open { key: key.to_owned(), silent: true, replaced: replaced.clone() });
        ConnectionPermit { limiter: self.clone(), number, replaced }
    }
}

impl Connections {
    /// The connection of a key that is replaced first: the oldest silent one, else the oldest.
    fn idlest(&self, key: &str) -> Option<u64> {
        let of_key = || self.open.iter().filter(|(_, open)| open.key == key);
        of_key().find(|(_, open)| open.silent).or_else(|| of_key().next()).map(|(at, _)| *at)
    }

    /// The key with the most connections.
    fn greediest(&self) -> Option<String> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for open in self.open.values() {
            *counts.entry(&open.key).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(key, _)| key.to_owned())
    }
}

impl ConnectionPermit {
    /// Returns when another connection has replaced this one.
    pub async fn replaced(&self) {
        self.replaced.notified().await;
    }

    /// Marks the connection as one whose peer has sent data.
    pub fn mark_active(&self) {
        if let Some(open) = self.limiter.connections().open.get_mut(&self.number) {
            open.silent = false;
        }
    }

    /// Marks the connection as active now.
    pub fn touch(&mut self) {
        let mut all = self.limiter.connections();
        if let Some(open) = all.open.remove(&self.number) {
            self.number = all.next;
            all.next += 1;
            all.open.insert(self.number, open);
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.connections().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const MOST: ConnectionLimits = ConnectionLimits { total: 4, each: 2 };

    fn is_replaced(permit: &ConnectionPermit) -> bool {
        permit.replaced().now_or_never().is_some()
    }

    #[test]
    fn a_known_identity_has_its_share_and_ends_nobody() {
        let limiter = ConnectionLimiter::default();
        let first = limiter.admit("a", MOST);
        let second = limiter.admit("a", MOST);
        assert!(first.is_some() && second.is_some() && limiter.admit("a", MOST).is_none());
        let others = [limiter.admit("b", MOST), limiter.admit("c", MOST)];
        assert!(others.iter().all(Option::is_some) && limiter.admit("d", MOST).is_none());
        drop(first);
        assert!(limiter.admit("d", MOST).is_some());
        assert_eq!(limiter.open(), 3);
    }

    #[test]
    fn a_flood_replaces_its_own_idle_connections() {
        let limiter = ConnectionLimiter::default();
        let (mut first, _) = limiter.admit_or_replace("flood", MOST);
        let (second, _) = limiter.admit_or_replace("flood", MOST);
        first.touch();
        let (third, replaced) = limiter.admit_or_replace("flood", MOST);
        assert!(replaced && is_replaced(&second) && !is_replaced(&first) && !is_replaced(&third));
        drop(second);
        let others = ["a", "b"].map(|key| limiter.admit_or_replace(key, MOST).0);
        let (_last, replaced) = limiter.admit_or_replace("c", MOST);
        assert!(replaced && is_replaced(&first) && !others.iter().any(is_replaced), "{limiter:?}");
        assert_eq!(limiter.open(), 4);
    }

    #[test]
    fn who_has_spoken_outlasts_who_is_silent() {
        let limiter = ConnectionLimiter::default();
        let (first, _) = limiter.admit_or_replace("a", MOST);
        first.mark_active();
        let (second, _) = limiter.admit_or_replace("a", MOST);
        let (_third, replaced) = limiter.admit_or_replace("a", MOST);
        assert!(replaced && is_replaced(&second) && !is_replaced(&first));
    }

    #[test]
    fn one_host_has_one_key() {
        let key = |ip: &str| address_key(ip.parse().expect("an address"));
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
        assert_eq!(key("::ffff:10.0.0.1"), key("10.0.0.1"));
        assert_ne!(key("10.0.0.1"), key("10.0.0.2"));
    }
}
