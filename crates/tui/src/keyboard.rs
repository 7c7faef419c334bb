//! The input terminal and its state.
//!
//! crossterm keeps reading from a closed terminal and blocks signals. It is therefore called only while the
//! kernel reports an open terminal.

use crate::error::TuiError;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use magscope_scope::command::keys::{Chord, Code, HeldModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{IsTerminal, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// State of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The terminal is open.
    There,
    /// The window was closed or the connection broken.
    Gone,
}

/// The terminal of crossterm: standard input, or else `/dev/tty`.
pub struct Keyboard(OwnedFd);

impl Keyboard {
    /// Opens the terminal.
    pub fn open() -> Result<Self, TuiError> {
        let stdin = stdin();
        let terminal = if stdin.is_terminal() {
            stdin.as_fd().try_clone_to_owned()
        } else {
            File::open("/dev/tty").map(OwnedFd::from)
        };
        terminal.map(Keyboard).map_err(TuiError::at("read from"))
    }

    /// Waits at most `timeout` for a key and returns the terminal's state.
    pub fn wait(&self, timeout: Duration) -> Result<Presence, TuiError> {
        let mut terminal = [PollFd::new(&self.0, PollFlags::IN)];
        let timeout =
            Timespec { tv_sec: timeout.as_secs().cast_signed(), tv_nsec: i64::from(timeout.subsec_nanos()) };
        match poll(&mut terminal, Some(&timeout)) {
            // a signal arrived; the loop handles it next
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(TuiError::at("read from")(error.into())),
        }
        let gone = terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        Ok(if gone { Presence::Gone } else { Presence::There })
    }
}

/// The chord of a key press.
pub fn chord(key: KeyEvent) -> Chord {
    let held = |modifier| key.modifiers.contains(modifier);
    let held = HeldModifiers {
        ctrl: held(KeyModifiers::CONTROL),
        alt: held(KeyModifiers::ALT),
        shift: held(KeyModifiers::SHIFT),
    };
    let code = match key.code {
        KeyCode::Char(c) => Code::Char(c),
        KeyCode::F(n) => Code::F(n),
        KeyCode::Enter => Code::Enter,
        KeyCode::Esc => Code::Esc,
        KeyCode::Tab => Code::Tab,
        KeyCode::BackTab => Code::BackTab,
        KeyCode::Backspace => Code::Backspace,
        KeyCode::Delete => Code::Delete,
        KeyCode::Insert => Code::Insert,
        KeyCode::Left => Code::Left,
        KeyCode::Right => Code::Right,
        KeyCode::Up => Code::Up,
        KeyCode::Down => Code::Down,
        KeyCode::Home => Code::Home,
        KeyCode::End => Code::End,
        KeyCode::PageUp => Code::PageUp,
        KeyCode::PageDown => Code::PageDown,
        _ => Code::Other,
    };
    Chord::of(code, held)
}
