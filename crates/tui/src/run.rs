//! The event loop: pump the source, handle keys, draw changes.

use crate::error::TuiError;
use crate::front::{Front, HostRequest, Options};
use crate::keyboard::{Keyboard, Presence};
use crate::pace::Pace;
use crate::shot::Format;
use crate::signals::Signals;
use crate::terminal::{Screen, Stop};
use crossterm::event;
use magscope_core::source::{Progress, SourceError};
use magscope_scope::Scope;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::{Duration, Instant};

/// Maximum wait of the pump, the maximum delay of a key press.
const PATIENCE: Duration = Duration::from_millis(20);
/// Maximum wait while nothing is captured, for keys alone: the first events then come that much later.
const PATIENCE_WHEN_QUIET: Duration = Duration::from_millis(40);
/// Maximum wait after the end of the source, when only keys can change anything.
const PATIENCE_AT_END: Duration = Duration::from_millis(100);

/// Feeds events to a scope. The binary implements it: drain of the source, recording, overhead measurement.
pub trait Pump {
    /// Feeds `scope` with available data; waits at most `timeout` for some.
    ///
    /// Not called after [`Progress::End`]; the picture stays open.
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError>;

    /// True if nothing has come for some time: a wait for data is then a waste, and one for keys is not.
    fn is_quiet(&self) -> bool {
        false
    }

    /// Writes a screenshot to a new file with this extension. Returns its name or the error.
    fn save(&mut self, ending: &str, contents: &str) -> Result<String, String>;
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The user quit.
    Quit,
    /// A signal ended it.
    Signal,
}

/// Shows `scope` in the terminal and feeds it from `pump` until the user or a signal ends it.
///
/// The terminal is always restored, also after an error or a panic of the pump.
pub fn run<S: Pump>(pump: &mut S, scope: &mut Scope, options: Options) -> Result<Exit, TuiError> {
    let signals = Signals::catch()?;
    let keyboard = Keyboard::open()?;
    let mut front = Front::new(options);
    let mut screen = Screen::take(front.mouse())?;
    let mut pace = Pace::new();
    let mut progress = Progress::More;
    loop {
        if signals.end() {
            return Ok(Exit::Signal);
        }
        if signals.stop() {
            // In raw mode not by the key.
            suspend(&mut screen, &mut front, &signals, Stop::Process)?;
            pace.ask();
        } else if signals.resumed() {
            screen.retake()?;
            pace.ask();
        }
        let due = pace.due_in(Instant::now(), scope.revision());
        match progress {
            Progress::More => {
                let mut timeout = due.unwrap_or(PATIENCE).min(PATIENCE);
                if pump.is_quiet() {
                    keyboard.wait(due.unwrap_or(PATIENCE_WHEN_QUIET).min(PATIENCE_WHEN_QUIET))?;
                    timeout = Duration::ZERO;
                }
                progress = pump.pump(scope, timeout).map_err(TuiError::Source)?;
                if progress == Progress::End {
                    scope.end();
                }
            }
            Progress::End => {
                let timeout = due.unwrap_or(PATIENCE_AT_END).min(PATIENCE_AT_END);
                keyboard.wait(timeout)?;
            }
        }
        if keyboard.wait(Duration::ZERO)? == Presence::Gone {
            return Ok(Exit::Signal);
        }
        while event::poll(Duration::ZERO).map_err(TuiError::at("read from"))? {
            let event = event::read().map_err(TuiError::at("read from"))?;
            let (changed, request) = front.event(&event, scope, screen.area());
            match request {
                Some(HostRequest::Suspend) => {
                    suspend(&mut screen, &mut front, &signals, Stop::Job)?;
                    pace.ask();
                }
                Some(HostRequest::Redraw) => screen.forget()?,
                Some(HostRequest::Mouse) => screen.set_mouse(front.mouse())?,
                Some(HostRequest::Copy) => copy(&mut front, scope, &mut screen)?,
                Some(HostRequest::Shot(format)) => shoot(format, &mut front, scope, screen.area(), pump),
                None => {}
            }
            if changed {
                pace.ask();
            }
            if scope.quits() {
                return Ok(Exit::Quit);
            }
        }
        let began = Instant::now();
        let revision = scope.revision();
        if pace.due_in(began, revision).is_some_and(|due| due.is_zero()) {
            let before = screen.line();
            screen.draw(|buffer, area| front.draw(scope, buffer, area))?;
            let line = screen.line();
            pace.drew(began, Instant::now(), line.took.saturating_sub(before.took), revision);
            front.drew(line.bytes - before.bytes);
        }
    }
}

fn suspend(screen: &mut Screen, front: &mut Front, signals: &Signals, stop: Stop) -> Result<(), TuiError> {
    if screen.suspend(stop)? {
        // The stop signal of the job and the resume signal of this stop are handled.
        signals.stop();
        signals.resumed();
    } else {
        front.notice("there is no shell to return to".to_owned());
    }
    Ok(())
}

fn copy(front: &mut Front, scope: &Scope, screen: &mut Screen) -> Result<(), TuiError> {
    let Some(row) = front.selected_row(scope, screen.area()) else {
        front.notice("select a row first".to_owned());
        return Ok(());
    };
    screen.copy(&row)?;
    // Terminals without the sequence ignore it, and do not say so.
    front.notice(format!("copied, where the terminal allows it: {row}"));
    Ok(())
}

fn shoot<S: Pump>(format: Format, front: &mut Front, scope: &Scope, area: Rect, pump: &mut S) {
    let mut buffer = Buffer::empty(area);
    front.draw(scope, &mut buffer, area);
    front.notice(match pump.save(format.ending(), &format.write(&buffer)) {
        Ok(name) => format!("written: {name}"),
        Err(why) => why,
    });
}
