//! The rooms' line: which there are, by their keys, and the trigger as it stands.

use super::canvas::{Canvas, width};
use magscope_scope::Frame;
use magscope_scope::Room;
use magscope_scope::trigger::Standing;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Blank columns between rooms.
const GAP: u16 = 2;

/// Where each room's name stands, with what is written there.
fn places() -> impl Iterator<Item = (u16, Room, String)> {
    let mut x = 1;
    Room::ALL.into_iter().enumerate().map(move |(i, room)| {
        let words = format!("{} {}", i + 1, room.name());
        let at = x;
        x += width(&words) + GAP;
        (at, room, words)
    })
}

/// The room whose name stands at column `x`.
pub fn room_at(x: u16) -> Option<Room> {
    places().find(|(at, _, words)| (*at..at + width(words)).contains(&x)).map(|(_, room, _)| room)
}

/// Draws the line.
pub fn draw(canvas: &mut Canvas, area: Rect, frame: &Frame) {
    let theme = canvas.theme;
    let mut end = 0;
    for (x, room, words) in places() {
        let here = room == frame.view.room;
        end = canvas.put(area, x, 0, &words, if here { theme.selected } else { theme.dim });
    }
    let pieces = trigger(canvas, frame);
    let wide: u16 = pieces.iter().map(|(words, _)| width(words)).sum();
    let start = area.width.saturating_sub(wide + 1);
    if start > end + GAP {
        let pieces: Vec<_> = pieces.iter().map(|(words, style)| (words.as_str(), *style)).collect();
        canvas.put_all(area, start, 0, &pieces);
    }
}

/// The trigger in words, what it waits for cut to what may be long.
fn trigger(canvas: &Canvas, frame: &Frame) -> Vec<(String, Style)> {
    let theme = canvas.theme;
    let trigger = &frame.trigger;
    let (standing, style) = match trigger.standing {
        Standing::Off => return vec![("no trigger".to_owned(), theme.grid)],
        Standing::Armed => ("● armed", theme.plain),
        Standing::Filling => ("◆ fired", theme.accent),
        Standing::HeldOff => ("◇ held off", theme.dim),
        Standing::Stopped => ("■ taken", theme.accent),
    };
    let mut condition: String = trigger.text.chars().take(48).collect();
    if condition.len() < trigger.text.len() {
        condition.push('…');
    }
    vec![
        ("trigger ".to_owned(), theme.dim),
        (condition, theme.plain),
        (format!("  {}  ", trigger.settings.mode), theme.dim),
        (standing.to_owned(), style),
        (format!(" {}×", trigger.fired), theme.dim),
    ]
}
