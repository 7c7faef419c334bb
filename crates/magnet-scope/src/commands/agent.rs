//! `magnet-scope agent`: a continuous capture with its last minutes in memory, served to viewers.

use crate::agent::{BusArgs, Health, ListenArgs, WatchArgs, WatchServer};
use crate::capture::CaptureDefaults;
use crate::cli::{CaptureArgs, NetnsArgs};
use crate::connect::{address, credentials, explain};
use crate::failure::Usage;
use crate::live_source::Live;
use crate::signals::Stop;
use crate::{capture, output};
use anyhow::{Result, anyhow};
use clap::Subcommand;
use magscope_core::Batch;
use magscope_core::hop::HopSet;
use magscope_core::source::{Progress, Source};
use magscope_fleet::pki::{Folder, Validity};
use magscope_fleet::{About, AboutHost, Address, Grants, Hosts, Memory, Publisher, dial};
use magscope_probe::governor::Reader;
use magscope_scope::format::{count, counted};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Default budget as share of the machine. Work for viewers is excluded and limited separately.
const BUDGET: f64 = 0.02;

/// Time at the end for the bus to receive the rest.
const PARTING: Duration = Duration::from_secs(3);

/// Arguments of `agent`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "magnet-scope agent init tls --host web-1,10.0.0.1 --viewer me   certificates, once\n\
    sudo magnet-scope agent --listen 0.0.0.0:6246 --tls tls           on web-1\n\
    magnet-scope --connect web-1,web-2 --tls tls                      anywhere\n\
    sudo magnet-scope agent --via tls://bus:4222 --tls tls            on web-1, on a bus (docs/agents.md)")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a private certificate authority, and certificates for hosts, relays and viewers
    Init(InitArgs),
    /// Lets the holder of a certificate in no longer
    Revoke(RevokeArgs),
    /// Asks an agent what it captures and how much it keeps
    About(AboutArgs),
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    bus: BusArgs,
    #[command(flatten)]
    watches: WatchArgs,
    /// Memory for recent events
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse, default_value = "256MiB")]
    memory: u64,
    /// Interval of the health lines
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::interval, default_value = "1m")]
    health: Duration,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    netns: NetnsArgs,
}

#[derive(Debug, clap::Args)]
struct InitArgs {
    /// Where to; an authority that is there already is used
    dir: PathBuf,
    /// Create a certificate for an agent with these names and addresses; can be given several times
    #[arg(long, value_name = "NAME,…")]
    host: Vec<String>,
    /// Create a certificate for a relay, which may read all agents, with these names and addresses; can be given several times
    #[arg(long, value_name = "NAME,…")]
    relay: Vec<String>,
    /// Create a certificate for a viewer, with its limits: `ops`, `guest?no-payload`, `dev?hops=dev.xmit,dev.recv&containers=4fa2`
    #[arg(long, value_name = "NAME[?LIMITS]")]
    viewer: Vec<String>,
    /// Lifetime of the certificates; none outlives the authority
    #[arg(long, value_name = "N", default_value_t = 825, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
}

#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// The folder with the authority
    dir: PathBuf,
    /// Whose: `viewer-NAME`, `host-NAME` or `relay-NAME`
    identity: String,
}

#[derive(Debug, clap::Args)]
struct AboutArgs {
    /// Address of the agent: HOST, HOST:PORT, unix:PATH
    #[arg(value_parser = address)]
    address: Address,
    /// Folder with `ca.pem` and your certificate
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Certificate in that folder to present
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Serves, or runs a related command.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        None => serve_until_signal(&args.serve),
        Some(Command::Init(args)) => init(args),
        Some(Command::Revoke(args)) => {
            Folder::new(&args.dir).revoke(&args.identity).map_err(explain)?;
            let list = args.dir.join("crl.pem");
            output::note(&format!("{} is revoked: copy {} to every agent", args.identity, list.display()));
            Ok(())
        }
        Some(Command::About(args)) => about(args),
    }
}

fn init(args: &InitArgs) -> Result<()> {
    let folder = Folder::new(&args.dir);
    let validity = Validity::days(args.days);
    if folder.init(validity).map_err(explain)? {
        output::note(&format!(
            "{}: a new authority; its key stays here and belongs to nobody else",
            args.dir.join("ca.pem").display()
        ));
    }
    let split = |names: &String| names.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    for names in &args.host {
        made(&folder.host(&split(names), validity).map_err(explain)?, "with ca.pem and crl.pem to that host");
    }
    for names in &args.relay {
        made(&folder.relay(&split(names), validity).map_err(explain)?, "with ca.pem and crl.pem to that relay");
    }
    for viewer in &args.viewer {
        let (name, limits) =
            viewer.split_once('?').map_or((&**viewer, None), |(name, limits)| (name, Some(limits)));
        let limits = limits.map(|limits| format!("magnet-scope:viewer?{limits}").parse::<Grants>());
        let grants = limits.transpose().map_err(|error| Usage(error.to_string()))?.unwrap_or_default();
        made(&folder.viewer(name, &grants, validity).map_err(explain)?, "with ca.pem to that person");
    }
    Ok(())
}

fn made(path: &Path, goes: &str) {
    let key = path.with_extension("key");
    output::note(&format!("{} and {}: {goes}", path.display(), key.display()));
}

fn about(args: &AboutArgs) -> Result<()> {
    let credentials = match args.address {
        Address::Host { .. } => Some(credentials(args.tls.as_deref(), args.identity.as_deref())?),
        _ => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let about = runtime.block_on(dial(&args.address, credentials.as_ref())).map_err(explain)?.about;
    if args.json { output::json(&about) } else { output::text(&text(&about)) }
}

fn text(about: &About) -> String {
    let mut text = format!("{}, read by {}\n", about.tool, counted(about.streams as u64, "stream", "streams"));
    for AboutHost { node, holds, limit_bytes, .. } in &about.hosts {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let seconds = holds.range_ns.map_or(0.0, |(from, to)| to.saturating_sub(from) as f64 / 1e9);
        // Writing into a String cannot fail.
        let _ = write!(
            text,
            "{}: Linux {}\n  {} records came, {} of them lost\n  {:.1} of {:.0} MiB kept: the last {seconds:.1} s\n",
            node.host,
            node.kernel,
            count(holds.came_records),
            count(holds.came_lost),
            mib(holds.bytes),
            mib(*limit_bytes),
        );
    }
    text
}

/// Captures and serves until a signal or the end of `--duration`.
fn serve_until_signal(args: &ServeArgs) -> Result<()> {
    let namespaces = capture::namespaces(&args.capture, &args.netns.netns)?;
    capture::check_privileges("agent", namespaces.are_elsewhere())?;
    let stop = Stop::on_signals()?;
    let via = args.bus.via(&args.listen)?;
    let listeners = args.listen.open("host")?;
    let watches = args.watches.open()?;
    // Sufficient to locate a message, with six records per TCP message instead of the usual ten. Only `udp.recv`
    // can identify the datagram of a read.
    let agent_hops = HopSet::with(|hop| hop.agent);
    let defaults =
        CaptureDefaults { budget: Some(BUDGET), reader: Reader::Thread, ..CaptureDefaults::of(agent_hops) };
    let capture = capture::start_with(&args.capture, namespaces, defaults)?;
    let control = capture::bind();
    capture::drop_privileges()?;
    let mut live = Live::new(capture, args.capture.duration, stop).with_control(control);

    let (memory, mut writer) = Memory::new(live.info().clone(), args.memory)?;
    let talker = listeners.serve(Hosts::of(vec![memory.clone()]))?;
    let mut watches = watches.map(|watches| watches.serve(live.info())).transpose()?;
    let bus = via.map(|via| args.bus.publish(&via, &memory)).transpose()?;
    let mut health = Health::new(&memory, bus.as_ref().map(|bus| bus.status().clone()), args.health);
    let mut batch = Batch::default();
    let result = loop {
        let progress = match live.next(&mut batch, Duration::from_millis(100)) {
            Ok(progress) => progress,
            Err(error) => break Err(anyhow::Error::from_boxed(error)),
        };
        if let Err(error) = writer.push(&batch) {
            break Err(error.into());
        }
        if let Some(watches) = &mut watches {
            watches.offer(&batch);
        }
        health.report();
        if progress == Progress::End {
            break Ok(());
        }
        if talker.has_ended() {
            break Err(anyhow!("what talks to viewers has ended"));
        }
        if watches.as_ref().is_some_and(WatchServer::has_ended) {
            break Err(anyhow!("what serves programs has ended"));
        }
        if bus.as_ref().is_some_and(Publisher::has_ended) {
            break Err(anyhow!("what publishes has ended"));
        }
    };
    // Viewers receive the rest.
    drop(writer);
    let published = bus.map_or(Ok(()), |bus| bus.end(PARTING));
    let talked = talker.end();
    health.last();
    result.and(talked).and(published.map_err(anyhow::Error::from))
}
