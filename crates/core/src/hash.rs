//! A cheap hash for keys that are small numbers: flow ids (hashes already), cookies, thread ids.
//!
//! The standard hasher costs more than all other work on an event. Keys come from the kernel or from a session
//! file; a file with deliberate collisions can only slow down its own reading.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// Multiply, then fold the high half onto the low one.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldHasher(u64);

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        let wide = u128::from(self.0 ^ n ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

/// A map with that hash.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<FoldHasher>>;

/// A set with that hash.
pub type Set<K> = HashSet<K, BuildHasherDefault<FoldHasher>>;
