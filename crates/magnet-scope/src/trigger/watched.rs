//! A source with a trigger and without a screen.

use super::{TriggerArgs, TriggerRecorder};
use crate::meters::Meters;
use crate::output;
use crate::recording::Directory;
use crate::screen::Feed;
use anyhow::{Result, anyhow};
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_scope::format::counted;
use magscope_scope::trigger::MOST_OPEN;
use magscope_scope::{Options, Scope};
use std::time::Duration;

/// Applies the trigger to batches, if set.
pub struct Watch(Option<Set>);

struct Set {
    scope: Box<Scope>,
    recorder: TriggerRecorder,
    meters: Meters,
}

/// Applies the trigger to each batch in passing and saves the windows.
pub struct Watched<S> {
    inner: S,
    watch: Watch,
}

impl Watch {
    /// A watch for a node with a target directory. An error if the condition can never match or has no effect.
    pub fn new(made: Option<Directory>, args: &TriggerArgs, limits: Limits, info: &NodeInfo) -> Result<Self> {
        let Some(made) = made else {
            args.is_of_use_without_saving()?;
            return Ok(Watch(None));
        };
        let options = Options { limits, measures_itself: true, ..Options::default() };
        let mut scope = Box::new(Scope::new(info.clone(), options));
        scope.set_trigger(|settings| args.set(settings));
        scope.can_trigger().map_err(|words| anyhow!("--trigger: {words}"))?;
        let recorder = TriggerRecorder::new(made, info, args.trigger_memory);
        Ok(Watch(Some(Set { scope, recorder, meters: Meters::start() })))
    }

    /// Watches a source of that node.
    pub fn over<S: Feed>(self, inner: S) -> Watched<S> {
        Watched { inner, watch: self }
    }
}

impl<S: Feed> Watched<S> {
    /// The source, at its end. Prints how often the trigger fired without a window.
    pub fn end(self) -> S {
        if let Some(Set { scope, recorder, .. }) = &self.watch.0 {
            let (fired, windows) = (scope.times_triggered(), recorder.windows());
            if fired == 0 {
                output::note("the trigger did not fire");
            }
            if fired > windows {
                let fired = counted(fired, "time", "times");
                let windows = counted(windows, "window was", "windows were");
                output::note(&format!(
                    "the trigger fired {fired}, and {windows} saved: at most {MOST_OPEN} are open at a time; `--hold-off` \
                     makes it fire less often"
                ));
            }
        }
        self.inner
    }
}

impl<S: Feed> Source for Watched<S> {
    fn info(&self) -> &NodeInfo {
        self.inner.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.inner.next(batch, timeout)?;
        if let Some(Set { scope, recorder, meters }) = &mut self.watch.0 {
            recorder.hold(batch);
            scope.ingest(batch);
            meters.read(&mut self.inner, scope);
            if progress == Progress::End {
                scope.end();
            }
            for capture in scope.take_captures() {
                // The recording beside it, or the report, goes on.
                match recorder.save(&capture) {
                    Ok(summary) => output::note(&summary),
                    Err(error) => output::note(&format!("not saved: {error:#}")),
                }
            }
        }
        Ok(progress)
    }
}
