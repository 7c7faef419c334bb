//! What an action does to a scope.

use super::Scope;
use crate::action::Action;
use crate::frame::State;
use crate::lane::Lane;
use crate::look::Room;
use crate::memory::Memory;
use crate::stats::Stats;
use crate::sweep::Sweep;
use crate::totals::{Lately, Totals};
use crate::view::{Align, List, Message, Top};

impl Scope {
    /// Does what a user asked for.
    #[allow(clippy::needless_pass_by_value)] // an action is made to be done once
    pub fn apply(&mut self, action: Action) {
        self.revision += 1;
        self.view.message = None;
        match action {
            Action::Show(room) => self.show(room),
            Action::NextRoom(by) => self.show(self.view.room.step(by)),
            Action::ToggleRecording => self.view.recording = !self.view.recording,
            Action::OrderFlows(order) => self.view.order = order,
            Action::TogglePause => self.toggle_pause(),
            Action::TimebaseCoarser | Action::TimebaseFiner => {
                let now = self.view.timebase;
                self.view.timebase = if action == Action::TimebaseFiner { now.finer() } else { now.coarser() };
                self.view.timebase_fixed = true;
                self.redraw();
            }
            Action::Autoset => {
                self.view.timebase_fixed = false;
                self.view.pan = 0;
                self.redraw();
            }
            Action::ToggleAlign => {
                self.view.align = if self.view.align == Align::Time { Align::Start } else { Align::Time };
                self.view.pan = 0;
                self.redraw();
            }
            Action::Pan(by) => {
                if self.view.align == Align::Time {
                    self.view.paused = true;
                    self.view.pan = self.view.pan.saturating_add(i64::from(by));
                    self.redraw();
                }
            }
            Action::SelectHop(by) => self.select_hop(by),
            Action::SelectJourney(by) => self.select_journey(by),
            Action::ToggleInspector => {
                if self.view.journey.is_none() {
                    self.select_journey(1);
                }
                let opens = self.view.top != Top::Inspector && self.view.journey.is_some();
                self.view.top = if opens { Top::Inspector } else { Top::Nothing };
            }
            Action::NextList => {
                self.view.list = match self.view.list {
                    List::Slowest => List::Recent,
                    List::Recent => List::Bad,
                    List::Bad => List::Slowest,
                };
                self.relist();
            }
            Action::NextRoute => {
                let at = self.view.route.map(|now| self.routes.iter().position(|route| *route == now));
                self.view.route = match at {
                    None => self.routes.first().copied(),
                    Some(at) => at.and_then(|at| self.routes.get(at + 1)).copied(),
                };
                self.refilter();
            }
            Action::NextProto => {
                let at = self.view.proto.and_then(|now| Self::PROTOS.iter().position(|proto| *proto == now));
                self.view.proto = Self::PROTOS.get(at.map_or(0, |at| at + 1)).copied();
                self.refilter();
            }
            Action::Clear => self.clear(),
            Action::ToggleHelp => {
                self.view.top = if self.view.top == Top::Help { Top::Nothing } else { Top::Help };
            }
            Action::Back => self.back(),
            Action::Quit => self.view.quit = true,
            _ => self.view.message = Some(Message { text: "not there yet".to_owned(), is_error: true }),
        }
    }

    fn show(&mut self, room: Room) {
        self.view.room = room;
        self.view.row = 0;
    }

    fn toggle_pause(&mut self) {
        self.view.paused = !self.view.paused;
        if !self.view.paused {
            self.view.pan = 0;
            self.unselect();
            // What came while the picture stood still is not shown after the event: it goes on from here.
            self.swept_ns = self.now_ns;
            if self.state != State::Ended {
                self.measure();
            }
        }
    }

    /// Takes the picture again for the same journey, after a change of scale.
    fn redraw(&mut self) {
        let since = if self.sweep.anchor.is_some() { u64::MAX } else { 0 };
        self.sweep.take(&self.memory, &mut self.view, since);
    }

    /// Takes everything again, after a change of filter.
    fn refilter(&mut self) {
        self.unselect();
        self.view.pan = 0;
        let view = &self.view;
        self.memory.relist(|line| view.accepts(line));
        self.sweep = Sweep::default();
        self.sweep.take(&self.memory, &mut self.view, 0);
        self.relist();
        self.measure();
    }

    fn select_hop(&mut self, by: i8) {
        let hops: Vec<_> = self.lanes.iter().filter_map(Lane::hop).collect();
        let now = self.view.hop.and_then(|hop| hops.iter().position(|other| *other == hop));
        self.view.hop = step(now, by, hops.len()).and_then(|at| hops.get(at)).copied();
    }

    fn select_journey(&mut self, by: i8) {
        let now = self.view.journey.and_then(|id| self.listed.iter().position(|line| line.id() == id));
        let Some(line) = step(now, by, self.listed.len()).and_then(|at| self.listed.get(at)) else { return };
        self.view.journey = Some(line.id());
        self.selected = Some(line.clone());
        self.view.pan = 0;
        self.redraw();
    }

    fn unselect(&mut self) {
        self.view.journey = None;
        if self.view.top == Top::Inspector {
            self.view.top = Top::Nothing;
        }
        self.selected = None;
    }

    fn back(&mut self) {
        if self.view.top != Top::Nothing {
            self.view.top = Top::Nothing;
        } else if self.view.journey.is_some() {
            self.unselect();
            self.relist();
        } else {
            self.view.hop = None;
        }
    }

    fn clear(&mut self) {
        self.unselect();
        self.stats = Stats::default();
        self.totals = Totals::default();
        self.lately = Lately::default();
        self.memory = Memory::default();
        self.sweep = Sweep::empty(&self.view);
        self.listed.clear();
        self.measure();
    }
}

/// A place in a list of `len`, `by` away from `now`, and not past its ends. Without a place, the first or the last.
fn step(now: Option<usize>, by: i8, len: usize) -> Option<usize> {
    let last = len.checked_sub(1)?;
    Some(match now {
        None if by >= 0 => 0,
        None => last,
        Some(at) => at.saturating_add_signed(isize::from(by)).min(last),
    })
}
