//! What a real chronyd says of UTC. Two of them in namespaces of their own, neither of which steers this machine's clock
//! (`-x`): one serves the time of this machine, the other follows it over a wire. So the truth is known: UTC is what
//! `CLOCK_REALTIME` shows.

use magscope_probe::clock::ClockSampler;
use magscope_probe::utc::UtcSources;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TEST: &str = "chronyd's bound of UTC";

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn skipped(because: &str) {
    println!("{TEST}: skipped, because {because}");
}

/// Two namespaces with a wire between them, and a place for what the daemons write.
struct Wire {
    names: [String; 2],
    dir: PathBuf,
}

impl Wire {
    fn new() -> Option<Self> {
        let id = std::process::id();
        let names = ["server", "client"].map(|role| format!("ms-utc-{id}-{role}"));
        let wire = Wire { names, dir: std::env::temp_dir().join(format!("ms-utc-{id}")) };
        fs::create_dir_all(&wire.dir).expect("a place");
        let [server, client] = &wire.names;
        let made = wire.names.iter().all(|name| ip(&["netns", "add", name]))
            && ip(&[
                "link", "add", "u0", "netns", server, "type", "veth", "peer", "name", "u0", "netns", client,
            ]);
        for (name, address) in [(server, "10.99.0.1/24"), (client, "10.99.0.2/24")] {
            let up = ip(&["-n", name, "addr", "add", address, "dev", "u0"])
                && ip(&["-n", name, "link", "set", "u0", "up"])
                && ip(&["-n", name, "link", "set", "lo", "up"]);
            if !made || !up {
                skipped("namespaces cannot be made and joined here");
                return None;
            }
        }
        Some(wire)
    }

    fn daemon(&self, which: usize, lines: &str) -> Daemon {
        let config = self.dir.join(format!("{which}.conf"));
        let pid = self.dir.join(format!("{which}.pid"));
        // Asked by its network address alone: the socket of the machine's own chronyd is none of ours.
        fs::write(&config, format!("{lines}\npidfile {}\nbindcmdaddress /\n", pid.display())).expect("room");
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.names[which], "chronyd", "-x", "-d", "-u", "root", "-f"])
            .arg(config);
        Daemon(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("chronyd starts"))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| {
            ip(&["netns", "del", name]);
        });
        let _ = fs::remove_dir_all(&self.dir);
    }
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a sampler in a namespace learns until it has a bound or `patience` ends.
fn learn(namespace: &str, patience: Duration) -> Option<u64> {
    let file = File::open(Path::new("/run/netns").join(namespace)).expect("the namespace");
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may enter");
            let sources = UtcSources { clockbound: Vec::new(), ..UtcSources::default() };
            let mut sampler = ClockSampler::asking(sources);
            let end = Instant::now() + patience;
            while Instant::now() < end {
                if let Some(error_ns) = sampler.poll().and_then(|sample| sample.utc_error_ns) {
                    return Some(error_ns);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            None
        });
        inside.join().expect("it ends")
    })
}

#[test]
fn a_daemon_that_follows_another_is_believed_and_one_that_follows_itself_is_not() {
    if !rustix::process::geteuid().is_root() {
        return skipped("it needs root");
    }
    let there = |name: &str| Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !there("chronyd") || !there("chronyc") {
        return skipped("there is no chronyd");
    }
    if Path::new("/run/chrony/chronyd.sock").exists() {
        return skipped("this machine's own chronyd would answer");
    }
    let Some(wire) = Wire::new() else { return };
    let _server = wire.daemon(0, "local stratum 2\nallow 10.99.0.0/24");
    let _client = wire.daemon(1, "server 10.99.0.1 iburst minpoll -2 maxpoll 0");
    let error_ns = learn(&wire.names[1], Duration::from_mins(1)).expect("a bound");
    println!("UTC within {error_ns} ns by chronyd");
    // The truth is 0, so that any bound holds; and over one wire of this machine it is no great one.
    assert!((1..50_000_000).contains(&error_ns), "{error_ns}");
    assert_eq!(learn(&wire.names[0], Duration::from_secs(6)), None, "it follows nothing but its own clock");
}
