//! Buffer for libbpf's messages: errors quote them, and standard error stays clean.
//!
//! libbpf prints in the thread that called it. Each thread has a buffer of its own, so that the messages of one load
//! are never taken for those of another.

use libbpf_rs::PrintLevel;
use std::cell::RefCell;

thread_local! {
    static MESSAGES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Lines that an error shows.
const SHOWN: usize = 6;

#[expect(clippy::needless_pass_by_value, reason = "the signature is libbpf-rs's")]
fn take_down(_level: PrintLevel, message: String) {
    // a thread that ends has no buffer any more
    let _ended = MESSAGES.try_with(|messages| {
        let mut messages = messages.borrow_mut();
        // bounded: a verifier log can have megabytes
        if messages.len() + message.len() > 1 << 16 {
            messages.clear();
        }
        messages.push_str(&message);
    });
}

/// Starts to buffer messages.
pub fn keep() {
    libbpf_rs::set_print(Some((PrintLevel::Warn, take_down)));
}

/// Returns and clears all messages of this thread.
pub fn all() -> String {
    MESSAGES.take()
}

/// Returns the last lines, which include the verifier's, and clears the buffer.
pub fn last() -> String {
    tail(&all())
}

/// The last lines of messages, without the library's name in front.
pub fn tail(messages: &str) -> String {
    let tail: Vec<&str> = messages.lines().rev().filter(|l| !l.trim().is_empty()).take(SHOWN).collect();
    let lines = tail.into_iter().rev().map(|line| line.trim_start_matches("libbpf: "));
    lines.collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_takes_no_message_of_this_one() {
        take_down(PrintLevel::Warn, "libbpf: prog 'here': failed to load: -22\n".to_owned());
        let there = std::thread::spawn(|| {
            take_down(PrintLevel::Warn, "libbpf: prog 'there': failed to load: -22\n".to_owned());
            all()
        });
        assert_eq!(there.join().expect("no panic"), "libbpf: prog 'there': failed to load: -22\n");
        assert_eq!(last(), "prog 'here': failed to load: -22");
        assert_eq!(all(), "", "taken");
    }
}
