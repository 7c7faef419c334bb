//! The journeys: the slowest, the most recent, or the failed ones.

use crate::grid::{self, Click, Col, Press, number, words};
use crate::menu::{self, Target};
use crate::ui_context::UiContext;
use egui::{RichText, Ui};
use magscope_core::Verdict;
use magscope_scope::format::{bytes, count, duration};
use magscope_scope::{Action, Frame, List, Listed, condition};

/// The columns that order the journeys: the slowest first, the newest first.
const TOTAL: &str = "total";
const BEGAN: &str = "began (UTC)";

pub(super) const COLUMNS: &[Col] = &[
    number(TOTAL, 76.0),
    words("longest part", 300.0),
    number("its time", 76.0),
    number("bytes", 76.0),
    words("flow", 330.0),
    number(BEGAN, 130.0),
    number("number", 70.0),
];
/// Rows at most.
const MOST: usize = 64;

/// Draws the panel.
pub fn show(ui: &mut Ui, frame: &Frame, cx: &mut UiContext) {
    let table = frame.journeys(MOST);
    ui.horizontal(|ui| {
        for list in List::ALL {
            if ui.selectable_label(frame.controls.list == list, list.name()).clicked() {
                cx.act(Action::ShowList(list));
            }
        }
        ui.label(RichText::new(format!("{} listed", count(table.matching as u64))).color(cx.c.dim).small());
    });
    if table.rows.is_empty() {
        let nothing = match frame.controls.list {
            _ if frame.footer.sums => "no journeys: the kernel adds up, and hands over sums (Σ)",
            List::Bad => "none dropped, none lost",
            _ => "no journey yet",
        };
        ui.label(RichText::new(nothing).color(cx.c.dim));
        return;
    }
    let (accent, bad) = (cx.c.accent, cx.c.bad);
    let mut columns = COLUMNS.to_vec();
    for column in &mut columns {
        match column.title() {
            TOTAL => *column = column.sorts(frame.controls.list == List::Slowest),
            BEGAN => *column = column.sorts(frame.controls.list != List::Slowest),
            _ => {}
        }
    }
    let clicked = grid::show(ui, "journeys", &columns, table.rows.len(), cx, |row, n| {
        let Some(listed) = table.rows.get(n) else { return };
        row.select(listed.selected);
        let line = listed.line;
        let colour = if listed.anchor { accent } else { row.text() };
        row.put(duration(line.total_ns()), colour);
        let (words, ns, is_bad) = blame(listed);
        row.put(words, if is_bad { bad } else { colour });
        row.put(ns.map_or_else(String::new, duration), colour);
        row.put(bytes(line.journey.bytes()), colour);
        let flow = line.ends.map(|(from, to)| format!("{} {from} → {to}", line.journey.proto));
        row.put(flow.unwrap_or_else(|| line.journey.proto.to_string()), colour);
        let dim = row.dim();
        row.put(frame.time_of_day(line.start_ns()).unwrap_or_default(), dim);
        row.put(if line.id() > 0 { format!("#{}", line.id()) } else { String::new() }, dim);
    });
    let (n, press) = match clicked {
        None => return,
        Some(Click::Row(n, press)) => (n, press),
        Some(Click::Title(title)) => {
            cx.act(Action::ShowList(if title == TOTAL { List::Slowest } else { List::Recent }));
            return;
        }
    };
    let Some(listed) = table.rows.get(n) else { return };
    match press {
        Press::Menu(text) => {
            menu::open(ui, cx, Target { condition: condition::of_journey(listed.line), text });
        }
        press => {
            cx.act(Action::ChooseJourney(listed.line.key()));
            cx.act(Action::FitJourney);
            if press == Press::Twice && frame.inspector.is_none() {
                cx.act(Action::ToggleInspector);
            }
        }
    }
}

/// Blame, its duration, and true for a failed journey.
fn blame(row: &Listed) -> (String, Option<u64>, bool) {
    match (row.line.journey.verdict, &row.blame) {
        (Verdict::BrokenByEventLoss { .. }, _) => ("events of it were missed".to_owned(), None, false),
        (Verdict::Dropped { .. } | Verdict::LostAfter { .. }, _) => (row.verdict.clone(), None, true),
        (_, None) => (row.verdict.clone(), None, false),
        (_, Some((words, ns))) => (words.clone(), Some(*ns), false),
    }
}
