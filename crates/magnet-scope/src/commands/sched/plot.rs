//! Switch durations over time, a panel per measurement, a line per CPU. The plot shows the median of
//! each window: on a virtual machine, a switch during which the host withdrew the CPU would dominate a mean.

use super::Phase;
use crate::drawing::{FONT, Plot};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::collections::BTreeMap;

/// Maximum number of distinguishable lines.
const MOST_CPUS: usize = 12;

/// Seconds and microseconds, by CPU.
type Lines = BTreeMap<u16, Vec<(f64, f64)>>;

/// The panels, with one scale for all, so that they are comparable.
pub struct Switches<'a> {
    panels: Vec<(&'a Phase, Lines)>,
    highest: f64,
}

/// The plot, or the reason for its absence.
pub fn switches(phases: &[Phase]) -> Result<Switches<'_>> {
    if phases.iter().all(|phase| phase.windows.is_empty()) {
        return Err(anyhow!("no task was switched to, so there is nothing to draw"));
    }
    let panels: Vec<_> = phases.iter().map(|phase| (phase, lines(phase))).collect();
    let points = panels.iter().flat_map(|(_, lines)| lines.values()).flatten();
    let highest = points.map(|(_, y)| *y).fold(0.0, f64::max);
    Ok(Switches { panels, highest })
}

impl<'a> Plot for Switches<'a> {
    type Panel = (&'a Phase, Lines);

    const SIZE: (u32, u32) = (1000, 320);

    fn panels(&self) -> &[Self::Panel] {
        &self.panels
    }

    fn draw<B: DrawingBackend>(
        &self,
        (phase, lines): &Self::Panel,
        area: &DrawingArea<B, Shift>,
        pixels: u32,
    ) -> Result<()>
    where
        B::ErrorType: 'static,
    {
        panel(area, pixels, phase, lines, self.highest)
    }
}

fn lines(phase: &Phase) -> Lines {
    let mut lines = Lines::new();
    for row in &phase.windows {
        lines.entry(row.cpu).or_default().push((row.from_ns as f64 / 1e9, row.p50_ns as f64 / 1e3));
    }
    lines
}

fn panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    pixels: u32,
    phase: &Phase,
    lines: &Lines,
    highest: f64,
) -> Result<()>
where
    B::ErrorType: 'static,
{
    let hidden = lines.len().saturating_sub(MOST_CPUS);
    let more = if hidden > 0 { format!(" ({hidden} more CPUs are not drawn)") } else { String::new() };
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Time of a context switch, median, {}{more}", phase.name), (FONT, 16 * pixels))
        .margin(12 * pixels)
        .x_label_area_size(36 * pixels)
        .y_label_area_size(64 * pixels)
        .build_cartesian_2d(0.0..phase.seconds.max(1e-9), 0.0..highest.max(1e-3) * 1.05)?;
    chart
        .configure_mesh()
        .x_desc("s")
        .y_desc("µs")
        .label_style((FONT, 12 * pixels))
        .axis_style(BLACK.stroke_width(pixels))
        .bold_line_style(BLACK.mix(0.2).stroke_width(pixels))
        .light_line_style(WHITE)
        .draw()?;
    for (nth, (cpu, line)) in lines.iter().take(MOST_CPUS).enumerate() {
        let colour = HSLColor(nth as f64 / MOST_CPUS.min(lines.len()) as f64 + 0.58, 0.7, 0.42);
        chart
            .draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(pixels)))?
            .label(format!("CPU {cpu}"))
            .legend(move |(x, y)| {
                PathElement::new([(x, y), (x + (16 * pixels) as i32, y)], colour.stroke_width(pixels))
            });
    }
    chart
        .configure_series_labels()
        .label_font((FONT, 12 * pixels))
        .legend_area_size(30 * pixels)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}
