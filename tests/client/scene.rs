//! An agent in a separate namespace, and traffic there.

use crate::common::hosts::{in_namespace, ip, namespace_name};
use crate::common::{eventually, is_root, magnet_scope, skipped};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Output};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A namespace with only a loopback device, and an agent that captures there.
pub struct Scene {
    name: String,
    dir: TempDir,
    agent: Child,
}

impl Scene {
    pub fn new(test: &str, more: &[&str]) -> Option<Self> {
        if !is_root(test) {
            return None;
        }
        let name = namespace_name(test);
        if !ip(&["netns", "add", &name]) {
            skipped(test, "`ip netns add` (iproute2) is not there or fails");
            return None;
        }
        assert!(ip(&["-n", &name, "link", "set", "lo", "up"]));
        let dir = TempDir::new().expect("a directory");
        // Every user must be able to reach the socket.
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).expect("own directory");
        let (own, watch_socket) = (dir.path().join("agent.sock"), dir.path().join("watch.sock"));
        let (own, watch_socket) = (own.display().to_string(), watch_socket.display().to_string());
        let all = ["agent", "--socket", &own, "--watch-socket", &watch_socket, "--max-overhead", "off"];
        let arguments = [&all[..], more].concat();
        let mut agent = in_namespace(&name, || magnet_scope(&arguments).spawn().expect("the binary starts"));
        let messages = Arc::new(Mutex::new(Vec::new()));
        let (lines, stderr) = (messages.clone(), agent.stderr.take().expect("piped"));
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().expect("no panic").push(line);
            }
        });
        let scene = Scene { name, dir, agent };
        let serves =
            || messages.lock().expect("no panic").iter().any(|line| line.contains("serving programs at"));
        assert!(eventually(serves), "{messages:?}");
        Some(scene)
    }

    pub fn namespace(&self) -> &str {
        &self.name
    }

    pub fn dir(&self) -> &TempDir {
        &self.dir
    }

    /// Path of the socket for programs.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("watch.sock")
    }

    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        in_namespace(&self.name, work)
    }

    /// True if the agent runs and answers.
    pub fn is_well(&mut self) -> bool {
        let (near, _far) = pair(&self.name);
        let watched = magscope_client::Watch::socket(&near).at(self.socket()).open();
        self.agent.try_wait().is_ok_and(|ended| ended.is_none())
            && watched.is_ok_and(|mut watched| watched.ask().is_ok())
    }

    /// Runs a second agent to its end.
    pub fn second(&self, more: &[&str]) -> Output {
        let own = self.dir.path().join("second.sock").display().to_string();
        let arguments = [&["agent", "--socket", &own][..], more].concat();
        in_namespace(&self.name, || magnet_scope(&arguments).output().expect("the binary starts"))
    }

    /// Kills the agent.
    pub fn kill(&mut self) {
        self.agent.kill().expect("it is there");
        self.agent.wait().expect("it ends");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.agent.kill();
        let _ = self.agent.wait();
        ip(&["netns", "del", &self.name]);
    }
}

/// A connection within a namespace: client and server socket.
pub fn pair(namespace: &str) -> (TcpStream, TcpStream) {
    in_namespace(namespace, || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        near.set_nodelay(true).expect("a socket");
        (near, listener.accept().expect("it came").0)
    })
}
