//! Values of files as options of a command line.
//!
//! clap's rules between options (`requires`, `conflicts_with`) hold for options that are present, and it does not count
//! defaults as present. So each value becomes an option in front of those of the user, and clap checks all of them.

use super::{Config, LIVE, Setting, is_flag};
use crate::failure::Hint;
use anyhow::Result;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use std::ffi::OsString;

/// Options of a file that need another option, and are an error without it: a user relies on their effect. All others
/// then have no effect: `tls` in a file is for calls with agents, and other calls do not need it.
const RELIED_ON: [&str; 2] = ["total-limit", "listen"];

/// A setting and its option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Value<'c> {
    setting: &'c Setting,
    arg: &'c Arg,
}

/// The command line of the user.
struct Line<'c> {
    command: &'c Command,
    /// With the name of the program.
    words: &'c [OsString],
    /// Number of words before the options of the innermost subcommand.
    at: usize,
    /// The subcommand; the program itself without one.
    of: &'c Command,
    /// The table of files for it. A subcommand of a subcommand has none.
    table: Option<&'c str>,
    /// What the user gives.
    given: Vec<&'c Arg>,
}

impl Config {
    /// The words of a command line with the values of the files as further options.
    ///
    /// `words` begin with the name of the program. A value is left out if the user gives the same option, or one that
    /// excludes it, and if it needs another one that is not there. Words that are wrong by themselves come back as they
    /// are.
    ///
    /// # Errors
    /// A setting of an unknown subcommand or option, with a value that its option refuses, or with an option that it
    /// excludes; one of [`RELIED_ON`] without an option that it needs.
    pub fn arguments(&self, command: &Command, words: Vec<OsString>) -> Result<Vec<OsString>> {
        for setting in &self.settings {
            setting.check(command)?;
        }
        if self.settings.is_empty() {
            return Ok(words);
        }
        // A file may have what the user's options need.
        let lenient = |error: clap::Error| match error.kind() {
            ErrorKind::MissingRequiredArgument => parse(&command.clone().ignore_errors(true), &words),
            _ => Err(error),
        };
        let Ok(matches) = parse(command, &words).or_else(lenient) else { return Ok(words) };
        Line::new(command, &words, &matches).with_values(&self.settings)
    }
}

impl Value<'_> {
    fn is_relied_on(&self) -> bool {
        RELIED_ON.contains(&self.setting.option.as_str())
    }

    /// Its options; none of a flag that is false.
    fn words(&self) -> Vec<OsString> {
        let Setting { option, values, .. } = self.setting;
        if is_flag(self.arg) {
            let set = values.iter().filter(|value| value.as_str() == "true");
            return set.map(|_| OsString::from(format!("--{option}"))).collect();
        }
        values.iter().map(|value| OsString::from(format!("--{option}={value}"))).collect()
    }
}

impl<'c> Line<'c> {
    fn new(command: &'c Command, words: &'c [OsString], matches: &ArgMatches) -> Self {
        let (mut innermost, mut depth) = (matches, 0);
        while let Some((_, deeper)) = innermost.subcommand() {
            (innermost, depth) = (deeper, depth + 1);
        }
        let of = matches.subcommand_name().and_then(|name| command.find_subcommand(name)).unwrap_or(command);
        let table = match depth {
            0 => Some(LIVE),
            1 => Some(of.get_name()),
            _ => None,
        };
        let args = of.get_arguments().chain(command.get_arguments().filter(|arg| arg.is_global_set()));
        let given = args.filter(|arg| is_given(innermost, arg)).collect();
        // No option can be before a subcommand (`args_conflicts_with_subcommands`).
        Line { command, words, at: words.len().min(1 + depth), of, table, given }
    }

    /// The words with the values of these settings.
    fn with_values(&self, settings: &'c [Setting]) -> Result<Vec<OsString>> {
        let all = self.values(settings);
        let mut values = self.compatible(&all);
        loop {
            let words = self.with(&values);
            let Err(error) = parse(self.command, &words) else { return Ok(words) };
            let because = reason(&error);
            let guilty = self.guilty(&values, &because);
            if guilty.is_empty() {
                // The user's own words lack something. clap explains it.
                return Ok(words);
            }
            let lacks_another = error.kind() == ErrorKind::MissingRequiredArgument;
            if !lacks_another || guilty.iter().any(Value::is_relied_on) {
                return Err(refused(&guilty, &because));
            }
            values.retain(|value| !guilty.contains(value));
        }
    }

    /// The values of options that the user does not give, those of later files first.
    fn values(&self, settings: &'c [Setting]) -> Vec<Value<'c>> {
        let value = |setting: &'c Setting| {
            let arg = match setting.command.as_deref() {
                None => setting.arg(self.command),
                Some(table) => setting.arg(self.of).filter(|_| self.table == Some(table)),
            }?;
            let value = Value { setting, arg };
            (!self.given.contains(&arg) && !value.words().is_empty()).then_some(value)
        };
        settings.iter().rev().filter_map(value).collect()
    }

    /// Leaves out values that exclude an option of the user, or a value of a later file.
    fn compatible(&self, values: &[Value<'c>]) -> Vec<Value<'c>> {
        let mut taken: Vec<Value<'c>> = Vec::new();
        for value in values {
            let later = taken.iter().filter(|other| other.setting.file != value.setting.file);
            let mut others = self.given.iter().copied().chain(later.map(|other| other.arg));
            if !others.any(|other| self.exclude(value.arg, other)) {
                taken.push(*value);
            }
        }
        taken
    }

    /// True if clap refuses one of these options with the other one.
    fn exclude(&self, one: &Arg, other: &Arg) -> bool {
        let names = |arg: &Arg, named: &Arg| {
            self.of.get_arg_conflicts_with(arg).iter().any(|conflict| conflict.get_id() == named.get_id())
        };
        names(one, other) || names(other, one)
    }

    /// The words with these values, those of earlier files first.
    fn with(&self, values: &[Value<'_>]) -> Vec<OsString> {
        let (before, after) = self.words.split_at(self.at);
        let options: Vec<OsString> = values.iter().rev().flat_map(Value::words).collect();
        [before, options.as_slice(), after].concat()
    }

    /// The fewest of these values that are refused for the same reason.
    fn guilty(&self, values: &[Value<'c>], because: &str) -> Vec<Value<'c>> {
        let mut guilty = values.to_vec();
        while let Some(at) = (0..guilty.len()).find(|at| self.is_refused_without(&guilty, *at, because)) {
            guilty.remove(at);
        }
        guilty
    }

    /// True if the words are refused for this reason without one of the values too.
    fn is_refused_without(&self, values: &[Value<'c>], at: usize, because: &str) -> bool {
        let mut rest = values.to_vec();
        rest.remove(at);
        parse(self.command, &self.with(&rest)).is_err_and(|error| reason(&error) == because)
    }
}

fn parse(command: &Command, words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    command.clone().try_get_matches_from(words)
}

fn is_given(matches: &ArgMatches, arg: &Arg) -> bool {
    matches.ids().any(|id| id == arg.get_id())
        && matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

/// Why clap refuses a command line: its message without the usage.
fn reason(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.trim_start_matches("error: ").lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

fn refused(guilty: &[Value<'_>], because: &str) -> anyhow::Error {
    let place = |value: &Value<'_>| format!("{}: {}", value.setting.file.display(), value.setting.place());
    let places: Vec<String> = guilty.iter().rev().map(place).collect();
    Hint::error(
        format!("{} cannot be used", places.join(" and ")),
        because,
        "add what is missing, or remove a line; with `MAGNET_SCOPE_CONFIG=` set to nothing no file is read",
    )
}
