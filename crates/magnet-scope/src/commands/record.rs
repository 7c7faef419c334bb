//! `magnet-scope record`: captures into a directory.

mod unattended;

use crate::cli::{CaptureArgs, NetnsArgs};
use crate::connect::ConnectArgs;
use crate::connect::{Connected, Until};
use crate::failure::Usage;
use crate::live_source::Live;
use crate::recording::{Directory, Recorded};
use crate::screen::below;
use crate::signals::Stop;
use crate::trigger::{TriggerArgs, Watch};
use crate::unattended::UnattendedArgs;
use crate::{capture, output};
use anyhow::{Result, anyhow};
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::node::{NodeInfo, make_name_unique};
use magscope_core::source::{Progress, Source};
use magscope_fleet::Host;
use magscope_session::RecordOptions;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `record`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory to record into; must not exist, or be empty. Recordings of agents are below it, one per host
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    netns: NetnsArgs,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    trigger: TriggerArgs,
    /// Maximum size of the recording; the oldest segments are deleted: `2G`
    #[arg(long, value_name = "SIZE", value_parser = crate::values::size::parse)]
    size_limit: Option<u64>,
    /// Maximum number of segments (of at most 256 MiB each); older ones are deleted
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Maximum age of segments after their end: `7d`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::interval)]
    keep_for: Option<Duration>,
    /// Maximum duration of a segment: `10m`
    #[arg(long, value_name = "TIME", value_parser = crate::values::duration::interval)]
    segment_time: Option<Duration>,
    #[command(flatten)]
    unattended: UnattendedArgs,
}

/// Records until Ctrl-C or the end of `--duration`.
pub fn run(args: &Args) -> Result<()> {
    if args.connect.is_asked() {
        args.unattended.not_of_agents()?;
        return agents(args);
    }
    if args.unattended.is_asked_for() {
        return unattended::run(args);
    }
    let namespaces = capture::namespaces(&args.capture, &args.netns.netns)?;
    capture::check_privileges("record", namespaces.are_elsewhere())?;
    let stop = Stop::on_signals()?;
    let directory = Directory::prepare(&args.output)?;
    let prepared = args.trigger.prepare()?;
    let capture = capture::start(&args.capture, namespaces)?;
    let control = capture::bind();
    capture::drop_privileges()?;
    let live = Live::new(capture, args.capture.duration, stop).with_control(control);
    let watch = Watch::new(prepared, &args.trigger, Limits::default(), live.info())?;
    let mut watched = watch.over(Recorded::new(live, directory, args.options())?);
    let until = if args.capture.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    output::note(&format!("recording into {}{until}", args.output.display()));
    let drained = drain(&mut watched);
    // The first error is the relevant one.
    let closed = watched.end().close();
    drained.and(closed)
}

/// Reads a source to its end.
fn drain(source: &mut impl Source) -> Result<()> {
    let mut batch = Batch::default();
    while source.next(&mut batch, Duration::from_secs(1)).map_err(anyhow::Error::from_boxed)? == Progress::More
    {
    }
    Ok(())
}

impl Args {
    fn options(&self) -> RecordOptions {
        RecordOptions {
            size_limit_bytes: self.size_limit,
            keep_segments: self.keep,
            keep_for: self.keep_for,
            segment_time: self.segment_time,
            ..RecordOptions::default()
        }
    }
}

/// Records agents, each into a directory of its own, until Ctrl-C or the end of `--duration`.
fn agents(args: &Args) -> Result<()> {
    if args.trigger.save_on_trigger.is_some() {
        let what =
            "`record` keeps everything; leave out --save-on-trigger, or watch with `magnet-scope --connect`";
        return Err(Usage(what.to_owned()).into());
    }
    let stop = Stop::on_signals()?;
    let all = Directory::prepare(&args.output)?;
    let Connected { hosts, discovery } = args.connect.open(&args.capture, &args.netns)?;
    let mut infos: Vec<NodeInfo> = Vec::new();
    let mut begin = |host: Host| -> Result<Recorded<Host>> {
        let mut info = host.info().clone();
        if let Some(name) = host.asked_as() {
            name.clone_into(&mut info.host);
        }
        make_name_unique(&infos, &mut info);
        let own = Directory::prepare(&below(all.path(), &info.host))?;
        output::note(&format!("recording {} into {}", info.host, own.path().display()));
        infos.push(info);
        Recorded::new(host, own, args.options())
    };
    let recordings = hosts.into_iter().map(&mut begin).collect::<Result<Vec<_>>>()?;
    let until = Until::new(args.capture.duration, &stop);
    std::thread::scope(|scope| {
        let record = |mut recorded: Recorded<Host>| {
            let drained = drain(&mut recorded);
            let closed = recorded.close();
            drained.and(closed)
        };
        let spawn = |recorded| scope.spawn(move || record(recorded));
        let mut threads: Vec<_> = recordings.into_iter().map(spawn).collect();
        let (mut begun, mut ended) = (Ok(()), Ok(()));
        let failed = |_| Err(anyhow!("a recording's thread has failed"));
        // A host whose recording fails ends alone. A host that has ended can return.
        while !(threads.is_empty() && (discovery.ticker().is_stopped() || ended.is_err())) {
            std::thread::sleep(Duration::from_millis(50));
            if begun.is_err() {
                discovery.ticker().stop();
            } else if !discovery.ticker().is_stopped()
                && let Some(host) = discovery.arrived()
            {
                begun = begin(host).map(|recorded| threads.push(spawn(recorded)));
            }
            for thread in threads.extract_if(.., |thread| thread.is_finished()) {
                ended = ended.and(thread.join().unwrap_or_else(failed));
            }
            until.look(discovery.ticker());
        }
        ended.and(begun)
    })
}
