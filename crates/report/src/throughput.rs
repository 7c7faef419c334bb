//! Throughput in and out of each layer: the same traffic as the application sent it and as each layer passed it
//! on.
//!
//! A row is a border between two layers: the output of the layer above is the input of the layer below. Based
//! on table II (sizes and spacing) and figure 12 (the traffic over time) of Hay, Feng and Gardner, *The
//! `MAGNeT` Toolkit* (2001).

use super::as_text;
use super::figures::{bytes, count, count_in, heights, plural, rate, time, wrap};
use crate::stats::Bucket;
use crate::stats::layers::{Layers, Units};
use crate::stats::per_second;
use crate::stats::strip::Slice;
use magscope_core::flow::Proto;
use magscope_core::hop::{Direction, Hop};
use serde::Serialize;
use std::fmt::{self, Write};

/// Columns to the left of a drawing.
const NAME: usize = 12;

/// Input and output of each layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Throughput {
    /// By protocol.
    pub protocols: Vec<ProtocolThroughput>,
    /// Events of other protocols, which are excluded.
    pub other_events: u64,
}

/// Input and output of each layer for one protocol.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProtocolThroughput {
    /// TCP or UDP.
    #[serde(serialize_with = "as_text")]
    pub proto: Proto,
    /// The borders between layers, from the sending application down to the wire and up to the reading one.
    pub borders: Vec<Border>,
}

/// The units that crossed one border.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Border {
    /// The hop at the border.
    pub hop: Hop,
    /// Name of the border.
    pub place: &'static str,
    /// Sends, packets or reads with payload.
    pub units: u64,
    /// Their payload; a retransmitted byte counts again below the socket.
    pub bytes: u64,
    /// Mean payload of a unit, bytes.
    pub mean_bytes: f64,
    /// Payload of the smallest unit.
    pub smallest_bytes: u64,
    /// Payload of the largest unit.
    pub largest_bytes: u64,
    /// Mean time between neighbouring units of one flow, nanoseconds; `None` if no flow had two.
    pub spacing_ns: Option<f64>,
    /// Payload bytes per second over the complete capture; estimated for all events if a sampler left events
    /// out.
    pub bytes_per_s: f64,
    /// Units a second, likewise.
    pub units_per_s: f64,
    /// True if both rates are estimates, because a sampler left events out. All other figures cover recorded
    /// events only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Packets on the wire of the units; 0 for a hop without packets.
    pub segments: u64,
    /// Events without payload: acknowledgements, SYN, FIN, empty datagrams.
    pub empty: u64,
    /// Excluded: peeking reads, and fragments after the first.
    pub not_counted: u64,
    /// Sizes of the units, bytes.
    pub sizes: Vec<Bucket>,
    /// Length of a slice of time, nanoseconds.
    pub slice_ns: u64,
    /// The bytes over time: the non-empty slices.
    pub slices: Vec<Slice>,
    /// The bytes in columns of the complete capture, for a drawing.
    #[serde(skip)]
    columns: Vec<f64>,
}

impl Throughput {
    /// The throughput of a capture from `start_ns` to `end_ns`, in which the events of a hop and their bytes have the two weights
    /// `weights`.
    pub(super) fn of(layers: Layers, start_ns: u64, end_ns: u64, weights: impl Fn(Hop) -> (f64, f64)) -> Self {
        let (weight, byte_weight) = (|hop| weights(hop).0, |hop| weights(hop).1);
        let duration_ns = end_ns.saturating_sub(start_ns);
        let other_events = layers.others();
        let border = |(hop, units): (Hop, Units)| Border {
            hop,
            place: hop.spec().border,
            units: units.units,
            bytes: units.bytes,
            mean_bytes: units.mean_bytes(),
            smallest_bytes: if units.units == 0 { 0 } else { units.smallest_bytes },
            largest_bytes: units.largest_bytes,
            spacing_ns: units.spacing_ns(),
            bytes_per_s: per_second(units.bytes, duration_ns) * byte_weight(hop),
            units_per_s: per_second(units.units, duration_ns) * weight(hop),
            estimated: weight(hop) > 1.0,
            segments: units.segments,
            empty: units.empty,
            not_counted: units.not_counted,
            sizes: units
                .sizes
                .iter()
                .enumerate()
                .filter(|(_, n)| **n > 0)
                .map(|(bits, n)| Bucket { at_most: (1 << bits) - 1, n: *n })
                .collect(),
            slice_ns: units.strip.slice_ns(),
            slices: units.strip.slices().collect(),
            columns: units
                .strip
                .columns(start_ns, end_ns, COLUMNS)
                .iter()
                .map(|n| n * byte_weight(hop))
                .collect(),
        };
        let protocols = layers.finish().into_iter().map(|(proto, borders)| ProtocolThroughput {
            proto,
            borders: borders.into_iter().map(border).collect(),
        });
        Throughput { protocols: protocols.collect(), other_events }
    }
}

/// Columns of a drawing.
const COLUMNS: usize = 64;

/// The section as text.
pub(super) fn write(out: &mut String, throughput: &Throughput, duration_ns: u64, width: usize) -> fmt::Result {
    for protocol in &throughput.protocols {
        table(out, protocol)?;
        drawing(out, protocol, duration_ns)?;
    }
    if throughput.protocols.is_empty() {
        writeln!(out, "\nNothing with payload crossed a layer.")?;
    } else {
        writeln!(out)?;
        let explanation = "A layer is given what the line above it says and passes on what the line below says. \
                   Sizes are payload; spacing is the mean time between neighbours of one flow; rates are over the \
                   whole capture. What TCP sends again crosses the lower layers again.";
        wrap(out, explanation, width, "")?;
    }
    if throughput.other_events > 0 {
        let n = plural(throughput.other_events, "event", "events");
        writeln!(out, "Left out: {n} of other protocols.")?;
    }
    Ok(())
}

fn table(out: &mut String, protocol: &ProtocolThroughput) -> fmt::Result {
    writeln!(
        out,
        "\n{:<29} {:>9} {:>8} {:>8} {:>8} {:>10}",
        format!("{}, layer by layer", protocol.proto),
        "units",
        "bytes",
        "mean",
        "spacing",
        "rate"
    )?;
    let mut side = Direction::Tx;
    for border in &protocol.borders {
        if border.hop.direction() != side {
            side = border.hop.direction();
            writeln!(out, "{}", "─".repeat(77))?;
        }
        row(out, border.hop.name(), border.place, border, border.units, border.spacing_ns)?;
        if border.hop == Hop::DevXmit && border.segments > border.units {
            row(out, "", "on the wire", border, border.segments, None)?;
        }
    }
    let (empty, not_counted) = protocol.borders.iter().fold((0, 0), |(empty, not_counted), border| {
        (empty.max(border.empty), not_counted + border.not_counted)
    });
    if empty > 0 {
        writeln!(out, "Beside these, without payload: up to {} at one hop.", count(empty))?;
    }
    if not_counted > 0 {
        let n = plural(not_counted, "event", "events");
        writeln!(out, "Left out: {n} that only looked, or were later fragments.")?;
    }
    Ok(())
}

fn row(
    out: &mut String,
    name: &str,
    place: &str,
    border: &Border,
    units: u64,
    spacing_ns: Option<f64>,
) -> fmt::Result {
    let mean = border.bytes as f64 / units.max(1) as f64;
    let spacing = spacing_ns.map_or_else(|| "·".to_owned(), |ns| time(ns.round() as u64));
    writeln!(
        out,
        "{name:<NAME$} {place:<16} {} {} {} {spacing:>8} {}",
        count_in(units, 9),
        bytes(border.bytes),
        bytes(mean.round() as u64),
        rate(border.bytes_per_s, border.estimated)
    )
}

/// The bytes over time at the uppermost and the lowest border of each side, all to one scale.
fn drawing(out: &mut String, protocol: &ProtocolThroughput, duration_ns: u64) -> fmt::Result {
    let outermost = |direction| {
        let mut borders = protocol.borders.iter().filter(move |border| border.hop.direction() == direction);
        let first = borders.next();
        first.into_iter().chain(borders.next_back())
    };
    let borders: Vec<&Border> = outermost(Direction::Tx).chain(outermost(Direction::Rx)).collect();
    let highest = borders.iter().flat_map(|border| &border.columns).copied().fold(0.0, f64::max);
    let column_ns = duration_ns / COLUMNS as u64;
    if highest <= 0.0 || column_ns == 0 {
        return Ok(());
    }
    let estimated = borders.iter().any(|border| border.estimated);
    let per_s = rate(highest * 1e9 / column_ns as f64, estimated);
    writeln!(out, "bytes over time, {} a column, full height {}", time(column_ns).trim(), per_s.trim())?;
    for border in borders {
        writeln!(out, "{:<NAME$} {}", border.hop.name(), heights(&border.columns, highest).trim_end())?;
    }
    Ok(())
}
