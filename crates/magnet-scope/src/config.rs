//! Values of options, from files.
//!
//! Each table has the name of a subcommand, and its keys are that subcommand's options without `--`. Options of all
//! subcommands come before the first table.
//!
//! ```toml
//! mode = "640"
//!
//! [record]
//! hops = "default,+dev.queue"
//! netns = ["web", "db"]
//! bulk = true
//! ```
//!
//! `/etc/magnet-scope/config.toml` is for all users. The user's own file is below `~/.config`, and its values replace
//! those. A value on the command line replaces both. Every value is checked before any command runs, and clap takes it
//! as one of the command line (`config/line.rs`).
//!
//! **A file of others is not read.** It chooses what the program does: it must belong to root or to the user, to root
//! alone if root runs the program, and nobody else may write to it.

mod file;
mod line;

use crate::failure::Hint;
use crate::output;
use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use std::path::PathBuf;

pub use file::{File, paths, read};

/// The name of the table of options without a subcommand.
const LIVE: &str = "live";

/// One option's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The subcommand; `None` for all.
    pub command: Option<String>,
    /// Name of the option, without `--`.
    pub option: String,
    /// Its values; of a flag `true` or `false`.
    pub values: Vec<String>,
    /// The file that sets it.
    pub file: PathBuf,
}

/// The settings of all files, those of later files behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    settings: Vec<Setting>,
}

impl Config {
    /// Reads the files of this user.
    ///
    /// # Errors
    /// The first file that cannot be read, or is no configuration.
    pub fn load() -> Result<Self> {
        let mut config = Config::default();
        for path in paths() {
            match read(&path)? {
                File::Read(text) => config.add(file::settings(&path, &text)?),
                File::Ignored(why) => output::note(&format!("{} is not used: {why}", path.display())),
                File::Missing => {}
            }
        }
        Ok(config)
    }

    /// Adds settings, which replace earlier ones of the same option.
    fn add(&mut self, settings: Vec<Setting>) {
        for setting in settings {
            self.settings.retain(|old| (&old.command, &old.option) != (&setting.command, &setting.option));
            self.settings.push(setting);
        }
    }

    /// The settings, by subcommand and option.
    pub fn settings(&self) -> Vec<&Setting> {
        let mut all: Vec<&Setting> = self.settings.iter().collect();
        all.sort_by_key(|setting| (&setting.command, &setting.option));
        all
    }
}

impl Setting {
    /// Its place for users: `[record] hops`.
    pub fn place(&self) -> String {
        match &self.command {
            Some(command) => format!("[{command}] {}", self.option),
            None => self.option.clone(),
        }
    }

    fn refused(&self, why: impl Into<String>, next: impl Into<String>) -> anyhow::Error {
        Hint::error(format!("{}: {} cannot be used", self.file.display(), self.place()), why, next)
    }

    /// Refuses what the command line has not, and values that the option refuses.
    fn check(&self, command: &Command) -> Result<()> {
        let of = match &self.command {
            None => command,
            Some(name) => command.find_subcommand(name).filter(|sub| !sub.is_hide_set()).ok_or_else(|| {
                self.refused(format!("no subcommand is called {name}"), "magnet-scope --help lists them")
            })?,
        };
        let Some(arg) = self.arg(of).filter(|arg| self.command.is_some() || arg.is_global_set()) else {
            let (of, help) = match &self.command {
                Some(name) => {
                    (format!("`{name}` has no such option"), format!("magnet-scope {name} --help lists them"))
                }
                None => (
                    "no option of all subcommands is called that".to_owned(),
                    "magnet-scope --help lists them".to_owned(),
                ),
            };
            return Err(self.refused(of, help));
        };
        if is_flag(arg) {
            let is_bool = matches!(&self.values[..], [value] if value == "true" || value == "false");
            return if is_bool { Ok(()) } else { Err(self.refused("it is a flag", "set it to true or false")) };
        }
        if self.values.len() != 1 && !takes_several(arg) {
            return Err(
                self.refused(format!("it takes one value, and has {}", self.values.len()), "write one value")
            );
        }
        for value in &self.values {
            self.parse(of, value)?;
        }
        Ok(())
    }

    /// Lets the option parse a value. What else the command line lacks does not matter here.
    fn parse(&self, of: &Command, value: &str) -> Result<()> {
        let option = format!("--{}={value}", self.option);
        match of.clone().no_binary_name(true).disable_help_flag(true).try_get_matches_from([option]) {
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::ValueValidation
                | ErrorKind::InvalidValue
                | ErrorKind::InvalidUtf8
                | ErrorKind::NoEquals => {
                    let text = error.to_string();
                    let why = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
                    Err(self.refused(why, "correct the value, or remove the line"))
                }
                _ => Ok(()),
            },
        }
    }

    fn arg<'c>(&self, of: &'c Command) -> Option<&'c Arg> {
        of.get_arguments().find(|arg| arg.get_long() == Some(&self.option) && !is_about_itself(arg))
    }
}

/// `--help` and `--version`.
fn is_about_itself(arg: &Arg) -> bool {
    matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    )
}

fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

fn takes_several(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

#[cfg(test)]
mod tests;
