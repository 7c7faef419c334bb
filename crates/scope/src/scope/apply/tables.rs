//! Views and the rows of their tables.

use crate::controls::{Top, Within};
use crate::lane::Place;
use crate::lifeline::Lifeline;
use crate::look::FlowGroup;
use crate::pick::Pick;
use crate::scope::Scope;
use crate::views::{Rows, View};
use magscope_core::Hop;
use magscope_core::exchange::ExchangePart;
use magscope_report::GroupBy;

/// Maximum number of lines of a view without rows.
const MOST_LINES: usize = 1_000;

impl Scope {
    pub(in crate::scope) fn show(&mut self, view: View) {
        self.controls.view = view;
        self.controls.row = 0;
        self.controls.event = 0;
    }

    pub(super) fn select_row(&mut self, by: i32) {
        match self.controls.view.spec().rows {
            Rows::Journeys | Rows::Picture => {
                self.select_journey(by.clamp(i32::from(i8::MIN), i32::from(i8::MAX)) as i8);
            }
            Rows::Events => {
                self.controls.event = self.controls.event.saturating_add(i64::from(by));
                let most = self.journal.len() as i64;
                self.controls.event = self.controls.event.clamp(-most, most);
            }
            Rows::Flows => {
                let last = self.counts.flows.len(&self.flow_query()).saturating_sub(1);
                self.controls.row = self.controls.row.saturating_add_signed(by as isize).min(last);
            }
            Rows::Pairs => {
                let last = self.hop_rows().len().saturating_sub(1);
                self.controls.row = self.controls.row.min(last).saturating_add_signed(by as isize).min(last);
            }
            Rows::Requests => self.select_request(by),
            Rows::Legs => {
                let path = self.counts.topology.path_at(&self.topology_query(), by);
                self.controls.path = path.unwrap_or_default();
            }
            Rows::Lines => {
                // The front end knows the number of lines on its screen, and limits the row to it.
                self.controls.row = self.controls.row.saturating_add_signed(by as isize).min(MOST_LINES);
            }
        }
    }

    /// The hop that each row of the view of hops leads to, none for a whole journey or a wait: journeys' rows, then those of the kernel's sums.
    fn hop_rows(&self) -> Vec<Option<Hop>> {
        let (journeys, sums) = (self.heat_map(1, 1, &(0..0)), self.sum_map(1, 1, &(0..0)).map);
        journeys.rows.iter().chain(&sums.rows).map(|row| row.span.to()).collect()
    }

    pub(super) fn take_row(&mut self) {
        match self.controls.view.spec().rows {
            Rows::Flows => {
                let row = self.counts.flows.at(&self.flow_query(), self.controls.row);
                match row.map(|row| (row.flow, row.group)) {
                    Some((_, Some(group))) => self.open_group(&group),
                    Some((flow, None)) => {
                        self.pick(Pick::Flow(flow));
                        self.show(View::Scope);
                    }
                    None => {}
                }
            }
            Rows::Events => {
                if let Some(at_ns) = self.selected_entry_ns() {
                    self.show(View::Scope);
                    self.seek(at_ns);
                }
            }
            Rows::Pairs => {
                let rows = self.hop_rows();
                let hop = rows.get(self.controls.row).or(rows.last()).copied().flatten();
                self.controls.lane = hop.map(Place::Hop);
                self.show(View::Scope);
            }
            Rows::Picture | Rows::Journeys => {
                if self.controls.journey.is_none() {
                    self.select_journey(1);
                }
                self.show(View::Scope);
                self.controls.top = if self.controls.journey.is_some() { Top::Inspector } else { Top::Nothing };
            }
            Rows::Requests => self.show_journey_of_request(),
            Rows::Legs => {
                if let Some(path) = self.counts.topology.pick(&self.topology_query()) {
                    self.pick(Pick::Path(path));
                    self.show(View::Flows);
                }
            }
            Rows::Lines => {}
        }
    }

    /// Groups flows, or lists each.
    pub(super) fn group_flows(&mut self, by: GroupBy) {
        self.controls.flows_by = by;
        self.controls.within = None;
        self.controls.row = 0;
    }

    /// Lists the flows of the group in a row.
    pub(super) fn open_group_at(&mut self, row: usize) {
        let group = self.counts.flows.at(&self.flow_query(), row).and_then(|row| row.group);
        if let Some(group) = group {
            self.controls.row = row;
            self.open_group(&group);
        }
    }

    /// Lists the flows of a group.
    fn open_group(&mut self, group: &FlowGroup) {
        let words = group.name();
        let (by, row) = (self.controls.flows_by, self.controls.row);
        self.group_flows(GroupBy::Flow);
        self.controls.within = Some(Within { by, id: group.id, words, row });
    }

    /// Leaves a group that was opened, for its row. False without one.
    fn leave_group(&mut self) -> bool {
        let Some(within) = self.controls.within.take() else { return false };
        self.controls.flows_by = within.by;
        self.controls.row = within.row;
        true
    }

    fn select_request(&mut self, by: i32) {
        let listed: Vec<u64> = self.requests.listed().map(|slow| slow.id).collect();
        let now = listed.iter().position(|id| Some(*id) == self.controls.request);
        let last = listed.len().saturating_sub(1);
        let first = if by < 0 { last } else { 0 };
        let at = now.map_or(first, |now| now.saturating_add_signed(by as isize).min(last));
        self.controls.request = listed.get(at).copied();
    }

    /// From a journey to its request, and from a request to the journey that ended its longer transfer.
    pub(super) fn exchange(&mut self) {
        if self.controls.view == View::Requests {
            return self.show_journey_of_request();
        }
        let Some(line) = self.selected.clone().or_else(|| self.controls.journey.and_then(|key| self.find(key)))
        else {
            return self.show_message("select a journey first: its request is shown then".to_owned(), true);
        };
        if let Some(id) = self.requests.choose(&line.journey) {
            self.show(View::Requests);
            self.controls.request = Some(id);
            // The journey's ladder would cover it.
            self.controls.top = Top::Nothing;
        } else {
            let words =
                "this journey is in no request that is kept: requests end some seconds after their bytes";
            self.show_message(words.to_owned(), true);
        }
    }

    pub(super) fn show_journey_of_request(&mut self) {
        if self.controls.request.is_none() {
            self.select_request(1);
        }
        let selected = self.requests.listed().find(|slow| Some(slow.id) == self.controls.request);
        let Some(slow) = selected else { return };
        let longest = slow.parts.iter().filter(|part| part.part != ExchangePart::UntilAnswered);
        let is_request =
            longest.max_by_key(|part| part.ns).is_some_and(|p| p.part == ExchangePart::RequestTransfer);
        let [request, response] = slow.last_journeys;
        let Some(last) = (if is_request { request } else { response }).or(request) else { return };
        let (start_ns, key) =
            (slow.start_ns, self.memory.all().find(|line| last.is(&line.journey)).map(Lifeline::key));
        self.show(View::Scope);
        match key {
            Some(key) => {
                self.choose_journey(key);
                self.controls.top = Top::Inspector;
            }
            // The journeys of this time are read again.
            None if self.is_recorded() => self.seek(start_ns),
            None => self.show_message("this request's journeys are not kept any more".to_owned(), true),
        }
    }

    pub(super) fn back(&mut self) {
        if self.controls.top != Top::Nothing {
            self.controls.top = Top::Nothing;
        } else if self.controls.view == View::Requests && self.controls.request.is_some() {
            self.controls.request = None;
            self.requests.unchoose();
        } else if self.controls.view == View::Flows && self.leave_group() {
        } else if self.controls.journey.is_some() {
            self.unselect();
            self.relist();
        } else if !self.controls.picks.is_empty() {
            self.pick(Pick::Nothing);
        } else if self.controls.lane.is_some() {
            self.controls.lane = None;
        } else if self.controls.view != View::Scope {
            self.show(View::Scope);
        }
    }
}
