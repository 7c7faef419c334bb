//! The attacked agent on the server and relay on the router, each with its own folder.

use crate::common::agents::{AgentChild, Running, on, run_on, scene};
use crate::common::hosts::{Hosts, SERVER};
use crate::common::{eventually, stderr, stdout};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Address of the relay.
pub const RELAY: &str = "10.77.1.1";

pub struct Target {
    // Both end before their hosts.
    pub agent: AgentChild,
    pub _relay: Running,
    pub hosts: Hosts,
    pub dir: TempDir,
    /// The authority's folder.
    pub tls: String,
}

impl Target {
    /// Starts both, the agent with further arguments; `None` if hosts cannot be created.
    pub fn start(test: &str, more: &[&str]) -> Option<Self> {
        let (hosts, dir, tls) = scene(test)?;
        let relay = ["agent", "init", &tls, "--relay", &format!("front,{RELAY}")];
        let made = crate::common::run(&relay);
        assert!(made.status.success(), "{}", stderr(&made));
        let own = folder(dir.path(), "server", &tls, "host-server");
        let agent = AgentChild::start(&hosts, true, &own, dir.path(), more);
        let own = folder(dir.path(), "relay", &tls, "relay-front");
        let (listen, socket) = (format!("{RELAY}:6246"), dir.path().join("relay.sock").display().to_string());
        let arguments = ["relay", "--connect", SERVER, "--tls", &own, "--listen", &listen, "--socket", &socket];
        let relay = on(&hosts.names[1], &arguments);
        let target = Target { hosts, dir, tls, agent, _relay: relay };
        assert!(eventually(|| target.about(RELAY, "viewer-me").status.success()), "the relay serves");
        assert!(target.agent.printed("front reads"), "the relay reads");
        Some(target)
    }

    /// Queries the description of the agent or relay with a certificate of the authority.
    pub fn about(&self, address: &str, identity: &str) -> Output {
        self.about_from(address, &self.tls, identity)
    }

    /// As [`Self::about`], with a certificate of another folder.
    pub fn about_from(&self, address: &str, tls: &str, identity: &str) -> Output {
        run_on(&self.hosts.names[0], &["agent", "about", address, "--tls", tls, "--identity", identity])
    }

    /// Asserts that this certificate is refused with an error that names the cause.
    pub fn refuses(&self, address: &str, identity: &str) {
        let asked = self.about(address, identity);
        assert!(
            !asked.status.success() && asked.stdout.is_empty(),
            "{identity} at {address}: {}",
            stdout(&asked)
        );
        assert!(stderr(&asked).contains("cannot read an agent"), "{identity} at {address}: {}", stderr(&asked));
    }

    /// The folder of the agent or of the relay.
    pub fn folder_of(&self, address: &str) -> PathBuf {
        self.dir.path().join(if address == RELAY { "relay" } else { "server" })
    }
}

/// A host's folder: the authority's certificate and list, its own certificate and key.
fn folder(dir: &Path, name: &str, tls: &str, identity: &str) -> String {
    let own = dir.join(name);
    fs::create_dir(&own).expect("a folder");
    for file in ["ca.pem", "crl.pem", &format!("{identity}.pem"), &format!("{identity}.key")] {
        fs::copy(Path::new(tls).join(file), own.join(file)).expect("a file");
    }
    own.display().to_string()
}
