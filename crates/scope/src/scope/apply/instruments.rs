//! Loadlines and their axes, math, the trigger, cursors.

use super::step125::Steps;
use crate::channel::{Channel, Vertical};
use crate::controls::{MOST_SHOWN, Shown};
use crate::cursor::{CursorId, Cursors};
use crate::math::Math;
use crate::scope::Scope;
use crate::timebase::DIVISIONS;
use crate::trigger::Condition;

impl Scope {
    pub(super) fn toggle_channel(&mut self, channel: Channel) {
        if !self.are_defined(&[channel]) {
            return;
        }
        let at = self.controls.channels.iter().position(|shown| shown.channel == channel);
        if let Some(at) = at {
            self.controls.channels.remove(at);
        } else if self.controls.channels.len() < MOST_SHOWN {
            self.controls.channels.push(Shown { channel, vertical: Vertical::default() });
            self.controls.channel = self.controls.channels.len() - 1;
        }
        self.controls.channel = self.controls.channel.min(self.controls.channels.len().saturating_sub(1));
    }

    /// Changes the axis of the chosen loadline, from its current units per division.
    pub(super) fn vertical(&mut self, change: impl FnOnce(&mut Vertical, f64)) {
        let line = self.loadlines(64).into_iter().nth(self.controls.channel);
        let Some(line) = line else {
            return self.show_message("no loadline is shown".to_owned(), true);
        };
        let per_division = (line.top - line.foot) / DIVISIONS as f64;
        if let Some(shown) = self.controls.channels.get_mut(self.controls.channel) {
            change(&mut shown.vertical, per_division);
        }
    }

    /// The next step of 1, 2, 5 for units per division.
    pub(super) fn vertical_scale(&mut self, by: i8) {
        self.vertical(|vertical, per_division| {
            let mut scale = Steps::near(per_division);
            (0..by.unsigned_abs()).for_each(|_| scale.step(by > 0));
            vertical.per_division = Some(scale.value());
        });
    }

    pub(super) fn compute(&mut self, math: Option<Math>) {
        if math.is_none_or(|math| self.are_defined(&math.channels())) {
            self.controls.math = math;
        }
    }

    pub(super) fn trigger_on(&mut self, condition: Option<Condition>) {
        if let Some(Err(words)) = condition.as_ref().map(|condition| self.can_wait_for(condition)) {
            return self.show_message(words, true);
        }
        self.watch.set(|settings| settings.condition = condition);
        self.fired = None;
        if self.is_recorded() {
            // A recount keeps the counts correct.
            self.recount();
        }
    }

    pub(super) fn toggle_cursors(&mut self) {
        self.controls.cursors = match self.controls.cursors {
            Some(_) => None,
            None => Some(Cursors {
                a_ns: self.horizon.time_at(0.25),
                b_ns: self.horizon.time_at(0.75),
                chosen: CursorId::A,
            }),
        };
    }

    pub(in crate::scope) fn cursors(&mut self, change: impl FnOnce(&mut Cursors)) {
        if self.controls.cursors.is_none() {
            self.toggle_cursors();
        }
        if let Some(cursors) = &mut self.controls.cursors {
            change(cursors);
        }
    }

    /// Moves to the next drawn instant: an event of a lifeline, or a mark.
    pub(super) fn snap_cursor(&mut self, by: i8) {
        if self.controls.cursors.is_none() {
            self.toggle_cursors();
        }
        let Some(cursors) = self.controls.cursors else { return };
        let now_ns = cursors.chosen_ns();
        let (from_ns, to_ns) = (self.horizon.begin_ns(), self.horizon.end_ns());
        let stops = self.sweep.lifelines.iter().flat_map(|line| self.path_stops(line)).map(|stop| stop.time_ns);
        let marks = self.journal.marks(from_ns, to_ns).map(|mark| mark.time_ns);
        let hits = self.journal.hits(from_ns, to_ns).map(|hit| hit.hit.time_ns);
        let all = stops.filter(|at| (from_ns..=to_ns).contains(at)).chain(marks).chain(hits);
        let next =
            if by >= 0 { all.filter(|at| *at > now_ns).min() } else { all.filter(|at| *at < now_ns).max() };
        match next {
            Some(at_ns) => self.cursors(|cursors| cursors.place(cursors.chosen, at_ns)),
            None => self.show_message("no event further on in the picture".to_owned(), false),
        }
    }
}
