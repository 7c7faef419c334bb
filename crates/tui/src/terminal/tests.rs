//! A panic restores the terminal before its message is printed. The test runs itself on a pseudo-terminal.

use super::Screen;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use std::io::Read;

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
