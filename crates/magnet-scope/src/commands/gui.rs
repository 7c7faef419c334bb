//! `magnet-scope gui [DIR…] | --live`: the oscilloscope in a window.

use crate::capture::CaptureDefaults;
use crate::cli::{CaptureArgs, LimitArgs, NetnsArgs};
use crate::connect::ConnectArgs;
use crate::failure::{Hint, Usage};
use crate::live_source::Live;
use crate::screen::{Followed, ScreenArgs, Triggered};
use crate::signals::Stop;
use crate::trigger::TriggerArgs;
use crate::window::{Files, feed_followed, feed_live};
use crate::{capture, privileges};
use anyhow::Result;
use magscope_core::source::Source;
use magscope_gui::{Ask, GuiError, KeyMap, Shared};
use magscope_probe::default_hops;
use magscope_scope::recorded::MOST_JOURNEYS;
use magscope_scope::transport::{FASTEST, SLOWEST};
use magscope_scope::{Options, Scope, State};
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `gui`.
#[derive(Debug, clap::Args)]
#[command(after_help = "magnet-scope gui client.session server.session   two hosts on one time line\n\
    sudo magnet-scope gui --live                      this host, now")]
pub struct Args {
    /// Recordings to open; several, one per host, share one time line
    #[arg(value_name = "DIR", num_args = 0..=64)]
    dirs: Vec<PathBuf>,
    /// Capture this host's own traffic, as `live` does in the terminal
    #[arg(long, conflicts_with = "dirs")]
    live: bool,
    /// Follow a running recording
    #[arg(long, conflicts_with = "live")]
    follow: bool,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Initial speed of recordings, 0.001 to 100
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    speed: f64,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    netns: NetnsArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    trigger: TriggerArgs,
    /// File with key bindings [default: ~/.config/magnet-scope/keys.toml if present]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

/// Opens the window.
pub fn run(args: &Args) -> Result<()> {
    if !(SLOWEST..=FASTEST).contains(&args.speed) {
        return Err(Usage(format!("`{}` is no speed; write {SLOWEST} to {FASTEST}", args.speed)).into());
    }
    if args.live {
        return live(args);
    }
    if args.connect.is_asked() {
        return agents(args);
    }
    give_privileges_away()?;
    let ask = if args.dirs.is_empty() { Ask::Nothing } else { Ask::Open(args.dirs.clone()) };
    magscope_gui::run(args.world(), args.key_map()?, ask).map_err(explain)
}

impl Args {
    fn world(&self) -> Arc<Files> {
        Arc::new(Files { limits: self.limits.limits(), speed: self.speed, follow: self.follow })
    }

    fn key_map(&self) -> Result<KeyMap> {
        ScreenArgs::keys_of(self.keys.clone()).window_keys()
    }
}

fn explain(error: GuiError) -> anyhow::Error {
    let next = "start it where there is a display ($DISPLAY or $WAYLAND_DISPLAY), with `ssh -X`, or use the terminal: \
                `magnet-scope replay DIR`, `magnet-scope live`";
    let hint = Hint::new("the window could not be opened", "there is no display, or no OpenGL 2.1", next);
    anyhow::Error::new(error).context(hint)
}

/// A window needs no privileges and uses large libraries. It therefore runs as the calling user, without
/// capabilities, and is loaded only after the drop.
fn give_privileges_away() -> Result<()> {
    privileges::become_the_caller()?;
    capture::drop_privileges()
}

/// Attaches, drops all privileges, and then opens the window. The capture stays in this thread.
fn live(args: &Args) -> Result<()> {
    let namespaces = capture::namespaces(&args.capture, &args.netns.netns)?;
    capture::check_privileges("gui --live", namespaces.are_elsewhere())?;
    let capture = capture::start_with(&args.capture, namespaces, CaptureDefaults::of(default_hops()).window())?;
    give_privileges_away()?;
    let prepared = args.trigger.prepare()?;
    let mut live = Live::new(capture, args.capture.duration, Stop::default());
    let info = live.info().clone();
    let triggered = Triggered::new(&args.trigger, prepared);
    let options = Options {
        state: State::Live,
        limits: args.limits.limits(),
        most_lifelines: MOST_JOURNEYS,
        measures_itself: true,
        ..Options::default()
    };
    let mut scope = Scope::new(info.clone(), options);
    scope.set_trigger(|settings| triggered.set(settings));
    let recorder = triggered.trigger_recorder(&info);
    let title = format!("{}, live", info.host);
    let feed = |shared: &Shared| feed_live(&mut live, recorder, shared);
    magscope_gui::run_with_local_feed(args.world(), args.key_map()?, title, scope, feed).map_err(explain)
}

/// Shows the hosts of agents on one time line. This thread reads them.
fn agents(args: &Args) -> Result<()> {
    give_privileges_away()?;
    let limits = args.limits.limits();
    let prepared = args.trigger.prepare()?;
    let followed = Followed::connected(args.connect.open(&args.capture, &args.netns)?);
    let names: Vec<String> = followed.infos().iter().map(|info| info.host.clone()).collect();
    let triggered = Triggered::new(&args.trigger, prepared);
    let mut scope = followed.scope(limits, MOST_JOURNEYS);
    scope.set_trigger(|settings| triggered.set(settings));
    let mut followed = followed.saving(triggered)?;
    let feed = |shared: &Shared| feed_followed(&mut followed, limits, shared);
    let title = format!("{}, live", names.join(", "));
    magscope_gui::run_with_local_feed(args.world(), args.key_map()?, title, scope, feed).map_err(explain)
}
