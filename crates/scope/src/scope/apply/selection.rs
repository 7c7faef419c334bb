//! Selection: by a filter, by a click, of one hop, of one journey.

use super::step;
use crate::choice::Choice;
use crate::condition;
use crate::controls::{Align, Top};
use crate::lane::{Lane, Place};
use crate::lifeline::Lifeline;
use crate::pick::Pick;
use crate::scope::Scope;
use crate::timebase::Timebase;
use crate::views::{Rows, View};

/// A journey of less than this part of the picture is a hairline.
const LEAST_SHARE: u64 = 20;

impl Scope {
    pub(super) fn filter(&mut self, text: &str) {
        let choice = if text.trim().is_empty() { Ok(None) } else { Choice::parse(text).map(Some) };
        let choice = match choice {
            Ok(choice) => choice,
            Err(error) => return self.show_message(format!("filter: {error}"), true),
        };
        if choice.as_ref().is_some_and(|choice| choice.journeys.is_none()) {
            self.show(View::Requests);
        }
        self.controls.filter = choice;
        // A recording's requests are read again, like its journeys.
        if !self.is_recorded() {
            self.controls.request = None;
            self.requests.filter_by(self.controls.request_filter().cloned(), &self.names);
        }
        self.refilter();
    }

    /// Adds the selected row to the filter, or excludes it.
    pub(super) fn narrow(&mut self, only: bool) {
        let Some(this) = self.selected_condition() else {
            let words = if self.controls.view.spec().rows == Rows::Legs {
                "no filter names a path: open it, and its journeys are picked"
            } else {
                "select a flow, a journey, an event or a request first"
            };
            return self.show_message(words.to_owned(), true);
        };
        self.narrow_to(&this, only);
    }

    /// Adds a condition to the filter, or excludes what matches it.
    pub(super) fn narrow_to(&mut self, condition: &str, only: bool) {
        let this = if only { condition.to_owned() } else { format!("not {condition}") };
        let text = match &self.controls.filter {
            Some(filter) => format!("({filter}) and {this}"),
            None => this,
        };
        self.filter(&text);
    }

    /// The selected row of the view as a condition.
    fn selected_condition(&self) -> Option<String> {
        match self.controls.view.spec().rows {
            Rows::Flows => {
                let row = self.counts.flows.at(&self.flow_query(), self.controls.row)?;
                self.condition_of(&row)
            }
            Rows::Events => self.events(1).rows.first().and_then(|row| row.ends).map(condition::of_ends),
            Rows::Requests => {
                let selected = self.requests.listed().find(|slow| Some(slow.id) == self.controls.request)?;
                condition::of_service(&selected.service)
            }
            Rows::Journeys | Rows::Picture | Rows::Pairs | Rows::Legs | Rows::Lines => {
                let line = self
                    .selected
                    .as_ref()
                    .or_else(|| self.listed.iter().find(|line| Some(line.key()) == self.controls.journey))?;
                condition::of_journey(line)
            }
        }
    }

    pub(super) fn pick(&mut self, pick: Pick) {
        if pick == Pick::Nothing {
            self.controls.picks.clear();
        } else {
            self.controls.picks.retain(|other| !other.is_like(&pick));
            self.controls.picks.push(pick);
        }
        self.refilter();
    }

    /// Rebuilds everything after a change of filter.
    pub(super) fn refilter(&mut self) {
        self.unselect();
        self.recount();
        let (controls, names) = (&self.controls, &self.names);
        self.memory.relist(|line| controls.accepts(line, names));
        let before = std::mem::take(&mut self.sweep);
        self.overlay = None;
        // The picture's journey may no longer match; then the slowest match replaces it.
        let anchor = before.lifelines.iter().find(|line| Some(line.key()) == before.anchor);
        let anchor = anchor.filter(|line| self.controls.accepts(line, &self.names)).cloned();
        let accepted = self.memory.recent().filter(|line| self.controls.accepts(line, &self.names));
        let slowest = accepted.max_by_key(|line| (line.journey.verdict.is_whole(), line.total_ns())).cloned();
        match anchor.or(slowest) {
            Some(line) => self.take_for(&line),
            None => self.redraw(),
        }
        self.relist();
        self.measure();
        self.overlay_again();
    }

    pub(super) fn select_lane(&mut self, by: i8) {
        let can_be =
            |lane: &&Lane| matches!(lane.place, Place::Hop(_) | Place::Forwarder(_)) && !self.is_folded(lane);
        let places: Vec<_> = self.lanes.iter().filter(can_be).map(|lane| lane.place).collect();
        let now = self.controls.lane.and_then(|lane| places.iter().position(|other| *other == lane));
        self.controls.lane = step(now, by, places.len()).and_then(|at| places.get(at)).copied();
    }

    pub(super) fn select_journey(&mut self, by: i8) {
        let now = self.controls.journey.and_then(|key| self.listed.iter().position(|line| line.key() == key));
        let Some(line) = step(now, by, self.listed.len()).and_then(|at| self.listed.get(at)) else { return };
        let line = line.clone();
        // The key that opens is for the newer selection.
        self.controls.lane = self.controls.hop().map(Place::Hop);
        self.select(&line);
    }

    /// Selects a journey and shows it.
    pub(super) fn select(&mut self, line: &Lifeline) {
        self.controls.journey = Some(line.key());
        if self.is_recorded() {
            self.pause();
            self.playhead.seek(line.start_ns());
        }
        self.selected = Some(line.clone());
        self.take_for(line);
        self.moved();
    }

    /// Selects a journey and shows it wide enough to be seen.
    pub(in crate::scope) fn choose_readably(&mut self, key: u64) {
        if let Some(line) = self.find(key) {
            self.show_readably(line.start_ns(), line.total_ns());
        }
        self.choose_journey(key);
    }

    pub(super) fn choose_journey(&mut self, key: u64) {
        if let Some(line) = self.find(key) {
            return self.select(&line);
        }
        // A recording can be read again: the pyramid has the instant.
        let (from_ns, to_ns) =
            (self.horizon.begin_ns(), self.horizon.end_ns().max(self.horizon.begin_ns() + 1));
        let columns = 4096;
        let found = self.counts.pyramid.slowest(from_ns, to_ns, columns).into_iter().find(|e| e.key == key);
        match found.filter(|_| self.is_recorded()) {
            Some(exemplar) => {
                self.horizon.remember();
                self.pause();
                self.controls.journey = Some(key);
                self.sweep.anchor = Some(key);
                self.playhead.seek(exemplar.start_ns);
                self.place_around(exemplar.start_ns, exemplar.total_ns);
                self.moved();
            }
            None => self.show_message("this journey is not kept any more".to_owned(), true),
        }
    }

    /// Moves the picture of a recording, unless a journey is inside it and wide enough to be seen.
    ///
    /// At no timebase has a journey without a length a width, so the picture keeps its own.
    fn show_readably(&mut self, start_ns: u64, total_ns: u64) {
        let (from_ns, to_ns) = (self.horizon.begin_ns(), self.horizon.end_ns());
        let is_inside = from_ns <= start_ns && start_ns.saturating_add(total_ns) <= to_ns;
        let is_wide = total_ns == 0 || total_ns.saturating_mul(LEAST_SHARE) >= to_ns.saturating_sub(from_ns);
        if self.is_recorded() && !(is_inside && is_wide) {
            self.horizon.remember();
            if total_ns == 0 {
                self.horizon.go(start_ns, 0.5);
            } else {
                self.place_around(start_ns, total_ns);
            }
        }
    }

    /// Places the picture so that a journey is amid it.
    fn place_around(&mut self, start_ns: u64, total_ns: u64) {
        let timebase = Timebase::holding(total_ns.saturating_mul(5) / 3);
        let span = timebase.span_ns();
        let ahead = (span.saturating_sub(total_ns) / 2).max(span / 10);
        self.horizon.place_at(start_ns.saturating_sub(ahead), 0.0, timebase);
    }

    /// The journey drawn nearest to an instant in a lane.
    pub(super) fn select_at(&mut self, time_ns: u64, within_ns: u64, lane: Option<Place>) {
        let lane = lane.filter(|lane| lane.has_events());
        let near = |line: &Lifeline| {
            let start_ns = if self.controls.align == Align::Start {
                line.start_ns() - self.horizon.begin_ns().min(line.start_ns())
            } else {
                0
            };
            let stops = self.path_stops(line).filter(|stop| lane.is_none_or(|lane| lane == stop.place));
            stops.map(|stop| stop.time_ns.saturating_sub(start_ns).abs_diff(time_ns)).min()
        };
        let lines = self.sweep.lifelines.iter().filter_map(|line| Some((near(line)?, line)));
        let nearest = lines.filter(|(far, _)| *far <= within_ns).min_by_key(|(far, line)| (*far, line.key()));
        if let Some(line) = nearest.map(|(_, line)| line.clone()) {
            self.controls.journey = Some(line.key());
            self.sweep.anchor = Some(line.key());
            self.selected = Some(line);
            self.controls.top = Top::Inspector;
            self.pause();
            self.relist();
        } else {
            let (from_ns, to_ns) = (time_ns.saturating_sub(within_ns), time_ns.saturating_add(within_ns));
            let slowest = self.counts.pyramid.slowest(from_ns, to_ns.saturating_add(1), 1);
            if let Some(exemplar) = slowest.first() {
                self.choose_journey(exemplar.key);
            }
        }
    }

    pub(super) fn unselect(&mut self) {
        self.controls.journey = None;
        if self.controls.top == Top::Inspector {
            self.controls.top = Top::Nothing;
        }
        self.selected = None;
    }
}

#[cfg(test)]
mod tests {
    use crate::action::Action;
    use crate::horizon::Horizon;
    use crate::recorded::Stretch;
    use crate::scope::Scope;
    use crate::scope::tests::recorded;
    use magscope_report::{Evidence, Headline};

    const MS: u64 = 1_000_000;

    /// A recording at 100 ms per division, and the key of a journey of 5 ms in it.
    fn wide() -> (Scope, u64) {
        let (mut scope, journeys) = recorded();
        scope.apply(Action::ZoomTo { from_ns: 895 * MS, to_ns: 915 * MS });
        let window = scope.wants().expect("it has to be read");
        scope.fill(Stretch { window, journeys, ..Stretch::default() });
        let key = scope.frame().sweep.lifelines.first().expect("a journey").key();
        scope.apply(Action::SetTimebase(100 * MS));
        assert!(scope.find(key).is_some_and(|line| (5 * MS..6 * MS).contains(&line.total_ns())));
        (scope, key)
    }

    /// Number of stretches to return to.
    fn steps_back(horizon: &Horizon) -> usize {
        let mut horizon = horizon.clone();
        std::iter::from_fn(|| horizon.back().then_some(())).count()
    }

    #[test]
    fn evidence_is_shown_readably_and_a_choice_keeps_the_timebase() {
        let (mut scope, key) = wide();
        let (steps, span_ns) = (steps_back(&scope.horizon), scope.horizon.timebase().span_ns());
        scope.apply(Action::ChooseJourney(key));
        assert_eq!(scope.controls.journey, Some(key));
        assert_eq!((steps_back(&scope.horizon), scope.horizon.timebase().span_ns()), (steps, span_ns));
        scope.apply(Action::FitJourney);
        assert_eq!(steps_back(&scope.horizon), steps + 1, "one step leads back");
        scope.apply(Action::ZoomBack);
        assert_eq!(scope.horizon.timebase().span_ns(), span_ns);

        scope.headline = Headline { evidence: Evidence::journeys([key]), ..Headline::default() };
        scope.apply(Action::ShowEvidence);
        assert_eq!((scope.controls.journey, steps_back(&scope.horizon)), (Some(key), steps + 1));
        assert!(scope.horizon.timebase().span_ns() <= 100 * MS, "{:?}", scope.horizon);
    }

    #[test]
    fn a_journey_without_a_length_keeps_the_timebase() {
        let (mut scope, _) = wide();
        let (before, timebase) = (scope.horizon.clone(), scope.horizon.timebase());
        scope.show_readably(before.begin_ns() + MS, 0);
        assert_eq!(scope.horizon, before, "it is inside");
        let later_ns = before.end_ns() + 500 * MS;
        scope.show_readably(later_ns, 0);
        assert_eq!((scope.horizon.timebase(), steps_back(&scope.horizon)), (timebase, steps_back(&before) + 1));
        assert!(scope.horizon.holds(later_ns), "{:?}", scope.horizon);
    }
}
