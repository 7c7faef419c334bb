//! Trial loads: a kernel may have a feature and still refuse its use.

use crate::messages;
use libbpf_rs::ObjectBuilder;

/// Aligned, because libbpf reads it in place.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);
static TRIAL: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/trial.bpf.o")));

/// Loads a trampoline program without attaching it.
///
/// # Errors
/// The kernel's message.
pub fn fentry() -> Result<(), String> {
    messages::keep();
    let open = ObjectBuilder::default().open_memory(&TRIAL.0).map_err(|e| format!("{e:#}"))?;
    let tried = open.load().map(drop).map_err(|e| format!("{e:#}"));
    let _message = messages::last();
    tried
}
