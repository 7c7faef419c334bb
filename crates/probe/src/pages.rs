//! Finds the address of page memory. The kernel randomises it, so each capture determines it once.

use libbpf_rs::{Object, ProgramInput};
use rustix::net::{AddressFamily, SocketType, socket};
use std::os::fd::AsRawFd;

/// Number of slabs that must agree.
const ENOUGH: u64 = 3;

/// The constant between a scaled `struct page` address and the address of its memory. `None` if the search
/// fails; payload in pages is then unreadable.
pub fn base(object: &Object) -> Option<u64> {
    // its kind of socket leads to a slab, and from there to all others
    let tcp = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    let program = object.progs_mut().find(|program| program.name() == "find_pages")?;
    // as `struct page_query` in bpf/pages.bpf.c: descriptor, base, votes
    let mut query = [0_u8; 24];
    query[..8].copy_from_slice(&(tcp.as_raw_fd() as u64).to_ne_bytes());
    let input = ProgramInput { context_in: Some(&mut query), ..ProgramInput::default() };
    program.test_run(input).ok()?;
    let word = |at: usize| query.get(at..at + 8).and_then(|w| w.try_into().ok()).map_or(0, u64::from_ne_bytes);
    (word(16) >= ENOUGH).then(|| word(8))
}
