//! Feeds of the window's scope, each in its own thread.

use super::trouble;
use crate::growing::Growing;
use crate::recordings::{FoundDamage, Recordings};
use crate::screen::{self, Feeder, Followed, Player, ScopeAccess};
use crate::signals::Stop;
use crate::trigger::TriggerRecorder;
use anyhow::Error;
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, SourceError};
use magscope_gui::{Feed, Shared, Trouble};
use magscope_scope::Scope;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Maximum duration of a slice before the clock advances.
const SLICE: Duration = Duration::from_millis(10);
/// Interval between two polls without data.
const PAUSE: Duration = Duration::from_millis(10);

/// The window's scope, locked briefly.
struct Moments<'s>(&'s Shared);

impl ScopeAccess for Moments<'_> {
    fn hold(&mut self, with: &mut dyn FnMut(&mut Scope)) {
        self.0.hold(with);
    }
}

fn failed(error: SourceError) -> Trouble {
    trouble(&Error::from_boxed(error))
}

/// Plays recordings.
pub struct ReplayFeed {
    /// The recordings.
    pub recordings: Recordings,
    /// Limits of the correlator.
    pub limits: Limits,
}

impl Feed for ReplayFeed {
    fn run(self: Box<Self>, scope: &Shared) -> Result<(), Trouble> {
        let mut player = Player::new(&self.recordings, self.limits).in_background();
        while !scope.is_ended() {
            player.set_idle(scope.is_idle());
            let busy = player.turn(&mut Moments(scope), SLICE).map_err(failed)?;
            scope.news();
            if !busy {
                thread::sleep(PAUSE);
            }
        }
        self.recordings.note_damage();
        Ok(())
    }
}

/// Feeds a capture until the window closes or the capture ends. `trigger_recorder` saves trigger windows.
pub fn feed_live(
    live: &mut impl screen::Feed,
    trigger_recorder: Option<TriggerRecorder>,
    scope: &Shared,
) -> Result<(), Trouble> {
    let mut feeder = Feeder::new(live, trigger_recorder);
    let ended = run(&mut feeder, &FoundDamage::default(), scope);
    scope.hold(|scope| feeder.end(scope));
    ended
}

/// Feeds a scope, and shows damage that the source finds.
fn run<F: screen::Feed>(
    feeder: &mut Feeder<'_, F>,
    damage: &FoundDamage,
    scope: &Shared,
) -> Result<(), Trouble> {
    let mut damage_shown = 0;
    while !scope.is_ended() {
        let progress = feeder.wait(2 * PAUSE).map_err(failed)?;
        scope.hold(|scope| feeder.give(scope)).map_err(failed)?;
        screen::show_damage(damage, &mut damage_shown, &mut Moments(scope));
        if progress == Progress::End {
            scope.hold(Scope::end);
            scope.news();
            return Ok(());
        }
        scope.news();
    }
    Ok(())
}

/// Follows a running recording.
pub struct FollowFeed {
    /// Its directory.
    pub dir: PathBuf,
}

impl Feed for FollowFeed {
    fn run(self: Box<Self>, scope: &Shared) -> Result<(), Trouble> {
        let damage = Arc::new(FoundDamage::default());
        let growing = Growing::new(self.dir, Stop::default(), damage.clone());
        let mut growing = growing.map_err(|error| trouble(&error))?;
        let mut feeder = Feeder::new(&mut growing, None);
        let ended = run(&mut feeder, &damage, scope);
        damage.note();
        ended
    }
}

/// Follows several running recordings on one time line.
pub struct FollowAllFeed {
    /// Their directories.
    pub dirs: Vec<PathBuf>,
    /// Limits of the correlator.
    pub limits: Limits,
}

impl Feed for FollowAllFeed {
    fn run(self: Box<Self>, scope: &Shared) -> Result<(), Trouble> {
        let mut followed = Followed::open(&self.dirs).map_err(|error| trouble(&error))?;
        let ended = feed_followed(&mut followed, self.limits, scope);
        followed.damage().note();
        ended
    }
}

/// Follows several hosts until the window closes.
pub fn feed_followed(followed: &mut Followed, limits: Limits, scope: &Shared) -> Result<(), Trouble> {
    let mut follower = followed.follower(limits);
    while !scope.is_ended() {
        let progress = follower.turn(&mut Moments(scope), 2 * PAUSE).map_err(failed)?;
        scope.news();
        if progress == Progress::End {
            return Ok(());
        }
    }
    Ok(())
}

/// A recording has no cost of this process.
impl screen::Feed for Growing {}

#[cfg(test)]
pub mod tests {
    use crate::cli::PartArgs;
    use crate::recordings::Recordings;
    use crate::window::Files;
    use magscope_core::journey::Limits;
    use magscope_core::source::{Progress, Source};
    use magscope_core::{Batch, Generator, GeneratorOptions, Hop, Journey};
    use magscope_gui::{Job, Shared, World};
    use magscope_scope::{Action, Detail, Place};
    use magscope_session::{RecordOptions, Recorder};
    use magscope_timeline::merged_reader::Piece;
    use std::path::Path;
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    /// A recording of synthetic traffic.
    pub fn record(to: &Path, events: u64) {
        let mut generator = Generator::new(GeneratorOptions { events, ..GeneratorOptions::default() });
        let mut recorder = Recorder::create(to, generator.info(), RecordOptions::default()).unwrap();
        let (mut batch, mut written) = (Batch::default(), 0);
        while generator.next(&mut batch, Duration::ZERO).unwrap() == Progress::More {
            written += batch.events.len() as u64;
            recorder.append(&batch).unwrap();
            // The queue is bounded and drops.
            while recorder.status().events + 200_000 < written {
                thread::sleep(Duration::from_millis(2));
            }
        }
        recorder.append(&batch).unwrap();
        assert_eq!(recorder.close().unwrap().losses.total(), 0);
    }

    fn until(shared: &Shared, what: &str, holds: impl Fn(&mut magscope_scope::Scope) -> bool) {
        let end = Instant::now() + Duration::from_mins(2);
        while !shared.look(&holds) {
            let state = shared.look(|scope| {
                let frame = scope.frame();
                let (detail, sweep, lines) = (frame.detail, frame.sweep.origin_ns, frame.sweep.lifelines.len());
                let tile_ns = frame.density(10).tile_ns;
                format!("{detail:?} {sweep} {lines} {tile_ns} {:?} {:?}", scope.wants(), frame.controls.align)
            });
            assert!(Instant::now() < end, "{what} never came: {state}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Hits of a hop in a picture, and the width of their tiles.
    fn counted(shared: &Shared, hop: Hop) -> (u64, u64) {
        shared.look(|scope| {
            let density = scope.frame().density(1_000);
            let row = density.lanes.iter().find(|row| row.place == Place::Hop(hop)).unwrap();
            (row.cells.iter().map(|cell| cell.count).sum(), density.tile_ns)
        })
    }

    #[test]
    fn a_recording_is_tiles_from_afar_then_counted_hit_by_hit_then_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("synthetic.session");
        record(&path, 400_000);
        let mut all: Vec<Journey> = Vec::new();
        let recordings =
            Recordings::open(std::slice::from_ref(&path), PartArgs::default(), Limits::default()).unwrap();
        let keep = |piece: Piece<'_>| {
            if let Piece::Journey(journey, ..) = piece {
                all.push(journey.clone());
            }
        };
        recordings.walk(Limits::default(), keep).unwrap();
        let (from_ns, to_ns) = recordings.extent();
        let passed = |hop: Hop, from_ns: u64, to_ns: u64| {
            let inside = |journey: &&Journey| {
                journey.rung(hop).is_some_and(|rung| (from_ns..to_ns).contains(&rung.time_ns))
            };
            all.iter().filter(inside).count() as u64
        };

        let files = Files { limits: Limits::default(), speed: 1.0, follow: false };
        let opened = files.open(&[path], &Job::default()).unwrap();
        let shared = Arc::new(Shared::new(opened.scope));
        shared.look(|scope| {
            // Playback moves the picture.
            if !scope.frame().controls.paused {
                scope.apply(Action::TogglePause);
            }
        });
        let (fed, feed) = (shared.clone(), opened.feed);
        let feed = thread::spawn(move || feed.run(&fed));
        let n = all.len() as u64;
        until(&shared, "the end", |scope| {
            scope.frame().footer.counts.journeys == n && scope.frame().transport.read_ns >= to_ns
        });
        let hop = Hop::DevXmit;

        shared.look(|scope| scope.apply(Action::Fit));
        let (n, tile_ns) = counted(&shared, hop);
        assert!(tile_ns > 0, "all of it is tiles");
        assert_eq!(n, passed(hop, from_ns, to_ns + 1), "of which none is missing");

        // Too many for lifelines, and few enough to be read again.
        let mut span_ns = to_ns - from_ns;
        let overlap = |from_ns: u64, to_ns: u64| {
            let over = |j: &&Journey| {
                j.start_ns().is_some_and(|s| s <= to_ns) && j.end_ns().is_some_and(|e| e >= from_ns)
            };
            all.iter().filter(over).count()
        };
        while overlap(from_ns, from_ns + span_ns) > 7_000 {
            span_ns = span_ns * 9 / 10;
        }
        assert!(overlap(from_ns, from_ns + span_ns) > 5_000, "{span_ns}");
        shared.look(|scope| scope.apply(Action::ZoomTo { from_ns, to_ns: from_ns + span_ns }));
        until(&shared, "a density exact to the column", |scope| {
            let frame = scope.frame();
            frame.detail == Detail::Density && frame.density(10).tile_ns == 0
        });
        let seen = shared.look(|scope| {
            let sweep = scope.frame().sweep;
            (sweep.origin_ns, sweep.origin_ns + sweep.timebase.span_ns())
        });
        assert_eq!(counted(&shared, hop), (passed(hop, seen.0, seen.1), 0));
        let slowest = shared.look(|scope| scope.frame().density(1_000).exemplars.len());
        assert!(slowest > 10, "the slowest stay");

        let middle = from_ns + span_ns / 2;
        shared.look(|scope| scope.apply(Action::ZoomTo { from_ns: middle, to_ns: middle + 2_000_000 }));
        until(&shared, "lines", |scope| scope.frame().detail == Detail::Lifelines);
        let (lines, (from_ns, to_ns)) = shared.look(|scope| {
            let sweep = scope.frame().sweep;
            let end = sweep.origin_ns + sweep.timebase.span_ns();
            (sweep.lifelines.len(), (sweep.origin_ns, end))
        });
        assert_eq!(lines, overlap(from_ns, to_ns), "every journey is a line");
        shared.end();
        assert_eq!(feed.join().unwrap(), Ok(()));
    }
}
