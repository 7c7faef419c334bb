//! Packet comments about journeys.

use magscope_core::Journey;

/// Comment on a journey: `journey 42: complete in 118234 ns; dev.queue→dev.xmit 3120 ns, …`
pub fn comment(journey: &Journey) -> Box<str> {
    use std::fmt::Write;
    let mut text = format!("journey {}: {}", journey.id, journey.verdict);
    // Writing into a String cannot fail.
    if let Some((ns, bounds_ns)) = journey.total_ns().zip(journey.total_bounds_ns()) {
        let _ = write!(text, " in {}", interval(ns, journey.total_half_width_ns(), bounds_ns));
    }
    let mut before = "; ";
    for (rung, span) in journey.spans() {
        let Some(span) = span else { continue };
        let took = interval(span.ns, span.half_width_ns, span.bounds_ns);
        let _ = if span.is_wait {
            write!(text, "{before}waiting for retransmission {took}, copy {}", rung.copy)
        } else {
            write!(text, "{before}{}→{} {took}", span.from, span.to)
        };
        before = ", ";
    }
    text.into()
}

/// `3120 ns`, or between two clocks `3120 ± 800 ns (2320 to 3500)`.
fn interval(ns: u64, half_width_ns: u64, (lower_ns, upper_ns): (u64, u64)) -> String {
    if half_width_ns == 0 {
        format!("{ns} ns")
    } else {
        format!("{ns} ± {half_width_ns} ns ({lower_ns} to {upper_ns})")
    }
}
