//! Start of a capture: privilege check, attachment, drop of privileges.

use crate::cli::{CaptureArgs, Ring, StampClock};
use crate::control::server::Bound;
use crate::failure::Hint;
use crate::namespaces::{self, Namespaces};
use crate::values::budget::Budget;
use crate::{output, privileges};
use anyhow::{Context, Result, bail};
use magscope_core::capture_filter::{Field, Test, Value};
use magscope_core::hop::HopSet;
use magscope_core::node::{Backend, Coverage, Service};
use magscope_core::source::Source;
use magscope_core::{CaptureFilter, Hop};
use magscope_probe::cost::{self, Cost, Measuring};
use magscope_probe::facts::{self, CAP_SYS_ADMIN};
use magscope_probe::filter::names::HostNames;
use magscope_probe::governor::{Governor, Reader, Scale, Weighed};
use magscope_probe::plan::{full_hops, mendable};
use magscope_probe::workload::{self, GiveUp};
use magscope_probe::{Capture, CaptureOptions, HostFacts, ProbeError, default_hops};
use magscope_probe::{RingKind, Setting, Watermark};
use std::collections::BTreeMap;
use std::time::Duration;

/// Enough for a steady median, and fast enough for the start.
const MEASURING_ROUNDS: usize = 5;
/// Attachment at functions dominates the time; a coarser figure suffices on slow machines.
const MEASURING_AT_MOST: Duration = Duration::from_millis(500);

/// Fails early if capabilities are missing, before anything is created or attached. `what` is the subcommand.
pub fn check_privileges(what: &str, enters_namespaces: bool) -> Result<()> {
    let mut needed = vec![privileges::CAPTURE];
    if enters_namespaces {
        needed.push(privileges::NAMESPACES);
    }
    privileges::require(what, &needed)
}

/// Defaults of a capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureDefaults {
    /// Default hops.
    pub hops: HopSet,
    /// Default overhead budget, as share of the machine.
    pub budget: Option<f64>,
    /// Processor time that counts in addition to the probes; see [`Reader`].
    pub reader: Reader,
    /// Draws a window, whose process runs as the calling user.
    pub is_window: bool,
    /// Measures the cost of a hit, for a screen that shows it.
    pub shows_cost: bool,
}

impl CaptureDefaults {
    /// These hops without a budget.
    pub const fn of(hops: HopSet) -> Self {
        CaptureDefaults { hops, budget: None, reader: Reader::Process, is_window: false, shows_cost: false }
    }

    /// For a window.
    #[cfg(feature = "gui")]
    #[must_use]
    pub const fn window(self) -> Self {
        CaptureDefaults { is_window: true, ..self }.on_screen(true)
    }

    /// For a screen, if there is one.
    #[must_use]
    pub const fn on_screen(self, is_screen: bool) -> Self {
        CaptureDefaults { shows_cost: is_screen, ..self }
    }

    /// The names of containers are read without capabilities. The state of an engine belongs to root, so that the user
    /// changes after the first reading, and only for a window.
    fn give_up(self) -> GiveUp {
        GiveUp { capabilities: give_up_capabilities, user: if self.is_window { give_up } else { || Ok(()) } }
    }
}

/// Drops the capabilities of a thread that reads names.
pub fn give_up_capabilities() -> std::io::Result<()> {
    privileges::drop_all().map_err(std::io::Error::other)
}

/// A capture, and what measures its cost.
pub struct Started {
    /// The capture.
    pub capture: Capture,
    /// To be called periodically, if there is a budget.
    pub governor: Option<Governor>,
    /// Cost of a hit, nanoseconds, for a screen; `None` if noise hides it. A governor measures it again and again.
    pub hit_ns: Option<f64>,
}

impl From<Capture> for Started {
    fn from(capture: Capture) -> Self {
        Started { capture, governor: None, hit_ns: None }
    }
}

/// Attaches the probes.
pub fn start(args: &CaptureArgs, namespaces: Namespaces) -> Result<Started> {
    start_with(args, namespaces, CaptureDefaults::of(default_hops()))
}

/// Attaches the probes with these defaults.
pub fn start_with(args: &CaptureArgs, namespaces: Namespaces, defaults: CaptureDefaults) -> Result<Started> {
    let facts = HostFacts::read().map_err(explain)?;
    let every_netns = namespaces.every;
    let governor = governor(&facts, args, defaults, every_netns)?;
    let is_shown = defaults.shows_cost && governor.is_none();
    let measuring = is_shown.then(|| measure(&facts, args, defaults)).flatten();
    // A capture of all namespaces would see the traffic of the measurement.
    let (before, parallel) = if every_netns { (measuring, None) } else { (None, measuring) };
    let before = before.and_then(cost_of);
    let capture = attach(&facts, args, namespaces, defaults)?;
    let cost = before.or_else(|| parallel.and_then(cost_of));
    let hit_ns = cost.map(|cost| cost.hit_ns).filter(|ns| *ns > 0.0);
    Ok(Started { capture, governor, hit_ns })
}

/// Measures the cost of a hit, beside the attachment, because it takes a fraction of a second. `None` if that fails; the
/// screen then shows no figure.
fn measure(facts: &HostFacts, args: &CaptureArgs, defaults: CaptureDefaults) -> Option<Measuring> {
    let what = cost::Measurement {
        hops: args.hops.resolve(defaults.hops),
        backend: args.backend,
        rounds: MEASURING_ROUNDS,
        at_most: MEASURING_AT_MOST,
    };
    Measuring::start(facts, what).ok()
}

/// Waits for a measurement. `None` if it fails.
fn cost_of(measuring: Measuring) -> Option<Cost> {
    measuring.wait().ok()?
}

/// The governor of a capture. It measures the cost of a hit before the attachment.
fn governor(
    facts: &HostFacts,
    args: &CaptureArgs,
    defaults: CaptureDefaults,
    every_netns: bool,
) -> Result<Option<Governor>> {
    let budget = match args.max_overhead {
        Some(Budget::Off) => None,
        Some(Budget::Part(part)) => Some(part),
        None => defaults.budget,
    };
    let Some(budget) = budget else { return Ok(None) };
    let what = Weighed { hops: args.hops.resolve(defaults.hops), backend: args.backend };
    match Scale::start(facts, what, give_up) {
        Ok(scale) => Ok(Some(Governor::new(budget, scale, defaults.reader, every_netns))),
        Err(error) if args.max_overhead.is_some() => {
            let next = "it takes CAP_SYS_ADMIN to make the namespace in which hits are weighed; or leave out `--max-overhead`";
            Err(Hint::error(format!("the overhead cannot be measured: {error}"), "", next))
        }
        Err(error) => {
            output::note(&no_budget(facts, &error));
            Ok(None)
        }
    }
}

/// The note of a capture that goes on without the budget of its defaults.
fn no_budget(facts: &HostFacts, error: &ProbeError) -> String {
    let next = if facts.has(CAP_SYS_ADMIN) {
        "`magnet-scope doctor` says what this host has"
    } else {
        "it takes CAP_SYS_ADMIN to make the namespace in which hits are weighed: grant it (docs/agents.md)"
    };
    format!(
        "no overhead budget, because the overhead cannot be measured: {error}; nothing limits what this capture costs; {next}, \
         or leave out this note by `--max-overhead off`"
    )
}

/// Drops the privileges of a thread that measures, or has read names for a window.
fn give_up() -> std::io::Result<()> {
    #[cfg(feature = "gui")]
    privileges::become_the_caller().map_err(std::io::Error::other)?;
    privileges::drop_all().map_err(std::io::Error::other)
}

fn attach(
    facts: &HostFacts,
    args: &CaptureArgs,
    namespaces: Namespaces,
    defaults: CaptureDefaults,
) -> Result<Capture> {
    let hops = args.hops.resolve(defaults.hops);
    let ring_bytes = u32::try_from(args.ring_size).unwrap_or(1 << 31);
    let watermark = match (args.latency, args.bulk) {
        (true, _) => Watermark::LATENCY,
        (_, true) => Watermark::bulk(ring_bytes),
        _ => Watermark::SCREEN,
    };
    let filter = filter(args);
    let (mut samplers, mut flow_one_in) = (Vec::new(), 1);
    for setting in &args.sample {
        match setting {
            Setting::SampleFlows(one_in) => flow_one_in = *one_in,
            Setting::Sample(hops, sampler) => samplers.extend(hops.iter().map(|hop| (hop, *sampler))),
            _ => {}
        }
    }
    let options = CaptureOptions {
        filter: filter.clone(),
        pcap: args.pcap.clone(),
        snap: args.snap.iter().flat_map(snap).collect(),
        samplers,
        flow_one_in,
        watermark,
        detail: args.detail.unwrap_or_default(),
        sums: magscope_probe::SUMS,
        switchable: full_hops(),
        hops,
        netns: namespaces.targets,
        every_netns: namespaces.every,
        ring_bytes_per_cpu: usize::try_from(args.ring_size).unwrap_or(usize::MAX),
        ring: args.ring.map(RingKind::from).unwrap_or_default(),
        backend: args.backend,
        probes: args.probe.clone(),
        tsc: args.clock == StampClock::Tsc,
        names: Some(defaults.give_up()),
    };
    let capture = Capture::start_on(facts, options).map_err(explain)?;
    if let Some(because) = capture.clock_fallback() {
        output::note(&format!("the TSC cannot be used, because {because}; events carry CLOCK_MONOTONIC"));
    }
    if args.ring == Some(Ring::Mapped) && capture.ring() != RingKind::Mapped {
        output::note("this kernel cannot have mapped rings of this size; the rings are its own");
    }
    let missing = missing(&capture.info().coverage, hops);
    for note in not_served(&missing, args.backend, |hop| mendable(capture.facts(), hop, args.backend)) {
        output::note(&note);
    }
    if let Some(filter) = filter {
        for (field, blind) in filter.blind_spots(capture.hops()) {
            let blind = blind.iter().map(Hop::name).collect::<Vec<_>>().join(", ");
            output::note(&format!(
                "the filter asks for {field}, which these hops cannot know (docs/filters.md): {blind}"
            ));
        }
        for note in not_recorded(filter.asked_hops(), capture.hops(), &capture.info().coverage) {
            output::note(&note);
        }
    }
    Ok(capture)
}

/// Payload bytes per hop.
fn snap(setting: &Setting) -> Vec<(Hop, u32)> {
    let Setting::Snap(hops, bytes) = setting else { return Vec::new() };
    hops.iter().map(|hop| (hop, *bytes)).collect()
}

/// The requested filter combined with the container's.
pub fn filter(args: &CaptureArgs) -> Option<CaptureFilter> {
    let workloads = workloads(args).into_iter();
    let of =
        |(field, name): (Field, &String)| CaptureFilter::of(Test { field, value: Value::Name(name.clone()) });
    workloads.map(of).chain(args.filter.clone()).reduce(CaptureFilter::and)
}

/// The container, pod and unit that are asked for, each with the field that compares it.
fn workloads(args: &CaptureArgs) -> Vec<(Field, &String)> {
    let is_path = args.container.as_ref().is_some_and(|name| name.contains('/'));
    let of_container = if is_path { Field::Cgroup } else { Field::Container };
    let asked = [(of_container, &args.container), (Field::Pod, &args.pod), (Field::Unit, &args.unit)];
    asked.into_iter().filter_map(|(field, name)| Some((field, name.as_ref()?))).collect()
}

/// The namespaces to capture: those of `--netns`, else the current one and those of the container, pod or unit that is asked
/// for.
pub fn namespaces(args: &CaptureArgs, netns: &[String]) -> Result<Namespaces> {
    let mut found = namespaces::find(netns)?;
    if !netns.is_empty() {
        return Ok(found);
    }
    let asked = workloads(args);
    let root = HostFacts::read().ok().and_then(|facts| facts.cgroup2).filter(|_| !asked.is_empty());
    let Some(root) = root else { return Ok(found) };
    let read = workload::read(Some(&root), give_up_capabilities).map(|(read, _)| read).unwrap_or_default();
    let names = HostNames::read(&[], Some(root.clone())).with(&workload::containers(&read));
    for (field, name) in asked {
        // What is not found is refused with the filter.
        for path in names.paths(field, name).unwrap_or_default() {
            for target in workload::netns_of_cgroup(&root, &path.to_string_lossy()) {
                if !found.targets.iter().any(|one| one.inode == target.inode) {
                    found.targets.push(target);
                }
            }
        }
    }
    Ok(found)
}

/// Creates the control socket. The capture also works without one.
pub fn bind() -> Option<Bound> {
    match Bound::new() {
        Ok(bound) => Some(bound),
        Err(error) => {
            output::note(&format!(
                "no control socket (`magnet-scope ctl` will not find this capture): {error}"
            ));
            None
        }
    }
}

/// Drops every capability. Later attachments are impossible and unnecessary.
pub fn drop_privileges() -> Result<()> {
    privileges::drop_all()?;
    let holding = privileges::threads_with_capabilities();
    if !holding.is_empty() {
        bail!("capabilities are still held by the threads {}", holding.join(", "));
    }
    Ok(())
}

/// The requested hops that nothing serves.
fn missing(coverage: &Coverage, asked: HopSet) -> Vec<Hop> {
    let asked = coverage.hops.iter().filter(|row| asked.contains(row.hop));
    asked.filter(|row| matches!(row.service, Service::Missing { .. })).map(|row| row.hop).collect()
}

/// The notes about hops that nothing serves: one for each cause that the user can remove (`mendable`), because such
/// a hop is not missing on this kernel, and one for the other hops.
fn not_served(
    missing: &[Hop],
    backend: Option<Backend>,
    mendable: impl Fn(Hop) -> Option<String>,
) -> Vec<String> {
    let (mut causes, mut others) = (BTreeMap::<String, Vec<&str>>::new(), Vec::new());
    for hop in missing {
        match mendable(*hop) {
            Some(cause) => causes.entry(cause).or_default().push(hop.name()),
            None => others.push(hop.name()),
        }
    }
    let of_cause = |(cause, hops): (String, Vec<&str>)| {
        let hops = hops.join(", ");
        format!("not served here: {hops}, because {cause}")
    };
    let mut notes: Vec<String> = causes.into_iter().map(of_cause).collect();
    if !others.is_empty() {
        let by = backend.map_or_else(|| "on this kernel".to_owned(), |backend| format!("by {backend} here"));
        notes.push(format!("not served {by}: {} (`magnet-scope doctor` says why)", others.join(", ")));
    }
    notes
}

/// The notes about hops that the filter asks for and that record nothing: those that are not on, or not served.
fn not_recorded(asked: HopSet, on: HopSet, coverage: &Coverage) -> Vec<String> {
    let is_missing = |hop: &Hop| matches!(coverage.of(*hop), Some(Service::Missing { .. }));
    let idle = asked.iter().filter(|hop| !on.contains(*hop));
    let (missing, off): (Vec<Hop>, Vec<Hop>) = idle.partition(is_missing);
    let names = |hops: &[Hop], between: &str| {
        let names: Vec<&str> = hops.iter().map(|hop| hop.name()).collect();
        names.join(between)
    };
    let mut notes = Vec::new();
    if !off.is_empty() {
        notes.push(format!(
            "the filter asks for hops that are off: {} (`--hops +{}` records them)",
            names(&off, ", "),
            names(&off, ",+")
        ));
    }
    if !missing.is_empty() {
        notes.push(format!(
            "the filter asks for hops that are not served here: {} (`magnet-scope doctor` says why)",
            names(&missing, ", ")
        ));
    }
    notes
}

/// What lifts the limit of locked memory.
pub const LIFT_LOCKED_MEMORY: &str = "start as root, which lifts it, or with `ulimit -l unlimited`; `LimitMEMLOCK=infinity` in a unit, \
     `--ulimit memlock=-1` for a container";

/// The error with its likely cause and what to do next.
pub fn explain(error: ProbeError) -> anyhow::Error {
    explain_by(error, facts::locked_memory())
}

/// The same where `locked_memory` bytes may be locked; `None` for any number.
fn explain_by(error: ProbeError, locked_memory: Option<u64>) -> anyhow::Error {
    let limit = locked_memory.filter(|_| error.is_refused_memory()).map(|bytes| {
        let counts = "before Linux 5.11 the kernel counts maps and programs as locked memory";
        format!("{counts}, and the limit (RLIMIT_MEMLOCK) is {} KiB", bytes >> 10)
    });
    let (cause, next) = likely(&error);
    let (cause, next) = limit.map_or_else(|| (cause.to_owned(), next), |limit| (limit, LIFT_LOCKED_MEMORY));
    Err::<(), _>(error).context(Hint::new("cannot start the capture", cause, next)).unwrap_err()
}

/// The likely cause and the next step; either may be empty.
fn likely(error: &ProbeError) -> (&'static str, &'static str) {
    match error {
        ProbeError::NoBtf { .. } => {
            ("", "`magnet-scope replay` and `report` work on recordings made elsewhere")
        }
        ProbeError::BadBtf { .. } => (
            "another file is mounted there, or the kernel's image is damaged",
            "`findmnt -R /sys/kernel/btf` shows mounts; a reboot, or another kernel; recordings can be read",
        ),
        ProbeError::Lockdown { .. } => (
            "it was booted with `lockdown=confidentiality`, or Secure Boot asks for that",
            "boot with `lockdown=integrity` or `lockdown=none`; recordings made elsewhere can be read",
        ),
        ProbeError::NothingToServe { .. } => (
            "the kernel was built without it, or a security policy forbids it",
            "`magnet-scope doctor` says what this host has; ask for other hops with `--hops`",
        ),
        ProbeError::Map { operation: "create", .. } => (
            "the rings do not fit into memory, or into this cgroup's limit",
            "make them smaller: `--ring-size 1M`",
        ),
        ProbeError::Load { .. } | ProbeError::Attach { .. } => (
            "the kernel was built without something, or a security policy forbids it",
            "`magnet-scope doctor` says what this kernel has; leave the hop out with `--hops -NAME`",
        ),
        ProbeError::Custom { .. } => {
            ("", "`magnet-scope hops --probe PLACE` says what there is to read; docs/probes.md has examples")
        }
        ProbeError::Filter(_) => ("", "docs/filters.md has every word, `magnet-scope hops` every hop"),
        _ => ("", "`magnet-scope doctor` says what this host has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::parts;

    fn no_ring(cause: &str) -> ProbeError {
        ProbeError::Map { operation: "create", map: "rings", cause: cause.to_owned() }
    }

    #[test]
    fn a_refusal_names_the_limit_of_locked_memory_where_there_is_one() {
        let refusal = || no_ring("Operation not permitted (os error 1)");
        let (_, why, next) = parts(&explain_by(refusal(), Some(64 << 10)));
        assert!(why.contains("RLIMIT_MEMLOCK) is 64 KiB"), "{why}");
        assert!(next.contains("ulimit -l unlimited"), "{next}");
        // No limit, and another error.
        for error in
            [explain_by(refusal(), None), explain_by(no_ring("Bad address (os error 14)"), Some(64 << 10))]
        {
            let (_, why, next) = parts(&error);
            assert!(!why.contains("RLIMIT_MEMLOCK") && next.contains("--ring-size"), "{why}: {next}");
        }
    }

    #[test]
    fn a_hop_that_lacks_a_mount_is_not_missing_on_this_kernel() {
        let mendable =
            |hop: Hop| (hop == Hop::UdpRecv).then(|| "no cgroup v2 hierarchy is mounted here".to_owned());
        let notes = not_served(&[Hop::TcpXmit, Hop::UdpRecv], None, mendable);
        assert_eq!(
            notes,
            [
                "not served here: udp.recv, because no cgroup v2 hierarchy is mounted here",
                "not served on this kernel: tcp.xmit (`magnet-scope doctor` says why)"
            ]
        );
        let notes = not_served(&[Hop::TcpXmit], Some(Backend::Netfilter), mendable);
        assert_eq!(notes, ["not served by netfilter here: tcp.xmit (`magnet-scope doctor` says why)"]);
        assert!(not_served(&[], None, mendable).is_empty());
    }

    #[test]
    fn a_hop_that_a_filter_asks_for_and_that_records_nothing_has_a_note() {
        let mut coverage = Coverage::full(Backend::Tracepoint);
        for row in coverage.hops.iter_mut().filter(|row| row.hop == Hop::UdpSend) {
            row.service = Service::Missing { because: "a test".to_owned() };
        }
        let on: HopSet = [Hop::DevXmit].into_iter().collect();
        let notes = |text: &str| {
            let filter = CaptureFilter::parse(text).expect(text);
            not_recorded(filter.asked_hops(), on, &coverage)
        };
        assert!(notes("hop = dev.xmit and port 80").is_empty());
        assert!(notes("not hop = ip.pre and hop != udp.send").is_empty());
        assert_eq!(
            notes("hop = ip.pre or hop = dev.xmit or hop = ip.in"),
            ["the filter asks for hops that are off: ip.pre, ip.in (`--hops +ip.pre,+ip.in` records them)"]
        );
        assert_eq!(
            notes("hop = udp.send"),
            ["the filter asks for hops that are not served here: udp.send (`magnet-scope doctor` says why)"]
        );
    }

    #[test]
    fn a_capture_without_its_budget_names_what_it_lacks_and_what_follows() {
        let error = no_ring("Operation not permitted (os error 1)");
        let note = no_budget(&HostFacts::default(), &error);
        for words in ["CAP_SYS_ADMIN", "nothing limits what this capture costs", "--max-overhead off", "rings"]
        {
            assert!(note.contains(words), "{note}");
        }
        let may = HostFacts { capabilities: 1 << CAP_SYS_ADMIN, ..HostFacts::default() };
        let note = no_budget(&may, &error);
        assert!(note.contains("magnet-scope doctor") && !note.contains("CAP_SYS_ADMIN"), "{note}");
    }
}
