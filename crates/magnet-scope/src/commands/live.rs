//! `magnet-scope` and `magnet-scope live`: this host's traffic, on the screen or as a report.

use crate::capture::CaptureDefaults;
use crate::cli::{CaptureArgs, LimitArgs, NetnsArgs};
use crate::connect::ConnectArgs;
use crate::live_source::Live;
use crate::screen::{Followed, ScreenArgs};
use crate::signals::Stop;
use crate::trigger::{TriggerArgs, Watch};
use crate::{capture, output, reporting, screen};
use anyhow::Result;
use magscope_core::source::Source;
use magscope_probe::default_hops;
use magscope_scope::State;

/// Arguments of `live`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What is captured.
    #[command(flatten)]
    pub capture: CaptureArgs,
    /// Whose traffic.
    #[command(flatten)]
    pub netns: NetnsArgs,
    /// Agents instead of this host.
    #[command(flatten)]
    pub connect: ConnectArgs,
    /// How much is kept.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// How the screen looks and listens.
    #[command(flatten)]
    pub screen: ScreenArgs,
    /// What is waited for.
    #[command(flatten)]
    pub trigger: TriggerArgs,
    /// Print the report as JSON, without a screen
    #[arg(long)]
    pub json: bool,
}

/// Captures until q, Ctrl-C or the end of `--duration`.
pub fn run(args: &Args) -> Result<()> {
    if args.connect.is_asked() {
        return agents(args);
    }
    let namespaces = capture::namespaces(&args.capture, &args.netns.netns)?;
    capture::check_privileges("live", namespaces.are_elsewhere())?;
    let on_screen = output::is_screen() && !args.json;
    // The screen handles signals itself, because it must restore the terminal.
    let stop = if on_screen { Stop::default() } else { Stop::on_signals()? };
    let prepared = args.trigger.prepare()?;
    let defaults = CaptureDefaults::of(default_hops()).on_screen(on_screen);
    let capture = capture::start_with(&args.capture, namespaces, defaults)?;
    let control = capture::bind();
    capture::drop_privileges()?;
    let mut live = Live::new(capture, args.capture.duration, stop).with_control(control);
    if on_screen {
        return screen::show(
            &mut live,
            State::Live,
            args.limits.limits(),
            &args.screen,
            screen::Triggered::new(&args.trigger, prepared),
        );
    }
    if args.capture.duration.is_none() {
        output::note("capturing; Ctrl-C ends it and prints the report");
    }
    let mut watched = Watch::new(prepared, &args.trigger, args.limits.limits(), live.info())?.over(live);
    reporting::print(&reporting::of(&mut watched, args.limits.limits())?, args.json)
}

/// Shows agents' hosts on one time line, or reports on them.
fn agents(args: &Args) -> Result<()> {
    let on_screen = output::is_screen() && !args.json;
    let stop = if on_screen { Stop::default() } else { Stop::on_signals()? };
    if !on_screen {
        args.trigger.is_of_use_without_screen()?;
    }
    let prepared = args.trigger.prepare()?;
    let followed = Followed::connected(args.connect.open(&args.capture, &args.netns)?);
    let triggered = screen::Triggered::new(&args.trigger, prepared);
    if on_screen {
        return screen::watch(followed, args.limits.limits(), &args.screen, triggered);
    }
    if args.capture.duration.is_none() {
        output::note("reading; Ctrl-C ends it and prints the report");
    }
    let findings = reporting::of_agents(followed, args.limits.limits(), args.capture.duration, &stop)?;
    reporting::print(&findings, args.json)
}
