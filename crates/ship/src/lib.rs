//! Closed segments of recordings, copied to another place: a directory, or a bucket of an object store.
//!
//! The queue is the recordings themselves, as they lie on the disk: what has no line in a recording's [`Ledger`] has yet to be
//! copied. So memory is bounded however long a store is away, and whoever is killed goes on where it was. A [`Shipper`] is a
//! thread that does this beside a recorder and never in its way; [`ship`] does it once.
//!
//! # Modules
//!
//! - `store/`: one file a kind of destination. `ledger`: what has arrived there. `shelf`: the recordings here. `carrier`: one pass over them.
//!   `shipper`: the thread that repeats it.

mod carrier;
mod destination;
mod error;
mod ledger;
mod shelf;
mod shipper;
mod store;

pub use destination::Destination;
pub use error::ShipError;
pub use ledger::{LEDGER, Ledger};
pub use shelf::{Lot, Shelf, unshipped};
pub use shipper::{Shipper, Status, ship};
pub use store::{Content, Parcel, Stat, Store};
