//! The trigger: its condition, and the captures of each hit.

use crate::grid::{self, Click, Col, Press, number, words};
use crate::menu::{self, Target};
use crate::overlays::Overlay;
use crate::ui_context::UiContext;
use egui::{RichText, Ui};
use magscope_scope::command::Question;
use magscope_scope::format::{count, duration, short_duration};
use magscope_scope::look::TriggerStatus;
use magscope_scope::trigger::{HoldOff, Mode, TriggerState};
use magscope_scope::{Action, Frame};

pub(super) const COLUMNS: &[Col] = &[
    number("number", 60.0),
    number("at (UTC)", 130.0),
    words("because", 420.0),
    number("kept before", 80.0),
    number("kept after", 80.0),
];

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let trigger = &frame.trigger;
    condition(ui, trigger, cx);
    window(ui, trigger, cx);
    ui.add_space(2.0);
    if trigger.captures.is_empty() {
        let words = if trigger.text.is_empty() {
            "say what to wait for; what lies around each time it comes is kept here"
        } else {
            "it has not come yet"
        };
        ui.label(RichText::new(words).color(cx.c.dim));
        return;
    }
    let c = cx.c;
    let clicked = grid::show(ui, "captures", COLUMNS, trigger.captures.len(), cx, |row, n| {
        let Some(capture) = trigger.captures.get(n) else { return };
        row.select(trigger.shown == Some(n));
        row.put(format!("#{}", capture.number), c.dim);
        row.put(frame.time_of_day(capture.at_ns).unwrap_or_else(|| duration(capture.at_ns)), c.text);
        row.put(&capture.because, c.text);
        row.put(duration(capture.at_ns.saturating_sub(capture.from_ns)), c.dim);
        row.put(duration(capture.to_ns.saturating_sub(capture.at_ns)), c.dim);
    });
    let Some(Click::Row(n, press)) = clicked else { return };
    let Some(capture) = trigger.captures.get(n) else { return };
    match press {
        Press::Menu(text) => menu::open(ui, cx, Target::of_text(text)),
        _ => cx.act(Action::ShowCapture(capture.number)),
    }
}

/// The condition, the mode and the state.
fn condition(ui: &mut Ui, trigger: &TriggerStatus, cx: &mut UiContext) {
    ui.horizontal_wrapped(|ui| {
        let now = if trigger.text.is_empty() { "nothing …" } else { trigger.text.as_str() };
        ask(ui, "wait for", now, Question::Trigger, &trigger.text, cx);
        ui.separator();
        for mode in [Mode::Auto, Mode::Normal, Mode::Single] {
            let means = match mode {
                Mode::Auto => "the picture goes on by itself while nothing happens",
                Mode::Normal => "the picture waits",
                Mode::Single => "it waits, and stops after the first time",
            };
            let chosen = trigger.settings.mode == mode;
            if ui.selectable_label(chosen, mode.to_string()).on_hover_text(means).clicked() {
                cx.act(Action::TriggerMode(mode));
            }
        }
        ui.separator();
        if ui.button("Arm").on_hover_text("wait again, after a single shot").clicked() {
            cx.act(Action::Arm);
        }
        if ui.button("Force").on_hover_text("keep what is around now").clicked() {
            cx.act(Action::Force);
        }
        let (words, colour) = match trigger.state {
            TriggerState::Off => ("off", cx.c.dim),
            TriggerState::Armed => ("armed", cx.c.good),
            TriggerState::Filling => ("fired, keeping what follows", cx.c.accent),
            TriggerState::HeldOff => ("held off", cx.c.slow),
            TriggerState::Stopped => ("stopped after one", cx.c.accent),
        };
        ui.label(RichText::new(words).color(colour).strong());
        let counts = format!("held {}×, fired {}×", count(trigger.matches), count(trigger.fired));
        ui.label(RichText::new(counts).color(cx.c.dim).small());
    });
}

/// Capture length, pre-trigger part and hold-off.
fn window(ui: &mut Ui, trigger: &TriggerStatus, cx: &mut UiContext) {
    let settings = trigger.settings;
    ui.horizontal_wrapped(|ui| {
        let hold_off = match settings.hold_off {
            HoldOff::Nothing => String::new(),
            HoldOff::Time(ns) => short_duration(ns),
            HoldOff::Matches(n) => format!("{n} matches"),
        };
        let words = if hold_off.is_empty() { "nothing" } else { hold_off.as_str() };
        ask(ui, "keep", &short_duration(settings.window_ns), Question::Window, "", cx);
        let before = settings.pre_per_cent.to_string();
        ask(ui, "of it before", &format!("{before} %"), Question::PreTrigger, &before, cx);
        ask(ui, "hold off", words, Question::HoldOff, "", cx);
    });
}

/// A setting as a button that opens its prompt.
fn ask(ui: &mut Ui, name: &str, now: &str, question: Question, answer: &str, cx: &mut UiContext) {
    ui.label(RichText::new(name).color(cx.c.dim));
    let response = ui.button(now);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, format!("{name}: {now}")));
    if response.on_hover_text(question.title()).clicked() {
        cx.over = Some(Overlay::ask(question, answer.to_owned()));
    }
}
