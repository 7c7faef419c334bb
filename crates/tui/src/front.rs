//! Connects terminal events with the scope: key map, palette, prompts, mouse, theme.
//!
//! The module is pure: events in, actions on the scope and [`HostRequest`]es out, cells on demand. Tests can therefore
//! press a hundred thousand keys.

use crate::ascii;
use crate::draw::{self, Extras, Hit, Title, hit};
use crate::keyboard::chord;
use crate::palette::{LONGEST, Palette};
use crate::prompt::Prompt;
use crate::shot::Format;
use crate::theme::{BUILT_IN, Depth, Theme};
use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use magscope_scope::command::keys::KeyMap;
use magscope_scope::command::{Command, CommandKind, FrontEndCommand, Question};
use magscope_scope::{Action, Evidence, Place, Scope};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

/// Display and input options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Key map.
    pub keys: KeyMap,
    /// Theme.
    pub theme: Theme,
    /// Colour depth of the terminal, for other themes.
    pub depth: Depth,
    /// ASCII only.
    pub ascii: bool,
    /// True if the scope handles the mouse.
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

/// Requests to the owner of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRequest {
    /// Redraw everything.
    Redraw,
    /// Suspend the program, as Ctrl-Z does.
    Suspend,
    /// Enable or disable the mouse: see [`Front::mouse`].
    Mouse,
    /// Write a screenshot.
    Shot(Format),
    /// Copy the selected row: [`Front::selected_row`].
    Copy,
}

/// Overlays outside the scope.
#[derive(Debug)]
pub(crate) enum Overlay {
    /// The command palette.
    Palette(Palette),
    /// The signals, with the selected one.
    Channels(usize),
    /// A text prompt.
    Prompt(Prompt),
    /// The help, from this row on.
    Help(usize),
}

/// Connects terminal events with the scope.
#[derive(Debug)]
pub struct Front {
    options: Options,
    over: Option<Overlay>,
    notice: Option<String>,
    frame_bytes: u64,
    measurements: bool,
    ladder_from: usize,
    drag: Option<Drag>,
}

/// A mouse drag on the picture: start and current position, 0 at the left edge, 1 at the right.
#[derive(Clone, Copy, Debug)]
struct Drag {
    from: f64,
    to: f64,
}

/// Lines per page in the journey inspector.
const LADDER_PAGE: isize = 5;

/// Minimum length of a drag; less is a click.
const LEAST_DRAG: f64 = 0.02;

impl Front {
    /// A front without overlays.
    pub const fn new(options: Options) -> Self {
        Front {
            options,
            over: None,
            notice: None,
            frame_bytes: 0,
            measurements: false,
            ladder_from: 0,
            drag: None,
        }
    }

    /// True if the scope handles the mouse.
    pub const fn mouse(&self) -> bool {
        self.options.mouse
    }

    /// The text of the open prompt or palette.
    pub(crate) fn line(&self) -> Option<&str> {
        match &self.over {
            Some(Overlay::Palette(palette)) => Some(palette.input.value()),
            Some(Overlay::Prompt(prompt)) => Some(prompt.input.value()),
            _ => None,
        }
    }

    /// Registers the size of the last frame.
    pub const fn drew(&mut self, bytes: u64) {
        self.frame_bytes = bytes;
    }

    /// Shows a message until the next key.
    pub fn notice(&mut self, words: String) {
        self.notice = Some(words);
    }

    /// Handles an event of a terminal of this size. Returns true if the screen may have changed, and a request.
    pub fn event(&mut self, event: &Event, scope: &mut Scope, area: Rect) -> (bool, Option<HostRequest>) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                let done = self.key(*key, scope);
                self.limit_row(scope, area);
                done
            }
            Event::Mouse(mouse) if self.options.mouse => {
                let changed = self.pointer(*mouse, scope, area);
                self.limit_row(scope, area);
                (changed, None)
            }
            Event::Resize(..) => (true, None),
            _ => (false, None),
        }
    }

    /// A view of lines scrolls to its end and no further.
    fn limit_row(&self, scope: &mut Scope, area: Rect) {
        let frame = scope.frame();
        let last = draw::last_row(&frame, &self.options.theme, area, &self.extras());
        let beyond = last.and_then(|last| frame.controls.row.checked_sub(last)).unwrap_or(0);
        if beyond > 0 {
            scope.apply(Action::SelectRow(-i32::try_from(beyond).unwrap_or(i32::MAX)));
        }
    }

    fn key(&mut self, key: KeyEvent, scope: &mut Scope) -> (bool, Option<HostRequest>) {
        let noticed = self.notice.take().is_some();
        // Raw mode delivers keys that otherwise raise signals. The key map does not include them.
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c' | 'C') => {
                    scope.apply(Action::Quit);
                    return (true, None);
                }
                KeyCode::Char('z' | 'Z') => return (true, Some(HostRequest::Suspend)),
                _ => {}
            }
        }
        match self.over.take() {
            Some(Overlay::Palette(palette)) => (true, self.palette_key(palette, key, scope)),
            Some(Overlay::Prompt(prompt)) => {
                self.prompt_key(prompt, key, scope);
                (true, None)
            }
            Some(Overlay::Channels(at)) => {
                self.channels_key(at, key, scope);
                (true, None)
            }
            Some(Overlay::Help(from)) => {
                self.over = match key.code {
                    KeyCode::Down | KeyCode::Char('j') => Some(Overlay::Help(from.saturating_add(1))),
                    KeyCode::Up | KeyCode::Char('k') => Some(Overlay::Help(from.saturating_sub(1))),
                    KeyCode::PageDown | KeyCode::Char(' ') => Some(Overlay::Help(from.saturating_add(10))),
                    KeyCode::PageUp => Some(Overlay::Help(from.saturating_sub(10))),
                    _ => None, // any other key closes it
                };
                (true, None)
            }
            None => match self.options.keys.get(chord(key)) {
                Some(command) => {
                    let before = scope.frame().controls.journey;
                    let host_request = self.run(command, "", scope);
                    let frame = scope.frame();
                    if frame.inspector.is_none() || frame.controls.journey != before {
                        self.ladder_from = 0;
                    }
                    (true, host_request)
                }
                None => (noticed, None),
            },
        }
    }

    fn prompt_key(&mut self, mut prompt: Prompt, key: KeyEvent, scope: &mut Scope) {
        match key.code {
            KeyCode::Esc => return,
            KeyCode::Enter => {
                prompt.wrong = prompt.question.answer(prompt.input.value(), scope).err();
                if prompt.wrong.is_none() {
                    return;
                }
            }
            KeyCode::Tab | KeyCode::Up | KeyCode::Down => {
                let (question, text) = (prompt.question, prompt.input.value().to_owned());
                let line = match key.code {
                    KeyCode::Tab => prompt.line.tab(question, &text, scope),
                    KeyCode::Up => prompt.line.earlier(question, &text, 1, scope),
                    _ => prompt.line.earlier(question, &text, -1, scope),
                };
                if let Some(line) = line.filter(|line| line.len() <= LONGEST) {
                    prompt.input = Input::new(line);
                }
            }
            KeyCode::Char(_) if prompt.input.value().len() >= LONGEST => {}
            _ => {
                prompt.line.reset();
                prompt.input.handle_event(&Event::Key(key));
            }
        }
        self.over = Some(Overlay::Prompt(prompt));
    }

    fn channels_key(&mut self, at: usize, key: KeyEvent, scope: &mut Scope) {
        let channels = scope.frame().channels();
        let last = channels.len().saturating_sub(1);
        let next = match key.code {
            KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => (at + 1).min(last),
            KeyCode::Enter | KeyCode::Char(' ') => {
                if let Some(channel) = channels.get(at) {
                    scope.apply(Action::ToggleChannel(*channel));
                }
                at
            }
            _ => return, // any other key closes it
        };
        self.over = Some(Overlay::Channels(next));
    }

    fn palette_key(&mut self, mut palette: Palette, key: KeyEvent, scope: &mut Scope) -> Option<HostRequest> {
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
        self.over = Some(Overlay::Palette(palette));
        None
    }

    fn run(&mut self, command: &Command, rest: &str, scope: &mut Scope) -> Option<HostRequest> {
        match &command.does {
            CommandKind::Act(action) => {
                act(action.clone(), scope);
                None
            }
            CommandKind::Own(own) => self.own(*own, rest, scope),
        }
    }

    fn own(&mut self, own: FrontEndCommand, rest: &str, scope: &mut Scope) -> Option<HostRequest> {
        match own {
            FrontEndCommand::Palette => self.over = Some(Overlay::Palette(Palette::default())),
            FrontEndCommand::Help => self.over = Some(Overlay::Help(0)),
            FrontEndCommand::Channels => self.over = Some(Overlay::Channels(0)),
            FrontEndCommand::Measurements => self.measurements = !self.measurements,
            FrontEndCommand::Ask(question) => self.ask(question, rest, scope),
            FrontEndCommand::Mouse
            | FrontEndCommand::Svg
            | FrontEndCommand::Text
            | FrontEndCommand::Copy
            | FrontEndCommand::Theme
            | FrontEndCommand::Redraw
            | FrontEndCommand::Suspend => {
                return self.request(own);
            }
            // The journey inspector is in front of the lanes.
            FrontEndCommand::Page(by) if scope.frame().inspector.is_some() => {
                let by = isize::from(by) * LADDER_PAGE;
                let most = scope.frame().inspector.as_ref().map_or(0, draw::ladder_lines);
                self.ladder_from = self.ladder_from.saturating_add_signed(by).min(most);
            }
            _ => act_by_what_is_shown(own, scope),
        }
        None
    }

    /// Opens a prompt, unless the command has an argument already.
    fn ask(&mut self, question: Question, rest: &str, scope: &mut Scope) {
        let now = if rest.is_empty() { question.now(scope) } else { rest.to_owned() };
        let prompt = Prompt::new(question, now);
        if rest.is_empty() {
            self.over = Some(Overlay::Prompt(prompt));
        } else {
            self.prompt_key(prompt, KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE), scope);
        }
    }

    fn request(&mut self, own: FrontEndCommand) -> Option<HostRequest> {
        match own {
            FrontEndCommand::Mouse => {
                self.options.mouse = !self.options.mouse;
                let owner = if self.options.mouse { "the scope's" } else { "the terminal's" };
                self.notice(format!("the mouse is {owner}"));
                Some(HostRequest::Mouse)
            }
            FrontEndCommand::Svg => Some(HostRequest::Shot(Format::Svg)),
            FrontEndCommand::Text => Some(HostRequest::Shot(Format::Text)),
            FrontEndCommand::Theme => {
                let at = BUILT_IN.iter().position(|(name, _)| *name == self.options.theme.name);
                let next = at.map_or(0, |at| (at + 1) % BUILT_IN.len());
                self.options.theme = Theme::built_in(BUILT_IN[next].0, self.options.depth);
                self.notice(format!("colours: {}", self.options.theme.name));
                Some(HostRequest::Redraw)
            }
            FrontEndCommand::Copy => Some(HostRequest::Copy),
            FrontEndCommand::Redraw => Some(HostRequest::Redraw),
            FrontEndCommand::Suspend => Some(HostRequest::Suspend),
            _ => None,
        }
    }

    /// Handles a mouse event. Returns true if the screen may have changed.
    fn pointer(&mut self, mouse: MouseEvent, scope: &mut Scope, area: Rect) -> bool {
        let at = Position { x: mouse.column, y: mouse.row };
        let hit = if self.over.is_some() { None } else { hit(&scope.frame(), area, at) };
        let action = match (mouse.kind, hit) {
            (MouseEventKind::Down(MouseButton::Left), Some(Hit::Picture { at, .. })) => {
                self.drag = Some(Drag { from: at, to: at });
                return true;
            }
            (MouseEventKind::Drag(MouseButton::Left), Some(Hit::Picture { at, .. })) => {
                let Some(drag) = &mut self.drag else { return false };
                drag.to = at;
                return true;
            }
            (MouseEventKind::Up(MouseButton::Left), hit) => match (self.drag.take(), hit) {
                (Some(drag), _) if (drag.to - drag.from).abs() >= LEAST_DRAG => zoom(scope, drag),
                (Some(_), Some(Hit::Picture { at, lane, column })) => select(scope, at, lane, column),
                _ => return true,
            },
            (MouseEventKind::Down(MouseButton::Left), Some(hit)) => return click(hit, scope),
            (MouseEventKind::Down(MouseButton::Right), Some(_)) => Action::ZoomBack,
            (MouseEventKind::ScrollUp, Some(Hit::Picture { at, .. })) => Action::Zoom { notches: -1, at },
            (MouseEventKind::ScrollDown, Some(Hit::Picture { at, .. })) => Action::Zoom { notches: 1, at },
            (MouseEventKind::ScrollUp | MouseEventKind::ScrollDown, Some(_)) => {
                let by = if mouse.kind == MouseEventKind::ScrollUp { -1 } else { 1 };
                act_by_what_is_shown(FrontEndCommand::Move(by), scope);
                return true;
            }
            _ => return false,
        };
        scope.apply(action);
        true
    }

    /// The selected row of a table on a screen of this size, as text.
    pub fn selected_row(&self, scope: &Scope, area: Rect) -> Option<String> {
        let mut buffer = Buffer::empty(area);
        // Nothing lies over the table.
        let mut frame = scope.frame();
        frame.inspector = None;
        let extras = Extras { over: None, measurements: false, ..self.extras() };
        draw::draw(&frame, &self.options.theme, &extras, &mut buffer, area);
        let table = draw::table_area(&frame, area);
        let text_of = |y| (table.left()..table.right()).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let row = table.rows().map(|row| text_of(row.y)).find(|row| row.starts_with(draw::SELECTED))?;
        let row = row.trim_start_matches(draw::SELECTED);
        Some(row.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn extras(&self) -> Extras<'_> {
        Extras {
            keys: &self.options.keys,
            over: self.over.as_ref(),
            notice: self.notice.as_deref(),
            frame_bytes: self.frame_bytes,
            drag: self.drag.map(|drag| (drag.from, drag.to)),
            measurements: self.measurements,
            ladder_from: self.ladder_from,
        }
    }

    /// Draws the scope and its overlay.
    pub fn draw(&self, scope: &Scope, buffer: &mut Buffer, area: Rect) {
        draw::draw(&scope.frame(), &self.options.theme, &self.extras(), buffer, area);
        if self.options.ascii {
            ascii::translate(buffer);
        }
    }
}

/// Applies an action. A chosen view is not behind the window of a journey.
fn act(action: Action, scope: &mut Scope) {
    let shows_view = matches!(action, Action::Show(_) | Action::NextView(_));
    if shows_view && scope.frame().inspector.is_some() {
        scope.apply(Action::ToggleInspector);
    }
    scope.apply(action);
}

fn act_by_what_is_shown(own: FrontEndCommand, scope: &mut Scope) {
    let action = own.action(scope.frame().controls);
    if let Some(action) = action {
        scope.apply(action);
    }
}

/// Instant at a position of the picture.
fn instant(scope: &Scope, at: f64) -> u64 {
    let frame = scope.frame();
    let since = at.max(0.0) * frame.sweep.timebase.span_ns() as f64;
    frame.sweep.origin_ns.saturating_add(since as u64)
}

fn zoom(scope: &Scope, drag: Drag) -> Action {
    let (from, to) = (drag.from.min(drag.to), drag.from.max(drag.to));
    Action::ZoomTo { from_ns: instant(scope, from), to_ns: instant(scope, to) }
}

/// A click selects the nearest object, within a few columns.
fn select(scope: &Scope, at: f64, lane: Option<Place>, column: f64) -> Action {
    let span = scope.frame().sweep.timebase.span_ns() as f64;
    Action::SelectAt { time_ns: instant(scope, at), within_ns: (3.0 * column * span) as u64, lane }
}

/// Handles a click outside the picture. Returns true if the screen may have changed.
fn click(hit: Hit, scope: &mut Scope) -> bool {
    let action = match hit {
        Hit::Headline if scope.frame().headline.evidence == Evidence::None => return false,
        Hit::Headline => Action::ShowEvidence,
        Hit::Tab(view) => Action::Show(view),
        Hit::Lane(place) => {
            let Some(action) = place.click(scope.frame().controls.lane) else { return false };
            action
        }
        Hit::Session(part) => Action::SeekPart(part.clamp(0.0, 1.0)),
        Hit::Listed(row) => {
            let Some(key) = scope.frame().table.get(row).map(|listed| listed.line.key()) else { return false };
            Action::ChooseJourney(key)
        }
        Hit::Row(by) => Action::SelectRow(by),
        Hit::Title(Title::Order(order)) => Action::OrderFlows(order),
        Hit::Title(Title::List(list)) => Action::ShowList(list),
        Hit::Picture { .. } => return false,
    };
    act(action, scope);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::source::Source;
    use magscope_core::{Batch, Generator, GeneratorOptions};
    use magscope_scope::View;
    use std::time::Duration;

    #[test]
    fn a_chosen_view_is_not_behind_a_journey() {
        let mut world = Generator::new(GeneratorOptions {
            events: 3_000,
            batch_events: 3_000,
            ..GeneratorOptions::default()
        });
        let mut scope = Scope::new(world.info().clone(), magscope_scope::Options::default());
        let mut batch = Batch::default();
        world.next(&mut batch, Duration::ZERO).expect("it is made");
        scope.ingest(&batch);
        let mut front = Front::new(Options::default());
        let mut press = |code| {
            let key = KeyEvent::new(code, KeyModifiers::NONE);
            front.event(&Event::Key(key), &mut scope, Rect::new(0, 0, 80, 24));
            (scope.frame().controls.view, scope.frame().inspector.is_some())
        };
        press(KeyCode::Down);
        assert_eq!(press(KeyCode::Enter), (View::Scope, true));
        assert_eq!(press(KeyCode::Char('2')), (View::Flows, false));
    }
}
