//! MAGNET's experiment on a real driver: number of free receive-ring buffers at the start and the end of a
//! refill.

use crate::common;

use common::{CLIENT, Pair, SERVER, can_capture_with, finish, undisturbed, wired};
use magscope_core::Hop;
use magscope_core::custom::{CustomProbe, ProbeHit};
use magscope_core::node::Ability;
use magscope_probe::facts::Mechanism;
use magscope_probe::{CaptureOptions, HostFacts};

/// Probes at the refill of virtio's driver, of every kind that the kernel has.
fn asked(facts: &HostFacts) -> Vec<String> {
    let mut asked = Vec::new();
    for (there, entry, back) in [(&facts.fentry, "fentry", "fexit"), (&facts.kprobe, "kprobe", "kretprobe")] {
        if *there == Mechanism::Works {
            // return probes do not see the registers of the call
            let after = if back == "fexit" { "free=rq->vq->num_free ok=retval" } else { "ok=retval" };
            asked.push(format!("{entry}:try_fill_recv name={entry}-refill free=rq->vq->num_free"));
            asked.push(format!("{back}:try_fill_recv name={back}-filled {after}"));
        }
    }
    asked
}

#[test]
fn free_buffers_are_counted_before_and_after_a_driver_refills_its_ring() {
    if !can_capture_with(&[Ability::CustomProbes]) {
        return;
    }
    undisturbed(|| {
        let Some(net) = wired() else { return };
        let facts = HostFacts::read().expect("/proc");
        let asked = asked(&facts);
        if asked.is_empty() {
            println!("skipped, because kernel {} has neither fentry nor kprobes", facts.kernel);
            return;
        }
        let probes: Vec<CustomProbe> = asked.iter().map(|text| text.parse().expect("a probe")).collect();
        let hops = [Hop::DevXmit, Hop::DevRecv].into_iter().collect();
        let recording = net.capture_with(CaptureOptions { hops, probes, ..CaptureOptions::default() });
        // virtio's driver refills its ring when half of it, or 32 buffers, are used
        Pair::new(&net, CLIENT, SERVER, 5400).send(500, 1_000);
        let (recording, _) = finish(recording);
        let of = |number: usize| -> Vec<ProbeHit> {
            recording.hits().filter(|hit| usize::from(hit.probe) == number).copied().collect()
        };
        for (number, text) in asked.iter().enumerate() {
            let hits = of(number);
            assert_eq!(hits.len(), of(0).len(), "{text}: as often as {}", asked[0]);
            assert!(hits.len() >= 4, "{text}: {} refills", hits.len());
        }
        let free =
            |number: usize| of(number).iter().map(|hit| hit.value(0).expect("it was read")).collect::<Vec<_>>();
        let before = free(0);
        assert!(before.iter().all(|free| (1..=65_536).contains(free)), "{before:?}");
        for (number, text) in asked.iter().enumerate() {
            if text.contains("-refill") {
                assert_eq!(free(number), before, "{text}: the same counts, in the same order");
            }
            if text.starts_with("fexit") {
                for hit in of(number) {
                    let [after, filled] = [0, 1].map(|n| hit.value(n).expect("it was read"));
                    assert!(filled == 0 || after == 0, "a ring that was filled has no free buffer: {after}");
                }
            }
            println!("  {text}: {} refills", before.len());
        }
        println!("  free buffers before a refill: {before:?}");
    });
}
