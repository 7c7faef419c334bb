//! Custom probes and payload on the screen, from a real capture: recorded and replayed, and live.

use crate::common::{self, terminal};

use common::{has_tracefs, is_root, run, stderr};
use terminal::Terminal;

/// A tracefs tracepoint with a hop, one without, and a value over time.
const PROBES: [&str; 6] = [
    "--probe",
    "tracepoint:net:netif_receive_skb name=came after=dev.recv len",
    "--probe",
    "tracepoint:skb:kfree_skb name=gone as=point reason",
    "--probe",
    "tracepoint:net:net_dev_start_xmit name=given as=loadline len",
];

/// The first row of the screen that starts with this text.
fn row(terminal: &Terminal, begins: &str) -> Option<(usize, String)> {
    let text = terminal.text();
    let found = text.lines().enumerate().find(|(_, line)| line.trim_start().starts_with(begins));
    found.map(|(at, line)| (at, line.to_owned()))
}

#[test]
fn a_recording_shows_its_probes_as_lanes_points_loadlines_and_rows() {
    if !is_root("custom probes on the screen") || !has_tracefs("custom probes on the screen") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let session = dir.path().join("session").display().to_string();
    let asked = [&["demo", "--duration", "2s", "-o", &session, "--snap", "dev.recv=48"], &PROBES[..]].concat();
    let output = run(&asked);
    assert!(output.status.success(), "{}", stderr(&output));

    let mut terminal = Terminal::start(&["replay", &session, "--speed", "100"], dir.path(), 120, 40);
    terminal.shows("■ ended");
    terminal.hides("being read");
    terminal.shows("◇came");
    let lane = row(&terminal, "◇came").expect("a lane");
    let (below, above) = (row(&terminal, "dev.recv").expect("a lane"), row(&terminal, "ip.pre"));
    assert_eq!(lane.0 + 1, below.0, "right behind its hop:\n{}", terminal.text());
    assert!(above.is_none_or(|(at, _)| at < lane.0), "{}", terminal.text());
    assert!(lane.1.contains(['•', '◉', '●', '░', '▒', '▓', '█']), "it was passed: {}", lane.1);
    assert!(row(&terminal, "◇gone").is_some_and(|(at, _)| at > row(&terminal, "app.send").expect("a lane").0));
    assert!(terminal.text().contains("given.len"), "asked for as a loadline:\n{}", terminal.text());

    // Events, hops, losses: the hits have rows there.
    terminal.keys("5");
    terminal.shows("◇ came");
    terminal.shows("len=");
    terminal.keys("3");
    terminal.shows("hits of custom probes");
    terminal.keys("7");
    terminal.shows("◇ came");
    terminal.shows("tracepoint:net:");

    // A journey lists the hit that saw its bytes, and its received payload.
    terminal.keys("4");
    terminal.shows("10.77.0.");
    terminal.keys("\r");
    terminal.shows("journey #");
    terminal.shows("payload at dev.recv");
    terminal.shows("0000  ");
    terminal.shows("◇came");
    terminal.keys("\u{1b}");
    terminal.hides("journey #");

    // Its value is a signal for triggers and math; an unknown name is reported with the valid ones.
    terminal.keys("1");
    terminal.keys(":trigger came.length > 1\r");
    terminal.shows("no signal is called `came.length`");
    terminal.keys("\u{1b}");
    terminal.hides("─ wait for ─");
    terminal.keys(":trigger came.len > 100\r");
    // Beside the number of times that it fired there may be no room for the condition.
    terminal.hides("no trigger");
    terminal.keys(":math rate(given.len)\r");
    terminal.shows("rate(given.len)");
    terminal.keys("q");
    assert!(terminal.ends());
}

#[test]
fn a_live_view_draws_hits_as_they_come() {
    if !is_root("custom probes on the live screen") || !has_tracefs("custom probes on the live screen") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut terminal = Terminal::start(&[&["demo"], &PROBES[..]].concat(), dir.path(), 120, 40);
    terminal.shows("◇came");
    terminal.shows("given.len");
    let drawn =
        || row(&terminal, "◇came").is_some_and(|(_, line)| line.contains(['•', '◉', '░', '▒', '▓', '█']));
    assert!(common::eventually(drawn), "{}", terminal.text());
    terminal.keys("q");
    assert!(terminal.ends());
}
