//! Sessions and journeys in formats of other tools.
//!
//! The writers are pure: input is [`magscope_timeline::merged_reader::Piece`]s, output goes to an [`Output`]. All
//! formats use one of two views: [`table`] makes flat rows (Parquet, CSV, JSON lines, SQL), and [`mark`] gives
//! single marks with all names (ULM, BP, Perfetto, Chrome, CTF).
//!
//! # Modules
//!
//! - `table/`: flat rows of batches and journeys. `mark`: single hits with names. `order`: puts hits in time
//!   order.
//! - `format/`: one file or folder per format, each behind `output::Export`. A format is fed once, has bounded
//!   memory, and is independent of its output.

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
