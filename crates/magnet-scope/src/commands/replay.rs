//! `magnet-scope replay DIR`: a recording on the screen, at a speed; a report where there is no screen.

use crate::cli::{LimitArgs, PartArgs, SessionArgs};
use crate::screen::ScreenArgs;
use crate::{output, reporting, screen, sessions};
use anyhow::Result;
use magscope_scope::transport::{FASTEST, SLOWEST};

/// Arguments of `replay`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    session: SessionArgs,
    /// How fast on the screen: 1 is as it was, 0.1 ten times slower
    #[arg(long, value_name = "X", value_parser = speed, default_value = "1")]
    speed: f64,
    #[command(flatten)]
    part: PartArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    screen: ScreenArgs,
    /// Print the report as JSON, without a screen
    #[arg(long)]
    json: bool,
}

/// Plays the recording.
pub fn run(args: &Args) -> Result<()> {
    let session = sessions::open(&args.session.dir)?;
    let (from, to) = sessions::window(&session, args.part)?;
    if output::is_screen() && !args.json {
        return screen::show_recorded(&session, (from, to), args.speed, args.limits.limits(), &args.screen);
    }
    let mut replay = session.replay(from, to);
    reporting::print(&reporting::of(&mut replay, args.limits.limits())?, args.json)
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.trim_end_matches(['x', '×']).parse::<f64>().ok();
    speed.filter(|speed| (SLOWEST..=FASTEST).contains(speed)).ok_or_else(|| {
        format!("`{text}` is no speed; write a number from {SLOWEST} to {FASTEST}, as in `0.1` or `2`")
    })
}
