//! Arguments of the trigger.

use crate::failure::Usage;
use crate::recording::Directory;
use anyhow::Result;
use clap::Args;
use magscope_scope::trigger::{Condition, HoldOff, Mode, Settings};
use std::path::PathBuf;
use std::time::Duration;

/// What is waited for, and what is kept of it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Trigger")]
pub struct TriggerArgs {
    /// Wait for this: `hop(dev.recv,app.recv) > 2ms`, `request > 50ms`, `srtt rises 5ms`, `drop`, `retransmit`, `missed`, or any condition as in
    /// `--where`
    #[arg(long, value_name = "CONDITION", value_parser = condition)]
    trigger: Option<Condition>,
    /// Save what lies around every trigger as a recording of its own in this directory
    #[arg(long, value_name = "DIR", requires = "trigger")]
    pub save_on_trigger: Option<PathBuf>,
    /// How much is kept around a trigger
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::parse, default_value = "1s")]
    trigger_window: Duration,
    /// How much of that lies before it, per cent
    #[arg(long, value_name = "0-100", value_parser = clap::value_parser!(u8).range(0..=100), default_value_t = 50)]
    pre_trigger: u8,
    /// After a trigger, leave out others for this long (`5s`) or this many of them (`100`)
    #[arg(long, value_name = "TIME|N", value_parser = hold_off)]
    hold_off: Option<HoldOff>,
    /// Show and save only the first one; a recording beside it goes on
    #[arg(long)]
    single: bool,
    /// Memory for what was before a trigger; less is saved where it does not reach back far enough
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse, default_value = "256MiB")]
    pub trigger_memory: u64,
}

fn condition(text: &str) -> Result<Condition, String> {
    match Condition::parse(text) {
        Ok(Some(condition)) => Ok(condition),
        Ok(None) => Err("write what to wait for, as in `hop(dev.recv,app.recv) > 2ms` or `drop`".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn hold_off(text: &str) -> Result<HoldOff, String> {
    if let Ok(count) = text.parse::<u64>() {
        return Ok(HoldOff::Matches(count));
    }
    let time = crate::values::duration::parse(text).map_err(|error| error.to_string())?;
    Ok(HoldOff::Time(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

impl TriggerArgs {
    /// Applies the options to a trigger.
    pub fn set(&self, settings: &mut Settings) {
        let Some(condition) = &self.trigger else { return };
        settings.condition = Some(condition.clone());
        settings.mode = if self.single { Mode::Single } else { Mode::Auto };
        settings.hold_off = self.hold_off.unwrap_or_default();
        settings.pre_per_cent = self.pre_trigger;
        settings.window_ns = u64::try_from(self.trigger_window.as_nanos()).unwrap_or(u64::MAX);
    }

    /// Without a screen a trigger is useful only for saving.
    pub fn is_of_use_without_saving(&self) -> Result<(), Usage> {
        let text = "without a screen nothing shows what `--trigger` finds: name a directory to save it in with `--save-on-trigger DIR`";
        if self.trigger.is_some() { Err(Usage(text.to_owned())) } else { Ok(()) }
    }

    /// Of agents, a trigger is watched by the screen alone.
    pub fn is_of_use_without_screen(&self) -> Result<(), Usage> {
        let text = "without a screen no trigger watches agents: leave out `--trigger`, or run `record --trigger` on the host";
        if self.trigger.is_some() { Err(Usage(text.to_owned())) } else { Ok(()) }
    }

    /// Creates the target directory of triggers. Called before privileges are dropped.
    pub fn prepare(&self) -> Result<Option<Directory>> {
        self.save_on_trigger.as_deref().map(Directory::prepare).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        trigger: TriggerArgs,
    }

    fn settings(words: &[&str]) -> Result<Settings, clap::Error> {
        let line = Line::try_parse_from(std::iter::once(&"x").chain(words))?;
        let mut settings = Settings::default();
        line.trigger.set(&mut settings);
        Ok(settings)
    }

    #[test]
    fn arguments_set_the_trigger() {
        let words =
            ["--trigger", "drop", "--pre-trigger", "80", "--trigger-window", "20ms", "--hold-off", "5s"];
        let set = settings(&words).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((set.condition, set.pre_per_cent, set.window_ns), (Some(Condition::Drop), 80, 20_000_000));
        assert_eq!((set.hold_off, set.mode), (HoldOff::Time(5_000_000_000), Mode::Auto));
        let set = settings(&["--trigger", "total > 5ms", "--single", "--hold-off", "7"]).expect("it is right");
        assert_eq!((set.hold_off, set.mode), (HoldOff::Matches(7), Mode::Single));
        for wrong in [
            &["--trigger", "totl > 5ms"][..],
            &["--save-on-trigger", "d"],
            &["--trigger", "drop", "--pre-trigger", "101"],
        ] {
            assert!(settings(wrong).is_err(), "{wrong:?}");
        }
    }
}
