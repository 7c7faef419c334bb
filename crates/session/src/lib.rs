//! Record and replay: events to disk and back.
//!
//! A session is a directory: `meta.toml` says what it is, and numbered segments of Arrow IPC streams hold the
//! tables (`events-0003.arrows`, `flows-0003.arrows`, …). `docs/formats.md` describes every column. Recording survives the death of the process at
//! any instant but for the last flush interval; reading survives any bytes: what is damaged is skipped, named, and counted as
//! a loss at its place in time.
//!
//! # Modules
//!
//! - `record/`: the queue and the writer's thread.
//! - `read/`: finds what is valid in a directory. `frame/`: checks and unpacks one Arrow message without trusting it.
//! - `table/`: columns of events and of everything else.

mod error;
mod frame;
mod layout;
mod meta;
mod packet;
mod read;
mod record;
mod seal;
mod summary;
mod table;
mod utc;

pub use error::SessionError;
pub use layout::{META, Table, segments};
pub use meta::{Closed, Dropped, Elsewhere, FORMAT, LossTotals, Meta, Retention};
pub use packet::{BadPacket, Packer, Place, unpack};
pub use read::{Damage, Replay, Session, reseal};
pub use record::{
    Announcer, MAX_BATCH_ROWS, OnFullDisk, RecordOptions, Recorder, RecorderStatus, Shipped, is_being_recorded,
};
pub use summary::Summary;
