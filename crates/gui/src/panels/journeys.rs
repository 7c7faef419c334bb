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

/// The column of the blamed part, or of the reason of a failure, and that of its time.
const PART: &str = "longest part";
const PART_TIME: &str = "its time";
/// Width of the reasons of failures.
const REASON: f32 = 440.0;

pub(super) const COLUMNS: &[Col] = &[
    number(TOTAL, 76.0),
    words(PART, 350.0),
    number(PART_TIME, 76.0),
    number("bytes", 76.0),
    words("flow", 280.0),
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
    let columns = columns(frame.controls.list);
    let is_failed = frame.controls.list == List::Bad;
    let name = if is_failed { "failed journeys" } else { "journeys" };
    let clicked = grid::show(ui, name, &columns, table.rows.len(), cx, |row, n| {
        let Some(listed) = table.rows.get(n) else { return };
        row.select(listed.selected);
        let line = listed.line;
        let colour = if listed.anchor { accent } else { row.text() };
        row.put(duration(line.total_ns()), colour);
        let (words, ns, is_bad) = blame(listed);
        row.put(words, if is_bad { bad } else { colour });
        if !is_failed {
            row.put(ns.map_or_else(String::new, duration), colour);
        }
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

/// The columns of a list, with the one that orders it. A failed journey has a reason, which is long, and no time of it.
fn columns(list: List) -> Vec<Col> {
    let ordered = |column: &Col| match column.title() {
        TOTAL => column.sorts(list == List::Slowest),
        BEGAN => column.sorts(list != List::Slowest),
        PART if list == List::Bad => column.of_width(REASON),
        _ => *column,
    };
    let is_shown = |column: &&Col| list != List::Bad || column.title() != PART_TIME;
    COLUMNS.iter().filter(is_shown).map(ordered).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_journeys_have_no_empty_column() {
        let titles = |list| columns(list).iter().map(Col::title).collect::<Vec<_>>();
        assert_eq!(titles(List::Slowest).len(), COLUMNS.len());
        let failed = titles(List::Bad);
        assert_eq!(failed.len() + 1, COLUMNS.len());
        assert!(!failed.contains(&PART_TIME) && failed.contains(&PART), "{failed:?}");
    }
}
