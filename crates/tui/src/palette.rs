//! The command palette: every command, found by typing some of its letters.

use crate::commands::{COMMANDS, Command};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use tui_input::Input;

/// Characters a line takes. Nothing that is asked for is longer.
pub const LONGEST: usize = 512;

/// The palette while it is open.
#[derive(Debug)]
pub struct Palette {
    /// What has been typed.
    pub input: Input,
    /// The commands that match, the best first.
    pub found: Vec<&'static Command>,
    /// Which of them is chosen.
    pub chosen: usize,
}

impl Default for Palette {
    fn default() -> Self {
        Palette { input: Input::default(), found: COMMANDS.iter().collect(), chosen: 0 }
    }
}

impl Palette {
    /// Looks again, after something was typed.
    pub fn search(&mut self) {
        self.found = find(word(self.input.value()));
        self.chosen = 0;
    }

    /// Moves the choice down (1) or up (−1).
    pub fn step(&mut self, by: isize) {
        let last = self.found.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(last);
    }

    /// The command chosen, and what was typed behind its name.
    pub fn choice(&self) -> Option<(&'static Command, &str)> {
        let typed = self.input.value().trim();
        let rest = typed.split_once(' ').map_or("", |(_, rest)| rest.trim());
        Some((self.found.get(self.chosen)?, rest))
    }
}

/// What is looked for: all of it, or the name where something stands behind one.
fn word(typed: &str) -> &str {
    let first = typed.trim_start().split(' ').next().unwrap_or_default();
    if COMMANDS.iter().any(|command| command.name == first) { first } else { typed }
}

/// The commands that have these letters in this order, the best match first, a name before its description.
fn find(typed: &str) -> Vec<&'static Command> {
    let mut matcher = Matcher::new(Config::DEFAULT);
    let pattern = Pattern::parse(typed, CaseMatching::Ignore, Normalization::Smart);
    let mut buffer = Vec::new();
    let mut score = |text: &str| pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher);
    let mut found: Vec<_> = COMMANDS
        .iter()
        .filter_map(|command| {
            let exact = command.name == typed;
            let name = score(command.name).map(|score| score * 2);
            let best = name.max(score(command.words))?;
            Some((exact, best, command))
        })
        .collect();
    found.sort_by_key(|(exact, best, _)| std::cmp::Reverse((*exact, *best))); // stable: else as in the table
    found.into_iter().map(|(.., command)| command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(typed: &str) -> Option<&'static str> {
        find(typed).first().map(|command| command.name)
    }

    #[test]
    fn a_few_letters_find_a_command() {
        assert_eq!(find("").len(), COMMANDS.len());
        assert_eq!(first("quit"), Some("quit"));
        assert_eq!(first("scrsh"), Some("screenshot"));
        assert_eq!(first("pcapt"), Some("previous-capture"));
        assert_eq!(first("COARS"), Some("coarser"));
        assert_eq!(first("no such thing at all"), None);
    }

    #[test]
    fn what_stands_behind_a_name_is_its_argument() {
        let mut palette =
            Palette { input: Input::new("screenshot  in the  evening ".to_owned()), ..Palette::default() };
        palette.search();
        assert_eq!(palette.choice().map(|(c, rest)| (c.name, rest)), Some(("screenshot", "in the  evening")));
        palette.step(99);
        palette.step(-99);
        assert_eq!(palette.chosen, 0);
        palette.input = Input::new("zzzzz".to_owned());
        palette.search();
        palette.step(1);
        assert!(palette.choice().is_none());
    }
}
