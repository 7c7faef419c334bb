//! The demo's two hosts: anonymous network namespaces joined by a veth pair, with a traffic process in each.
//!
//! Nothing may remain after any exit, including `kill -9`. Nothing therefore has a name in the file system. The
//! namespaces exist through this process's file descriptors and the two children, and the veth pair ends with
//! them. The children end with the parent (`PR_SET_PDEATHSIG`, and end of file on stdin).

mod link;
mod namespace;
pub mod traffic;

use crate::failure::Hint;
use anyhow::{Context, Result, bail};
use magscope_scope::TourFault;
use namespace::Netns;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// Which of the two hosts a process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// Connects and sends.
    Client,
    /// Listens, answers, reads.
    Server,
}

impl Role {
    /// Name on the command line and of the namespace in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Client => "client",
            Role::Server => "server",
        }
    }
}

/// Both hosts, ready for [`Hosts::go`].
#[derive(Debug)]
pub struct Hosts {
    client: Host,
    server: Host,
}

#[derive(Debug)]
struct Host {
    role: Role,
    netns: Netns,
    process: Child,
}

impl Hosts {
    /// Creates the namespaces, the link and the two processes. Traffic waits for [`Hosts::go`], so that the
    /// first packet is captured.
    ///
    /// Call from the main thread: children end with the thread that started them.
    pub fn start(quiet: bool) -> Result<Self> {
        let home = Netns::current()?;
        let made = Self::make(&home, quiet);
        home.enter()?;
        made
    }

    fn make(home: &Netns, quiet: bool) -> Result<Self> {
        let server = Host::start(Role::Server, quiet)?;
        home.enter()?;
        let client = Host::start(Role::Client, quiet)?;
        let mut hosts = Hosts { client, server };
        link::join(
            (&hosts.client.netns, hosts.client.process.id()),
            (&hosts.server.netns, hosts.server.process.id()),
        )?;
        hosts.server.expect("ready")?;
        hosts.client.expect("ready")?;
        Ok(hosts)
    }

    /// Starts the traffic.
    pub fn go(&mut self) -> Result<()> {
        self.server.send_command("go")?;
        self.server.expect("listening")?;
        self.client.send_command("go")
    }

    /// Makes a fault in the traffic, or none.
    pub fn set_fault(&mut self, fault: Option<TourFault>) -> Result<()> {
        let word = traffic::word_of(fault);
        [&mut self.client, &mut self.server].into_iter().try_for_each(|host| host.send_command(word))
    }

    /// The two namespaces with their names.
    pub fn namespaces(&self) -> [(&'static str, &File); 2] {
        [&self.client, &self.server].map(|host| (host.role.name(), host.netns.file()))
    }

    /// Fails if one of the two has ended.
    pub fn check(&mut self) -> Result<()> {
        for host in [&mut self.client, &mut self.server] {
            if let Some(status) = host.process.try_wait()? {
                bail!("the demo's {} ended early: {status}", host.role.name());
            }
        }
        Ok(())
    }
}

impl Host {
    /// Moves this thread into a new namespace and starts a process there.
    fn start(role: Role, quiet: bool) -> Result<Self> {
        let netns = Netns::unshare()?;
        let process = Command::new("/proc/self/exe")
            .args(["demo-host", "--role", role.name(), "--parent", &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A message would disturb the screen; the exit status is reported afterwards.
            .stderr(if quiet { Stdio::null() } else { Stdio::inherit() })
            .spawn()
            .with_context(|| format!("cannot start the demo's {}", role.name()))?;
        Ok(Host { role, netns, process })
    }

    fn send_command(&mut self, word: &str) -> Result<()> {
        let name = self.role.name();
        let stdin = self.process.stdin.as_mut().with_context(|| format!("no way to talk to the {name}"))?;
        writeln!(stdin, "{word}").with_context(|| format!("the demo's {name} does not listen"))
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        let name = self.role.name();
        let stdout = self.process.stdout.as_mut().with_context(|| format!("no way to hear the {name}"))?;
        let mut line = String::new();
        // The children send one word at a time and wait in between, so no data is lost in the buffer.
        BufReader::with_capacity(64, stdout).read_line(&mut line)?;
        if line.trim() == word {
            return Ok(());
        }
        let status = self.process.try_wait()?.map_or_else(|| "still running".to_owned(), |s| s.to_string());
        Err(Hint::error(
            format!("the demo's {name} said `{}` where `{word}` was expected ({status})", line.trim()),
            "its address or port could not be set up",
            "`magnet-scope doctor` says what this kernel has",
        ))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in [&mut self.client, &mut self.server] {
            // Ended by its handle, so never another process with a reused id.
            let _ = host.process.kill();
            let _ = host.process.wait();
        }
    }
}
