//! The binary on a pseudo-terminal with its screen.

#![allow(dead_code)] // each test file uses a part

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use vt100::{Parser, Screen};

/// A program on a pseudo-terminal.
pub struct Terminal {
    /// The program.
    pub child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    parser: Arc<Mutex<Parser>>,
    raw: Arc<Mutex<Vec<u8>>>,
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

impl Terminal {
    /// Starts the binary with these arguments in `dir` on a terminal of this size.
    pub fn start(arguments: &[&str], dir: &Path, columns: u16, rows: u16) -> Self {
        Self::run(env!("CARGO_BIN_EXE_magnet-scope"), arguments, dir, columns, rows)
    }

    /// Starts any program.
    pub fn run(program: &str, arguments: &[&str], dir: &Path, columns: u16, rows: u16) -> Self {
        Self::run_on(program, arguments, dir, (columns, rows), &[], None)
    }

    /// As [`Self::run`], with additional environment, and a limit on the bytes per second.
    pub fn run_on(
        program: &str,
        arguments: &[&str],
        dir: &Path,
        (columns, rows): (u16, u16),
        environment: &[(&str, &str)],
        bytes_a_second: Option<u64>,
    ) -> Self {
        let pty = native_pty_system().openpty(size(columns, rows)).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.cwd(dir);
        for (name, value) in [("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("LANG", "C.UTF-8")] {
            command.env(name, value);
        }
        command.env("HOME", dir);
        for name in ["NO_COLOR", "LC_ALL", "LC_CTYPE", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        for (name, value) in environment {
            if value.is_empty() { command.env_remove(name) } else { command.env(name, value) }
        }
        let child = pty.slave.spawn_command(command).expect("the binary starts");
        drop(pty.slave);
        let mut reader = pty.master.try_clone_reader().expect("its other end");
        let writer = pty.master.take_writer().expect("its other end");
        let parser = Arc::new(Mutex::new(Parser::new(rows, columns, 0)));
        let raw = Arc::default();
        let (screen, bytes): (_, Arc<Mutex<Vec<u8>>>) = (Arc::clone(&parser), Arc::clone(&raw));
        thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut some) {
                if let Some(rate) = bytes_a_second {
                    thread::sleep(Duration::from_secs_f64(count as f64 / rate as f64));
                }
                screen.lock().expect("no panic").process(&some[..count]);
                bytes.lock().expect("no panic").extend_from_slice(&some[..count]);
            }
        });
        Terminal { child, master: pty.master, writer, parser, raw }
    }

    /// Types keys.
    pub fn keys(&mut self, keys: &str) {
        self.writer.write_all(keys.as_bytes()).and_then(|()| self.writer.flush()).expect("it listens");
    }

    /// Resizes the terminal.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.parser.lock().expect("no panic").screen_mut().set_size(rows, columns);
        self.master.resize(size(columns, rows)).expect("a terminal");
    }

    /// The current screen.
    pub fn screen(&self) -> Screen {
        self.parser.lock().expect("no panic").screen().clone()
    }

    /// The rows of the screen.
    pub fn text(&self) -> String {
        self.screen().contents()
    }

    /// Number of bytes written to it.
    pub fn bytes(&self) -> usize {
        self.raw.lock().expect("no panic").len()
    }

    /// Waits until this sequence was written to it.
    pub fn was_sent(&self, sequence: &str) {
        let wanted = sequence.as_bytes();
        let sent = super::eventually(|| {
            self.raw.lock().expect("no panic").windows(wanted.len()).any(|bytes| bytes == wanted)
        });
        assert!(sent, "{sequence:?} was not sent");
    }

    /// Waits until the screen contains `words`; fails with its content otherwise.
    pub fn shows(&self, words: &str) {
        let shown = super::eventually(|| self.text().contains(words));
        assert!(shown, "`{words}` does not come; there is\n{}", self.text());
    }

    /// Waits until the screen no longer contains `words`.
    pub fn hides(&self, words: &str) {
        // A frame comes in parts: in the middle of one, words may be gone that come again.
        let is_gone = || !self.text().contains(words);
        let hidden = super::eventually(|| {
            is_gone() && {
                thread::sleep(Duration::from_millis(50));
                is_gone()
            }
        });
        assert!(hidden, "`{words}` does not go; there is\n{}", self.text());
    }

    /// Waits for the end; returns true on success.
    pub fn ends(&mut self) -> bool {
        let mut status = None;
        let ended = super::eventually(|| {
            status = self.child.try_wait().expect("it is ours");
            status.is_some()
        });
        assert!(ended, "it does not end; there is\n{}", self.text());
        status.is_some_and(|status| status.success())
    }

    /// Waits until the terminal is restored: main screen, cursor, no mouse. The last output may arrive after
    /// the program's end.
    pub fn is_given_back(&self) -> bool {
        super::eventually(|| {
            let screen = self.screen();
            !screen.alternate_screen()
                && !screen.hide_cursor()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failed test leaves no process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
