//! Switch durations over time as an SVG, a panel per measurement, a line per CPU. The plot shows the median of
//! each window: on a virtual machine, a switch during which the host withdrew the CPU would dominate a mean.

use super::Phase;
use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::collections::BTreeMap;

const PANEL: (u32, u32) = (1000, 320);
/// Maximum number of distinguishable lines.
const MOST_CPUS: usize = 12;

/// Seconds and microseconds, by CPU.
type Lines = BTreeMap<u16, Vec<(f64, f64)>>;

/// The SVG text, or the reason for its absence.
pub fn svg(phases: &[Phase]) -> Result<String> {
    if phases.iter().all(|phase| phase.windows.is_empty()) {
        return Err(anyhow!("no task was switched to, so there is nothing to draw"));
    }
    let lines: Vec<Lines> = phases.iter().map(lines).collect();
    // one scale for all, so that they are comparable
    let highest = lines.iter().flat_map(Lines::values).flatten().map(|(_, y)| *y).fold(0.0, f64::max);
    let mut svg = String::new();
    {
        let size = (PANEL.0, PANEL.1 * phases.len() as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, (phase, lines)) in root.split_evenly((phases.len(), 1)).iter().zip(phases.iter().zip(&lines))
        {
            panel(area, phase, lines, highest)?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn lines(phase: &Phase) -> Lines {
    let mut lines = Lines::new();
    for row in &phase.windows {
        lines.entry(row.cpu).or_default().push((row.from_ns as f64 / 1e9, row.p50_ns as f64 / 1e3));
    }
    lines
}

fn panel<DB: DrawingBackend>(
    area: &DrawingArea<DB, plotters::coord::Shift>,
    phase: &Phase,
    lines: &Lines,
    highest: f64,
) -> Result<()>
where
    DB::ErrorType: 'static,
{
    let hidden = lines.len().saturating_sub(MOST_CPUS);
    let more = if hidden > 0 { format!(" ({hidden} more CPUs are not drawn)") } else { String::new() };
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Time of a context switch, median, {}{more}", phase.name), ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..phase.seconds.max(1e-9), 0.0..highest.max(1e-3) * 1.05)?;
    chart.configure_mesh().x_desc("s").y_desc("µs").light_line_style(WHITE).draw()?;
    for (nth, (cpu, line)) in lines.iter().take(MOST_CPUS).enumerate() {
        let colour = HSLColor(nth as f64 / MOST_CPUS.min(lines.len()) as f64 + 0.58, 0.7, 0.42);
        chart
            .draw_series(LineSeries::new(line.iter().copied(), &colour))?
            .label(format!("CPU {cpu}"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    Ok(())
}
