//! Agents on two hosts, and the certificates of all hosts.

#![allow(dead_code)] // each test file uses a part

use super::hosts::{CLIENT, Hosts, SERVER, in_namespace};
use super::{eventually, magnet_scope, run, stderr};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Limits of `health` for what depends on the machine's other load.
#[rustfmt::skip]
pub const LAX: [&str; 14] = [
    "--max-drops", "1000000", "--max-softirq", "100%", "--max-lost", "100%", "--max-wakeup", "1h", "--max-wakeup-median", "1h",
    "--max-queue", "1h", "--max-queue-median", "1h",
];

/// Hosts, a directory, and the folder of all certificates below it; `None` if hosts cannot be created.
pub fn scene(test: &str) -> Option<(Hosts, TempDir, String)> {
    let hosts = Hosts::new(test)?;
    let dir = tempfile::tempdir().expect("a directory");
    let tls = certificates(dir.path());
    Some((hosts, dir, tls))
}

/// Makes an authority with certificates for both hosts, a relay and a viewer, in `tls` below a directory.
fn certificates(dir: &Path) -> String {
    let tls = dir.join("tls").display().to_string();
    let (client, server) = (format!("client,{CLIENT}"), format!("server,{SERVER},127.0.0.1"));
    let output =
        run(&["agent", "init", &tls, "--host", &client, "--host", &server, "--relay", "hub", "--viewer", "me"]);
    assert!(output.status.success(), "{}", stderr(&output));
    tls
}

/// The binary, started on a host and ended on drop.
pub fn on(namespace: &str, arguments: &[&str]) -> Running {
    // Not by `ip netns exec`, which hides the cgroups.
    let child = in_namespace(namespace, || magnet_scope(arguments).spawn().expect("the binary starts"));
    Running(Some(child))
}

/// A running program.
pub struct Running(Option<Child>);

impl Running {
    /// Starts it.
    pub fn of(mut command: Command) -> Self {
        Running(Some(command.spawn().expect("the binary starts")))
    }

    /// Ends it as Ctrl-C does; what it said.
    pub fn end(self) -> Output {
        self.signal(Signal::INT);
        self.wait()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.0.as_ref().expect("it was started").id()
    }

    /// Stops or resumes it.
    pub fn signal(&self, signal: Signal) {
        let child = self.0.as_ref().expect("it was started");
        kill_process(Pid::from_child(child), signal).expect("it is there");
    }

    /// Waits for its end; returns its output.
    pub fn wait(mut self) -> Output {
        self.0.take().expect("it was started").wait_with_output().expect("it ends")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The binary on a host, run to its end.
pub fn run_on(namespace: &str, arguments: &[&str]) -> Output {
    on(namespace, arguments).wait()
}

/// An agent of one host.
pub struct AgentChild {
    child: Child,
    messages: Arc<Mutex<Vec<String>>>,
}

impl AgentChild {
    /// The client's or the server's agent with further arguments; it listens on return.
    pub fn start(hosts: &Hosts, server: bool, tls: &str, dir: &Path, more: &[&str]) -> Self {
        let (namespace, name, address) =
            if server { (&hosts.names[2], "server", SERVER) } else { (&hosts.names[0], "client", CLIENT) };
        let socket = dir.join(format!("{name}.sock")).display().to_string();
        let (listen, identity) = (format!("{address}:6246"), format!("host-{name}"));
        let mut arguments = vec!["agent", "--listen", &listen, "--tls", tls, "--identity", &identity];
        arguments.extend(["--socket", &socket, "--hops", "all", "--max-overhead", "off"]);
        arguments.extend(more);
        let mut child =
            in_namespace(namespace, || magnet_scope(&arguments).spawn().expect("the binary starts"));
        let messages = Arc::new(Mutex::new(Vec::new()));
        let (lines, stderr) = (messages.clone(), child.stderr.take().expect("piped"));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().expect("no panic").push(line);
            }
        });
        let agent = AgentChild { child, messages };
        assert!(agent.printed(&format!("listening at unix:{socket}")), "{:?}", agent.messages);
        agent
    }

    /// Waits for a message with this text; returns false on timeout.
    pub fn printed(&self, words: &str) -> bool {
        eventually(|| self.messages.lock().expect("no panic").iter().any(|line| line.contains(words)))
    }

    /// Messages so far.
    pub fn messages(&self) -> Vec<String> {
        self.messages.lock().expect("no panic").clone()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with SIGTERM; returns its messages.
    pub fn end(mut self) -> Vec<String> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it is there");
        assert!(self.child.wait().expect("it ends").success(), "{:?}", self.messages);
        assert!(self.printed("ended: "), "{:?}", self.messages);
        self.messages()
    }

    /// Kills it.
    pub fn kill(mut self) {
        self.child.kill().expect("it is there");
        self.child.wait().expect("it ends");
    }
}

impl Drop for AgentChild {
    fn drop(&mut self) {
        // A failed test leaves no process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
