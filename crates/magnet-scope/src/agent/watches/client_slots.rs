//! Limits clients, in total and per user, so that no user blocks others.

use super::caller::Caller;
use super::lines::write_reply;
use magscope_client::wire::{Refusal, Reply};
use magscope_sensor::averages::MOST_PLACES;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of clients.
const MOST: usize = 96;
/// Additional clients of root.
const ROOTS: usize = 16;
/// Maximum number of clients per user.
const MOST_OF_ONE: usize = 16;
/// Maximum window capacity per user.
const PLACES_OF_ONE: usize = MOST_PLACES / 4;

/// The connected clients.
#[derive(Clone, Default)]
pub struct ClientSlots(Arc<Mutex<BTreeMap<u32, Taken>>>);

/// Resources of a user.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    clients: usize,
    places: usize,
}

/// A client's permit, returned on drop.
pub struct ClientSlot {
    slots: ClientSlots,
    /// The client.
    pub caller: Caller,
    places: usize,
}

impl ClientSlots {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<u32, Taken>> {
        // a panic elsewhere leaves the table consistent
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a client, or reports the limit to it.
    pub fn take(&self, stream: &UnixStream) -> io::Result<ClientSlot> {
        let caller = Caller::of(stream)?;
        let mut taken = self.taken();
        let all: usize = taken.values().map(|taken| taken.clients).sum();
        let own = taken.entry(caller.uid).or_default();
        let room = if caller.is_root() { all < MOST + ROOTS } else { all < MOST && own.clients < MOST_OF_ONE };
        if !room {
            drop(taken);
            // The message fits the socket's buffer.
            stream.set_nonblocking(true)?;
            write_reply(stream, &Reply::Error(full(caller.uid)))?;
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        own.clients += 1;
        drop(taken);
        Ok(ClientSlot { slots: self.clone(), caller, places: 0 })
    }
}

fn full(uid: u32) -> Refusal {
    Refusal {
        what: format!("no connection for user {uid}"),
        likely: format!("{MOST_OF_ONE} clients of this user, or {MOST} in all, are here already"),
        next: "close those that are not needed; one connection can have several watches".to_owned(),
    }
}

impl ClientSlot {
    /// Reserves window capacity; returns false at the user's limit.
    pub fn places(&mut self, places: usize) -> bool {
        let mut taken = self.slots.taken();
        let own = taken.entry(self.caller.uid).or_default();
        let room = own.places + places <= PLACES_OF_ONE || self.caller.is_root();
        if room {
            own.places += places;
            self.places += places;
        }
        room
    }

    /// Releases window capacity.
    pub fn give_back(&mut self, places: usize) {
        if let Some(own) = self.slots.taken().get_mut(&self.caller.uid) {
            own.places = own.places.saturating_sub(places);
        }
        self.places = self.places.saturating_sub(places);
    }
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut taken = self.slots.taken();
        let Some(own) = taken.get_mut(&self.caller.uid) else { return };
        own.clients = own.clients.saturating_sub(1);
        own.places = own.places.saturating_sub(self.places);
        if own.clients == 0 {
            taken.remove(&self.caller.uid);
        }
    }
}
