//! The screen on limited terminals: fewer colours, a slow line.

use crate::common::{self, terminal};

use common::eventually;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use terminal::Terminal;
use vt100::Color;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/demo/session");

fn replay(dir: &Path, environment: &[(&str, &str)], bytes_a_second: Option<u64>) -> Terminal {
    let arguments = ["replay", GOLDEN, "--speed", "100"];
    let binary = env!("CARGO_BIN_EXE_magnet-scope");
    Terminal::run_on(binary, &arguments, dir, (120, 40), environment, bytes_a_second)
}

/// Kinds of foreground and background colours on the screen.
fn colours(terminal: &Terminal) -> BTreeSet<&'static str> {
    let screen = terminal.screen();
    let (rows, columns) = screen.size();
    let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let cells = cells.filter_map(|(row, column)| screen.cell(row, column));
    let kind = |colour| match colour {
        Color::Default => "the terminal's own",
        Color::Idx(0..16) => "one of 16",
        Color::Idx(_) => "one of 256",
        Color::Rgb(..) => "any",
    };
    cells.flat_map(|cell| [kind(cell.fgcolor()), kind(cell.bgcolor())]).collect()
}

#[test]
fn as_many_colours_are_used_as_the_terminal_has() {
    let dir = tempfile::tempdir().expect("a directory");
    for (environment, wanted, unwanted) in [
        (&[("COLORTERM", "truecolor")][..], "any", &["one of 256", "one of 16"][..]),
        (&[("COLORTERM", "")], "one of 256", &["any"]),
        (&[("COLORTERM", ""), ("TERM", "xterm-16color")], "one of 16", &["any", "one of 256"]),
        (&[("NO_COLOR", "1")], "the terminal's own", &["any", "one of 256", "one of 16"]),
    ] {
        let mut terminal = replay(dir.path(), environment, None);
        terminal.shows("■ ended");
        let seen = || {
            let kinds = colours(&terminal);
            kinds.contains(wanted) && !unwanted.iter().any(|kind| kinds.contains(kind))
        };
        assert!(eventually(seen), "{environment:?}: {:?}", colours(&terminal));
        terminal.keys("q");
        assert!(terminal.ends());
    }
}

/// A 9600 baud line needs more than a second per frame. Frames are skipped, not queued: a key takes effect
/// within some frames, for any number of earlier requests.
#[test]
fn a_slow_line_is_not_filled_with_frames_that_are_out_of_date() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut terminal = replay(dir.path(), &[("COLORTERM", "")], Some(4_000));
    terminal.shows("app.recv");
    let before = terminal.bytes();
    for _ in 0..60 {
        for key in ["2", "3", "5", "4", "7", "1"] {
            terminal.keys(key);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    terminal.keys("6");
    let asked = Instant::now();
    terminal.shows("the clocks");
    let spent = terminal.bytes() - before;
    eprintln!("after {:?}, {spent} bytes", asked.elapsed());
    // 361 complete frames would exceed a megabyte
    assert!(spent < 150_000, "{spent} bytes for a view");
    terminal.keys("q");
    assert!(terminal.ends());
}
