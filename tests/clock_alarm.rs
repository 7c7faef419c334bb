//! `metrics` and `health` of two hosts whose clocks step and claim a wrong UTC: real agents and traffic, with
//! made clocks.

use crate::common::{self, agents, hosts as wired, made_agent, talk, web};

use agents::{AgentChild, LAX, on, run_on, scene};
use common::{eventually, is_root, stderr};
use made_agent::MadeAgent;
use serde_json::Value;
use std::net::SocketAddr;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use talk::Talk;
use wired::in_namespace;

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no JSON: {output:?}"))
}

/// A check of the pair.
fn check(answer: &Value, name: &str) -> Value {
    let checks = answer["clocks"][0]["checks"].as_array().unwrap_or_else(|| panic!("no pair: {answer}"));
    checks.iter().find(|check| check["name"] == name).expect(name).clone()
}

/// A viewer of two agents with made clocks.
struct Viewer<'h> {
    namespace: &'h str,
    both: String,
}

impl Viewer<'_> {
    fn text(&self) -> String {
        let at = SocketAddr::from(([127, 0, 0, 1], 9464));
        let answer = in_namespace(self.namespace, || web::get(at, "/metrics", ""));
        answer.map_or_else(String::new, |answer| answer.body)
    }

    /// The value of a series.
    fn figure(&self, series: &str) -> Option<String> {
        let text = self.text();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(line.to_owned())
    }

    fn becomes(&self, series: &str, wanted: &str) {
        let there = eventually(|| self.figure(series).is_some_and(|value| value == wanted));
        assert!(there, "{series}: {}", self.text());
    }

    fn health(&self, more: &[&str]) -> Output {
        let arguments = ["health", "--connect", &self.both];
        run_on(self.namespace, &[&arguments, &LAX[..], &["--max-retransmit", "100%"], more].concat())
    }

    /// Two clocks that are well, and a limit that no bound keeps.
    fn is_well(&self) {
        self.becomes(&state("certified"), "1");
        let seconds =
            self.figure(&pair("half_width_seconds")).expect("a bound").parse::<f64>().expect("a number");
        assert!(seconds > 0.0 && seconds < 1.0, "{seconds}");
        assert_eq!(self.figure(&pair("steps_total")).as_deref(), Some("0"));
        let well = self.health(&["--max-clock-error", "1s"]);
        let of = answer(&well);
        assert_eq!(well.status.code(), Some(0), "{well:?}");
        assert_eq!(of["clocks"].as_array().map(Vec::len), Some(1), "{of}");
        assert!(
            of["clocks"][0]["state"] == "certified" && of["hosts"].as_array().map(Vec::len) == Some(2),
            "{of}"
        );
        let narrow = self.health(&["--max-clock-error", "1ns"]);
        let wide = check(&answer(&narrow), "clock_error");
        assert!(
            narrow.status.code() == Some(1) && wide["state"] == "not-ok" && !wide["next"].is_null(),
            "{wide}"
        );
        let words = stderr(&narrow);
        assert!(words.contains("one and two: clock_error is") && words.contains("next step"), "{words}");
    }

    fn shows_a_step(&self, of: &MadeAgent) {
        of.clock.step(50_000_000);
        self.becomes(&pair("steps_total"), "1");
        let mut stepped = self.health(&[]);
        assert!(eventually(|| {
            stepped = self.health(&[]);
            stepped.status.code() == Some(1)
        }));
        let step = check(&answer(&stepped), "clock_steps");
        assert!(
            step["value"] == 1.0 && step["because"].as_str().is_some_and(|why| why.contains("+0.0")),
            "{step}"
        );
        assert_eq!(self.health(&["--max-clock-steps", "1"]).status.code(), Some(0));
    }

    /// Both claim a tenth of a second, and one is two seconds off.
    fn shows_a_refuted_source(&self, agents: [&MadeAgent; 2]) {
        for agent in agents {
            agent.clock.claim(100_000_000);
        }
        self.becomes("magnet_scope_utc_error_seconds{host=\"one\"}", "0.1");
        assert_eq!(self.figure(&pair("sources_refuted_total")).as_deref(), Some("0"));
        agents[1].clock.set(2_000_000_000);
        self.becomes(&pair("sources_refuted_total"), "1");
        self.becomes("magnet_scope_clock_breaks_total{host=\"two\",kind=\"realtime\"}", "1");
        let refuted = answer(&self.health(&["--max-clock-steps", "1"]));
        assert_eq!(check(&refuted, "clock_sources_refuted")["state"], "not-ok", "{refuted}");
    }
}

fn state(name: &str) -> String {
    format!("magnet_scope_clock_state{{a=\"one\",b=\"two\",state=\"{name}\"}}")
}

fn pair(name: &str) -> String {
    format!("magnet_scope_clock_{name}{{a=\"one\",b=\"two\"}}")
}

#[test]
fn steps_wide_bounds_and_refuted_sources_of_two_hosts_are_alarms() {
    if !is_root("alarms of clocks") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("alarm") else { return };
    let real = [false, true].map(|server| AgentChild::start(&hosts, server, &tls, dir.path(), &[]));
    let socket = |name: &str| dir.path().join(format!("{name}.sock"));
    let one = MadeAgent::start(&socket("client"), dir.path(), "one", 0);
    let two = MadeAgent::start(&socket("server"), dir.path(), "two", 3_600_123_456_789);
    let viewer = Viewer { namespace: &hosts.names[0], both: format!("{},{}", one.address, two.address) };
    let metrics = on(viewer.namespace, &["metrics", "--connect", &viewer.both]);
    let talks = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let talker = scope.spawn(|| {
            let talk = Talk::new(&hosts);
            while talks.load(Relaxed) {
                talk.exchange(10, Duration::from_millis(2));
            }
        });
        // A failed assertion ends the traffic, too.
        let _end = EndOnDrop(&talks);
        viewer.is_well();
        viewer.shows_a_step(&two);
        viewer.shows_a_refuted_source([&one, &two]);
        // Without packets the bounds grow.
        talks.store(false, Relaxed);
        talker.join().expect("traffic");
        viewer.becomes(&state("holdover"), "1");
    });
    assert!(metrics.end().status.success());
    drop((one, two));
    for agent in real {
        agent.end();
    }
}

/// Ends the traffic.
struct EndOnDrop<'t>(&'t AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}
