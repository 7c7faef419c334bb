//! Events with TSC time stamps. Real traffic has its hops in order and all bytes, and samples map the TSC to
//! the other clocks and UTC. A hop that cannot use the TSC is missing for that reason.

use crate::common::{self, waits};

use common::connection::Connection;
use common::{Net, Recording, SERVER, can_capture, lost_nothing, undisturbed};
use magscope_core::journey::Verdict;
use magscope_core::node::{Backend, Service};
use magscope_core::{Hop, Proto};
use magscope_probe::clock::monotonic_ns;
use magscope_probe::plan::{default_hops, full_hops};
use magscope_probe::{CaptureOptions, HostFacts};
use magscope_timeline::{NodeClock, UtcMap};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PORT: u16 = 5301;

fn utc_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as i64
}

/// Clock samples so far.
fn samples(recording: &Recording) -> usize {
    recording.batches.iter().map(|batch| batch.clock.len()).sum()
}

/// Drains until there are so many clock samples.
fn sampled(recording: &mut Recording, count: usize) {
    waits::until("the clock is sampled", || {
        recording.drain(Duration::from_millis(20));
        samples(recording) >= count
    });
}

#[test]
fn events_carry_the_tsc_and_lead_to_every_other_clock() {
    if can_capture() {
        undisturbed(compare_clocks);
    }
}

fn compare_clocks() {
    let net = Net::new();
    let mut recording =
        net.capture_with(CaptureOptions { hops: full_hops(), tsc: true, ..CaptureOptions::default() });
    if let Some(because) = recording.capture().clock_fallback() {
        return println!("skipped, because the TSC cannot be used here: {because}");
    }
    let info = magscope_core::source::Source::info(recording.capture()).clone();
    assert_eq!(info.clock, "tsc");
    for row in &info.coverage.hops {
        match &row.service {
            Service::Served { backend, .. } => {
                assert!(!matches!(backend, Backend::Netfilter | Backend::CgroupSkb), "{row:?}");
            }
            Service::Missing { because } => println!("{}: {because}", row.hop),
            Service::Off => {}
        }
    }
    sampled(&mut recording, 2); // before the traffic
    let (before_ns, before_utc) = (monotonic_ns(), utc_ns());
    let connection = Connection::open(&net, SERVER, PORT);
    let bytes = connection.upload([1_000; 300], 4_096);
    recording.drain(Duration::from_millis(100));
    let (after_ns, after_utc) = (monotonic_ns(), utc_ns());
    let before = samples(&recording);
    sampled(&mut recording, before + 2);
    recording.stop();
    lost_nothing(&recording);

    let (mut clock, mut utc) = (NodeClock::new(), UtcMap::new());
    for sample in recording.batches.iter().flat_map(|batch| &batch.clock) {
        assert!(sample.stamp_ns > 0, "{sample:?}");
        clock.push(*sample);
        utc.push(*sample);
    }
    let samples = clock.samples();
    assert!(samples.len() >= 4, "{}", samples.len());
    let to_tsc = samples[0].stamp_ns.wrapping_sub(samples[0].monotonic_ns);
    println!("{} samples, widest {:?} ns", samples.len(), samples.iter().map(|s| s.width_ns).max());

    // All bytes are present, and times increase within a journey across CPUs.
    let (journeys, _) = recording.journeys();
    let mine = journeys.iter().filter(|j| j.proto == Proto::TCP);
    let whole: Vec<_> = mine.filter(|j| j.verdict == Verdict::Complete).collect();
    assert_eq!(whole.iter().map(|j| j.bytes()).sum::<u64>(), bytes);
    let disordered: usize = whole.iter().map(|j| j.disordered()).sum();
    assert_eq!(disordered, 0);
    assert!(whole.iter().all(|j| j.rungs.has(Hop::DevXmit) && j.rungs.has(Hop::AppRecv)));

    // UTC and R from the samples: between the test's readings before and after.
    let slack_ns = 2_000_000;
    for event in &recording.events {
        let at_utc = utc.utc_ns(event.time_ns).expect("samples");
        let near = event.time_ns.wrapping_sub(to_tsc);
        if (before_ns..after_ns).contains(&near) {
            assert!((before_utc - slack_ns..after_utc + slack_ns).contains(&at_utc), "{event:?}: {at_utc}");
            let raw = clock.raw_ns(event.time_ns).expect("samples");
            assert!(raw.error_ns < 200_000, "{raw:?}");
        }
    }
    // R and the TSC run at one rate, except for the kernel's rounding.
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let (tsc, raw) = (last.stamp_ns - first.stamp_ns, last.raw_ns - first.raw_ns);
    let ppm = (tsc as f64 - raw as f64) / raw as f64 * 1e6;
    println!("the TSC runs {ppm:+.3} ppm against CLOCK_MONOTONIC_RAW over {} ms", raw / 1_000_000);
    assert!(ppm.abs() < 200.0, "{ppm}");
}

#[test]
fn without_a_tsc_events_carry_the_other_clock_and_it_is_said_why() {
    if !can_capture() {
        return;
    }
    let net = Net::new();
    let options = CaptureOptions {
        hops: default_hops(),
        tsc: true,
        netns: vec![net.client.target.clone()],
        ..CaptureOptions::default()
    };
    // A processor whose TSC the kernel rejects.
    let facts = HostFacts {
        tsc_obstacle: Some("it stops in sleep".to_owned()),
        ..HostFacts::read().expect("/proc is there")
    };
    let capture = magscope_probe::Capture::start_on(&facts, options).expect("it starts all the same");
    assert_eq!(capture.clock_fallback(), Some("it stops in sleep"));
    assert_eq!(magscope_core::source::Source::info(&capture).clock, "monotonic");
}
