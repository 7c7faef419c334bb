//! The fault of the traffic, as the parent asks for it: a word a line.

use magscope_scope::TourFault;
use std::sync::{Condvar, Mutex, PoisonError};

/// The words of the faults, and of none.
const WORDS: [(&str, Option<TourFault>); 3] = [
    ("full-buffer", Some(TourFault::FullBuffer)),
    ("slow-answers", Some(TourFault::SlowAnswers)),
    ("no-fault", None),
];

static NOW: Mutex<Option<TourFault>> = Mutex::new(None);
static CHANGED: Condvar = Condvar::new();

/// The word of a fault.
pub fn word_of(fault: Option<TourFault>) -> &'static str {
    WORDS.iter().find(|(_, of)| *of == fault).map_or("no-fault", |(word, _)| word)
}

/// Takes the fault of this word; an unknown word changes nothing.
pub fn set(word: &str) {
    if let Some((_, fault)) = WORDS.iter().find(|(of, _)| *of == word) {
        *NOW.lock().unwrap_or_else(PoisonError::into_inner) = *fault;
        CHANGED.notify_all();
    }
}

/// True if it is this one.
pub fn is(fault: TourFault) -> bool {
    *NOW.lock().unwrap_or_else(PoisonError::into_inner) == Some(fault)
}

/// Waits until it is this one.
pub fn wait_for(fault: TourFault) {
    let now = NOW.lock().unwrap_or_else(PoisonError::into_inner);
    let _now = CHANGED.wait_while(now, |now| *now != Some(fault)).unwrap_or_else(PoisonError::into_inner);
}
