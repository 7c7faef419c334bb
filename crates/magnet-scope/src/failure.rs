//! Errors for users: failure, object, likely cause, next step.

use magscope_core::foreign::clean_lines;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// Explanation of an error: the likely cause and the remedy.
///
/// Attach it to an [`anyhow::Error`] with `.context(Hint::new(…))`; the chain below it has the details.
#[derive(Debug)]
pub struct Hint {
    what: String,
    likely: String,
    next: String,
}

impl Hint {
    /// Failure with its object, the likely cause, the next step. Cause and step may be empty.
    pub fn new(what: impl Into<String>, likely: impl Into<String>, next: impl Into<String>) -> Self {
        Hint { what: what.into(), likely: likely.into(), next: next.into() }
    }

    /// The hint as an error of its own.
    pub fn error(what: impl Into<String>, likely: impl Into<String>, next: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self::new(what, likely, next))
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Hint {}

/// The parts of an error: failure, causes one per line, next step.
pub fn parts(error: &anyhow::Error) -> (String, String, String) {
    let mut why: Vec<String> = Vec::new();
    let mut previous = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !previous.contains(&cause) {
            why.push(cause.clone());
        }
        previous = cause;
    }
    let hint = error.downcast_ref::<Hint>();
    why.extend(hint.map(|hint| hint.likely.clone()).filter(|likely| !likely.is_empty()));
    (error.to_string(), why.join("\n"), hint.map(|hint| hint.next.clone()).unwrap_or_default())
}

/// A valid command line in clap's view with contradictory options. Exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// The user cancelled the operation. Exit code 130, as after Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Cancelled(pub String);

/// The output is complete, and the exit code is part of the answer.
#[derive(Debug, thiserror::Error)]
#[error("exit code {0}")]
pub struct Exit(pub u8);

/// Prints an error on stderr and returns the exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    // `magnet-scope report | head` is no failure: the reader has enough.
    if error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
    {
        return ExitCode::SUCCESS;
    }
    if let Some(Exit(code)) = error.downcast_ref::<Exit>() {
        return ExitCode::from(*code);
    }
    let mut stderr = io::stderr().lock();
    // Nothing can be done if stderr is closed too.
    let _ = stderr.write_all(clean_lines(&render(error)).as_bytes());
    match () {
        () if error.downcast_ref::<Usage>().is_some() => ExitCode::from(2),
        () if error.downcast_ref::<Cancelled>().is_some() => ExitCode::from(130),
        () => ExitCode::FAILURE,
    }
}

fn render(error: &anyhow::Error) -> String {
    let mut text = format!("magnet-scope: {error}\n");
    let mut previous = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Some libraries repeat their source in their own text.
        if !previous.contains(&cause) {
            text += &entry("because:     ", &cause);
        }
        previous = cause;
    }
    if let Some(hint) = error.downcast_ref::<Hint>() {
        for (label, line) in [("likely cause:", &hint.likely), ("next step:   ", &hint.next)] {
            if !line.is_empty() {
                text += &entry(label, line);
            }
        }
    }
    text
}

/// A labelled line; further lines are indented.
fn entry(label: &str, text: &str) -> String {
    format!("  {label} {}\n", text.replace('\n', "\n                "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn says_what_why_and_what_next() {
        let result: Result<(), io::Error> = Err(io::Error::from(io::ErrorKind::StorageFull));
        let error = result.context(Hint::new("cannot write /x", "the disk is full", "free space")).unwrap_err();
        let text = render(&error);
        assert!(
            text.starts_with("magnet-scope: cannot write /x\n  because:      no storage space\n"),
            "{text}"
        );
        assert!(text.contains("likely cause: the disk is full\n  next step:    free space\n"), "{text}");
    }
}
