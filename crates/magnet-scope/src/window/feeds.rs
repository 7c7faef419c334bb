//! What brings events to the window's scope, each in a thread of its own.

use super::trouble;
use crate::commands::export::follow::Follow;
use crate::recordings::Recordings;
use crate::screen::{self, Feeder, Hold, Player};
use crate::signals::Stop;
use crate::trigger::Keeper;
use anyhow::Error;
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_gui::{Feed, Shared, Trouble};
use magscope_scope::Scope;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The longest a slice of reading takes before the clock goes on.
const SLICE: Duration = Duration::from_millis(10);
/// Between two looks where nothing is to be read.
const PAUSE: Duration = Duration::from_millis(10);

/// The window's scope, held for a moment at a time.
struct Moments<'s>(&'s Shared);

impl Hold for Moments<'_> {
    fn hold(&mut self, with: &mut dyn FnMut(&mut Scope)) {
        self.0.hold(with);
    }
}

fn failed(error: SourceError) -> Trouble {
    trouble(&Error::from_boxed(error))
}

/// Plays recordings.
pub struct ReplayFeed {
    /// What is played.
    pub recordings: Recordings,
    /// Of the correlator.
    pub limits: Limits,
}

impl Feed for ReplayFeed {
    fn run(self: Box<Self>, scope: &Shared) -> Result<(), Trouble> {
        let mut player = Player::new(&self.recordings, self.limits);
        while !scope.is_ended() {
            player.set_idle(scope.is_idle());
            let busy = player.turn(&mut Moments(scope), SLICE).map_err(failed)?;
            scope.news();
            if !busy {
                thread::sleep(PAUSE);
            }
        }
        Ok(())
    }
}

/// Feeds from a capture, until the window is closed or the capture ends. `keeper` saves what lies around triggers.
pub fn feed_live(live: &mut impl screen::Feed, keeper: Option<Keeper>, scope: &Shared) -> Result<(), Trouble> {
    let mut feeder = Feeder::new(live, keeper);
    let ended = run(&mut feeder, scope);
    scope.hold(|scope| feeder.end(scope));
    ended
}

fn run<F: screen::Feed>(feeder: &mut Feeder<'_, F>, scope: &Shared) -> Result<(), Trouble> {
    while !scope.is_ended() {
        let progress = feeder.wait(2 * PAUSE).map_err(failed)?;
        scope.hold(|scope| feeder.give(scope)).map_err(failed)?;
        if progress == Progress::End {
            scope.hold(Scope::end);
            scope.news();
            return Ok(());
        }
        scope.news();
    }
    Ok(())
}

/// Follows a recording that still runs.
pub struct FollowFeed {
    /// Which.
    pub dir: PathBuf,
}

impl Feed for FollowFeed {
    fn run(self: Box<Self>, scope: &Shared) -> Result<(), Trouble> {
        let follow = Follow::new(self.dir, Stop::default()).map_err(|error| trouble(&error))?;
        let mut growing = Growing(follow);
        let mut feeder = Feeder::new(&mut growing, None);
        run(&mut feeder, scope)
    }
}

/// A recording that grows, as what a screen is fed from. What it costs is not ours.
struct Growing(Follow);

impl Source for Growing {
    fn info(&self) -> &NodeInfo {
        self.0.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        self.0.next(batch, timeout)
    }
}

impl screen::Feed for Growing {}
