//! Agents on two hosts and a viewer on a third, over mutual TLS, with real traffic.

use crate::common::{self, agents, exports, hosts as wired, service, talk, terminal};

use agents::{AgentChild, on, run_on, scene};
use common::{as_nobody, eventually, is_root, run, stderr, stdout};
use serde_json::Value;
use service::Service;
use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use talk::{
    DATAGRAMS, Talk, are_complete, came, events, info, journeys, locally, recordings, traffic, verdicts,
    without_wake_ups,
};
use terminal::Terminal;
use wired::{CLIENT, RecorderChild, SERVER, in_namespace};

const BOTH: &str = "10.77.1.2,10.77.2.2";

#[test]
fn hosts_are_recorded_from_a_third_as_they_record_themselves() {
    if !is_root("agents") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("agents") else { return };
    let client = AgentChild::start(&hosts, false, &tls, dir.path(), &[]);
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &["--health", "200ms"]);
    let own = ["own-client", "own-server"].map(|name| dir.path().join(name));
    let recorders = [
        RecorderChild::start(&hosts.names[0], &own[0].display().to_string()),
        RecorderChild::start(&hosts.names[2], &own[1].display().to_string()),
    ];
    let far = dir.path().join("far");
    let far_name = far.display().to_string();
    let viewer = on(&hosts.names[1], &["record", "--connect", BOTH, "--tls", &tls, "-o", &far_name]);
    assert!(client.printed("me reads") && server.printed("me reads"));
    traffic(&hosts, Duration::from_millis(3));
    // The viewer's recordings end with what has come to it.
    let _came = eventually(|| are_complete(&recordings(&far), DATAGRAMS * 2));
    recorders.into_iter().for_each(RecorderChild::end);
    let ended = viewer.end();
    assert!(ended.status.success(), "{}", stderr(&ended));
    let far = recordings(&far);
    assert_eq!(far.len(), 2, "{}", stderr(&ended));
    for dir in &far {
        let info = info(dir);
        assert!(info["closed"] == true && info["lost"].as_u64().unwrap_or(0) == 0, "{info}");
    }
    let (near, far) = (journeys(&[&own[0], &own[1]]), journeys(&[&far[0], &far[1]]));
    assert_eq!(far.values().sum::<usize>(), DATAGRAMS * 2, "{far:#?}");
    assert!(far.keys().all(|what| what.contains("\"complete\"")), "{far:#?}");
    assert_eq!(without_wake_ups(&near), without_wake_ups(&far));
    assert!(server.printed("health: ") && server.printed(" 0 lost, "), "it says how it stands");
    client.end();
    server.end();
}

#[test]
fn hosts_are_shown_live_and_a_trigger_of_one_saves_both_ends() {
    if !is_root("agents on the screen") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("watch") else { return };
    let client = AgentChild::start(&hosts, false, &tls, dir.path(), &[]);
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    let target = dir.path().join("kept");
    let saved_name = target.display().to_string();
    let arguments = ["--connect", BOTH, "--tls", &tls];
    let trigger = ["--trigger", "hop(dev.recv,app.recv) > 40ms", "--single", "--trigger-window", "300ms"];
    let save = ["--save-on-trigger", &saved_name];
    let arguments: Vec<&str> = arguments.iter().chain(&trigger).chain(&save).copied().collect();
    let mut terminal = in_namespace(&hosts.names[1], || Terminal::start(&arguments, dir.path(), 120, 40));
    terminal.shows("armed");
    assert!(client.printed("me reads") && server.printed("me reads"));
    traffic(&hosts, Duration::from_millis(60));
    terminal.keys("4");
    terminal.shows(&format!("{SERVER}:7001"));
    let saved = || -> Vec<PathBuf> {
        let hosts = fs::read_dir(&target).into_iter().flatten().flatten();
        let mut all: Vec<_> = hosts.flat_map(|host| recordings(&host.path())).collect();
        all.sort();
        all
    };
    assert!(
        eventually(|| saved().len() == 2 && saved().iter().all(|dir| info(dir)["closed"] == true)),
        "{}",
        terminal.text()
    );
    let saved = saved();
    // The picture has both ends: journeys from one host to the other, and nothing from other times.
    let both = journeys(&[&saved[0], &saved[1]]);
    let whole =
        |what: &&String| what.contains("app.send") && what.contains("app.recv") && what.contains("300 bytes");
    assert!(both.keys().any(|what| whole(&what)), "{both:#?}");
    for dir in &saved {
        let span_ns = info(dir)["duration_ns"].as_u64();
        assert!(span_ns.is_some_and(|ns| ns <= 310_000_000), "only what was asked for: {span_ns:?}");
    }

    // One agent ends and returns: the outage is reported, and the picture continues.
    client.kill();
    terminal.shows("trying again");
    let client = AgentChild::start(&hosts, false, &tls, dir.path(), &[]);
    terminal.shows("is back");
    terminal.keys("q");
    assert!(terminal.ends());
    client.end();
    server.end();
}

#[test]
fn a_recording_goes_on_when_an_agent_or_the_line_was_away() {
    if !is_root("agents that go away") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("away") else { return };
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    let far = dir.path().join("far");
    let far_name = far.display().to_string();
    let viewer = on(&hosts.names[1], &["record", "--connect", SERVER, "--tls", &tls, "-o", &far_name]);
    assert!(server.printed("me reads"));
    traffic(&hosts, Duration::from_millis(1));
    let recording = || recordings(&far).first().cloned().unwrap_or_default();
    assert!(eventually(|| events(&recording()) > 0));
    // The connection to the server is cut; its agent stores the events meanwhile.
    let link = |state: &str| assert!(wired::ip(&["-n", &hosts.names[1], "link", "set", "r2", state]));
    link("down");
    locally(&hosts, 200);
    std::thread::sleep(Duration::from_secs(1));
    link("up");
    let came = |bytes| came(&recording(), bytes);
    assert!(eventually(|| came(200) == DATAGRAMS), "{:?}", verdicts(&recording(), 200));

    // The agent is killed and replaced.
    server.kill();
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    assert!(server.printed("me reads"));
    locally(&hosts, 100);
    let read = || talk::read(&recording(), 100);
    assert!(eventually(|| read() == DATAGRAMS), "{:?}", verdicts(&recording(), 100));
    let ended = viewer.end();
    assert!(ended.status.success(), "{}", stderr(&ended));
    assert!(
        stderr(&ended).contains("trying again") && stderr(&ended).contains("is back"),
        "{}",
        stderr(&ended)
    );
    assert_eq!((came(200), read()), (DATAGRAMS, DATAGRAMS), "each once");
    assert_eq!(verdicts(&recording(), 100).values().sum::<usize>(), DATAGRAMS, "and nothing else");
    let losses = info(&recording())["losses"].clone();
    assert_eq!(losses["missed"], 1, "what came between the two agents nobody has seen: {losses}");
    server.end();
}

#[test]
fn a_relay_is_an_agent_to_its_viewers() {
    if !is_root("a relay") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("relay") else { return };
    let client = AgentChild::start(&hosts, false, &tls, dir.path(), &[]);
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    let socket = dir.path().join("relay.sock").display().to_string();
    let arguments = ["relay", "--connect", BOTH, "--tls", &tls, "--identity", "relay-hub", "--socket", &socket];
    let relay = on(&hosts.names[1], &arguments);
    assert!(
        client.printed("hub reads") && server.printed("hub reads"),
        "a relay's certificate is a permission"
    );
    assert!(eventually(|| Path::new(&socket).exists()));
    // A local viewer needs no network.
    let far = dir.path().join("far");
    let (far_name, address) = (far.display().to_string(), format!("unix:{socket}"));
    assert!(eventually(|| run(&["agent", "about", &address]).status.success()));
    let viewer = on(&hosts.names[1], &["record", "--connect", &address, "-o", &far_name]);
    assert!(eventually(|| recordings(&far).len() == 2));
    let reading = || -> u64 {
        let about = run(&["agent", "about", &address, "--json"]);
        serde_json::from_slice::<Value>(&about.stdout).expect("JSON")["streams"].as_u64().unwrap_or(0)
    };
    assert!(eventually(|| reading() == 2));
    traffic(&hosts, Duration::from_millis(3));
    let _came = eventually(|| are_complete(&recordings(&far), DATAGRAMS * 2));
    for child in [viewer, relay] {
        let ended = child.end();
        assert!(ended.status.success(), "{}", stderr(&ended));
    }
    let far = recordings(&far);
    let came = journeys(&[&far[0], &far[1]]);
    assert_eq!(came.values().sum::<usize>(), DATAGRAMS * 2, "{came:#?}");
    assert!(came.keys().all(|what| what.contains("\"complete\"")), "both ends of each: {came:#?}");
    client.end();
    server.end();
}

#[test]
fn a_host_that_comes_later_joins_the_picture_the_recording_and_the_relay() {
    if !is_root("agents that come later") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("later") else { return };
    let client = AgentChild::start(&hosts, false, &tls, dir.path(), &[]);
    let socket = dir.path().join("relay.sock").display().to_string();
    let relay = ["relay", "--connect", BOTH, "--tls", &tls, "--identity", "relay-hub", "--socket", &socket];
    let relay = on(&hosts.names[1], &relay);
    let address = format!("unix:{socket}");
    assert!(eventually(|| run(&["agent", "about", &address]).status.success()));
    let far = dir.path().join("far");
    let far_name = far.display().to_string();
    let viewer = on(&hosts.names[1], &["record", "--connect", BOTH, "--tls", &tls, "-o", &far_name]);
    let mut terminal = Terminal::start(&["--connect", &address], dir.path(), 120, 40);
    assert!(eventually(|| recordings(&far).len() == 1));
    assert!(client.printed("hub reads") && client.printed("me reads"));

    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    assert!(server.printed("hub reads") && server.printed("me reads"));
    assert!(eventually(|| recordings(&far).len() == 2));
    terminal.shows(" is here");
    traffic(&hosts, Duration::from_millis(3));
    terminal.keys("4");
    terminal.shows(&format!("{SERVER}:7001"));
    terminal.keys("q");
    assert!(terminal.ends());
    let _came = eventually(|| are_complete(&recordings(&far), DATAGRAMS * 2));
    let ended = viewer.end();
    let messages = stderr(&ended);
    assert!(ended.status.success() && messages.contains("is not there yet, waiting for it"), "{messages}");
    assert!(relay.end().status.success());
    let far = recordings(&far);
    let came = journeys(&[&far[0], &far[1]]);
    assert_eq!(came.values().sum::<usize>(), DATAGRAMS * 2, "{came:#?}");
    assert!(came.keys().all(|what| what.contains("\"complete\"")), "both ends of each: {came:#?}");
    client.end();
    server.end();
}

#[test]
fn a_viewers_full_disk_is_its_own_affair() {
    if !is_root("a viewer's full disk") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("trouble") else { return };
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (good, full) = (path("good"), path("full"));
    let viewer = on(&hosts.names[1], &["record", "--connect", SERVER, "--tls", &tls, "-o", &good]);
    // A separate mount namespace: the small disk disappears with the shell.
    let script = "mkdir \"$1\" && mount -t tmpfs -o size=256k tmpfs \"$1\" || exit 77
                  \"$0\" record --connect \"$2\" --tls \"$3\" -o \"$1/far\"; echo \"ended with $?\"";
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_magnet-scope"), &full, SERVER, &tls]);
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    let full_viewer = in_namespace(&hosts.names[1], || shell.spawn().expect("unshare runs"));
    let reading = || -> u64 {
        let about = run(&["agent", "about", &format!("unix:{}", path("server.sock")), "--json"]);
        serde_json::from_slice::<Value>(&about.stdout).expect("JSON")["streams"].as_u64().unwrap_or(0)
    };
    assert!(eventually(|| reading() == 2), "{} read", reading());
    let talk = Talk::new(&hosts);
    let exchanges = 2_000;
    talk.exchange(exchanges, Duration::ZERO);
    let full_ended = full_viewer.wait_with_output().expect("it ends by itself");
    if full_ended.status.code() == Some(77) {
        common::skipped("a viewer's full disk", "no tmpfs can be mounted here");
    } else {
        let (messages, shown) = (stderr(&full_ended), stdout(&full_ended));
        assert!(shown.contains("ended with 1") && messages.contains("No space left"), "{shown}\n{messages}");
    }
    locally(&hosts, 77);
    let last = || recordings(Path::new(&good)).first().map_or(0, |dir| came(dir, 77));
    assert!(eventually(|| last() == DATAGRAMS), "{} of {DATAGRAMS}", last());
    assert!(viewer.end().status.success());
    let losses = info(&recordings(Path::new(&good))[0])["losses"].clone();
    assert_eq!(losses["missed"], 0, "who keeps up misses nothing: {losses}");
    let exchanged: usize = journeys(&[&recordings(Path::new(&good))[0]]).values().sum();
    assert_eq!(exchanged, exchanges * 2);
    server.end();
}

#[test]
fn an_agent_answers_its_own_host_and_nobody_else_without_a_certificate() {
    if !is_root("an agent's socket") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("door") else { return };
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    let socket = format!("unix:{}", dir.path().join("server.sock").display());
    let about = run(&["agent", "about", &socket, "--json"]);
    assert!(about.status.success(), "{}", stderr(&about));
    let about: Value = serde_json::from_slice(&about.stdout).expect("JSON");
    assert_eq!(about["hosts"][0]["ended"], false, "{about}");

    let refused = as_nobody(&dir, &["agent", "about", &socket]).output().expect("it starts");
    assert!(!refused.status.success() && stderr(&refused).contains("ermission denied"), "{}", stderr(&refused));
    let twice = run_on(&hosts.names[2], &["agent", "--socket", &socket["unix:".len()..]]);
    assert!(!twice.status.success() && stderr(&twice).contains("listens at"), "{}", stderr(&twice));

    // A newly revoked viewer.
    let ask = || run_on(&hosts.names[1], &["agent", "about", SERVER, "--tls", &tls]);
    let answered = ask();
    assert!(answered.status.success(), "{}", stderr(&answered));
    assert!(stdout(&answered).contains("MiB kept"), "{}", stdout(&answered));
    assert!(run(&["agent", "revoke", &tls, "viewer-me"]).status.success());
    let refused = ask();
    let messages = stderr(&refused);
    assert!(!refused.status.success(), "{messages}");
    for words in ["evoked", "likely cause: your certificate", "next step:"] {
        assert!(messages.contains(words), "{words}: {messages}");
    }
    assert!(server.printed("is not let in: "), "the agent says so too");

    // A closed port.
    let silent = run_on(&hosts.names[1], &["agent", "about", CLIENT, "--tls", &tls]);
    assert!(stderr(&silent).contains("no agent listens there"), "{}", stderr(&silent));
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    assert_eq!(common::field(&status, "CapEff"), Some("0000000000000000"), "it serves without any privilege");
    server.end();
    assert!(!dir.path().join("server.sock").exists());
}

#[test]
fn pyarrow_reads_an_agent() {
    if !is_root("pyarrow's Flight client") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("py") else { return };
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    traffic(&hosts, Duration::from_millis(1));
    std::thread::sleep(Duration::from_millis(300));
    let arguments = [Path::new(SERVER), Path::new(&tls), Path::new("viewer-me")];
    let read = || exports::client("pyarrow's Flight client", "pyarrow.flight", "flight.py", &arguments);
    let Some(output) = in_namespace(&hosts.names[1], read) else { return };
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // The read data is complete: every datagram passed the server's device, reached its socket, and was read.
    assert_eq!(found["datagrams"], DATAGRAMS, "{found}");
    assert_eq!(found["filtered"], DATAGRAMS, "{found}");
    let tables = found["tables"].as_array().expect("names");
    assert!(
        ["packets", "events", "flows", "clock"].iter().all(|name| tables.contains(&Value::from(*name))),
        "{found}"
    );
    assert_eq!(found["packets"], found["events"], "the tables and the packets say the same: {found}");
    let worked_out = (&found["journeys"], &found["reads"], &found["in_periods"]);
    let each = Value::from(DATAGRAMS);
    assert_eq!(worked_out, (&each, &each, &each), "{found}");
    assert_eq!(found["verdicts"], Value::from(vec!["half"]), "the sender is another host's: {found}");
    assert!(found["refused"].as_str().is_some_and(|words| words.contains("there is no table")), "{found}");
    server.end();
}

#[test]
fn journeys_and_sums_are_pushed_as_they_come() {
    if !is_root("what an agent works out") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("push") else { return };
    let server = AgentChild::start(&hosts, true, &tls, dir.path(), &[]);
    let enough = AtomicBool::new(false);
    let talk = Talk::new(&hosts);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !enough.load(Ordering::Relaxed) {
                talk.exchange(1, Duration::from_millis(1));
            }
        });
        let arguments = [Path::new(SERVER), Path::new(&tls), Path::new("viewer-me"), Path::new("pushed")];
        let read = || exports::client("pyarrow's Flight client", "pyarrow.flight", "flight.py", &arguments);
        let output = in_namespace(&hosts.names[1], read);
        enough.store(true, Ordering::Relaxed);
        output
    });
    let Some(output) = output else { return };
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(found["journeys"].as_u64() >= Some(100), "{found}");
    assert_eq!(found["alike"], serde_json::json!([[300, "half"]]), "{found}");
    assert_eq!(found["every_ns"], serde_json::json!([200_000_000]), "{found}");
    assert!(found["periods"].as_u64() >= Some(3) && found["of_them"].as_u64() >= Some(10), "{found}");
    server.end();
}

const SERVICE: Service = Service::named("magnet-scope-agent");

#[test]
fn the_service_is_one_that_systemd_takes() {
    SERVICE.is_one_that_systemd_takes();
}

#[test]
fn an_agent_needs_no_more_than_its_service_gives_it() {
    if !is_root("an agent with few capabilities") || !exports::tool("an agent with few capabilities", "setpriv")
    {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("agent.sock").display().to_string();
    let mut agent = SERVICE.binary();
    agent.args(["agent", "--socket", &socket, "--duration", "2s"]);
    let agent = agent.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // Traffic until the end.
    let (ended, own) = (AtomicBool::new(false), UdpSocket::bind("127.0.0.1:0").expect("a port"));
    own.connect(own.local_addr().expect("bound")).expect("itself");
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                own.send(&[1; 100]).expect("sent");
                own.recv(&mut [0; 200]).expect("read");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let output = agent.wait_with_output().expect("it ends");
        ended.store(true, Ordering::Relaxed);
        output
    });
    let messages = stderr(&output);
    assert!(
        output.status.success() && messages.contains("listening at") && messages.contains(", 0 lost"),
        "{messages}"
    );
    assert!(!messages.contains("ended: 0 records"), "{messages}");
}
