//! What a hand does at the window: moves, presses, typing.

use super::{Bench, chosen, two_hosts, window};
use egui::{Event, Modifiers, PointerButton, Pos2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use magscope_gui::Light;

pub const SIZE: [f32; 2] = [1280.0, 800.0];

pub fn bench() -> Harness<'static, Bench> {
    window(two_hosts(), chosen(Light::Dark), SIZE)
}

pub fn type_text(harness: &mut Harness<'_, Bench>, text: &str) {
    for c in text.chars() {
        harness.event(Event::Text(c.to_string()));
    }
    harness.run_steps(2);
}

pub fn span_ns(harness: &Harness<'_, Bench>) -> u64 {
    harness.state().scope.frame().sweep.timebase.span_ns()
}

pub fn middle(harness: &Harness<'_, Bench>) -> Pos2 {
    harness.get_by_label_contains("time line:").rect().center()
}

pub fn button(harness: &mut Harness<'_, Bench>, at: Pos2, button: PointerButton, pressed: bool) {
    harness.event(Event::PointerMoved(at));
    harness.event(Event::PointerButton { pos: at, button, pressed, modifiers: Modifiers::NONE });
    harness.run_steps(1);
}

pub fn click(harness: &mut Harness<'_, Bench>, label: &str) {
    harness.get_by_label(label).click();
    harness.run_steps(3);
}

pub fn secondary(harness: &mut Harness<'_, Bench>, at: Pos2) {
    button(harness, at, PointerButton::Secondary, true);
    button(harness, at, PointerButton::Secondary, false);
    harness.run_steps(3);
}

pub fn filter_of(harness: &Harness<'_, Bench>) -> String {
    harness.state().scope.frame().controls.filter.as_ref().map(ToString::to_string).unwrap_or_default()
}
