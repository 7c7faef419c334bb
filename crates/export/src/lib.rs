//! Sessions and journeys in the formats that other tools read.
//!
//! Pure writers: what is read comes as [`magscope_core::together::Piece`]s, what is written goes to an [`Output`]. Two views of the
//! same pieces serve all formats: [`table`] makes flat rows (Parquet, CSV, JSON lines, SQL), and [`mark`] gives one mark at a time
//! with everything's name (ULM, BP, Perfetto, Chrome, CTF).
//!
//! # Modules
//!
//! - `table/`: flat rows of batches and journeys. `mark`: single hits with names. `order`: puts hits in order of time.
//! - `format/`: one file or folder a format, each behind `output::Export`. A format is fed once, keeps a bounded amount, and does not know
//!   where it writes.

pub mod answer;
pub mod calendar;
mod error;
pub mod format;
pub mod mark;
pub mod names;
mod order;
mod output;
pub mod table;
mod timeline;
pub mod wire;

pub use error::ExportError;
pub use format::tables::{TableWriter, Tables};
pub use output::{Create, Export, Output, Written};
pub use table::{Chosen, Periods, Table};
pub use timeline::TimeLine;
