//! UTC bounds from real daemons. Two chronyd instances run in separate namespaces and do not steer this
//! machine's clock (`-x`). One serves the machine's time, the other follows it over a wire, so the true offset
//! is 0. A real `ClockBound` runs next to the second.

use magscope_probe::clock::ClockSampler;
use magscope_probe::utc::UtcSources;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const TEST: &str = "a daemon's bound of UTC";
/// Socket of this machine's own chronyd.
const SOCKET: &str = "/run/chrony/chronyd.sock";

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn skipped(because: &str) {
    println!("{TEST}: skipped, because {because}");
}

/// Two namespaces with a wire between them, and a directory for the daemons' files.
struct Wire {
    names: [String; 2],
    dir: PathBuf,
}

impl Wire {
    fn new(test: &str) -> Option<Self> {
        let id = std::process::id();
        let names = ["server", "client"].map(|role| format!("ms-{test}-{id}-{role}"));
        let wire = Wire { names, dir: std::env::temp_dir().join(format!("ms-{test}-{id}")) };
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
        fs::write(&config, format!("{lines}\npidfile {}\n", pid.display())).expect("room");
        let config = config.display().to_string();
        self.run(which, &["chronyd", "-x", "-d", "-u", "root", "-f", &config])
    }

    fn run(&self, which: usize, program: &[&str]) -> Daemon {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[which]]).args(program);
        Daemon(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
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

/// Error that a sampler in a namespace reports, or `None` after `patience`.
fn learn(namespace: &str, sources: &UtcSources, patience: Duration) -> Option<u64> {
    let file = File::open(Path::new("/run/netns").join(namespace)).expect("the namespace");
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may enter");
            let mut sampler = ClockSampler::asking(sources.clone());
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

/// True if the daemons are installed and this machine's own ones do not interfere.
fn can_run(programs: &[&str]) -> bool {
    let there = |name: &&&str| {
        Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "it needs root, which CI must give");
        skipped("it needs root");
    } else if let Some(missing) = programs.iter().find(|name| !there(name)) {
        skipped(&format!("there is no {missing}"));
    } else if Path::new(SOCKET).exists() {
        skipped("this machine's own chronyd would answer");
    } else {
        return true;
    }
    false
}

/// Serialises the tests: their daemons use the same paths as the machine's own.
static ALONE: Mutex<()> = Mutex::new(());

/// Disables the socket, so that only the network address answers.
const NO_SOCKET: &str = "bindcmdaddress /";
const SERVES: &str = "local stratum 2\nallow 10.99.0.0/24\nbindcmdaddress /";
const FOLLOWS: &str = "server 10.99.0.1 iburst minpoll -2 maxpoll 0\nmaxclockerror 1";

#[test]
fn a_daemon_that_follows_another_is_believed_and_one_that_follows_itself_is_not() {
    let _alone = ALONE.lock();
    if !can_run(&["chronyd", "chronyc"]) {
        return;
    }
    let Some(wire) = Wire::new("chrony") else { return };
    let _server = wire.daemon(0, SERVES);
    let _client = wire.daemon(1, &format!("{FOLLOWS}\n{NO_SOCKET}"));
    let chronyd = UtcSources { clockbound: Vec::new(), ..UtcSources::default() };
    let error_ns = learn(&wire.names[1], &chronyd, Duration::from_mins(1)).expect("a bound");
    println!("UTC within {error_ns} ns by chronyd");
    // The true offset is 0, so any bound is correct; one local wire implies a small one.
    assert!((1..50_000_000).contains(&error_ns), "{error_ns}");
    let own = learn(&wire.names[0], &chronyd, Duration::from_secs(6));
    assert_eq!(own, None, "it follows nothing but its own clock");
}

#[test]
fn clockbound_is_believed() {
    let _alone = ALONE.lock();
    if !can_run(&["chronyd", "clockbound"]) {
        return;
    }
    let Some(wire) = Wire::new("bound") else { return };
    let directories = ["/run/chrony", "/var/run/clockbound"].map(|dir| (dir, Path::new(dir).exists()));
    for (dir, _) in &directories {
        fs::create_dir_all(dir).expect("root may");
    }
    // ClockBound queries chronyd through its socket.
    fs::set_permissions("/run/chrony", fs::Permissions::from_mode(0o750)).expect("ours");
    {
        let _server = wire.daemon(0, SERVES);
        let _client = wire.daemon(1, FOLLOWS);
        let _bound = wire.run(1, &["clockbound", "--disable-clock-disruption-support"]);
        let by_it = UtcSources { chronyc: None, ..UtcSources::default() };
        let error_ns = learn(&wire.names[1], &by_it, Duration::from_mins(1)).expect("a bound");
        println!("UTC within {error_ns} ns by ClockBound");
        assert!((1..50_000_000).contains(&error_ns), "{error_ns}");
    }
    for (dir, _) in directories.iter().filter(|(_, was_there)| !was_there) {
        fs::remove_dir_all(dir).expect("what was made here goes");
    }
}
