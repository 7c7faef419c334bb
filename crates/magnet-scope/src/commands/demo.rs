//! `magnet-scope demo`: captures real traffic between two hosts on this machine.

use crate::capture::CaptureDefaults;
use crate::cli::{CaptureArgs, LimitArgs};
use crate::failure::Hint;
use crate::hosts::Hosts;
use crate::live_source::Live;
use crate::namespaces::Namespaces;
use crate::recording::{Directory, Recorded};
use crate::screen::{self, Feed, ScreenArgs};
use crate::signals::Stop;
use crate::{capture, output, privileges, reporting};
use anyhow::Result;
use magscope_probe::{NetnsTarget, default_hops};
use magscope_scope::State;
use magscope_session::RecordOptions;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Duration of the demo without a screen.
const WITHOUT_A_SCREEN: Duration = Duration::from_secs(10);

/// Arguments of `demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    screen: ScreenArgs,
    /// Lead through the screen in three minutes, with two faults in the traffic; each step waits for its key
    #[arg(long, conflicts_with = "json")]
    tour: bool,
    /// Print the report as JSON, without a screen
    #[arg(long)]
    json: bool,
    /// Also record into this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Captures the two hosts until q, Ctrl-C or the end of `--duration` (10 s without a screen).
pub fn run(args: &Args) -> Result<()> {
    capture::check_privileges("demo", true)?;
    let on_screen = output::is_screen() && !args.json;
    if args.tour && !on_screen {
        return Err(Hint::error(
            "the tour needs a terminal".to_owned(),
            "the output goes to a file or a pipe",
            "run `sudo magnet-scope demo --tour` in a terminal",
        ));
    }
    let stop = if on_screen { Stop::default() } else { Stop::on_signals()? };
    let directory = args.output.as_deref().map(Directory::prepare).transpose()?;
    privileges::lend_to_children()?;
    let mut hosts = Hosts::start(on_screen)?;
    let defaults = CaptureDefaults::of(default_hops()).on_screen(on_screen);
    let capture = capture::start_with(&args.capture, namespaces(&hosts)?, defaults)?;
    let control = capture::bind();
    capture::drop_privileges()?;
    hosts.go()?;
    let duration = args.capture.duration.or((!on_screen).then_some(WITHOUT_A_SCREEN));
    let mut live = Live::new(capture, duration, stop).with_hosts(hosts).with_control(control);
    let Some(directory) = directory else {
        return show(&mut live, on_screen, args);
    };
    let mut recorded = Recorded::new(live, directory, RecordOptions::default())?;
    let shown = show(&mut recorded, on_screen, args);
    let closed = recorded.close();
    shown?;
    closed
}

fn show(feed: &mut impl Feed, on_screen: bool, args: &Args) -> Result<()> {
    let limits = args.limits.limits();
    if args.tour {
        screen::show_tour(feed, limits, &args.screen)
    } else if on_screen {
        screen::show(feed, State::Live, limits, &args.screen, screen::Triggered::default())
    } else {
        reporting::print(&reporting::of(feed, limits)?, args.json)
    }
}

/// The hosts' namespaces. They are anonymous and accessible through open files.
fn namespaces(hosts: &Hosts) -> Result<Namespaces> {
    let mut targets = Vec::new();
    for (name, file) in hosts.namespaces() {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        targets.push(NetnsTarget::at(Path::new(&path), name)?);
    }
    Ok(Namespaces { targets, every: false })
}
