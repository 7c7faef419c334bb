//! Search for commands by some of their letters.

use super::{COMMANDS, Command};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

/// The text after the name of a command; empty without one.
pub fn behind(typed: &str) -> &str {
    typed.trim().split_once(' ').map_or("", |(_, rest)| rest.trim())
}

/// The search term: the complete text, or the name before an argument.
fn word(typed: &str) -> &str {
    let first = typed.trim_start().split(' ').next().unwrap_or_default();
    if COMMANDS.iter().any(|command| command.name == first) { first } else { typed }
}

/// The commands that contain these letters in this order, the best match first, a name before its description.
/// Arguments are not part of the search.
pub fn find(typed: &str) -> Vec<&'static Command> {
    let typed = word(typed);
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
    // stable: equal matches stay in the order of the table
    found.sort_by_key(|(exact, best, _)| std::cmp::Reverse((*exact, *best)));
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
        assert_eq!(
            (first("screenshot in the evening"), behind("screenshot  in the  evening ")),
            (Some("screenshot"), "in the  evening")
        );
    }
}
