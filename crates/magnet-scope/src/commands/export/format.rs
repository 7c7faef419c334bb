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
    /// Packets with their journeys, for Wireshark, tshark and tcpdump; `--hops` selects the hops
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

/// The output of a format without a selection of tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A file, or a stream.
    File,
    /// A directory with a file a table; a file if one table is selected.
    TableFiles,
    /// A directory.
    Directory,
}

/// The properties of a format.
struct FormatSpec {
    /// File name extension.
    ending: &'static str,
    /// Words in the window, and the place in its list; `None` if the window does not offer the format.
    window: Option<(u8, &'static str)>,
    place: Place,
    /// Rows can be appended for a concurrent reader.
    follows: bool,
    /// The rows are those of tables.
    has_tables: bool,
    /// Additional compression is useful to readers.
    compresses: bool,
}

impl Format {
    /// The row of the format. A new one fails to compile until it has a row.
    const fn spec(self) -> FormatSpec {
        let (ending, window, place, [follows, has_tables, compresses]) = match self {
            Self::Parquet => {
                let words = "tables for pyarrow, duckdb, polars: a directory";
                ("parquet", Some((3, words)), Place::TableFiles, [false, true, false])
            }
            Self::Csv => {
                ("csv", Some((4, "tables as text: a directory")), Place::TableFiles, [false, true, true])
            }
            Self::Jsonl => ("jsonl", Some((2, "a line of JSON a row")), Place::File, [true, true, true]),
            Self::Ulm => {
                ("ulm", Some((7, "a line an event, as NetLogger reads it")), Place::File, [true, false, true])
            }
            Self::Bp => ("bp", None, Place::File, [true, false, true]),
            Self::Pcapng => {
                let words = "packets with their journeys, for Wireshark";
                ("pcapng", Some((1, words)), Place::File, [false, false, true])
            }
            Self::Perfetto => {
                ("pftrace", Some((0, "a trace for ui.perfetto.dev")), Place::File, [false, false, true])
            }
            Self::Chrome => ("json", Some((5, "Chrome's JSON trace")), Place::File, [false, false, true]),
            Self::Ctf => {
                ("ctf", Some((6, "Common Trace Format: a directory")), Place::Directory, [false, false, false])
            }
            Self::Magnet => ("magnet", None, Place::File, [false, false, true]),
        };
        FormatSpec { ending, window, place, follows, has_tables, compresses }
    }

    /// The formats that the window offers, in its order: name, words and file name extension.
    pub fn of_window() -> Vec<(String, &'static str, &'static str)> {
        let offered = |format: &Format| {
            let FormatSpec { window, ending, .. } = format.spec();
            let (place, words) = window?;
            Some((place, (format.name(), words, ending)))
        };
        let mut rows: Vec<_> = Self::value_variants().iter().filter_map(offered).collect();
        rows.sort_by_key(|(place, _)| *place);
        rows.into_iter().map(|(_, row)| row).collect()
    }

    /// Name on the command line.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

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
        match self.spec().place {
            Place::File => false,
            Place::TableFiles => buckets && self == Self::Parquet || chosen.tables.len() != 1,
            Place::Directory => true,
        }
    }

    /// True if rows can be appended for a concurrent reader.
    pub const fn can_follow(self) -> bool {
        self.spec().follows
    }

    /// True for formats of table rows.
    pub const fn is_tables(self) -> bool {
        self.spec().has_tables
    }

    /// True if additional compression is useful to readers.
    pub const fn can_compress(self) -> bool {
        self.spec().compresses
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
                Box::new(Marked::new(Marks::new(infos, line, chosen).with_requests(), writer))
            }
            Self::Pcapng => Box::new(Pcapng::new(stream()?, infos, line, chosen, &args.hops)),
            Self::Perfetto => {
                let writer = Perfetto::new(stream()?);
                Box::new(Marked::new(Marks::new(infos, line, chosen).with_requests(), writer))
            }
            Self::Chrome => {
                let writer = Chrome::new(stream()?);
                Box::new(Marked::new(Marks::new(infos, line, chosen).with_requests(), writer))
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
    Format::value_variants().iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
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
