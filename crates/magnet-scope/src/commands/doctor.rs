//! `magnet-scope doctor`: capabilities and limits of captures on this host, with reasons and consequences.

use super::hops::{self, Row};
use crate::wrap::wrap;
use crate::{capture, output, reporting};
use anyhow::Result;
use magscope_core::hop::Layer;
use magscope_core::node::{Ability, Service};
use magscope_probe::facts::{self, Mechanism};
use magscope_probe::plan::is_per_packet;
use magscope_probe::{CaptureOptions, HostFacts, workload};
use serde::Serialize;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Examination {
    checks: Vec<Check>,
    hops: Vec<Row>,
    cannot_be_concluded: Vec<Gap>,
    abilities: Vec<AbilityRow>,
    /// True if programs could not be loaded for lack of capabilities.
    untried: bool,
}

#[derive(Debug, Serialize)]
struct Check {
    what: &'static str,
    good: bool,
    found: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    advice: String,
}

#[derive(Debug, Serialize)]
struct AbilityRow {
    ability: Ability,
    /// `loads`, `not-tried` or `missing`.
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    because: String,
}

fn abilities(facts: &HostFacts) -> Vec<AbilityRow> {
    let row = |ability: &Ability| {
        let because = facts.left_out.get(ability).cloned();
        let status = match because {
            Some(_) => "missing",
            None if facts.check().is_err() => "not-tried",
            None => "loads",
        };
        AbilityRow { ability: *ability, status, because: because.unwrap_or_default() }
    };
    Ability::ALL.iter().map(row).collect()
}

#[derive(Debug, Serialize)]
struct Gap {
    hop: String,
    because: String,
    conclusion: &'static str,
}

/// Prints the findings. A finding is no failure: the exit code is 0 if the output succeeds.
pub fn run(args: &Args) -> Result<()> {
    let facts = hops::tried()?;
    let hops = hops::rows(&facts);
    let gaps = hops.iter().filter_map(|row| match &row.service {
        Service::Missing { because } => {
            Some(Gap { hop: row.hop.to_string(), because: because.clone(), conclusion: row.hop.spec().without })
        }
        _ => None,
    });
    let cannot_be_concluded = gaps.collect();
    let untried = hops::is_untried(&facts);
    let checks = checks(&facts, &hops);
    let found = Examination { checks, hops, cannot_be_concluded, abilities: abilities(&facts), untried };
    if args.json { output::json(&found) } else { output::text(&text(&found, reporting::width())) }
}

/// Room for the maps other than rings, and for programs, bytes.
const OTHER_MAPS_BYTES: u64 = 64 << 20;

/// Indentation of the text of a check.
const INDENT: &str = "                  ";

fn text(found: &Examination, width: usize) -> String {
    let mut text = String::new();
    for check in &found.checks {
        let mark = if check.good { "ok" } else { "!!" };
        wrap(&mut text, &format!("{mark} {:<14} {}", check.what, check.found), width, INDENT);
        if !check.advice.is_empty() {
            wrap(&mut text, &format!("{INDENT}{}", check.advice), width, INDENT);
        }
    }
    // Writing into a String cannot fail.
    let _ = writeln!(text, "\n{}", hops::table(&found.hops, width));
    for row in &found.abilities {
        let status = row.status.replace('-', " ");
        let because = if row.because.is_empty() { String::new() } else { format!(", because {}", row.because) };
        let lacks =
            if row.because.is_empty() { String::new() } else { format!(": {}", row.ability.consequence()) };
        wrap(&mut text, &format!("  {:<15}{status}{lacks}{because}", row.ability), width, INDENT);
    }
    text.push('\n');
    if found.untried {
        text.push_str(&hops::untried(width));
        text.push('\n');
    }
    if found.cannot_be_concluded.is_empty() {
        text.push_str(if found.untried {
            "No hop is known to be missing.\n"
        } else {
            "Every hop is served.\n"
        });
    } else {
        text.push_str("What can therefore not be concluded:\n");
    }
    for gap in &found.cannot_be_concluded {
        // The longest name of a hop has 17 characters.
        let indent = format!("{INDENT}  ");
        wrap(&mut text, &format!("  {:<18}{}", gap.hop, gap.conclusion), width, &indent);
        wrap(&mut text, &format!("{indent}because: {}", gap.because), width, &indent);
    }
    text
}

fn checks(facts: &HostFacts, rows: &[Row]) -> Vec<Check> {
    let mut checks = vec![
        programs(facts, rows),
        kernel(facts, rows),
        btf(facts),
        capabilities(facts),
        lockdown(facts),
        functions(facts),
        cgroup(facts),
        containers(facts),
        clock(facts),
        memory(facts),
        others(),
    ];
    checks.extend(tracefs(facts));
    checks.extend(locked_memory(facts, facts::locked_memory()));
    checks
}

fn check(what: &'static str, good: bool, found: impl Into<String>, advice: &str) -> Check {
    Check { what, good, found: found.into(), advice: if good { String::new() } else { advice.to_owned() } }
}

/// True if a capture can start, judged by loaded programs rather than kernel features.
fn programs(facts: &HostFacts, rows: &[Row]) -> Check {
    let served: Vec<&Row> = rows.iter().filter(|row| matches!(row.service, Service::Served { .. })).collect();
    let packets = served.iter().any(|row| is_per_packet(row.hop));
    if hops::is_untried(facts) {
        let found = "not tried: the programs were not loaded, for want of capabilities";
        return check("capture", false, found, "`sudo magnet-scope doctor` tries them");
    }
    if let Err(error) = facts.check() {
        return check("capture", false, format!("cannot start: {error}"), "");
    }
    let refused: Vec<String> =
        facts.unloadable.iter().map(|(program, because)| format!("{program} ({because})")).collect();
    let refused = if refused.is_empty() {
        String::new()
    } else {
        format!("; programs that do not load: {}", refused.join(", "))
    };
    let of_abilities = Ability::ALL.len();
    let found = format!(
        "{}: programs of {} of {} hops and {} of {of_abilities} abilities load{refused}",
        if packets { "starts" } else { "cannot start" },
        served.len(),
        rows.len(),
        of_abilities - facts.left_out.len(),
    );
    let because = rows.iter().find_map(|row| match &row.service {
        Service::Missing { because } => Some(because.as_str()),
        _ => None,
    });
    check("capture", packets, found, &format!("no packet hop is served: {}", because.unwrap_or_default()))
}

fn kernel(facts: &HostFacts, rows: &[Row]) -> Check {
    let lacks_ip =
        rows.iter().any(|row| row.hop.layer() == Layer::Ip && matches!(row.service, Service::Missing { .. }));
    let found = format!("{}, {} CPUs, host {}", facts.kernel, facts.cpus, facts.host);
    let advice = "before Linux 6.4 there are no netfilter links: IP hops need fentry";
    check("kernel", facts.version >= (6, 4) || !lacks_ip, found, advice)
}

fn btf(facts: &HostFacts) -> Check {
    let (found, advice) = match (&facts.btf_damage, facts.btf) {
        (Some(because), _) => (
            format!("cannot be read: {because}"),
            "captures need it: is another file mounted there (`findmnt -R /sys/kernel/btf`)? Recordings can be read",
        ),
        (None, true) => ("present".to_owned(), ""),
        (None, false) => (
            "missing".to_owned(),
            "captures need it: a kernel with CONFIG_DEBUG_INFO_BTF=y; recordings can be read",
        ),
    };
    check("BTF", facts.btf && facts.btf_damage.is_none(), found, advice)
}

fn capabilities(facts: &HostFacts) -> Check {
    let missing = facts.missing_capabilities();
    let is_inside = !facts::in_first_user_namespace();
    let found = if missing.is_empty() {
        "enough to capture (all of them are given away after attaching)".to_owned()
    } else {
        let whose = if is_inside { " (those of this user namespace do not count)" } else { "" };
        format!("missing: {}{whose}", missing.join(", "))
    };
    let advice = if is_inside {
        "run it on the host itself, not in a rootless container"
    } else {
        "sudo magnet-scope …, or: sudo setcap cap_bpf,cap_perfmon,cap_net_admin+ep $(command -v magnet-scope)"
    };
    check("capabilities", missing.is_empty(), found, advice)
}

fn lockdown(facts: &HostFacts) -> Check {
    let has_securityfs = Path::new("/sys/kernel/security/lsm").exists();
    let unread = if has_securityfs { "not in this kernel" } else { "unknown: securityfs is not mounted" };
    let mode = facts.lockdown.as_deref().unwrap_or(unread);
    check(
        "lockdown",
        mode != "confidentiality",
        mode,
        "it forbids probes to read kernel memory: boot with integrity or none",
    )
}

fn functions(facts: &HostFacts) -> Check {
    let mechanisms =
        [("fentry", &facts.fentry), ("kprobe", &facts.kprobe), ("kprobe.multi", &facts.kprobe_multi)];
    let words: Vec<String> = mechanisms
        .into_iter()
        .map(|(name, mechanism)| match mechanism {
            Mechanism::Works if hops::is_untried(facts) => format!("{name} there, not tried"),
            Mechanism::Works => format!("{name} yes"),
            Mechanism::Absent => format!("{name} no"),
            Mechanism::Refused(cause) => format!("{name} refused ({cause})"),
        })
        .collect();
    let some = mechanisms.iter().any(|(_, mechanism)| **mechanism == Mechanism::Works);
    let rest = if some { "" } else { "; tracepoints, netfilter and cgroup hooks are used" };
    check("functions", true, format!("{}{rest}", words.join(", ")), "")
}

fn cgroup(facts: &HostFacts) -> Check {
    let (missing, advice) = if facts.cgroups {
        (
            "not mounted",
            "names of containers need it, and udp.recv where no function can be probed: mount -t cgroup2 none /sys/fs/cgroup; \
             with `ip netns exec`, use `nsenter --net=/run/netns/NAME`",
        )
    } else {
        (
            "not in this kernel",
            "names of containers need it, and udp.recv where no function can be probed: a kernel with CONFIG_CGROUPS=y",
        )
    };
    let found = facts.cgroup2.as_ref().map_or_else(|| missing.to_owned(), |path| path.display().to_string());
    check("cgroup v2", facts.cgroup2.is_some(), found, advice)
}

/// A warning where tracefs can be mounted; without it the tracepoints of system calls and custom probes are missing.
fn tracefs(facts: &HostFacts) -> Option<Check> {
    let advice = "custom probes at tracepoints need it, and udp.send where no function can be probed: \
                  mount -t tracefs none /sys/kernel/tracing; with `ip netns exec`, use `nsenter --net=/run/netns/NAME`";
    facts.tracefs_mountable.then(|| check("tracefs", false, "not mounted", advice))
}

/// The engines whose containers have names. The state is read as a capture does: without capabilities.
fn containers(facts: &HostFacts) -> Check {
    const WHAT: &str = "containers";
    let Some((found, states)) = workload::read(facts.cgroup2.as_deref(), capture::give_up_capabilities) else {
        return check(WHAT, false, "the state of engines was not read in time", "captures go on without names");
    };
    let running = workload::containers(&found);
    let named = running.iter().filter(|container| !container.name.is_empty()).count();
    let mut places: Vec<String> = states
        .iter()
        .map(|state| {
            let (engine, place) = (state.engine, state.place.display());
            match &state.found {
                Ok(number) => format!("{engine} has {number} at {place}"),
                Err(because) => format!("{engine} refuses {place} ({because})"),
            }
        })
        .collect();
    if places.is_empty() {
        places.push("no engine has a state here".to_owned());
    }
    let refused = states.iter().any(|state| state.found.is_err());
    let advice = engine_advice(rustix::process::geteuid().is_root());
    let found = format!("{named} of {} that run have a name; {}", running.len(), places.join(", "));
    check(WHAT, !refused, found, advice)
}

/// What follows from an engine whose state may not be read, and what helps. Root reads it without capabilities.
const fn engine_advice(is_root: bool) -> &'static str {
    if is_root {
        "containers of that engine have an id in place of a name: its state belongs to another user, as that of a \
         rootless engine, or a security module forbids to read it"
    } else {
        "containers of that engine have an id in place of a name: start magnet-scope as root"
    }
}

fn clock(facts: &HostFacts) -> Check {
    let slow = matches!(facts.clocksource.as_str(), "hpet" | "acpi_pm" | "jiffies");
    let advice = "reading it takes a microsecond and more: every event costs that much";
    check("clock source", !slow, facts.clocksource.clone(), advice)
}

/// Bytes of one ring, and of those of all CPUs.
fn ring_bytes(facts: &HostFacts) -> (u64, u64) {
    let ring = CaptureOptions::default().ring_bytes_per_cpu as u64;
    (ring, ring * u64::from(facts.cpus))
}

/// Where the kernel counts maps and programs as locked memory and limits it: whether a capture fits in `limit` bytes.
fn locked_memory(facts: &HostFacts, limit: Option<u64>) -> Option<Check> {
    let (limit, needed) = (limit?, ring_bytes(facts).1 + OTHER_MAPS_BYTES);
    let found = format!(
        "at most {} KiB (RLIMIT_MEMLOCK), and before Linux 5.11 rings and programs take some {} MiB of that",
        limit >> 10,
        needed >> 20
    );
    Some(check("locked memory", limit >= needed, found, capture::LIFT_LOCKED_MEMORY))
}

fn memory(facts: &HostFacts) -> Check {
    let ((ring, rings), available) = (ring_bytes(facts), available_bytes());
    let mib = |bytes: u64| bytes >> 20;
    let found =
        format!("rings take {} MiB ({} MiB a CPU) of {} MiB available", mib(rings), mib(ring), mib(available));
    check(
        "memory",
        rings < available / 4,
        found,
        "make the rings smaller: `--ring-size 1M`; losses are counted",
    )
}

fn available_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Other captures slow the same traffic again. The demo's hosts have separate names and are not listed.
fn others() -> Check {
    let own = std::process::id();
    let running: Vec<_> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_string_lossy().parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "magnet-scope")
        })
        .map(|pid| pid.to_string())
        .collect();
    let found = if running.is_empty() { "none".to_owned() } else { format!("running: {}", running.join(", ")) };
    check("other captures", running.is_empty(), found, "each one costs the traffic its own hits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_limit_of_locked_memory_is_a_warning_where_there_is_one() {
        let facts = HostFacts { cpus: 2, ..HostFacts::default() };
        let small = locked_memory(&facts, Some(64 << 10)).expect("a limit");
        assert!(!small.good && small.found.contains("64 KiB") && small.advice.contains("ulimit -l unlimited"));
        let large = locked_memory(&facts, Some(1 << 30)).expect("a limit");
        assert!(large.good && large.advice.is_empty());
        assert!(locked_memory(&facts, None).is_none());
    }

    #[test]
    fn root_is_not_advised_to_become_root() {
        let (root, user) = (engine_advice(true), engine_advice(false));
        assert!(!root.contains("as root") && root.contains("another user"), "{root}");
        assert!(user.ends_with("start magnet-scope as root"), "{user}");
    }

    #[test]
    fn a_tracefs_that_can_be_mounted_is_a_warning_with_the_command() {
        let facts = HostFacts { tracefs_mountable: true, ..HostFacts::default() };
        let found = tracefs(&facts).expect("a warning");
        assert!(!found.good && found.advice.contains("mount -t tracefs") && found.advice.contains("nsenter"));
        assert!(tracefs(&HostFacts::default()).is_none());
    }
}
