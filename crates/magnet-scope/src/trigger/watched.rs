//! A source that is watched without a screen.

use super::{Keeper, TriggerArgs};
use crate::output;
use crate::recording::Directory;
use anyhow::{Result, anyhow};
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_scope::{Options, Scope};
use std::time::Duration;

/// Holds every batch against the trigger as it passes, and saves what lies around each one.
pub struct Watched<S> {
    inner: S,
    watch: Option<(Box<Scope>, Keeper)>,
}

impl<S: Source> Watched<S> {
    /// Watches `inner` if there is a directory to save into. An error where what is waited for can never come.
    pub fn new(inner: S, made: Option<Directory>, args: &TriggerArgs, limits: Limits) -> Result<Self> {
        let Some(made) = made else { return Ok(Watched { inner, watch: None }) };
        let info = inner.info();
        let mut scope = Box::new(Scope::new(info.clone(), Options { limits, ..Options::default() }));
        scope.set_trigger(|settings| args.set(settings));
        scope.can_trigger().map_err(|words| anyhow!("--trigger: {words}"))?;
        let keeper = Keeper::new(made, info, args.trigger_memory);
        Ok(Watched { inner, watch: Some((scope, keeper)) })
    }

    /// What is watched.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: Source> Source for Watched<S> {
    fn info(&self) -> &NodeInfo {
        self.inner.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        let progress = self.inner.next(batch, timeout)?;
        if let Some((scope, keeper)) = &mut self.watch {
            keeper.hold(batch);
            scope.ingest(batch);
            if progress == Progress::End {
                scope.end();
            }
            for capture in scope.take_captures() {
                output::note(&keeper.save(&capture)?);
            }
        }
        Ok(progress)
    }
}
