//! The window's logic without a window: draws a scope with egui and turns input into actions and wishes. The
//! logic has no files and threads, so that tests can drive it.

use crate::bar;
use crate::cache::Caches;
use crate::chosen::{Chosen, Light};
use crate::colours::Colours;
use crate::compare::Compared;
use crate::host_request::HostRequest;
use crate::menu::{self, Menu};
use crate::minimap::MinimapDrag;
use crate::overlays::{self, Next, Overlay, Pick, Typed};
use crate::room::Room;
use crate::splitter::{self, Side};
use crate::time::Timeline;
use crate::ui_context::UiContext;
use crate::world::{Trouble, World};
use crate::{headline, keys, loadlines, panels, side};
use egui::{CentralPanel, Context, Frame as Margin, Panel, Rangef, Theme, ThemePreference, Ui};
use magscope_core::foreign::{clean, clean_lines};
use magscope_core::node::NodeInfo;
use magscope_scope::command::keys::KeyMap;
use magscope_scope::command::{Command, CommandKind, FrontEndCommand};
use magscope_scope::{Action, Message, Options, Rows, Scope, View};

/// The window's logic without a window.
pub struct Front {
    /// Settings.
    pub chosen: Chosen,
    keys: KeyMap,
    cache: Caches,
    time: Timeline,
    minimap: MinimapDrag,
    over: Option<Overlay>,
    /// The menu of a row.
    menu: Option<Menu>,
    /// Pages by which a key scrolls the table.
    scroll_pages: f32,
    /// The comparison, if requested.
    pub compared: Option<Compared>,
    /// The view of the last frame: if a key changed it, the tab follows.
    view: View,
    number: u64,
    /// True to stop reading the rest of a recording.
    idle: bool,
    /// Room for panels in the last frame: the status bar comes before the rest.
    room: Room,
}

impl Front {
    /// A front with these settings and a key map.
    pub fn new(chosen: Chosen, keys: KeyMap) -> Self {
        Front {
            chosen,
            keys,
            cache: Caches::default(),
            time: Timeline::default(),
            minimap: MinimapDrag::default(),
            over: None,
            menu: None,
            scroll_pages: 0.0,
            compared: None,
            view: View::default(),
            number: 0,
            idle: false,
            room: Room::default(),
        }
    }

    /// Marks the next scope as a different one, so that caches expire.
    pub fn other_scope(&mut self) {
        self.number = self.number.wrapping_add(1 << 40);
        self.view = View::default();
        self.compared = None;
        self.idle = false;
    }

    /// Shows what went wrong. Words of a peer or a file's name can be in it, so it is cleaned.
    pub fn trouble(&mut self, Trouble { what, why, next }: Trouble) {
        let line = |text: &str| clean(text).into_owned();
        let trouble = Trouble { what: line(&what), why: clean_lines(&why).into_owned(), next: line(&next) };
        self.over = Some(Overlay::Trouble(trouble));
    }

    /// Opens a file picker.
    pub fn pick(&mut self, what: Pick) {
        self.over = Some(Overlay::Pick(what));
    }

    /// Draws the welcome page.
    pub fn welcome(&mut self, ui: &mut Ui, world: &dyn World) -> Vec<HostRequest> {
        let (mut actions, mut requests) = (Vec::new(), Vec::new());
        if let Some(pick) = crate::welcome::show(ui, &self.chosen, &mut requests) {
            self.over = Some(Overlay::Pick(pick));
        }
        let mut nothing = Scope::new(NodeInfo::default(), Options::default());
        let mut cx = UiContext {
            c: Colours::now(ui.ctx()),
            chosen: &mut self.chosen,
            cache: &mut self.cache,
            actions: &mut actions,
            requests: &mut requests,
            over: None,
            menu: None,
            scroll_pages: 0.0,
            idle: &mut self.idle,
            revision: 0,
        };
        if let Some(over) = self.over.take()
            && let Next::Stay(over) = overlays::show(ui.ctx(), over, &mut nothing, &self.keys, world, &mut cx)
        {
            self.over = Some(over);
        }
        requests
    }

    /// Shows a comparison.
    pub fn show_compared(&mut self, compared: Compared) {
        self.compared = Some(compared);
        (self.chosen.below, self.chosen.tab) = (true, View::Compare);
    }

    /// True if an overlay is open.
    pub fn is_covered(&self) -> bool {
        self.over.is_some()
    }

    /// Area of the time line in the last frame, points.
    pub fn picture(&self) -> Option<egui::Rect> {
        self.time.area
    }

    /// Applies theme and scale if they changed.
    pub fn dress(&self, ctx: &Context) {
        let wanted = match self.chosen.light {
            Light::Dark => ThemePreference::Dark,
            Light::Light => ThemePreference::Light,
            Light::System => ThemePreference::System,
        };
        if ctx.options(|options| options.theme_preference) != wanted {
            ctx.set_theme(wanted);
        }
        if (ctx.zoom_factor() - self.chosen.scale).abs() > 1e-3 {
            ctx.set_zoom_factor(self.chosen.scale);
        }
    }

    /// Draws all and executes the requests. Requests for the owner of the window are returned.
    pub fn ui(&mut self, ui: &mut Ui, scope: &mut Scope, world: &dyn World) -> Vec<HostRequest> {
        self.dress(ui.ctx());
        let (mut actions, mut requests) = (Vec::new(), Vec::new());
        self.chords(ui.ctx(), scope, &mut actions);
        let mut cx = UiContext {
            c: Colours::now(ui.ctx()),
            chosen: &mut self.chosen,
            cache: &mut self.cache,
            actions: &mut actions,
            requests: &mut requests,
            over: None,
            menu: self.menu.take(),
            scroll_pages: std::mem::take(&mut self.scroll_pages),
            idle: &mut self.idle,
            revision: self.number.wrapping_add(scope.revision()),
        };
        {
            let frame = scope.frame();
            let margin = Margin::new().fill(cx.c.panel).inner_margin(egui::Margin::symmetric(8, 5));
            Panel::top("bar").frame(margin).show(ui, |ui| bar::show(ui, &frame, &mut cx));
            Panel::top("headline").frame(margin).show(ui, |ui| headline::show(ui, &frame, &mut cx));
            Panel::bottom("status").frame(margin).show(ui, |ui| side::status(ui, &frame, self.room, &mut cx));
            self.room = Room::of(ui.available_size());
            let (mut below_area, mut side_area) = (None, None);
            if cx.chosen.below && self.room.below_lack().is_none() {
                let range = Rangef::new(90.0, ui.available_height() * 0.7);
                let height = range.clamp(cx.chosen.below_height);
                let panel = Panel::bottom("below").resizable(false).exact_size(height).frame(margin);
                let shown = panel.show(ui, |ui| {
                    splitter::contents(ui, |ui| panels::show(ui, &frame, self.compared.as_ref(), &mut cx));
                });
                below_area = Some((shown.response.rect, range));
            } else {
                Panel::bottom("tabs").frame(margin).show(ui, |ui| panels::tabs(ui, self.room, &mut cx));
            }
            Panel::bottom("minimap").frame(Margin::new().fill(cx.c.panel)).show(ui, |ui| {
                self.minimap.show(ui, &frame, &mut cx);
            });
            if cx.chosen.side && self.room.side_lack().is_none() {
                let range = Rangef::new(220.0, ui.available_width() * 0.6);
                let width = range.clamp(cx.chosen.side_width);
                let panel = Panel::right("side").resizable(false).exact_size(width).frame(margin);
                let shown = panel.show(ui, |ui| {
                    splitter::contents(ui, |ui| side::show(ui, &frame, &mut cx));
                });
                side_area = Some((shown.response.rect, range));
            }
            if loadlines::count(&frame) > 0 {
                let height = loadlines::height(&frame);
                Panel::bottom("loadlines").exact_size(height).frame(Margin::new().fill(cx.c.back)).show(
                    ui,
                    |ui| {
                        loadlines::show(ui, &frame, &mut cx);
                    },
                );
            }
            CentralPanel::default().frame(Margin::new().fill(cx.c.back)).show(ui, |ui| {
                self.time.show(ui, &frame, &mut cx);
            });
            // Last, so that the picture does not take their clicks.
            if let Some((panel, range)) = below_area {
                let mut height = cx.chosen.below_height;
                splitter::show(ui, Side::Bottom, panel, range, &mut height, &cx);
                cx.chosen.below_height = height;
            }
            if let Some((panel, range)) = side_area {
                let mut width = cx.chosen.side_width;
                splitter::show(ui, Side::Right, panel, range, &mut width, &cx);
                cx.chosen.side_width = width;
            }
        }
        self.menu = cx.menu.take().and_then(|open| menu::show(ui, open, &mut cx));
        if let Some(over) = cx.over.take() {
            self.over = Some(over);
        }
        let mut run = None;
        if let Some(open) = self.over.take() {
            match overlays::show(ui.ctx(), open, scope, &self.keys, world, &mut cx) {
                Next::Stay(over) => self.over = Some(over),
                Next::Gone => {}
                Next::Run(command, rest) => run = Some((command, rest)),
            }
        }
        if let Some(over) = cx.over.take() {
            self.over = Some(over); // one overlay opened another
        }
        if let Some((command, rest)) = run {
            self.run(command, &rest, scope, &mut actions, ui.ctx());
        }
        if !actions.is_empty() {
            ui.ctx().request_repaint();
        }
        self.act(actions, scope);
        requests
    }

    /// Executes the requests.
    fn act(&mut self, actions: Vec<Action>, scope: &mut Scope) {
        let before = scope.frame().controls.journey;
        let chosen = actions.iter().any(chooses_view);
        apply_all(actions, scope);
        let (view, journey) = (scope.frame().controls.view, scope.frame().controls.journey);
        if chosen || view.spec().tab.is_some() {
            // The scope leads to a view of its own: to the requests of a filter, or to the flows of a path.
            self.follow_view(scope);
        } else if view != self.view {
            // Selecting a row returns a terminal to the picture; the window shows both.
            apply_own(Action::Show(self.view), scope);
        }
        self.show_view(scope);
        let opens = journey.is_some() && journey != before && self.chosen.side;
        if opens && scope.frame().inspector.is_none() {
            apply_own(Action::ToggleInspector, scope);
        }
    }

    /// Shows the tab of the view chosen by key or click.
    fn follow_view(&mut self, scope: &Scope) {
        let view = scope.frame().controls.view;
        if view == self.view {
            return;
        }
        self.view = view;
        self.chosen.below = view.spec().tab.is_some();
        if self.chosen.below {
            self.chosen.tab = view;
        }
    }

    /// Sets the view whose rows the scope's keys move.
    fn show_view(&mut self, scope: &mut Scope) {
        let wanted = if self.chosen.below { self.chosen.tab } else { View::Scope };
        if wanted != self.view {
            scope.apply(Action::Show(wanted));
            self.view = wanted;
        }
    }

    fn chords(&mut self, ctx: &Context, scope: &mut Scope, actions: &mut Vec<Action>) {
        let has_popup = self.menu.is_some() || egui::Popup::is_any_open(ctx);
        if self.over.is_some() || ctx.text_edit_focused() || has_popup {
            return;
        }
        // Tab moves the focus, and a focused control consumes some keys.
        let focused = ctx.memory(|memory| memory.focused().is_some());
        let events = ctx.input(|input| input.events.clone());
        for chord in keys::chords(&events) {
            if keys::is_for_controls(chord, focused) {
                continue;
            }
            if let Some(command) = self.keys.get(chord) {
                self.run(command, "", scope, actions, ctx);
            }
        }
    }

    /// True if a key for a page scrolls what is below. Events are a window on many more, which the selection moves.
    fn scrolls(&self) -> bool {
        let rows = self.view.spec().rows;
        self.chosen.below && !matches!(rows, Rows::Picture | Rows::Events)
    }

    fn run(
        &mut self,
        command: &Command,
        rest: &str,
        scope: &mut Scope,
        actions: &mut Vec<Action>,
        ctx: &Context,
    ) {
        let own = match &command.does {
            // To the pointer, as the wheel does.
            CommandKind::Act(Action::Zoom { notches, at }) => {
                let at = self.time.pointed(ctx).unwrap_or(*at);
                return actions.push(Action::Zoom { notches: *notches, at });
            }
            CommandKind::Act(action) => return actions.push(action.clone()),
            CommandKind::Own(own) => *own,
        };
        match own {
            FrontEndCommand::Help => self.over = Some(Overlay::Help),
            FrontEndCommand::Palette => self.over = Some(Overlay::Palette(Typed::default())),
            FrontEndCommand::Channels => self.over = Some(Overlay::Channels),
            FrontEndCommand::Ask(question) if rest.is_empty() => {
                self.over = Some(Overlay::ask(question, question.now(scope)));
            }
            FrontEndCommand::Ask(question) => {
                if let Err(wrong) = question.answer(rest, scope) {
                    scope.show_message(wrong, true);
                }
            }
            FrontEndCommand::Page(by) if self.scrolls() => self.scroll_pages += f32::from(by),
            FrontEndCommand::Measurements => self.chosen.side = !self.chosen.side,
            FrontEndCommand::Svg => self.over = Some(Overlay::Pick(Pick::Svg)),
            FrontEndCommand::Theme => self.chosen.light = other_light(ctx),
            own => actions.extend(own.action(scope.frame().controls)),
        }
    }
}

/// True for the choice of a view.
fn chooses_view(action: &Action) -> bool {
    matches!(action, Action::Show(_) | Action::NextView(_))
}

/// Applies actions. A journey that is not in memory any more is neither fitted nor opened: an earlier one is selected
/// then, and the message says why.
fn apply_all(actions: Vec<Action>, scope: &mut Scope) {
    let mut is_missing = false;
    for action in actions {
        if is_missing && matches!(action, Action::FitJourney | Action::ToggleInspector) {
            continue;
        }
        let key = if let Action::ChooseJourney(key) = &action { Some(*key) } else { None };
        scope.apply(action);
        if key.is_some() {
            is_missing = scope.frame().controls.journey != key;
        }
    }
}

/// Applies an action of the window itself. The message about the user's action stays.
fn apply_own(action: Action, scope: &mut Scope) {
    let message = scope.frame().controls.message.clone();
    scope.apply(action);
    if let Some(Message { text, is_error }) = message {
        scope.show_message(text, is_error);
    }
}

/// The opposite of the current theme.
pub fn other_light(ctx: &Context) -> Light {
    match ctx.theme() {
        Theme::Dark => Light::Light,
        Theme::Light => Light::Dark,
    }
}

/// True for commands that apply to a window; some apply only to terminals.
pub fn is_for_windows(command: &Command) -> bool {
    !matches!(
        command.does,
        // The window draws lanes without a service thinner, and has no tour.
        CommandKind::Act(Action::ToggleAllHops | Action::NextTourStep)
            | CommandKind::Own(
                FrontEndCommand::Mouse
                    | FrontEndCommand::Text
                    | FrontEndCommand::Copy
                    | FrontEndCommand::Redraw
                    | FrontEndCommand::Suspend
            )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::source::Source;
    use magscope_core::{Batch, Generator, GeneratorOptions};
    use std::time::Duration;

    /// Two seconds of traffic, all of it in the picture.
    fn busy() -> Scope {
        let mut world = Generator::new(GeneratorOptions {
            events: 20_000,
            events_per_s: 10_000,
            batch_events: 20_000,
            ..GeneratorOptions::default()
        });
        let mut scope = Scope::new(world.info().clone(), Options::default());
        let mut batch = Batch::default();
        world.next(&mut batch, Duration::ZERO).expect("it is made");
        scope.ingest(&batch);
        scope.apply(Action::Fit);
        scope
    }

    fn is_error(scope: &Scope) -> bool {
        scope.frame().controls.message.as_ref().is_some_and(|message| message.is_error)
    }

    #[test]
    fn a_journey_that_is_not_in_memory_changes_no_picture_and_the_message_stays() {
        let (mut front, mut scope) = (Front::new(Chosen::default(), KeyMap::of_window()), busy());
        let key = scope.frame().sweep.lifelines.first().expect("a lifeline").key();
        front.act(vec![Action::ChooseJourney(key), Action::FitJourney], &mut scope);
        assert_eq!(scope.frame().controls.journey, Some(key));
        assert!(scope.frame().inspector.is_some() && !is_error(&scope));
        front.act(vec![Action::Fit], &mut scope);
        let picture = |scope: &Scope| {
            let frame = scope.frame();
            let (origin_ns, span_ns) = (frame.sweep.origin_ns, frame.sweep.timebase.span_ns());
            (origin_ns, span_ns, frame.controls.journey, frame.inspector.is_some())
        };
        let before = picture(&scope);
        let missing = vec![Action::ChooseJourney(u64::MAX), Action::FitJourney, Action::ToggleInspector];
        front.act(missing, &mut scope);
        assert_eq!(picture(&scope), before, "the journey selected before is not fitted, and its ladder stays");
        assert!(is_error(&scope), "{:?}", scope.frame().controls.message);
    }

    #[test]
    fn the_tab_follows_the_view_that_the_scope_leads_to() {
        let view = |scope: &Scope| scope.frame().controls.view;
        let (mut front, mut scope) = (Front::new(Chosen::default(), KeyMap::of_window()), busy());
        // A filter of requests alone, of a button and of the prompt.
        for is_direct in [false, true] {
            front.act(vec![Action::Filter(String::new()), Action::Show(View::Losses)], &mut scope);
            let filter = Action::Filter("request > 1ns".to_owned());
            if is_direct {
                scope.apply(filter);
                front.act(Vec::new(), &mut scope);
            } else {
                front.act(vec![filter], &mut scope);
            }
            assert_eq!((front.chosen.tab, view(&scope)), (View::Requests, View::Requests), "{is_direct}");
            front.act(Vec::new(), &mut scope);
            assert_eq!((front.chosen.tab, view(&scope)), (View::Requests, View::Requests), "it stays");
        }
        // Enter on a path picks its journeys and shows their flows.
        front.act(vec![Action::Filter(String::new()), Action::Show(View::Topology)], &mut scope);
        front.act(vec![Action::SelectRow(1), Action::TakeRow], &mut scope);
        assert!(!scope.frame().controls.picks.is_empty());
        assert_eq!((front.chosen.tab, view(&scope)), (View::Flows, View::Flows));
        // A row that leads to the picture leaves the tab.
        front.act(vec![Action::TakeRow], &mut scope);
        assert_eq!((front.chosen.tab, front.chosen.below), (View::Flows, true));
    }

    #[test]
    fn an_action_of_the_window_leaves_the_message() {
        let mut scope = busy();
        scope.show_message("this did not work".to_owned(), true);
        apply_own(Action::Show(View::Losses), &mut scope);
        assert_eq!(scope.frame().controls.view, View::Losses);
        assert!(is_error(&scope));
        scope.apply(Action::Show(View::Flows));
        assert!(!is_error(&scope), "an action of the user ends it");
    }
}
