//! Trial loads: a kernel may have a feature and still refuse its use.

use crate::embedded::TRIAL;
use crate::messages;
use libbpf_rs::ObjectBuilder;

/// Loads a trampoline program without attaching it.
///
/// # Errors
/// The kernel's message.
pub fn fentry() -> Result<(), String> {
    messages::keep();
    let open =
        ObjectBuilder::default().open_memory(TRIAL.decompress().bytes()).map_err(|e| format!("{e:#}"))?;
    let tried = open.load().map(drop).map_err(|e| format!("{e:#}"));
    let _message = messages::last();
    tried
}
