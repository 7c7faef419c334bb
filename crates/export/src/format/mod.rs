//! One file or folder per format.

pub mod chrome;
pub mod csv;
pub mod ctf;
pub mod importable;
pub mod json;
pub mod magnet;
pub mod marked;
pub mod netlogger;
pub mod parquet;
pub mod pcapng;
pub mod perfetto;
pub mod tables;
mod tracks;
