//! `magnet-scope health`: the network health of this host, for batch systems, in one script line.

use crate::cli::{CaptureArgs, LimitArgs, NetnsArgs};
use crate::connect::{address, credentials, explain};
use crate::failure::{self, Exit, Hint, Usage};
use crate::live_source::Live;
use crate::metrics::{Softirqs, own};
use crate::signals::Stop;
use crate::{capture, control, namespaces, output};
use anyhow::{Context, Result};
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_fleet::{Address, ReadOptions, Remote, StartAt as Begin, Terms, dial};
use magscope_sensor::Sensor;
use magscope_sensor::health::{self, Health, Thresholds};
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::walk;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Duration of the capture without an agent.
const CAPTURED: Duration = Duration::from_secs(10);
/// Requested history of an agent: the window plus the length of its parts.
const BACK: Duration = Duration::from_secs(65);
/// Timeout for a silent agent.
const PATIENCE: Duration = Duration::from_secs(10);
/// CPU ticks are a hundredth of a second, so a shorter measurement is inaccurate.
const SOFTIRQS: Duration = Duration::from_secs(1);

/// Arguments of `health`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "magnet-scope health && srun job          asks this host's agent about the last minute\n\
    sudo magnet-scope health --duration 5s   captures itself\n\
    Leaves with 0 if nothing is above its threshold, 1 if something is, 2 if it could not find out. docs/sensor.md says more."
)]
pub struct Args {
    /// Agent to ask about its last minute [default: `unix:/run/magnet-scope/agent.sock` if present]
    #[arg(long, value_name = "ADDRESS", value_parser = address, conflicts_with = "duration")]
    connect: Option<Address>,
    /// Folder with `ca.pem` and your certificate
    #[arg(long, value_name = "DIR", requires = "connect")]
    tls: Option<PathBuf>,
    /// Certificate in that folder to present: `viewer-NAME` [default: the only one]
    #[arg(long, value_name = "NAME", requires = "connect")]
    identity: Option<String>,
    /// Treat an unknown result as a failed check
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    thresholds: ThresholdArgs,
    #[command(flatten)]
    capture: CaptureArgs,
    #[command(flatten)]
    netns: NetnsArgs,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Thresholds")]
struct ThresholdArgs {
    /// Maximum share of TCP bytes that are retransmitted
    #[arg(long = "max-retransmit", value_name = "PERCENT", value_parser = percent, default_value = "1%")]
    retransmit: f64,
    /// Maximum number of dropped packets per second
    #[arg(long = "max-drops", value_name = "N", value_parser = number, default_value = "10")]
    drops: f64,
    /// Maximum share of softirqs in the time of the busiest CPU
    #[arg(long = "max-softirq", value_name = "PERCENT", value_parser = percent, default_value = "80%")]
    softirq: f64,
    /// Maximum 99th percentile of the time from ready data to the running reader
    #[arg(long = "max-wakeup", value_name = "TIME", value_parser = crate::values::duration::parse, default_value = "5ms")]
    wakeup: Duration,
    /// Maximum median of the same
    #[arg(long = "max-wakeup-median", value_name = "TIME", value_parser = crate::values::duration::parse, default_value = "1ms")]
    wakeup_median: Duration,
    /// Maximum 99th percentile of the time in the device's queue
    #[arg(long = "max-queue", value_name = "TIME", value_parser = crate::values::duration::parse, default_value = "10ms")]
    queue: Duration,
    /// Maximum median of the same
    #[arg(long = "max-queue-median", value_name = "TIME", value_parser = crate::values::duration::parse, default_value = "1ms")]
    queue_median: Duration,
    /// Maximum share of lost records of the capture itself
    #[arg(long = "max-lost", value_name = "PERCENT", value_parser = percent, default_value = "1%")]
    lost: f64,
}

impl From<ThresholdArgs> for Thresholds {
    fn from(args: ThresholdArgs) -> Self {
        Thresholds {
            retransmit: args.retransmit,
            drops_per_s: args.drops,
            softirq: args.softirq,
            wakeup_p50_s: args.wakeup_median.as_secs_f64(),
            wakeup_p99_s: args.wakeup.as_secs_f64(),
            queue_p50_s: args.queue_median.as_secs_f64(),
            queue_p99_s: args.queue.as_secs_f64(),
            lost: args.lost,
        }
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let bad =
        || format!("`{}` is no share; write for instance `1%`", text.chars().take(40).collect::<String>());
    let share = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok()).ok_or_else(bad)?;
    if (0.0..=100.0).contains(&share) { Ok(share / 100.0) } else { Err(bad()) }
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{}` is no number from 0 on", text.chars().take(40).collect::<String>()))
}

/// The output.
#[derive(Debug, Serialize)]
struct Answer {
    healthy: bool,
    hosts: Vec<Health>,
}

/// Checks, prints, and sets the exit code.
pub fn run(args: &Args) -> Result<()> {
    let answer = look(args).and_then(|hosts| {
        let well = |host: &Health| host.healthy && !(args.strict && host.unknown > 0);
        let answer = Answer { healthy: hosts.iter().all(well), hosts };
        output::json(&answer)?;
        Ok(answer.healthy)
    });
    match answer {
        Ok(true) => Ok(()),
        Ok(false) => Err(Exit(1).into()),
        // 1 is a valid answer here.
        Err(error) => {
            failure::report(&error);
            Err(Exit(2).into())
        }
    }
}

fn look(args: &Args) -> Result<Vec<Health>> {
    let thresholds = Thresholds::from(args.thresholds);
    let own_socket =
        control::folders().into_iter().map(|folder| folder.join("agent.sock")).find(|path| path.exists());
    let limits = args.limits.limits();
    match (&args.connect, own_socket) {
        (Some(address), _) => ask(args, address, &thresholds, limits),
        (None, Some(path)) if args.capture.duration.is_none() => {
            ask(args, &Address::Unix(path), &thresholds, limits)
        }
        _ => capture_here(args, &thresholds, limits).map(|health| vec![health]),
    }
}

/// Captures for a while with the hops of the checks.
fn capture_here(args: &Args, thresholds: &Thresholds, limits: Limits) -> Result<Health> {
    let namespaces = namespaces::find(&args.netns.netns)?;
    capture::check_privileges("health", namespaces.are_elsewhere())?;
    let stop = Stop::on_signals()?;
    let capture =
        capture::start_with(&args.capture, namespaces, capture::CaptureDefaults::of(super::metrics::hops()))?;
    let softirqs = Softirqs::new();
    capture::drop_privileges()?;
    let duration = args.capture.duration.unwrap_or(CAPTURED);
    let mut live = Live::new(capture, Some(duration), stop);
    let mut sensor = Sensor::new(std::slice::from_ref(live.info()), false);
    walk(&mut [&mut live], &OneClock, limits, Duration::from_millis(100), |piece| sensor.add(&piece))
        .map_err(anyhow::Error::from_boxed)?;
    judged(&sensor, thresholds, &softirqs.busiest(SOFTIRQS))
}

/// Queries an agent or a relay for the last minute.
fn ask(args: &Args, address: &Address, thresholds: &Thresholds, limits: Limits) -> Result<Vec<Health>> {
    let given = &args.capture;
    if given.filter.is_some()
        || given.pcap.is_some()
        || given.container.is_some()
        || !(given.sample.is_empty()
            && given.probe.is_empty()
            && given.snap.is_empty()
            && args.netns.netns.is_empty())
    {
        let why = "what is captured is the agent's business; with `--duration 10s` this captures itself";
        return Err(Usage(format!("{address} is asked, and {why}")).into());
    }
    let softirqs = Softirqs::new();
    capture::drop_privileges()?;
    let credentials = match address {
        Address::Host { .. } => Some(credentials(args.tls.as_deref(), args.identity.as_deref())?),
        _ => None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let about = runtime.block_on(dial(address, credentials.as_ref())).map_err(explain)?.about;
    let options =
        ReadOptions { address: address.clone(), credentials, from: Begin::Back(BACK), terms: Terms::default() };
    let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut all = Vec::new();
    for remote in Remote::connect(&options).map_err(explain)? {
        let info = remote.info().clone();
        let stored_range =
            about.hosts.iter().find(|host| host.node.host == info.host).and_then(|host| host.holds.range_ns);
        let mut sensor = Sensor::new(std::slice::from_ref(&info), false);
        if let Some((_, to_ns)) = stored_range {
            let mut until = Until { source: remote, to_ns, ended: false, came: Instant::now() };
            walk(&mut [&mut until], &OneClock, limits, Duration::from_millis(100), |piece| sensor.add(&piece))
                .map_err(anyhow::Error::from_boxed)
                .with_context(|| {
                    Hint::new(format!("cannot ask {address}"), "", "look at what the agent says")
                })?;
        }
        let softirq = if info.boot_id == here.trim() {
            softirqs.busiest(SOFTIRQS)
        } else {
            Err(format!("{} is another host than this, and its agent does not say", info.host))
        };
        all.push(judged(&sensor, thresholds, &softirq)?);
    }
    Ok(all)
}

fn judged(
    sensor: &Sensor,
    thresholds: &Thresholds,
    softirq: &Result<health::Softirq, String>,
) -> Result<Health> {
    match sensor.snapshot(own()).hosts.first() {
        Some(host) if host.window_ns > 0 => Ok(health::of(host, thresholds, softirq)),
        _ => Err(Hint::error(
            "nothing is known of this host's network",
            "the capture has just begun",
            "ask again in some seconds",
        )),
    }
}

/// A source that ends at the time of the request.
struct Until {
    source: Remote,
    to_ns: u64,
    ended: bool,
    came: Instant,
}

impl Source for Until {
    fn info(&self) -> &NodeInfo {
        self.source.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        if self.ended {
            batch.clear();
            return Ok(Progress::End);
        }
        let progress = self.source.next(batch, timeout)?;
        if batch.is_empty() {
            if self.came.elapsed() > PATIENCE {
                return Err("it has sent nothing for 10 s, and not yet all of what it had kept".into());
            }
            return Ok(progress);
        }
        self.came = Instant::now();
        let newest = batch.events.last().map(|event| event.time_ns);
        let sampled = batch.clock.last().map(magscope_core::clock::ClockSample::event_ns);
        let watermark = Some(batch.watermark_ns).filter(|ns| *ns != u64::MAX);
        // The last batch may contain only a clock sample.
        self.ended = [newest, sampled, watermark].into_iter().flatten().any(|ns| ns >= self.to_ns);
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_their_sign() {
        assert_eq!(percent("1%"), Ok(0.01));
        assert_eq!(percent("0.5 %"), Ok(0.005));
        for bad in ["1", "", "%", "-1%", "101%", "NaN%", "inf%"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
        assert!(number("10").is_ok() && number("-1").is_err() && number("NaN").is_err());
    }
}
