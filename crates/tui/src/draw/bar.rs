//! The bar of views with their keys, and the trigger state.

use super::canvas::{Canvas, width};
use magscope_scope::trigger::TriggerState;
use magscope_scope::{Frame, View};
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Blank columns between views.
const GAP: u16 = 2;

/// Columns for the state of the trigger in words.
const STATE: u16 = 14;

/// Position and text of each view's name. A narrow bar has fewer blanks, so that the trigger's state fits too.
fn places(columns: u16) -> impl Iterator<Item = (u16, View, String)> {
    let is_wide = row(false).last().is_none_or(|(at, _, words)| at + width(&words) + GAP + STATE < columns);
    row(!is_wide)
}

fn row(narrow: bool) -> impl Iterator<Item = (u16, View, String)> {
    let (blank, gap) = if narrow { ("", 1) } else { (" ", GAP) };
    let mut x = 1;
    View::pages().map(move |(page, spec)| {
        let words = format!("{page}{blank}{}", spec.name);
        let at = x;
        x += width(&words) + gap;
        (at, spec.view, words)
    })
}

/// The view at column `x` of a bar with this many columns.
pub fn view_at(x: u16, columns: u16) -> Option<View> {
    places(columns).find(|(at, _, words)| (*at..at + width(words)).contains(&x)).map(|(_, view, _)| view)
}

/// Maximum and minimum number of columns for the trigger condition.
const MOST_CONDITION: usize = 49;
const LEAST_CONDITION: usize = 8;

/// Draws the line.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let mut end = 0;
    for (x, view, words) in places(area.width) {
        let here = view == frame.controls.view;
        end = canvas.put(area, x, 0, &words, if here { theme.selected } else { theme.dim });
    }
    let room = area.width.saturating_sub(end + GAP + 1);
    let pieces = trigger(canvas, frame, room);
    let wide: u16 = pieces.iter().map(|(words, _)| width(words)).sum();
    if wide <= room {
        let pieces: Vec<_> = pieces.iter().map(|(words, style)| (words.as_str(), *style)).collect();
        canvas.put_all(area, area.width.saturating_sub(wide + 1), 0, &pieces);
    }
}

/// Text of the trigger. With little room the condition is truncated, then reduced to the state, and that to its sign.
fn trigger(canvas: &Canvas, frame: &Frame, room: u16) -> Vec<(String, Style)> {
    let theme = canvas.theme;
    let trigger = &frame.trigger;
    let (state, style) = match trigger.state {
        TriggerState::Off => return vec![("no trigger".to_owned(), theme.grid)],
        TriggerState::Armed => ("● armed", theme.plain),
        TriggerState::Filling => ("◆ fired", theme.accent),
        TriggerState::HeldOff => ("◇ held off", theme.dim),
        TriggerState::Stopped => ("■ taken", theme.accent),
    };
    let state_pieces = [(state.to_owned(), style), (format!(" {}×", trigger.fired), theme.dim)];
    if room < state_pieces.iter().map(|(words, _)| width(words)).sum() {
        let sign = state.chars().take(1).collect();
        return vec![(sign, style), (format!("{}×", trigger.fired), theme.dim)];
    }
    let mode = format!("  {}  ", trigger.settings.mode);
    let fixed: u16 = "trigger ".len() as u16
        + width(&mode)
        + state_pieces.iter().map(|(words, _)| width(words)).sum::<u16>();
    let most = usize::from(room.saturating_sub(fixed)).min(MOST_CONDITION);
    if most < LEAST_CONDITION.min(trigger.text.chars().count()) {
        return state_pieces.into();
    }
    let mut condition: String = trigger.text.chars().take(most).collect();
    if condition.len() < trigger.text.len() {
        condition.pop();
        condition.push('…');
    }
    let named = [("trigger ".to_owned(), theme.dim), (condition, theme.plain), (mode, theme.dim)];
    named.into_iter().chain(state_pieces).collect()
}
