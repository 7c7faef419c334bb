//! Record and replay: events to disk and back.
//!
//! A session is a directory: `meta.toml` describes it, and numbered segments of Arrow IPC streams hold the
//! tables (`events-0003.arrows`, `flows-0003.arrows`, …). `docs/formats.md` describes every column. After a
//! crash at any instant, a recording lacks at most the last flush interval. The reader accepts any bytes: it
//! skips and names damage, and counts the damage as a loss at its time.
//!
//! # Modules
//!
//! - `record/`: the queue and the writer's thread.
//! - `read/`: finds the valid data of a directory. `frame/`: checks and decodes one untrusted Arrow message.
//! - `table/`: columns of events and of all other tables.

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
pub use meta::{Closed, Dropped, FORMAT, LossTotals, Meta, Retention, ShippedSegments};
pub use packet::{BadPacket, Packer, Place, unpack};
pub use read::{Damage, Replay, Session, reseal};
pub use record::{
    Announcer, MAX_BATCH_ROWS, OnFullDisk, Prefix, RecordOptions, Recorder, RecorderStatus, RecorderWatch,
    Shipped, is_being_recorded,
};
pub use summary::Summary;
