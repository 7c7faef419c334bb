//! The formats and their writers.

use super::Args;
use super::target::Target;
use anyhow::Result;
use clap::ValueEnum;
use magscope_core::node::NodeInfo;
use magscope_export::format::chrome::Chrome;
use magscope_export::format::csv::Csv;
use magscope_export::format::ctf::Ctf;
use magscope_export::format::json::JsonLines;
use magscope_export::format::magnet::Dump;
use magscope_export::format::marked::Marked;
use magscope_export::format::netlogger::{Dialect, NetLogger};
use magscope_export::format::parquet::{Layout, Parquet};
use magscope_export::format::pcapng::Pcapng;
use magscope_export::format::perfetto::Perfetto;
use magscope_export::format::tables::{TableWriter, Tables};
use magscope_export::mark::Marks;
use magscope_export::table::Periods;
use magscope_export::{Chosen, Export, Table, TimeLine};
use std::path::Path;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for pyarrow, duckdb, polars, Spark: a directory with a file a table
    Parquet,
    /// Tables as text: a directory with a file a table, or a file with `--tables`
    Csv,
    /// A line of JSON a row, of all tables
    Jsonl,
    /// A line an event, as `NetLogger` and NLV read it
    Ulm,
    /// The same in `NetLogger`'s later form, `ts=… event=…`
    Bp,
    /// Packets with their journeys, for Wireshark and tshark; `--hops` selects the hops
    Pcapng,
    /// A trace for ui.perfetto.dev: flows are journeys
    Perfetto,
    /// Chrome's JSON trace, for <chrome://tracing> and speedscope
    Chrome,
    /// Common Trace Format 1.8: a directory, for Trace Compass and babeltrace2
    Ctf,
    /// Tabs between columns, as `MAGNeT`'s magnet-parse wrote it
    Magnet,
}

impl Format {
    /// The format of a file name extension.
    pub fn of(name: &Path) -> Option<Self> {
        let end = name.extension()?.to_str()?;
        match end {
            "ndjson" => Some(Self::Jsonl),
            "pftrace" => Some(Self::Perfetto),
            end => Self::from_str(end, false).ok(),
        }
    }

    /// True if the output is a directory.
    pub fn is_dir(self, chosen: &Chosen, buckets: bool) -> bool {
        match self {
            Self::Parquet if buckets => true,
            Self::Parquet | Self::Csv => chosen.tables.len() != 1,
            Self::Ctf => true,
            _ => false,
        }
    }

    /// True if rows can be appended for a concurrent reader.
    pub const fn can_follow(self) -> bool {
        matches!(self, Self::Jsonl | Self::Ulm | Self::Bp)
    }

    /// True for formats of table rows.
    pub const fn is_tables(self) -> bool {
        matches!(self, Self::Parquet | Self::Csv | Self::Jsonl)
    }

    /// True if additional compression is useful to readers.
    pub const fn can_compress(self) -> bool {
        !matches!(self, Self::Parquet | Self::Ctf)
    }

    /// The writer of the format.
    pub fn writer<'t>(
        self,
        target: &'t Target,
        infos: &[NodeInfo],
        line: TimeLine,
        chosen: Chosen,
        about: &[(String, String)],
        args: &Args,
    ) -> Result<Box<dyn Export + 't>> {
        let wanted = if chosen.tables.is_empty() { Table::RECORDED.to_vec() } else { chosen.tables.clone() };
        let create = Box::new(|name: &str| target.create(name));
        let stream = || target.create("stream");
        Ok(match self {
            Self::Parquet => {
                let layout = match (args.buckets, infos.len() > 1 && wanted.len() > 1) {
                    (true, _) => Layout::ByBucket,
                    (false, true) => Layout::ByHost,
                    (false, false) => Layout::Flat,
                };
                let writer = Parquet::new(create, &wanted, infos, line, layout, about);
                rows(infos, line, chosen, args, writer)
            }
            Self::Csv => rows(infos, line, chosen, args, Csv::new(create, &wanted)),
            Self::Jsonl => rows(infos, line, chosen, args, JsonLines::new(stream()?)),
            Self::Ulm | Self::Bp => {
                let dialect = if self == Self::Ulm { Dialect::Ulm } else { Dialect::Bp };
                let writer = NetLogger::new(stream()?, dialect, infos);
                Box::new(Marked::new(Marks::new(infos, line, chosen), writer))
            }
            Self::Pcapng => Box::new(Pcapng::new(stream()?, infos, line, chosen, &args.hops)),
            Self::Perfetto => {
                let writer = Perfetto::new(stream()?);
                Box::new(Marked::new(Marks::new(infos, line, chosen), writer))
            }
            Self::Chrome => {
                let writer = Chrome::new(stream()?);
                Box::new(Marked::new(Marks::new(infos, line, chosen), writer))
            }
            Self::Ctf => {
                let writer = Ctf::new(create, infos, uuid(about));
                Box::new(Marked::new(Marks::new(infos, line, chosen), writer))
            }
            Self::Magnet => Box::new(Dump::new(stream()?, infos, line)),
        })
    }
}

/// Rows of the recorded data, or of its sums.
fn rows<'t>(
    infos: &[NodeInfo],
    line: TimeLine,
    chosen: Chosen,
    args: &Args,
    writer: impl TableWriter + 't,
) -> Box<dyn Export + 't> {
    match args.every {
        // At most a year, so the cast is lossless.
        Some(every) => Box::new(Periods::new(infos, line, chosen, every.as_nanos() as u64, writer)),
        None => Box::new(Tables::new(infos, line, chosen, writer)),
    }
}

/// Names of the formats, for a message.
pub fn names() -> String {
    let names = Format::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    names.map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(", ")
}

/// A trace id derived from the recordings, so that repeated exports are equal.
fn uuid(about: &[(String, String)]) -> [u8; 16] {
    let mut uuid = [0_u8; 16];
    for (at, byte) in about.iter().flat_map(|(key, value)| key.bytes().chain(value.bytes())).enumerate() {
        let place = &mut uuid[at % 16];
        *place = place.wrapping_mul(31).wrapping_add(byte);
    }
    // Version 8, made by the writer's own rule (RFC 9562).
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
