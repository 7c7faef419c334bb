//! `magnet-scope ctl` with running captures, and hostile clients of control sockets.

use crate::common;

use common::{as_nobody, eventually, is_root, magnet_scope, run, stderr, stdout, uninterrupted};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tempfile::TempDir;

/// Serialises the tests: listing captures removes sockets of killed ones.
static ALONE: Mutex<()> = Mutex::new(());

pub fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running capture that answers.
struct Running {
    child: Option<Child>,
    pid: u32,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let child = magnet_scope(arguments).spawn().expect("it starts");
        let running = Running { pid: child.id(), child: Some(child) };
        // it answers after its privileges are dropped
        assert!(eventually(|| running.ctl(&["list"]).is_ok()), "{arguments:?} does not answer");
        running
    }

    fn socket(&self) -> PathBuf {
        PathBuf::from(format!("/run/magnet-scope/{}.sock", self.pid))
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a time-out");
        stream
    }

    /// Its answer, or its refusal.
    fn ctl(&self, words: &[&str]) -> Result<Value, String> {
        let pid = self.pid.to_string();
        let output = run(&[&["ctl", "--json", "--pid", &pid], words].concat());
        if output.status.success() {
            Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
        } else {
            Err(stderr(&output))
        }
    }

    /// Its answer as text.
    fn text(&self, words: &[&str]) -> String {
        let output = run(&[&["ctl", "--pid", &self.pid.to_string()], words].concat());
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Ends it with SIGINT; returns its output.
    fn end(mut self) -> (String, String) {
        let ended = Command::new("kill").arg("-INT").arg(self.pid.to_string()).status();
        assert!(ended.is_ok_and(|status| status.success()));
        let output = self.child.take().expect("it runs").wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", stderr(&output));
        (stdout(&output), stderr(&output))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

/// Sends every command to a capture. `changes` are those expected in its session.
fn every_word(running: &Running) -> Vec<String> {
    let mut changes = Vec::new();
    let list = |running: &Running| running.ctl(&["list"]).expect("answered")["list"].clone();
    let before = list(running);
    assert!(names(&before["on"]).contains(&"dev.recv"), "{before}");
    assert!(names(&before["off"]).contains(&"dev.done"), "loaded along, and off: {before}");
    for (words, reported) in [
        (&["disable", "dev.recv"][..], "disable dev.recv"),
        (&["enable", "dev.done,dev.queue"], "enable dev.queue,dev.done"),
        (&["filter", "port 443 and not comm = sshd"], "filter port = 443 and not comm = sshd"),
        (&["sample", "1/10", "dev.xmit"], "sample 1/10 dev.xmit"),
        (&["sample", "flows", "1/16"], "sample flows 1/16"),
        (&["watermark", "latency"], "watermark 1 events 0 bytes 20ms"),
    ] {
        let answer = running.ctl(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert_eq!((&answer["ok"], answer["done"].as_str()), (&Value::Bool(true), Some(reported)));
        changes.push(reported.to_owned());
    }
    let after = list(running);
    assert!(
        !names(&after["on"]).contains(&"dev.recv") && names(&after["off"]).contains(&"dev.recv"),
        "{after}"
    );
    assert!(names(&after["on"]).contains(&"dev.done"), "{after}");
    let settings = names(&after["settings"]).join("; ");
    for part in ["filter port = 443 and not comm = sshd", "sample 1/10 dev.xmit", "sample flows 1/16"] {
        assert!(settings.contains(part), "{settings}");
    }
    let refused =
        running.ctl(&["detail", "histograms"]).expect_err("times would lead from one packet to another");
    assert!(refused.contains("sampler"), "{refused}");
    for (words, reported) in [
        (&["filter", "off"][..], "filter off"),
        (&["sample", "off"], "sample off all\nsample flows 1/1"),
        (&["detail", "histograms"], "detail histograms"),
        (&["detail", "both"], "detail both"),
        (&["detail", "full"], "detail full"),
        (&["watermark", "screen"], "watermark 0 events 0 bytes 20ms"),
        (&["enable", "dev.recv"], "enable dev.recv"),
    ] {
        assert_eq!(running.ctl(words).expect("done")["done"].as_str(), Some(reported));
        changes.extend(reported.lines().map(str::to_owned));
    }
    // invalid commands are refused with a message and change nothing
    for (words, expected) in [
        (&["filter", "prt 4"][..], "port"),
        (&["enable", "dev.xmitt"], "dev.xmit"),
        (&["detail", "compact"], "histograms"),
        (&["enable", "udp.send"], "udp.send"),
        (&["sample", "2/3"], "1/N"),
        (&["detail", "less"], "histograms"),
        (&["filter", "iface = no-such-interface"], "no-such-interface"),
        (&["detach", "all"], "detach"),
    ] {
        let refused = running.ctl(words).expect_err("refused");
        assert!(refused.contains(expected), "{words:?}: {refused}");
    }
    let stats = running.ctl(&["stats"]).expect("answered")["stats"].clone();
    let recorded: u64 = stats["hops"].as_array().expect("hops").iter().filter_map(|h| h["kept"].as_u64()).sum();
    assert!(recorded > 0 && stats["records"].as_u64().is_some_and(|records| records > 0), "{stats}");
    let (list, stats) = (running.text(&["list"]), running.text(&["stats"]));
    assert!(list.starts_with(&running.pid.to_string()) && list.contains("dev.recv"), "{list}");
    assert!(stats.contains("sampled out") && stats.contains("dev.xmit"), "{stats}");
    changes
}

/// Continuous traffic of this host.
struct Traffic {
    end: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Traffic {
    fn start() -> Self {
        let end = std::sync::Arc::<std::sync::atomic::AtomicBool>::default();
        let ended = end.clone();
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is up");
        socket.connect(socket.local_addr().expect("bound")).expect("to itself");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a time-out");
        let thread = std::thread::spawn(move || {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                socket.send(&[1; 100]).expect("sent");
                let _ = socket.recv(&mut [0; 200]);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Traffic { end, thread: Some(thread) }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.end.store(true, std::sync::atomic::Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// A closed session: checks that nothing was lost, and returns its changes.
fn recorded(session: &str) -> Vec<String> {
    let output = run(&["info", "--verify", "--json", session]);
    assert!(output.status.success(), "{}", stderr(&output));
    let info: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&info["closed"], &info["damage"]), (&Value::Bool(true), &serde_json::json!([])), "{info}");
    let changes = info["changes"].as_array().expect("changes").iter();
    changes.filter_map(|change| Some(change["what"].as_str()?.to_owned())).collect()
}

#[test]
fn every_word_works_on_a_recorder_and_stands_in_its_session() {
    if !is_root("changing a recorder") {
        return;
    }
    let _alone = alone();
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session").display().to_string();
    let _traffic = Traffic::start();
    let running = Running::start(&["record", "-o", &session]);
    let (socket, folder) = (fs::metadata(running.socket()), fs::metadata("/run/magnet-scope"));
    let (socket, folder) = (socket.expect("there"), folder.expect("there"));
    assert_eq!((socket.permissions().mode() & 0o777, socket.uid()), (0o600, 0));
    assert_eq!((folder.permissions().mode() & 0o777, folder.uid()), (0o700, 0));
    let changes = every_word(&running);
    let path = running.socket();
    let (_, messages) = running.end();
    assert!(messages.contains("nothing lost"), "{messages}");
    assert!(!path.exists(), "the socket goes with its capture");
    assert_eq!(recorded(&session), changes);
}

#[test]
fn every_word_works_on_a_live_view_and_on_the_demo() {
    if !is_root("changing a live view") {
        return;
    }
    let _alone = alone();
    let _traffic = Traffic::start();
    let live = Running::start(&["live", "--duration", "300s"]);
    let demo = Running::start(&["demo", "--duration", "300s"]);
    // with two captures the pid is required, except for `list`
    let unclear = run(&["ctl", "stats"]);
    assert_eq!(unclear.status.code(), Some(2), "{}", stderr(&unclear));
    assert!(stderr(&unclear).contains("--pid"), "{}", stderr(&unclear));
    let all = stdout(&run(&["ctl", "list"]));
    assert!(all.contains(&live.pid.to_string()) && all.contains(&demo.pid.to_string()), "{all}");
    every_word(&live);
    every_word(&demo);
    live.end();
    demo.end();
}

#[test]
fn whoever_is_not_its_owner_gets_nowhere() {
    if !is_root("refusing another user") {
        return;
    }
    let _alone = alone();
    let dir = TempDir::new().expect("a directory");
    let running = Running::start(&["record", "-o", &dir.path().join("session").display().to_string()]);
    let pid = running.pid.to_string();
    let refused = as_nobody(&dir, &["ctl", "--pid", &pid, "disable", "dev.recv"]).output().expect("it starts");
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("no capture of yours"), "{}", stderr(&refused));
    let list = as_nobody(&dir, &["ctl", "list"]).output().expect("it starts");
    assert!(stdout(&list).contains("no capture runs"), "{}", stdout(&list));
    // nor through the socket itself: its folder is private
    let script = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])";
    let mut direct = Command::new("python3");
    std::os::unix::process::CommandExt::uid(&mut direct, common::NOBODY);
    if let Ok(output) = direct.args(["-c", script]).arg(running.socket()).output() {
        assert!(stderr(&output).contains("PermissionError"), "{}", stderr(&output));
    }
    let on = running.ctl(&["list"]).expect("answered");
    assert!(names(&on["list"]["on"]).contains(&"dev.recv"), "nothing was changed");
    running.end();
}

#[test]
fn a_killed_capture_s_socket_is_in_nobody_s_way() {
    if !is_root("cleaning up after a killed capture") {
        return;
    }
    let _alone = alone();
    let dir = TempDir::new().expect("a directory");
    let mut killed = Running::start(&["record", "-o", &dir.path().join("session").display().to_string()]);
    let (pid, socket) = (killed.pid.to_string(), killed.socket());
    let mut child = killed.child.take().expect("it runs");
    child.kill().expect("it runs"); // SIGKILL
    child.wait().expect("it ends");
    assert!(socket.exists(), "nobody could remove it");
    // The release of probes continues after the end of the process; until then the socket is reachable.
    assert!(eventually(|| UnixStream::connect(&socket).is_err()), "the kernel closes it");
    let asked = run(&["ctl", "--pid", &pid, "stats"]);
    assert_eq!(asked.status.code(), Some(1));
    assert!(stderr(&asked).contains("no capture of yours"), "{}", stderr(&asked));
    assert!(!socket.exists(), "whoever looks clears up");
    assert!(!stdout(&run(&["ctl", "list"])).contains(&pid));
}

/// A complete answer to a question.
fn ask(stream: &UnixStream, question: &str) -> Option<Value> {
    let mut writer = stream;
    writer.write_all(format!("{question}\n").as_bytes()).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

#[test]
fn hostile_peers_hold_nothing_up_and_lose_nothing() {
    if !is_root("hostile peers") {
        return;
    }
    let _alone = alone();
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session").display().to_string();
    let _traffic = Traffic::start();
    let running = Running::start(&["record", "-o", &session]);
    let answers = |when: &str| {
        let stats = running.ctl(&["stats"]);
        assert!(stats.is_ok(), "{when}: {stats:?}");
    };

    // invalid lines are answered with errors
    let garbage = running.connect();
    for nonsense in ["\0\u{1b}[2J", "{\"ok\":true}", "filter (((((((", "", "GET / HTTP/1.1"] {
        let answer = ask(&garbage, nonsense).expect("an answer");
        assert_eq!(answer["ok"], false, "{answer}");
        assert!(answer["error"].as_str().is_some_and(|error| !error.contains('\u{1b}')), "{answer}");
    }
    let mut bytes = running.connect();
    let noise: Vec<u8> = (0..8_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let _ = bytes.write_all(&noise);
    answers("beside noise");

    // a line without end is cut off, and so is a slow one
    let mut endless = running.connect();
    let sent = (0..64).try_for_each(|_| endless.write_all(&vec![b'x'; 65_536]));
    assert!(
        sent.is_err() || uninterrupted(|| endless.read(&mut [0; 1])).is_ok_and(|n| n == 0),
        "4 MiB were swallowed"
    );
    let slow = running.connect();
    let typing = std::thread::spawn(move || {
        let begin = std::time::Instant::now();
        while begin.elapsed() < Duration::from_mins(1) {
            if (&slow).write_all(b"s").is_err() {
                return true; // cut off
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        false
    });
    answers("beside a slow writer");

    // many silent peers, and many that disconnect before the answer
    let idle: Vec<UnixStream> = (0..300).map(|_| running.connect()).collect();
    answers("beside 300 that say nothing");
    for _ in 0..100 {
        let mut gone = running.connect();
        gone.write_all(b"list\n").expect("sent");
        drop(gone);
    }
    answers("after 100 that left");
    drop(idle);

    // some that send without pause, one of which never reads
    let mut deaf = running.connect();
    deaf.set_write_timeout(Some(Duration::from_secs(5))).expect("a time-out");
    let flood = std::thread::spawn(move || {
        let many = "list\n".repeat(2_000);
        let _ = deaf.write_all(many.as_bytes());
        deaf
    });
    let eager = running.connect();
    for _ in 0..200 {
        assert_eq!(ask(&eager, "stats").expect("an answer")["ok"], true);
    }
    answers("beside one that does not read");
    assert!(typing.join().expect("it types"), "a question may take some seconds, not a minute");
    drop(flood.join());
    assert_eq!(running.ctl(&["disable", "dev.recv"]).expect("done")["ok"], true);
    let (_, messages) = running.end();
    assert!(messages.contains("nothing lost"), "{messages}");
    assert_eq!(recorded(&session), ["disable dev.recv"], "nothing else had an effect");
}
