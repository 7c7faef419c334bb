//! Names in a recording and of a peer hold escape sequences, line ends and marks of direction: none of them reaches a terminal or a
//! file.

use crate::common::agents::Running;
use crate::common::exports::{FORMATS, golden};
use crate::common::foreign::{HOSTILE, hostile_recording, read, soiled_node, unsafe_characters};
use crate::common::{eventually, is_root, magnet_scope, run, stderr, stdout, uninterrupted};
use magscope_core::foreign::REPLACEMENT;
use magscope_fleet::{Hosts, Listen, Memory, READER_BYTES, serve};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Where a subcommand shows text from outside.
enum Shows {
    /// It is run with these words here. `{A}` and `{B}` are hostile recordings, `{PEER}` is a hostile agent, `{OUT}` a new name.
    Here(&'static [&'static str]),
    /// Elsewhere, or nowhere.
    No(&'static str),
}
use Shows::{Here, No};

/// Every subcommand. One that is added fails here until it says where its text from outside is tested.
const SUBCOMMANDS: &[(&str, &[Shows])] = &[
    ("demo", &[No("its hosts are its own; its screen is `live`'s")]),
    ("live", &[No("foreign_screens goes over every screen")]),
    ("run", &[No("it shows this host's processes by the rows of `requests`")]),
    ("record", &[Here(&["record", "--connect", "{PEER}", "--duration", "500ms", "-o", "{OUT}"])]),
    ("ship", &[Here(&["ship", "{A}", "{DIR}"])]),
    ("replay", &[Here(&["replay", "{A}"])]),
    ("agent", &[Here(&["agent", "about", "{PEER}"]), Here(&["agent", "about", "{PEER}", "--json"])]),
    ("relay", &[No("started below")]),
    ("health", &[Here(&["health", "--connect", "{PEER}"])]),
    ("metrics", &[No("started below")]),
    ("mon", &[No("it shows figures of this host, under names of its own")]),
    ("supermon", &[No("started below")]),
    ("gui", &[No("foreign_screens goes over every view")]),
    ("info", &[Here(&["info", "--verify", "{A}"]), Here(&["info", "--json", "{A}"])]),
    (
        "report",
        &[
            Here(&["report", "{A}"]),
            Here(&["report", "{A}", "--json"]),
            Here(&["report", "{A}", "--by", "node"]),
            Here(&["report", "{A}", "--by", "process"]),
            Here(&["report", "{A}", "{B}"]),
        ],
    ),
    (
        "requests",
        &[
            Here(&["requests", "{A}"]),
            Here(&["requests", "{A}", "--json", "--by", "flow"]),
            Here(&["requests", "{A}", "{B}", "--by", "cgroup"]),
        ],
    ),
    (
        "journeys",
        &[Here(&["journeys", "{A}"]), Here(&["journeys", "{A}", "--json"]), Here(&["journeys", "{A}", "{B}"])],
    ),
    ("export", &[Here(&["export", "{A}", "--format", "jsonl", "-o", "-"])]),
    ("import", &[Here(&["import", "{LOG}", "-o", "{OUT}"])]),
    (
        "query",
        &[
            Here(&["query", "{A}", "SELECT * FROM flows"]),
            Here(&["query", "--format", "csv", "{A}", "SELECT * FROM hops LIMIT 50"]),
            Here(&["query", "--format", "jsonl", "{A}", "SELECT * FROM journeys LIMIT 50"]),
        ],
    ),
    ("compare", &[Here(&["compare", "{A}", "{B}"]), Here(&["compare", "{A}", "{B}", "--json"])]),
    ("ctl", &[No("it shows captures of this host, by words of its own")]),
    ("sched", &[No("it shows figures, under names of its own")]),
    ("align", &[Here(&["align", "{A}", "{B}"]), Here(&["align", "{A}", "{B}", "--json"])]),
    ("doctor", &[No("it shows this host")]),
    ("hops", &[Here(&["hops"])]),
    ("config", &[No("defaults_come_from_a_file has hostile values")]),
];

/// An agent whose host, tasks and names are hostile, without a kernel.
struct Peer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    address: String,
}

impl Peer {
    fn start(recording: &Path) -> Self {
        let mut batches = Vec::new();
        // Read, the recording is clean: soiled once more, as a peer of ill will has it.
        let info = soiled_node(read(recording, |batch| batches.push(batch.clone())));
        let (memory, mut writer) = Memory::new(info, 64 << 20).expect("Arrow");
        for batch in &mut batches {
            batch.tasks.iter_mut().for_each(|task| task.comm.insert_str(0, HOSTILE));
            writer.push(batch).expect("kept");
        }
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = format!("insecure:{}", listener.local_addr().expect("bound"));
        let stop = Arc::new(AtomicBool::new(false));
        let end = stop.clone();
        let thread = std::thread::spawn(move || {
            let _writer = writer;
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let runtime = runtime.expect("threads");
            let hosts = Hosts::of(vec![memory]);
            let report = Arc::new(|_: &str| ());
            let served = serve(hosts, vec![Listen::Loopback(listener)], READER_BYTES, report, end);
            runtime.block_on(served).expect("it serves");
            runtime.shutdown_timeout(Duration::from_secs(1));
        });
        Peer { stop, thread: Some(thread), address }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn check(what: &str, bytes: &[u8]) {
    let found = unsafe_characters(bytes);
    assert_eq!(found, Vec::<char>::new(), "{what}: {}", String::from_utf8_lossy(bytes).escape_debug());
}

fn check_output(what: &str, output: &Output) {
    check(what, &output.stdout);
    check(what, &output.stderr);
}

/// Two hostile recordings.
fn recordings(dir: &TempDir) -> [String; 2] {
    ["a", "b"].map(|name| {
        let path = dir.path().join(name);
        hostile_recording(&path);
        path.display().to_string()
    })
}

#[test]
fn every_subcommand_says_where_its_text_from_outside_is_tested() {
    let help = stdout(&run(&["help"]));
    let part = help.split("Commands:").nth(1).and_then(|text| text.split("Examples:").next()).expect("a list");
    let named = part.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let named: Vec<&str> = named.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(named.len() > 20, "{named:?}");
    for (name, all) in SUBCOMMANDS {
        let reasons = all.iter().filter_map(|shows| if let No(because) = shows { Some(because) } else { None });
        assert!(!all.is_empty() && reasons.into_iter().all(|because| !because.is_empty()), "{name}");
    }
    for name in &named {
        assert!(SUBCOMMANDS.iter().any(|(other, _)| other == name), "{name} is in no list here");
    }
    // What is not built in has no words either.
    let optional = ["gui", "query"];
    for (name, _) in SUBCOMMANDS {
        assert!(named.contains(name) || optional.contains(name), "{name} is no subcommand");
    }
}

#[test]
fn no_subcommand_prints_what_a_terminal_obeys() {
    let dir = TempDir::new().expect("a directory");
    let [a, b] = recordings(&dir);
    let peer = Peer::start(Path::new(&golden("demo")));
    let log = dir.path().join("log.ulm").display().to_string();
    let exported = run(&["export", &golden("demo"), "--format", "ulm", "-o", &log]);
    assert!(exported.status.success(), "{}", stderr(&exported));
    let ulm = fs::read_to_string(&log).expect("it is there");
    let host = ulm.split("HOST=").nth(1).and_then(|text| text.split_whitespace().next()).expect("a host");
    fs::write(&log, ulm.replace(host, "\u{1b}[31m\u{202e}x")).expect("own file");
    let copy = dir.path().join("copy").display().to_string();
    fs::create_dir(&copy).expect("own directory");
    let help = stdout(&run(&["help"]));
    let mut outs = 0;
    let mut replaced = 0;
    for (name, all) in SUBCOMMANDS.iter().filter(|(name, _)| help.contains(&format!("\n  {name} "))) {
        for shows in *all {
            let Here(words) = shows else { continue };
            if words.contains(&"--duration") && *name == "record" && !is_root("a hostile peer") {
                continue;
            }
            outs += 1;
            let out = dir.path().join(format!("out-{outs}")).display().to_string();
            let words = words.iter().map(|word| match *word {
                "{A}" => &a,
                "{B}" => &b,
                "{PEER}" => &peer.address,
                "{OUT}" => &out,
                "{LOG}" => &log,
                "{DIR}" => &copy,
                word => word,
            });
            let words: Vec<&str> = words.collect();
            let output = run(&words);
            check_output(&format!("{words:?}"), &output);
            let printed = format!("{}{}", stdout(&output), stderr(&output));
            assert!(!printed.trim().is_empty(), "{words:?}");
            assert!(!printed.contains("Usage:"), "{words:?}: {printed}");
            replaced += printed.matches(REPLACEMENT).count();
        }
    }
    assert!(replaced > 100, "hostile text is in the answers, cleaned: {replaced}");
    // A break of lines in a name would make a line that is not indented. Longer names alone may wrap a line.
    let outer = |path: &str| {
        let output = run(&["journeys", path]);
        stdout(&output).lines().filter(|line| !line.starts_with(' ') || line.contains(" #")).count()
    };
    assert_eq!(outer(&a), outer(&golden("demo")));
}

/// What a server answers to this, until it closes or says nothing for so long.
fn ask(at: SocketAddr, question: &[u8], patience: Duration) -> Vec<u8> {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(patience)).expect("a limit");
    stream.write_all(question).expect("sent");
    let (mut all, mut block) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = uninterrupted(|| stream.read(&mut block)) {
        all.extend_from_slice(&block[..read]);
    }
    all
}

/// A free port of a loopback address that only this process uses, so that no other socket takes it meanwhile.
fn free_address() -> SocketAddr {
    let [_, high, middle, low] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 100 + high, middle, low);
    TcpListener::bind((own, 0)).expect("a port").local_addr().expect("bound")
}

fn answers(at: SocketAddr) -> bool {
    eventually(|| TcpStream::connect(at).is_ok())
}

#[test]
fn no_server_repeats_what_a_terminal_obeys() {
    let dir = TempDir::new().expect("a directory");
    let peer = Peer::start(Path::new(&golden("demo")));
    // A relay: what it says, and what its viewers read of it.
    let (at, socket) = (free_address(), dir.path().join("relay.sock").display().to_string());
    let listen = at.to_string();
    let arguments = ["relay", "--connect", &peer.address, "--insecure-loopback", &listen, "--socket", &socket];
    let relay = Running::of(magnet_scope(&arguments));
    assert!(answers(at));
    let about = run(&["agent", "about", &format!("insecure:{listen}")]);
    assert!(about.status.success() && stdout(&about).contains(REPLACEMENT), "{}", stderr(&about));
    check_output("a relay's host", &about);
    relay.signal(Signal::INT);
    check_output("a relay", &relay.wait());

    let at = free_address();
    let arguments = ["metrics", "--connect", &peer.address, "--listen", &at.to_string()];
    let metrics = Running::of(magnet_scope(&arguments));
    assert!(answers(at));
    let question = format!("GET /metrics HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    let answer = ask(at, question.as_bytes(), Duration::from_mins(1));
    let text = String::from_utf8_lossy(&answer).replace("\r\n", "\n");
    assert!(text.contains("magnet_scope_"), "{text}");
    check("metrics", text.as_bytes());
    metrics.signal(Signal::INT);
    check_output("metrics", &metrics.wait());
}

#[test]
fn a_supermon_repeats_nothing_that_a_terminal_obeys() {
    let hostile = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mon = hostile.local_addr().expect("bound");
    let server = std::thread::spawn(move || {
        // Until the listener is asked for the last time.
        for stream in hostile.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut question = [0; 512];
            while let Ok(read @ 1..) = stream.read(&mut question) {
                if question[..read].starts_with(b"END") {
                    return;
                }
                let _ = stream.write_all(format!("(mon ({HOSTILE}cpu 1))\n").as_bytes());
            }
        }
    });
    let at = free_address();
    let supermon = Running::of(magnet_scope(&["supermon", &mon.to_string(), "--listen", &at.to_string()]));
    assert!(answers(at));
    for question in [&b"#"[..], b"#\n", b"S\n", b"(#)\n", b"R\n"] {
        check("a supermon", &ask(at, question, Duration::from_secs(2)));
    }
    supermon.signal(Signal::INT);
    check_output("a supermon", &supermon.wait());
    TcpStream::connect(mon).and_then(|mut end| end.write_all(b"END")).expect("it listens");
    server.join().expect("no panic");
}

#[test]
fn no_export_of_text_holds_what_a_terminal_obeys() {
    let dir = TempDir::new().expect("a directory");
    let [hostile, _] = recordings(&dir);
    for format in FORMATS.into_iter().filter(|format| ["csv", "jsonl", "ulm", "bp", "chrome"].contains(format))
    {
        let out = dir.path().join(format);
        let place = out.display().to_string();
        let output = run(&["export", &hostile, "--format", format, "-o", &place]);
        assert!(output.status.success(), "{}", stderr(&output));
        let mut files = vec![out];
        while let Some(path) = files.pop() {
            if path.is_dir() {
                let listed = fs::read_dir(&path).expect("it is there");
                files.extend(listed.map(|entry| entry.expect("an entry").path()));
            } else {
                check(&path.display().to_string(), &fs::read(&path).expect("it is there"));
            }
        }
    }
}
