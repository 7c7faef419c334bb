//! What to try where nothing happens: a capture of a quiet host shows empty lanes.

use super::Scope;
use crate::frame::{Frame, State};
use magscope_core::{Container, Hop};

/// Time without a journey until there are suggestions, nanoseconds.
const QUIET_NS: u64 = 3_000_000_000;

impl Scope {
    /// Counts the time without a journey.
    pub(super) fn wait(&mut self, elapsed_ns: u64) {
        if !self.suggests || self.waited_ns >= QUIET_NS {
            return;
        }
        self.waited_ns = self.waited_ns.saturating_add(elapsed_ns);
        if self.waited_ns >= QUIET_NS {
            self.revision += 1;
        }
    }

    fn is_quiet(&self) -> bool {
        self.state == State::Live && self.waited_ns >= QUIET_NS && !self.has_traffic()
    }

    /// True after a journey, an event of the path or a sum of the kernel. Refused connections have no journeys.
    fn has_traffic(&self) -> bool {
        self.totals.outcomes.journeys() > 0
            || Hop::path().iter().any(|hop| self.seen.contains(*hop))
            || self.hop_sums.iter().any(|hits| *hits > 0)
    }
}

impl Frame<'_> {
    /// Commands to try, the reason first; empty as long as there is a journey, and before there could be one.
    pub fn suggestions(&self) -> Vec<String> {
        if !self.scope.is_quiet() {
            return Vec::new();
        }
        let containers = self.scope.names.infos().iter().flat_map(|info| &info.containers);
        suggestions(containers)
    }
}

/// The lines for a quiet host with these containers.
fn suggestions<'c>(containers: impl Iterator<Item = &'c Container>) -> Vec<String> {
    let mut lines = ["no traffic here yet; try", "  magnet-scope demo", "  magnet-scope run -- curl …"]
        .map(str::to_owned)
        .to_vec();
    // The same one in every picture. Of a pod it is not the one that holds its namespaces.
    let name = containers.filter(|container| !container.is_infra).map(Container::display).min();
    lines.extend(name.map(|name| format!("  magnet-scope --container {name}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use magscope_core::node::NodeInfo;
    use magscope_core::{Batch, Event};

    fn container(name: &str, is_infra: bool) -> Container {
        Container { name: name.to_owned(), is_infra, ..Container::default() }
    }

    fn lines(scope: &Scope) -> Vec<String> {
        scope.frame().suggestions()
    }

    #[test]
    fn a_quiet_host_has_suggestions_after_three_seconds() {
        let info = NodeInfo { containers: vec![container("web", false)], ..NodeInfo::default() };
        let mut scope = Scope::new(info.clone(), Options { suggests: true, ..Options::default() });
        scope.tick(QUIET_NS - 1);
        assert!(lines(&scope).is_empty());
        let revision = scope.revision();
        scope.tick(1);
        assert!(scope.revision() > revision, "the picture is drawn again");
        assert_eq!(lines(&scope).last().map(String::as_str), Some("  magnet-scope --container web"));
        // A screen of agents or of a recording cannot be helped by these commands.
        let mut other = Scope::new(info, Options::default());
        other.tick(2 * QUIET_NS);
        assert!(lines(&other).is_empty());
    }

    #[test]
    fn traffic_without_a_journey_is_traffic() {
        let mut scope = Scope::new(NodeInfo::default(), Options { suggests: true, ..Options::default() });
        scope.tick(QUIET_NS);
        assert!(!lines(&scope).is_empty());
        let event = Event { segs: 1, ..Event::at(Hop::DevXmit, 1_000) };
        scope.ingest(&Batch { events: vec![event], ..Batch::default() });
        assert!(lines(&scope).is_empty());
    }

    #[test]
    fn the_container_is_the_first_by_name_and_holds_a_program() {
        let all = [container("web", false), container("db", false), container("a-pause", true)];
        assert_eq!(suggestions(all.iter()).last().map(String::as_str), Some("  magnet-scope --container db"));
        assert_eq!(suggestions(all[2..].iter()).len(), 3);
    }
}
