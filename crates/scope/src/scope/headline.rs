//! The headline of the capture so far, and the way to its evidence.

use super::Scope;
use crate::controls::{List, Top};
use crate::lifeline::Lifeline;
use crate::views::View;
use magscope_core::blame::Blame;
use magscope_report::{Evidence, Facts, Headline, HeadlineKind, REQUEST_SERVICES, headline};

/// Bucket edges of a recording between two headlines while it is read: a minute.
const RECORDED_EDGES: u64 = 120;

impl Scope {
    /// The headline; empty before the first half second.
    pub fn headline(&self) -> &Headline {
        &self.headline
    }

    /// Counts a journey for the headline. Filters do not narrow it.
    pub(super) fn note_finding(&mut self, line: &Lifeline) {
        let journey = &line.journey;
        let hops = self.names.served(journey, line.end_ns());
        let blame = journey.verdict.is_whole().then(|| Blame::of(journey, hops)).flatten();
        // A stopped live view stores no journeys.
        let is_stored = !self.controls.paused || self.is_recorded();
        self.findings.journey(journey, is_stored.then(|| line.key()), blame.as_ref(), &self.names);
    }

    /// Concludes after bucket edges.
    pub(super) fn conclude_after(&mut self, edges: u64) {
        self.concluded_edges = self.concluded_edges.saturating_add(edges);
        if !self.is_recorded() || self.concluded_edges >= RECORDED_EDGES {
            self.conclude();
        }
    }

    /// Concludes from everything so far.
    pub(super) fn conclude(&mut self) {
        self.concluded_edges = 0;
        let reasons = self.freed(false);
        let counts = self.counts_now();
        self.headline = headline(&Facts {
            findings: &self.findings,
            requests: Some(&self.requests.table(REQUEST_SERVICES)),
            counts,
            outcomes: &self.totals.outcomes,
            infos: self.names.infos(),
            omissions: self.weights.omissions(),
            events: self.hop_events.iter().sum(),
            duration_ns: match &self.recorded {
                Some(recorded) => recorded.counted_ns(),
                None => self.begin_ns.map_or(0, |begin_ns| self.now_ns.saturating_sub(begin_ns)),
            },
            sums: counts.journeys == 0 && self.draws_sums(),
            reasons: &reasons,
        });
        // Nothing is promised that cannot be shown. A recording is read again.
        if !self.is_recorded() {
            let evidence = std::mem::take(&mut self.headline.evidence);
            self.headline.evidence = match evidence {
                Evidence::Journeys(keys) => {
                    Evidence::journeys(keys.into_iter().filter(|key| self.find(*key).is_some()))
                }
                Evidence::Event(at_ns) if !self.journal.has_at(at_ns) => Evidence::None,
                other => other,
            };
        }
    }

    /// Shows the evidence of the headline. False without any.
    pub(super) fn show_evidence(&mut self) -> bool {
        match self.headline.evidence.clone() {
            Evidence::None => return false,
            Evidence::Losses => self.show(View::Losses),
            Evidence::Event(at_ns) => {
                self.seek(at_ns);
                if self.controls.cursors.is_some() {
                    // The list of events is at the chosen cursor.
                    self.cursors(|cursors| cursors.place(cursors.chosen, at_ns));
                }
                self.show(View::Events);
            }
            Evidence::Request(id) => {
                self.show(View::Requests);
                self.requests.list_also(id);
                self.controls.request = Some(id);
            }
            Evidence::Journeys(keys) => {
                let Some(key) = keys.iter().find(|key| self.find(**key).is_some()).or(keys.first()).copied()
                else {
                    return false;
                };
                self.show(View::Scope);
                if self.headline.kind == HeadlineKind::Loss {
                    self.controls.list = List::Bad;
                    self.relist();
                }
                self.choose_readably(key);
                let is_found = self.controls.journey == Some(key);
                self.controls.top = if is_found { Top::Inspector } else { Top::Nothing };
            }
        }
        true
    }
}
