//! `--to` of exports: the format and the end time. No format name is a valid instant, so `--to csv --from 1s
//! --to 2s` is unambiguous.

use super::instant::Instant;
use crate::cli::PartArgs;
use crate::failure::Usage;
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Args, ValueEnum};
use std::marker::PhantomData;

/// One value of `--to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormatOrTime<F> {
    /// The format.
    Format(F),
    /// The end time.
    End(Instant),
}

/// A format and a part of a recording.
#[derive(Clone, Debug, Args)]
pub struct ToArgs<F: ValueEnum + Send + Sync + 'static> {
    /// Which format; and, given once more with a time, where to end: `--to csv --from 1s --to 2s`
    #[arg(long = "to", value_name = "FORMAT|T", value_parser = Parser::<F>(PhantomData))]
    to: Vec<FormatOrTime<F>>,
    /// Begin here: an offset from the start (`1.5s`) or a time in UTC (`2026-01-31T12:00:00Z`)
    #[arg(long, value_name = "T")]
    from: Option<Instant>,
    /// What `--to` with a time was called before
    #[arg(long, value_name = "T", hide = true)]
    until: Option<Instant>,
}

impl<F: ValueEnum + Send + Sync + 'static> ToArgs<F> {
    /// Empty values.
    #[cfg(feature = "gui")]
    pub const fn nothing() -> Self {
        ToArgs { to: Vec::new(), from: None, until: None }
    }

    /// The format, if given, and the part.
    pub fn read(&self) -> Result<(Option<F>, PartArgs), Usage> {
        let (mut format, mut part) = (None, PartArgs { from: self.from, to: self.until });
        for to in &self.to {
            let twice = match to {
                FormatOrTime::Format(named) => format.replace(named.clone()).is_some(),
                FormatOrTime::End(end) => part.to.replace(*end).is_some(),
            };
            if twice {
                return Err(Usage("--to was given one format or one time too many".to_owned()));
            }
        }
        Ok((format, part))
    }
}

struct Parser<F>(PhantomData<F>);

impl<F> Clone for Parser<F> {
    fn clone(&self) -> Self {
        Parser(PhantomData)
    }
}

impl<F: ValueEnum + Send + Sync + 'static> TypedValueParser for Parser<F> {
    type Value = FormatOrTime<F>;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<FormatOrTime<F>, clap::Error> {
        let instant = value.to_str().and_then(|text| text.parse().ok());
        match instant {
            Some(instant) => Ok(FormatOrTime::End(instant)),
            None => clap::builder::EnumValueParser::<F>::new()
                .parse_ref(command, argument, value)
                .map(FormatOrTime::Format),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(F::value_variants().iter().filter_map(ValueEnum::to_possible_value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use std::time::Duration;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
    enum Format {
        Csv,
        Jsonl,
    }

    #[derive(Debug, clap::Parser)]
    struct Cli {
        #[command(flatten)]
        to: ToArgs<Format>,
    }

    fn read(arguments: &[&str]) -> Option<(Option<Format>, Option<Instant>)> {
        let cli = Cli::try_parse_from([&["x"], arguments].concat()).ok()?;
        cli.to.read().ok().map(|(format, part)| (format, part.to))
    }

    #[test]
    fn a_format_and_a_time_are_told_apart() {
        let end = Some(Instant::Offset(Duration::from_secs(2)));
        assert_eq!(read(&["--to", "csv", "--from", "1s", "--to", "2s"]), Some((Some(Format::Csv), end)));
        assert_eq!(read(&["--to", "2s"]), Some((None, end)));
        assert_eq!(read(&["--to", "jsonl", "--until", "2s"]), Some((Some(Format::Jsonl), end)));
        for wrong in [&["--to", "csv", "--to", "csv"][..], &["--to", "1s", "--until", "2s"], &["--to", "cvs"]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
