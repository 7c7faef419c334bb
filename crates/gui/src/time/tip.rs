//! The tool tip at the pointer.

use super::Hovered;
use super::lifelines::lane_at;
use super::plot::Plot;
use egui::Pos2;
use magscope_scope::blame::wait_words;
use magscope_scope::format::{bytes, count, short_duration};
use magscope_scope::look::Density;
use magscope_scope::{Align, Detail, Frame, Lifeline, Place};
use std::fmt::Write as _;

/// Text of the tool tip, if any.
pub fn words(
    plot: &Plot,
    frame: &Frame,
    density: &Density,
    hovered: Option<&Hovered>,
    at: Option<Pos2>,
) -> Option<String> {
    match hovered {
        Some(Hovered::Point(words, _) | Hovered::Hit(words, _)) => Some(words.clone()),
        Some(Hovered::Exemplar(exemplar)) => {
            Some(format!("one of the slowest: {}\nclick shows it", short_duration(exemplar.total_ns)))
        }
        Some(Hovered::Line(key)) => {
            let line = frame.sweep.lifelines.iter().find(|line| line.key() == *key)?;
            Some(journey(frame, line))
        }
        None => cell(plot, frame, density, at?),
    }
}

/// A journey in a few words.
pub fn journey(frame: &Frame, line: &Lifeline) -> String {
    let mut words = match line.ends {
        Some((from, to)) => format!("{} {from} → {to}", line.journey.proto),
        None => line.journey.proto.to_string(),
    };
    _ = write!(
        words,
        "\n{}, {}: {}",
        bytes(line.journey.bytes()).trim(),
        frame.verdict(line),
        short_duration(line.total_ns())
    );
    if let Some(step) = line.blame() {
        let what = match wait_words(line, step) {
            Some(words) => words.into_owned(),
            None => format!("{} → {}", step.from, step.to),
        };
        _ = write!(words, "\nlongest: {what}, {}", short_duration(step.ns));
    }
    words
}

/// Events at a hop in a density column.
fn cell(plot: &Plot, frame: &Frame, density: &Density, at: Pos2) -> Option<String> {
    if frame.detail == Detail::Lifelines || frame.controls.align != Align::Time {
        return None;
    }
    let place = lane_at(plot, frame, at.y)?;
    let row = density.lanes.iter().find(|row| row.place == place)?;
    let cell =
        row.cells.get((plot.part(at.x) * row.cells.len() as f64) as usize).filter(|cell| cell.count > 0)?;
    let mut words = format!("{}: {} here", frame.name_of(place), count(cell.count));
    if cell.max_ns > 0 {
        let what = if matches!(place, Place::Forwarder(_)) { "time in it" } else { "from the hop below" };
        _ = write!(words, "\n{what}: {} to {}", short_duration(cell.min_ns), short_duration(cell.max_ns));
    }
    if frame.footer.shows_sums {
        words.push_str("\nΣ of an interval, added up by the kernel");
    }
    Some(words)
}
