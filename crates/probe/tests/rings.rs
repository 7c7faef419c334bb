//! Both kinds of rings: the same exact counts, losses and wake-ups.

use crate::common::{Net, can_capture, hops};
use magscope_core::Hop;
use magscope_probe::{CaptureOptions, HostFacts, RingKind};
use std::process::Command;

/// The variable that `common::ring` reads.
const KIND: &str = "MAGSCOPE_TEST_RING";

/// All other tests run with the default kind.
#[test]
fn counts_losses_and_wake_ups_are_exact_with_the_rings_of_the_kernel_too() {
    if !can_capture() || std::env::var_os(KIND).is_some() {
        return;
    }
    let facts = HostFacts::read().expect("facts");
    if !facts.loops {
        println!("skipped, because all tests have these rings on kernel {}", facts.kernel);
        return;
    }
    let own = std::env::current_exe().expect("this program");
    let mut tests = Command::new(own);
    tests.args(["exact::", "delivery::", "payload::", "--test-threads=1"]).env(KIND, RingKind::Kernel.word());
    let output = tests.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_capture_has_the_kind_of_rings_that_it_asked_for_if_the_kernel_can() {
    if !can_capture() || std::env::var_os(KIND).is_some() {
        return;
    }
    let facts = HostFacts::read().expect("facts");
    let hops = hops(&[Hop::DevXmit]);
    let net = Net::new();
    let kind = |facts: &HostFacts, ring, bytes| {
        let options = CaptureOptions { hops, ring, ring_bytes_per_cpu: bytes, ..CaptureOptions::default() };
        let mut recording = net.capture_on(facts, options);
        let kind = recording.capture().ring();
        recording.stop();
        kind
    };
    assert_eq!(kind(&facts, RingKind::Kernel, 4096), RingKind::Kernel);
    if !facts.loops {
        println!("skipped, because kernel {} cannot have mapped rings", facts.kernel);
        return;
    }
    assert_eq!(kind(&facts, RingKind::Mapped, 4096), RingKind::Mapped);
    assert_eq!(kind(&HostFacts { loops: false, ..facts }, RingKind::Mapped, 4096), RingKind::Kernel);
}
