//! `magnet-scope replay DIR…`: recordings on the screen, at a speed; a report where there is no screen.

use crate::cli::{LimitArgs, PartArgs, SessionsArgs};
use crate::failure::{Hint, Usage};
use crate::recordings::Recordings;
use crate::screen::ScreenArgs;
use crate::{output, reporting, screen};
use anyhow::Result;
use magscope_core::source::SourceError;
use magscope_report::ReportBuilder;
use magscope_scope::transport::{FASTEST, SLOWEST};
use magscope_tui::{BadKey, Picture};

/// Arguments of `replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    sessions: SessionsArgs,
    /// Initial speed on the screen, 0.001 to 100: 1 is real time, 0.1 is ten times slower
    #[arg(long, value_name = "X", value_parser = speed, default_value = "1")]
    speed: f64,
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    screen: ScreenArgs,
    /// Print the screen as text, in a size as `100x30` of columns and rows, as it is at the end
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["follow", "json", "speed"])]
    picture: Option<Picture>,
    /// Keys to press before, with blanks between them: `Down Enter`, `/port 443 Enter`
    #[arg(
        long,
        value_name = "KEYS",
        requires = "picture",
        conflicts_with_all = ["follow", "json", "speed"],
        allow_hyphen_values = true
    )]
    press: Option<String>,
    /// Follow running recordings, on one time line by the clock bounds known so far; screen only
    #[arg(long, conflicts_with_all = ["json", "speed", "PartArgs"])]
    follow: bool,
    /// Print the report as JSON, without a screen
    #[arg(long)]
    json: bool,
}

/// Plays the recordings.
pub fn run(args: &Args) -> Result<()> {
    let limits = args.limits.limits();
    if args.follow {
        if output::is_screen() {
            return screen::follow(&args.sessions.dirs, limits, &args.screen);
        }
        return Err(Hint::error(
            "--follow shows a picture that changes, and stdout is no terminal",
            "the output is redirected",
            "leave out --follow for a report of what is there, or use `export --follow`",
        ));
    }
    let recordings = Recordings::open(&args.sessions.dirs, args.part, limits)?;
    if let Some(picture) = args.picture {
        let keys = args.press.as_deref().unwrap_or_default();
        let picture = screen::picture(&recordings, limits, &args.screen, picture, keys).map_err(in_usage)?;
        recordings.note_damage();
        return output::text(&picture);
    }
    if output::is_screen() && !args.json {
        let played = screen::play(&recordings, args.speed, limits, &args.screen);
        recordings.note_damage();
        return played;
    }
    let report = ReportBuilder::of_many(recordings.infos());
    reporting::print(&reporting::of_all(&recordings, limits, report)?, args.json)
}

/// A word that is no key is an error in usage.
fn in_usage(error: anyhow::Error) -> anyhow::Error {
    let bad = error.downcast_ref::<SourceError>().and_then(|error| error.downcast_ref::<BadKey>());
    match bad.map(ToString::to_string) {
        Some(words) => Usage(format!("--press: {words}")).into(),
        None => error,
    }
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.trim_end_matches(['x', '×']).parse::<f64>().ok();
    speed.filter(|speed| (SLOWEST..=FASTEST).contains(speed)).ok_or_else(|| {
        format!("`{text}` is no speed; write a number from {SLOWEST} to {FASTEST}, as in `0.1` or `2`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::NodeInfo;
    use magscope_scope::Scope;

    #[test]
    fn a_misspelt_key_is_an_error_in_usage() {
        let mut scope = Scope::new(NodeInfo::default(), magscope_scope::Options::default());
        let picture: Picture = "80x24".parse().expect("a size");
        let text = picture.text(&mut scope, magscope_tui::Options::default(), "PageDwn", &mut |_| Ok(()));
        let error = in_usage(anyhow::Error::from_boxed(text.expect_err("no key")));
        assert!(error.downcast_ref::<Usage>().is_some(), "{error}");
        assert!(error.to_string().contains("`PageDown`"), "{error}");
        assert!(in_usage(anyhow::anyhow!("another")).downcast_ref::<Usage>().is_none());
    }
}
