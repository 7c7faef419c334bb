//! Plays recordings: one or several on one time line.
//!
//! All of it is read once, a slice between two key presses, so that the first picture is there at once and the whole comes while
//! it is looked at; and what is looked at closely is read again, with a little around it for journeys that were under way.

use super::{ScreenArgs, end_of, save};
use crate::recordings::Recordings;
use anyhow::Result;
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, SourceError};
use magscope_core::together::{Piece, Walker};
use magscope_scope::recorded::{MOST_EVENTS, MOST_HEADS, MOST_HITS, MOST_SCANNED, Stretch, Window};
use magscope_scope::{Options, Scope, State};
use magscope_tui::Pump;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// The longest a slice of reading may take: keys wait for it.
const SLICE: Duration = Duration::from_millis(15);
/// Events read for a stretch at most where keys wait for it: a third of a second's work.
const MOST_READ: usize = 300_000;
/// And where they do not: what has as many journeys as are read can have so many, with what is around it.
const MOST_READ_BESIDE: usize = 1_500_000;
/// Read around a stretch at least, nanoseconds.
const AROUND_NS: u64 = 10_000_000;
/// And at most.
const MOST_AROUND_NS: u64 = 1_000_000_000;

/// Shows recordings until it is quit.
pub fn play(recordings: &Recordings, speed: f64, limits: Limits, args: &ScreenArgs) -> Result<()> {
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
    let mut player = Player::new(recordings, limits);
    end_of(magscope_tui::run(&mut player, &mut scope, args.options()?))
}

/// Whoever has the scope: a terminal's loop always, a window's feed for a moment at a time.
pub trait Hold {
    /// Holds it while `with` runs.
    fn hold(&mut self, with: &mut dyn FnMut(&mut Scope));
}

impl Hold for Scope {
    fn hold(&mut self, with: &mut dyn FnMut(&mut Scope)) {
        with(self);
    }
}

/// What plays recordings.
pub struct Player<'r> {
    recordings: &'r Recordings,
    limits: Limits,
    /// What reads all of it, until it has.
    survey: Option<Walker<'r>>,
    number: u64,
    /// It reads no further than it has.
    idle: bool,
    /// Events read for a stretch at most.
    most_read: usize,
    /// The scope's revision when it was last asked what it wants: unchanged it wants nothing else.
    asked: Option<u64>,
    ticked: Instant,
}

impl<'r> Player<'r> {
    /// At the beginning.
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

    /// The same in a thread of its own, where no key waits for a stretch.
    pub fn beside(self) -> Self {
        Player { most_read: MOST_READ_BESIDE, ..self }
    }

    /// Reads on until the slice is over or the end is reached.
    fn read_on(&mut self, scope: &mut dyn Hold, until: Instant) -> Result<(), SourceError> {
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

    /// Reads a stretch.
    fn read(&self, scope: &mut dyn Hold, window: Window) -> Result<(), SourceError> {
        // A part of its width alone: with all of it on each side, most of what is read would be thrown away.
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

    /// Lets time go on, and reads for at most so long what is to be seen, else on. Whether there was something to read.
    pub fn turn(&mut self, scope: &mut dyn Hold, slice: Duration) -> Result<bool, SourceError> {
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

    /// Reads no further than it has, or goes on; what is looked at is read either way.
    pub fn set_idle(&mut self, idle: bool) {
        self.idle = idle;
    }
}

impl Pump for Player<'_> {
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError> {
        if !self.turn(scope, timeout.min(SLICE))? {
            thread::sleep(timeout);
        }
        // Where the head stands at the end it can still go back, so that a recording never ends for good.
        Ok(Progress::More)
    }

    fn save(&mut self, ending: &str, contents: &str) -> Result<String, String> {
        save::save(Path::new("."), ending, contents)
    }
}
