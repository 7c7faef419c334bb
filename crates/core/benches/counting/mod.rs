//! Bytes on the heap, counted by a wrapper of the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are held.
pub static HELD: AtomicUsize = AtomicUsize::new(0);
/// The most that were.
pub static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with a count of the requested bytes, without its rounding.
struct Counting;

fn grow(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call is forwarded unchanged to the system's allocator.
#[allow(unsafe_code)] // an allocator requires unsafe code
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size());
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
