//! The terminal: taken, drawn to, given back. Given back on every way out, a panic included.

use crate::counted::{Counted, Line};
use crate::error::TuiError;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::execute;
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::cell::Cell;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::panic;
use std::rc::Rc;
use std::sync::Once;

/// A frame of 200 × 60 cells with every cell changed fits, so that a frame is one write.
const WRITE_BUFFER: usize = 1 << 17;

/// What is drawn on, and what counts its bytes.
type Drawn = Terminal<CrosstermBackend<BufWriter<Counted<Stdout>>>>;

/// A terminal of which nothing is known: every cell will be drawn.
fn on_stdout(line: &Rc<Cell<Line>>) -> io::Result<Drawn> {
    let counted = Counted::new(io::stdout(), Rc::clone(line));
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(WRITE_BUFFER, counted)))
}

/// A terminal in raw mode with an alternate screen.
pub struct Screen {
    terminal: Drawn,
    line: Rc<Cell<Line>>,
    mouse: bool,
}

impl Screen {
    /// Takes the terminal, and the mouse if it is wanted.
    pub fn take(mouse: bool) -> Result<Self, TuiError> {
        if !io::stdout().is_terminal() {
            return Err(TuiError::NoTerminal);
        }
        restore_on_panic();
        // From here on dropping the screen gives the terminal back, whichever step fails.
        enter(mouse).inspect_err(|_| drop(leave())).map_err(TuiError::at("made ready"))?;
        let line = Rc::default();
        let terminal = on_stdout(&line).inspect_err(|_| drop(leave())).map_err(TuiError::at("made ready"))?;
        Ok(Screen { terminal, line, mouse })
    }

    /// What the line has taken so far.
    pub fn line(&self) -> Line {
        self.line.get()
    }

    /// How large the terminal is.
    pub fn area(&self) -> Rect {
        let size = self.terminal.size().unwrap_or_default();
        Rect::new(0, 0, size.width, size.height)
    }

    /// Takes the mouse, or leaves it to the terminal.
    pub fn set_mouse(&mut self, wanted: bool) -> Result<(), TuiError> {
        self.mouse = wanted;
        let done = if wanted {
            execute!(io::stdout(), EnableMouseCapture)
        } else {
            execute!(io::stdout(), DisableMouseCapture)
        };
        done.map_err(TuiError::at("asked for the mouse"))
    }

    /// Draws a frame: `paint` fills the cells, what changed is written.
    pub fn draw(&mut self, paint: impl FnOnce(&mut Buffer, Rect)) -> Result<(), TuiError> {
        let failed = TuiError::at("drawn to");
        let draw = || {
            execute_queued(self.terminal.backend_mut(), true)?;
            self.terminal.draw(|frame| {
                let area = frame.area();
                paint(frame.buffer_mut(), area);
            })?;
            execute_queued(self.terminal.backend_mut(), false)
        };
        draw().map_err(failed)
    }

    /// Forgets what is on the screen, so that the next frame draws every cell.
    pub fn forget(&mut self) -> Result<(), TuiError> {
        // Not `Terminal::clear`: it asks the terminal where its cursor is, and takes keys for the answer.
        let mut clear = || {
            execute!(io::stdout(), Clear(ClearType::All))?;
            self.terminal = on_stdout(&self.line)?;
            Ok(())
        };
        clear().map_err(TuiError::at("cleared"))
    }

    /// Gives the terminal back, stops the process as Ctrl-Z does, and takes it again when the process is resumed.
    pub fn suspend(&mut self) -> Result<(), TuiError> {
        leave().map_err(TuiError::at("given back"))?;
        // Stops here; comes back on SIGCONT. If stopping is not possible the picture simply goes on.
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
        self.retake()
    }

    /// Takes the terminal again after another program had it.
    pub fn retake(&mut self) -> Result<(), TuiError> {
        enter(self.mouse).map_err(TuiError::at("taken again"))?;
        self.forget()
    }
}

/// Lets the terminal show a frame at once or not at all, where it can; others ignore it.
fn execute_queued(backend: &mut impl Write, begin: bool) -> io::Result<()> {
    if begin {
        crossterm::queue!(backend, BeginSynchronizedUpdate)
    } else {
        crossterm::queue!(backend, EndSynchronizedUpdate)?;
        backend.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing is left to tell it to.
        let _ = leave();
    }
}

fn enter(mouse: bool) -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, Hide)?;
    if mouse { execute!(io::stdout(), EnableMouseCapture) } else { Ok(()) }
}

fn leave() -> io::Result<()> {
    let shown = execute!(io::stdout(), EndSynchronizedUpdate, DisableMouseCapture, LeaveAlternateScreen, Show);
    disable_raw_mode().and(shown)
}

/// A panic's message must not land on the alternate screen in raw mode, where nobody can read it.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let _ = leave();
            before(info);
        }));
    });
}

#[cfg(test)]
mod tests;
