//! Bytes on the heap, by thread: tests that run at the same time do not count each other's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Without a destructor, so that it may be used at any time of a thread.
    static HELD: Cell<i64> = const { Cell::new(0) };
}

/// Bytes that this thread allocated, minus those that it released.
pub fn held_bytes() -> i64 {
    HELD.get()
}

fn count(bytes: usize, sign: i64) {
    HELD.set(HELD.get() + sign * bytes as i64);
}

/// The system's allocator with a count of the requested bytes.
struct Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator.
#[allow(unsafe_code)] // an allocator requires unsafe code
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(bytes, 1);
        // SAFETY: the caller's guarantees are those of this call.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
