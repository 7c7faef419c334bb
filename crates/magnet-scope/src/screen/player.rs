//! A recording on the screen. It is read twice: once from end to end, a slice between two pictures, for all that is seen from
//! afar; and again wherever single journeys are to be seen.

use super::save;
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::{Batch, Correlator, Journey};
use magscope_scope::Scope;
use magscope_scope::recorded::{MOST_EVENTS, MOST_JOURNEYS, Stretch, Window};
use magscope_session::{Replay, Session};
use magscope_tui::Pump;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long the survey reads at a time: a key does not wait longer than this and a batch.
const SLICE: Duration = Duration::from_millis(15);
/// How far around a stretch is read, at least and at most, for the journeys that reach into it.
const AROUND_NS: (u64, u64) = (10_000_000, 1_000_000_000);
/// Events read for a stretch at most: a third of a second's work.
const MOST_READ: usize = 300_000;

/// Plays a recording.
pub struct Player<'a> {
    session: &'a Session,
    limits: Limits,
    all: Window,
    /// Number of the survey that runs or was the last, and what is left of it.
    survey: (u64, Option<Replay>),
    /// The stretch read last: one that cannot be filled is not read again and again.
    read: Option<Window>,
    /// The scope's revision when it was last asked what it wants: unchanged it wants nothing else.
    asked: Option<u64>,
    batch: Batch,
    ticked: Instant,
}

impl<'a> Player<'a> {
    /// Plays this part of a recording.
    pub fn new(session: &'a Session, all: Window, limits: Limits) -> Self {
        let survey = (0, Some(session.replay(Some(all.from_ns), Some(all.to_ns))));
        let (read, asked) = (None, None);
        Player { session, limits, all, survey, read, asked, batch: Batch::default(), ticked: Instant::now() }
    }

    /// Reads on for a slice of time. Returns whether there was something to read.
    fn survey(&mut self, scope: &mut Scope) -> Result<bool, SourceError> {
        if self.survey.0 != scope.survey() {
            let replay = self.session.replay(Some(self.all.from_ns), Some(self.all.to_ns));
            self.survey = (scope.survey(), Some(replay));
        }
        let Some(replay) = &mut self.survey.1 else { return Ok(false) };
        let began = Instant::now();
        while began.elapsed() < SLICE {
            if replay.next(&mut self.batch, Duration::ZERO)? == Progress::End {
                self.survey.1 = None;
                scope.end();
                break;
            }
            scope.ingest(&self.batch);
        }
        Ok(true)
    }

    /// Reads the stretch whose journeys are to be seen.
    fn stretch(&mut self, scope: &mut Scope, window: Window) -> Result<(), SourceError> {
        let around = (window.to_ns - window.from_ns).clamp(AROUND_NS.0, AROUND_NS.1);
        let (from, to) = (window.from_ns.saturating_sub(around), window.to_ns.saturating_add(around));
        let mut replay = self.session.replay(Some(from), Some(to));
        let mut correlator = Correlator::of_node(self.session.info(), self.limits);
        let mut stretch = Stretch { window, ..Stretch::default() };
        let (mut done, mut events) = (Vec::new(), 0);
        while replay.next(&mut self.batch, Duration::ZERO)? == Progress::More {
            scope.learn(0, &self.batch);
            correlator.push(&self.batch, &mut done);
            let inside = |time_ns: u64| (window.from_ns..=window.to_ns).contains(&time_ns);
            let room = MOST_EVENTS.saturating_sub(stretch.events.len());
            let seen = self.batch.events.iter().filter(|event| inside(event.time_ns));
            stretch.events.extend(seen.take(room).map(|event| (0, *event)));
            events += self.batch.events.len();
            if events > MOST_READ {
                stretch.truncated = true;
                break;
            }
        }
        correlator.finish(&mut done);
        let overlaps = |journey: &Journey| {
            let start = journey.start_ns().unwrap_or(u64::MAX);
            start <= window.to_ns && journey.end_ns().unwrap_or(0) >= window.from_ns
        };
        stretch.journeys = done.into_iter().filter(overlaps).collect();
        stretch.truncated |= stretch.journeys.len() > MOST_JOURNEYS;
        stretch.journeys.truncate(MOST_JOURNEYS);
        scope.fill(stretch);
        Ok(())
    }
}

impl Pump for Player<'_> {
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError> {
        let elapsed = std::mem::replace(&mut self.ticked, Instant::now()).elapsed();
        scope.tick(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        let changed = self.asked.replace(scope.revision()) != Some(scope.revision());
        let wanted = if changed { scope.wants() } else { None };
        if let Some(window) = wanted.filter(|window| self.read != Some(*window)) {
            self.stretch(scope, window)?;
            self.read = Some(window);
        } else if !self.survey(scope)? {
            thread::sleep(timeout);
        }
        Ok(Progress::More)
    }

    fn save(&mut self, ending: &str, contents: &str) -> Result<String, String> {
        save::save(Path::new("."), ending, contents)
    }
}
