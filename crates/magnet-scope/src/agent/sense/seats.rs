//! How many clients there are, in all and of each user: nobody keeps others out.

use super::caller::Caller;
use super::lines::say;
use magscope_client::wire::{Refusal, Reply};
use magscope_sensor::averages::MOST_PLACES;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clients at a time.
const MOST: usize = 96;
/// And so many of root more.
const ROOTS: usize = 16;
/// Clients of one user at a time.
const MOST_OF_ONE: usize = 16;
/// Places in the windows of one user together.
const PLACES_OF_ONE: usize = MOST_PLACES / 4;

/// Those that are here.
#[derive(Clone, Default)]
pub struct Seats(Arc<Mutex<BTreeMap<u32, Taken>>>);

/// What a user has taken.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    clients: usize,
    places: usize,
}

/// A client's place, given back when it goes.
pub struct Seat {
    seats: Seats,
    /// Who sits there.
    pub caller: Caller,
    places: usize,
}

impl Seats {
    fn taken(&self) -> MutexGuard<'_, BTreeMap<u32, Taken>> {
        // a panic elsewhere leaves no half-made table
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one in, or tells it that there is no room.
    pub fn take(&self, stream: &UnixStream) -> io::Result<Seat> {
        let caller = Caller::of(stream)?;
        let mut taken = self.taken();
        let all: usize = taken.values().map(|taken| taken.clients).sum();
        let own = taken.entry(caller.uid).or_default();
        let room = if caller.is_root() { all < MOST + ROOTS } else { all < MOST && own.clients < MOST_OF_ONE };
        if !room {
            drop(taken);
            // Fits into the socket's buffer.
            stream.set_nonblocking(true)?;
            say(stream, &Reply::Error(full(caller.uid)))?;
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        own.clients += 1;
        drop(taken);
        Ok(Seat { seats: self.clone(), caller, places: 0 })
    }
}

fn full(uid: u32) -> Refusal {
    Refusal {
        what: format!("no connection for user {uid}"),
        likely: format!("{MOST_OF_ONE} clients of this user, or {MOST} in all, are here already"),
        next: "close those that are not needed; one connection can have several watches".to_owned(),
    }
}

impl Seat {
    /// Takes so many places of a window; whether there were any left for this user.
    pub fn places(&mut self, places: usize) -> bool {
        let mut taken = self.seats.taken();
        let own = taken.entry(self.caller.uid).or_default();
        let room = own.places + places <= PLACES_OF_ONE || self.caller.is_root();
        if room {
            own.places += places;
            self.places += places;
        }
        room
    }

    /// Gives so many of them back.
    pub fn give_back(&mut self, places: usize) {
        if let Some(own) = self.seats.taken().get_mut(&self.caller.uid) {
            own.places = own.places.saturating_sub(places);
        }
        self.places = self.places.saturating_sub(places);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        let Some(own) = taken.get_mut(&self.caller.uid) else { return };
        own.clients = own.clients.saturating_sub(1);
        own.places = own.places.saturating_sub(self.places);
        if own.clients == 0 {
            taken.remove(&self.caller.uid);
        }
    }
}
