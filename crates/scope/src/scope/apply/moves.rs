//! Manual moves of the picture.

use crate::action::SeekPlace;
use crate::channel::Vertical;
use crate::controls::Align;
use crate::format::DAY_NS;
use crate::frame::State;
use crate::pick::Pick;
use crate::scope::Scope;
use crate::timebase::Timebase;

impl Scope {
    pub(super) fn toggle_pause(&mut self) {
        self.controls.paused = !self.controls.paused;
        if self.controls.paused {
            return;
        }
        if self.is_recorded() {
            if self.state == State::Ended {
                // At its end, playback restarts.
                let from_ns = self.extent().0;
                self.playhead.seek(from_ns);
                self.state = State::Replay;
            }
            self.swept_ns = self.playhead.head_ns;
            self.unselect();
            return;
        }
        // At another speed than that of time, the past of a live session is played.
        let is_at_real_time = (self.playhead.speed() - 1.0).abs() < 1e-9;
        if self.playhead.following || is_at_real_time || self.state == State::Ended {
            self.go_on();
        }
    }

    /// Resumes a live picture.
    pub(in crate::scope) fn go_on(&mut self) {
        self.unselect();
        self.shown = None;
        // A shot whose window has become complete since does not stop it again.
        if self.watch.is_complete() {
            self.fired = None;
        }
        self.playhead.following = true;
        // Events during the pause are not shown afterwards: the picture resumes at the present.
        self.swept_ns = self.now_ns;
        if self.state != State::Ended {
            self.measure();
        }
    }

    /// Seeks to a place as the user names it, with the chosen cursor if cursors are shown.
    pub(super) fn seek_to(&mut self, place: SeekPlace) {
        let (from_ns, to_ns) = self.extent();
        let at_ns = match place {
            SeekPlace::Part(part) => Some(self.instant_at(part)),
            SeekPlace::AfterBegin(ns) => from_ns.checked_add(ns),
            SeekPlace::BeforeEnd(ns) => to_ns.checked_sub(ns),
            SeekPlace::TimeOfDay(ns) => self.instant_of(ns),
        };
        let Some(at_ns) = at_ns.filter(|at| (from_ns..=to_ns).contains(at)) else {
            return self.show_message("this time is outside of what there is".to_owned(), true);
        };
        self.seek(at_ns);
        if self.controls.cursors.is_some() {
            self.cursors(|cursors| cursors.place(cursors.chosen, at_ns));
        }
    }

    /// The instant at a fraction of the time line.
    pub(super) fn instant_at(&self, part: f64) -> u64 {
        let (from_ns, to_ns) = self.extent();
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        from_ns.saturating_add((to_ns.saturating_sub(from_ns) as f64 * part) as u64)
    }

    /// The first instant of the time line with this UTC time of day.
    fn instant_of(&self, of_day_ns: u64) -> Option<u64> {
        let clock = self.clocks.last(0)?;
        let from_ns = self.extent().0;
        let begin_utc = i128::from(clock.realtime_ns) + i128::from(from_ns) - i128::from(clock.monotonic_ns);
        let ahead = (i128::from(of_day_ns) - begin_utc).rem_euclid(DAY_NS);
        from_ns.checked_add(u64::try_from(ahead).ok()?)
    }

    pub(super) fn step_timebase(&mut self, steps: i32) {
        self.controls.timebase_fixed = true;
        self.horizon.zoom(steps, 0.5);
        self.moved();
    }

    pub(super) fn zoom_notches(&mut self, notches: i32, at: f64) {
        self.controls.timebase_fixed = true;
        self.horizon.zoom_notches(notches, at);
        self.moved();
    }

    pub(super) fn fit(&mut self) {
        let (from_ns, to_ns) = self.extent();
        self.zoom_to(from_ns, to_ns);
    }

    pub(super) fn fit_journey(&mut self) {
        if let Some((from_ns, to_ns)) = self.journey_stretch() {
            self.zoom_to(from_ns, to_ns);
        }
    }

    pub(super) fn fit_selection(&mut self) {
        let between =
            self.controls.cursors.map(|cursors| cursors.span()).filter(|(from_ns, to_ns)| from_ns < to_ns);
        let Some((from_ns, to_ns)) = between.or_else(|| self.journey_stretch()) else { return self.fit() };
        let before = (self.horizon.begin_ns(), self.horizon.timebase());
        if before == (from_ns, Timebase::of_span(to_ns - from_ns)) {
            return self.fit();
        }
        self.zoom_to(from_ns, to_ns);
    }

    /// The selected journey with an eighth of its time, and at least 500 ns, on both sides.
    fn journey_stretch(&self) -> Option<(u64, u64)> {
        let key = self.controls.journey?;
        let line = self.selected.clone().filter(|line| line.key() == key).or_else(|| self.find(key))?;
        let margin_ns = (line.total_ns() / 8).max(500);
        Some((line.start_ns().saturating_sub(margin_ns), line.end_ns().saturating_add(margin_ns)))
    }

    pub(super) fn zoom_to(&mut self, from_ns: u64, to_ns: u64) {
        self.horizon.remember();
        self.pause();
        self.controls.align = Align::Time;
        self.controls.timebase_fixed = true;
        self.horizon.show(from_ns, to_ns);
        self.moved();
    }

    pub(super) fn pan(&mut self, by: f64) {
        if self.controls.align == Align::Time {
            self.pause();
            self.horizon.pan(by);
            self.playhead.seek(self.horizon.time_at(0.5).clamp(self.extent().0, self.extent().1));
            if self.state == State::Ended && self.is_recorded() {
                self.state = State::Replay;
            }
            self.moved();
        }
    }

    pub(super) fn realign(&mut self) {
        let anchor = self.sweep.anchor.and_then(|key| self.find(key));
        match anchor {
            Some(line) => self.take_for(&line),
            None => self.redraw(),
        }
        self.overlay_again();
    }

    /// Sets the scales by one second of data: time so that nine of ten journeys fit, loadlines so that they
    /// fill their height. Also shows the busiest flow.
    pub(super) fn autoset(&mut self) {
        self.controls.timebase_fixed = false;
        for shown in &mut self.controls.channels {
            shown.vertical = Vertical::default();
        }
        let head_ns = if self.is_recorded() { self.playhead.head_ns } else { self.now_ns };
        let (from_ns, to_ns) = self.extent();
        let end_ns = head_ns.max(from_ns.saturating_add(1_000_000_000)).min(to_ns);
        let begin_ns = end_ns.saturating_sub(1_000_000_000);
        let second =
            self.counts.pyramid.total(crate::pyramid::Lane::Journeys, begin_ns, end_ns.saturating_add(1));
        let times = second.percentiles();
        let timebase = (times.n > 0).then(|| Timebase::holding(times.p90_ns.saturating_mul(5) / 3));
        let words = match self.counts.flows.busiest() {
            Some(flow) if self.counts.flows.has_several() && !self.controls.is_narrowed() => {
                self.controls.picks.push(Pick::Flow(flow));
                self.refilter();
                "the busiest flow; Esc shows all"
            }
            _ => "timebase and scales chosen again",
        };
        // The picture's own journey may be one of the slowest: it must not determine the scale.
        if let Some(timebase) = timebase {
            self.horizon.scale(timebase);
            self.controls.timebase_fixed = true;
        }
        match self.sweep.anchor.and_then(|key| self.find(key)) {
            Some(line) => self.take_for(&line),
            None => self.moved(),
        }
        self.controls.timebase_fixed = false;
        self.overlay_again();
        self.show_message(words.to_owned(), false);
    }
}
