//! The tour of the demo: each step waits for its key, and its faults are real.

use crate::common::{is_root, terminal::Terminal};

const ENTER: &str = "\r";
const ESC: &str = "\x1b";
const DOWN: &str = "\x1b[B";

#[test]
fn the_tour_leads_through_two_real_faults() {
    if !is_root("the demo's tour") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut terminal = Terminal::start(&["demo", "--tour"], dir.path(), 120, 40);
    terminal.shows("tour 1 of 10");
    terminal.keys("2");
    terminal.shows("tour 2 of 10");
    terminal.keys("z");
    terminal.shows("tour 3 of 10");
    // The kernel drops what the slow reader has no room for, and the first line says so.
    terminal.shows("of datagrams to :5206 dropped: the receive buffer is full (socket_rcvbuff)");
    terminal.keys("!");
    terminal.shows("tour 4 of 10");
    terminal.shows("dropped after udp.recv, socket_rcvbuff");
    terminal.keys(ESC);
    terminal.hides(" journey #");
    terminal.keys("7");
    terminal.shows("tour 5 of 10");
    terminal.shows("packets that the kernel dropped");
    terminal.keys("8");
    terminal.shows("tour 6 of 10");
    // The server sleeps before each answer: that is no time of the network.
    terminal.shows("until answered 9");
    terminal.keys(DOWN);
    terminal.shows("▸ ");
    terminal.keys(ENTER);
    terminal.shows("tour 7 of 10");
    terminal.shows(" journey #");
    terminal.keys(ESC);
    terminal.hides(" journey #");
    terminal.keys("/");
    terminal.keys("port 5202");
    terminal.keys(ENTER);
    terminal.shows("tour 8 of 10");
    terminal.keys(" ");
    terminal.shows("tour 9 of 10");
    terminal.keys("G");
    terminal.shows("tour 10 of 10");
    terminal.keys("N");
    terminal.hides("tour 10 of 10");
    terminal.keys("q");
    assert!(terminal.ends());
    assert!(terminal.is_given_back());
}

#[test]
fn without_a_terminal_there_is_no_tour() {
    if !is_root("the demo's tour") {
        return;
    }
    let output = crate::common::run(&["demo", "--tour"]);
    assert!(!output.status.success());
    let words = crate::common::stderr(&output);
    assert!(words.contains("the tour needs a terminal"), "{words}");
}
