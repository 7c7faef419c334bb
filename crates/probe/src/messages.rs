//! What libbpf says meanwhile: kept for an error to show, instead of going to standard error.

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

/// From now on messages are kept.
pub fn keep() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, take_down)));
}

/// All of them so far; they are forgotten.
pub fn all() -> String {
    MESSAGES.lock().map(|mut l| std::mem::take(&mut *l)).unwrap_or_default()
}

/// The last lines, among them the verifier's last words; they are forgotten.
pub fn last() -> String {
    tail(&all())
}

/// The last lines of messages.
pub fn tail(messages: &str) -> String {
    let tail: Vec<&str> = messages.lines().rev().filter(|l| !l.trim().is_empty()).take(SHOWN).collect();
    tail.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
