//! A prompt: a line of text that becomes an action.

use magscope_scope::command::Question;
use tui_input::Input;

/// A prompt while it is open.
#[derive(Debug)]
pub struct Prompt {
    /// What is asked for.
    pub question: Question,
    /// What has been typed.
    pub input: Input,
    /// What is wrong with what was entered last.
    pub wrong: Option<String>,
}

impl Prompt {
    /// Asks, with the answer there is.
    pub fn new(question: Question, now: String) -> Self {
        Prompt { question, input: Input::new(now), wrong: None }
    }
}
