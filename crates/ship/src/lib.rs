//! Uploads of closed recording segments to another place: a directory, or a bucket of an object store.
//!
//! The recordings on disk are the queue: files without a line in a recording's [`Ledger`] are pending. Memory
//! is therefore bounded during an outage of the store, and a restarted process resumes. A [`Shipper`] is a
//! thread that uploads without blocking the recorder; [`ship`] uploads once.
//!
//! # Modules
//!
//! - `store/`: one file per kind of destination. `ledger`: uploaded files. `local_store`: local recordings.
//!   `uploader`: one pass over them. `shipper`: the thread that repeats the pass.

mod destination;
mod error;
mod ledger;
mod local_store;
mod shipper;
mod store;
mod uploader;

pub use destination::Destination;
pub use error::ShipError;
pub use ledger::{LEDGER, Ledger};
pub use local_store::{LocalStore, Recording, unshipped};
pub use shipper::{Shipper, Status, ship};
pub use store::{Content, Stat, Store, Upload};
