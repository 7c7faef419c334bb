//! Sends a stream's messages to its client and accounts for the stream's memory.

use crate::feed::parts;
use crate::readers::{Exhausted, ReaderPermit};
use arrow_flight::FlightData;
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::Sender;
use tonic::Status;

/// Maximum copies of a message: one waits, one is in the transport, one is serialised for the wire.
const COPIES: u64 = 3;

/// The output of a stream. Clones belong to the same stream.
#[derive(Clone)]
pub struct Outbox {
    out: Sender<Result<FlightData, Status>>,
    account: Account,
}

/// One stream's share of the budget, returned with the last clone.
#[derive(Clone)]
pub struct Account(Arc<Mutex<AccountState>>);

struct AccountState {
    permit: ReaderPermit,
    /// The longest message so far, bytes.
    message_bytes: u64,
    /// Tables of the stream's filter, bytes.
    table_bytes: u64,
}

/// Reason for an early end of a stream.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// The client has gone.
    #[error("the client has gone")]
    Gone,
    /// The memory would exceed a limit.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// Something else failed.
    #[error("{0}")]
    Failed(String),
}

impl Account {
    fn held(&self) -> MutexGuard<'_, AccountState> {
        // A panic elsewhere leaves the account consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut AccountState)) -> Result<(), Exhausted> {
        let mut held = self.held();
        change(&mut held);
        let bytes = held.table_bytes.saturating_add(held.message_bytes.saturating_mul(COPIES));
        held.permit.hold(bytes)
    }
}

impl Outbox {
    /// An output within the limits of `permit`.
    pub fn new(out: Sender<Result<FlightData, Status>>, permit: ReaderPermit) -> Self {
        let held = AccountState { permit, message_bytes: 0, table_bytes: 0 };
        Outbox { out, account: Account(Arc::new(Mutex::new(held))) }
    }

    /// The account, for holders of messages after this value is dropped.
    pub fn account(&self) -> Account {
        self.account.clone()
    }

    /// True if the client has disconnected.
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

    /// Sends an Arrow message as soon as the client accepts it.
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
        // Fails only if the client has disconnected meanwhile.
        let _ = self.out.blocking_send(Err(status));
    }
}
