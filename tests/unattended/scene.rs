//! A host with local traffic, a recorder of it, and directory contents.

use crate::common::exports;
use crate::common::hosts::{in_namespace, ip, namespace_name};
use crate::common::{eventually, magnet_scope, run, skipped, stderr};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A network namespace with two sockets that communicate over loopback.
pub struct Place {
    name: String,
    sender: UdpSocket,
    receiver: UdpSocket,
}

impl Place {
    pub fn new(test: &str) -> Option<Self> {
        let name = namespace_name(test);
        if !ip(&["netns", "add", &name]) {
            skipped(test, "`ip netns add` (iproute2) is not there or fails");
            return None;
        }
        assert!(ip(&["-n", &name, "link", "set", "lo", "up"]));
        let (sender, receiver) = in_namespace(&name, || {
            let bind = || UdpSocket::bind("127.0.0.1:0").expect("a port");
            (bind(), bind())
        });
        sender.connect(receiver.local_addr().expect("bound")).expect("a peer");
        Some(Place { name, sender, receiver })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends datagrams, each read before the next; each is one event of the recorder.
    pub fn exchange(&self, datagrams: u64) -> u64 {
        for _ in 0..datagrams {
            self.sender.send(&[7; 200]).expect("sent");
            self.receiver.recv(&mut [0; 300]).expect("read");
        }
        datagrams
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
    }
}

/// A recorder at a hop that every datagram passes once.
pub struct UnattendedRecorder {
    child: Child,
    messages: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl UnattendedRecorder {
    /// Starts the recorder and waits for its start.
    pub fn start(place: &Place, dir: &Path, options: &[&str], environment: &[(&str, String)]) -> Self {
        let dir_name = dir.display().to_string();
        let mut arguments = vec!["record", "--netns", &place.name, "--hops", "dev.recv", "-o", &dir_name];
        arguments.extend(options);
        let mut command = magnet_scope(&arguments);
        command.envs(environment.iter().map(|(name, value)| (*name, value)));
        let mut child = command.spawn().expect("the binary starts");
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let messages = Arc::new(Mutex::new(String::new()));
        let stderr_lines = messages.clone();
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut stderr_lines = stderr_lines.lock().expect("no thread has failed");
                stderr_lines.push_str(&line);
                stderr_lines.push('\n');
            }
        });
        let recorder = UnattendedRecorder { child, messages, reader: Some(reader) };
        assert!(recorder.printed("recording into"), "{}", recorder.messages());
        recorder
    }

    pub fn messages(&self) -> String {
        self.messages.lock().expect("no thread has failed").clone()
    }

    /// Waits for a message; returns false on timeout.
    pub fn printed(&self, words: &str) -> bool {
        eventually(|| self.messages().contains(words))
    }

    /// Ends it with SIGINT; returns its messages.
    pub fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it is there");
        let status = self.child.wait().expect("it ends");
        self.reader.take().map(JoinHandle::join);
        assert!(status.success(), "{}", self.messages());
        self.messages()
    }

    /// Ends it as Ctrl-C does, unless it has ended; its exit code and what it has said.
    pub fn end_with_code(mut self) -> (Option<i32>, String) {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        let status = self.child.wait().expect("it ends");
        self.reader.take().map(JoinHandle::join);
        (status.code(), self.messages())
    }

    /// Ends it as nothing should.
    pub fn kill(mut self) {
        self.child.kill().expect("it is there"); // SIGKILL
        self.child.wait().expect("it ends");
        self.reader.take().map(JoinHandle::join);
    }
}

impl Drop for UnattendedRecorder {
    fn drop(&mut self) {
        // A failed test leaves no process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names of the recordings below a directory that a recorder made, in order.
pub fn recordings(dir: &Path) -> Vec<String> {
    let listed = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_one = |path: PathBuf| path.join("meta.toml").is_file() && !path.is_symlink();
    let mut names: Vec<_> = listed
        .filter(|entry| is_one(entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.len() >= 20 && name.as_bytes()[10] == b'T')
        .collect();
    names.sort_unstable();
    names
}

pub fn info(dir: &Path) -> Value {
    let output = run(&["info", "--verify", "--json", &dir.display().to_string()]);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Events of all recordings below a directory.
pub fn events_below(dir: &Path) -> u64 {
    recordings(dir).iter().map(|name| info(&dir.join(name))["events"].as_u64().expect("a number")).sum()
}

/// All files below a directory, with data that reveals a rewrite.
pub fn files(dir: &Path) -> BTreeMap<String, (u64, u64, i64, i64)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        // The entry may have changed since the listing.
        let Ok(found) = entry.metadata() else { continue };
        if found.is_dir() {
            all.extend(files(&entry.path()).into_iter().map(|(below, file)| (format!("{name}/{below}"), file)));
        } else if entry.path().extension().is_none_or(|ending| ending != "part") {
            all.insert(name, (found.ino(), found.len(), found.mtime(), found.mtime_nsec()));
        }
    }
    all
}

pub fn bytes(dir: &Path) -> u64 {
    let listed = fs::read_dir(dir).into_iter().flatten().flatten();
    listed.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum()
}

/// A golden session as a writable copy.
pub fn copy_golden(name: &str, to: &Path) {
    fs::create_dir(to).expect("a directory");
    for entry in fs::read_dir(exports::golden(name)).expect("a golden session") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// Compares a recording with its copy below a root, byte by byte. Returns the copy's path.
pub fn assert_copy(original: &Path, root: &Path) -> PathBuf {
    let name = original.file_name().expect("a name");
    let hosts = fs::read_dir(root).expect("something was shipped").flatten();
    let copy = hosts.map(|host| host.path().join(name)).find(|path| path.exists());
    let copy = copy.unwrap_or_else(|| panic!("{} has not arrived in {}", original.display(), root.display()));
    let list = |dir: &Path| {
        let listed = fs::read_dir(dir).expect("a directory").flatten();
        let named = listed.map(|entry| (entry.file_name(), fs::read(entry.path()).expect("a file")));
        named.filter(|(name, _)| name != "shipped.log").collect::<BTreeMap<_, _>>()
    };
    let (ours, theirs) = (list(original), list(&copy));
    assert!(ours.keys().eq(theirs.keys()), "{:?} {:?}", ours.keys(), theirs.keys());
    for (name, bytes) in &ours {
        if name == "meta.toml" {
            // Another version may write different text.
            let session = |bytes: &[u8]| {
                let text = String::from_utf8_lossy(bytes).into_owned();
                text.lines().find(|line| line.starts_with("session = ")).map(str::to_owned)
            };
            assert!(session(bytes).is_some() && session(bytes) == session(&theirs[name]));
        } else {
            assert!(theirs[name] == *bytes, "{} differs", name.display());
        }
    }
    copy
}
