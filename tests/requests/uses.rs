//! Requests in comparisons, triggers and metrics, held against what their clients noted.

use super::servers::{PAGE, REDIS, page, talk};
use super::{found, ns, recorded, scene, servers};
use crate::common::agents::on;
use crate::common::hosts::in_namespace;
use crate::common::web::get;
use crate::common::{eventually, run, stderr};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

#[test]
fn a_comparison_names_the_part_of_requests_that_changed() {
    const TEST: &str = "compared requests";
    const RUNS: usize = 3;
    // Times of one run resemble each other, so that fewer are worth too little for an interval.
    const REQUESTS: usize = 400;
    let Some((hosts, _)) = scene(TEST) else { return };
    let _page = servers::page_server(&hosts);
    let side = |word: &'static str| {
        let dirs: Vec<_> = (0..RUNS).map(|_| tempfile::tempdir().expect("a directory")).collect();
        let record = |dir| recorded(&hosts, &[0, 2], "default", dir, || page(&hosts, &[word; REQUESTS])).0;
        let paths = dirs.iter().map(record).map(|path| path.display().to_string()).collect::<Vec<_>>();
        (dirs, paths)
    };
    let ((_before, a), (_after, b)) = (side("ping"), side("rest"));
    let mut arguments = vec!["compare", "--json"];
    arguments.extend(a.iter().map(String::as_str));
    arguments.push("--");
    arguments.extend(b.iter().map(String::as_str));
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let compared: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let services = compared["services"].as_array().expect("services");
    let service = services.iter().find(|of| of["service"] == format!(":{PAGE} python3"));
    let service = service.unwrap_or_else(|| panic!("{services:?}"));
    assert_eq!(service["total"]["n_a"], RUNS * REQUESTS, "{service}");
    let change = |part: &str| {
        let parts = service["parts"].as_array().expect("parts");
        parts.iter().find(|of| of["part"] == part).expect(part)["p50"].clone()
    };
    let answer = change("until-answered");
    assert_eq!(answer["change"], "slower", "{service}");
    // It rests for 5 ms.
    assert!(ns(&answer, "at_most_ns") >= 5_000_000 && answer["b_ns"].as_u64() >= Some(5_000_000), "{answer}");
    let grades = service["grades"].as_array().expect("grades");
    assert!(grades.iter().any(|share| share["kind"] == "turn" && share["differs"] == false), "{grades:?}");
}

#[test]
fn a_trigger_saves_what_lies_around_a_slow_request() {
    const TEST: &str = "a slow request as a trigger";
    let Some((hosts, dir)) = scene(TEST) else { return };
    let _page = servers::page_server(&hosts);
    let saved = dir.path().join("saved");
    let [session, saved_path] = ["session", "saved"].map(|name| dir.path().join(name).display().to_string());
    let mut arguments = vec!["record", "-o", &session, "--save-on-trigger", &saved_path, "--single"];
    arguments.extend(["--trigger", "request(total > 400ms and port = 7000)"]);
    arguments.extend(["--netns", &hosts.names[0], "--netns", &hosts.names[2]]);
    let recorder = on(&hosts.names[0], &arguments);
    assert!(eventually(|| dir.path().join("session/meta.toml").exists()), "it records");
    let words = [&["ping"; 10][..], &["sleep"], &["ping"; 10]].concat();
    let talk = page(&hosts, &words);
    let ended = recorder.end();
    assert!(ended.status.success(), "{}", stderr(&ended));
    let sessions: Vec<PathBuf> =
        fs::read_dir(&saved).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(sessions.len(), 1, "{}", stderr(&ended));
    let (_, slow) = found(&sessions[0], &["--where", "total > 400ms"]);
    assert_eq!(slow.len(), 1, "{slow:?}");
    let (begin_ns, end_ns, _) = talk.notes[10];
    let start_ns = ns(&slow[0], "start_ns");
    assert!(begin_ns <= start_ns && start_ns + ns(&slow[0], "total_ns") <= end_ns, "{}", slow[0]);
}

/// The value of a series with these labels.
fn figure(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let line = lines.find(|line| line.starts_with('{') && labels.iter().all(|label| line.contains(label)))?;
    line.rsplit_once("} ")?.1.parse().ok()
}

#[test]
fn metrics_count_the_requests_of_a_service() {
    const TEST: &str = "requests in metrics";
    const MANY: usize = 200;
    let Some((hosts, _)) = scene(TEST) else { return };
    let files = tempfile::tempdir().expect("a directory");
    let Some(_redis) = servers::redis(TEST, &hosts, &files) else { return };
    let server = &hosts.names[2];
    let mut arguments = vec!["metrics", "--listen", "127.0.0.1:9464"];
    arguments.extend(["--netns", &hosts.names[0], "--netns", server]);
    assert!(crate::common::hosts::ip(&["-n", server, "link", "set", "lo", "up"]));
    let metrics = on(server, &arguments);
    let port = || "127.0.0.1:9464".parse().expect("an address");
    let text = || in_namespace(server, || get(port(), "/metrics", "")).map(|answer| answer.body);
    assert!(eventually(|| text().is_some_and(|text| text.contains("hop_served"))), "it answers");
    let talk = talk(&hosts, "redis", REDIS, MANY, "");
    let of_redis = ["port=\"6379\"", "process=\"redis-server\""];
    let turns = [&of_redis[..], &["grade=\"turn\""]].concat();
    let mut last = String::new();
    let all_came = eventually(|| {
        last = text().unwrap_or_default();
        figure(&last, "magnet_scope_exchanges_total", &turns) == Some(MANY as f64)
    });
    assert!(all_came, "{last}");
    metrics.end();
    let requests = figure(&last, "magnet_scope_request_seconds_count", &of_redis);
    let answers = figure(&last, "magnet_scope_answer_seconds_count", &of_redis);
    assert_eq!((requests, answers), (Some(MANY as f64), Some(MANY as f64)));
    // Each lies within its call.
    let seconds = figure(&last, "magnet_scope_request_seconds_sum", &of_redis).expect("a sum");
    let called_ns: u64 = talk.notes.iter().map(|(begin_ns, end_ns, _)| end_ns - begin_ns).sum();
    assert!(seconds > 0.0 && seconds <= called_ns as f64 / 1e9, "{seconds} s in {called_ns} ns");
}
