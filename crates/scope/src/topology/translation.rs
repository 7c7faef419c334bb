//! Translations of addresses on a path: what they change, of one connection or of many.

use magscope_core::flow::canonical;
use magscope_core::{Direction, Endpoint, Flow};
use std::net::{IpAddr, SocketAddr};

/// Source and destination of a packet at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    source: Endpoint,
    destination: Endpoint,
}

impl Addresses {
    /// Those of a packet that a node with this flow sends or receives.
    pub fn of(flow: &Flow, direction: Direction) -> Self {
        let (local, remote) = (canonical(flow.local), canonical(flow.remote));
        if direction == Direction::Rx {
            Addresses { source: remote, destination: local }
        } else {
            Addresses { source: local, destination: remote }
        }
    }
}

/// The addresses of a packet before and after a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change(Addresses, Addresses);

impl Change {
    /// `None` if they are the same.
    pub fn between((before, after): (Addresses, Addresses)) -> Option<Self> {
        (before != after).then_some(Change(before, after))
    }
}

/// The addresses of one end over many packets: those that all have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Common {
    ip: Option<IpAddr>,
    /// 0 if they differ, and without ports.
    port: u16,
}

impl Common {
    const fn of(end: Endpoint) -> Self {
        Common { ip: Some(end.ip()), port: end.port() }
    }

    fn add(&mut self, end: Endpoint) {
        self.ip = self.ip.filter(|ip| *ip == end.ip());
        self.port = if self.port == end.port() { self.port } else { 0 };
    }

    fn words(self) -> String {
        match (self.ip, self.port) {
            (Some(ip), 0) => ip.to_string(),
            (Some(ip), port) => SocketAddr::new(ip, port).to_string(),
            (None, 0) => "several".to_owned(),
            (None, port) => format!("several:{port}"),
        }
    }
}

/// What one end became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    before: Common,
    after: Common,
}

impl Mapping {
    fn add(of: &mut Option<Self>, before: Endpoint, after: Endpoint) {
        match of {
            _ if before == after => {}
            Some(mapping) => {
                mapping.before.add(before);
                mapping.after.add(after);
            }
            None => *of = Some(Mapping { before: Common::of(before), after: Common::of(after) }),
        }
    }

    fn words(self, end: &str) -> String {
        format!("{end} {} → {}", self.before.words(), self.after.words())
    }
}

/// The translations of all journeys at one place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Translation {
    source: Option<Mapping>,
    destination: Option<Mapping>,
}

impl Translation {
    pub fn add(&mut self, Change(before, after): Change) {
        Mapping::add(&mut self.source, before.source, after.source);
        Mapping::add(&mut self.destination, before.destination, after.destination);
    }

    /// `source 10.0.0.1 → 192.0.2.1, destination …`: without a port that not all have. `None` without any translation.
    pub fn words(&self) -> Option<String> {
        let ends = [(self.source, "source"), (self.destination, "destination")];
        let words: Vec<String> =
            ends.into_iter().filter_map(|(mapping, end)| Some(mapping?.words(end))).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(source: &str, destination: &str) -> Addresses {
        let end = |text: &str| text.parse().expect("an address");
        Addresses { source: end(source), destination: end(destination) }
    }

    fn add(all: &mut Translation, before: (&str, &str), after: (&str, &str)) {
        let pair = (addresses(before.0, before.1), addresses(after.0, after.1));
        all.add(Change::between(pair).expect("a change"));
    }

    #[test]
    fn many_connections_have_the_words_that_are_true_of_all() {
        let mut masquerade = Translation::default();
        assert_eq!(masquerade.words(), None);
        add(&mut masquerade, ("10.0.0.1:4000", "192.0.2.9:80"), ("192.0.2.1:4000", "192.0.2.9:80"));
        assert_eq!(masquerade.words().as_deref(), Some("source 10.0.0.1:4000 → 192.0.2.1:4000"));
        add(&mut masquerade, ("10.0.0.1:4001", "192.0.2.9:80"), ("192.0.2.1:61000", "192.0.2.9:80"));
        assert_eq!(masquerade.words().as_deref(), Some("source 10.0.0.1 → 192.0.2.1"));
        add(&mut masquerade, ("10.0.0.2:4001", "192.0.2.9:80"), ("192.0.2.1:61000", "192.0.2.9:80"));
        assert_eq!(masquerade.words().as_deref(), Some("source several → 192.0.2.1"));

        let mut published = Translation::default();
        for client in ["10.0.0.1:5", "10.0.0.2:6"] {
            add(&mut published, (client, "192.0.2.1:8080"), (client, "172.17.0.2:80"));
        }
        assert_eq!(published.words().as_deref(), Some("destination 192.0.2.1:8080 → 172.17.0.2:80"));
    }
}
