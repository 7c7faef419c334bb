//! What stands between the terminal's events and the scope: the key map, the palette, prompts, the mouse's switch, colours.
//!
//! Pure: events in, actions on the scope and [`Wish`]es out, cells on demand. So a test can press a hundred thousand keys.

use crate::ascii;
use crate::commands::{Command, Does, Own};
use crate::draw::{self, Extras};
use crate::keys::{Chord, KeyMap};
use crate::palette::{LONGEST, Palette};
use crate::shot::Format;
use crate::theme::{BUILT_IN, Depth, Theme};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use magscope_scope::{Action, Scope};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tui_input::backend::crossterm::EventHandler;

/// How the screen looks and listens.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which key does what.
    pub keys: KeyMap,
    /// The colours.
    pub theme: Theme,
    /// How many of them the terminal has, for the other themes.
    pub depth: Depth,
    /// ASCII only.
    pub ascii: bool,
    /// Whether the mouse is the scope's.
    pub mouse: bool,
}

impl Default for Options {
    fn default() -> Self {
        let depth = Depth::default();
        Options {
            keys: KeyMap::built_in(),
            theme: Theme::built_in("dark", depth),
            depth,
            ascii: false,
            mouse: true,
        }
    }
}

/// What only the owner of the terminal can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Draw everything afresh.
    Redraw,
    /// Hand the terminal to the shell until resumed.
    Suspend,
    /// Take or hand back the mouse: see [`Front::mouse`].
    Mouse,
    /// Write the screen to a file.
    Shot(Format),
}

/// What lies over the scope and is not the scope's.
#[derive(Debug)]
pub(crate) enum Over {
    /// The commands, to choose by typing.
    Palette(Palette),
    /// The keys, from this row on.
    Help(usize),
}

/// What stands between the terminal's events and the scope.
#[derive(Debug)]
pub struct Front {
    options: Options,
    over: Option<Over>,
    notice: Option<String>,
    frame_bytes: u64,
}

impl Front {
    /// Nothing open.
    pub const fn new(options: Options) -> Self {
        Front { options, over: None, notice: None, frame_bytes: 0 }
    }

    /// Whether the mouse is the scope's.
    pub const fn mouse(&self) -> bool {
        self.options.mouse
    }

    /// The last frame took so many bytes to write.
    pub const fn drew(&mut self, bytes: u64) {
        self.frame_bytes = bytes;
    }

    /// Says something until the next key.
    pub fn notice(&mut self, words: String) {
        self.notice = Some(words);
    }

    /// Takes an event of a terminal of this size. Returns whether anything may have changed, and what is wished for.
    pub fn event(&mut self, event: &Event, scope: &mut Scope, _area: Rect) -> (bool, Option<Wish>) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key, scope),
            Event::Resize(..) => (true, None),
            _ => (false, None),
        }
    }

    fn key(&mut self, key: KeyEvent, scope: &mut Scope) -> (bool, Option<Wish>) {
        let noticed = self.notice.take().is_some();
        // Raw mode delivers what the terminal would otherwise turn into signals. They are not the key map's.
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c' | 'C') => {
                    scope.apply(Action::Quit);
                    return (true, None);
                }
                KeyCode::Char('z' | 'Z') => return (true, Some(Wish::Suspend)),
                _ => {}
            }
        }
        match self.over.take() {
            Some(Over::Palette(palette)) => (true, self.palette_key(palette, key, scope)),
            Some(Over::Help(from)) => {
                self.over = match key.code {
                    KeyCode::Down | KeyCode::Char('j') => Some(Over::Help(from + 1)),
                    KeyCode::Up | KeyCode::Char('k') => Some(Over::Help(from.saturating_sub(1))),
                    KeyCode::PageDown | KeyCode::Char(' ') => Some(Over::Help(from + 10)),
                    KeyCode::PageUp => Some(Over::Help(from.saturating_sub(10))),
                    _ => None, // any other key closes it
                };
                (true, None)
            }
            None => match self.options.keys.get(Chord::of(key)) {
                Some(command) => (true, self.run(command, "", scope)),
                None => (noticed, None),
            },
        }
    }

    fn palette_key(&mut self, mut palette: Palette, key: KeyEvent, scope: &mut Scope) -> Option<Wish> {
        match key.code {
            KeyCode::Esc => return None,
            KeyCode::Enter => {
                let (command, rest) = palette.choice()?;
                return self.run(command, rest, scope);
            }
            KeyCode::Up => palette.step(-1),
            KeyCode::Down | KeyCode::Tab => palette.step(1),
            KeyCode::Backspace if palette.input.value().is_empty() => return None,
            KeyCode::Char(_) if palette.input.value().len() >= LONGEST => {}
            _ => {
                palette.input.handle_event(&Event::Key(key));
                palette.search();
            }
        }
        self.over = Some(Over::Palette(palette));
        None
    }

    fn run(&mut self, command: &Command, _rest: &str, scope: &mut Scope) -> Option<Wish> {
        match &command.does {
            Does::Act(action) => {
                scope.apply(action.clone());
                None
            }
            Does::Own(own) => self.own(*own),
        }
    }

    fn own(&mut self, own: Own) -> Option<Wish> {
        match own {
            Own::Palette => {
                self.over = Some(Over::Palette(Palette::default()));
                None
            }
            Own::Help => {
                self.over = Some(Over::Help(0));
                None
            }
            Own::Mouse => {
                self.options.mouse = !self.options.mouse;
                let owner = if self.options.mouse { "the scope's" } else { "the terminal's" };
                self.notice(format!("the mouse is {owner}"));
                Some(Wish::Mouse)
            }
            Own::Svg => Some(Wish::Shot(Format::Svg)),
            Own::Text => Some(Wish::Shot(Format::Text)),
            Own::Theme => {
                let at = BUILT_IN.iter().position(|(name, _)| *name == self.options.theme.name);
                let next = at.map_or(0, |at| (at + 1) % BUILT_IN.len());
                self.options.theme = Theme::built_in(BUILT_IN[next].0, self.options.depth);
                self.notice(format!("colours: {}", self.options.theme.name));
                Some(Wish::Redraw)
            }
            Own::Redraw => Some(Wish::Redraw),
            Own::Suspend => Some(Wish::Suspend),
        }
    }

    /// Draws what `scope` shows, and what lies over it.
    pub fn draw(&self, scope: &Scope, buffer: &mut Buffer, area: Rect) {
        let extras = Extras {
            keys: &self.options.keys,
            over: self.over.as_ref(),
            notice: self.notice.as_deref(),
            frame_bytes: self.frame_bytes,
        };
        draw::draw(&scope.frame(), &self.options.theme, &extras, buffer, area);
        if self.options.ascii {
            ascii::translate(buffer);
        }
    }
}
