//! Switches as a table, and as comma-separated values.

use super::Phase;
use std::fmt::Write;

/// One row per CPU and measurement.
pub fn table(phases: &[Phase]) -> String {
    let mut text = String::new();
    for phase in phases {
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "{}, {:.1} s ({} tasks made, {} ended)",
            phase.name, phase.seconds, phase.forks, phase.exits
        );
        let _ = writeln!(
            text,
            "  {:<4}{:>10}{:>12}{:>12}{:>12}{:>12}{:>12}",
            "CPU", "switches", "a second", "median, µs", "mean, µs", "99 %, µs", "longest, µs"
        );
        for row in &phase.cpus {
            let _ = writeln!(
                text,
                "  {:<4}{:>10}{:>12.0}{:>12.2}{:>12.2}{:>12.2}{:>12.2}",
                row.cpu,
                row.switches,
                row.switches as f64 / phase.seconds.max(1e-9),
                row.p50_ns as f64 / 1e3,
                row.mean_ns / 1e3,
                row.p99_ns as f64 / 1e3,
                row.max_ns as f64 / 1e3
            );
        }
    }
    text
}

/// One line per window, CPU and measurement.
pub fn csv(phases: &[Phase]) -> String {
    let mut text = "phase,at_s,cpu,switches,mean_ns,p50_ns,p99_ns,max_ns\n".to_owned();
    for phase in phases {
        for row in &phase.windows {
            let _ = writeln!(
                text,
                "{},{:.6},{},{},{:.1},{},{},{}",
                phase.name,
                row.from_ns as f64 / 1e9,
                row.cpu,
                row.switches,
                row.mean_ns,
                row.p50_ns,
                row.p99_ns,
                row.max_ns
            );
        }
    }
    text
}
