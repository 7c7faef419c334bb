//! The side panel: the selected journey hop by hop, and measurements; and the status bar with permanent
//! counters.

use crate::cache::key;
use crate::loadlines::value;
use crate::room::Room;
use crate::text::{NUMBERS, explained, explained_of, width};
use crate::ui_context::UiContext;
use egui::{Align, Button, Color32, Grid, Label, Layout, Response, RichText, ScrollArea, Sense, TextStyle, Ui};
use magscope_core::Direction;
use magscope_scope::explain::{explain, of_verdict};
use magscope_scope::format::{
    SUMMED, bit_rate, bytes, count, counted, duration, estimate, percent, rate, short_duration,
};
use magscope_scope::look::{Measurements, PairReading, PassRow, Payload, Span, Tone, facts as facts_of};
use magscope_scope::{Action, Frame, Inspector, MeasureSpan, Place};
use std::fmt::Write as _;
use std::sync::Arc;

/// Width of a measurement row without its name: four times, a count, and gaps.
const FIGURES: f32 = 284.0;
/// Maximum number of payload heads per journey, and of lines of each.
const MOST_HEADS: usize = 4;
const MOST_DUMPED: usize = 16;
/// Step of the width of a count in the status bar.
const FACT: f32 = 12.0;
/// Minimum width of a name.
const LEAST_NAME: f32 = 60.0;
/// Digits of a count that fit into these figures, and the width of one more.
const DIGITS: usize = 6;
const DIGIT: f32 = 7.5;
/// Width from which both hops of a pair fit.
const BOTH_NAMES: f32 = 128.0;

/// A number in fixed-width digits.
pub fn number(words: impl Into<String>, colour: Color32) -> RichText {
    RichText::new(words).font(NUMBERS).color(colour)
}

/// A name that may be cut: the whole of it, and what it means.
fn hover(response: Response, whole: &str) -> Response {
    explained_of(response, || {
        Some(explain(whole).map_or_else(|| whole.to_owned(), |words| format!("{whole}\n{words}")))
    })
}

/// A heading of a panel.
pub fn heading(ui: &mut Ui, words: &str, cx: &UiContext) {
    ui.label(RichText::new(words).color(cx.c.dim).small().strong());
}

/// Draws inspector and measurements.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    ScrollArea::both().auto_shrink([false, false]).show(ui, |ui| {
        if let Some(inspector) = &frame.inspector {
            journey(ui, inspector, cx);
        } else {
            heading(ui, "JOURNEY", cx);
            ui.horizontal_wrapped(|ui| invitation(ui, frame, cx));
        }
        ui.add_space(10.0);
        measurements(ui, frame, cx);
    });
}

/// Hint for opening a ladder.
fn invitation(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    if frame.controls.journey.is_none() {
        ui.label(RichText::new("click a journey to see it hop by hop").color(cx.c.dim));
        return;
    }
    let button = ui.button("Hop by hop").on_hover_text("open the ladder of the selected journey");
    if button.clicked() {
        cx.act(Action::ToggleInspector);
    }
}

fn journey(ui: &mut Ui, inspector: &Inspector, cx: &mut UiContext) {
    let line = inspector.line;
    ui.horizontal(|ui| {
        heading(ui, "JOURNEY", cx);
        if line.id() > 0 {
            ui.label(RichText::new(format!("#{}", line.id())).color(cx.c.accent).strong());
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            if ui.small_button("✕").on_hover_text("close the ladder").clicked() {
                cx.act(Action::ToggleInspector);
            }
        });
    });
    for words in facts(inspector) {
        ui.label(words);
    }
    let bad = line.is_bad();
    let verdict = RichText::new(&inspector.verdict).color(if bad { cx.c.bad } else { cx.c.good });
    explained_of(ui.label(verdict.strong()), || of_verdict(line.journey.verdict).map(str::to_owned));
    if let Some((words, ns)) = &inspector.blame {
        let share = *ns as f32 / line.total_ns().max(1) as f32;
        let response = ui.label(RichText::new(format!("{}: {words}", short_duration(*ns))).color(cx.c.accent));
        explained(response, words);
        let bar = egui::ProgressBar::new(share.clamp(0.0, 1.0)).desired_height(6.0).fill(cx.c.accent);
        ui.add(bar).on_hover_text(format!("{} of the whole", percent(f64::from(share)).trim()));
    }
    ui.add_space(4.0);
    Grid::new("ladder").num_columns(5).striped(true).spacing([10.0, 2.0]).show(ui, |ui| {
        for title in ["hop", "at", "Δ", "CPU", "who"] {
            explained(ui.label(RichText::new(title).color(cx.c.dim).small()), title);
        }
        ui.end_row();
        // As in the picture: the receiver above, the sender below.
        let mut above = None;
        for rung in inspector.rungs.iter().rev() {
            let direction = rung.mark.hop.direction();
            if above.replace(direction) != Some(Direction::Tx) && direction == Direction::Tx {
                explained(ui.label(RichText::new("wire").color(cx.c.dim).small()), "wire");
                ui.end_row();
            }
            let colour = if rung.blamed { cx.c.accent } else { cx.c.text };
            for pass in inspector.passes.iter().rev().filter(|pass| pass.after() == Some(rung.mark.hop)) {
                own(ui, pass, cx);
            }
            explained(ui.label(RichText::new(rung.mark.hop.name()).color(colour)), rung.mark.hop.name());
            let sign = if rung.since_start_ns < 0 { '−' } else { '+' };
            ui.label(number(format!("{sign}{}", duration(rung.since_start_ns.unsigned_abs())), cx.c.dim));
            let step = rung.step.map_or_else(|| format!("{:>7}", "·"), |step| duration(step.ns));
            ui.label(number(step, colour));
            ui.label(number(format!("{:>3}", rung.mark.cpu), cx.c.dim));
            // More than there is room for is read where it is pointed at.
            ui.label(RichText::new(&rung.who).color(colour).small()).on_hover_text(&rung.who);
            ui.end_row();
        }
        // Hits without a hop, or whose hop this journey lacks.
        let placed = |pass: &&PassRow| inspector.rungs.iter().any(|rung| pass.after() == Some(rung.mark.hop));
        inspector.passes.iter().filter(|pass| !placed(pass)).for_each(|pass| own(ui, pass, cx));
    });
    payload(ui, inspector, cx);
}

/// A custom probe in the ladder: its values replace the process.
fn own(ui: &mut Ui, pass: &PassRow, cx: &UiContext) {
    let colour = crate::time::colour_of(pass.probe.id, cx);
    ui.label(RichText::new(format!("◆ {}", pass.probe.name)).color(colour)).on_hover_text(pass.probe.place());
    let sign = if pass.since_start_ns < 0 { '−' } else { '+' };
    ui.label(number(format!("{sign}{}", duration(pass.since_start_ns.unsigned_abs())), cx.c.dim));
    ui.label(number(format!("{:>7}", "·"), cx.c.dim));
    ui.label(number(format!("{:>3}", pass.hit.cpu), cx.c.dim));
    ui.label(RichText::new(&pass.text).color(colour).small());
    ui.end_row();
}

/// Payload heads, if captured.
fn payload(ui: &mut Ui, inspector: &Inspector, cx: &UiContext) {
    match &inspector.payload {
        Payload::NotAsked => {}
        Payload::Elsewhere(why) => {
            ui.label(RichText::new(format!("payload: {why}")).color(cx.c.dim).small());
        }
        Payload::Heads(heads) => {
            for head in heads.iter().take(MOST_HEADS) {
                let words = format!("payload at {}, {} bytes", head.hop, count(u64::from(head.of_bytes)));
                ui.label(RichText::new(words).color(cx.c.dim).small());
                for line in head.dump().into_iter().take(MOST_DUMPED) {
                    ui.add(Label::new(number(line, cx.c.text)).extend());
                }
            }
        }
    }
}

fn facts(inspector: &Inspector) -> Vec<String> {
    let line = inspector.line;
    let mut facts = Vec::new();
    if let Some((from, to)) = line.ends {
        facts.push(format!("{} {from} → {to}", line.journey.proto));
    }
    let (start, end) = (line.journey.range.start as u32, line.journey.range.end as u32);
    let mut second = format!("{} [{start}, {end})   {}", bytes(line.journey.bytes()).trim(), inspector.route);
    if line.journey.retransmits() > 0 {
        _ = write!(second, "   resent {}×", line.journey.retransmits());
    }
    facts.push(second);
    let mut third = format!("{} in all", short_duration(line.total_ns()));
    if line.journey.ambiguous {
        third.push_str("; times may be a neighbour's");
    }
    facts.push(third);
    facts
}

/// The measurements of the picture or between the cursors.
pub fn measured(frame: &Frame, cx: &mut UiContext) -> Arc<Measurements> {
    let over = frame.cursors.map_or(0, |cursors| cursors.a_ns ^ cursors.b_ns.rotate_left(17));
    cx.cache.measurements.get(key(&[cx.revision, over]), || frame.measurements())
}

fn measurements(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let m = &*measured(frame, cx);
    ui.horizontal(|ui| {
        heading(ui, "MEASUREMENTS", cx);
        let span = short_duration(m.to_ns.saturating_sub(m.from_ns));
        for (over, words) in [(MeasureSpan::Picture, "picture"), (MeasureSpan::Cursors, "between cursors")] {
            if ui.selectable_label(m.over == over, words).clicked() {
                cx.act(Action::MeasureOver(over));
            }
        }
        ui.label(number(span, cx.c.dim));
    });
    counts(ui, m, cx);
    ui.add_space(2.0);
    let digits = digits(m);
    let more = (digits - DIGITS) as f32 * DIGIT;
    // Numbers have priority; names get the rest.
    let names = (ui.available_width() - FIGURES - more).max(LEAST_NAME);
    Grid::new("pairs").num_columns(6).striped(true).spacing([8.0, 2.0]).show(ui, |ui| {
        explained(ui.label(RichText::new("from → to").color(cx.c.dim).small()), "from → to");
        for (title, width) in [("p50", 7), ("p90", 7), ("p99", 7), ("max", 7), ("n", digits)] {
            explained(ui.label(number(format!("{title:>width$}"), cx.c.dim)), title);
        }
        ui.end_row();
        let whole_unknown =
            |pair: &PairReading| pair.span == Span::Whole && pair.times.n == 0 && !m.sums.is_empty();
        for pair in m.pairs.iter().filter(|pair| !whole_unknown(pair)) {
            let whole = pair.words(" → ");
            // Where there is room for one hop it is the one that the time leads to.
            let words = match pair.span.hops() {
                Some((_, to)) if names < BOTH_NAMES => match pair.proto {
                    Some(proto) => format!("→ {to} {proto}"),
                    None => format!("→ {to}"),
                },
                _ => whole.clone(),
            };
            let chosen = pair.span.to().is_some_and(|to| frame.controls.hop() == Some(to));
            let colour = if chosen { cx.c.accent } else { cx.c.text };
            let name = Label::new(RichText::new(words).small().color(colour)).selectable(false).truncate();
            let clicked = ui.scope(|ui| {
                ui.set_max_width(names);
                hover(ui.add(name.sense(Sense::click())), &whole).clicked()
            });
            if clicked.inner {
                cx.act(Action::ChooseLane(pair.span.to().map(Place::Hop)));
            }
            let t = pair.times;
            for ns in [t.p50_ns, t.p90_ns, t.p99_ns, t.max_ns] {
                let words = if t.n == 0 { format!("{:>7}", "·") } else { duration(ns) };
                ui.label(number(words, colour));
            }
            ui.label(number(format!("{:>digits$}", count(t.n)), cx.c.dim));
            ui.end_row();
        }
        extra_pairs(ui, m, (names, digits), cx);
    });
    for layer in &m.layers {
        ui.horizontal(|ui| {
            let mark = if layer.summed { "Σ " } else { "" };
            explained(ui.label(RichText::new(format!("{mark}payload at {}", layer.hop)).small()), "payload at");
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                let reported = |words: String| if layer.estimated { estimate(&words) } else { words };
                let or_dot = |n: Option<f64>, words: fn(f64) -> String| {
                    n.map_or_else(|| "·".to_owned(), |n| reported(words(n)))
                };
                ui.label(number(or_dot(layer.per_s, rate), cx.c.dim));
                ui.label(number(or_dot(layer.bytes_per_s, bit_rate), cx.c.text));
            });
        });
    }
    for reading in &m.channels {
        let words = |v: f64| value(reading.channel.unit(), v).trim().to_owned();
        ui.horizontal(|ui| {
            let means = explain(reading.channel.name()).map_or_else(String::new, |means| format!("{means}\n"));
            ui.label(RichText::new(reading.channel.name()).small())
                .on_hover_text(format!("{means}{} values", reading.n));
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                let (min, mean, max) = (words(reading.min), words(reading.mean), words(reading.max));
                ui.label(number(
                    format!("{min} … {max}, mean {mean}, last {}", words(reading.last)),
                    cx.c.text,
                ));
            });
        });
    }
    if m.pairs.iter().any(|pair| !pair.times.exact) {
        ui.label(RichText::new("percentiles are within 6.25 %").color(cx.c.dim).small());
    }
}

/// Width of the largest count of the rows, characters.
fn digits(m: &Measurements) -> usize {
    let pairs = m.pairs.iter().chain(&m.sums).map(|pair| pair.times.n);
    let most = pairs.chain(m.passes.iter().map(|pass| pass.times.n)).max().unwrap_or(0);
    count(most).chars().count().max(DIGITS)
}

/// Rows below the pairs of journeys: the kernel's sums, and times to custom probes. Names have a width, counts a number
/// of characters.
fn extra_pairs(ui: &mut Ui, m: &Measurements, (names, digits): (f32, usize), cx: &UiContext) {
    let sums = m.sums.iter().filter_map(|pair| {
        let (from, to) = pair.span.hops()?;
        let words = if names < BOTH_NAMES { format!("→ {to}") } else { format!("{from} → {to}") };
        Some((format!("{SUMMED} {words}"), format!("{from} → {to}: added up by the kernel"), pair.times))
    });
    let passes = m.passes.iter().map(|pass| {
        let whole = format!("{} → {}", pass.from, pass.probe);
        let words = if names < BOTH_NAMES { format!("→ {}", pass.probe) } else { whole.clone() };
        (words, whole, pass.times)
    });
    for (words, whole, t) in sums.chain(passes) {
        let name = Label::new(RichText::new(words).small()).selectable(false).truncate();
        ui.scope(|ui| {
            ui.set_max_width(names);
            hover(ui.add(name), &whole);
        });
        for ns in [t.p50_ns, t.p90_ns, t.p99_ns, t.max_ns] {
            ui.label(number(duration(ns), cx.c.text));
        }
        ui.label(number(format!("{:>digits$}", count(t.n)), cx.c.dim));
        ui.end_row();
    }
}

/// A count that moves to the next line as a whole.
fn unbroken(ui: &mut Ui, words: String, colour: Color32) -> Response {
    ui.add(Label::new(RichText::new(words).color(colour)).extend())
}

fn counts(ui: &mut Ui, m: &Measurements, cx: &UiContext) {
    ui.horizontal_wrapped(|ui| {
        let c = cx.c;
        let summed = m.journeys == 0 && !m.sums.is_empty();
        let words = if summed {
            "no journeys, Σ of the kernel".to_owned()
        } else {
            counted(m.journeys, "journey", "journeys")
        };
        explained(unbroken(ui, words, c.text), if summed { "Σ the kernel adds up" } else { "journeys" });
        if m.untimed > 0 {
            explained(unbroken(ui, format!("{} without times", count(m.untimed)), c.text), "without times");
        }
        if let Some(ratio) = m.loss_ratio.filter(|ratio| *ratio > 0.0) {
            let words = format!("{} dropped or lost", percent(ratio).trim());
            explained(unbroken(ui, words, c.bad), "dropped or lost");
        }
        if m.is_narrowed {
            explained(unbroken(ui, "all traffic:".to_owned(), c.dim), "all traffic");
        }
        for (words, n, wrong) in [
            ("dropped", m.drops, c.bad),
            ("events missed", m.missed_events, c.missed),
            ("retransmits", m.retransmits, c.slow),
        ] {
            let colour = if n > 0 { wrong } else { c.dim };
            explained(unbroken(ui, format!("{} {words}", count(n)), colour), words);
        }
    });
}

/// The status bar: counters, including zeros, and the scope's message.
pub fn status(ui: &mut Ui, frame: &Frame, room: Room, cx: &mut UiContext) {
    ui.horizontal(|ui| {
        // The controls first: the counters have the room that is left.
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            for (on, words, name, lack) in [
                (cx.chosen.side, "beside", "inspector and measurements", room.side_lack()),
                (cx.chosen.below, "below", "the panels below", room.below_lack()),
            ] {
                let button = Button::selectable(on && lack.is_none(), RichText::new(words).small());
                let response = ui
                    .add_enabled(lack.is_none(), button)
                    .on_hover_text(format!("show or hide {name}"))
                    .on_disabled_hover_text(lack.unwrap_or_default());
                if response.clicked() {
                    match words {
                        "beside" => cx.chosen.side = !on,
                        _ => cx.chosen.below = !on,
                    }
                }
            }
            reading(ui, frame, cx);
            recording(ui, frame, cx);
            if let Some(message) = &frame.controls.message {
                let colour = if message.is_error { cx.c.bad } else { cx.c.good };
                let words = Label::new(RichText::new(&message.text).color(colour)).truncate();
                ui.add(words).on_hover_text(&message.text);
            }
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| counters(ui, frame, cx));
        });
    });
}

/// The nodes and the counters, as many as there is room for: the most important are first.
fn counters(ui: &mut Ui, frame: &Frame, cx: &UiContext) {
    let nodes = frame.header.nodes.as_str();
    if width(ui, nodes, &TextStyle::Small) <= ui.available_width() {
        ui.label(RichText::new(nodes).color(cx.c.text).small());
    }
    for fact in facts_of(&frame.footer) {
        let colour = match fact.tone {
            Tone::Plain | Tone::Dim => cx.c.dim,
            Tone::Accent => cx.c.accent,
            Tone::NetworkLoss => cx.c.bad,
            Tone::MissedEvents => cx.c.missed,
        };
        let words = fact.text.trim();
        if width(ui, words, &TextStyle::Small) + FACT > ui.available_width() {
            return;
        }
        let response = ui.label(RichText::new(words).color(colour).small());
        // A digit more does not move the next one each time.
        let width = response.rect.width();
        ui.add_space((width / FACT).ceil() * FACT - width);
        explained(response, words);
    }
}

/// Name and size of the recording that is written.
fn recording(ui: &mut Ui, frame: &Frame, cx: &UiContext) {
    let Some(recording) = frame.footer.recording else { return };
    let size = bytes(recording.bytes);
    let name = crate::bar::shortened(&recording.name, |_| true);
    ui.label(number(size, cx.c.dim));
    ui.label(RichText::new(format!("● {name}")).color(cx.c.bad).small()).on_hover_text(&recording.name);
}

/// Progress of reading a recording, and a button to stop it.
fn reading(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let t = &frame.transport;
    if !t.seekable || t.read_ns >= t.to_ns {
        return;
    }
    let all = t.to_ns.saturating_sub(t.from_ns).max(1) as f64;
    let part = t.read_ns.saturating_sub(t.from_ns) as f64 / all;
    let (name, words) = if *cx.idle {
        ("Read on", "read the rest")
    } else {
        ("Stop", "read no further: what is looked at is still read")
    };
    if ui.small_button(name).on_hover_text(words).clicked() {
        *cx.idle = !*cx.idle;
        cx.requests.push(crate::host_request::HostRequest::Idle(*cx.idle));
    }
    let bar = egui::ProgressBar::new(part.clamp(0.0, 1.0) as f32).desired_width(150.0).fill(cx.c.quick);
    let words = if *cx.idle { "read" } else { "reading" };
    let response = ui.add(bar.text(RichText::new(format!("{words} {:.0} %", part * 100.0)).small()));
    response.widget_info(|| {
        egui::WidgetInfo::labeled(egui::Role::ProgressIndicator, true, "how much has been read")
    });
}
