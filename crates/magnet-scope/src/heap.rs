//! How the C library's allocator gives memory back to the system.

/// Allocations of this size and above are mapped each for itself, and unmapped when they are freed.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES: libc::c_int = 1 << 20;

/// Free bytes at the top of a heap that stay with the process.
#[cfg(target_env = "gnu")]
const TOP_BYTES: libc::c_int = 4 << 20;

/// Fixes both limits. glibc raises them to 32 MiB and 64 MiB after one large buffer was freed. A burst of traffic would then make
/// the process larger for good.
pub fn give_peaks_back() {
    #[cfg(target_env = "gnu")]
    #[allow(unsafe_code)]
    // SAFETY: `mallopt` takes two numbers, and no other thread runs yet. A refusal leaves the limits as they were.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, TOP_BYTES);
    }
}
