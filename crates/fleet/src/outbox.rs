//! The way of a stream's messages to its client, and the account of the memory that the stream takes.

use crate::feed::parts;
use crate::readers::{Exhausted, ReaderPermit};
use arrow_flight::FlightData;
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::Sender;
use tonic::Status;

/// Copies of a message at most: one waits, one is with the transport, and one is written out for the wire.
const COPIES: u64 = 3;

/// Where a stream's messages go. Clones are of the same stream.
#[derive(Clone)]
pub struct Outbox {
    out: Sender<Result<FlightData, Status>>,
    account: Account,
}

/// What one stream takes of the budget; it is returned with the last clone.
#[derive(Clone)]
pub struct Account(Arc<Mutex<Held>>);

struct Held {
    permit: ReaderPermit,
    /// The longest message so far, bytes.
    message_bytes: u64,
    /// Tables of the stream's filter, bytes.
    table_bytes: u64,
}

/// Why a stream ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The client has gone.
    #[error("the client has gone")]
    Gone,
    /// Its memory would exceed a limit.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// Something else failed.
    #[error("{0}")]
    Failed(String),
}

impl Account {
    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic elsewhere leaves no half-made account.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Held)) -> Result<(), Exhausted> {
        let mut held = self.held();
        change(&mut held);
        let bytes = held.table_bytes.saturating_add(held.message_bytes.saturating_mul(COPIES));
        held.permit.hold(bytes)
    }
}

impl Outbox {
    /// Sends there, within what `permit` allows.
    pub fn new(out: Sender<Result<FlightData, Status>>, permit: ReaderPermit) -> Self {
        let held = Held { permit, message_bytes: 0, table_bytes: 0 };
        Outbox { out, account: Account(Arc::new(Mutex::new(held))) }
    }

    /// The account, for who keeps messages after this is dropped.
    pub fn account(&self) -> Account {
        self.account.clone()
    }

    /// Whether the client has gone.
    pub fn is_closed(&self) -> bool {
        self.out.is_closed()
    }

    /// Accounts for the tables of a filter.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn holds_tables(&self, bytes: u64) -> Result<(), Exhausted> {
        self.account.change(|held| held.table_bytes = bytes)
    }

    /// Sends a whole Arrow message, as soon as the client takes it.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn send(&self, message: &Bytes) -> Result<(), Stopped> {
        let (data_header, data_body) = parts(message).ok_or_else(|| Stopped::Failed("no message".into()))?;
        self.account.change(|held| held.message_bytes = held.message_bytes.max(message.len() as u64))?;
        let data = FlightData { data_header, data_body, ..FlightData::default() };
        self.out.blocking_send(Ok(data)).map_err(|_| Stopped::Gone)
    }

    /// Ends the stream with the reason.
    pub fn fail(&self, because: &Stopped) {
        let status = match because {
            Stopped::Gone => return,
            Stopped::Exhausted(_) => Status::resource_exhausted(because.to_string()),
            Stopped::Failed(_) => Status::internal(because.to_string()),
        };
        // Fails only where the client has gone meanwhile.
        let _ = self.out.blocking_send(Err(status));
    }
}
