//! Plays one or more recordings on one time line.
//!
//! A survey reads everything once, in slices between key presses, so that the first picture appears at once. A
//! zoomed-in window is read again, with a margin for journeys in flight.

use super::{ScreenArgs, end_of, save};
use crate::recordings::Recordings;
use anyhow::Result;
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, SourceError};
use magscope_scope::recorded::{MOST_EVENTS, MOST_HEADS, MOST_HITS, MOST_SCANNED, Stretch, Window};
use magscope_scope::{Options, Scope, State};
use magscope_timeline::merged_reader::{Piece, Walker};
use magscope_tui::{Picture, Pump};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum duration of a slice, which delays keys.
const SLICE: Duration = Duration::from_millis(15);
/// Maximum number of events read for a window while keys wait: a third of a second.
const MOST_READ: usize = 300_000;
/// Maximum without waiting keys: enough for the maximum number of journeys and their margin.
const MOST_READ_IN_BACKGROUND: usize = 1_500_000;
/// Maximum number of windows read between two keys.
const MOST_WINDOWS: usize = 16;
/// Minimum margin around a window, nanoseconds.
const AROUND_NS: u64 = 10_000_000;
/// Maximum margin.
const MOST_AROUND_NS: u64 = 1_000_000_000;

/// Shows recordings until the user quits.
pub fn play(recordings: &Recordings, speed: f64, limits: Limits, args: &ScreenArgs) -> Result<()> {
    let mut scope = scope_of(recordings, speed, limits);
    let mut player = Player::new(recordings, limits);
    end_of(magscope_tui::run(&mut player, &mut scope, args.options()?))
}

/// The screen at the end of the recordings after some keys, as text. It does not depend on the speed of this machine.
pub fn picture(
    recordings: &Recordings,
    limits: Limits,
    args: &ScreenArgs,
    picture: Picture,
    keys: &str,
) -> Result<String> {
    let mut scope = scope_of(recordings, 1.0, limits);
    let mut player = Player::new(recordings, limits);
    let (from_ns, to_ns) = recordings.extent();
    player.settle(&mut scope).map_err(anyhow::Error::from_boxed)?;
    scope.tick(to_ns.saturating_sub(from_ns).saturating_add(1));
    let text = picture.text(&mut scope, args.options()?, keys, &mut |scope| player.settle(scope));
    text.map_err(anyhow::Error::from_boxed)
}

fn scope_of(recordings: &Recordings, speed: f64, limits: Limits) -> Scope {
    let (from_ns, to_ns) = recordings.extent();
    let options = Options {
        state: State::Replay,
        limits,
        recorded: Some(Window { from_ns, to_ns }),
        speed,
        ..Options::default()
    };
    let mut scope = Scope::of_several(recordings.infos().to_vec(), options);
    scope.set_clock_pairs(recordings.clock_pairs());
    scope
}

/// Access to the scope: permanent in a terminal, by lock in a window.
pub trait ScopeAccess {
    /// Runs `with` with the scope locked.
    fn hold(&mut self, with: &mut dyn FnMut(&mut Scope));
}

impl ScopeAccess for Scope {
    fn hold(&mut self, with: &mut dyn FnMut(&mut Scope)) {
        with(self);
    }
}

/// Player of recordings.
pub struct Player<'r> {
    recordings: &'r Recordings,
    limits: Limits,
    /// The survey reader, until its end.
    survey: Option<Walker<'r>>,
    number: u64,
    /// True if the survey is paused.
    idle: bool,
    /// Maximum number of events read for a window.
    most_read: usize,
    /// The scope's revision at the last query for a window: an unchanged scope has the same answer.
    asked: Option<u64>,
    ticked: Instant,
}

impl<'r> Player<'r> {
    /// A player at the start.
    pub fn new(recordings: &'r Recordings, limits: Limits) -> Self {
        let survey = Some(recordings.walker(limits, None));
        Player {
            recordings,
            limits,
            survey,
            number: 0,
            idle: false,
            most_read: MOST_READ,
            asked: None,
            ticked: Instant::now(),
        }
    }

    /// A player in a separate thread, where no key waits for a window.
    pub fn in_background(self) -> Self {
        Player { most_read: MOST_READ_IN_BACKGROUND, ..self }
    }

    /// Continues the survey until the end of the slice or of the recording.
    fn read_on(&mut self, scope: &mut dyn ScopeAccess, until: Instant) -> Result<(), SourceError> {
        while let Some(survey) = &mut self.survey {
            let progress = survey.step(&mut |piece| match piece {
                Piece::Batch(node, batch) => scope.hold(&mut |scope| scope.ingest_batch(node, batch)),
                Piece::Journey(journey, ..) => scope.hold(&mut |scope| scope.ingest_journey(journey.clone())),
            })?;
            if progress == Progress::End {
                self.survey = None;
                scope.hold(&mut Scope::end);
            }
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    /// Reads a window.
    fn read(&self, scope: &mut dyn ScopeAccess, window: Window) -> Result<(), SourceError> {
        // A fraction of the width: a full width on each side would be mostly wasted.
        let around = ((window.to_ns - window.from_ns) / 4).clamp(AROUND_NS, MOST_AROUND_NS);
        let wide = (window.from_ns.saturating_sub(around), window.to_ns.saturating_add(around));
        let mut walker = self.recordings.walker(self.limits, Some(wide));
        let mut stretch = Stretch { window, ..Stretch::default() };
        let (mut progress, mut read) = (Progress::More, 0);
        while progress == Progress::More && !stretch.truncated {
            stretch.truncated |= read > self.most_read;
            progress = walker.step(&mut |piece| match piece {
                Piece::Batch(node, batch) => {
                    scope.hold(&mut |scope| scope.learn(node, batch));
                    read += batch.events.len();
                    let inside = |ns: u64| (window.from_ns..=window.to_ns).contains(&ns);
                    let room = MOST_EVENTS - stretch.events.len().min(MOST_EVENTS);
                    let events = batch.events.iter().filter(|event| inside(event.time_ns)).take(room);
                    stretch.events.extend(events.map(|event| (node, *event)));
                    let room = MOST_HITS - stretch.hits.len().min(MOST_HITS);
                    let hits = batch.hits.iter().filter(|hit| inside(hit.time_ns)).take(room);
                    stretch.hits.extend(hits.map(|hit| (node, *hit)));
                    let room = MOST_HEADS - stretch.heads.len().min(MOST_HEADS);
                    let heads = batch.heads.iter().filter(|head| inside(head.time_ns)).take(room);
                    stretch.heads.extend(heads.map(|head| (node, head.clone())));
                }
                Piece::Journey(journey, ..) => {
                    let (start, end) = (journey.start_ns(), journey.end_ns());
                    let overlaps = start.is_some_and(|ns| ns <= window.to_ns)
                        && end.is_some_and(|ns| ns >= window.from_ns);
                    if overlaps && stretch.journeys.len() < MOST_SCANNED {
                        stretch.journeys.push(journey.clone());
                    } else {
                        stretch.truncated |= overlaps;
                    }
                }
            })?;
        }
        scope.hold(&mut |scope| scope.fill(std::mem::take(&mut stretch)));
        Ok(())
    }

    /// Advances the playback clock, then reads the requested window or the survey for at most a slice. Returns
    /// true if data was read.
    pub fn turn(&mut self, scope: &mut dyn ScopeAccess, slice: Duration) -> Result<bool, SourceError> {
        let began = Instant::now();
        let elapsed_ns = u64::try_from((began - self.ticked).as_nanos())?;
        self.ticked = began;
        let (mut number, mut wanted) = (self.number, None);
        scope.hold(&mut |scope| {
            scope.tick(elapsed_ns);
            number = scope.survey();
            let asked = self.asked.replace(scope.revision());
            wanted = if asked == self.asked { None } else { scope.wants() };
        });
        if number != self.number {
            self.number = number;
            self.survey = Some(self.recordings.walker(self.limits, None));
        }
        if let Some(window) = wanted {
            self.read(scope, window)?;
        } else if self.survey.is_some() && !self.idle {
            self.read_on(scope, began + slice)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads everything, and then the windows that the scope asks for, without advancing the playback clock.
    fn settle(&mut self, scope: &mut Scope) -> Result<(), SourceError> {
        let number = scope.survey();
        if number != self.number {
            self.number = number;
            self.survey = Some(self.recordings.walker(self.limits, None));
        }
        while self.survey.is_some() {
            self.read_on(scope, Instant::now())?;
        }
        // A truncated window is wanted again, at most a third as long each time.
        for _ in 0..MOST_WINDOWS {
            let Some(window) = scope.wants() else { break };
            self.read(scope, window)?;
        }
        Ok(())
    }

    /// Pauses or resumes the survey; requested windows are read in both cases.
    pub fn set_idle(&mut self, idle: bool) {
        self.idle = idle;
    }
}

impl Pump for Player<'_> {
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError> {
        if !self.turn(scope, timeout.min(SLICE))? {
            thread::sleep(timeout);
        }
        // Playback at the end can still go back, so a recording never ends.
        Ok(Progress::More)
    }

    fn save(&mut self, ending: &str, contents: &str) -> Result<String, String> {
        save::save(Path::new("."), ending, contents)
    }
}
