//! A capture in a time namespace. Its readings of clocks are those of the kernel's programs, whatever the offsets.

use crate::common;

use common::{Pair, can_capture, quiet, undisturbed};
use magscope_core::Proto;
use magscope_probe::clock::{ClockSampler, monotonic_ns, raw_ns};
use magscope_probe::plan::full_hops;
use magscope_probe::time_namespace::TimeOffsets;
use rustix::time::{ClockId, clock_gettime};
use std::process::Command;

/// Set in the child: the parent's reading of its clock, nanoseconds, and the offset, seconds.
const IN_NAMESPACE: &str = "MAGSCOPE_TEST_TIME_NAMESPACE";
const TEST: &str = "time_namespace::a_capture_in_a_time_namespace_reads_the_kernels_clock";
const DATAGRAMS: usize = 20;

#[test]
fn a_capture_in_a_time_namespace_reads_the_kernels_clock() {
    if !can_capture() {
        return;
    }
    if let Ok(text) = std::env::var(IN_NAMESPACE) {
        let (before_ns, offset_s) = text.split_once(' ').expect("two numbers");
        return inside(before_ns.parse().expect("a number"), offset_s.parse().expect("a number"));
    }
    assert_eq!(TimeOffsets::of_this_process(), Ok(TimeOffsets::default()), "the tests run in the first one");
    let own = std::env::current_exe().expect("this program");
    let back_s = (monotonic_ns() / 2_000_000_000) as i64;
    for offset_s in [100_000, -back_s] {
        let mut command = Command::new("unshare");
        command.args(["--time", "--fork", "--monotonic", &offset_s.to_string()]);
        command.args(["--boottime", &(offset_s + 5).to_string()]).arg(&own);
        command.args(["--exact", TEST, "--nocapture"]);
        command.env(IN_NAMESPACE, format!("{} {offset_s}", monotonic_ns()));
        let output = command.output().expect("unshare is installed");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        if text.contains("unshare: ") {
            return println!("skipped, because time namespaces cannot be made here: {}", text.trim());
        }
        assert!(
            output.status.success(),
            "offset {offset_s} s: {text}{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

fn inside(before_ns: u64, offset_s: i64) {
    let shown = clock_gettime(ClockId::Monotonic);
    assert!(
        (shown.tv_sec - offset_s).abs_diff((before_ns / 1_000_000_000) as i64) < 300,
        "the offset is in force"
    );
    let offsets = TimeOffsets::of_this_process().expect("it can be read");
    assert_eq!(offsets.monotonic_ns, offset_s * 1_000_000_000);
    assert_eq!(offsets.boottime_ns, (offset_s + 5) * 1_000_000_000);
    let sample = ClockSampler::new().sample();
    assert!((before_ns..=monotonic_ns()).contains(&sample.monotonic_ns), "{sample:?}, begun at {before_ns}");
    // Both clocks have run since boot, at rates a tenth apart at most.
    assert!(raw_ns().abs_diff(monotonic_ns()) < monotonic_ns() / 8);

    undisturbed(|| {
        let net = quiet();
        let mut recording = net.capture(full_hops());
        let begin_ns = monotonic_ns();
        Pair::new(&net, common::CLIENT, common::SERVER, 5_400).send(DATAGRAMS, 100);
        let end_ns = monotonic_ns();
        recording.stop();
        let mine = recording.events.iter().filter(|event| event.proto == Proto::UDP);
        let count = mine.clone().count();
        assert!(count >= 4 * DATAGRAMS, "{count} events of {DATAGRAMS} datagrams");
        let outside: Vec<_> = mine.filter(|event| !(begin_ns..=end_ns).contains(&event.time_ns)).collect();
        assert!(outside.is_empty(), "{outside:?} are not within {begin_ns} to {end_ns}");
    });
}
