//! The bounds over time, one panel per pair.
//!
//! Clock offsets are hours, drifts are microseconds per second, and bounds are microseconds wide. The plot
//! therefore shows the difference minus a straight line through the estimates at both ends.

use crate::drawing::{FONT, Plot};
use anyhow::{Result, anyhow};
use magscope_timeline::align::Alignment;
use magscope_timeline::pair::Recorded;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Number of points per curve, the resolution of the plot.
const INSTANTS: u64 = 1000;

const INK: RGBColor = RGBColor(0x22, 0x2b, 0x36);
const FAINT: RGBColor = RGBColor(0x6b, 0x77, 0x85);
const GRID: RGBColor = RGBColor(0xe4, 0xe8, 0xed);
const CERTIFIED: RGBColor = RGBColor(0x2f, 0x6f, 0xb7);
const MODEL: RGBColor = RGBColor(0x2c, 0x9a, 0x4b);
const ESTIMATE: RGBColor = RGBColor(0xc4, 0x3b, 0x2b);

/// A curve: seconds since the first packet, deviation from the straight line in nanoseconds.
type Curve = Vec<(f64, f64)>;

#[derive(Default)]
pub struct Curves {
    certified: [Curve; 2],
    model: [Curve; 2],
    estimate: Curve,
    /// Slope of the subtracted line.
    ppm: f64,
}

/// The pairs whose clocks are bounded from both sides.
pub struct Bounds {
    /// With the title of each panel.
    panels: Vec<(String, Curves)>,
}

/// The plot, or the reason for its absence.
pub fn bounds(alignment: &Alignment, hosts: &[String]) -> Result<Bounds> {
    let name = |node: u16| {
        let host = hosts.get(usize::from(node)).filter(|host| !host.is_empty());
        host.map_or_else(|| format!("#{}", node + 1), Clone::clone)
    };
    let curves_of = |(a, b)| Some((format!("{} against {}", name(b), name(a)), curves(alignment.pair(a, b)?)?));
    let panels: Vec<_> = alignment.couples().filter_map(curves_of).collect();
    if panels.is_empty() {
        return Err(anyhow!("no two clocks are bounded from both sides, so there is nothing to draw"));
    }
    Ok(Bounds { panels })
}

impl Plot for Bounds {
    type Panel = (String, Curves);

    const SIZE: (u32, u32) = (1000, 380);

    fn panels(&self) -> &[Self::Panel] {
        &self.panels
    }

    fn draw<B: DrawingBackend>(
        &self,
        (title, curves): &Self::Panel,
        area: &DrawingArea<B, Shift>,
        pixels: u32,
    ) -> Result<()>
    where
        B::ErrorType: 'static,
    {
        panel(area, pixels, title, curves)
    }
}

fn curves(pair: &Recorded) -> Option<Curves> {
    let (from, to) = pair.span_ns()?;
    let run = to.checked_sub(from).filter(|run| *run > 0)?;
    let (first, _) = pair.estimate_at(from)?;
    let (last, _) = pair.estimate_at(to)?;
    let rise = i128::from(last) - i128::from(first);
    let mut curves = Curves { ppm: rise as f64 / run as f64 * 1e6, ..Curves::default() };
    for i in 0..=INSTANTS {
        let since = (u128::from(run) * u128::from(i) / u128::from(INSTANTS)) as u64;
        let line = i128::from(first) + rise * i128::from(since) / i128::from(run);
        let point = |ns: i64| (since as f64 / 1e9, (i128::from(ns) - line) as f64);
        let at = from + since;
        let (certified, sourced) = (pair.bounds_at(at), pair.sourced_bounds_at(at).bounds);
        for (curves, bounds) in [(&mut curves.certified, certified), (&mut curves.model, sourced)] {
            // A band needs both edges.
            if let (Some(lower), Some(upper)) = (bounds.lower, bounds.upper) {
                curves[0].push(point(lower));
                curves[1].push(point(upper));
            }
        }
        curves.estimate.extend(pair.estimate_at(at).map(|(d, _)| point(d)));
    }
    Some(curves)
}

/// The most readable unit of a duration, and its length in nanoseconds.
fn unit(ns: f64) -> (&'static str, f64) {
    match ns {
        ns if ns < 2e3 => ("ns", 1.0),
        ns if ns < 2e6 => ("µs", 1e3),
        ns if ns < 2e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    }
}

fn panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    pixels: u32,
    title: &str,
    curves: &Curves,
) -> Result<()>
where
    B::ErrorType: 'static,
{
    let at = |x: u32, y: u32| ((x * pixels) as i32, (y * pixels) as i32);
    let all = curves.certified.iter().flatten();
    let (seconds, low, high) = all.fold((0.0_f64, f64::MAX, f64::MIN), |(seconds, low, high), (x, y)| {
        (seconds.max(*x), low.min(*y), high.max(*y))
    });
    let (unit, size) = unit((high - low) / 2.0);
    let room = ((high - low) * 0.08).max(1.0);
    let font = |size: u32, colour: &RGBColor| (FONT, size * pixels).into_font().color(colour);
    area.draw(&Text::new(title.to_owned(), at(20, 14), font(19, &INK)))?;
    let line = format!("difference of the unslewed clocks, less a straight line of {:+.3} ppm", curves.ppm);
    area.draw(&Text::new(line, at(20, 38), font(13, &FAINT)))?;
    let names = [("certified bounds", CERTIFIED), ("model", MODEL), ("estimate", ESTIMATE)];
    let right = Pos::new(HPos::Right, VPos::Center);
    for (x, (name, colour)) in [790, 870, 970].into_iter().zip(names) {
        let style = font(13, &colour).pos(right);
        area.draw(&Text::new(name.to_owned(), at(x, 45), style))?;
    }
    let mut chart = ChartBuilder::on(area)
        .margin_top(64 * pixels)
        .margin_right(28 * pixels)
        .margin_bottom(8 * pixels)
        .margin_left(12 * pixels)
        .x_label_area_size(40 * pixels)
        .y_label_area_size(68 * pixels)
        .build_cartesian_2d(0.0..seconds.max(1e-9), (low - room) / size..(high + room) / size)?;
    chart
        .configure_mesh()
        .x_desc("seconds since the first packet")
        .y_desc(unit)
        .x_labels(11)
        .y_labels(8)
        .label_style(font(12, &FAINT))
        .axis_desc_style(font(13, &INK))
        .axis_style(FAINT.stroke_width(pixels))
        .bold_line_style(GRID.stroke_width(pixels))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let scaled = |curve: &Curve| curve.iter().map(|(x, y)| (*x, y / size)).collect::<Curve>();
    for ([lower, upper], colour, opacity) in
        [(&curves.certified, CERTIFIED, 0.16), (&curves.model, MODEL, 0.22)]
    {
        let (lower, upper) = (scaled(lower), scaled(upper));
        let around: Curve = lower.iter().copied().chain(upper.iter().rev().copied()).collect();
        chart.draw_series([Polygon::new(around, colour.mix(opacity).filled())])?;
        for edge in [lower, upper] {
            chart.draw_series(LineSeries::new(edge, colour.mix(0.85).stroke_width(pixels)))?;
        }
    }
    chart.draw_series(LineSeries::new(scaled(&curves.estimate), ESTIMATE.stroke_width(2 * pixels)))?;
    Ok(())
}
