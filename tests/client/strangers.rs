//! Answers to unauthorised or hostile clients.

use super::scene::{Scene, pair};
use crate::common::{NOBODY, eventually};
use magscope_client::Watch;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A raw client of the protocol.
struct Raw(BufReader<UnixStream>);

impl Raw {
    fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a limit");
        Raw(BufReader::new(stream))
    }

    fn send(&self, line: &str, fd: Option<BorrowedFd<'_>>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fds: Vec<_> = fd.into_iter().collect();
        if !fds.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&fds));
        }
        let line = format!("{line}\n");
        sendmsg(self.0.get_ref(), &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::NOSIGNAL)
            .expect("sent");
    }

    fn ask(&mut self, line: &str, fd: Option<BorrowedFd<'_>>) -> Value {
        self.send(line, fd);
        self.hear().expect("an answer")
    }

    fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|n| *n > 0)?;
        Some(serde_json::from_str(&line).expect("JSON"))
    }
}

/// All requests about other processes that the protocol supports.
fn about_others(pid: u32, cookie: u64, addresses: &[String; 2]) -> Vec<Value> {
    let [local, remote] = addresses;
    [
        json!({"cookie": cookie}),
        json!({"pid": pid}),
        json!("container"),
        json!({"cgroup": "/"}),
        json!({"cgroup": "/no-such-cgroup"}),
        json!({"flow": {"proto": "tcp", "local": local, "remote": remote}}),
    ]
    .into_iter()
    .map(|of| json!({"watch": {"of": of, "window": {"receives": 10}}}))
    .collect()
}

/// A program that runs as nobody: sends every request, one line each.
const STRANGER: &str = r#"
import json, socket, sys
def ask(line, fds=()):
    client = socket.socket(socket.AF_UNIX); client.settimeout(30); client.connect(sys.argv[1])
    socket.send_fds(client, [line.encode() + b"\n"], list(fds)) if fds else client.sendall(line.encode() + b"\n")
    reader = client.makefile()
    return client, reader, reader.readline().strip()
for line in sys.stdin:
    print(ask(line.strip())[2], flush=True)
# Its own: a socket that it holds, and itself.
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname()); far = listener.accept()[0]
client, reader, begun = ask('{"watch":{"of":"socket","window":{"receives":10}}}', [far.fileno()])
itself, its_reader, _ = ask('{"watch":{"of":"process","window":{"receives":10}}}')
print(begun, flush=True)
for n in range(100):
    near.sendall(bytes(100))
    got = 0
    while got < 100: got += len(far.recv(100 - got))
for what, lines in ((client, reader), (itself, its_reader)):
    for n in range(1000):
        what.sendall(b'{"ask":1}\n')
        told = json.loads(lines.readline())
        if told.get("averages", {}).get("received", {}).get("overall", {}).get("bytes", 0) >= 10000: break
        import time; time.sleep(0.02)
    print(json.dumps(told), flush=True)
"#;

#[test]
fn nobody_learns_of_anothers_socket() {
    let test = "strangers";
    let Some(scene) = Scene::new(test, &[]) else { return };
    if !super::languages::has("python3", test) {
        return;
    }
    let (near, far) = pair(scene.namespace());
    let cookie = rustix::net::sockopt::socket_cookie(&far).expect("a socket");
    let addresses = [&far, &near].map(|socket| socket.local_addr().expect("bound").to_string());
    let questions = about_others(std::process::id(), cookie, &addresses);
    let asked = |uid: u32| {
        let script = scene.dir().path().join("stranger.py");
        std::fs::write(&script, STRANGER).expect("a file");
        let mut child = scene.inside(|| {
            let mut command = Command::new("python3");
            command.arg("-I").arg(&script).arg(scene.socket()).stdin(Stdio::piped()).stdout(Stdio::piped());
            if uid != 0 {
                command.uid(uid).gid(uid);
            }
            command.spawn().expect("it starts")
        });
        let mut stdin = child.stdin.take().expect("piped");
        // Another process's traffic continues meanwhile.
        (&near).write_all(&[1; 5000]).expect("sent");
        (&far).read_exact(&mut [0; 5000]).expect("read");
        for question in &questions {
            writeln!(stdin, "{question}").expect("it reads");
        }
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect::<Vec<Value>>()
    };
    let reported = asked(NOBODY);
    assert_eq!(reported.len(), questions.len() + 3, "{reported:?}");
    for (question, answer) in questions.iter().zip(&reported) {
        let refusal = &answer["error"];
        assert!(
            refusal["what"].as_str().is_some_and(|what| what.contains("user 65534")),
            "{question}: {answer}"
        );
        assert!(
            !refusal["likely"].as_str().unwrap_or("").is_empty() && refusal["next"].is_string(),
            "{answer}"
        );
    }
    let [.., begun, own, itself] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!(begun["watching"]["id"], 1, "{begun}");
    assert_eq!(own["averages"]["received"]["overall"]["bytes"], 10_000, "{own}");
    assert_eq!(
        itself["averages"]["received"]["overall"]["bytes"], 10_000,
        "its own, and nobody else's: {itself}"
    );
    // The same requests by root.
    let reported = asked(0);
    let watching = |at: usize| reported[at]["watching"]["id"] == 1;
    assert!(watching(0) && watching(1) && watching(5), "{reported:?}");
    assert!(
        reported[4]["error"]["what"].as_str().is_some_and(|what| what.contains("no-such-cgroup")),
        "{reported:?}"
    );
}

#[test]
fn a_process_that_has_ended_or_become_another_users_is_not_told_of() {
    let test = "become";
    let Some(scene) = Scene::new(test, &[]) else { return };
    if !super::languages::has("python3", test) {
        return;
    }
    // The program connects as nobody and passes the connection to a child. The child sends requests after its
    // parent has become root's process, and after its end.
    let script = r#"
import json, os, socket, sys, time
client = socket.socket(socket.AF_UNIX); client.connect(sys.argv[1]); client.settimeout(30)
reader = client.makefile()
def ask(line):
    client.sendall(line.encode() + b"\n"); return json.loads(reader.readline())
first = ask('{"watch":{"of":"process","window":{"receives":10}}}')
parent = os.getpid()
if os.fork() == 0:
    for n in range(1000):
        if os.stat("/proc/%d/status" % parent).st_uid == 0: break
        time.sleep(0.02)
    changed = ask('{"ask":1}')
    print("ready", flush=True)
    for n in range(1000):
        if os.getppid() != parent: break
        time.sleep(0.02)
    print(json.dumps([first, changed, ask('{"watch":{"of":"process","window":{"receives":10}}}')]), flush=True)
else:
    # As what a setuid program does to who starts it: its user may not look into it any more.
    import ctypes
    ctypes.CDLL(None).prctl(4, 0)
    sys.stdin.read()
"#;
    let path = scene.dir().path().join("become.py");
    std::fs::write(&path, script).expect("a file");
    let mut command = Command::new("python3");
    command.arg("-I").arg(&path).arg(scene.socket()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut parent = command.uid(NOBODY).gid(NOBODY).spawn().expect("it starts");
    let mut lines = BufReader::new(parent.stdout.take().expect("piped"));
    let mut text = String::new();
    lines.read_line(&mut text).expect("its child is ready");
    // After the parent was reaped, its child sends another request.
    drop(parent.stdin.take());
    parent.wait().expect("it ends");
    lines.read_to_string(&mut text).expect("what its child was told");
    let reported: Value =
        serde_json::from_str(text.lines().last().unwrap_or("")).unwrap_or_else(|_| panic!("{text}"));
    assert_eq!(reported[0]["watching"]["id"], 1, "{reported}");
    let likely = |at: usize| reported[at]["error"]["likely"].as_str().unwrap_or_default();
    assert!(likely(1).contains("another user's"), "{reported}");
    assert!(likely(2).contains("has ended"), "{reported}");
}

#[test]
fn nonsense_is_answered_and_does_no_harm() {
    let Some(mut scene) = Scene::new("nonsense", &[]) else { return };
    let mut raw = Raw::connect(&scene.socket());
    let file = std::fs::File::open("/dev/null").expect("it is there");
    let unix = UnixStream::pair().expect("a pair");
    let (near, _far) = pair(scene.namespace());
    let socket = r#"{"watch":{"of":"socket","window":{"receives":10}}}"#;
    for (line, fd) in [
        ("", None),
        ("{", None),
        ("[]", None),
        ("\u{0}\u{1}", None),
        (r#"{"ask":1}"#, None),
        (r#"{"end":7}"#, None),
        (r#"{"ask":-1}"#, None),
        (r#"{"ask":99999999999999999999}"#, None),
        (r#"{"watch":{"of":"socket","window":{"receives":0}}}"#, None),
        (r#"{"watch":{"of":"socket","window":{"receives":1000000}}}"#, None),
        (r#"{"watch":{"of":"socket","window":{"seconds":-1}}}"#, None),
        (r#"{"watch":{"of":"socket","window":{"seconds":1e300}}}"#, None),
        (r#"{"watch":{"of":"process","window":{"seconds":1},"push":{"change":-1}}}"#, None),
        (r#"{"watch":{"of":"process","window":{"seconds":1},"push":{"change":1,"pause_s":1e-9}}}"#, None),
        (r#"{"watch":{"of":{"cgroup":"../../etc"},"window":{"seconds":1}}}"#, None),
        (r#"{"watch":{"of":"neighbour","window":{"seconds":1}}}"#, None),
        (r#"{"watch":{"of":"socket","window":{"seconds":1},"please":true}}"#, None),
        (socket, None),
        (socket, Some(file.as_fd())),
        (socket, Some(unix.0.as_fd())),
    ] {
        let answer = raw.ask(line, fd);
        let parts = ["what", "likely", "next"]
            .map(|part| answer["error"][part].as_str().unwrap_or_default().to_owned());
        assert!(parts.iter().all(|part| !part.is_empty()), "{line}: {answer}");
    }
    assert_eq!(raw.ask(socket, Some(near.as_fd()))["watching"]["id"], 1, "after all of that");
    assert_eq!(raw.ask(r#"{"ask":1}"#, None)["averages"]["id"], 1);
    assert_eq!(raw.ask(r#"{"end":1}"#, None), json!({"ended": 1}));
    // A line without an end, and unexpected file descriptors.
    let endless = Raw::connect(&scene.socket());
    let _ = endless.0.get_ref().write_all(&vec![b'x'; 1 << 16]);
    let mut hoard = Raw::connect(&scene.socket());
    for _ in 0..6 {
        hoard.send(r#"{"ask":1}"#, Some(file.as_fd()));
    }
    while hoard.hear().is_some() {}
    assert!(scene.is_well());
}

#[test]
fn who_comes_too_often_keeps_nobody_out() {
    let Some(mut scene) = Scene::new("crowd", &[]) else { return };
    let test = "a crowd";
    if !super::languages::has("python3", test) {
        return;
    }
    // One user opens the maximum number of connections, sends requests without reading, and watches as much as
    // possible.
    let script = r#"
import json, socket, sys
places, refused = [], 0
near = socket.socketpair(socket.AF_UNIX)
inet = socket.create_server(("127.0.0.1", 0))
for n in range(40):
    client = socket.socket(socket.AF_UNIX); client.connect(sys.argv[1]); client.settimeout(30)
    reader = client.makefile()
    try: socket.send_fds(client, [b'{"watch":{"of":"socket","window":{"receives":10000}}}\n'], [inet.fileno()])
    except OSError: pass # refused already
    told = json.loads(reader.readline())
    places.append((client, reader))
    refused += "no connection for user" in told.get("error", {}).get("what", "")
begun = 0
for client, reader in places[:16]:
    for n in range(70):
        socket.send_fds(client, [b'{"watch":{"of":"socket","window":{"receives":10000}}}\n'], [inet.fileno()])
        begun += "watching" in json.loads(reader.readline())
for client, reader in places[:16]:
    client.setblocking(False)
    try:
        while True: client.send(b'{"ask":1}\n' * 100)
    except OSError: pass
print(refused, begun, flush=True)
sys.stdin.read()
"#;
    let path = scene.dir().path().join("crowd.py");
    std::fs::write(&path, script).expect("a file");
    let mut command = Command::new("python3");
    command.arg("-I").arg(&path).arg(scene.socket()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut crowd = command.uid(NOBODY).gid(NOBODY).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(crowd.stdout.take().expect("piped")).read_line(&mut line).expect("it says so");
    let numbers: Vec<usize> = line.split_whitespace().map(|n| n.parse().expect("numbers")).collect();
    assert_eq!(numbers[0], 40 - 16, "{line}");
    // A quarter of the capacity in windows of 10,000: 26, of which 16 are already in use.
    assert_eq!(numbers[1], 26 - 16, "{line}");
    assert!(scene.is_well(), "for everybody else");
    drop(crowd.stdin.take());
    assert!(crowd.wait().expect("it ends").success());
    // Its resources are released.
    let (near, _far) = pair(scene.namespace());
    assert!(eventually(|| Watch::socket(&near).at(scene.socket()).open().is_ok()));
}
