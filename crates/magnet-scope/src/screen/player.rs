//! Plays one or more recordings on one time line.
//!
//! A survey reads everything once, in slices between key presses, so that the first picture appears at once. A
//! zoomed-in window is read again, with a margin for journeys in flight.

use super::stretch::{self, Found};
use super::{ScreenArgs, end_of, save, show_damage};
use crate::recordings::Recordings;
use anyhow::Result;
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, SourceError};
use magscope_scope::recorded::Window;
use magscope_scope::{Options, Scope, State};
use magscope_timeline::merged_reader::{Piece, Walker};
use magscope_tui::{Picture, Pump};
use std::cell::Cell;
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

pub(super) fn scope_of(recordings: &Recordings, speed: f64, limits: Limits) -> Scope {
    let (from_ns, to_ns) = recordings.extent();
    let options = Options {
        state: State::Replay,
        limits,
        recorded: Some(Window { from_ns, to_ns }),
        observed: recordings.observed().map(|(from_ns, to_ns)| Window { from_ns, to_ns }),
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
    /// What the first survey has found.
    found: Found,
    /// True until the end of the first survey.
    is_first: bool,
    /// True if the survey is paused.
    idle: bool,
    /// Maximum number of events read for a window.
    most_read: usize,
    /// The scope's revision at the last query for a window: an unchanged scope has the same answer.
    asked: Option<u64>,
    /// Number of damaged places that were shown.
    damage_shown: usize,
    ticked: Instant,
}

impl<'r> Player<'r> {
    /// A player at the start.
    pub fn new(recordings: &'r Recordings, limits: Limits) -> Self {
        let mut player = Player {
            recordings,
            limits,
            survey: None,
            number: 0,
            found: Found::nothing(recordings),
            is_first: true,
            idle: false,
            most_read: MOST_READ,
            asked: None,
            damage_shown: 0,
            ticked: Instant::now(),
        };
        player.begin_survey();
        player
    }

    /// A player in a separate thread, where no key waits for a window. Damage found before is shown already.
    pub fn in_background(self) -> Self {
        let damage_shown = self.recordings.found().count();
        Player { most_read: MOST_READ_IN_BACKGROUND, damage_shown, ..self }
    }

    fn begin_survey(&mut self) {
        let mut walker = self.recordings.walker(self.limits, None);
        if self.is_first {
            self.found = Found::nothing(self.recordings);
            walker = walker.keep_proofs();
        }
        self.survey = Some(walker);
    }

    /// Continues the survey until the end of the slice or of the recording, or until the scope wants another one: in a
    /// window, the user acts between two pieces.
    fn read_on(&mut self, scope: &mut dyn ScopeAccess, until: Instant) -> Result<(), SourceError> {
        let (number, is_stale) = (self.number, Cell::new(false));
        let mut give = |give: &mut dyn FnMut(&mut Scope)| {
            scope.hold(&mut |scope| {
                if scope.survey() == number {
                    give(scope);
                } else {
                    is_stale.set(true);
                }
            });
        };
        while let Some(survey) = &mut self.survey {
            let mut found = Some(&mut self.found).filter(|_| self.is_first);
            let progress = survey.step(&mut |piece| {
                if let Some(found) = &mut found {
                    found.add(&piece);
                }
                match piece {
                    Piece::Batch(node, batch) => give(&mut |scope| scope.ingest_batch(node, batch)),
                    Piece::Journey(journey, ..) => give(&mut |scope| scope.ingest_journey(journey.clone())),
                }
            })?;
            if progress == Progress::End {
                if let Some(found) = found {
                    found.proofs = survey.proofs();
                }
                (self.survey, self.is_first) = (None, false);
                give(&mut Scope::end);
            }
            if is_stale.get() || Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    /// Reads a window.
    fn read(&mut self, scope: &mut dyn ScopeAccess, window: Window) -> Result<(), SourceError> {
        if let Some(survey) = self.survey.as_ref().filter(|_| self.is_first) {
            self.found.proofs = survey.proofs();
        }
        let learn = &mut |node, batch: &Batch| scope.hold(&mut |scope| scope.learn(node, batch));
        let stretch = stretch::read(self.recordings, self.limits, window, self.most_read, &self.found, learn)?;
        let mut stretch = Some(stretch);
        scope.hold(&mut |scope| stretch.take().into_iter().for_each(|stretch| scope.fill(stretch)));
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
            self.begin_survey();
        }
        if let Some(window) = wanted {
            self.read(scope, window)?;
        } else if self.survey.is_some() && !self.idle {
            self.read_on(scope, began + slice)?;
        } else {
            return Ok(false);
        }
        show_damage(self.recordings.found(), &mut self.damage_shown, scope);
        Ok(true)
    }

    /// Reads everything, and then the windows that the scope asks for, without advancing the playback clock.
    fn settle(&mut self, scope: &mut Scope) -> Result<(), SourceError> {
        let number = scope.survey();
        if number != self.number {
            self.number = number;
            self.begin_survey();
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
