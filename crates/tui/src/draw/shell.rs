//! The frame around every view: header, headline, view bar, losses and overhead, keys.

use super::headline;
use magscope_scope::Frame;
use ratatui::layout::Rect;

/// Areas around a view, and the rest for it; empty without space.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shell {
    /// Title line.
    pub header: Rect,
    /// The worst true thing.
    pub headline: Rect,
    /// The views and the trigger.
    pub bar: Rect,
    /// The view.
    pub body: Rect,
    /// The step of the tour.
    pub tour: Rect,
    /// Losses and own cost.
    pub footer: Rect,
    /// Keys.
    pub keys: Rect,
}

/// Minimum number of rows for a separate view bar.
const ROWS_FOR_A_BAR: u16 = 20;
/// Rows of the tour, and the minimum number of rows for it.
const TOUR: (u16, u16) = (4, 16);

impl Shell {
    /// The areas of a screen with this frame.
    pub fn of(area: Rect, frame: &Frame) -> Self {
        Self::new(area, frame.tour.is_some(), headline::rows(frame, area.width))
    }

    /// Distributes `area`, mandatory parts first.
    fn new(area: Rect, has_tour: bool, headline_rows: u16) -> Self {
        let height = area.height;
        let header = height.min(1);
        let footer = u16::from(height >= 2); // losses have priority
        let keys = u16::from(height >= 9);
        let bar = u16::from(height >= ROWS_FOR_A_BAR);
        let headline = bar * headline_rows;
        let tour = if has_tour && height >= TOUR.1 { TOUR.0 } else { 0 };
        let body = height - header - footer - keys - bar - headline - tour;
        let mut y = area.y;
        let mut band = |height: u16| {
            let rect = Rect { y, height, ..area };
            y += height;
            rect
        };
        Shell {
            header: band(header),
            headline: band(headline),
            bar: band(bar),
            body: band(body),
            tour: band(tour),
            footer: band(footer),
            keys: band(keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_given_to_someone_and_losses_are_always_there() {
        for height in 0..100 {
            for (has_tour, headline) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
                let shell = Shell::new(Rect::new(0, 0, 80, height), has_tour, headline);
                let ends = [shell.header, shell.headline, shell.bar, shell.footer, shell.keys];
                let parts = ends.iter().chain([&shell.body, &shell.tour]);
                assert_eq!(parts.map(|part| part.height).sum::<u16>(), height);
                assert_eq!(shell.footer.height, u16::from(height >= 2));
            }
        }
    }
}
