//! Views and the rows of their tables.

use crate::controls::Top;
use crate::pick::Pick;
use crate::scope::{HOP_IDS, Scope};
use crate::views::{Rows, View};
use magscope_core::Hop;

impl Scope {
    pub(super) fn show(&mut self, view: View) {
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
                let last = self.counts.flows.len().saturating_sub(1);
                self.controls.row = self.controls.row.saturating_add_signed(by as isize).min(last);
            }
            Rows::Pairs => {
                let last = self.hop_rows().len().saturating_sub(1);
                self.controls.row = self.controls.row.min(last).saturating_add_signed(by as isize).min(last);
            }
            Rows::Lines => {
                self.controls.row = self.controls.row.saturating_add_signed(by as isize).min(HOP_IDS);
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
                if let Some(flow) = self.counts.flows.at(self.controls.order, self.controls.row) {
                    self.pick(Pick::Flow(flow));
                    self.show(View::Scope);
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
                self.controls.hop = rows.get(self.controls.row).or(rows.last()).copied().flatten();
                self.show(View::Scope);
            }
            Rows::Picture | Rows::Journeys => {
                if self.controls.journey.is_none() {
                    self.select_journey(1);
                }
                self.show(View::Scope);
                self.controls.top = if self.controls.journey.is_some() { Top::Inspector } else { Top::Nothing };
            }
            Rows::Lines => {}
        }
    }

    pub(super) fn back(&mut self) {
        if self.controls.top != Top::Nothing {
            self.controls.top = Top::Nothing;
        } else if self.controls.journey.is_some() {
            self.unselect();
            self.relist();
        } else if !self.controls.picks.is_empty() {
            self.pick(Pick::Nothing);
        } else if self.controls.hop.is_some() {
            self.controls.hop = None;
        } else if self.controls.view != View::Scope {
            self.show(View::Scope);
        }
    }
}
