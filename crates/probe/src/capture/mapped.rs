//! The memory of mapped rings ([`crate::ring`]).

use super::rings::ring_size;
use super::{CaptureOptions, RingKind};
use crate::error::ProbeError;
use crate::facts::HostFacts;
use crate::record::{MAG_RING_COMMITS_AT, MAG_RING_SLOTS_MAX, mag_config};
use crate::ring::{self, RECORD_BYTES_MAX, SLOT_BYTES, Shared};
use libbpf_rs::libbpf_sys::{BPF_F_MMAPABLE, bpf_map_create_opts, size_t};
use libbpf_rs::{MapHandle, MapType, OpenMapMut};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Name of the map in the objects, and in the kernel: libbpf names a joined map so.
const MAP: &str = "slots";
/// A multiple of every page size, bytes.
const LARGEST_PAGE: usize = 64 << 10;

/// One ring for each CPU.
pub struct MappedRings {
    map: MapHandle,
    memory: NonNull<u8>,
    /// Bytes of the memory of one ring.
    each: usize,
    cpus: u32,
    slots: u32,
}

impl MappedRings {
    /// Creates rings for a capture; `None` as [`MappedRings::create`], or if it has another kind.
    pub fn wanted(facts: &HostFacts, options: &CaptureOptions, ring_bytes: usize) -> Option<Self> {
        (options.ring == RingKind::Mapped).then(|| Self::create(facts, ring_bytes)).flatten()
    }

    /// Creates rings of `ring_bytes` (rounded up to a power of two) for the CPUs of this host. `None` if its kernel
    /// cannot have them, or not of this size.
    pub fn create(facts: &HostFacts, ring_bytes: usize) -> Option<Self> {
        let slots = ring_size(ring_bytes) / SLOT_BYTES as u32;
        (facts.loops && slots <= MAG_RING_SLOTS_MAX).then(|| Self::of(facts.cpus, slots).ok()).flatten()
    }

    /// Creates rings.
    ///
    /// # Errors
    /// [`ProbeError::Map`] with the kernel's reason.
    pub fn of(cpus: u32, slots: u32) -> Result<Self, ProbeError> {
        let failed = |operation, cause: String| ProbeError::Map { operation, map: MAP, cause };
        let words = slots as usize * size_of::<u64>();
        let room = slots as usize * SLOT_BYTES + RECORD_BYTES_MAX;
        let each = (MAG_RING_COMMITS_AT as usize + words + room).next_multiple_of(LARGEST_PAGE);
        let options = bpf_map_create_opts {
            sz: size_of::<bpf_map_create_opts>() as size_t,
            map_flags: BPF_F_MMAPABLE,
            ..Default::default()
        };
        let bytes = u32::try_from(each).map_err(|e| failed("create", e.to_string()))?;
        let map = MapHandle::create(MapType::Array, Some(MAP), 4, bytes, cpus, &options);
        let map = map.map_err(|e| failed("create", format!("{e:#}")))?;
        let length = each * cpus as usize;
        // SAFETY: a fresh mapping of a map of this length, which is unmapped in `drop` alone.
        #[allow(unsafe_code)]
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(memory.cast::<u8>()) {
            Some(memory) if memory.as_ptr().cast() != libc::MAP_FAILED => {
                Ok(MappedRings { map, memory, each, cpus, slots })
            }
            _ => Err(failed("map", std::io::Error::last_os_error().to_string())),
        }
    }

    /// Puts this map in the place of an object's own, if `map` is that one.
    ///
    /// # Errors
    /// libbpf's.
    pub fn join(&self, map: &mut OpenMapMut<'_>) -> libbpf_rs::Result<()> {
        if map.name() == MAP { map.reuse_fd(self.map.as_fd()) } else { Ok(()) }
    }

    /// Sets the size in the programs' configuration.
    pub fn configure(&self, config: &mut mag_config) {
        config.ring_mask = self.slots - 1;
    }

    /// Number of rings.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Reads the complete records of one CPU, at most one round of its ring. Returns the bytes of the ring that they
    /// took.
    pub fn read(&self, cpu: u32, mut take: impl FnMut(&[u8])) -> usize {
        let Some(ring) = self.ring(cpu) else { return 0 };
        let read = ring::read(&ring, self.slots, |record| {
            // SAFETY: the slot is below `slots`, and behind the last one there is room for the longest record, so
            // the bytes are within the mapping. Nobody writes to them before `read` frees them after this call
            // (see `ring`).
            #[allow(unsafe_code)]
            take(unsafe {
                let at = ring.base.add(ring.data_at + record.slot as usize * SLOT_BYTES);
                std::slice::from_raw_parts(at.as_ptr(), record.bytes)
            });
        });
        read as usize * SLOT_BYTES
    }

    fn ring(&self, cpu: u32) -> Option<Ring> {
        if cpu >= self.cpus {
            return None;
        }
        // SAFETY: within the mapping, which has `cpus` rings of `each` bytes.
        #[allow(unsafe_code)]
        let base = unsafe { self.memory.add(cpu as usize * self.each) };
        let data_at = MAG_RING_COMMITS_AT as usize + self.slots as usize * size_of::<u64>();
        Some(Ring { base, data_at, slots: self.slots })
    }
}

impl Drop for MappedRings {
    fn drop(&mut self) {
        // SAFETY: mapped in `of` with this length, and no reference outlives `self`.
        #[allow(unsafe_code)]
        unsafe {
            libc::munmap(self.memory.as_ptr().cast(), self.each * self.cpus as usize);
        }
    }
}

/// The memory of one CPU.
struct Ring {
    base: NonNull<u8>,
    data_at: usize,
    slots: u32,
}

impl Ring {
    fn word(&self, slot: u32) -> &AtomicU64 {
        let at = MAG_RING_COMMITS_AT as usize + (slot & (self.slots - 1)) as usize * size_of::<u64>();
        // SAFETY: within the mapping, aligned, and accessed on this side only as an atomic.
        #[allow(unsafe_code)]
        unsafe {
            AtomicU64::from_ptr(self.base.add(at).as_ptr().cast())
        }
    }

    fn position(&self) -> &AtomicU32 {
        // SAFETY: the start of the mapping of this CPU; as in `word`.
        #[allow(unsafe_code)]
        unsafe {
            AtomicU32::from_ptr(self.base.as_ptr().cast())
        }
    }
}

impl Shared for Ring {
    #[inline]
    fn commit_word(&self, slot: u32) -> u64 {
        self.word(slot).load(Acquire)
    }

    fn clear(&self, slot: u32) {
        self.word(slot).store(0, Relaxed);
    }

    fn consumer(&self) -> u32 {
        self.position().load(Relaxed)
    }

    fn set_consumer(&self, position: u32) {
        self.position().store(position, Release);
    }
}

#[cfg(test)]
mod tests;
