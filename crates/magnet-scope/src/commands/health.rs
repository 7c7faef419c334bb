//! `magnet-scope health`: the network health of this host or of others, for batch systems, in one script line.
//!
//! Several hosts are read together, and their clocks are compared by the packets between them.

use crate::cli::{CaptureArgs, LimitArgs, NetnsArgs, StampClock};
use crate::connect::{address, credentials, explain};
use crate::failure::{self, Exit, Hint, Usage};
use crate::live_source::Live;
use crate::metrics::{Softirqs, own};
use crate::signals::Stop;
use crate::{capture, control, output};
use anyhow::{Context, Result};
use magscope_core::Batch;
use magscope_core::journey::Limits;
use magscope_core::node::{NodeInfo, make_names_unique};
use magscope_core::source::{Progress, Source, SourceError};
use magscope_fleet::{About, AboutHost, Address, ReadOptions, Remote, StartAt as Begin, Terms, dial};
use magscope_sensor::Sensor;
use magscope_sensor::health::{self, ClockHealth, Health, State, Thresholds};
use magscope_timeline::align::Online;
use magscope_timeline::join::OneClock;
use magscope_timeline::merged_reader::{Piece, Walker, walk};
use serde::Serialize;
use std::cell::Cell;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Duration of the capture without an agent.
const CAPTURED: Duration = Duration::from_secs(10);
/// Requested history of an agent: the window plus the length of its parts.
const BACK: Duration = Duration::from_secs(65);
/// Timeout for a silent agent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum age of the last data of a host that is taken for alive at once.
const FRESH_NS: u64 = 10_000_000_000;
/// Time within which data come from a host that is alive: it has ten clock samples a second.
const ADVANCE: Duration = Duration::from_secs(1);
/// CPU ticks are a hundredth of a second, so a shorter measurement is inaccurate.
const SOFTIRQS: Duration = Duration::from_secs(1);
/// Interval between two readings of the clocks' relations, by the events' time.
const CLOCKS_NS: u64 = 500_000_000;

/// Arguments of `health`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "magnet-scope health && srun job          asks this host's agent about the last minute\n\
    sudo magnet-scope health --duration 5s   captures itself\n\
    magnet-scope health --connect web-1,web-2 --max-clock-error 1ms   two hosts and their clocks\n\
    Leaves with 0 if nothing is above its threshold, 1 if something is, 2 if it could not find out. docs/sensor.md says more."
)]
pub struct Args {
    /// Agents to ask about their last minute; of several, the clocks are compared [default: `unix:/run/magnet-scope/agent.sock` if present]
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',', value_parser = address, conflicts_with = "duration")]
    connect: Vec<Address>,
    /// Folder with `ca.pem` and your certificate
    #[arg(long, value_name = "DIR", requires = "connect", conflicts_with = "duration")]
    tls: Option<PathBuf>,
    /// Certificate in that folder to present: `viewer-NAME` [default: the only one]
    #[arg(long, value_name = "NAME", requires = "connect", conflicts_with = "duration")]
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
    /// Maximum number of steps of a host's clocks, and of two hosts' clocks against each other
    #[arg(long = "max-clock-steps", value_name = "N", value_parser = number, default_value = "0")]
    clock_steps: f64,
    /// Maximum error of a host's UTC, and of the difference of two hosts' clocks [default: none]
    #[arg(long = "max-clock-error", value_name = "TIME", value_parser = crate::values::duration::parse)]
    clock_error: Option<Duration>,
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
            clock_steps: args.clock_steps,
            clock_error_s: args.clock_error.map_or(f64::INFINITY, |limit| limit.as_secs_f64()),
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
    /// Each pair of hosts with clocks of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clocks: Vec<ClockHealth>,
}

/// Checks, prints, and sets the exit code.
pub fn run(args: &Args) -> Result<()> {
    let answer = look(args).and_then(|(mut hosts, mut clocks)| {
        let well = |healthy: bool, unknown: usize| healthy && !(args.strict && unknown > 0);
        for host in &mut hosts {
            host.healthy = well(host.healthy, host.unknown);
        }
        for pair in &mut clocks {
            pair.healthy = well(pair.healthy, pair.unknown);
        }
        let healthy = hosts.iter().all(|host| host.healthy) && clocks.iter().all(|pair| pair.healthy);
        let answer = Answer { healthy, hosts, clocks };
        output::json(&answer)?;
        explain_clocks(&answer);
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

/// Prints failed checks of clocks with their likely cause and the next step.
fn explain_clocks(answer: &Answer) {
    let of_hosts = answer.hosts.iter().map(|host| (host.host.clone(), &host.checks));
    let of_pairs = answer.clocks.iter().map(|pair| (format!("{} and {}", pair.a, pair.b), &pair.checks));
    for (on, checks) in of_hosts.chain(of_pairs) {
        for check in checks.iter().filter(|check| check.state == State::NotOk && !check.next.is_empty()) {
            let value = check.value.map_or_else(|| "unbounded".to_owned(), |value| value.to_string());
            let what = format!("{on}: {} is {value} ({}), above {}", check.name, check.unit, check.threshold);
            failure::report(&Hint::error(what, check.because.clone(), check.next.clone()));
        }
    }
}

fn look(args: &Args) -> Result<(Vec<Health>, Vec<ClockHealth>)> {
    let thresholds = Thresholds::from(args.thresholds);
    // An agent that was killed leaves its socket behind.
    let is_dead = |path: &PathBuf| {
        UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let sockets = control::folders().into_iter().map(|folder| folder.join("agent.sock"));
    let own_socket = sockets.filter(|path| path.exists()).find(|path| !is_dead(path));
    let limits = args.limits.limits();
    match (&*args.connect, own_socket) {
        ([], Some(path)) if args.capture.duration.is_none() => {
            ask(args, &[Address::Unix(path)], &thresholds, limits)
        }
        ([], _) => capture_here(args, &thresholds, limits).map(|health| (vec![health], Vec::new())),
        (addresses, _) => ask(args, addresses, &thresholds, limits),
    }
}

/// Captures for a while with the hops of the checks.
fn capture_here(args: &Args, thresholds: &Thresholds, limits: Limits) -> Result<Health> {
    let namespaces = capture::namespaces(&args.capture, &args.netns.netns)?;
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
    judged(&sensor, 0, thresholds, &softirqs.busiest(SOFTIRQS))
}

/// Refuses options of a capture. Those of cost alone, as a configuration may have them for all captures, say nothing to agents.
fn refuse_capture_options(args: &Args, addresses: &[Address]) -> Result<()> {
    let given = &args.capture;
    let options = [
        ("--hops", !given.hops.is_default()),
        ("--netns", !args.netns.netns.is_empty()),
        ("--backend", given.backend.is_some()),
        ("--clock", given.clock != StampClock::default()),
        ("--filter", given.filter.is_some()),
        ("--pcap", given.pcap.is_some()),
        ("--container", given.container.is_some()),
        ("--pod", given.pod.is_some()),
        ("--unit", given.unit.is_some()),
        ("--sample", !given.sample.is_empty()),
        ("--detail", given.detail.is_some()),
        ("--probe", !given.probe.is_empty()),
        ("--snap", !given.snap.is_empty()),
    ];
    let Some((option, _)) = options.into_iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let asked: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let why = "what is captured is the agent's business; with `--duration 10s` this captures itself";
    Err(Usage(format!("`{option}`: {} is asked, and {why}", asked.join(","))).into())
}

/// Queries agents and relays for the last minute.
fn ask(
    args: &Args,
    addresses: &[Address],
    thresholds: &Thresholds,
    limits: Limits,
) -> Result<(Vec<Health>, Vec<ClockHealth>)> {
    refuse_capture_options(args, addresses)?;
    let softirqs = Softirqs::new();
    capture::drop_privileges()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let credentials_for = |address: &Address| match address {
        Address::Host { .. } => credentials(args.tls.as_deref(), args.identity.as_deref()).map(Some),
        _ => Ok(None),
    };
    let describe = |address: &Address| -> Result<About> {
        let dialed = runtime.block_on(dial(address, credentials_for(address)?.as_ref()));
        Ok(dialed.map_err(explain)?.about)
    };
    let began = Instant::now();
    let (mut remotes, mut asked) = (Vec::new(), Vec::new());
    for address in addresses {
        let about = describe(address)?;
        let options = ReadOptions {
            address: address.clone(),
            credentials: credentials_for(address)?,
            from: Begin::Back(BACK),
            terms: Terms::default(),
        };
        for source in Remote::connect(&options).map_err(explain)? {
            let host = &source.info().host;
            let stored = about.hosts.iter().find(|about| about.node.host == *host);
            let host = AskedHost::of(address, host, stored);
            let (to_ns, to_utc_ns) = (host.to_ns, host.to_utc_ns.clone());
            remotes.push(Until { source, to_ns, to_utc_ns, ended: false, came: Instant::now() });
            asked.push(host);
        }
    }
    let mut infos: Vec<NodeInfo> = remotes.iter().map(|remote| remote.info().clone()).collect();
    make_names_unique(&mut infos);
    let mut sensor = Sensor::new(&infos, true);
    read(remotes, &infos, &mut sensor, limits).with_context(|| {
        let asked: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        Hint::new(format!("cannot ask {}", asked.join(", ")), "", "look at what the agent says")
    })?;
    let here = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let is_here = |info: &NodeInfo| info.boot_id == here.trim();
    let own_softirq = infos.iter().any(is_here).then(|| softirqs.busiest(SOFTIRQS));
    check_all_alive(&asked, began, describe)?;
    let hosts = infos.iter().enumerate().map(|(at, info)| {
        let own = own_softirq.clone().filter(|_| is_here(info));
        let softirq = own.unwrap_or_else(|| {
            Err(format!("{} is another host than this, and its agent does not say", info.host))
        });
        judged(&sensor, at, thresholds, &softirq)
    });
    let hosts = hosts.collect::<Result<Vec<_>>>()?;
    let relations = sensor.snapshot(own()).clocks;
    Ok((hosts, relations.iter().map(|relation| health::of_clocks(relation, thresholds)).collect()))
}

/// A host, as an agent or relay described it at the time of the request.
struct AskedHost {
    address: Address,
    /// Its name there.
    name: String,
    stream: String,
    came_packets: u64,
    ended: bool,
    /// The last stored instant, by the host's event clock; `None` if nothing is stored.
    to_ns: Option<u64>,
    /// UTC minus that clock, from the newest clock sample that was read.
    to_utc_ns: Rc<Cell<Option<i64>>>,
    /// The time of the request, UTC by this machine's clock.
    asked_utc_ns: i64,
}

impl AskedHost {
    fn of(address: &Address, name: &str, stored: Option<&AboutHost>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        AskedHost {
            address: address.clone(),
            name: name.to_owned(),
            stream: stored.map(|about| about.stream.clone()).unwrap_or_default(),
            came_packets: stored.map_or(0, |about| about.holds.came_packets),
            ended: stored.is_some_and(|about| about.ended),
            to_ns: stored.and_then(|about| about.holds.range_ns).map(|(_, to_ns)| to_ns),
            to_utc_ns: Rc::default(),
            asked_utc_ns: now.as_nanos() as i64,
        }
    }

    /// Age of the last stored instant at the time of the request. Wrong by the difference of the two hosts' clocks.
    fn age_ns(&self) -> Option<i64> {
        let newest_utc_ns = self.to_utc_ns.get()?.wrapping_add_unsigned(self.to_ns?);
        Some(self.asked_utc_ns.wrapping_sub(newest_utc_ns))
    }

    /// True if the last stored instant is that of the request.
    fn is_fresh(&self) -> bool {
        !self.ended && self.age_ns().is_some_and(|age_ns| age_ns.unsigned_abs() <= FRESH_NS)
    }

    /// True if a later description has more data.
    fn has_advanced(&self, later: &AboutHost) -> bool {
        let is_same = later.stream == self.stream;
        !later.ended && (!is_same || later.holds.came_packets > self.came_packets)
    }

    /// The error of a host that sends nothing.
    fn silence(&self) -> anyhow::Error {
        let name = &self.name;
        let what = match self.age_ns() {
            _ if self.ended => format!("nothing is known of {name}: its capture has ended"),
            Some(age_ns) if age_ns > 0 => {
                format!("nothing has come from {name} for {:.0} s", age_ns as f64 / 1e9)
            }
            _ => format!("nothing has come from {name} since the request"),
        };
        let likely = "the host, its agent, or the connection between it and the relay is down";
        Hint::error(what, likely, format!("look at what the agent of {name} says"))
    }
}

/// Refuses hosts of which nothing comes: a relay has the data of a host that is down. `describe` asks an address again.
///
/// # Errors
/// A host of which nothing comes, or an address that does not answer.
fn check_all_alive(
    asked: &[AskedHost],
    began: Instant,
    describe: impl Fn(&Address) -> Result<About>,
) -> Result<()> {
    // Without any stored data there is no answer anyway.
    for host in asked.iter().filter(|host| host.to_ns.is_some() && !host.is_fresh()) {
        if host.ended {
            return Err(host.silence());
        }
        // Its clock or that of this machine may be wrong. So only missing packets count.
        std::thread::sleep(ADVANCE.saturating_sub(began.elapsed()));
        let about = describe(&host.address)?;
        let advances = |later: &AboutHost| later.node.host == host.name && host.has_advanced(later);
        if !about.hosts.iter().any(advances) {
            return Err(host.silence());
        }
    }
    Ok(())
}

/// Reads hosts to the time of the request. Several are read together, for the relations of their clocks.
fn read(mut remotes: Vec<Until>, infos: &[NodeInfo], sensor: &mut Sensor, limits: Limits) -> Result<()> {
    const WAIT: Duration = Duration::from_millis(100);
    if let [remote] = &mut *remotes {
        let walked = walk(&mut [remote], &OneClock, limits, WAIT, |piece| sensor.add(&piece));
        return walked.map(drop).map_err(anyhow::Error::from_boxed);
    }
    let online = Online::new(infos);
    let sources = remotes.into_iter().map(|remote| Box::new(remote) as Box<dyn Source>).collect();
    let mut walker = Walker::live(sources, &online, limits, WAIT);
    let (mut newest_ns, mut read_ns) = (0_u64, 0_u64);
    loop {
        let progress = walker.step(&mut |piece| {
            if let Piece::Batch(_, batch) = &piece {
                newest_ns = batch.events.last().map_or(newest_ns, |event| event.time_ns.max(newest_ns));
            }
            sensor.add(&piece);
        });
        let has_ended = progress.map_err(anyhow::Error::from_boxed)? == Progress::End;
        if has_ended || newest_ns >= read_ns.saturating_add(CLOCKS_NS) {
            sensor.read_clocks(&online);
            read_ns = newest_ns;
        }
        if has_ended {
            return Ok(());
        }
    }
}

fn judged(
    sensor: &Sensor,
    at: usize,
    thresholds: &Thresholds,
    softirq: &Result<health::Softirq, String>,
) -> Result<Health> {
    match sensor.snapshot(own()).hosts.get(at) {
        Some(host) if host.window_ns > 0 => Ok(health::of(host, thresholds, softirq)),
        host => {
            let on = host.map_or("this host", |host| &host.host);
            Err(Hint::error(
                format!("nothing is known of the network of {on}"),
                "the capture has just begun",
                "ask again in some seconds",
            ))
        }
    }
}

/// A source that ends at the time of the request.
struct Until {
    source: Remote,
    /// `None` if it had nothing to read.
    to_ns: Option<u64>,
    /// UTC minus the event clock, from the newest clock sample.
    to_utc_ns: Rc<Cell<Option<i64>>>,
    ended: bool,
    came: Instant,
}

impl Source for Until {
    fn info(&self) -> &NodeInfo {
        self.source.info()
    }

    fn next(&mut self, batch: &mut Batch, timeout: Duration) -> Result<Progress, SourceError> {
        let Some(to_ns) = self.to_ns.filter(|_| !self.ended) else {
            batch.clear();
            return Ok(Progress::End);
        };
        let progress = self.source.next(batch, timeout)?;
        if batch.is_empty() {
            if self.came.elapsed() > PATIENCE {
                return Err("it has sent nothing for 10 s, and not yet all of what it had kept".into());
            }
            return Ok(progress);
        }
        self.came = Instant::now();
        if let Some(sample) = batch.clock.last() {
            self.to_utc_ns.set(Some(sample.realtime_ns.wrapping_sub_unsigned(sample.event_ns())));
        }
        let newest = batch.events.last().map(|event| event.time_ns);
        let sampled = batch.clock.last().map(magscope_core::clock::ClockSample::event_ns);
        let watermark = Some(batch.watermark_ns).filter(|ns| *ns != u64::MAX);
        // The last batch may contain only a clock sample.
        self.ended = [newest, sampled, watermark].into_iter().flatten().any(|ns| ns >= to_ns);
        Ok(progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use magscope_fleet::Holds;

    const S: u64 = 1_000_000_000;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn address() -> Address {
        "unix:/x".parse().expect("an address")
    }

    #[test]
    fn an_agent_is_not_asked_for_what_only_a_capture_can_have() {
        let refused = |options: &[&str]| {
            let line = [&["health", "--connect", "unix:/x"][..], options].concat();
            let line = Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}"));
            refuse_capture_options(&line.args, &[address()]).is_err()
        };
        assert!(!refused(&[]) && !refused(&["--strict"]) && !refused(&["--hops", "default"]));
        for options in [
            ["--hops", "all"],
            ["--detail", "full"],
            ["--clock", "tsc"],
            ["--backend", "kprobe"],
            ["--filter", "port 80"],
            ["--sample", "1/10"],
        ] {
            assert!(refused(&options), "{options:?}");
        }
    }

    fn about(came_packets: u64) -> AboutHost {
        AboutHost {
            stream: "a".to_owned(),
            node: NodeInfo { host: "web-1".to_owned(), ..NodeInfo::default() },
            limit_bytes: 1,
            holds: Holds { came_packets, range_ns: Some((S, 100 * S)), ..Holds::default() },
            ended: false,
        }
    }

    /// A host whose last data were so old at the time of the request.
    fn asked(about: &AboutHost, age_ns: i64) -> AskedHost {
        let host = AskedHost::of(&address(), "web-1", Some(about));
        host.to_utc_ns.set(Some(host.asked_utc_ns.wrapping_sub_unsigned(100 * S) - age_ns));
        host
    }

    #[test]
    fn a_host_of_which_nothing_comes_is_not_judged() {
        let began = Instant::now().checked_sub(ADVANCE).unwrap_or_else(Instant::now);
        let alive = |host: AskedHost, later: AboutHost| {
            let about = |_: &Address| {
                let hosts = vec![later.clone()];
                Ok(About { tool: String::new(), streams: 0, reader_bytes: 0, reader_limit_bytes: 0, hosts })
            };
            check_all_alive(&[host], began, about).map_err(|error| error.to_string())
        };
        let (fresh_ns, old_ns) = (S as i64, 600 * S as i64);
        let silent = Err("nothing has come from web-1 for 600 s".to_owned());
        assert_eq!(alive(asked(&about(7), fresh_ns), about(7)), Ok(()), "of this second");
        assert_eq!(alive(asked(&about(7), old_ns), about(7)), silent);
        assert_eq!(alive(asked(&about(7), old_ns), about(8)), Ok(()), "its clock is wrong");
        assert!(alive(asked(&about(7), -old_ns), about(7)).is_err(), "its clock is wrong, and nothing comes");
        let restarted = AboutHost { stream: "b".to_owned(), ..about(1) };
        assert_eq!(alive(asked(&about(7), old_ns), restarted), Ok(()));
        let gone = AboutHost { node: NodeInfo::default(), ..about(8) };
        assert_eq!(alive(asked(&about(7), old_ns), gone), silent);
        let ended = AboutHost { ended: true, ..about(7) };
        assert!(alive(asked(&ended, fresh_ns), ended.clone()).is_err());
        let unread = AskedHost::of(&address(), "web-1", Some(&about(7)));
        assert!(alive(unread, about(7)).is_err(), "without a clock sample");
    }

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
