//! The real window on a virtual display (Xvfb): two recorded hosts, a live capture, a damaged recording.

use crate::common::{self, hosts::namespace_name};

use common::{eventually, is_root, magnet_scope, skipped};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// True if the tools are installed.
fn tools(test: &str) -> bool {
    for tool in ["Xvfb", "xdotool", "import", "identify"] {
        if !Command::new("sh")
            .args(["-c", &format!("command -v {tool}")])
            .output()
            .is_ok_and(|o| o.status.success())
        {
            skipped(test, &format!("{tool} is not there (scripts/setup-clients.sh installs it)"));
            return false;
        }
    }
    true
}

/// A virtual display.
struct Display {
    server: Child,
    name: String,
}

impl Display {
    fn open() -> Self {
        let mut server = Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "1440x900x24", "-nolisten", "tcp"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Xvfb starts");
        let mut number = String::new();
        BufReader::new(server.stdout.take().expect("its stdout")).read_line(&mut number).expect("its number");
        Display { server, name: format!(":{}", number.trim()) }
    }

    fn tool(&self, arguments: &[&str]) -> String {
        let output =
            Command::new("xdotool").args(arguments).env("DISPLAY", &self.name).output().expect("xdotool");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// A screenshot of the display.
    fn shoot(&self, to: &Path) {
        let status = Command::new("import")
            .args(["-window", "root"])
            .arg(to)
            .env("DISPLAY", &self.name)
            .status()
            .expect("import runs");
        assert!(status.success());
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Number of colours in a picture: a drawn window has hundreds.
fn colours(picture: &Path) -> usize {
    let output = Command::new("identify").args(["-format", "%k"]).arg(picture).output().expect("identify");
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(0)
}

/// Pixels that differ between two pictures.
fn differ(a: &Path, b: &Path) -> f64 {
    let output = Command::new("compare")
        .args(["-metric", "AE"])
        .args([a, b])
        .arg("null:")
        .output()
        .expect("compare runs");
    let text = String::from_utf8_lossy(&output.stderr);
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(f64::MAX)
}

/// Pixels by which a blinking cursor may change a picture.
const BLINK: f64 = 150.0;

/// The window, with its own directory.
struct Gui<'d> {
    child: Child,
    display: &'d Display,
    id: String,
    dir: PathBuf,
    shots: usize,
}

impl<'d> Gui<'d> {
    fn open(display: &'d Display, dir: &Path, arguments: &[&str]) -> Self {
        let mut all = vec!["gui"];
        all.extend(arguments);
        let child = magnet_scope(&all)
            .current_dir(dir)
            .env("DISPLAY", &display.name)
            .env("XDG_CONFIG_HOME", dir.join("config"))
            .env("LIBGL_ALWAYS_SOFTWARE", "1")
            .env_remove("WAYLAND_DISPLAY")
            .stderr(File::create(dir.join("stderr")).expect("a file"))
            .spawn()
            .expect("the binary starts");
        let mut gui = Gui { child, display, id: String::new(), dir: dir.to_owned(), shots: 0 };
        let found = eventually(|| {
            std::thread::sleep(Duration::from_millis(100));
            let all = display.tool(&["search", "--onlyvisible", "--name", "magnet-scope"]);
            all.lines().last().unwrap_or_default().clone_into(&mut gui.id);
            !gui.id.is_empty()
        });
        assert!(found, "no window: {}", fs::read_to_string(dir.join("stderr")).unwrap_or_default());
        display.tool(&["windowmove", &gui.id, "0", "0"]);
        display.tool(&["windowsize", &gui.id, "1440", "900"]);
        display.tool(&["windowfocus", &gui.id]);
        gui
    }

    fn key(&self, keys: &[&str]) {
        self.display.tool(&["windowfocus", &self.id]);
        for key in keys {
            self.display.tool(&["key", key]);
            std::thread::sleep(Duration::from_millis(120));
        }
    }

    fn type_text(&self, text: &str) {
        self.display.tool(&["type", "--delay", "30", text]);
    }

    /// Waits until the picture stays as it is; returns it.
    fn rests(&self) -> PathBuf {
        let (before, later) = (self.dir.join("before.png"), self.dir.join("later.png"));
        self.display.shoot(&before);
        let rests = eventually(|| {
            self.display.shoot(&later);
            let same = differ(&before, &later) < BLINK;
            fs::rename(&later, &before).expect("own files");
            same
        });
        assert!(rests, "the picture never rests");
        before
    }

    /// Does something, and waits until the window shows another picture: keys that come in one frame would all go to
    /// what has the focus before it. A blinking cursor is no other picture.
    fn changes(&self, what: &str, act: impl FnOnce(&Self)) {
        let (before, after) = (self.rests(), self.dir.join("after.png"));
        act(self);
        let changed = eventually(|| {
            self.display.shoot(&after);
            differ(&before, &after) > BLINK
        });
        assert!(changed, "{what} changes nothing");
    }

    /// Saves the picture by the dialog.
    fn save(&self, to: &Path) {
        self.changes("the dialog", |gui| gui.key(&["S"]));
        self.changes("selecting the name", |gui| gui.key(&["ctrl+a"]));
        self.changes("the new name", |gui| gui.type_text(&to.display().to_string()));
        self.changes("saving", |gui| gui.key(&["Return"]));
    }

    /// A screenshot after the first drawing.
    fn shoot(&mut self, name: &str) -> PathBuf {
        self.shots += 1;
        let to = self.dir.join(format!("{}-{name}.png", self.shots));
        let drawn = eventually(|| {
            std::thread::sleep(Duration::from_millis(250));
            self.display.shoot(&to);
            colours(&to) > 60
        });
        assert!(
            drawn,
            "{name} shows nothing: {}",
            fs::read_to_string(self.dir.join("stderr")).unwrap_or_default()
        );
        if let Some(keep) = std::env::var_os("KEEP_PICTURES") {
            fs::copy(&to, Path::new(&keep).join(format!("{name}.png"))).expect("room for a picture");
        }
        to
    }

    /// Threads with capabilities.
    fn privileged_threads(&self) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let statuses = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
        statuses
            .filter(|status| {
                ["CapEff", "CapPrm"].iter().any(|set| common::field(status, set) != Some("0000000000000000"))
            })
            .collect()
    }

    fn end(mut self) {
        self.key(&["q"]);
        let mut status = None;
        assert!(eventually(|| {
            std::thread::sleep(Duration::from_millis(50));
            status = self.child.try_wait().expect("it is ours");
            status.is_some()
        }));
        let messages = fs::read_to_string(self.dir.join("stderr")).unwrap_or_default();
        assert!(status.is_some_and(|status| status.success()), "{messages}");
        assert!(!messages.contains("panicked"), "{messages}");
    }
}

impl Drop for Gui<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two namespaces joined by a wire, removed on drop.
struct Hosts([String; 2]);

const ADDRESSES: [&str; 2] = ["10.78.1.1", "10.78.1.2"];

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Hosts {
    fn new(test: &str) -> Option<Self> {
        let hosts = Hosts(["a", "b"].map(|host| namespace_name(&format!("{test}{host}"))));
        let [a, b] = &hosts.0;
        if !ip(&["netns", "add", a]) || !ip(&["netns", "add", b]) {
            skipped(test, "`ip netns add` (iproute2) is not there or fails");
            return None;
        }
        assert!(ip(&["link", "add", "w0", "netns", a, "type", "veth", "peer", "name", "w0", "netns", b]));
        for (host, address) in hosts.0.iter().zip(ADDRESSES) {
            assert!(ip(&["-n", host, "addr", "add", &format!("{address}/24"), "dev", "w0"]));
            assert!(ip(&["-n", host, "link", "set", "w0", "up"]));
        }
        Some(hosts)
    }

    fn inside<T: Send>(&self, at: usize, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(Path::new("/run/netns").join(&self.0[at])).expect("the namespace");
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter");
                work()
            });
            thread.join().expect("the work is done")
        })
    }

    /// Requests and answers over TCP, a few milliseconds apart.
    fn talk(&self, rounds: usize) {
        let listener = self.inside(1, || TcpListener::bind((ADDRESSES[1], 7000)).expect("a port"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut request = [0; 300];
                while stream.read_exact(&mut request).is_ok() {
                    stream.write_all(&[7; 5000]).expect("an answer");
                }
            });
            let mut stream =
                self.inside(0, || TcpStream::connect((ADDRESSES[1], 7000)).expect("the server listens"));
            let mut answer = [0; 5000];
            for _ in 0..rounds {
                stream.write_all(&[1; 300]).expect("a request");
                stream.read_exact(&mut answer).expect("an answer");
                std::thread::sleep(Duration::from_millis(3));
            }
        });
    }

    /// Records both during the exchange.
    fn record(&self, dir: &TempDir) -> [String; 2] {
        let dirs = ["client.session", "server.session"].map(|name| dir.path().join(name).display().to_string());
        let mut recorders: Vec<Child> = self
            .0
            .iter()
            .zip(&dirs)
            .map(|(host, to)| magnet_scope(&["record", "--netns", host, "-o", to]).spawn().expect("it starts"))
            .collect();
        for to in &dirs {
            assert!(eventually(|| Path::new(to).join("meta.toml").exists()), "it records");
        }
        self.talk(150);
        for recorder in &mut recorders {
            kill_process(Pid::from_child(recorder), Signal::INT).expect("it is there");
            assert!(recorder.wait().expect("it ends").success());
        }
        dirs
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &self.0 {
            ip(&["netns", "del", host]);
        }
    }
}

#[test]
fn two_recorded_hosts_are_opened_zoomed_inspected_and_written() {
    let test = "two_recorded_hosts";
    if !tools(test) || !is_root(test) {
        return;
    }
    let Some(hosts) = Hosts::new("rec") else { return };
    let dir = tempfile::tempdir().expect("room");
    let dirs = hosts.record(&dir);
    let display = Display::open();
    let mut gui = Gui::open(&display, dir.path(), &[&dirs[0], &dirs[1]]);
    gui.shoot("two-hosts-opened");
    gui.rests();
    let whole = gui.shoot("two-hosts-whole");
    gui.key(&["j", "Return"]);
    let other = eventually(|| differ(&whole, &gui.shoot("two-hosts-journey")) > 10_000.0);
    assert!(other, "the picture is another one");
    gui.key(&["plus"; 5]);
    gui.shoot("two-hosts-near");
    let png = dir.path().join("picture.png");
    gui.save(&png);
    assert!(eventually(|| png.exists()), "the picture is written");
    assert!(eventually(|| colours(&png) > 60));
    let svg = dir.path().join("picture.svg");
    gui.save(&svg);
    assert!(eventually(|| fs::read_to_string(&svg).is_ok_and(|text| text.ends_with("</svg>\n"))));
    let text = fs::read_to_string(&svg).expect("it is there");
    assert!(text.contains("app.recv") && text.contains("dev.xmit"), "names are words in it");
    display.tool(&["windowsize", &gui.id, "800", "520"]);
    gui.shoot("two-hosts-small");
    display.tool(&["windowsize", &gui.id, "1440", "900"]);
    gui.shoot("two-hosts-again");
    assert_eq!(gui.privileged_threads(), Vec::<String>::new());
    gui.end();
}

#[test]
fn a_live_capture_has_no_privilege_left() {
    let test = "live_window";
    if !tools(test) || !is_root(test) {
        return;
    }
    let Some(hosts) = Hosts::new("live") else { return };
    let dir = tempfile::tempdir().expect("room");
    let display = Display::open();
    let mut gui = Gui::open(&display, dir.path(), &["--live", "--netns", &hosts.0[0], "--netns", &hosts.0[1]]);
    hosts.talk(400);
    let first = gui.shoot("live");
    hosts.talk(200);
    assert!(eventually(|| differ(&first, &gui.shoot("live-later")) > 200.0), "time goes on");
    // Recorded from here until the same key.
    let recording = || {
        let entries = fs::read_dir(dir.path()).expect("it is there").flatten();
        entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|e| e == "session"))
    };
    gui.key(&["r"]);
    assert!(eventually(|| recording().is_some_and(|path| path.join("meta.toml").exists())), "it records");
    hosts.talk(100);
    gui.shoot("live-recording");
    gui.key(&["r"]);
    let path = recording().expect("it is there").display().to_string();
    let good = eventually(|| {
        std::thread::sleep(Duration::from_millis(200));
        common::run(&["info", &path]).status.success()
            && common::stdout(&common::run(&["journeys", &path])).contains(ADDRESSES[0])
    });
    assert!(good, "{}", common::stdout(&common::run(&["info", &path])));
    assert_eq!(gui.privileged_threads(), Vec::<String>::new());
    gui.end();
}

#[test]
fn damage_and_mistakes_are_told_in_a_dialog() {
    let test = "damaged_window";
    if !tools(test) {
        return;
    }
    let dir = tempfile::tempdir().expect("room");
    let display = Display::open();
    let damaged = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/damaged/session");
    let mut gui = Gui::open(&display, dir.path(), &[damaged]);
    gui.shoot("damaged");
    gui.changes("closing the dialog", |gui| gui.key(&["Escape"]));
    gui.end();
    let none = dir.path().join("none.session").display().to_string();
    let mut gui = Gui::open(&display, dir.path(), &[&none]);
    gui.shoot("missing");
    drop(gui);
}
