//! What an action does to a scope.

use super::Scope;
use crate::action::Action;
use crate::channel::{Channel, Vertical};
use crate::cursor::{CursorId, Cursors};
use crate::flows::Flows;
use crate::frame::State;
use crate::journal::Journal;
use crate::lane::Lane;
use crate::lifeline::Lifeline;
use crate::look::Room;
use crate::math::Math;
use crate::memory::Memory;
use crate::pick::Pick;
use crate::sweep::Sweep;
use crate::timebase::{DIVISIONS, Timebase};
use crate::trigger::{Condition, Mode};
use crate::view::{Align, List, MOST_SHOWN, Shown, Top};
use magscope_core::{Filter, Hop};

impl Scope {
    /// Does what a user asked for.
    pub fn apply(&mut self, action: Action) {
        self.revision += 1;
        self.view.message = None;
        let left = self.in_time(action).and_then(|action| self.on_axes(action));
        let left = left.and_then(|action| self.with_instruments(action));
        if let Some(action) = left.and_then(|action| self.with_selection(action)) {
            self.beside(&action);
        }
    }

    /// Moves in time. Gives back what it is not.
    fn in_time(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::TogglePause => self.toggle_pause(),
            Action::Seek(at_ns) => self.seek(at_ns),
            Action::SeekPart(part) => {
                let (from_ns, to_ns) = self.extent();
                let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
                self.seek(from_ns.saturating_add(((to_ns - from_ns) as f64 * part) as u64));
            }
            Action::SeekStart => self.seek(self.extent().0),
            Action::Follow => self.follow(),
            Action::Step(by) => self.step(by),
            Action::SetSpeed(speed) => self.playhead.set_speed(speed),
            Action::Faster => self.playhead.step_speed(1),
            Action::Slower => self.playhead.step_speed(-1),
            Action::TimebaseCoarser => self.zoom(1, 0.5),
            Action::TimebaseFiner => self.zoom(-1, 0.5),
            Action::Zoom { steps, at } => self.zoom(steps, at),
            Action::SetTimebase(ns) => {
                self.horizon.scale(Timebase::nearest(ns));
                self.view.timebase_fixed = true;
                self.moved();
            }
            Action::ZoomTo { from_ns, to_ns } => self.zoom_to(from_ns, to_ns),
            Action::ZoomBack => {
                if self.horizon.back() {
                    self.pause();
                    self.moved();
                } else {
                    self.tell("nothing to go back to".to_owned(), false);
                }
            }
            Action::Fit => {
                let (from_ns, to_ns) = self.extent();
                self.zoom_to(from_ns, to_ns);
            }
            Action::Autoset => self.autoset(),
            Action::Pan(by) => self.pan(f64::from(by) / DIVISIONS as f64),
            Action::PanBy(by) => self.pan(by),
            other => return Some(other),
        }
        None
    }

    /// What the axes show. Gives back what it is not.
    fn on_axes(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::ToggleAlign => {
                self.view.align = if self.view.align == Align::Time { Align::Start } else { Align::Time };
                self.realign();
            }
            Action::SetRoll(roll) => self.view.roll = roll,
            Action::ToggleChannel(channel) => self.toggle_channel(channel),
            Action::NextChannel(by) => {
                let at = step(Some(self.view.channel), by, self.view.channels.len());
                self.view.channel = at.unwrap_or(0);
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

    /// Trigger, cursors, measurements and what is drawn on top. Gives back what it is not.
    fn with_instruments(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::TriggerText(text) => match Condition::parse(&text) {
                Ok(condition) => self.trigger_on(condition),
                Err(error) => self.tell(format!("trigger: {error}"), true),
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
                if self.view.paused {
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
            Action::MeasureOver(over) => self.view.over = over,
            Action::SetMath(math) => self.compute(math),
            Action::MathText(text) => match Math::parse(&text) {
                Ok(math) => self.compute(math),
                Err(error) => self.tell(format!("math: {error}"), true),
            },
            Action::SetXy(xy) => {
                if xy.is_none_or(|(x, y)| self.knows(&[x, y])) {
                    self.view.xy = xy;
                }
            }
            Action::SetPersistence(how) => {
                self.view.persistence = how;
                self.overlay = None;
                self.overlay_again();
            }
            Action::NextPersistence => {
                self.view.persistence = self.view.persistence.next();
                self.overlay = None;
                self.overlay_again();
            }
            other => return Some(other),
        }
        None
    }

    /// Chooses what is looked at. Gives back what it is not.
    fn with_selection(&mut self, action: Action) -> Option<Action> {
        match action {
            Action::Filter(text) => self.filter(&text),
            Action::Pick(pick) => self.pick(pick),
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
            Action::SelectHop(by) => self.select_hop(by),
            Action::ChooseHop(hop) => self.view.hop = hop,
            Action::SelectJourney(by) => self.select_journey(by),
            Action::ChooseJourney(key) => self.choose_journey(key),
            Action::SelectAt { time_ns, within_ns, hop } => self.select_at(time_ns, within_ns, hop),
            Action::SelectRow(by) => self.select_row(by),
            Action::TakeRow => self.take_row(),
            Action::OrderFlows(order) => self.view.order = order,
            Action::NextList => {
                self.view.list = match self.view.list {
                    List::Slowest => List::Recent,
                    List::Recent => List::Bad,
                    List::Bad => List::Slowest,
                };
                self.relist();
            }
            Action::ToggleInspector => {
                if self.view.journey.is_none() {
                    self.select_journey(1);
                }
                let opens = self.view.top != Top::Inspector && self.view.journey.is_some();
                self.view.top = if opens { Top::Inspector } else { Top::Nothing };
            }
            other => return Some(other),
        }
        None
    }

    /// The rest.
    fn beside(&mut self, action: &Action) {
        match action {
            Action::Show(room) => self.show(*room),
            Action::NextRoom(by) => self.show(self.view.room.step(*by)),
            Action::ToggleRecording => {
                if self.is_recorded() {
                    self.tell("this is a recording already".to_owned(), true);
                } else {
                    self.view.recording = !self.view.recording;
                }
            }
            Action::Clear => self.clear(),
            Action::ToggleHelp => {
                self.view.top = if self.view.top == Top::Help { Top::Nothing } else { Top::Help };
            }
            Action::Back => self.back(),
            Action::Quit => self.view.quit = true,
            _ => {}
        }
    }

    fn show(&mut self, room: Room) {
        self.view.room = room;
        self.view.row = 0;
        self.view.event = 0;
    }

    fn toggle_pause(&mut self) {
        self.view.paused = !self.view.paused;
        if self.view.paused {
            return;
        }
        if self.is_recorded() {
            if self.state == State::Ended {
                // At its end it begins again.
                let from_ns = self.extent().0;
                self.playhead.seek(from_ns);
                self.state = State::Replay;
            }
            self.swept_ns = self.playhead.head_ns;
            self.unselect();
            return;
        }
        if self.playhead.following || self.state == State::Ended {
            self.go_on();
        }
    }

    /// Lets a live picture go on.
    pub(super) fn go_on(&mut self) {
        self.unselect();
        self.shown = None;
        self.playhead.following = true;
        // What came while the picture stood still is not shown after the event: it goes on from here.
        self.swept_ns = self.now_ns;
        if self.state != State::Ended {
            self.measure();
        }
    }

    fn zoom(&mut self, steps: i32, at: f64) {
        self.view.timebase_fixed = true;
        self.horizon.zoom(steps, at);
        self.moved();
    }

    fn zoom_to(&mut self, from_ns: u64, to_ns: u64) {
        self.horizon.remember();
        self.pause();
        self.view.align = Align::Time;
        self.view.timebase_fixed = true;
        self.horizon.show(from_ns, to_ns);
        self.moved();
    }

    fn pan(&mut self, by: f64) {
        if self.view.align == Align::Time {
            self.pause();
            self.horizon.pan(by);
            self.playhead.seek(self.horizon.time_at(0.5).clamp(self.extent().0, self.extent().1));
            if self.state == State::Ended && self.is_recorded() {
                self.state = State::Replay;
            }
            self.moved();
        }
    }

    fn realign(&mut self) {
        let anchor = self.sweep.anchor.and_then(|key| self.find(key));
        match anchor {
            Some(line) => self.take_for(&line),
            None => self.redraw(),
        }
        self.overlay_again();
    }

    /// Chooses the scales by one second of data: that of time so that nine of ten journeys fit, those of loadlines so that they
    /// fill their height; and shows the busiest flow.
    fn autoset(&mut self) {
        self.view.timebase_fixed = false;
        for shown in &mut self.view.channels {
            shown.vertical = Vertical::default();
        }
        let head_ns = if self.is_recorded() { self.playhead.head_ns } else { self.now_ns };
        let (from_ns, to_ns) = self.extent();
        let end_ns = head_ns.max(from_ns.saturating_add(1_000_000_000)).min(to_ns);
        let begin_ns = end_ns.saturating_sub(1_000_000_000);
        let second = self.pyramid.total(crate::pyramid::Lane::Journeys, begin_ns, end_ns.saturating_add(1));
        let times = second.percentiles();
        if times.n > 0 {
            self.horizon.scale(Timebase::holding(times.p90_ns.saturating_mul(5) / 3));
        }
        let words = match self.flows.busiest() {
            Some(flow) if self.flows.len() > 1 && !self.view.is_narrowed() => {
                self.view.picks.push(Pick::Flow(flow));
                self.refilter();
                "the busiest flow; Esc shows all"
            }
            _ => "timebase and scales chosen anew",
        };
        match self.sweep.anchor.and_then(|key| self.find(key)) {
            Some(line) => self.take_for(&line),
            None => self.moved(),
        }
        self.overlay_again();
        self.tell(words.to_owned(), false);
    }

    fn toggle_channel(&mut self, channel: Channel) {
        if !self.knows(&[channel]) {
            return;
        }
        let at = self.view.channels.iter().position(|shown| shown.channel == channel);
        if let Some(at) = at {
            self.view.channels.remove(at);
        } else if self.view.channels.len() < MOST_SHOWN {
            self.view.channels.push(Shown { channel, vertical: Vertical::default() });
            self.view.channel = self.view.channels.len() - 1;
        }
        self.view.channel = self.view.channel.min(self.view.channels.len().saturating_sub(1));
    }

    /// Changes the axis of the chosen loadline, given its units a division as they are now.
    fn vertical(&mut self, change: impl FnOnce(&mut Vertical, f64)) {
        let line = self.loadlines(64).into_iter().nth(self.view.channel);
        let Some(line) = line else {
            return self.tell("no loadline is shown".to_owned(), true);
        };
        let per_division = (line.top - line.foot) / DIVISIONS as f64;
        if let Some(shown) = self.view.channels.get_mut(self.view.channel) {
            change(&mut shown.vertical, per_division);
        }
    }

    /// The next step of 1, 2, 5 for units a division.
    fn vertical_scale(&mut self, by: i8) {
        self.vertical(|vertical, per_division| {
            let mut scale = Steps::near(per_division);
            (0..by.unsigned_abs()).for_each(|_| scale.step(by > 0));
            vertical.per_division = Some(scale.value());
        });
    }

    fn compute(&mut self, math: Option<Math>) {
        if math.is_none_or(|math| self.knows(&math.channels())) {
            self.view.math = math;
        }
    }

    fn trigger_on(&mut self, condition: Option<Condition>) {
        if let Some(Condition::Signal { channel, .. }) = &condition
            && !self.knows(&[*channel])
        {
            return;
        }
        self.watch.set(|settings| settings.condition = condition);
        self.fired = None;
        if self.is_recorded() {
            // All of it has to be looked at again; the counts stay right by being made anew.
            self.recount();
        }
    }

    fn toggle_cursors(&mut self) {
        self.view.cursors = match self.view.cursors {
            Some(_) => None,
            None => Some(Cursors {
                a_ns: self.horizon.time_at(0.25),
                b_ns: self.horizon.time_at(0.75),
                chosen: CursorId::A,
            }),
        };
    }

    fn cursors(&mut self, change: impl FnOnce(&mut Cursors)) {
        if self.view.cursors.is_none() {
            self.toggle_cursors();
        }
        if let Some(cursors) = &mut self.view.cursors {
            change(cursors);
        }
    }

    /// To the next instant at which anything is drawn: a rung of a lifeline, or a mark.
    fn snap_cursor(&mut self, by: i8) {
        if self.view.cursors.is_none() {
            self.toggle_cursors();
        }
        let Some(cursors) = self.view.cursors else { return };
        let now_ns = cursors.chosen_ns();
        let (from_ns, to_ns) = (self.horizon.begin_ns(), self.horizon.end_ns());
        let rungs = self.sweep.lifelines.iter().flat_map(Lifeline::marks).map(|rung| rung.time_ns);
        let marks = self.journal.marks(from_ns, to_ns).map(|mark| mark.time_ns);
        let hits = self.journal.hits(from_ns, to_ns).map(|hit| hit.hit.time_ns);
        let all = rungs.filter(|at| (from_ns..=to_ns).contains(at)).chain(marks).chain(hits);
        let next =
            if by >= 0 { all.filter(|at| *at > now_ns).min() } else { all.filter(|at| *at < now_ns).max() };
        match next {
            Some(at_ns) => self.cursors(|cursors| cursors.place(cursors.chosen, at_ns)),
            None => self.tell("no event further on in the picture".to_owned(), false),
        }
    }

    fn filter(&mut self, text: &str) {
        if text.trim().is_empty() {
            self.view.filter = None;
            return self.refilter();
        }
        match Filter::parse(text) {
            Ok(filter) => {
                self.view.filter = Some(filter);
                self.refilter();
            }
            Err(error) => self.tell(format!("filter: {error}"), true),
        }
    }

    fn pick(&mut self, pick: Pick) {
        if pick == Pick::Nothing {
            self.view.picks.clear();
        } else {
            self.view.picks.retain(|other| !other.is_like(&pick));
            self.view.picks.push(pick);
        }
        self.refilter();
    }

    /// Takes everything again, after a change of filter.
    fn refilter(&mut self) {
        self.unselect();
        self.recount();
        let (view, names) = (&self.view, &self.names);
        self.memory.relist(|line| view.accepts(line, names));
        let before = std::mem::take(&mut self.sweep);
        self.overlay = None;
        // What the picture was taken for may not be looked at any more: then it is taken for the slowest that is.
        let kept = before.lifelines.iter().find(|line| Some(line.key()) == before.anchor);
        let kept = kept.filter(|line| self.view.accepts(line, &self.names)).cloned();
        let accepted = self.memory.recent().filter(|line| self.view.accepts(line, &self.names));
        let slowest = accepted.max_by_key(|line| (line.journey.verdict.is_whole(), line.total_ns())).cloned();
        match kept.or(slowest) {
            Some(line) => self.take_for(&line),
            None => self.redraw(),
        }
        self.relist();
        self.measure();
        self.overlay_again();
    }

    fn select_hop(&mut self, by: i8) {
        let hops: Vec<_> = self.lanes.iter().filter_map(Lane::hop).collect();
        let now = self.view.hop.and_then(|hop| hops.iter().position(|other| *other == hop));
        self.view.hop = step(now, by, hops.len()).and_then(|at| hops.get(at)).copied();
    }

    fn select_journey(&mut self, by: i8) {
        let now = self.view.journey.and_then(|key| self.listed.iter().position(|line| line.key() == key));
        let Some(line) = step(now, by, self.listed.len()).and_then(|at| self.listed.get(at)) else { return };
        let line = line.clone();
        self.select(&line);
    }

    /// Selects a journey and shows it.
    fn select(&mut self, line: &Lifeline) {
        self.view.journey = Some(line.key());
        if self.is_recorded() {
            self.pause();
            self.playhead.seek(line.start_ns());
        }
        self.selected = Some(line.clone());
        self.take_for(line);
        self.moved();
    }

    fn choose_journey(&mut self, key: u64) {
        if let Some(line) = self.find(key) {
            return self.select(&line);
        }
        // Of a recording it can be read again: its place is known by the pyramid.
        let (from_ns, to_ns) =
            (self.horizon.begin_ns(), self.horizon.end_ns().max(self.horizon.begin_ns() + 1));
        let columns = 4096;
        let known = self.pyramid.slowest(from_ns, to_ns, columns).into_iter().find(|e| e.key == key);
        match known.filter(|_| self.is_recorded()) {
            Some(exemplar) => {
                self.horizon.remember();
                self.pause();
                self.view.journey = Some(key);
                self.sweep.anchor = Some(key);
                self.playhead.seek(exemplar.start_ns);
                let timebase = Timebase::holding(exemplar.total_ns.saturating_mul(5) / 3);
                let span = timebase.span_ns();
                let ahead = (span.saturating_sub(exemplar.total_ns) / 2).max(span / 10);
                self.horizon.stand(exemplar.start_ns.saturating_sub(ahead), 0.0, timebase);
                self.moved();
            }
            None => self.tell("this journey is not kept any more".to_owned(), true),
        }
    }

    /// The journey drawn nearest to an instant in a lane.
    fn select_at(&mut self, time_ns: u64, within_ns: u64, hop: Option<Hop>) {
        let near = |line: &Lifeline| {
            let start_ns = if self.view.align == Align::Start {
                line.start_ns() - self.horizon.begin_ns().min(line.start_ns())
            } else {
                0
            };
            let rungs = line.marks().filter(|rung| hop.is_none_or(|hop| hop == rung.hop));
            rungs.map(|rung| rung.time_ns.saturating_sub(start_ns).abs_diff(time_ns)).min()
        };
        let lines = self.sweep.lifelines.iter().filter_map(|line| Some((near(line)?, line)));
        let nearest = lines.filter(|(far, _)| *far <= within_ns).min_by_key(|(far, line)| (*far, line.key()));
        if let Some(line) = nearest.map(|(_, line)| line.clone()) {
            self.view.journey = Some(line.key());
            self.sweep.anchor = Some(line.key());
            self.selected = Some(line);
            self.view.top = Top::Inspector;
            self.pause();
            self.relist();
        } else {
            let (from_ns, to_ns) = (time_ns.saturating_sub(within_ns), time_ns.saturating_add(within_ns));
            let slowest = self.pyramid.slowest(from_ns, to_ns.saturating_add(1), 1);
            if let Some(exemplar) = slowest.first() {
                self.choose_journey(exemplar.key);
            }
        }
    }

    fn select_row(&mut self, by: i32) {
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
                let last = self.flows.len().saturating_sub(1);
                self.view.row = self.view.row.saturating_add_signed(by as isize).min(last);
            }
            Room::Hops | Room::Clock | Room::Losses => {
                self.view.row = self.view.row.saturating_add_signed(by as isize).min(super::HOP_IDS);
            }
        }
    }

    fn take_row(&mut self) {
        match self.view.room {
            Room::Flows => {
                if let Some(flow) = self.flows.at(self.view.order, self.view.row) {
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
                let seen: Vec<Hop> = Hop::path()
                    .iter()
                    .zip(&self.below)
                    .filter_map(|(hop, below)| below.map(|_| *hop))
                    .collect();
                // The first row is the whole journey.
                self.view.hop = self.view.row.checked_sub(1).and_then(|at| seen.get(at)).copied();
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
        } else if !self.view.picks.is_empty() {
            self.pick(Pick::Nothing);
        } else if self.view.hop.is_some() {
            self.view.hop = None;
        } else if self.view.room != Room::Scope {
            self.show(Room::Scope);
        }
    }

    fn clear(&mut self) {
        self.unselect();
        self.recount();
        self.forget_counts();
        self.memory = Memory::default();
        self.flows = Flows::default();
        self.pyramid.clear();
        self.overlay = None;
        self.captured.clear();
        let align = self.view.align;
        self.sweep = Sweep { timebase: self.horizon.timebase(), align, ..Sweep::default() };
        if let Some(recorded) = &mut self.recorded {
            recorded.filled = None;
            self.journal = Journal::default();
        } else {
            self.begin_ns = None;
        }
        self.listed.clear();
        self.measure();
        self.overlay_again();
    }
}

/// Units a division: 1, 2 or 5 times a power of ten.
struct Steps {
    lead: usize,
    power: i32,
}

impl Steps {
    const LEADS: [f64; 3] = [1.0, 2.0, 5.0];

    fn near(value: f64) -> Self {
        let value = if value.is_finite() && value > 0.0 { value.clamp(1e-12, 1e15) } else { 1.0 };
        let power = value.log10().floor();
        let lead = value / 10_f64.powf(power);
        let lead = if lead < 1.5 {
            0
        } else if lead < 3.5 {
            1
        } else {
            2
        };
        Steps { lead, power: power as i32 }
    }

    const fn step(&mut self, up: bool) {
        if up && self.lead == 2 {
            (self.lead, self.power) = (0, self.power + 1);
        } else if up {
            self.lead += 1;
        } else if self.lead == 0 {
            (self.lead, self.power) = (2, self.power - 1);
        } else {
            self.lead -= 1;
        }
    }

    fn value(&self) -> f64 {
        Self::LEADS[self.lead] * 10_f64.powi(self.power.clamp(-12, 15))
    }
}

/// A place in a list of `len`, `by` away from `now`, and not past its ends. Without a place, the first or the last.
pub(super) fn step(now: Option<usize>, by: i8, len: usize) -> Option<usize> {
    let last = len.checked_sub(1)?;
    Some(match now {
        None if by >= 0 => 0,
        None => last,
        Some(at) => at.saturating_add_signed(isize::from(by)).min(last),
    })
}
