//! The blamed step in words: the words of the model, and the thread's name.

use crate::format::short_duration;
use crate::lifeline::{Lifeline, Step};
use magscope_core::blame::Part;
pub use magscope_core::blame::step_words;
use std::borrow::Cow;
use std::fmt::Write as _;

/// The blamed step with its details, without the time: `waiting for a CPU (postgres/2211)`.
///
/// `comm_of` gives the name of a thread, if available.
pub fn blame_words<'a>(line: &Lifeline, step: Step, comm_of: impl FnOnce(u32) -> Option<&'a str>) -> String {
    if let Some(words) = wait_words(line, step) {
        return words.into_owned();
    }
    let mut words = step_words(step.from, step.to, line.journey.proto);
    if let Some(rung) = line.journey.rung(step.to).filter(|rung| rung.tid != 0) {
        // Writing to a string cannot fail.
        let _ = match comm_of(rung.tid) {
            Some(comm) => write!(words, " ({comm}/{})", rung.tid),
            None => write!(words, " ({})", rung.tid),
        };
    }
    match line.journey.retransmits() {
        0 => words,
        1 => format!("resent: {words}"),
        n => format!("resent {n}×: {words}"),
    }
}

/// A step that is a wait for other bytes or another copy, in words, with the proven time where that is not all of the step.
pub fn wait_words(line: &Lifeline, step: Step) -> Option<Cow<'static, str>> {
    if step.is_wait {
        return Some(Part::Retransmission.words().into());
    }
    // The rest of the step is the stack's.
    let words = |words: &'static str, ns: u64| match ns {
        ns if ns == step.ns => Some(words.into()),
        ns if ns > step.ns / 2 => Some(format!("{words}, {} of it", short_duration(ns)).into()),
        _ => None,
    };
    let window_ns = line.journey.receive_window_within_ns(step.from, step.to, step.ns);
    words(Part::ReceiveWindow.words(), window_ns).or_else(|| {
        let wait = line.journey.head_of_line?;
        words(wait.words(), wait.within_ns(step.from, step.to, step.at_ns, step.ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::Hop;

    #[test]
    fn blame_names_the_reader_and_the_retransmission() {
        let mut line = crate::lifeline::tests::lifeline(1, &[(Hop::SockReady, 0), (Hop::AppRecv, 4_020_000)]);
        line.journey.reader = Some(magscope_core::journey::ThreadRef { tgid: 2211, tid: 2211 });
        let step = Step {
            from: Hop::TaskWake,
            to: Hop::AppRecv,
            at_ns: 1,
            ns: 1,
            is_wait: false,
            forwarder: 0,
            tunnel: 0,
        };
        assert_eq!(blame_words(&line, step, |_| Some("postgres")), "waiting for the reader (postgres/2211)");
        line.journey.copies_left_out = 2;
        assert_eq!(blame_words(&line, step, |_| None), "resent: waiting for the reader (2211)");
        let wait = Step { is_wait: true, ..step };
        assert_eq!(blame_words(&line, wait, |_| None), "waiting for retransmission");
    }
}
