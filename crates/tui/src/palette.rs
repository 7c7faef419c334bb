//! The command palette: commands matched by typed letters.

use magscope_scope::command::{COMMANDS, Command, behind, find};
use tui_input::Input;

/// Maximum length of an input, characters.
pub const LONGEST: usize = 512;

/// State of the open palette.
#[derive(Debug)]
pub struct Palette {
    /// Input text.
    pub input: Input,
    /// Matching commands, best first.
    pub found: Vec<&'static Command>,
    /// Index of the selected one.
    pub chosen: usize,
}

impl Default for Palette {
    fn default() -> Self {
        Palette { input: Input::default(), found: COMMANDS.iter().collect(), chosen: 0 }
    }
}

impl Palette {
    /// Repeats the search for the new input.
    pub fn search(&mut self) {
        self.found = find(self.input.value());
        self.chosen = 0;
    }

    /// Moves the selection down (1) or up (−1).
    pub fn step(&mut self, by: isize) {
        let last = self.found.len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add_signed(by).min(last);
    }

    /// The selected command and its argument.
    pub fn choice(&self) -> Option<(&'static Command, &str)> {
        Some((self.found.get(self.chosen)?, behind(self.input.value())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
