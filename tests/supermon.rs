//! `magnet-scope mon` and `supermon`, read by an independent s-expression parser.

use crate::common::{self, hosts as wired};

use common::{eventually, is_root, magnet_scope, run, skipped, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wired::{in_namespace, ip};

/// Reads expressions from stdin, one per line, and writes them as JSON, with symbols and texts as strings.
const READ: &str = r"
import json, sys, sexpdata
def plain(value):
    if isinstance(value, list): return [plain(item) for item in value]
    if isinstance(value, sexpdata.Symbol): return value.value()
    return value
for line in sys.stdin:
    print(json.dumps(plain(sexpdata.loads(line))))
";

/// The external parser; `None` if missing.
fn reader(test: &str) -> Option<String> {
    let cache = std::env::var("XDG_CACHE_HOME").or_else(|_| std::env::var("HOME").map(|home| home + "/.cache"));
    let python = cache.unwrap_or_default() + "/magnet-scope/clients/bin/python";
    let there = Command::new(&python).args(["-c", "import sexpdata"]).output();
    if there.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    skipped(test, "sexpdata is not there (scripts/setup-clients.sh)");
    None
}

/// Lines as JSON, by that parser.
fn read(python: &str, lines: &[String]) -> Vec<Value> {
    let mut child = Command::new(python)
        .args(["-c", READ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python starts");
    let text: String = lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect();
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}\n{text}", stderr(&output));
    let all: Vec<Value> =
        output.stdout.lines().map(|line| serde_json::from_str(&line.expect("text")).expect("JSON")).collect();
    assert_eq!(all.len(), lines.len());
    all
}

/// A mon or a supermon, ended on drop.
struct Answers {
    child: Child,
    at: SocketAddr,
}

impl Answers {
    /// Starts it at a free port in this namespace.
    fn start(arguments: &[&str]) -> Self {
        Self::at(arguments, "127.0.0.1:0")
    }

    fn at(arguments: &[&str], listen: &str) -> Self {
        let mut child = magnet_scope(&[arguments, &["--listen", listen]].concat()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut messages = Vec::new();
        let at = loop {
            let Some(Ok(line)) = lines.next() else { panic!("it does not listen: {messages:?}") };
            if let Some((_, at)) = line.split_once("listening at ") {
                break at.parse().expect("an address");
            }
            messages.push(line);
        };
        // Its further output must be read.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Answers { child, at }
    }

    fn client(&self) -> Client {
        Client::new(self.at)
    }

    fn end(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is there");
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a limit");
        Client(BufReader::new(stream))
    }

    fn ask(&mut self, command: &str) -> String {
        self.0.get_mut().write_all(format!("{command}\n").as_bytes()).expect("it reads");
        let mut line = String::new();
        self.0.read_line(&mut line).expect("it answers");
        assert!(line.ends_with('\n'), "{line:?}");
        line
    }
}

/// The nodes of a parsed sample: names, and true if down.
fn nodes(sample: &Value) -> Vec<(String, bool)> {
    assert_eq!(sample[0], "sample");
    let nodes = sample.as_array().expect("a list").iter().skip(1);
    nodes
        .map(|node| {
            assert_eq!(node[0], "node");
            let categories = node.as_array().expect("a list").iter().skip(2);
            let down = categories.clone().any(|category| category[0] == "down");
            (node[1].as_str().expect("a name").to_owned(), down)
        })
        .collect()
}

/// The values of a field of a node.
fn field(node: &Value, category: &str, field: &str) -> Vec<Value> {
    let of = |list: &Value, name: &str| {
        let items = list.as_array().expect("a list").iter();
        items.filter(|item| item.is_array()).find(|item| item[0] == name).cloned()
    };
    let found = of(node, category).and_then(|category| of(&category, field));
    found.map(|field| field.as_array().expect("a list")[1..].to_vec()).unwrap_or_default()
}

#[test]
fn a_mon_tells_what_the_kernel_tells_and_keeps_to_a_mask() {
    let Some(python) = reader("mon") else { return };
    let mon = Answers::start(&["mon", "--no-capture", "--name", "we\"b 1"]);
    let mut client = mon.client();
    let mut other = mon.client();
    let lines = [
        client.ask("#"),
        client.ask("s"),
        client.ask("(mask (cpuinfo user softirq) (netinfo))"),
        client.ask("s"),
        other.ask("s"),
        client.ask("(mask)"),
        client.ask("s"),
        client.ask("what?"),
        client.ask("'''"),
    ];
    let [descriptors, all, masked, some, others, unmasked, again, what, quotes] =
        <[Value; 9]>::try_from(read(&python, &lines)).expect("nine");
    assert_eq!(descriptors[0], "descriptors");
    // The descriptors match the samples.
    let categories = |answer: &Value| -> Vec<String> {
        let node = answer[1].as_array().expect("a node");
        node[2..].iter().map(|category| category[0].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(categories(&descriptors), ["cpuinfo", "switch", "avenrun", "paging", "time", "netinfo"]);
    assert_eq!(categories(&descriptors), categories(&all));
    let cpus = field(&all[1], "cpuinfo", "user").len();
    assert!(cpus > 0 && descriptors[1][2][1][1] == cpus, "{descriptors}");
    assert!(field(&all[1], "netinfo", "name").contains(&Value::from("lo")), "{all}");
    assert_eq!(nodes(&all), [("we\"b 1".to_owned(), false)]);
    assert_eq!((masked[0].as_str(), unmasked[0].as_str()), (Some("mask"), Some("mask")));
    assert_eq!(categories(&some), ["cpuinfo", "netinfo"]);
    assert_eq!(some[1][2].as_array().map(Vec::len), Some(3), "two fields: {some}");
    assert_eq!(categories(&others), categories(&all), "a mask is one client's");
    assert_eq!(categories(&again), categories(&all));
    assert_eq!((what[0].as_str(), quotes[0].as_str()), (Some("error"), Some("error")));
    mon.end();
}

#[test]
fn who_says_too_much_or_comes_too_often_has_to_go() {
    let mon = Answers::start(&["mon", "--no-capture"]);
    let mut long = mon.client();
    let mut line = vec![b'('; 1 << 20];
    line.push(b'\n');
    // The server may stop reading before the line is complete, and its answer may be lost.
    let _ = long.0.get_mut().write_all(&line);
    let mut answer = String::new();
    let _ = long.0.read_line(&mut answer);
    assert!(answer.is_empty() || answer.starts_with("(error"), "{answer}");
    // The longest silent client is disconnected with a reason, and the new one is served.
    let mut clients: Vec<Client> = (0..64).map(|_| mon.client()).collect();
    let mut line = String::new();
    assert!(clients[0].0.read_line(&mut line).is_ok() && line.contains("too many clients"), "{line}");
    drop(clients);
    assert!(eventually(|| {
        let Ok(mut stream) = TcpStream::connect(mon.at) else { return false };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(30)));
        let mut line = String::new();
        let asked = stream.write_all(b"s\n").is_ok();
        asked && BufReader::new(stream).read_line(&mut line).is_ok() && line.starts_with("(sample")
    }));
    mon.end();
}

#[test]
fn supermons_stand_behind_supermons_and_a_node_that_dies_comes_back() {
    let Some(python) = reader("supermon") else { return };
    let mon = |name: &str| Answers::start(&["mon", "--no-capture", "--name", name]);
    let [a, b, c, twin] = ["a", "b", "c", "a"].map(mon);
    let supermon = |of: &[&Answers]| {
        let addresses: Vec<String> = of.iter().map(|answers| answers.at.to_string()).collect();
        let addresses = addresses.iter().map(String::as_str);
        Answers::start(&std::iter::once("supermon").chain(addresses).collect::<Vec<_>>())
    };
    let (left, right) = (supermon(&[&a, &b]), supermon(&[&c, &twin]));
    let middle = supermon(&[&left, &right]);
    let top = supermon(&[&middle]);
    let mut client = top.client();
    let up = |name: &str| (name.to_owned(), false);
    let down = |name: &str| (name.to_owned(), true);
    let mut holds = |all: &[(String, bool)]| {
        let mut seen = Vec::new();
        let so = eventually(|| {
            seen = nodes(&read(&python, &[client.ask("s")])[0]);
            seen == all
        });
        assert!(so, "{seen:?} is not {all:?}");
    };
    holds(&[up("a"), up("b"), up("c"), up("a-2")]);
    // A mask applies through all intermediate supermons.
    let mut masked = top.client();
    masked.ask("(mask (time timestamp))");
    let [sample] = <[Value; 1]>::try_from(read(&python, &[masked.ask("s")])).expect("one");
    for node in sample.as_array().expect("a list").iter().skip(1) {
        assert_eq!(node.as_array().map(Vec::len), Some(3), "{sample}");
        assert_eq!(field(node, "time", "timestamp").len(), 1, "{sample}");
    }
    let [descriptors] = <[Value; 1]>::try_from(read(&python, &[masked.ask("#")])).expect("one");
    assert_eq!(descriptors.as_array().map(Vec::len), Some(5), "{descriptors}");

    // A failed mon is reported as down; a replacement takes over.
    let place = b.at.to_string();
    drop(b);
    holds(&[up("a"), down("b"), up("c"), up("a-2")]);
    let b = Answers::at(&["mon", "--no-capture", "--name", "b"], &place);
    holds(&[up("a"), up("b"), up("c"), up("a-2")]);
    // A hanging mon is down too, and does not delay the others permanently.
    kill_process(Pid::from_child(&c.child), Signal::STOP).expect("it is there");
    holds(&[up("a"), up("b"), down("c"), up("a-2")]);
    kill_process(Pid::from_child(&c.child), Signal::CONT).expect("it is there");
    holds(&[up("a"), up("b"), up("c"), up("a-2")]);
    // A whole branch.
    let place = right.at.to_string();
    drop(right);
    holds(&[up("a"), up("b"), down("c"), down("a-2")]);
    let addresses = [c.at.to_string(), twin.at.to_string()];
    let right = Answers::at(&["supermon", &addresses[0], &addresses[1]], &place);
    holds(&[up("a"), up("b"), up("c"), up("a-2")]);
    for answers in [top, middle, left, right, a, b, c, twin] {
        answers.end();
    }
}

#[test]
fn what_answers_nonsense_is_down_and_the_others_are_not() {
    let Some(python) = reader("supermon and nonsense") else { return };
    let mon = Answers::start(&["mon", "--no-capture", "--name", "good"]);
    let liar = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = liar.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        let answers: [&[u8]; 5] = [b"\xff\xfe\n", b"(sample (node))\n", b"''''\n", b")\n", b""];
        for (stream, answer) in liar.incoming().zip(answers.into_iter().cycle()) {
            let Ok(mut stream) = stream else { return };
            let mut line = String::new();
            if let Ok(half) = stream.try_clone() {
                let _ = BufReader::new(half).read_line(&mut line);
            }
            let _ = stream.write_all(answer);
        }
    });
    let top = Answers::start(&["supermon", &mon.at.to_string(), &at]);
    let mut client = top.client();
    let expected = [("good".to_owned(), false), (at, true)];
    let mut seen = 0;
    // Repeated, so that each answer arrives.
    assert!(eventually(|| {
        let now = nodes(&read(&python, &[client.ask("s")])[0]);
        seen += usize::from(now == expected);
        seen > 40
    }));
    top.end();
    mon.end();
}

#[test]
fn a_capture_s_figures_come_with_it() {
    if !is_root("mon with a capture") {
        return;
    }
    let Some(python) = reader("mon with a capture") else { return };
    let name = wired::namespace_name("mon");
    if !ip(&["netns", "add", &name]) {
        return skipped("mon with a capture", "`ip netns add` (iproute2) is not there or fails");
    }
    let there = std::panic::catch_unwind(|| {
        assert!(ip(&["-n", &name, "link", "set", "lo", "up"]));
        in_namespace(&name, || {
            let mon = Answers::start(&["mon"]);
            let (own, peer) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
            let (own, peer) = (own.expect("a port"), peer.expect("a port"));
            let to = peer.local_addr().expect("bound");
            for _ in 0..50 {
                own.send_to(&[1; 100], to).expect("sent");
                peer.recv(&mut [0; 200]).expect("read");
            }
            let mut client = mon.client();
            let mut node = Value::Null;
            let reported = eventually(|| {
                node = read(&python, &[client.ask("s")])[0][1].clone();
                let names = field(&node, "hops", "name");
                let at = names.iter().position(|name| name == "udp.recv");
                at.is_some_and(|at| {
                    field(&node, "hops", "events")[at] == 50 && field(&node, "hops", "bytes")[at] == 5_000
                })
            });
            assert!(reported, "{node}");
            assert!(field(&node, "losses", "records").iter().all(|n| *n == 0), "{node}");
            assert_eq!(field(&node, "hops", "weight_milli")[0], 1_000, "{node}");
            assert!(eventually(|| {
                node = read(&python, &[client.ask("s")])[0][1].clone();
                field(&node, "latency", "to").contains(&Value::from("app.recv"))
            }));
            assert!(field(&node, "overhead", "cpu_ns")[0].as_u64().is_some_and(|ns| ns > 0), "{node}");
            assert_eq!(field(&node, "netinfo", "name"), ["lo"], "of its own namespace");
            mon.end();
        });
    });
    ip(&["netns", "del", &name]);
    if let Err(panic) = there {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn mistakes_are_reported() {
    for (arguments, expected) in [
        (vec!["mon", "--no-capture", "--listen", "0.0.0.0:0"], "--unprotected"),
        (vec!["supermon", "web-1"], "`web-1:2709`"),
        (vec!["supermon"], "HOST:PORT"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
}
