//! A panic restores the terminal before its message is printed, and Ctrl-Z stops the whole job, if a shell can
//! resume it. The tests run themselves on a pseudo-terminal.

use super::{Job, Screen, Stop};
use crate::signals::Signals;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use std::io::Read;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

const IN_A_TERMINAL: &str = "MAGSCOPE_TEST_TERMINAL";

#[test]
fn a_panic_gives_the_terminal_back() {
    if std::env::var_os(IN_A_TERMINAL).is_some() {
        let mut screen = Screen::take(true).expect("a terminal");
        screen.draw(|buffer, _| buffer.set_string(0, 0, "drawn", ratatui::style::Style::new())).expect("drawn");
        panic!("what happened");
    }
    let size = PtySize { rows: 24, cols: 80, ..PtySize::default() };
    let pty = native_pty_system().openpty(size).expect("a pseudo-terminal");
    let mut command = CommandBuilder::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "terminal::tests::a_panic_gives_the_terminal_back", "--nocapture"]);
    command.env(IN_A_TERMINAL, "1");
    command.env("TERM", "xterm-256color");
    let mut child = pty.slave.spawn_command(command).expect("it starts");
    drop(pty.slave);
    let mut reader = pty.master.try_clone_reader().expect("its other end");
    let mut parser = vt100::Parser::new(24, 80, 0);
    let (mut taken, mut some) = (false, [0; 512]);
    while let Ok(count @ 1..) = reader.read(&mut some) {
        // byte by byte, so that every intermediate state is checked
        for byte in &some[..count] {
            parser.process(&[*byte]);
            taken |= parser.screen().alternate_screen() && parser.screen().contents().contains("drawn");
        }
    }
    assert!(!child.wait().expect("it ends").success());
    let screen = parser.screen();
    assert!(taken, "it drew on a screen of its own");
    assert!(!screen.alternate_screen() && !screen.hide_cursor());
    assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    assert!(screen.contents().contains("what happened"), "{}", screen.contents());
}

/// A shell with job control runs a shell that runs this test: the outer one has to see that the inner one stopped.
const JOB: &str = r#"
sh -c '"$0" --exact terminal::tests::a_stop_is_of_the_whole_job --nocapture; true' "$0"
echo "the job returned $?"
kill -s KILL %1
"#;

#[test]
fn a_stop_is_of_the_whole_job() {
    if std::env::var_os(IN_A_TERMINAL).is_some() {
        let _signals = Signals::catch().expect("signals");
        Screen::take(false).expect("a terminal").suspend(Stop::Job).expect("resumed");
        return;
    }
    let size = PtySize { rows: 24, cols: 80, ..PtySize::default() };
    let pty = native_pty_system().openpty(size).expect("a pseudo-terminal");
    let mut command = CommandBuilder::new("sh");
    command.args(["-m", "-c", JOB]);
    command.arg(std::env::current_exe().expect("this test"));
    command.env(IN_A_TERMINAL, "1");
    command.env("TERM", "xterm-256color");
    let mut child = pty.slave.spawn_command(command).expect("it starts");
    drop(pty.slave);
    // Where the inner shell goes on, both wait for each other.
    let mut killer = child.clone_killer();
    let (returned, wait) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        if wait.recv_timeout(Duration::from_secs(30)) == Err(RecvTimeoutError::Timeout) {
            let _ = killer.kill();
        }
    });
    let mut reader = pty.master.try_clone_reader().expect("its other end");
    let mut parser = vt100::Parser::new(24, 80, 0);
    let mut some = [0; 512];
    while let Ok(count @ 1..) = reader.read(&mut some) {
        parser.process(&some[..count]);
    }
    drop(returned);
    watchdog.join().expect("it ends");
    child.wait().expect("it ends");
    // 128 and SIGTSTP.
    assert!(parser.screen().contents().contains("the job returned 148"), "{}", parser.screen().contents());
}

/// As of `ssh -t`: a shell without job control leads the session and runs this test.
const NO_JOB: &str = r#"
"$0" --exact terminal::tests::nothing_stops_without_a_shell_to_return_to --nocapture
echo "the test returned $?"
"#;

#[test]
fn nothing_stops_without_a_shell_to_return_to() {
    if std::env::var_os(IN_A_TERMINAL).is_some() {
        let _signals = Signals::catch().expect("signals");
        for stop in [Stop::Job, Stop::Process] {
            assert!(!Screen::take(false).expect("a terminal").suspend(stop).expect("not stopped"));
        }
        return;
    }
    let size = PtySize { rows: 24, cols: 80, ..PtySize::default() };
    let pty = native_pty_system().openpty(size).expect("a pseudo-terminal");
    let mut command = CommandBuilder::new("sh");
    command.args(["-c", NO_JOB]);
    command.arg(std::env::current_exe().expect("this test"));
    command.env(IN_A_TERMINAL, "1");
    command.env("TERM", "xterm-256color");
    let mut child = pty.slave.spawn_command(command).expect("it starts");
    drop(pty.slave);
    // Where the test stops, its shell waits for it. The end of the leader ends and resumes the session.
    let mut killer = child.clone_killer();
    let (returned, wait) = mpsc::channel::<()>();
    let watchdog = thread::spawn(move || {
        if wait.recv_timeout(Duration::from_secs(30)) == Err(RecvTimeoutError::Timeout) {
            let _ = killer.kill();
        }
    });
    let mut reader = pty.master.try_clone_reader().expect("its other end");
    let mut parser = vt100::Parser::new(24, 80, 0);
    let mut some = [0; 512];
    while let Ok(count @ 1..) = reader.read(&mut some) {
        parser.process(&some[..count]);
    }
    drop(returned);
    watchdog.join().expect("it ends");
    child.wait().expect("it ends");
    assert!(parser.screen().contents().contains("the test returned 0"), "{}", parser.screen().contents());
}

#[test]
fn a_job_has_a_shell_if_it_has_a_group_of_its_own() {
    let job = |stat| Job::parse(stat).expect("a job");
    let of_shell = job("42 (a) b (c)) R 7 42 7 34816 42 4194304 100 0");
    assert_eq!(of_shell, Job { group: 42, session: 7, foreground: 42 });
    assert!(of_shell.has_shell());
    for leader in ["1 (magnet-scope) R 0 1 1 34816 1 4194304", "9 (x) S 1 0 0 0 -1 4194304"] {
        assert!(!job(leader).has_shell(), "{leader}");
    }
    for wrong in ["", "1 (x) R 0 1 1", "1 (x) R 0 a b c d"] {
        assert_eq!(Job::parse(wrong), None, "{wrong}");
    }
}
