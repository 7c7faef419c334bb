//! Setup, drawing and restoration of the terminal. The terminal is restored on every exit path, including a
//! panic.

use crate::counted::{Counted, Line};
use crate::error::TuiError;
use crossterm::clipboard::CopyToClipboard;
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
use std::fs;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::panic;
use std::rc::Rc;
use std::sync::Once;

/// Holds a 200 × 60 frame with all cells changed, so that a frame is one write.
const WRITE_BUFFER: usize = 1 << 17;

/// Terminal with counted output.
type Drawn = Terminal<CrosstermBackend<BufWriter<Counted<Stdout>>>>;

/// A terminal with unknown content: the next frame draws every cell.
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
    /// Initialises the terminal, and optionally the mouse.
    pub fn take(mouse: bool) -> Result<Self, TuiError> {
        if !io::stdout().is_terminal() {
            return Err(TuiError::NoTerminal);
        }
        restore_on_panic();
        // From here on a drop of the screen restores the terminal, after any failure.
        enter(mouse).inspect_err(|_| drop(leave())).map_err(TuiError::at("made ready"))?;
        let line = Rc::default();
        let terminal = on_stdout(&line).inspect_err(|_| drop(leave())).map_err(TuiError::at("made ready"))?;
        Ok(Screen { terminal, line, mouse })
    }

    /// Output statistics so far.
    pub fn line(&self) -> Line {
        self.line.get()
    }

    /// Size of the terminal.
    pub fn area(&self) -> Rect {
        let size = self.terminal.size().unwrap_or_default();
        Rect::new(0, 0, size.width, size.height)
    }

    /// Enables or disables mouse capture.
    pub fn set_mouse(&mut self, wanted: bool) -> Result<(), TuiError> {
        self.mouse = wanted;
        let done = if wanted {
            execute!(io::stdout(), EnableMouseCapture)
        } else {
            execute!(io::stdout(), DisableMouseCapture)
        };
        done.map_err(TuiError::at("asked for the mouse"))
    }

    /// Sends a text to the terminal's clipboard (OSC 52).
    pub fn copy(&mut self, text: &str) -> Result<(), TuiError> {
        execute!(self.terminal.backend_mut(), CopyToClipboard::to_clipboard_from(text))
            .map_err(TuiError::at("copied to"))
    }

    /// Draws a frame: `paint` fills the cells, and changed ones are written.
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

    /// Discards the assumed screen content, so that the next frame draws every cell.
    pub fn forget(&mut self) -> Result<(), TuiError> {
        // Not `Terminal::clear`: it queries the cursor position and mistakes keys for the answer.
        let mut clear = || {
            execute!(io::stdout(), Clear(ClearType::All))?;
            self.terminal = on_stdout(&self.line)?;
            Ok(())
        };
        clear().map_err(TuiError::at("cleared"))
    }

    /// Restores the terminal, stops, and initialises the terminal again after the resume. False if no shell would
    /// resume it: nothing happened then.
    ///
    /// The signal of the stop of a job arrives here too: a caller that catches SIGTSTP discards it afterwards.
    pub fn suspend(&mut self, stop: Stop) -> Result<bool, TuiError> {
        let Some(job) = Job::current().filter(|job| job.has_shell()) else { return Ok(false) };
        leave().map_err(TuiError::at("given back"))?;
        job.stop(stop);
        self.retake()?;
        Ok(true)
    }

    /// Initialises the terminal again after use by another program.
    pub fn retake(&mut self) -> Result<(), TuiError> {
        enter(self.mouse).map_err(TuiError::at("taken again"))?;
        self.forget()
    }
}

/// Synchronised output: supporting terminals show a frame atomically, others ignore it.
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
        // no receiver for an error
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

/// The processes that a stop is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Those of the foreground job, as of Ctrl-Z. A `make`, a `sh -c` or a `timeout` that waits for this process would
    /// otherwise go on, and the shell would not take the terminal back.
    Job,
    /// This one alone, as of a SIGTSTP that another process sent: it chose whom to stop.
    Process,
}

/// Ids of the process groups of this process's terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Job {
    /// The process group of this process.
    group: i32,
    session: i32,
    /// The foreground process group of the terminal.
    foreground: i32,
}

impl Job {
    /// From /proc, as ids of another process namespace are 0, which is no id for rustix. `None` if unreadable.
    fn current() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// Parses a line of `proc_pid_stat(5)`.
    fn parse(stat: &str) -> Option<Self> {
        // The name of the program, in brackets, may have blanks and brackets itself.
        let (_, fields) = stat.rsplit_once(')')?;
        // Behind the state and the parent: process group, session, terminal, foreground process group.
        let ids = fields.split_ascii_whitespace().skip(2).take(4);
        let ids: Vec<i32> = ids.map(|id| id.parse::<i32>().ok()).collect::<Option<_>>()?;
        let &[group, session, _, foreground] = ids.as_slice() else { return None };
        Some(Job { group, session, foreground })
    }

    /// True if a shell with job control started it, in a process group of its own. Without one (`ssh -t`, `docker run
    /// -it`, `xterm -e`) nothing would resume a stopped process: the kernel ignores SIGTSTP there, and not SIGSTOP.
    const fn has_shell(self) -> bool {
        self.group != self.session
    }

    /// Stops until SIGCONT.
    fn stop(self, stop: Stop) {
        if stop == Stop::Job && self.group == self.foreground {
            // On failure only this process stops.
            let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        }
        // The program catches SIGTSTP, so it stops itself. On failure it continues.
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP);
    }
}

/// A panic message would be invisible on the alternate screen.
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
