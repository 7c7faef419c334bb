//! A recording converted from a log of several hosts: the bound of the wire.

use super::tests::{feed, info, message};
use super::*;
use magscope_core::journey::Across;
use magscope_core::node::{HostOf, MergedHosts};
use magscope_timeline::pair::State;

fn shown(across: Across) -> Scope {
    let of = |netns, host: &str| HostOf { netns, host: host.to_owned() };
    let several = Some(MergedHosts { across, hosts: vec![of(1, "web"), of(2, "db")] });
    let mut scope = Scope::new(NodeInfo { several, ..info() }, Options::default());
    for n in 0..20 {
        let at = u64::from(n) * 10_000_000;
        feed(&mut scope, message(n, at, 2_000), at + 9_000_000);
    }
    scope.apply(crate::action::Action::Fit);
    scope
}

#[test]
fn what_a_log_knew_of_its_clocks_is_drawn() {
    let mut scope = shown(Across::within(7_000));
    scope.set_clock_pairs(Vec::new()); // as the reader of one recording does
    let frame = scope.frame();
    assert_eq!((frame.wire.state, frame.wire.half_width_ns), (Some(State::External), Some(7_000)));
    assert_eq!(frame.header.clock, "clock ±7 µs EXTERNAL");
    assert_eq!(frame.clock().pairs[0].hosts, ("db".to_owned(), "web".to_owned()));
    assert!(!frame.sweep.lifelines.is_empty() && frame.sweep.lifelines.iter().all(|line| !line.is_apart()));

    let scope = shown(Across::Apart);
    let frame = scope.frame();
    assert_eq!((frame.wire.state, frame.wire.half_width_ns), (Some(State::Unsynchronised), None));
    assert!(!frame.sweep.lifelines.is_empty() && frame.sweep.lifelines.iter().all(crate::Lifeline::is_apart));

    let scope = shown(Across::OneClock);
    assert_eq!((scope.frame().header.clock.as_str(), scope.frame().wire.half_width_ns), ("one clock", Some(0)));
}
