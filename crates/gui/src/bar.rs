//! The top bar: files, transport, timebase, trigger, filter, lifeline colours, and the clock bound.

use crate::overlays::{Overlay, Pick};
use crate::text::{explained, explained_of, width};
use crate::ui_context::UiContext;
use egui::{Align, Button, Color32, Label, Layout, RichText, TextStyle, Ui};
use magscope_scope::command::Question;
use magscope_scope::explain::explain;
use magscope_scope::format::short_duration;
use magscope_scope::{Action, Edge, Frame, State};
use magscope_timeline::pair::State as Clock;

use crate::chosen::Tint;

/// Longest text of a button with the words of the user, characters.
const LONGEST: usize = 20;
/// Texts of the buttons of trigger and filter without a condition.
const NO_TRIGGER: &str = "Trigger …";
const NO_FILTER: &str = "Filter …";
/// Least room for where the picture stands, with the gaps beside it, points: a longer text is cut.
const LEAST_EDGE: f32 = 80.0;

/// The beginning of a text, of a width that `fits`; all of it is where the pointer is.
pub fn shortened(words: &str, fits: impl Fn(&str) -> bool) -> String {
    if words.chars().count() <= LONGEST && fits(words) {
        return words.to_owned();
    }
    let cut = |longest: usize| words.chars().take(longest).chain(['…']).collect::<String>();
    (1..LONGEST).rev().map(cut).find(|text| fits(text)).unwrap_or_else(|| "…".to_owned())
}

/// Room that the buttons of trigger and filter have beside their texts without a condition, in a bar of this width,
/// points. It depends on nothing else, so a condition moves no button and adds no row.
fn room_for_words(bar: f32) -> f32 {
    if bar < 745.0 {
        0.0 // two rows have no room left
    } else if (1_238.0..1_320.0).contains(&bar) {
        30.0 // the most with which all of the bar is one row
    } else {
        70.0
    }
}

/// Text and size of the button of a condition, which is as wide without one.
fn condition_text(ui: &Ui, words: &str, empty: &str, room: f32) -> (String, egui::Vec2) {
    let fits = |text: &str| width(ui, text, &TextStyle::Button) <= width(ui, empty, &TextStyle::Button) + room;
    let text = if words.is_empty() { empty.to_owned() } else { shortened(words, fits) };
    let least = width(ui, empty, &TextStyle::Button) + room + 2.0 * ui.spacing().button_padding.x;
    (text, egui::vec2(least, 0.0))
}

/// Draws it.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let room = room_for_words(ui.available_width());
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 5.0;
        files(ui, cx);
        ui.separator();
        transport(ui, frame, cx);
        ui.separator();
        timebase(ui, frame, cx);
        ui.separator();
        trigger(ui, frame, room, cx);
        ui.separator();
        filter(ui, frame, room, cx);
        ui.separator();
        view(ui, cx);
        // Words that change are at the right end, so that no button moves; in a row of their own where they would cover one.
        let room = width(ui, &clock_words(frame, cx).0, &TextStyle::Body) + LEAST_EDGE;
        if ui.available_size_before_wrap().x < room {
            ui.end_row();
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            clock(ui, frame, cx);
            ui.add_space(6.0);
            edge(ui, frame, cx);
        });
    });
}

fn files(ui: &mut Ui, cx: &mut UiContext) {
    ui.menu_button("File", |ui| {
        let mut item = |ui: &mut Ui, words: &str, then: Overlay| {
            if ui.button(words).clicked() {
                cx.over = Some(then);
                ui.close();
            }
        };
        item(ui, "Open recordings …", Overlay::Pick(Pick::Open));
        item(ui, "Compare with …", Overlay::Pick(Pick::Compare));
        ui.separator();
        item(ui, "Picture as PNG …", Overlay::Pick(Pick::Png));
        item(ui, "Picture as SVG …", Overlay::Pick(Pick::Svg));
        item(ui, "Export what is selected …", Overlay::Pick(Pick::Export));
        if !cx.chosen.recent.is_empty() {
            ui.separator();
            ui.label(RichText::new("recent").color(cx.c.dim));
            for dirs in cx.chosen.recent.clone() {
                if ui.button(names(&dirs)).on_hover_text(paths(&dirs)).clicked() {
                    cx.requests.push(crate::host_request::HostRequest::Open(dirs));
                    ui.close();
                }
            }
        }
        ui.separator();
        if ui.button("Quit").clicked() {
            cx.act(Action::Quit);
            ui.close();
        }
    });
}

/// Recordings in a few words: the names of their directories.
pub fn names(dirs: &[std::path::PathBuf]) -> String {
    let name = |dir: &std::path::PathBuf| {
        dir.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned())
    };
    dirs.iter().map(name).collect::<Vec<_>>().join(" + ")
}

/// Whole paths, one a line.
pub fn paths(dirs: &[std::path::PathBuf]) -> String {
    dirs.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>().join("\n")
}

fn named(ui: &mut Ui, glyph: &str, name: &str, on: bool) -> bool {
    let response = ui.add(Button::selectable(on, glyph));
    response.widget_info(|| egui::WidgetInfo::selected(egui::Role::Button, true, on, name));
    response.on_hover_text(name).clicked()
}

fn transport(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let transport = &frame.transport;
    let (glyph, name) = if frame.controls.paused { ("▶", "go on") } else { ("❚❚", "stop the picture") };
    let response = ui.add(Button::new(glyph).min_size(egui::vec2(40.0, 0.0)));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, name));
    if response.on_hover_text(name).clicked() {
        cx.act(Action::TogglePause);
    }
    if transport.seekable && named(ui, "|◀", "go to the beginning", false) {
        cx.act(Action::SeekStart);
    }
    if named(ui, "▶|", "go to the end and stay there", transport.following) {
        cx.act(Action::Follow);
    }
    if transport.seekable {
        let words = Button::new(format!("{}×", transport.speed)).min_size(egui::vec2(56.0, 0.0));
        let response = egui::containers::menu::MenuButton::from_button(words).ui(ui, |ui| {
            for speed in [0.001, 0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0] {
                if ui.button(format!("{speed}×")).clicked() {
                    cx.act(Action::SetSpeed(speed));
                    ui.close();
                }
            }
        });
        response.0.on_hover_text("how fast it plays");
    }
    if frame.header.state != State::Replay && !transport.seekable {
        // The status bar has its name and size, which change.
        let is_recording = frame.footer.recording.is_some();
        let glyph = RichText::new("●").color(if is_recording { cx.c.bad } else { cx.c.dim });
        let response = ui.add(Button::new(glyph));
        response.widget_info(|| {
            egui::WidgetInfo::selected(egui::Role::Button, true, is_recording, "record what comes")
        });
        if response.on_hover_text("record what comes, or end it").clicked() {
            cx.act(Action::ToggleRecording);
        }
    }
}

fn timebase(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    if named(ui, "−", "more time a division", false) {
        cx.act(Action::TimebaseCoarser);
    }
    let words = format!("{:>8}/div", short_duration(frame.sweep.timebase.per_division_ns()));
    let response = ui.menu_button(RichText::new(words).monospace(), |ui| {
        for ns in [100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000_u64] {
            if ui.button(format!("{}/div", short_duration(ns))).clicked() {
                cx.act(Action::SetTimebase(ns));
                ui.close();
            }
        }
    });
    response.response.on_hover_text("timebase: time a division");
    if named(ui, "+", "less time a division", false) {
        cx.act(Action::TimebaseFiner);
    }
    if ui.button("Autoset").on_hover_text("find the busiest flow, and scales that suit it").clicked() {
        cx.act(Action::Autoset);
    }
    if ui.button("Fit").on_hover_text("show all there is (double click)").clicked() {
        cx.act(Action::Fit);
    }
    if ui.button("Back").on_hover_text("the stretch shown before (right click)").clicked() {
        cx.act(Action::ZoomBack);
    }
}

fn trigger(ui: &mut Ui, frame: &Frame, room: f32, cx: &mut UiContext) {
    let trigger = &frame.trigger;
    let (words, colour) = if trigger.text.is_empty() {
        (String::new(), cx.c.text)
    } else {
        (format!("T {}", trigger.text), cx.c.accent)
    };
    let (text, size) = condition_text(ui, &words, NO_TRIGGER, room);
    let response = ui.add(Button::new(RichText::new(text).color(colour)).min_size(size));
    let means = "what the trigger waits for".to_owned();
    let means = if trigger.text.is_empty() { means } else { format!("{means}: {}", trigger.text) };
    if response.on_hover_text(means).clicked() {
        cx.over = Some(Overlay::ask(Question::Trigger, trigger.text.clone()));
    }
}

/// What a filter chooses, in words; empty without one.
fn filter_words(conditions: &[String]) -> String {
    let bracketed = |condition: &String| {
        if conditions.len() > 1 && condition.contains(" or ") {
            format!("({condition})")
        } else {
            condition.clone()
        }
    };
    let all = conditions.iter().map(bracketed).collect::<Vec<_>>().join(" and ");
    let leave_out = conditions.iter().all(|condition| condition.starts_with("not "));
    if leave_out { all } else { format!("only {all}") }
}

fn filter(ui: &mut Ui, frame: &Frame, room: f32, cx: &mut UiContext) {
    let now = frame.controls.filter.as_ref().map(ToString::to_string).unwrap_or_default();
    let proto = frame.controls.proto.map(|proto| proto.to_string());
    let only: Vec<String> = proto.into_iter().chain(frame.filter_words()).collect();
    let counts = frame.header.counts_words().unwrap_or_default();
    let means = ["only journeys and requests for which something holds", now.as_str(), counts.as_str()];
    let means = means.into_iter().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    let (text, size) = condition_text(ui, &filter_words(&only), NO_FILTER, room);
    let response = ui.add(Button::selectable(!only.is_empty(), text).min_size(size));
    if response.on_hover_text(means).clicked() {
        cx.over = Some(Overlay::ask(Question::Filter, now));
    }
}

fn view(ui: &mut Ui, cx: &mut UiContext) {
    let response = ui.menu_button(format!("Colour: {}", cx.chosen.tint.name()), |ui| {
        for (tint, name) in Tint::ALL {
            if ui.selectable_label(cx.chosen.tint == tint, name).clicked() {
                cx.chosen.tint = tint;
                ui.close();
            }
        }
    });
    response.response.on_hover_text("what gives lifelines their colour");
    if ui.button("Channels").on_hover_text("choose signals: cwnd, srtt, rates, queues, cost").clicked() {
        cx.over = Some(Overlay::Channels);
    }
    if named(ui, "☀", "light or dark", false) {
        cx.chosen.light = crate::front::other_light(ui.ctx());
    }
    if named(ui, "?", "help: keys and commands", false) {
        cx.over = Some(Overlay::Help);
    }
}

/// Where the picture stands against the newest instant.
fn edge(ui: &mut Ui, frame: &Frame, cx: &UiContext) {
    let edge = &frame.header.edge;
    let colour = match edge {
        Edge::Away { .. } => cx.c.missed,
        edge if edge.is_unusual() => cx.c.accent,
        _ => cx.c.dim,
    };
    let words = edge.words(|name| if name == "follow" { "▶|" } else { "Esc" }.to_owned());
    let response = ui.add(Label::new(RichText::new(&words).color(colour)).truncate());
    explained(response, &words);
    if let Some(counts) = frame.header.counts_words() {
        let label = Label::new(RichText::new(&counts).color(cx.c.dim).small()).truncate();
        ui.add(label).on_hover_text(&counts);
    }
}

/// The bound of the clocks, and its colour.
fn clock_words(frame: &Frame, cx: &UiContext) -> (String, Color32) {
    match (frame.wire.state, frame.wire.half_width_ns) {
        (None, _) => (frame.header.clock.clone(), cx.c.good),
        (Some(state), Some(ns)) => {
            let colour = if state == Clock::Certified { cx.c.good } else { cx.c.slow };
            (format!("±{} {state}", short_duration(ns)), colour)
        }
        (Some(state), None) => (format!("clock {state}"), cx.c.slow),
    }
}

fn clock(ui: &mut Ui, frame: &Frame, cx: &UiContext) {
    let (words, colour) = clock_words(frame, cx);
    let response = ui.add(Label::new(RichText::new(&words).color(colour).strong()).selectable(false));
    let means = "how far a time across the wire can be from the truth";
    explained_of(response, || {
        Some(explain(&words).map_or_else(|| means.to_owned(), |words| format!("{means}\n{words}")))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_its_room_ends() {
        let fits = |longest: usize| move |text: &str| text.chars().count() <= longest;
        assert_eq!(shortened("tcp", fits(99)), "tcp");
        assert_eq!(shortened("verdict = lost", fits(9)), "verdict …");
        assert_eq!(shortened(&"x".repeat(30), fits(99)).chars().count(), LONGEST);
        assert_eq!(shortened("verdict = lost", fits(0)), "…", "it ends");
    }

    #[test]
    fn a_filter_that_leaves_out_is_named_without_only() {
        let words = |conditions: &[&str]| {
            filter_words(&conditions.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(words(&[]), "");
        assert_eq!(words(&["tcp", "port = 5432"]), "only tcp and port = 5432");
        assert_eq!(words(&["tcp", "lost or port = 80"]), "only tcp and (lost or port = 80)");
        assert_eq!(words(&["not flow = 10.0.0.7:1-10.0.0.9:2"]), "not flow = 10.0.0.7:1-10.0.0.9:2");
        assert_eq!(words(&["not port = 80", "not lost"]), "not port = 80 and not lost");
        assert_eq!(words(&["not port = 80", "port = 81"]), "only not port = 80 and port = 81");
    }
}
