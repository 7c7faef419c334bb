//! The event loop: pump the source, take keys, draw when there is something new.

use crate::draw::draw;
use crate::error::TuiError;
use crate::keyboard::{Keyboard, Presence};
use crate::keys::{Request, request};
use crate::pace::Pace;
use crate::signals::Signals;
use crate::terminal::Screen;
use crate::theme::Theme;
use crossterm::event::{self, Event};
use magscope_core::source::{Progress, SourceError};
use magscope_scope::Scope;
use std::time::{Duration, Instant};

/// The longest the pump may wait: what a key press waits at most before it is read.
const PATIENCE: Duration = Duration::from_millis(20);
/// The same when the source has ended and only keys can change anything.
const PATIENCE_AT_END: Duration = Duration::from_millis(100);

/// Brings events to a scope. The binary's part: it drains the source, records, measures the overhead.
pub trait Pump {
    /// Feeds `scope` with what has come, waiting at most `timeout` for something to come.
    ///
    /// Not called again after [`Progress::End`]; the picture stays for the user to look at.
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError>;
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The user asked for it.
    Quit,
    /// A signal asked for it.
    Signal,
}

/// Shows `scope` in the terminal and feeds it from `pump` until the user or a signal ends it.
///
/// Takes the terminal and gives it back on every way out, also on an error or a panic of the pump.
pub fn run<S: Pump>(pump: &mut S, scope: &mut Scope) -> Result<Exit, TuiError> {
    let signals = Signals::catch()?;
    let theme = Theme::from_env();
    let keyboard = Keyboard::open()?;
    let mut screen = Screen::take()?;
    let mut pace = Pace::new();
    let mut progress = Progress::More;
    loop {
        if signals.end() {
            return Ok(Exit::Signal);
        }
        if signals.stop() {
            suspend(&mut screen, &signals, &mut pace)?;
        } else if signals.resumed() {
            screen.retake()?;
            pace.ask();
        }
        let due = pace.due_in(Instant::now(), scope.revision());
        match progress {
            Progress::More => {
                let timeout = due.unwrap_or(PATIENCE).min(PATIENCE);
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
            match event::read().map_err(TuiError::at("read from"))? {
                Event::Key(key) => match request(key) {
                    Some(Request::Act(action)) => scope.apply(action),
                    Some(Request::Suspend) => suspend(&mut screen, &signals, &mut pace)?,
                    Some(Request::Redraw) => screen.forget()?,
                    None => continue,
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            pace.ask();
            if scope.quits() {
                return Ok(Exit::Quit);
            }
        }
        let began = Instant::now();
        let revision = scope.revision();
        if pace.due_in(began, revision).is_some_and(|due| due.is_zero()) {
            screen.draw(|buffer, area| draw(&scope.frame(), &theme, buffer, area))?;
            pace.drew(began, Instant::now(), revision);
        }
    }
}

fn suspend(screen: &mut Screen, signals: &Signals, pace: &mut Pace) -> Result<(), TuiError> {
    screen.suspend()?;
    // The resume that ended this stop is dealt with.
    signals.resumed();
    pace.ask();
    Ok(())
}
