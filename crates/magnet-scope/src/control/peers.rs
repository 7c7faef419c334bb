//! Connected peers of the control socket, with limits on number and idle time.
//!
//! Every peer is admitted. At the limit, the peer that is longest without a complete question is disconnected.
//! Idle or slow peers therefore never block others. If all wait for answers, whose time is bounded, a new peer
//! waits too.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of peers.
pub const MOST: usize = 8;

/// A connected peer.
struct PeerSlot {
    number: u64,
    stream: UnixStream,
    /// True while it waits for an answer, and therefore stays connected.
    asked: bool,
}

/// The connected peers.
#[derive(Clone, Default)]
pub struct Peers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    slots: Mutex<PeerSlots>,
    /// Signalled when a peer has left or received its answer.
    room: Condvar,
}

#[derive(Default)]
struct PeerSlots {
    /// Total number of peers.
    came: u64,
    /// Longest idle first.
    taken: Vec<PeerSlot>,
}

/// A peer's permit, returned on drop.
pub struct Place {
    peers: Peers,
    number: u64,
}

impl Peers {
    fn slots(&self) -> MutexGuard<'_, PeerSlots> {
        // a panic elsewhere leaves the list consistent
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a peer as soon as there is room.
    pub fn admit(&self, stream: &UnixStream) -> io::Result<Place> {
        let stream = stream.try_clone()?;
        let mut slots = self.slots();
        while slots.taken.len() >= MOST {
            if let Some(idle) = slots.taken.iter().position(|slot| !slot.asked) {
                // its thread sees the end of the stream and returns
                let _ = slots.taken.remove(idle).stream.shutdown(Shutdown::Both);
            } else {
                slots = self.0.room.wait(slots).unwrap_or_else(PoisonError::into_inner);
            }
        }
        slots.came += 1;
        let number = slots.came;
        slots.taken.push(PeerSlot { number, stream, asked: false });
        drop(slots);
        Ok(Place { peers: self.clone(), number })
    }
}

impl Place {
    /// Sets whether its question is being answered.
    pub fn asked(&self, asked: bool) {
        let mut slots = self.peers.slots();
        if let Some(at) = slots.taken.iter().position(|slot| slot.number == self.number) {
            let mut slot = slots.taken.remove(at);
            slot.asked = asked;
            slots.taken.push(slot);
        }
        drop(slots);
        self.peers.0.room.notify_all();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.peers.slots().taken.retain(|slot| slot.number != self.number);
        self.peers.0.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn who_says_nothing_makes_room_and_who_waits_for_an_answer_stays() {
        let peers = Peers::default();
        let pairs: Vec<_> = (0..=MOST).map(|_| UnixStream::pair().expect("a pair")).collect();
        let mut places: Vec<_> =
            pairs[..MOST].iter().map(|(ours, _)| peers.admit(ours).expect("cloned")).collect();
        places[0].asked(true);
        places.push(peers.admit(&pairs[MOST].0).expect("the second has made room"));
        let ended = |nth: usize| {
            let mut theirs = &pairs[nth].1;
            theirs.set_nonblocking(true).expect("a socket");
            theirs.read(&mut [0; 1]).is_ok_and(|read| read == 0)
        };
        assert_eq!((ended(0), ended(1), ended(2)), (false, true, false));
        for place in &places {
            place.asked(true);
        }
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| peers.admit(&pairs[1].0).expect("there is room now"));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waits.is_finished(), "all of them wait for answers");
            places.pop();
            assert_eq!(waits.join().expect("it came in").number, MOST as u64 + 2);
        });
    }
}
