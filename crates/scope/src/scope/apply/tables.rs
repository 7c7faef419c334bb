//! Rooms and the rows of their tables.

use crate::look::Room;
use crate::pick::Pick;
use crate::scope::{HOP_IDS, Scope};
use crate::view::Top;
use magscope_core::Hop;

impl Scope {
    pub(super) fn show(&mut self, room: Room) {
        self.view.room = room;
        self.view.row = 0;
        self.view.event = 0;
    }

    pub(super) fn select_row(&mut self, by: i32) {
        match self.view.room {
            Room::Journeys | Room::Scope => {
                self.select_journey(by.clamp(i32::from(i8::MIN), i32::from(i8::MAX)) as i8);
            }
            Room::Events => {
                self.view.event = self.view.event.saturating_add(i64::from(by));
                let most = self.journal.len() as i64;
                self.view.event = self.view.event.clamp(-most, most);
            }
            Room::Flows => {
                let last = self.counts.flows.len().saturating_sub(1);
                self.view.row = self.view.row.saturating_add_signed(by as isize).min(last);
            }
            Room::Hops => {
                let last = self.hop_rows().len().saturating_sub(1);
                self.view.row = self.view.row.min(last).saturating_add_signed(by as isize).min(last);
            }
            Room::Clock | Room::Losses => {
                self.view.row = self.view.row.saturating_add_signed(by as isize).min(HOP_IDS);
            }
        }
    }

    /// The hop that each row of the room of hops leads to, none for a whole journey or a wait: journeys' rows, then those of the kernel's sums.
    fn hop_rows(&self) -> Vec<Option<Hop>> {
        let (journeys, sums) = (self.heat_map(1, 1, &(0..0)), self.sum_map(1, 1, &(0..0)).map);
        journeys.rows.iter().chain(&sums.rows).map(|row| row.span.to()).collect()
    }

    pub(super) fn take_row(&mut self) {
        match self.view.room {
            Room::Flows => {
                if let Some(flow) = self.counts.flows.at(self.view.order, self.view.row) {
                    self.pick(Pick::Flow(flow));
                    self.show(Room::Scope);
                }
            }
            Room::Events => {
                if let Some(at_ns) = self.selected_entry_ns() {
                    self.show(Room::Scope);
                    self.seek(at_ns);
                }
            }
            Room::Hops => {
                let rows = self.hop_rows();
                self.view.hop = rows.get(self.view.row).or(rows.last()).copied().flatten();
                self.show(Room::Scope);
            }
            Room::Scope | Room::Journeys => {
                if self.view.journey.is_none() {
                    self.select_journey(1);
                }
                self.show(Room::Scope);
                self.view.top = if self.view.journey.is_some() { Top::Inspector } else { Top::Nothing };
            }
            Room::Clock | Room::Losses => {}
        }
    }

    pub(super) fn back(&mut self) {
        if self.view.top != Top::Nothing {
            self.view.top = Top::Nothing;
        } else if self.view.journey.is_some() {
            self.unselect();
            self.relist();
        } else if !self.view.picks.is_empty() {
            self.pick(Pick::Nothing);
        } else if self.view.hop.is_some() {
            self.view.hop = None;
        } else if self.view.room != Room::Scope {
            self.show(Room::Scope);
        }
    }
}
