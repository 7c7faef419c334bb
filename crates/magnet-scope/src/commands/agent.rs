//! `magnet-scope agent`: a capture that stands, its last minutes in memory, and viewers that read them.

use crate::agent::{Health, Socket};
use crate::cli::{CaptureArgs, NetnsArgs};
use crate::connect::{address, credentials, explain};
use crate::failure::Usage;
use crate::live_source::Live;
use crate::signals::Stop;
use crate::{capture, namespaces, output};
use anyhow::{Context, Result, anyhow};
use clap::Subcommand;
use magscope_core::hop::HopSet;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Hop};
use magscope_fleet::pki::{Folder, Validity};
use magscope_fleet::{About, Address, FleetError, Grants, Listen, Memory, Tell, dial, serve};
use magscope_scope::format::count;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Threads that talk to viewers; each stream has one more of its own.
const TALKERS: usize = 2;

/// What an agent captures unless it is told otherwise: enough to say where a message was, and half of what all hops cost.
const STANDING: [Hop; 10] = [
    Hop::AppSend,
    Hop::TcpSend,
    Hop::DevXmit,
    Hop::DevRecv,
    Hop::SockReady,
    Hop::AppRecv,
    Hop::TcpRetransmit,
    Hop::TcpState,
    Hop::SkbDrop,
    Hop::SockFull,
];

/// Arguments of `agent`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "magnet-scope agent init tls --host web-1,10.0.0.1 --viewer me   certificates, once\n\
    sudo magnet-scope agent --listen 0.0.0.0:6246 --tls tls           on web-1\n\
    magnet-scope --connect web-1,web-2 --tls tls                      anywhere")]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a private certificate authority, and certificates for hosts and viewers
    Init(InitArgs),
    /// Lets the holder of a certificate in no longer
    Revoke(RevokeArgs),
    /// Asks an agent what it captures and how much it keeps
    About(AboutArgs),
}

#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// Let viewers come by TCP, with TLS at both ends: `0.0.0.0:6246`; can be given several times
    #[arg(long, value_name = "ADDRESS:PORT", requires = "tls")]
    listen: Vec<SocketAddr>,
    /// The folder with `ca.pem`, `crl.pem` and this host's certificate
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Which certificate there is this host's: `host-NAME` [default: the only one]
    #[arg(long, value_name = "NAME", requires = "tls")]
    identity: Option<String>,
    /// Let every user of this host come without a certificate, by TCP on a loopback address
    #[arg(long, value_name = "127.0.0.1:PORT")]
    insecure_loopback: Option<SocketAddr>,
    /// The socket for root and the agent's own user [default: /run/magnet-scope/agent.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// How much of the past is kept
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse, default_value = "256MiB")]
    memory: u64,
    /// How often a line says how it stands
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::parse, default_value = "1m")]
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
    /// A certificate for an agent: the names and addresses it is reached by; can be given several times
    #[arg(long, value_name = "NAME,…")]
    host: Vec<String>,
    /// A certificate for a viewer, and what it is limited to: `ops`, `guest?no-payload`, `dev?hops=dev.xmit,dev.recv&containers=4fa2`
    #[arg(long, value_name = "NAME[?LIMITS]")]
    viewer: Vec<String>,
    /// How long they are good
    #[arg(long, value_name = "N", default_value_t = 825, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    days: u32,
}

#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// The folder with the authority
    dir: PathBuf,
    /// Whose: `viewer-NAME` or `host-NAME`
    identity: String,
}

#[derive(Debug, clap::Args)]
struct AboutArgs {
    /// Where it is: HOST, HOST:PORT, unix:PATH
    #[arg(value_parser = address)]
    address: Address,
    /// The folder with `ca.pem` and your certificate
    #[arg(long, value_name = "DIR")]
    tls: Option<PathBuf>,
    /// Which certificate there says who you are
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Serves, or does what belongs to it.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        None => stand(&args.serve),
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
    for names in &args.host {
        let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
        made(&folder.host(&names, validity).map_err(explain)?, "with ca.pem and crl.pem to that host");
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
    let known = match args.address {
        Address::Host { .. } => Some(credentials(args.tls.as_deref(), args.identity.as_deref())?),
        _ => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let about = runtime.block_on(dial(&args.address, known.as_ref())).map_err(explain)?.about;
    if args.json { output::json(&about) } else { output::text(&text(&about)) }
}

fn text(about: &About) -> String {
    let About { tool, node, holds, limit_bytes, streams, .. } = about;
    let seconds = holds.range_ns.map_or(0.0, |(from, to)| to.saturating_sub(from) as f64 / 1e9);
    format!(
        "{}: Linux {}, {tool}\n\
         {} records came, {} of them lost\n\
         {:.1} of {:.0} MiB kept: the last {seconds:.1} s\n\
         {streams} streams are being read",
        node.host,
        node.kernel,
        count(holds.came_records),
        count(holds.came_lost),
        holds.bytes as f64 / f64::from(1 << 20),
        *limit_bytes as f64 / f64::from(1 << 20),
    )
}

/// Captures and serves until a signal, or the end of `--duration`.
fn stand(args: &ServeArgs) -> Result<()> {
    let namespaces = namespaces::find(&args.netns.netns)?;
    capture::check_privileges("agent", namespaces.are_elsewhere())?;
    let stop = Stop::on_signals()?;
    let socket = Socket::bind(args.socket.as_deref())?;
    let mut listeners = args.listeners()?;
    listeners.push(Listen::Unix(socket.listener.try_clone()?));
    let standing: HopSet = STANDING.into_iter().collect();
    let capture = capture::start_with(&args.capture, namespaces, standing)?;
    let control = capture::bind();
    capture::drop_privileges()?;
    let mut live = Live::new(capture, args.capture.duration, stop).with_control(control);

    let (memory, mut writer) = Memory::new(live.info().clone(), args.memory)?;
    for listen in &listeners {
        output::note(&format!("listening at {}", listen.address()));
    }
    let end = Arc::new(AtomicBool::new(false));
    let talker = talk(memory.clone(), listeners, end.clone())?;
    let mut health = Health::new(&memory, args.health);
    let mut batch = Batch::default();
    let result = loop {
        let progress = match live.next(&mut batch, Duration::from_millis(100)) {
            Ok(progress) => progress,
            Err(error) => break Err(anyhow::Error::from_boxed(error)),
        };
        if let Err(error) = writer.push(&mut batch) {
            break Err(error.into());
        }
        health.tell();
        if progress == Progress::End {
            break Ok(());
        }
        if talker.is_finished() {
            break Err(anyhow!("what talks to viewers has ended"));
        }
    };
    // Viewers get what is left; who does not take it within a moment has had its time.
    drop(writer);
    let since = Instant::now();
    while memory.readers() > 0 && since.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(20));
    }
    end.store(true, Ordering::Relaxed);
    let talked = talker.join().map_err(|_| anyhow!("what talks to viewers has failed"))?;
    health.last();
    drop(socket);
    result.and(talked)
}

/// Serves viewers from threads of its own.
fn talk(
    memory: Arc<Memory>,
    listeners: Vec<Listen>,
    end: Arc<AtomicBool>,
) -> Result<std::thread::JoinHandle<Result<()>>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(TALKERS)
        .thread_name("magnet-talk")
        .enable_all()
        .build()
        .context("cannot start what talks to viewers")?;
    let tell: Tell = Arc::new(|text: &str| output::note(text));
    let thread = std::thread::Builder::new().name("magnet-serve".to_owned());
    Ok(thread.spawn(move || {
        let served = runtime.block_on(serve(memory, listeners, tell, end));
        runtime.shutdown_timeout(Duration::from_secs(1));
        served.map_err(anyhow::Error::from_boxed)
    })?)
}

impl ServeArgs {
    /// Sockets by TCP. Made while the process may still bind to any port.
    fn listeners(&self) -> Result<Vec<Listen>> {
        let bind = |at: &SocketAddr| {
            let failed = |error: std::io::Error| {
                explain(FleetError::Listen { address: at.to_string(), because: error.to_string() })
            };
            TcpListener::bind(at).map_err(failed)
        };
        let mut listeners = Vec::new();
        if let Some(tls) = &self.tls {
            let folder = Folder::new(tls);
            let identity = match &self.identity {
                Some(identity) => identity.clone(),
                None => folder.only("host").map_err(explain)?,
            };
            // Said now, and not when the first viewer comes.
            folder.agent(&identity).map_err(explain)?;
            for at in &self.listen {
                listeners.push(Listen::Tls(bind(at)?, folder.clone(), identity.clone()));
            }
        }
        if let Some(at) = &self.insecure_loopback {
            if !at.ip().is_loopback() {
                return Err(Usage(format!(
                    "{at} is no loopback address; other hosts come by `--listen`, with TLS"
                ))
                .into());
            }
            listeners.push(Listen::Loopback(bind(at)?));
        }
        Ok(listeners)
    }
}
