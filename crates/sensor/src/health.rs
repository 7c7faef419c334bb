//! Is the network of this host well? What a scheduler asks before it gives a job to a node.
//!
//! Each check has a value, a threshold, and a state: what was not measured is *unknown* and says why; it is never *ok*.

use crate::histogram::Times;
use crate::sensed::{DropCount, HostSensed, Tally};
use magscope_core::Hop;
use serde::Serialize;

/// What is still well.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// Of the bytes that TCP sent, the share sent again.
    pub retransmit: f64,
    /// Packets dropped a second.
    pub drops_per_s: f64,
    /// Share of its time that the busiest CPU spends in softirqs.
    pub softirq: f64,
    /// Wake-up of a reader: half of them take at most so long, seconds.
    pub wakeup_p50_s: f64,
    /// Ninety-nine in a hundred.
    pub wakeup_p99_s: f64,
    /// In the device's queue: half of the packets are there at most so long, seconds.
    pub queue_p50_s: f64,
    /// Ninety-nine in a hundred.
    pub queue_p99_s: f64,
    /// Of the records of this capture, the share that is missing.
    pub lost: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            retransmit: 0.01,
            drops_per_s: 10.0,
            softirq: 0.8,
            wakeup_p50_s: 0.001,
            wakeup_p99_s: 0.005,
            queue_p50_s: 0.001,
            queue_p99_s: 0.01,
            lost: 0.01,
        }
    }
}

/// What a check came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// At or below its threshold.
    Ok,
    /// Above it.
    NotOk,
    /// It was not measured.
    Unknown,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// What it is counted in: `ratio`, `seconds`, `per_second`.
    pub unit: &'static str,
    /// What was measured.
    pub value: Option<f64>,
    /// The largest value that is still well.
    pub threshold: f64,
    /// What that comes to.
    pub state: State,
    /// How many it is about: bytes, packets, journeys, records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// Why it is not known, or what a person would ask next.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub because: String,
}

/// One host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Health {
    /// Which.
    pub host: String,
    /// Whether no check is above its threshold.
    pub healthy: bool,
    /// How many checks could not be made.
    pub unknown: usize,
    /// How long the time is that this is about, seconds.
    pub over_s: f64,
    /// What the capture leaves out, in the words of the command line: the checks are about the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Every one of them.
    pub checks: Vec<Check>,
}

/// How busy the busiest CPU was with softirqs.
#[derive(Clone, Debug, PartialEq)]
pub struct Softirq {
    /// Share of its time.
    pub share: f64,
    /// Which.
    pub cpu: u32,
    /// Over how long, seconds.
    pub over_s: f64,
}

/// Looks at the last minute of a host. `softirq` is why it is not known, where it is not.
pub fn of(host: &HostSensed, thresholds: &Thresholds, softirq: &Result<Softirq, String>) -> Health {
    let over_s = host.window_ns as f64 / 1e9;
    let (wakeup, queue) = (&host.window.wakeup, queue_of(host));
    let woken = [Hop::SockReady, Hop::TaskWake, Hop::TaskRun];
    let queued = [Hop::DevQueue, Hop::DevXmit];
    let checks = vec![
        retransmit(host, thresholds.retransmit),
        drops(host, thresholds.drops_per_s),
        softirq_check(softirq, thresholds.softirq),
        times("wakeup_delay_p50", host, &woken, wakeup, wakeup.p50_ns, thresholds.wakeup_p50_s),
        times("wakeup_delay_p99", host, &woken, wakeup, wakeup.p99_ns, thresholds.wakeup_p99_s),
        times("queue_delay_p50", host, &queued, queue, queue.p50_ns, thresholds.queue_p50_s),
        times("queue_delay_p99", host, &queued, queue, queue.p99_ns, thresholds.queue_p99_s),
        lost(host, thresholds.lost),
    ];
    Health {
        host: host.host.clone(),
        healthy: checks.iter().all(|check| check.state != State::NotOk),
        unknown: checks.iter().filter(|check| check.state == State::Unknown).count(),
        over_s,
        settings: host.settings.clone(),
        checks,
    }
}

/// Times in the queue: of journeys, or where there are none as the kernel measured them.
fn queue_of(host: &HostSensed) -> &Times {
    let mut pairs = host.window.kernel.latencies.iter();
    let measured = pairs.find(|pair| (pair.from, pair.to) == (Hop::DevQueue, Hop::DevXmit));
    measured.filter(|_| host.window.queue.n == 0).map_or(&host.window.queue, |pair| &pair.times)
}

fn known(name: &'static str, unit: &'static str, value: f64, threshold: f64, of: Option<u64>) -> Check {
    // A threshold that is no number is passed by nothing.
    let state = if value <= threshold { State::Ok } else { State::NotOk };
    Check { name, unit, value: Some(value), threshold, state, of, because: String::new() }
}

fn unknown(name: &'static str, unit: &'static str, threshold: f64, because: impl Into<String>) -> Check {
    Check { name, unit, value: None, threshold, state: State::Unknown, of: None, because: because.into() }
}

/// Why a host's capture cannot tell, if it cannot.
fn blind(host: &HostSensed, hops: &[Hop]) -> Option<String> {
    if host.window_ns == 0 {
        return Some("nothing has been captured yet".to_owned());
    }
    hops.iter().find_map(|hop| host.unserved(*hop).map(|because| format!("{hop} is not captured: {because}")))
}

/// Events or bytes of a hop, with what a sampler left out of them.
fn meant(host: &HostSensed, hop: Hop, came: u64) -> f64 {
    came as f64 * host.state(hop).map_or(1.0, |state| state.weight)
}

fn retransmit(host: &HostSensed, threshold: f64) -> Check {
    let (name, unit) = ("retransmit_ratio", "ratio");
    if let Some(because) = blind(host, &[Hop::TcpSend, Hop::TcpRetransmit]) {
        return unknown(name, unit, threshold, because);
    }
    let bytes = |hop| host.window.hop(hop).bytes;
    let (sent, again) = (bytes(Hop::TcpSend), bytes(Hop::TcpRetransmit));
    let (all, again) = (
        meant(host, Hop::TcpSend, sent) + meant(host, Hop::TcpRetransmit, again),
        meant(host, Hop::TcpRetransmit, again),
    );
    if all <= 0.0 {
        let added_up = host.window.kernel.hops.iter().any(|hop| hop.hop == Hop::TcpSend);
        let because =
            if added_up { "the kernel adds up, and not this" } else { "TCP sent nothing in this time" };
        return unknown(name, unit, threshold, because);
    }
    known(name, unit, again / all, threshold, Some(all.round() as u64))
}

fn drops(host: &HostSensed, threshold: f64) -> Check {
    let (name, unit) = ("drops_per_second", "per_second");
    if let Some(because) = blind(host, &[Hop::SkbDrop]) {
        return unknown(name, unit, threshold, because);
    }
    // of what the kernel added up no sampler knows
    let sum = |drops: &[DropCount]| drops.iter().fold(0_u64, |all, drop| all.saturating_add(drop.n));
    let (dropped, added_up) = (sum(&host.window.drops), sum(&host.window.kernel.drops));
    let a_second = (meant(host, Hop::SkbDrop, dropped) + added_up as f64) * 1e9 / host.window_ns as f64;
    let mut check = known(name, unit, a_second, threshold, Some(dropped.saturating_add(added_up)));
    check.because = reasons(&host.window);
    check
}

/// The most frequent reasons for drops.
fn reasons(tally: &Tally) -> String {
    let mut drops: Vec<_> = tally.drops.iter().chain(&tally.kernel.drops).collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.n));
    let told: Vec<_> = drops.iter().take(5).map(|drop| format!("{} {}", drop.n, drop.reason)).collect();
    told.join(", ")
}

fn softirq_check(softirq: &Result<Softirq, String>, threshold: f64) -> Check {
    let (name, unit) = ("softirq_share", "ratio");
    match softirq {
        Err(because) => unknown(name, unit, threshold, because),
        Ok(softirq) => {
            let mut check = known(name, unit, softirq.share, threshold, None);
            check.because = format!("CPU {}, over {:.1} s", softirq.cpu, softirq.over_s);
            check
        }
    }
}

fn times(name: &'static str, host: &HostSensed, hops: &[Hop], times: &Times, ns: u64, threshold: f64) -> Check {
    if let Some(because) = blind(host, hops) {
        return unknown(name, "seconds", threshold, because);
    }
    if times.n == 0 {
        return unknown(name, "seconds", threshold, "nothing passed there in this time");
    }
    known(name, "seconds", ns as f64 / 1e9, threshold, Some(times.n))
}

fn lost(host: &HostSensed, threshold: f64) -> Check {
    let (name, unit) = ("lost_ratio", "ratio");
    if let Some(because) = blind(host, &[]) {
        return unknown(name, unit, threshold, because);
    }
    let lost = host.window.lost();
    let all = host.window.hops.iter().fold(lost, |all, hop| all.saturating_add(hop.events));
    let share = if all == 0 { 0.0 } else { lost as f64 / all as f64 };
    let mut check = known(name, unit, share, threshold, Some(all));
    if lost > 0 {
        let causes = host.window.losses.iter().filter(|cause| cause.records > 0);
        let told: Vec<_> = causes.map(|cause| format!("{} {}", cause.records, cause.cause)).collect();
        check.because = format!("{}: the other checks are about what came", told.join(", "));
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::sensed::{CauseCount, DropCount, HopState, HopTally, KernelHop, PairTimes};

    fn host() -> HostSensed {
        let state = |hop: &Hop| HopState { hop: *hop, unserved: None, weight: 1.0, left_out: None };
        HostSensed {
            host: "node".to_owned(),
            window_ns: 50_000_000_000,
            hops: Hop::ALL.iter().map(state).collect(),
            ..HostSensed::default()
        }
    }

    fn softirq(share: f64) -> Softirq {
        Softirq { share, cpu: 3, over_s: 1.0 }
    }

    fn check(host: &HostSensed, name: &str) -> Check {
        let health = of(host, &Thresholds::default(), &Ok(softirq(0.1)));
        health.checks.into_iter().find(|check| check.name == name).expect(name)
    }

    fn hop(hop: Hop, events: u64, bytes: u64) -> HopTally {
        HopTally { hop, events, bytes }
    }

    fn times(ms: &[u64]) -> Times {
        let mut histogram = Histogram::default();
        for ms in ms {
            histogram.record(ms * 1_000_000);
        }
        histogram.times()
    }

    #[test]
    fn a_quiet_host_is_healthy_and_says_what_it_does_not_know() {
        let health = of(&host(), &Thresholds::default(), &Ok(softirq(0.1)));
        assert!(health.healthy);
        let unknown =
            health.checks.iter().filter(|check| check.state == State::Unknown).map(|check| check.name);
        let names =
            ["retransmit_ratio", "wakeup_delay_p50", "wakeup_delay_p99", "queue_delay_p50", "queue_delay_p99"];
        assert_eq!(unknown.collect::<Vec<_>>(), names);
        assert!(
            health
                .checks
                .iter()
                .filter(|check| check.state == State::Unknown)
                .all(|check| !check.because.is_empty())
        );
        let nothing = of(&HostSensed::default(), &Thresholds::default(), &Err("not asked".to_owned()));
        assert_eq!(nothing.unknown, nothing.checks.len(), "nothing that was not measured is ok: {nothing:?}");
    }

    #[test]
    fn each_threshold_is_held_and_only_that_one() {
        let mut all = host();
        all.window.hops = vec![hop(Hop::TcpSend, 100, 99_000), hop(Hop::TcpRetransmit, 2, 1_000)];
        assert_eq!(check(&all, "retransmit_ratio").state, State::Ok, "one in a hundred is still well");
        all.window.hops[1].bytes = 1_100;
        assert_eq!(check(&all, "retransmit_ratio").state, State::NotOk);
        assert!(!of(&all, &Thresholds::default(), &Ok(softirq(0.1))).healthy);
        let wide = Thresholds { retransmit: 0.02, ..Thresholds::default() };
        assert!(of(&all, &wide, &Ok(softirq(0.1))).healthy);
        assert!(!of(&all, &wide, &Ok(softirq(0.81))).healthy);

        let mut all = host();
        all.window.hops = vec![hop(Hop::SkbDrop, 501, 0)];
        all.window.drops = vec![
            DropCount { reason: "no_socket".to_owned(), n: 1 },
            DropCount { reason: "qdisc_drop".to_owned(), n: 500 },
        ];
        let drops = check(&all, "drops_per_second");
        assert_eq!((drops.state, drops.because.as_str()), (State::NotOk, "500 qdisc_drop, 1 no_socket"));

        let mut all = host();
        all.window.wakeup = times(&[0, 0, 0, 6]);
        assert_eq!(check(&all, "wakeup_delay_p50").state, State::Ok);
        assert_eq!(check(&all, "wakeup_delay_p99").state, State::NotOk);
        all.window.queue = times(&[2, 2, 2, 2]);
        assert_eq!(check(&all, "queue_delay_p50").state, State::NotOk);
        assert_eq!(check(&all, "queue_delay_p99").state, State::Ok);

        let mut all = host();
        all.window.hops = vec![hop(Hop::DevXmit, 900, 0)];
        all.window.losses = vec![CauseCount { cause: "ring_full".to_owned(), records: 100 }];
        let lost = check(&all, "lost_ratio");
        assert_eq!((lost.state, lost.value), (State::NotOk, Some(0.1)));
        assert!(lost.because.contains("100 ring_full"), "{}", lost.because);
    }

    #[test]
    fn what_only_the_kernel_counted_is_not_overlooked() {
        let mut all = host();
        all.window.kernel.drops = vec![DropCount { reason: "no_socket".to_owned(), n: 501 }];
        all.window.kernel.hops = vec![KernelHop { hop: Hop::TcpSend, events: 9, bytes: None }];
        let queue =
            PairTimes { from: Hop::DevQueue, to: Hop::DevXmit, proto: String::new(), times: times(&[2, 2]) };
        all.window.kernel.latencies = vec![queue];
        let drops = check(&all, "drops_per_second");
        assert_eq!((drops.state, drops.because.as_str()), (State::NotOk, "501 no_socket"));
        assert_eq!(check(&all, "queue_delay_p50").state, State::NotOk);
        let ratio = check(&all, "retransmit_ratio");
        assert_eq!((ratio.state, ratio.because.as_str()), (State::Unknown, "the kernel adds up, and not this"));
    }

    #[test]
    fn what_a_sampler_left_out_counts_and_what_nobody_sees_is_unknown() {
        let mut all = host();
        all.window.hops = vec![hop(Hop::TcpSend, 1, 10_000), hop(Hop::TcpRetransmit, 1, 1_000)];
        all.hops.iter_mut().find(|state| state.hop == Hop::TcpSend).expect("a state").weight = 10.0;
        let ratio = check(&all, "retransmit_ratio");
        assert_eq!(ratio.value, Some(1_000.0 / 101_000.0));
        all.hops.iter_mut().find(|state| state.hop == Hop::TcpRetransmit).expect("a state").unserved =
            Some("no kprobes".to_owned());
        let ratio = check(&all, "retransmit_ratio");
        assert_eq!((ratio.state, ratio.value), (State::Unknown, None));
        assert!(ratio.because.contains("tcp.retransmit is not captured: no kprobes"), "{}", ratio.because);
        let bad = Thresholds { softirq: f64::NAN, ..Thresholds::default() };
        assert!(!of(&host(), &bad, &Ok(softirq(0.0))).healthy);
    }
}
