//! Attacks on the resources of an agent and a relay: slow readers, endless handshakes, and log floods.

use crate::common::agents::{run_on, scene};
use crate::common::hosts::{Hosts, SERVER, in_namespace};
use crate::common::service::Service;
use crate::common::{eventually, is_root, run, skipped, stderr};
use arrow_flight::Ticket;
use magscope_fleet::pki::Folder;
use magscope_fleet::{Address, Credentials, dial};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::Code;

/// Ports of the agent and the relay, both on the server.
const PLACES: [(&str, u16); 2] = [("agent", 6246), ("relay", 6247)];
/// Number of concurrent unfinished handshakes.
const HALF_OPEN: usize = 70;
/// Number of slow streams of a guest.
const SLOW: usize = 33;

/// A memory cgroup with the limit of the packaged unit.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str, limit: &str) -> Result<Self, String> {
        // Tests of one process run concurrently.
        static NTH: AtomicUsize = AtomicUsize::new(0);
        let (old, unified) = (Path::new("/sys/fs/cgroup/memory"), Path::new("/sys/fs/cgroup"));
        let has_memory = fs::read_to_string(unified.join("cgroup.subtree_control"))
            .is_ok_and(|list| list.split_whitespace().any(|one| one == "memory"));
        let (root, file) = match () {
            () if old.join("memory.limit_in_bytes").exists() => (old, "memory.limit_in_bytes"),
            () if has_memory => (unified, "memory.max"),
            () => return Err("there is no memory controller, neither of cgroup v1 nor of v2".to_owned()),
        };
        let nth = NTH.fetch_add(1, Ordering::Relaxed);
        let path = root.join(format!("ms-{}-{nth}-{name}", std::process::id()));
        fs::create_dir(&path).map_err(|error| format!("{} cannot be made: {error}", path.display()))?;
        let cgroup = Cgroup(path);
        fs::write(cgroup.0.join(file), limit).map_err(|error| format!("{file} cannot be set: {error}"))?;
        Ok(cgroup)
    }

    /// Peak memory, bytes, and the number of out-of-memory kills.
    fn peak_and_kills(&self) -> (u64, u64) {
        let read = |name: &str| fs::read_to_string(self.0.join(name)).unwrap_or_default();
        let number = |text: &str| text.trim().parse().ok();
        let peak = number(&read("memory.max_usage_in_bytes")).or_else(|| number(&read("memory.peak")));
        let events = read("memory.oom_control") + &read("memory.events");
        let kills = events.lines().find_map(|line| number(line.strip_prefix("oom_kill ")?));
        (peak.unwrap_or_default(), kills.unwrap_or_default())
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its processes have ended, which the kernel may notice a little later.
        eventually(|| fs::remove_dir(&self.0).is_ok());
    }
}

/// An agent or a relay under attack, in a cgroup if possible.
struct Victim {
    child: Child,
    messages: Arc<Mutex<Vec<String>>>,
    cgroup: Result<Cgroup, String>,
}

impl Victim {
    fn start(hosts: &Hosts, name: &str, arguments: &[&str]) -> Self {
        let limit = Service::named("magnet-scope-agent").value("MemoryMax=");
        let cgroup = Cgroup::new(name, &limit);
        let mut command = Command::new("sh");
        // Without a cgroup the process stays in its own.
        let procs = cgroup.as_ref().map_or("/dev/null".into(), |cgroup| cgroup.0.join("cgroup.procs"));
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(procs);
        command.arg(env!("CARGO_BIN_EXE_magnet-scope")).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = in_namespace(&hosts.names[2], || command.spawn().expect("a shell"));
        let messages = Arc::new(Mutex::new(Vec::new()));
        let (lines, stderr) = (messages.clone(), child.stderr.take().expect("piped"));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().expect("no panic").push(line);
            }
        });
        let victim = Victim { child, messages, cgroup };
        assert!(eventually(|| victim.messages().iter().any(|line| line.contains("listening at unix:"))));
        victim
    }

    fn messages(&self) -> Vec<String> {
        self.messages.lock().expect("no panic").clone()
    }

    fn end(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is there");
        assert!(self.child.wait().expect("it ends").success(), "{:?}", self.messages());
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // A failed test leaves no process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const KEYS: [&str; 2] = ["--identity", "host-server"];

/// An agent.
fn agent(hosts: &Hosts, dir: &Path, tls: &str) -> Victim {
    let socket = dir.join("agent.sock").display().to_string();
    let at = format!("{SERVER}:{}", PLACES[0].1);
    let agent = ["agent", "--listen", &at, "--socket", &socket, "--watch-socket", "off", "--tls", tls];
    let capture = ["--hops", "all", "--max-overhead", "off", "--memory", "256MiB"];
    Victim::start(hosts, "agent", &[&agent[..], &KEYS, &capture].concat())
}

/// A relay that reads the agent.
fn relay(hosts: &Hosts, dir: &Path, tls: &str) -> Victim {
    let address = format!("unix:{}", dir.join("agent.sock").display());
    let socket = dir.join("relay.sock").display().to_string();
    let at = format!("{SERVER}:{}", PLACES[1].1);
    let relay = ["relay", "--connect", &address, "--listen", &at, "--socket", &socket, "--tls", tls];
    Victim::start(hosts, "relay", &[&relay[..], &KEYS, &["--memory", "256MiB"]].concat())
}

/// Its description for a viewer with TLS, in one attempt.
fn about(hosts: &Hosts, port: u16, tls: &str, identity: &str) -> Result<Value, String> {
    let address = format!("{SERVER}:{port}");
    let arguments = ["agent", "about", &address, "--tls", tls, "--identity", identity, "--json"];
    let output = run_on(&hosts.names[1], &arguments);
    if !output.status.success() {
        return Err(stderr(&output));
    }
    Ok(serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn unfinished_handshakes_lock_nobody_out_and_do_not_fill_the_log() {
    if !is_root("unfinished handshakes") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("halfopen") else { return };
    let victims = [agent(&hosts, dir.path(), &tls), relay(&hosts, dir.path(), &tls)];
    for ((name, port), victim) in PLACES.into_iter().zip(&victims) {
        let open = || in_namespace(&hosts.names[1], || TcpStream::connect((SERVER, port)).expect("it listens"));
        let ended = AtomicBool::new(false);
        let answers: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Closed connections are replaced at once.
                let mut silent: Vec<TcpStream> = (0..HALF_OPEN).map(|_| open()).collect();
                while !ended.load(Ordering::Relaxed) {
                    for stream in &mut silent {
                        stream.set_nonblocking(true).expect("a socket");
                        let waits = matches!(stream.peek(&mut [0]), Err(e) if e.kind() == std::io::ErrorKind::WouldBlock);
                        if !waits {
                            *stream = open();
                        }
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let answers = (0..10).map(|_| about(&hosts, port, &tls, "viewer-me").err()).collect();
            ended.store(true, Ordering::Relaxed);
            answers
        });
        assert_eq!(answers, vec![None; 10], "{name}");
        let messages = victim.messages();
        assert!(messages.iter().any(|line| line.contains("handshake")), "{name}: {messages:#?}");
        // Ten lines and a count per kind of message and period of ten seconds, plus those of the queries.
        assert!(messages.len() < 300, "{name}: {} lines", messages.len());
    }
    victims.into_iter().rev().for_each(Victim::end);
}

/// Ends the traffic of a test that fails, too: its thread is waited for.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends datagrams within the server until `enough`.
fn traffic(hosts: &Hosts, enough: &AtomicBool) {
    let own = in_namespace(&hosts.names[2], || UdpSocket::bind("127.0.0.1:0").expect("a port"));
    own.connect(own.local_addr().expect("bound")).expect("itself");
    while !enough.load(Ordering::Relaxed) {
        own.send(&[1; 100]).expect("sent");
        own.recv(&mut [0; 200]).expect("read");
    }
}

/// A guest reads journeys from the oldest, repeatedly and slowly; returns the refusals.
fn slow_reads(port: u16, tls: &str, mut during: impl FnMut()) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let address: Address = format!("{SERVER}:{port}").parse().expect("an address");
    let credentials = Credentials { folder: Folder::new(tls), identity: "viewer-guest".to_owned() };
    runtime.block_on(async {
        let (mut clients, mut streams, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for nth in 0..SLOW {
            if nth % 8 == 0 {
                clients.push(dial(&address, Some(&credentials)).await.expect("it is let in").client);
            }
            let client = clients.last_mut().expect("a connection");
            let ticket = br#"{"table":"journeys","from":"oldest"}"#.to_vec();
            match client.do_get(Ticket { ticket: ticket.into() }).await {
                Ok(stream) => streams.push(stream.into_inner()),
                Err(status) => {
                    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                    refused.push(status.message().to_owned());
                }
            }
        }
        // One message of each at a time: the agent has more for all.
        for nth in 0..20 {
            let mut open = Vec::new();
            for mut stream in streams {
                match stream.message().await {
                    Ok(_) => open.push(stream),
                    Err(status) => {
                        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
                        refused.push(status.message().to_owned());
                    }
                }
            }
            streams = open;
            if nth == 10 {
                during();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(!streams.is_empty(), "some are served: {refused:?}");
        refused
    })
}

#[test]
fn slow_readers_of_one_guest_stay_within_the_units_memory() {
    if !is_root("slow readers") {
        return;
    }
    let Some((hosts, dir, tls)) = scene("slow") else { return };
    let made = run(&["agent", "init", &tls, "--viewer", "guest?no-payload"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let mut victims = Vec::new();
    let enough = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| traffic(&hosts, &enough));
        let _ends = SetOnDrop(&enough);
        // The relay reads the agent, so it starts after the agent's other readers were counted.
        for ((name, port), start) in PLACES.into_iter().zip([agent, relay]) {
            victims.push(start(&hosts, dir.path(), &tls));
            let victim = victims.last().expect("it was started");
            let stored_bytes = |about: &Value| about["hosts"][0]["holds"]["bytes"].as_u64();
            let there = || {
                about(&hosts, port, &tls, "viewer-me").is_ok_and(|about| stored_bytes(&about) > Some(16 << 20))
            };
            assert!(eventually(there), "{name} has something to give: {:?}", victim.messages());
            let (mut used, mut limit) = (0, 0);
            let refused = in_namespace(&hosts.names[1], || {
                slow_reads(port, &tls, || {
                    let about = about(&hosts, port, &tls, "viewer-me").expect("others are served meanwhile");
                    used = about["reader_bytes"].as_u64().unwrap_or_default();
                    limit = about["reader_limit_bytes"].as_u64().unwrap_or_default();
                })
            });
            assert!(refused.len() >= SLOW - 8, "{name}: {} of {SLOW} are refused", refused.len());
            assert!(refused.iter().all(|because| because.contains("at most")), "{refused:?}");
            assert!(used > 0 && used <= limit / 4, "{name}: a guest has a quarter: {used} of {limit}");
            let status = fs::read_to_string(format!("/proc/{}/status", victim.child.id())).expect("it runs");
            let peak = crate::common::field(&status, "VmHWM").expect("a peak").to_owned();
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("{name}: {} refused, readers {} MiB, VmHWM {peak}\n", refused.len(), used >> 20)
                    .as_bytes(),
            );
            match &victim.cgroup {
                Ok(cgroup) => {
                    let (peak, kills) = cgroup.peak_and_kills();
                    assert!(peak > 0 && kills == 0, "{name}: {kills} kills, peak {} MiB", peak >> 20);
                }
                Err(because) => skipped("slow readers in a cgroup", because),
            }
            let kib: u64 = peak.trim_end_matches(" kB").parse().expect("a number");
            assert!(kib < 768 << 10, "{name}: {peak}");
        }
    });
    victims.into_iter().rev().for_each(Victim::end);
}
