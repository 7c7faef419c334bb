//! The screen on a real pseudo-terminal: it draws, it quits, and it does not outlive its terminal.

mod common;

use common::{children, eventually, is_root};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// What has been drawn so far.
type Drawn = Arc<Mutex<String>>;

/// Starts the demo on a terminal of 120 × 40, made by `script`.
fn start() -> Option<(Child, Drawn)> {
    let command = format!("stty cols 120 rows 40; exec {} demo", env!("CARGO_BIN_EXE_magnet-scope"));
    let child = Command::new("script")
        .args(["-qfec", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        common::skipped("the screen", "`script` is not installed");
        return None;
    };
    let drawn = Drawn::default();
    let (mut output, copy) = (child.stdout.take().expect("a pipe"), Arc::clone(&drawn));
    thread::spawn(move || {
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = output.read(&mut some) {
            copy.lock().expect("no panic").push_str(&String::from_utf8_lossy(&some[..count]));
        }
    });
    Some((child, drawn))
}

fn shows(drawn: &Drawn, word: &str) -> bool {
    drawn.lock().expect("no panic").contains(word)
}

#[test]
fn it_draws_and_q_ends_it() {
    if !is_root("the screen") {
        return;
    }
    let Some((mut child, drawn)) = start() else { return };
    assert!(eventually(|| shows(&drawn, "app.recv") && shows(&drawn, "slow-read")), "{:?}", drawn.lock());
    child.stdin.as_mut().expect("a pipe").write_all(b"q").expect("it listens");
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}");
    assert!(shows(&drawn, "\x1b[?1049l"), "the terminal is given back");
}

#[test]
fn a_terminal_that_goes_away_takes_everything_along() {
    if !is_root("the end of the terminal") {
        return;
    }
    let Some((mut child, drawn)) = start() else { return };
    assert!(eventually(|| shows(&drawn, "app.recv")), "{:?}", drawn.lock());
    let scopes = children(child.id());
    assert_eq!(scopes.len(), 1, "{scopes:?}");
    let hosts = children(scopes[0]);
    assert_eq!(hosts.len(), 2, "{hosts:?}");
    child.kill().expect("it is there"); // the terminal goes with `script`
    child.wait().expect("it ends");
    let gone = eventually(|| scopes.iter().chain(&hosts).all(|pid| !common::is_alive(*pid)));
    assert!(gone, "outlived their terminal: {scopes:?} {hosts:?}");
}
