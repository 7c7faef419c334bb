//! The bounds over time, one panel a pair, as an SVG.
//!
//! Clocks are hours apart and drift by microseconds a second, and bounds are microseconds wide: drawn is the difference less
//! a straight line through the estimates at both ends.

use anyhow::{Result, anyhow};
use magscope_core::align::Alignment;
use magscope_core::clock::pair::Recorded;
use plotters::prelude::*;

const PANEL: (u32, u32) = (1000, 360);
/// Instants drawn: a curve has no more to show on so many pixels.
const INSTANTS: u64 = 1000;

const CERTIFIED: RGBColor = RGBColor(0x1f, 0x6f, 0xb4);
const MODEL: RGBColor = RGBColor(0x2c, 0x9a, 0x4b);
const ESTIMATE: RGBColor = RGBColor(0xc0, 0x39, 0x2b);

/// A curve: seconds since the first packet, microseconds off the straight line.
type Curve = Vec<(f64, f64)>;

#[derive(Default)]
struct Curves {
    certified: [Curve; 2],
    model: [Curve; 2],
    estimate: Curve,
}

/// The drawing, or why there is none.
pub fn svg(alignment: &Alignment, hosts: &[String]) -> Result<String> {
    let panels: Vec<_> = alignment.pairs().filter_map(|(pair, bounds)| Some((pair, curves(bounds)?))).collect();
    if panels.is_empty() {
        return Err(anyhow!("no two clocks are bounded from both sides, so there is nothing to draw"));
    }
    let mut svg = String::new();
    {
        let size = (PANEL.0, PANEL.1 * panels.len() as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, ((a, b), curves)) in root.split_evenly((panels.len(), 1)).iter().zip(&panels) {
            let name = |node: u16| hosts.get(usize::from(node)).map_or("", String::as_str);
            let title =
                format!("{} – {}: R of the second less R of the first, less its drift", name(*a), name(*b));
            panel(area, &title, curves)?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn curves(pair: &Recorded) -> Option<Curves> {
    let (from, to) = pair.span_ns()?;
    let run = to.checked_sub(from).filter(|run| *run > 0)?;
    let (first, _) = pair.estimate_at(from)?;
    let (last, _) = pair.estimate_at(to)?;
    let rise = i128::from(last) - i128::from(first);
    let mut curves = Curves::default();
    for i in 0..=INSTANTS {
        let since = (u128::from(run) * u128::from(i) / u128::from(INSTANTS)) as u64;
        let line = i128::from(first) + rise * i128::from(since) / i128::from(run);
        let point = |ns: i64| (since as f64 / 1e9, (i128::from(ns) - line) as f64 / 1e3);
        let at = from + since;
        let (certified, known) = (pair.bounds_at(at), pair.known_at(at).bounds);
        for (curves, bounds) in [(&mut curves.certified, certified), (&mut curves.model, known)] {
            curves[0].extend(bounds.lower.map(point));
            curves[1].extend(bounds.upper.map(point));
        }
        curves.estimate.extend(pair.estimate_at(at).map(|(d, _)| point(d)));
    }
    Some(curves)
}

fn panel<DB: DrawingBackend>(
    area: &DrawingArea<DB, plotters::coord::Shift>,
    title: &str,
    curves: &Curves,
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let all = curves.certified.iter().flatten();
    let (seconds, low, high) = all.fold((0.0_f64, f64::MAX, f64::MIN), |(seconds, low, high), (x, y)| {
        (seconds.max(*x), low.min(*y), high.max(*y))
    });
    let room = ((high - low) * 0.05).max(0.001);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..seconds.max(1e-9), low - room..high + room)?;
    chart.configure_mesh().x_desc("s").y_desc("µs").light_line_style(WHITE).draw()?;
    let mut draw = |curve: &Curve, colour: RGBColor, name: Option<&str>| -> Result<()> {
        let series = chart.draw_series(LineSeries::new(curve.iter().copied(), &colour))?;
        if let Some(name) = name {
            series.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
        }
        Ok(())
    };
    draw(&curves.certified[0], CERTIFIED, Some("certified bounds"))?;
    draw(&curves.certified[1], CERTIFIED, None)?;
    draw(&curves.model[0], MODEL, Some("model"))?;
    draw(&curves.model[1], MODEL, None)?;
    draw(&curves.estimate, ESTIMATE, Some("estimate"))?;
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    Ok(())
}
