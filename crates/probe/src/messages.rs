//! Buffer for libbpf's messages: errors quote them, and standard error stays clean.

use libbpf_rs::PrintLevel;
use std::sync::Mutex;

static MESSAGES: Mutex<String> = Mutex::new(String::new());

/// Lines that an error shows.
const SHOWN: usize = 6;

#[expect(clippy::needless_pass_by_value, reason = "the signature is libbpf-rs's")]
fn take_down(_level: PrintLevel, message: String) {
    if let Ok(mut messages) = MESSAGES.lock() {
        // bounded: a verifier log can have megabytes
        if messages.len() + message.len() > 1 << 16 {
            messages.clear();
        }
        messages.push_str(&message);
    }
}

/// Starts to buffer messages.
pub fn keep() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, take_down)));
}

/// Returns and clears all messages.
pub fn all() -> String {
    MESSAGES.lock().map(|mut l| std::mem::take(&mut *l)).unwrap_or_default()
}

/// Returns the last lines, which include the verifier's, and clears the buffer.
pub fn last() -> String {
    tail(&all())
}

/// The last lines of messages.
pub fn tail(messages: &str) -> String {
    let tail: Vec<&str> = messages.lines().rev().filter(|l| !l.trim().is_empty()).take(SHOWN).collect();
    tail.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
