//! A window's logic without a window, with content and input helpers.
#![allow(dead_code)] // each test file uses a part

pub mod comparison;
pub mod hand;
#[path = "../../../tui/tests/made_up/mod.rs"]
pub mod made_up;
pub mod nonsense;
pub mod raster;
pub mod scopes;

pub use comparison::compared;
use egui_kittest::{Harness, SnapshotOptions, SnapshotResults};
use made_up::{START_NS, World as MadeUp, info};
use magscope_core::custom::ProbeHit;
use magscope_core::journey::{Across, Limits};
use magscope_core::{Correlator, FlowId, Hop};
use magscope_gui::{
    Chosen, Compared, Format, Front, HostRequest, Job, KeyMap, Light, Opened, Part, Trouble, World, dress,
};
use magscope_scope::look::ClockPair;
use magscope_scope::recorded::{Stretch, Window as Span};
use magscope_scope::{Action, Options, Overhead, Scope, State};
use magscope_timeline::pair::State as Clock;
use std::path::{Path, PathBuf};

pub const SECOND: u64 = 1_000_000_000;

/// A world with a single directory that is a recording.
pub struct Nowhere;

impl World for Nowhere {
    fn is_recording(&self, path: &Path) -> bool {
        path.join("meta.toml").is_file()
    }
    fn open(&self, dirs: &[PathBuf], _: &Job) -> Result<Opened, Trouble> {
        Err(trouble(&format!("{dirs:?}")))
    }
    fn compare(&self, _: &[PathBuf], _: &[PathBuf], _: &Job) -> Result<Compared, Trouble> {
        Err(trouble("compare"))
    }
    fn formats(&self) -> &'static [Format] {
        &[
            Format { name: "perfetto", words: "a trace for ui.perfetto.dev", ending: "pftrace" },
            Format { name: "pcapng", words: "packets", ending: "pcapng" },
        ]
    }
    fn export(&self, _: &Part, _: Format, _: &Path, _: &Job) -> Result<String, Trouble> {
        Err(trouble("export"))
    }
    fn write(&self, _: &Path, _: &[u8]) -> Result<(), Trouble> {
        Ok(())
    }
    fn settings(&self) -> String {
        String::new()
    }
    fn keep(&self, _: &str) {}
    fn home(&self) -> PathBuf {
        PathBuf::from("/usr")
    }
}

fn trouble(what: &str) -> Trouble {
    Trouble { what: what.to_owned(), why: "there is nothing".to_owned(), next: "go on".to_owned() }
}

/// The front, its scope, and its requests.
pub struct Bench {
    pub front: Front,
    pub scope: Scope,
    pub requests: Vec<HostRequest>,
}

impl Bench {
    pub fn apply(&mut self, action: Action) {
        self.scope.apply(action);
    }
}

/// A window of this size with software rendering.
pub fn window(scope: Scope, chosen: Chosen, size: [f32; 2]) -> Harness<'static, Bench> {
    let front = Front::new(chosen, KeyMap::of_window());
    let bench = Bench { front, scope, requests: Vec::new() };
    let mut harness = Harness::builder()
        .with_size(size)
        .with_max_steps(64)
        .with_step_dt(0.02)
        .with_context_setup(dress)
        .renderer(raster::Raster::default())
        .build_ui_state(
            |ui, bench: &mut Bench| bench.requests.extend(bench.front.ui(ui, &mut bench.scope, &Nowhere)),
            bench,
        );
    harness.run_steps(3);
    harness
}

/// Light or dark.
pub fn chosen(light: Light) -> Chosen {
    Chosen { light, ..Chosen::default() }
}

/// Compares a picture with its snapshot. All machines make the same triangles; only the last bit of a sum may
/// differ.
pub fn picture(harness: &mut Harness<'_, Bench>, name: &str, results: &mut SnapshotResults) {
    let options = SnapshotOptions::new().threshold(0.6).max_failed_pixels(40).output_path("tests/pictures");
    results.add(harness.try_snapshot_options(name, &options));
}

/// Three seconds of live traffic on one host.
pub fn busy() -> Scope {
    let mut scope = Scope::new(info(), Options::default());
    let mut world = MadeUp::new(400.0);
    for tenth in 1..=30 {
        world.run_until(tenth * SECOND / 10, &mut scope);
        scope.set_overhead(Overhead {
            reader_cpu_ratio: 0.007 + 0.001 * (tenth % 3) as f64,
            kernel_ns_per_hit: Some(171.0),
            kernel_cpu_ratio_estimate: Some(0.012),
            hits: world.hits(),
            ring_fill_ratio: 0.03,
            budget: None,
        });
    }
    MadeUp::lose(&mut scope, 3 * SECOND, 12);
    scope
}

/// The same with three custom probes: one sees the bytes of every packet above the driver, one reads the free
/// entries of a ring, one has no hop.
pub fn probed() -> Scope {
    let probes = [
        "kprobe:tcp_rcv_established name=into after=dev.recv len=skb->len",
        "kprobe:try_fill_recv name=refill as=loadline free=rq->num_free",
        "tracepoint:net:some name=seen",
    ];
    let probes = probes.map(|text| text.parse().expect(text)).to_vec();
    let mut scope = Scope::new(magscope_core::node::NodeInfo { probes, ..info() }, Options::default());
    let mut world = MadeUp::new(400.0);
    for tenth in 1..=10 {
        let mut batch = world.batch_until(tenth * SECOND / 10).clone();
        let received = batch.events.iter().filter(|event| event.hop == Hop::DevRecv);
        let hit = |event: &magscope_core::Event, probe, later_ns, value| ProbeHit {
            time_ns: event.time_ns + later_ns,
            socket: 0,
            flow: event.flow,
            seq: event.seq(),
            len: event.len,
            tgid: 0,
            tid: 0,
            record: 0,
            cpu: 3,
            ip_id: event.ip_id,
            probe,
            proto: event.proto,
            known: 1,
            values: [value, 0, 0, 0],
        };
        let all = received.enumerate().flat_map(|(n, event)| {
            let into = hit(event, 0, 200, i64::from(event.len));
            let free = ProbeHit { flow: FlowId::NONE, ..hit(event, 1, 900, 256 - (n as i64 * 7) % 200) };
            let seen = ProbeHit { flow: FlowId::NONE, known: 0, ..hit(event, 2, 5_000, 0) };
            [into, free, seen].into_iter().take(if n % 9 == 0 { 3 } else { 2 })
        });
        let mut hits: Vec<ProbeHit> = all.collect();
        hits.sort_by_key(|hit| hit.time_ns);
        batch.hits = hits;
        scope.ingest(&batch);
    }
    scope
}

/// A completely surveyed recording of two hosts with an 18 µs clock bound, with the visible part loaded.
pub fn two_hosts() -> Scope {
    two_hosts_after(&[])
}

/// The same, after some actions.
pub fn two_hosts_after(actions: &[Action]) -> Scope {
    let (mut client, mut server) = (info(), info());
    (client.host, server.host) = ("web-07".to_owned(), "db-02".to_owned());
    let (from_ns, to_ns) = (START_NS, START_NS + 3 * SECOND);
    let recorded = Some(Span { from_ns, to_ns });
    let options = Options { state: State::Replay, recorded, ..Options::default() };
    let mut scope = Scope::of_several(vec![client.clone(), server], options);
    scope.set_clock_pairs(vec![ClockPair {
        hosts: ("web-07".to_owned(), "db-02".to_owned()),
        state: Some(Clock::Certified),
        offset_ns: Some(3_600_000_000_012),
        half_width_ns: Some(18_000),
        drift_ppm: Some((1.25, 0.03)),
        min_round_trip_ns: Some(61_000),
        packets_used: 18_204,
        last_step_ns: None,
        smallest_visible_step_ns: None,
        hints: Vec::new(),
        bound: (0..128).map(|n| (from_ns + n * SECOND / 43, 18_000 + (n % 16) * (n % 16) * 900)).collect(),
    }]);
    let mut correlator = Correlator::of_node(&client, Limits::default());
    let mut world = MadeUp::new(400.0);
    let mut all = Vec::new();
    for tenth in 1..=30 {
        let batch = world.batch_until(tenth * SECOND / 10);
        scope.ingest_batch(0, batch);
        let mut done = Vec::new();
        correlator.push(batch, &mut done);
        for journey in &mut done {
            journey.across = Across::within(18_000);
            scope.ingest_journey(journey.clone());
        }
        all.extend(done);
    }
    scope.end();
    scope.apply(Action::ZoomTo { from_ns: from_ns + 976_000_000, to_ns: from_ns + 988_000_000 });
    fill(&mut scope, &all);
    for action in actions {
        scope.apply(action.clone());
        fill(&mut scope, &all);
    }
    scope
}

/// Loads the window that the scope requests.
pub fn fill(scope: &mut Scope, all: &[magscope_core::Journey]) {
    if let Some(window) = scope.wants() {
        let inside = |j: &&magscope_core::Journey| {
            j.start_ns().is_some_and(|ns| ns <= window.to_ns)
                && j.end_ns().is_some_and(|ns| ns >= window.from_ns)
        };
        let journeys = all.iter().filter(inside).cloned().collect();
        scope.fill(Stretch { window, journeys, ..Stretch::default() });
    }
}

/// Forty seconds of the kernel's sums of the same traffic; events too in the first `with_events` seconds.
pub fn summed(with_events: u64) -> Scope {
    let mut scope = Scope::new(info(), Options::default());
    let mut world = MadeUp::new(400.0);
    for number in 0..40 {
        scope.ingest(&made_up::sums::second(&mut world, number, number < with_events));
    }
    scope
}
