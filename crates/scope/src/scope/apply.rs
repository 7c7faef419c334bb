//! The effect of an action on a scope.

mod instruments;
mod moves;
mod selection;
mod step125;
mod tables;

use super::Scope;
use crate::action::Action;
use crate::bands;
use crate::channel::Vertical;
use crate::controls::{Align, Top};
use crate::journal::Journal;
use crate::math::Math;
use crate::memory::Memory;
use crate::sweep::Sweep;
use crate::timebase::{DIVISIONS, Timebase};
use crate::trigger::{Condition, Mode};

impl Scope {
    /// Applies an action.
    pub fn apply(&mut self, action: Action) {
        self.revision += 1;
        self.controls.message = None;
        self.settle_counts();
        let left = self.in_time(action).and_then(|action| self.on_axes(action));
        let left = left.and_then(|action| self.with_instruments(action));
        if let Some(action) = left.and_then(|action| self.with_selection(action)) {
            self.apply_other(&action);
        }
        self.arrange_bands();
        self.follow_tour();
    }

    /// Applies an action on time. Returns any other action.
    fn in_time(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::TogglePause => self.toggle_pause(),
            Action::Seek(at_ns) => self.seek(at_ns),
            Action::SeekPart(part) => self.seek(self.instant_at(part)),
            Action::SeekTo(place) => self.seek_to(place),
            Action::SeekStart => self.seek(self.extent().0),
            Action::Follow => self.follow(),
            Action::Step(by) => self.step(by),
            Action::SetSpeed(speed) => self.playhead.set_speed(speed),
            Action::Faster => self.playhead.step_speed(1),
            Action::Slower => self.playhead.step_speed(-1),
            Action::TimebaseCoarser => self.step_timebase(1),
            Action::TimebaseFiner => self.step_timebase(-1),
            Action::Zoom { notches, at } => self.zoom_notches(notches, at),
            Action::SetTimebase(ns) => {
                self.horizon.scale(Timebase::nearest(ns));
                self.controls.timebase_fixed = true;
                self.moved();
            }
            Action::ZoomTo { from_ns, to_ns } => self.zoom_to(from_ns, to_ns),
            Action::ZoomBack => {
                if self.horizon.back() {
                    self.pause();
                    self.moved();
                } else {
                    self.show_message("nothing to go back to".to_owned(), false);
                }
            }
            Action::Fit => self.fit(),
            Action::FitJourney => self.fit_journey(),
            Action::FitSelection => self.fit_selection(),
            Action::Autoset => self.autoset(),
            Action::Pan(by) => self.pan(f64::from(by) / DIVISIONS as f64),
            Action::PanBy(by) => self.pan(by),
            other => return Some(other),
        }
        None
    }

    /// Applies an action on axes. Returns any other action.
    fn on_axes(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::ToggleAlign => {
                self.controls.align =
                    if self.controls.align == Align::Time { Align::Start } else { Align::Time };
                self.realign();
            }
            Action::SetRoll(roll) => {
                self.controls.roll = roll;
                // At many timebases nothing else changes at once.
                self.show_message(roll.words().to_owned(), false);
            }
            Action::ToggleChannel(channel) => self.toggle_channel(channel),
            Action::NextChannel(by) => {
                let at = step(Some(self.controls.channel), by, self.controls.channels.len());
                self.controls.channel = at.unwrap_or(0);
            }
            Action::VerticalScale(by) => self.vertical_scale(by),
            Action::VerticalOffset(by) => self.vertical(|vertical, per_division| {
                vertical.foot -= per_division * f64::from(by);
                vertical.per_division = Some(per_division);
            }),
            Action::VerticalAuto => self.vertical(|vertical, _| {
                *vertical = Vertical { log: vertical.log, ..Vertical::default() };
            }),
            Action::ToggleLog => self.vertical(|vertical, _| vertical.log = !vertical.log),
            other => return Some(other),
        }
        None
    }

    /// Applies an action on trigger, cursors, measurements or panels. Returns any other action.
    fn with_instruments(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::TriggerText(text) => match Condition::parse(&text) {
                Ok(condition) => self.trigger_on(condition),
                Err(error) => self.show_message(format!("trigger: {error}"), true),
            },
            Action::SetTrigger(condition) => self.trigger_on(condition),
            Action::TriggerMode(mode) => self.watch.set(|settings| settings.mode = mode),
            Action::NextTriggerMode => self.watch.set(|settings| {
                settings.mode = match settings.mode {
                    Mode::Auto => Mode::Normal,
                    Mode::Normal => Mode::Single,
                    Mode::Single => Mode::Auto,
                };
            }),
            Action::SetHoldOff(hold_off) => self.watch.set(|settings| settings.hold_off = hold_off),
            Action::PreTrigger(part) => self.watch.set(|settings| settings.pre_per_cent = part.min(100)),
            Action::TriggerWindow(ns) => self.watch.set(|settings| settings.window_ns = ns),
            Action::Arm => {
                self.watch.arm();
                self.fired = None;
                self.shown = None;
                if self.controls.paused {
                    self.toggle_pause();
                }
            }
            Action::Force => {
                let at_ns = if self.is_recorded() { self.playhead.head_ns } else { self.now_ns };
                self.watch.force(at_ns);
                self.fires(true, at_ns, None);
                if self.is_recorded() {
                    self.close_captures(u64::MAX);
                }
            }
            Action::NextCapture(by) => self.next_capture(by),
            Action::ShowCapture(number) => self.show_capture_of(number),
            Action::ToggleCursors => self.toggle_cursors(),
            Action::ChooseCursor(which) => self.cursors(|cursors| cursors.chosen = which),
            Action::PlaceCursor(which, at_ns) => self.cursors(|cursors| {
                cursors.chosen = which;
                cursors.place(which, at_ns);
            }),
            Action::MoveCursor(by) => {
                let by_ns = i128::from(self.horizon.timebase().span_ns()) * i128::from(by) / 100;
                let by_ns = by_ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
                self.cursors(|cursors| {
                    cursors.place(cursors.chosen, cursors.chosen_ns().saturating_add_signed(by_ns));
                });
            }
            Action::SnapCursor(by) => self.snap_cursor(by),
            Action::MeasureOver(over) => self.controls.over = over,
            Action::SetMath(math) => self.compute(math),
            Action::MathText(text) => match Math::parse(&text) {
                Ok(math) => self.compute(math),
                Err(error) => self.show_message(format!("math: {error}"), true),
            },
            Action::SetXy(xy) => {
                if xy.is_none_or(|(x, y)| self.are_defined(&[x, y])) {
                    self.controls.xy = xy;
                }
            }
            Action::SetPersistence(persistence) => {
                self.controls.persistence = persistence;
                self.overlay = None;
                self.overlay_again();
            }
            Action::NextPersistence => {
                self.controls.persistence = self.controls.persistence.next();
                self.overlay = None;
                self.overlay_again();
            }
            other => return Some(other),
        }
        None
    }

    /// Applies an action on the selection. Returns any other action.
    fn with_selection(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::Filter(text) => self.filter(&text),
            Action::Pick(pick) => self.pick(pick),
            Action::NextRoute => {
                let at = self.controls.route.map(|now| self.routes.iter().position(|route| *route == now));
                self.controls.route = match at {
                    None => self.routes.first().copied(),
                    Some(at) => at.and_then(|at| self.routes.get(at + 1)).copied(),
                };
                self.refilter();
            }
            Action::Narrow(only) => self.narrow(only),
            Action::NarrowTo { condition, only } => self.narrow_to(&condition, only),
            Action::NextProto => {
                let at =
                    self.controls.proto.and_then(|now| Self::PROTOS.iter().position(|proto| *proto == now));
                self.controls.proto = Self::PROTOS.get(at.map_or(0, |at| at + 1)).copied();
                self.refilter();
            }
            Action::ToggleAllHops => self.controls.all_hops = !self.controls.all_hops,
            Action::SelectLane(by) => self.select_lane(by),
            Action::ChooseLane(lane) => self.controls.lane = lane,
            Action::ToggleForwarder(number) => self.controls.open_forwarders ^= bands::bit(number),
            Action::SelectJourney(by) => self.select_journey(by),
            Action::ChooseJourney(key) => self.choose_journey(key),
            Action::SelectAt { time_ns, within_ns, lane } => self.select_at(time_ns, within_ns, lane),
            Action::SelectRow(by) => self.select_row(by),
            Action::TakeRow => self.take_row(),
            Action::ChoosePath(path) => self.controls.path = path,
            Action::ChooseRequest(id) => {
                self.controls.request = Some(id);
                self.show_journey_of_request();
            }
            Action::ShowExchange => self.exchange(),
            Action::OrderFlows(order) => self.controls.order = order,
            Action::GroupFlows(by) => self.group_flows(by),
            Action::OpenGroup(row) => self.open_group_at(row),
            Action::ShowList(list) => self.list(list),
            Action::NextList => self.list(self.controls.list.next()),
            Action::ShowEvidence => {
                if !self.show_evidence() {
                    self.toggle_inspector();
                    if self.controls.journey.is_none() {
                        self.show_message(
                            "the first line is about all there is: it leads nowhere".to_owned(),
                            false,
                        );
                    }
                }
            }
            Action::ToggleInspector => self.toggle_inspector(),
            other => return Some(other),
        }
        None
    }

    fn toggle_inspector(&mut self) {
        if self.controls.journey.is_none() {
            self.select_journey(1);
        }
        let opens = self.controls.top != Top::Inspector && self.controls.journey.is_some();
        self.controls.top = if opens { Top::Inspector } else { Top::Nothing };
    }

    /// Applies the remaining actions.
    fn apply_other(&mut self, action: &Action) {
        match action {
            Action::Show(view) => self.show(*view),
            Action::NextView(by) => self.show(self.controls.view.step(*by)),
            Action::ToggleRecording => {
                if self.is_recorded() {
                    self.show_message("this is a recording already".to_owned(), true);
                } else {
                    self.controls.recording = !self.controls.recording;
                }
            }
            Action::NextTourStep => self.next_tour_step(),
            Action::Clear => self.clear(),
            Action::ToggleHelp => {
                self.controls.top = if self.controls.top == Top::Help { Top::Nothing } else { Top::Help };
            }
            Action::Back => self.back(),
            Action::Quit => self.controls.quit = true,
            _ => {}
        }
    }

    fn clear(&mut self) {
        self.unselect();
        self.recount();
        self.forget_counts();
        self.headline = magscope_report::Headline::default();
        self.memory = Memory::default();
        self.forget_journeys();
        self.overlay = None;
        self.captured.clear();
        let align = self.controls.align;
        self.sweep = Sweep { timebase: self.horizon.timebase(), align, ..Sweep::default() };
        if let Some(recorded) = &mut self.recorded {
            recorded.filled = None;
            self.journal = Journal::default();
            // The same counts come again, too soon to be seen missing.
            self.show_message("the recording is counted again from its beginning".to_owned(), false);
        } else {
            self.begin_ns = None;
        }
        self.listed.clear();
        self.measure();
        self.overlay_again();
    }
}

/// The index at a distance `by` from `now` in a list of `len`, clamped to its ends. Without an index, the first
/// or the last.
pub(super) fn step(now: Option<usize>, by: i8, len: usize) -> Option<usize> {
    let last = len.checked_sub(1)?;
    Some(match now {
        None if by >= 0 => 0,
        None => last,
        Some(at) => at.saturating_add_signed(isize::from(by)).min(last),
    })
}
