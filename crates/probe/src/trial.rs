//! What a kernel has and what it lets be used are two things: some are tried.

use crate::messages;
use libbpf_rs::ObjectBuilder;

/// Aligned, because libbpf reads it in place.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
static TRIAL: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/trial.bpf.o")));

/// Loads a program for a trampoline at a function, and lets go of it; it is never attached.
///
/// # Errors
/// What the kernel said.
pub fn fentry() -> Result<(), String> {
    messages::keep();
    let open = ObjectBuilder::default().open_memory(&TRIAL.0).map_err(|e| format!("{e:#}"))?;
    let tried = open.load().map(drop).map_err(|e| format!("{e:#}"));
    let _said = messages::last();
    tried
}
