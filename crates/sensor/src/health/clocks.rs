//! Checks of clocks: of one host by its own samples, and of two hosts by the packets between them.

use super::{Check, State, blind, measured, not_measured};
use crate::clocks::{ClockRelation, state_name};
use crate::snapshot::HostSnapshot;
use magscope_timeline::pair::{self, smallest_visible_step_ns};
use serde::Serialize;

/// Health of the relation of two hosts' clocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockHealth {
    /// The first host.
    pub a: String,
    /// The second host.
    pub b: String,
    /// Basis of the bounds of the difference, in lower case.
    pub state: String,
    /// True if no check exceeds its threshold.
    pub healthy: bool,
    /// Number of unknown checks.
    pub unknown: usize,
    /// All checks.
    pub checks: Vec<Check>,
}

/// Checks the relation of two hosts' clocks.
pub fn of_clocks(relation: &ClockRelation, thresholds: &super::Thresholds) -> ClockHealth {
    let checks = vec![
        steps(relation, thresholds.clock_steps),
        sources(relation),
        error(relation, thresholds.clock_error_s),
    ];
    ClockHealth {
        a: relation.a.clone(),
        b: relation.b.clone(),
        state: relation.state.clone(),
        healthy: checks.iter().all(|check| check.state != State::NotOk),
        unknown: checks.iter().filter(|check| check.state == State::Unknown).count(),
        checks,
    }
}

fn is(relation: &ClockRelation, state: pair::State) -> bool {
    relation.state == state_name(state)
}

/// The reason why packets do not bound the difference from both sides.
fn unbounded(relation: &ClockRelation) -> String {
    if is(relation, pair::State::OneSided) {
        "packets crossed in one direction only, or in both but not since the last step".to_owned()
    } else {
        "no packet crossed between the two".to_owned()
    }
}

fn steps(relation: &ClockRelation, threshold: f64) -> Check {
    let (name, unit) = ("clock_steps", "count");
    let hints = || {
        let hints: Vec<&str> = relation.hints.iter().map(|hint| &*hint.text).collect();
        let unseen = relation.half_width_ns.map_or_else(String::new, |ns| {
            let step_s = smallest_visible_step_ns(ns) as f64 / 1e9;
            format!("; a step of a clock below {step_s:.9} s would not be seen")
        });
        hints.join("; ") + &unseen
    };
    let mut check = measured(name, unit, relation.steps as f64, threshold, Some(relation.packets_used));
    if check.state == State::NotOk {
        let by = relation.last_step_ns.map_or_else(String::new, |ns| {
            format!("the newest moved {} against {} by {:+.9} s: ", relation.b, relation.a, ns as f64 / 1e9)
        });
        check.because =
            format!("{by}a host slept, its virtual machine was paused or moved, or its clock source changed");
        "see the kernel's log of both hosts for the clock source and for suspends; two recordings and `magnet-scope \
         align` show the instant"
            .clone_into(&mut check.next);
        return check;
    }
    if !relation.hints.is_empty() {
        // A hint proves no step, and excludes none.
        return not_measured(name, unit, threshold, hints());
    }
    if relation.half_width_ns.is_none() && relation.steps == 0 {
        return not_measured(name, unit, threshold, unbounded(relation));
    }
    check
}

fn sources(relation: &ClockRelation) -> Check {
    let refuted = relation.sources_refuted;
    let mut check = measured("clock_sources_refuted", "count", refuted as f64, 0.0, None);
    if check.state == State::NotOk {
        check.because = format!(
            "packets contradict the errors of UTC that {} and {} claim: the source of one is wrong by more",
            relation.a, relation.b
        );
        "compare `chronyc sources -v` and `chronyc tracking` on both hosts".clone_into(&mut check.next);
    }
    check
}

fn error(relation: &ClockRelation, threshold: f64) -> Check {
    let (name, unit) = ("clock_error", "seconds");
    let next = "let some packets cross in both directions, for instance `ping -i 0.1`, or give both hosts a source of UTC \
                that states its error (chronyd, ClockBound)";
    let mut check = if let Some(ns) = relation.half_width_ns {
        measured(name, unit, ns as f64 / 1e9, threshold, Some(relation.packets_used))
    } else {
        // A missing bound is wider than any limit.
        let state = if threshold.is_finite() { State::NotOk } else { State::Unknown };
        Check { state, ..not_measured(name, unit, threshold, unbounded(relation)) }
    };
    if check.state == State::NotOk {
        if check.because.is_empty() {
            check.because = if is(relation, pair::State::Holdover) {
                "no packet has crossed in both directions for more than a second: the bounds grow by 200 ppm"
                    .to_owned()
            } else {
                "no bound is narrower than half the quickest round trip between the two".to_owned()
            };
        }
        next.clone_into(&mut check.next);
    }
    check
}

/// Breaks of a host's clocks by its own samples.
pub(super) fn breaks(host: &HostSnapshot, threshold: f64) -> Check {
    let (name, unit) = ("clock_breaks", "count");
    if let Some(because) = blind(host, &[]) {
        return not_measured(name, unit, threshold, because);
    }
    if host.to_utc_ns.is_none() {
        return not_measured(name, unit, threshold, "its clocks have not been read yet");
    }
    let broken: Vec<_> = host.window.clock_breaks.iter().filter(|broken| broken.n > 0).collect();
    let all = broken.iter().fold(0_u64, |all, broken| all.saturating_add(broken.n));
    let mut check = measured(name, unit, all as f64, threshold, None);
    let kinds: Vec<String> = broken.iter().map(|broken| format!("{} {}", broken.n, broken.kind)).collect();
    check.because = kinds.join(", ");
    if check.state == State::NotOk {
        "see the kernel's log for the clock source and for suspends, and that of chronyd for steps of the wall clock"
            .clone_into(&mut check.next);
    }
    check
}

/// The error of a host's UTC, as its source claims; left out where no limit is given and no source states one.
pub(super) fn utc_error(host: &HostSnapshot, threshold: f64) -> Option<Check> {
    let (name, unit) = ("utc_error", "seconds");
    let Some(ns) = host.utc_error_ns else {
        let because =
            "no source states an error of UTC: chronyd is not synchronised or not there, nor is ClockBound";
        return threshold.is_finite().then(|| not_measured(name, unit, threshold, because));
    };
    let mut check = measured(name, unit, ns as f64 / 1e9, threshold, None);
    if check.state == State::NotOk {
        "its source of time is far away, or has not been reached for long".clone_into(&mut check.because);
        "see `chronyc sources -v` on that host".clone_into(&mut check.next);
    }
    Some(check)
}

#[cfg(test)]
mod tests {
    use super::super::Thresholds;
    use super::*;
    use crate::clocks::ClockHint;
    use crate::snapshot::BreakCount;

    fn relation() -> ClockRelation {
        ClockRelation {
            a: "web-1".to_owned(),
            b: "web-2".to_owned(),
            state: "certified".to_owned(),
            half_width_ns: Some(250_000),
            packets_used: 900,
            ..ClockRelation::default()
        }
    }

    fn states(relation: &ClockRelation, thresholds: &Thresholds) -> Vec<State> {
        of_clocks(relation, thresholds).checks.iter().map(|check| check.state).collect()
    }

    #[test]
    fn steps_refuted_sources_and_wide_bounds_are_not_ok_and_have_a_next_step() {
        let any = Thresholds::default();
        assert_eq!(states(&relation(), &any), [State::Ok, State::Ok, State::Ok]);
        let stepped = ClockRelation { steps: 1, last_step_ns: Some(-5_000_000), ..relation() };
        let health = of_clocks(&stepped, &any);
        assert!(!health.healthy && health.checks[0].because.contains("web-2 against web-1 by -0.005000000 s"));
        assert_eq!(
            states(&stepped, &Thresholds { clock_steps: 1.0, ..any }),
            [State::Ok, State::Ok, State::Ok]
        );
        let refuted = ClockRelation { sources_refuted: 1, ..relation() };
        assert_eq!(states(&refuted, &any), [State::Ok, State::NotOk, State::Ok]);
        let narrow = Thresholds { clock_error_s: 0.0002, ..any };
        assert_eq!(states(&relation(), &narrow), [State::Ok, State::Ok, State::NotOk]);
        for bad in [of_clocks(&stepped, &any), of_clocks(&refuted, &any), of_clocks(&relation(), &narrow)] {
            let bad = bad.checks.into_iter().find(|check| check.state == State::NotOk).expect("one");
            assert!(!bad.because.is_empty() && !bad.next.is_empty(), "{bad:?}");
        }
    }

    #[test]
    fn hints_and_missing_bounds_are_unknown_and_no_bound_is_wider_than_any_limit() {
        let hint = ClockHint { hint: "collapse".to_owned(), text: "the bounds narrow".to_owned() };
        let suspect = ClockRelation { state: "suspect".to_owned(), hints: vec![hint], ..relation() };
        let health = of_clocks(&suspect, &Thresholds::default());
        assert!(health.healthy && health.unknown == 1, "{health:?}");
        let because = &health.checks[0].because;
        assert!(because.starts_with("the bounds narrow; a step of a clock below 0.0"), "{because}");
        let apart = ClockRelation { state: "one-sided".to_owned(), half_width_ns: None, ..relation() };
        assert_eq!(states(&apart, &Thresholds::default()), [State::Unknown, State::Ok, State::Unknown]);
        let limit = Thresholds { clock_error_s: 10.0, ..Thresholds::default() };
        assert_eq!(states(&apart, &limit), [State::Unknown, State::Ok, State::NotOk]);
    }

    #[test]
    fn a_host_alone_has_its_own_breaks_and_claims() {
        let broken = BreakCount { kind: "realtime".to_owned(), n: 2 };
        let mut host = HostSnapshot { window_ns: 1, to_utc_ns: Some(0), ..HostSnapshot::default() };
        host.window.clock_breaks = vec![broken];
        let check = breaks(&host, 0.0);
        assert_eq!((check.state, check.because.as_str()), (State::NotOk, "2 realtime"));
        assert_eq!(utc_error(&host, f64::INFINITY), None);
        assert_eq!(utc_error(&host, 1.0).map(|check| check.state), Some(State::Unknown));
        host.utc_error_ns = Some(2_000_000_000);
        assert_eq!(utc_error(&host, 1.0).map(|check| check.state), Some(State::NotOk));
        assert_eq!(utc_error(&host, f64::INFINITY).map(|check| check.state), Some(State::Ok));
    }
}
