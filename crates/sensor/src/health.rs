//! Network health of a host, for schedulers that place jobs on nodes.
//!
//! Each check has a value, a threshold and a state. A missing measurement gives *unknown* with a reason, never
//! *ok*.

mod clocks;

pub use clocks::{ClockHealth, of_clocks};

use crate::histogram::Times;
use crate::in_force::leaves_out;
use crate::snapshot::{DropCount, HostSnapshot, Tally};
use magscope_core::Hop;
use serde::Serialize;

/// Limits of a healthy host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Thresholds {
    /// Retransmitted share of TCP's bytes.
    pub retransmit: f64,
    /// Dropped packets per second.
    pub drops_per_s: f64,
    /// Softirq share of the busiest CPU.
    pub softirq: f64,
    /// Median wake-up latency of readers, seconds.
    pub wakeup_p50_s: f64,
    /// 99th percentile of it.
    pub wakeup_p99_s: f64,
    /// Median time in the device queue, seconds.
    pub queue_p50_s: f64,
    /// 99th percentile of it.
    pub queue_p99_s: f64,
    /// Lost share of the capture's records.
    pub lost: f64,
    /// Steps of clocks.
    pub clock_steps: f64,
    /// Error of a host's UTC, and of the difference of two hosts' clocks, seconds; infinite without a limit.
    pub clock_error_s: f64,
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
            clock_steps: 0.0,
            clock_error_s: f64::INFINITY,
        }
    }
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The value is at most the threshold.
    Ok,
    /// Above it.
    NotOk,
    /// The value was not measured.
    Unknown,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Its name.
    pub name: &'static str,
    /// Its unit: `ratio`, `seconds`, `per_second`, `count`.
    pub unit: &'static str,
    /// The measured value.
    pub value: Option<f64>,
    /// The largest healthy value; infinite without a limit, `null` in JSON.
    pub threshold: f64,
    /// Result of the comparison.
    pub state: State,
    /// Sample size: bytes, packets, journeys, records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The reason for an unknown state, or a hint for the next question.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub because: String,
    /// The next step, of a failed check of clocks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next: String,
}

/// Health of one host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Health {
    /// Host name.
    pub host: String,
    /// True if no check exceeds its threshold.
    pub healthy: bool,
    /// Number of unknown checks.
    pub unknown: usize,
    /// Length of the measured period, seconds.
    pub over_s: f64,
    /// The capture's filters in force as command-line settings: the checks cover the accepted events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// All checks.
    pub checks: Vec<Check>,
}

/// Softirq load of the busiest CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Softirq {
    /// Share of its time.
    pub share: f64,
    /// The CPU.
    pub cpu: u32,
    /// Length of the measurement, seconds.
    pub over_s: f64,
}

/// Checks the last minute of a host. An error in `softirq` is the reason for an unknown state.
pub fn of(host: &HostSnapshot, thresholds: &Thresholds, softirq: &Result<Softirq, String>) -> Health {
    let over_s = host.window_ns as f64 / 1e9;
    let (wakeup, queue) = (&host.window.wakeup, queue_of(host));
    let woken = [Hop::SockReady, Hop::TaskWake, Hop::TaskRun];
    let queued = [Hop::DevQueue, Hop::DevXmit];
    let mut checks = vec![
        retransmit(host, thresholds.retransmit),
        drops(host, thresholds.drops_per_s),
        softirq_check(softirq, thresholds.softirq),
        times("wakeup_delay_p50", host, &woken, wakeup, wakeup.p50_ns, thresholds.wakeup_p50_s),
        times("wakeup_delay_p99", host, &woken, wakeup, wakeup.p99_ns, thresholds.wakeup_p99_s),
        times("queue_delay_p50", host, &queued, queue, queue.p50_ns, thresholds.queue_p50_s),
        times("queue_delay_p99", host, &queued, queue, queue.p99_ns, thresholds.queue_p99_s),
        lost(host, thresholds.lost),
        clocks::breaks(host, thresholds.clock_steps),
    ];
    checks.extend(clocks::utc_error(host, thresholds.clock_error_s));
    Health {
        host: host.host.clone(),
        healthy: checks.iter().all(|check| check.state != State::NotOk),
        unknown: checks.iter().filter(|check| check.state == State::Unknown).count(),
        over_s,
        settings: host.settings.clone(),
        checks,
    }
}

/// Times in the queue: of journeys, or else as measured by the kernel.
fn queue_of(host: &HostSnapshot) -> &Times {
    let mut pairs = host.window.kernel.latencies.iter();
    let measured = pairs.find(|pair| (pair.from, pair.to) == (Hop::DevQueue, Hop::DevXmit));
    measured.filter(|_| host.window.queue.n == 0).map_or(&host.window.queue, |pair| &pair.times)
}

fn measured(name: &'static str, unit: &'static str, value: f64, threshold: f64, of: Option<u64>) -> Check {
    // No value exceeds a threshold that is NaN.
    let state = if value <= threshold { State::Ok } else { State::NotOk };
    let (because, next) = (String::new(), String::new());
    Check { name, unit, value: Some(value), threshold, state, of, because, next }
}

fn not_measured(name: &'static str, unit: &'static str, threshold: f64, because: impl Into<String>) -> Check {
    let (because, next) = (because.into(), String::new());
    Check { name, unit, value: None, threshold, state: State::Unknown, of: None, because, next }
}

/// The reason why a host's capture cannot give an answer, if any.
fn blind(host: &HostSnapshot, hops: &[Hop]) -> Option<String> {
    if host.window_ns == 0 {
        return Some("nothing has been captured yet".to_owned());
    }
    hops.iter().find_map(|hop| {
        let unserved = host.unserved(*hop).map(|because| format!("{hop} is not captured: {because}"));
        let gap = || host.state(*hop).and_then(|state| state.gap.as_ref());
        unserved.or_else(|| gap().map(|because| format!("{hop} was not captured all the time: {because}")))
    })
}

/// The reason for no value of these hops: what was left out may have passed them.
fn nothing_came(host: &HostSnapshot, hops: &[Hop], what: &str) -> String {
    if host.window.kernel.hops.iter().any(|hop| hops.contains(&hop.hop)) {
        "the kernel adds up, and not this".to_owned()
    } else if let Some(setting) = host.settings.iter().find(|setting| leaves_out(setting)) {
        format!("{what} in this time that `{setting}` takes")
    } else {
        format!("{what} in this time")
    }
}

/// Events or bytes of a hop, scaled by its sampler.
fn estimated(host: &HostSnapshot, hop: Hop, came: u64) -> f64 {
    came as f64 * host.state(hop).map_or(1.0, |state| state.weight)
}

fn retransmit(host: &HostSnapshot, threshold: f64) -> Check {
    let (name, unit) = ("retransmit_ratio", "ratio");
    if let Some(because) = blind(host, &[Hop::TcpSend, Hop::TcpRetransmit]) {
        return not_measured(name, unit, threshold, because);
    }
    let bytes = |hop| host.window.hop(hop).bytes;
    let (sent, again) = (bytes(Hop::TcpSend), bytes(Hop::TcpRetransmit));
    let (all, again) = (
        estimated(host, Hop::TcpSend, sent) + estimated(host, Hop::TcpRetransmit, again),
        estimated(host, Hop::TcpRetransmit, again),
    );
    if all <= 0.0 {
        return not_measured(name, unit, threshold, nothing_came(host, &[Hop::TcpSend], "TCP sent nothing"));
    }
    measured(name, unit, again / all, threshold, Some(all.round() as u64))
}

fn drops(host: &HostSnapshot, threshold: f64) -> Check {
    let (name, unit) = ("drops_per_second", "per_second");
    if let Some(because) = blind(host, &[]) {
        return not_measured(name, unit, threshold, because);
    }
    // The sampler decides before the kernel adds up, so both parts have its weight.
    let sum = |drops: &[DropCount]| drops.iter().fold(0_u64, |all, drop| all.saturating_add(drop.n));
    let (dropped, added_up) = (sum(&host.window.drops), sum(&host.window.kernel.drops));
    let counted = dropped.saturating_add(added_up);
    let a_second = estimated(host, Hop::SkbDrop, counted) * 1e9 / host.window_ns as f64;
    let mut check = measured(name, unit, a_second, threshold, Some(counted));
    check.because = reasons(&host.window);
    // Drops beyond the threshold are a fault without those that were not seen.
    if check.state == State::Ok
        && let Some(because) = unseen_drops(host)
    {
        return not_measured(name, unit, threshold, because);
    }
    check
}

/// The reason why there may be more drops than those counted, if any.
fn unseen_drops(host: &HostSnapshot) -> Option<String> {
    let ended = |setting: &String| format!("`{setting}` left drops out in a part of this time");
    // The filter may want the packets whose drops it cannot decide.
    let undecided = host.state(Hop::SkbDrop).and_then(|state| state.left_out).map_or(0, |n| n.undecided);
    let of_filter = || format!("the filter left out {undecided} drops that it could not decide");
    let unserved = blind(host, &[Hop::SkbDrop]);
    unserved.or_else(|| host.ended_settings.first().map(ended)).or_else(|| (undecided > 0).then(of_filter))
}

/// The most frequent drop reasons.
fn reasons(tally: &Tally) -> String {
    let mut drops: Vec<_> = tally.drops.iter().chain(&tally.kernel.drops).collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop.n));
    let reported: Vec<_> = drops.iter().take(5).map(|drop| format!("{} {}", drop.n, drop.reason)).collect();
    reported.join(", ")
}

fn softirq_check(softirq: &Result<Softirq, String>, threshold: f64) -> Check {
    let (name, unit) = ("softirq_share", "ratio");
    match softirq {
        Err(because) => not_measured(name, unit, threshold, because),
        Ok(softirq) => {
            let mut check = measured(name, unit, softirq.share, threshold, None);
            check.because = format!("CPU {}, over {:.1} s", softirq.cpu, softirq.over_s);
            check
        }
    }
}

fn times(
    name: &'static str,
    host: &HostSnapshot,
    hops: &[Hop],
    times: &Times,
    ns: u64,
    threshold: f64,
) -> Check {
    if let Some(because) = blind(host, hops) {
        return not_measured(name, "seconds", threshold, because);
    }
    if times.n == 0 {
        return not_measured(name, "seconds", threshold, nothing_came(host, hops, "nothing passed there"));
    }
    measured(name, "seconds", ns as f64 / 1e9, threshold, Some(times.n))
}

fn lost(host: &HostSnapshot, threshold: f64) -> Check {
    let (name, unit) = ("lost_ratio", "ratio");
    if let Some(because) = blind(host, &[]) {
        return not_measured(name, unit, threshold, because);
    }
    let lost = host.window.lost();
    let all = host.window.hops.iter().fold(lost, |all, hop| all.saturating_add(hop.events));
    let share = if all == 0 { 0.0 } else { lost as f64 / all as f64 };
    let mut check = measured(name, unit, share, threshold, Some(all));
    if lost > 0 {
        let causes = host.window.losses.iter().filter(|cause| cause.records > 0);
        let reported: Vec<_> = causes.map(|cause| format!("{} {}", cause.records, cause.cause)).collect();
        check.because = format!("{}: the other checks are about what came", reported.join(", "));
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;
    use crate::snapshot::{CauseCount, DropCount, HopState, HopTally, KernelHop, PairTimes};

    fn host() -> HostSnapshot {
        let state = |hop: &Hop| HopState { hop: *hop, unserved: None, gap: None, weight: 1.0, left_out: None };
        HostSnapshot {
            host: "node".to_owned(),
            window_ns: 50_000_000_000,
            to_utc_ns: Some(0),
            hops: Hop::ALL.iter().map(state).collect(),
            ..HostSnapshot::default()
        }
    }

    fn softirq(share: f64) -> Softirq {
        Softirq { share, cpu: 3, over_s: 1.0 }
    }

    fn check(host: &HostSnapshot, name: &str) -> Check {
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
        let nothing = of(&HostSnapshot::default(), &Thresholds::default(), &Err("not asked".to_owned()));
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
    fn nothing_is_said_to_have_passed_of_what_was_left_out() {
        let because = |settings: &[&str], name: &str| {
            let settings = settings.iter().map(|s| (*s).to_owned()).collect();
            check(&HostSnapshot { settings, ..host() }, name).because
        };
        assert_eq!(because(&[], "queue_delay_p50"), "nothing passed there in this time");
        assert_eq!(because(&["pcap off", "detail both"], "retransmit_ratio"), "TCP sent nothing in this time");
        for setting in ["filter port = 1", "pcap port 1", "sample flows 1/16", "sample 1/4 dev.xmit"] {
            let because = because(&[setting], "wakeup_delay_p99");
            assert_eq!(because, format!("nothing passed there in this time that `{setting}` takes"));
        }
    }

    #[test]
    fn sampled_sums_of_the_kernel_have_the_weight_of_their_sampler() {
        let mut all = host();
        all.window.drops = vec![DropCount { reason: "no_socket".to_owned(), n: 10 }];
        all.window.kernel.drops = vec![DropCount { reason: "no_socket".to_owned(), n: 40 }];
        all.hops.iter_mut().find(|state| state.hop == Hop::SkbDrop).expect("a state").weight = 10.0;
        let drops = check(&all, "drops_per_second");
        assert_eq!((drops.value, drops.of), (Some(10.0), Some(50)));
    }

    #[test]
    fn drops_that_the_filter_cannot_decide_are_unknown() {
        let mut all = host();
        let state = all.hops.iter_mut().find(|state| state.hop == Hop::SkbDrop).expect("a state");
        let left_out = crate::snapshot::LeftOut { undecided: 50, ..Default::default() };
        state.left_out = Some(crate::snapshot::LeftOut { filtered: 9, ..Default::default() });
        assert_eq!(check(&all, "drops_per_second").state, State::Ok, "of what the filter wants");
        all.hops.iter_mut().find(|state| state.hop == Hop::SkbDrop).expect("a state").left_out = Some(left_out);
        let drops = check(&all, "drops_per_second");
        assert_eq!((drops.state, drops.value), (State::Unknown, None));
        assert!(drops.because.contains("50 drops"), "{}", drops.because);
        all.window.drops = vec![DropCount { reason: "no_socket".to_owned(), n: 501 }];
        assert_eq!(check(&all, "drops_per_second").state, State::NotOk);
    }

    #[test]
    fn drops_beyond_the_threshold_are_a_fault_although_some_were_not_seen() {
        let mut all = host();
        let state = all.hops.iter_mut().find(|state| state.hop == Hop::SkbDrop).expect("a state");
        state.gap = Some("it was off for a part of this time".to_owned());
        let because = "skb.drop was not captured all the time: it was off for a part of this time";
        let drops = check(&all, "drops_per_second");
        assert_eq!((drops.state, drops.value, drops.because.as_str()), (State::Unknown, None, because));
        all.window.drops = vec![DropCount { reason: "no_socket".to_owned(), n: 501 }];
        assert_eq!(check(&all, "drops_per_second").state, State::NotOk);
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
