//! Moves in time.

use super::Scope;
use crate::controls::Align;
use crate::frame::State;
use crate::lifeline::Lifeline;
use crate::pyramid::Lane;
use crate::timebase::Timebase;
use crate::transport::Transport;

/// Wall time until a held picture of a recording is replaced, nanoseconds.
const HOLD_NS: u64 = 1_000_000_000;
/// Interval between pictures in roll mode.
const ROLL_NS: u64 = 100_000_000;

impl Scope {
    /// First and last instant there is.
    pub(super) fn extent(&self) -> (u64, u64) {
        match &self.recorded {
            Some(recorded) => (recorded.all.from_ns, recorded.all.to_ns),
            None => (self.begin_ns.unwrap_or(self.now_ns), self.now_ns),
        }
    }

    /// Position of the picture in time.
    pub(crate) fn transport(&self) -> Transport {
        let (from_ns, to_ns) = self.extent();
        let ended = self.state == State::Ended;
        Transport {
            from_ns,
            to_ns,
            read_ns: self.recorded.as_ref().map_or(to_ns, |recorded| recorded.read_ns),
            head_ns: self.playhead.head_ns.clamp(from_ns, to_ns.max(from_ns)),
            speed: self.playhead.speed(),
            playing: !self.controls.paused && !ended,
            following: self.playhead.following && !self.controls.paused,
            seekable: self.is_recorded(),
        }
    }

    /// Advances by wall time. Only playback and the first seconds of a quiet host use it: live pictures advance by
    /// their events.
    pub fn tick(&mut self, elapsed_ns: u64) {
        self.wait(elapsed_ns);
        if self.controls.paused || (self.playhead.following && !self.is_recorded()) {
            return;
        }
        let (_, end_ns) = self.extent();
        let before_ns = self.playhead.head_ns;
        let ended = self.playhead.tick(elapsed_ns, end_ns);
        if self.playhead.head_ns == before_ns && !ended {
            return;
        }
        self.settle_counts();
        let rolls = self.rolls();
        let Some(recorded) = &mut self.recorded else {
            // Playback of a live session's past uses the wall clock; at its end the picture is live again.
            self.horizon.go(self.playhead.head_ns, 1.0);
            self.playhead.following = ended;
            self.redraw();
            self.revision += 1;
            return;
        };
        recorded.held_ns = recorded.held_ns.saturating_add(elapsed_ns);
        if ended {
            self.state = State::Ended;
        }
        let hold_ns = if rolls { ROLL_NS } else { HOLD_NS };
        let nothing_yet = self.sweep.lifelines.is_empty() && recorded.filled.is_some();
        if recorded.held_ns >= hold_ns || ended || nothing_yet {
            self.retake_recorded();
        }
    }

    /// The picture of a played recording, at its head.
    fn retake_recorded(&mut self) {
        let (head_ns, swept_ns) = (self.playhead.head_ns, self.swept_ns);
        let Some(recorded) = &mut self.recorded else { return };
        recorded.held_ns = 0;
        self.revision += 1;
        let fired = self.watch.windows().rev().map(|window| &window.capture);
        let fired = fired.filter(|c| c.at_ns > swept_ns && c.at_ns <= head_ns).min_by_key(|c| c.at_ns).cloned();
        if self.rolls() {
            self.scale_without_journeys();
            self.horizon.go(head_ns, 1.0);
        } else if let Some(capture) = fired {
            self.shown = Some(capture.number);
            self.take_fired(capture.at_ns, capture.journey);
        } else if self.watch.settings().condition.is_none()
            && let Some((key, start_ns, total_ns)) = self.slowest_between(swept_ns, head_ns)
        {
            self.sweep.anchor = Some(key);
            if !self.controls.timebase_fixed {
                self.horizon.scale(Timebase::holding(total_ns.saturating_mul(5) / 3));
            }
            let span = self.horizon.timebase().span_ns();
            let ahead = (span.saturating_sub(total_ns) / 2).max(span / 10);
            self.horizon.go(start_ns.saturating_sub(ahead), 0.0);
        }
        self.swept_ns = head_ns;
        self.redraw();
        self.measure();
        self.relist();
        self.overlay_again();
    }

    /// Seeks to an instant and pauses there.
    pub(super) fn seek(&mut self, at_ns: u64) {
        let (from_ns, to_ns) = self.extent();
        let at_ns = at_ns.clamp(from_ns, to_ns.max(from_ns));
        self.horizon.remember();
        self.pause();
        self.playhead.seek(at_ns);
        self.swept_ns = at_ns;
        if self.state == State::Ended && self.is_recorded() {
            self.state = State::Replay;
        }
        self.controls.align = Align::Time;
        self.horizon.go(at_ns, 0.5);
        self.moved();
    }

    /// Stops the picture.
    pub(super) fn pause(&mut self) {
        self.controls.paused = true;
    }

    /// After a move of the horizon: updates the picture and its numbers.
    pub(super) fn moved(&mut self) {
        self.redraw();
        if self.is_recorded() {
            self.measure();
        }
        self.overlay_again();
    }

    /// Seeks to the end and follows it.
    pub(super) fn follow(&mut self) {
        let (_, to_ns) = self.extent();
        if self.is_recorded() {
            self.seek(to_ns);
            self.horizon.go(self.last_traffic_ns().unwrap_or(to_ns).min(to_ns), 1.0);
            return self.moved();
        }
        self.playhead.following = true;
        self.controls.paused = false;
        self.go_on();
    }

    /// The last event of a recording that is surveyed to its end. Its time may go on, in which a narrow picture is empty.
    fn last_traffic_ns(&self) -> Option<u64> {
        let is_read = self.recorded.as_ref().is_some_and(|recorded| recorded.read_ns >= recorded.all.to_ns);
        self.last_event_ns.iter().flatten().max().copied().filter(|_| is_read)
    }

    /// Seeks to the next or the previous journey.
    pub(super) fn step(&mut self, by: i8) {
        let at_ns = if self.sweep.anchor.is_some() && self.controls.paused {
            self.sweep.lifelines.iter().find(|l| Some(l.key()) == self.sweep.anchor).map(Lifeline::start_ns)
        } else {
            None
        };
        let at_ns = at_ns.unwrap_or_else(|| self.horizon.time_at(0.5));
        self.pause();
        let lines = self.sweep.lifelines.iter().map(|line| (line.start_ns(), line.key()));
        let next = if by >= 0 {
            lines.filter(|(start, _)| *start > at_ns).min()
        } else {
            lines.filter(|(start, _)| *start < at_ns).max()
        };
        if let Some(line) = next.and_then(|(_, key)| self.find(key)) {
            self.sweep.anchor = Some(line.key());
            self.playhead.seek(line.start_ns());
            let x = self.horizon.x(line.start_ns());
            self.horizon.go(line.start_ns(), if (0.1..=0.9).contains(&x) { x } else { 0.5 });
        } else if let Some(start_ns) = self.next_beginning(at_ns, by) {
            self.playhead.seek(start_ns);
            self.sweep.anchor = None;
            self.horizon.go(start_ns, 0.5);
        }
        self.moved();
    }

    /// Instant at which the next journey beyond the picture begins, to within a tile, by the pyramid.
    fn next_beginning(&self, at_ns: u64, by: i8) -> Option<u64> {
        let (from_ns, to_ns) = self.extent();
        let span = self.horizon.timebase().span_ns();
        let mut found = None;
        // The search widens by a factor of four per step, so that its resolution is best nearby.
        for wide in (0..24).map(|n| span.saturating_mul(1 << (2 * n).min(40))) {
            let (a, b) = if by >= 0 {
                (at_ns.saturating_add(1), at_ns.saturating_add(wide).min(to_ns.saturating_add(1)))
            } else {
                (at_ns.saturating_sub(wide).max(from_ns), at_ns)
            };
            if a >= b {
                return None;
            }
            let (mut first, mut last) = (None, None);
            self.counts.pyramid.columns(Lane::Journeys, (a, b), 512, |column, _, _| {
                first = first.or(Some(column));
                last = Some(column);
            });
            let column = if by >= 0 { first } else { last };
            found = column.map(|column| a + (b - a) / 512 * column as u64);
            if found.is_some() || (a <= from_ns && by < 0) || (b > to_ns && by >= 0) {
                break;
            }
        }
        found
    }
}
