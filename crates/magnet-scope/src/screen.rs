//! The screen: feeds a scope from a source and measures the cost.

mod follower;
mod options;
mod overlaps;
mod player;
mod save;
mod stretch;
#[cfg(test)]
mod stretch_tests;
mod switch;
mod trigger_buffers;

pub use follower::{Followed, Received, follow, watch};
pub use options::{ScreenArgs, config_dir};
pub use player::{Player, ScopeAccess, picture, play};
pub use trigger_buffers::below;

use crate::meters::Meters;
use crate::recording::Directory;
use crate::recordings::FoundDamage;
use crate::trigger::{TriggerArgs, TriggerRecorder};
use switch::Switch;

use anyhow::Result;
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_scope::{Budget, Options, Recording, Scope, State, TourFault};
use magscope_tui::{Exit, Pump, TuiError};
use std::path::Path;
use std::time::{Duration, Instant};

/// After so long without events a source is quiet.
const QUIET: Duration = Duration::from_millis(500);

/// A source with status information.
pub trait Feed: Source {
    /// Hits of all probes so far, where there are probes.
    fn hits(&self) -> Option<u64> {
        None
    }

    /// Fill ratio of the fullest ring at the last read, 0 to 1.
    fn ring_fill_ratio(&self) -> f64 {
        0.0
    }

    /// Measured kernel cost of a hit, nanoseconds.
    fn hit_ns(&mut self) -> Option<f64> {
        None
    }

    /// Makes a fault in the traffic, or none, where the traffic is the demo's.
    ///
    /// # Errors
    /// The traffic's process does not listen.
    fn set_fault(&mut self, _fault: Option<TourFault>) -> Result<()> {
        Ok(())
    }

    /// The overhead budget, if any.
    fn budget(&self) -> Option<Budget> {
        None
    }

    /// The parallel recording, if any.
    fn recording(&self) -> Option<Recording> {
        None
    }
}

/// Trigger options and the target directory.
#[derive(Default)]
pub struct Triggered<'a> {
    args: Option<&'a TriggerArgs>,
    save_directory: Option<Directory>,
}

impl<'a> Triggered<'a> {
    /// Saves into `kept`, if given.
    pub const fn new(args: &'a TriggerArgs, save_directory: Option<Directory>) -> Self {
        Triggered { args: Some(args), save_directory }
    }

    /// Sets the trigger.
    pub fn set(&self, settings: &mut magscope_scope::trigger::Settings) {
        if let Some(args) = self.args {
            args.set(settings);
        }
    }

    /// Target directory, and memory for pre-trigger data, bytes.
    fn directory(self) -> Option<(Directory, u64)> {
        Some((self.save_directory?, self.args?.trigger_memory))
    }

    /// The buffer of trigger data.
    pub fn trigger_recorder(self, info: &magscope_core::node::NodeInfo) -> Option<TriggerRecorder> {
        Some(TriggerRecorder::new(self.save_directory?, info, self.args?.trigger_memory))
    }
}

/// Shows `feed` until the user quits.
pub fn show(
    feed: &mut impl Feed,
    state: State,
    limits: Limits,
    args: &ScreenArgs,
    triggered: Triggered<'_>,
) -> Result<()> {
    let measures_itself = feed.hits().is_some();
    let options = Options { state, limits, suggests: true, measures_itself, ..Options::default() };
    let scope = Scope::new(feed.info().clone(), options);
    show_scope(feed, scope, args, triggered)
}

/// The same with a tour.
pub fn show_tour(feed: &mut impl Feed, limits: Limits, args: &ScreenArgs) -> Result<()> {
    let options = Options { limits, measures_itself: feed.hits().is_some(), ..Options::default() };
    let mut scope = Scope::new(feed.info().clone(), options);
    scope.begin_tour();
    show_scope(feed, scope, args, Triggered::default())
}

fn show_scope(
    feed: &mut impl Feed,
    mut scope: Scope,
    args: &ScreenArgs,
    triggered: Triggered<'_>,
) -> Result<()> {
    let options = args.options()?;
    scope.set_trigger(|settings| triggered.set(settings));
    let recorder = triggered.trigger_recorder(feed.info());
    let mut pump = Feeder::new(feed, recorder);
    let ended = magscope_tui::run(&mut pump, &mut scope, options);
    pump.end(&mut scope);
    end_of(ended)
}

/// Shows damage that was found since `shown` places were, as a message.
pub fn show_damage(found: &FoundDamage, shown: &mut usize, scope: &mut dyn ScopeAccess) {
    if let Some(words) = found.news(shown) {
        scope.hold(&mut |scope| scope.show_message(words.clone(), true));
    }
}

/// Converts the end of a screen to an error.
fn end_of(ended: Result<Exit, TuiError>) -> Result<()> {
    match ended {
        Ok(_) => Ok(()),
        // The source's own error is more specific than "The source failed".
        Err(TuiError::Source(error)) => Err(anyhow::Error::from_boxed(error)),
        Err(error) => Err(error.into()),
    }
}

/// Feeds a scope from a live source, with trigger data, a parallel recording and cost measurement.
pub struct Feeder<'a, F> {
    feed: &'a mut F,
    batch: Batch,
    meters: Meters,
    /// Buffer of trigger data.
    trigger_recorder: Option<TriggerRecorder>,
    /// The recording started by a key.
    switch: Switch,
    ticked: Instant,
    /// When the last events came.
    events_at: Instant,
    /// The fault that the traffic has.
    fault: Option<TourFault>,
}

impl<'a, F: Feed> Feeder<'a, F> {
    /// A feeder without data so far.
    pub fn new(feed: &'a mut F, trigger_recorder: Option<TriggerRecorder>) -> Self {
        let (batch, switch) = (Batch::default(), Switch::default());
        Feeder {
            feed,
            batch,
            meters: Meters::start(),
            trigger_recorder,
            switch,
            ticked: Instant::now(),
            events_at: Instant::now(),
            fault: None,
        }
    }

    /// Waits for the next batch, without access to the scope.
    pub fn wait(&mut self, timeout: Duration) -> Result<Progress, SourceError> {
        self.feed.next(&mut self.batch, timeout)
    }

    /// Passes the batch to the scope.
    pub fn give(&mut self, scope: &mut Scope) -> Result<(), SourceError> {
        if let Some(recorder) = &mut self.trigger_recorder {
            recorder.hold(&self.batch);
        }
        scope.ingest(&self.batch);
        self.switch.pass(scope, self.feed.info(), &self.batch);
        let now = Instant::now();
        if !self.batch.events.is_empty() {
            self.events_at = now;
        }
        if scope.tour_fault() != self.fault {
            self.fault = scope.tour_fault();
            self.feed.set_fault(self.fault)?;
        }
        scope.tick(u64::try_from((now - self.ticked).as_nanos())?);
        self.ticked = now;
        for capture in scope.take_captures() {
            match self.trigger_recorder.as_mut().map(|recorder| recorder.save(&capture)) {
                Some(Ok(summary)) => scope.show_message(format!("saved {summary}"), false),
                Some(Err(error)) => scope.show_message(format!("not saved: {error:#}"), true),
                None => {}
            }
        }
        if self.meters.read(self.feed, scope) {
            scope.set_recording(self.switch.recording().or_else(|| self.feed.recording()));
        }
        Ok(())
    }

    /// Ends the parallel recording, if any.
    pub fn end(&mut self, scope: &mut Scope) {
        self.switch.end(scope);
    }
}

impl<F: Feed> Pump for Feeder<'_, F> {
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.wait(timeout)?;
        self.give(scope)?;
        Ok(progress)
    }

    fn is_quiet(&self) -> bool {
        self.events_at.elapsed() > QUIET
    }

    fn save(&mut self, ending: &str, contents: &str) -> Result<String, String> {
        save::save(Path::new("."), ending, contents)
    }
}
