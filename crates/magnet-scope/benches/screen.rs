//! The screen of the real binary on a pseudo-terminal: time to the first picture of ten million events, bytes
//! per frame, and cost when idle.
//!
//! `cargo bench --workspace --bench screen`.
#![allow(missing_docs)]

use magscope_core::Batch;
use magscope_core::generator::{Generator, GeneratorOptions};
use magscope_core::source::{Progress, Source};
use magscope_session::{RecordOptions, Recorder};
use portable_pty::{Child, CommandBuilder, PtySize, native_pty_system};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const EVENTS: u64 = 10_000_000;
/// First bytes of a frame (synchronised update).
const FRAME: &[u8] = b"\x1b[?2026h";

fn main() {
    let dir = tempfile::tempdir().expect("a directory");
    let session = dir.path().join("session");
    let began = Instant::now();
    record(&session);
    println!("recorded in {:.1} s", began.elapsed().as_secs_f64());
    for (columns, rows) in [(80, 24), (200, 60)] {
        look(&session, columns, rows);
    }
}

fn record(session: &Path) {
    let options = GeneratorOptions { events: EVENTS, ..GeneratorOptions::default() };
    let mut generator = Generator::new(options);
    let roomy = RecordOptions { queue_bytes: 4 << 30, ..RecordOptions::default() };
    let mut recorder = Recorder::create(session, generator.info(), roomy).expect("a new directory");
    let mut batch = Batch::default();
    while generator.next(&mut batch, Duration::ZERO).expect("a generator") == Progress::More {
        recorder.append(&batch).expect("room on the disk");
    }
    let summary = recorder.close().expect("room on the disk");
    println!("{} events in the recording", summary.events);
}

/// Terminal output with times.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    picture: Option<Instant>,
}

fn look(session: &Path, columns: u16, rows: u16) {
    let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
    let pty = native_pty_system().openpty(size).expect("a pseudo-terminal");
    let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_magnet-scope"));
    command.args(["replay".as_ref(), session.as_os_str()]);
    for (name, value) in [("TERM", "xterm-256color"), ("COLORTERM", "truecolor"), ("LANG", "C.UTF-8")] {
        command.env(name, value);
    }
    let began = Instant::now();
    let mut child = pty.slave.spawn_command(command).expect("the binary starts");
    drop(pty.slave);
    let mut writer = pty.master.take_writer().expect("its other end");
    let mut reader = pty.master.try_clone_reader().expect("its other end");
    let line = Arc::new(Mutex::new(Line::default()));
    let seen = Arc::clone(&line);
    thread::spawn(move || {
        let mut some = vec![0; 1 << 16];
        while let Ok(count @ 1..) = reader.read(&mut some) {
            let mut line = seen.lock().expect("no panic");
            line.bytes.extend_from_slice(&some[..count]);
            // A lifeline dot or a density shade: the picture, as opposed to its frame.
            if line.picture.is_none() && has_picture(&line.bytes) {
                line.picture = Some(Instant::now());
            }
        }
    });
    thread::sleep(Duration::from_secs(5));
    report(&line, began, &format!("{columns} × {rows}, playing"));
    writer.write_all(b" ").expect("it listens");
    // Until the survey of the recording has ended.
    let mut last = 0;
    while std::mem::replace(&mut last, frames(&line)) != frames(&line) || !is_idle(child.as_ref()) {
        thread::sleep(Duration::from_secs(2));
    }
    let (ticks, since, bytes) =
        (ticks(child.as_ref()), Instant::now(), line.lock().expect("no panic").bytes.len());
    thread::sleep(Duration::from_secs(10));
    let spent = (self::ticks(child.as_ref()) - ticks) as f64 / 100.0 / since.elapsed().as_secs_f64();
    let written = line.lock().expect("no panic").bytes.len() - bytes;
    println!("{columns} × {rows}, paused: {:.2} % of a core, {written} bytes in 10 s", spent * 100.0);
    writer.write_all(b"q").expect("it listens");
    child.wait().expect("it ends");
}

fn has_picture(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.chars().any(|c| matches!(c, '\u{2801}'..='\u{28ff}' | '░' | '▒' | '▓' | '●'))
}

fn frames(line: &Mutex<Line>) -> usize {
    line.lock().expect("no panic").bytes.windows(FRAME.len()).filter(|bytes| *bytes == FRAME).count()
}

fn report(line: &Mutex<Line>, began: Instant, name: &str) {
    let frames = frames(line);
    let line = line.lock().expect("no panic");
    let first = line.picture.map_or(f64::NAN, |at| (at - began).as_secs_f64());
    let each = line.bytes.len().checked_div(frames).unwrap_or(0);
    println!("{name}: first picture after {first:.2} s; {frames} frames in 5 s, {each} bytes each");
}

/// CPU time so far, in ticks of 10 ms.
fn ticks(child: &dyn Child) -> u64 {
    let pid = child.process_id().expect("it runs");
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}

/// True if the process sleeps at every check for two seconds. A process that waits for a busy host's CPU is not
/// idle.
fn is_idle(child: &dyn Child) -> bool {
    let pid = child.process_id().expect("it runs");
    let sleeps = |_: i32| {
        thread::sleep(Duration::from_millis(50));
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
    };
    (0..40).filter(|n| sleeps(*n)).count() >= 36
}
