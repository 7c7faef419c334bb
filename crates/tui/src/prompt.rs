//! A prompt: a line of text that becomes an action.

use magscope_scope::command::{LineState, Question};
use tui_input::Input;

/// State of an open prompt.
#[derive(Debug)]
pub struct Prompt {
    /// The question.
    pub question: Question,
    /// Input text.
    pub input: Input,
    /// Candidates of Tab, and the place among earlier lines.
    pub line: LineState,
    /// Error in the last entry.
    pub wrong: Option<String>,
}

impl Prompt {
    /// A prompt with the current value.
    pub fn new(question: Question, now: String) -> Self {
        Prompt { question, input: Input::new(now), line: LineState::default(), wrong: None }
    }
}
