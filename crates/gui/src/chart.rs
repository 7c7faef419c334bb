//! A small chart: axes with round numbers, linear or logarithmic, and curves.

use crate::text::{self, SMALL};
use crate::ui_context::UiContext;
use egui::{Align2, Color32, Painter, Pos2, Rect, Stroke, pos2};

/// Mapping of values to an axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    from: f64,
    to: f64,
    log: bool,
}

impl Axis {
    /// An axis from the minimum to the maximum; invalid values and empty ranges are replaced.
    pub fn new(from: f64, to: f64, log: bool) -> Self {
        let from = if from.is_finite() { from } else { 0.0 };
        let from = if log { from.max(1e-9) } else { from };
        let least = if log { from * 2.0 } else { from + from.abs().max(1.0) * 1e-6 };
        let to = if to.is_finite() { to.max(least) } else { least };
        Axis { from, to, log }
    }

    /// Position of a value: 0 at the start, 1 at the end.
    pub fn part(self, value: f64) -> f64 {
        let part = if self.log {
            (value.max(1e-12) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        if part.is_finite() { part } else { 0.0 }
    }

    /// Round tick values, few enough to be readable.
    pub fn ticks(self) -> Vec<f64> {
        if self.log {
            let (first, last) = (self.from.log10().ceil() as i32, self.to.log10().floor() as i32);
            let every = ((last - first) / 8 + 1).max(1);
            return (first..=last).step_by(every as usize).map(|power| 10_f64.powi(power)).collect();
        }
        let rough = (self.to - self.from) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].iter().map(|n| n * power).find(|step| *step >= rough).unwrap_or(rough);
        let first = (self.from / step).ceil();
        (0..12).map(|n| (first + f64::from(n)) * step).take_while(|tick| *tick <= self.to).collect()
    }
}

/// A chart's place and axes.
pub struct Chart {
    /// Area of the curves.
    pub area: Rect,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
}

impl Chart {
    /// A chart in a rectangle that includes the axis labels.
    pub fn new(rect: Rect, x: Axis, y: Axis) -> Self {
        let area = Rect::from_min_max(
            pos2(rect.left() + 62.0, rect.top() + 6.0),
            pos2(rect.right() - 14.0, rect.bottom() - 20.0),
        );
        Chart { area, x, y }
    }

    /// Position of a pair of values.
    pub fn at(&self, x: f64, y: f64) -> Pos2 {
        let near = |part: f64| part.clamp(-0.05, 1.05) as f32;
        pos2(
            self.area.left() + near(self.x.part(x)) * self.area.width(),
            self.area.bottom() - near(self.y.part(y)) * self.area.height(),
        )
    }

    /// Draws the axes, with each axis's number format.
    pub fn frame(
        &self,
        painter: &Painter,
        x_words: impl Fn(f64) -> String,
        y_words: impl Fn(f64) -> String,
        cx: &UiContext,
    ) {
        painter.rect_filled(self.area, 2.0, cx.c.back);
        let grid = Stroke::new(1.0, cx.c.grid.gamma_multiply(0.8));
        let mut free = f32::NEG_INFINITY;
        for tick in self.x.ticks() {
            let x = self.at(tick, 0.0).x;
            painter.vline(x, self.area.y_range(), grid);
            if x > free {
                let at = pos2(x, self.area.bottom() + 10.0);
                let words =
                    text::put(painter, at, Align2::CENTER_CENTER, &x_words(tick), SMALL, cx.c.dim, 80.0);
                free = x + words.width() + 10.0;
            }
        }
        let mut free = f32::INFINITY;
        for tick in self.y.ticks() {
            let y = self.at(0.0, tick).y;
            painter.hline(self.area.x_range(), y, grid);
            if y < free {
                let at = pos2(self.area.left() - 6.0, y);
                text::put(painter, at, Align2::RIGHT_CENTER, &y_words(tick), SMALL, cx.c.dim, 58.0);
                free = y - 15.0;
            }
        }
    }

    /// Draws a curve.
    pub fn curve(
        &self,
        painter: &Painter,
        points: impl Iterator<Item = (f64, f64)>,
        width: f32,
        colour: Color32,
    ) {
        let points: Vec<Pos2> = points.map(|(x, y)| self.at(x, y)).collect();
        if points.len() > 1 {
            painter.with_clip_rect(self.area.expand(1.0)).line(points, Stroke::new(width, colour));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_round_and_on_the_axis() {
        let odd =
            [(0.0, 0.0), (-5.0, 5.0), (1.0, 1e12), (f64::NAN, f64::INFINITY), (1e300, -1e300), (0.0, 7e-9)];
        for (from, to) in odd {
            for log in [false, true] {
                let axis = Axis::new(from, to, log);
                let ticks = axis.ticks();
                assert!(ticks.len() <= 12, "{axis:?} {ticks:?}");
                for tick in ticks {
                    assert!((-1e-6..=1.0 + 1e-6).contains(&axis.part(tick)), "{axis:?} {tick}");
                }
            }
        }
        assert_eq!(Axis::new(0.0, 10.0, false).ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Axis::new(90.0, 2e4, true).ticks(), [100.0, 1000.0, 10_000.0]);
    }
}
