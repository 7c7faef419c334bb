//! The key map: which chord runs which command. The source is TOML: the built-in map and the user's overrides.

use super::chord::Chord;
use crate::View;
use crate::command::{COMMANDS, Command, command, nearest};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use toml::Spanned;

/// The map that is built in, without the keys of the views.
const BUILT_IN: &str = include_str!("default.toml");

/// Differences of the window, which has other habits: w, a, s and d move the picture.
const WINDOW: &str = include_str!("window.toml");

/// The map that is built in.
fn built_in() -> String {
    View::pages()
        .fold(BUILT_IN.to_owned(), |text, (page, spec)| text + &format!("{page} = \"{}\"\n", spec.name))
}

/// Value that removes a binding.
const NONE: &str = "none";

/// Which chord does what.
#[derive(Clone, Debug)]
pub struct KeyMap {
    by_chord: HashMap<Chord, &'static Command>,
    /// In the order of the source, the user's first.
    order: Vec<(Chord, &'static Command)>,
}

/// An error in a key map, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct KeyMapError {
    /// Line, from 1.
    pub line: usize,
    /// The error, and how to correct it.
    pub what: String,
}

impl fmt::Display for KeyMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl KeyMap {
    /// The map that is built in.
    pub fn built_in() -> Self {
        // A test parses it. After an error there would be no keys, and Ctrl-C is not part of the map.
        Self::parse(&built_in()).unwrap_or_else(|_| KeyMap { by_chord: HashMap::new(), order: Vec::new() })
    }

    /// The built-in map with the user's overrides: `chord = "command"`, or `"none"` to remove a binding.
    pub fn with_user(text: &str) -> Result<Self, KeyMapError> {
        let mut map = Self::built_in();
        map.lay_over(rows(text)?);
        Ok(map)
    }

    /// The built-in map of the window.
    pub fn of_window() -> Self {
        let mut map = Self::built_in();
        map.lay_over(rows(WINDOW).unwrap_or_default()); // a test parses it
        map
    }

    /// The same with the user's overrides, which are those of the terminal.
    pub fn of_window_with_user(text: &str) -> Result<Self, KeyMapError> {
        let mut map = Self::of_window();
        map.lay_over(rows(text)?);
        Ok(map)
    }

    /// Replaces bindings.
    fn lay_over(&mut self, rows: Vec<(Chord, Option<&'static Command>)>) {
        for (chord, command) in &rows {
            self.by_chord.remove(chord);
            self.order.retain(|(other, _)| other != chord);
            if let Some(command) = command {
                self.by_chord.insert(*chord, command);
            }
        }
        let rows = rows.into_iter().filter_map(|(chord, command)| Some((chord, command?)));
        self.order.splice(0..0, rows);
    }

    fn parse(text: &str) -> Result<Self, KeyMapError> {
        let order: Vec<_> =
            rows(text)?.into_iter().filter_map(|(chord, command)| Some((chord, command?))).collect();
        Ok(KeyMap { by_chord: order.iter().copied().collect(), order })
    }

    /// The command of a chord.
    pub fn get(&self, chord: Chord) -> Option<&'static Command> {
        self.by_chord.get(&chord).copied()
    }

    /// The chords of a command, the one to show first.
    pub fn chords<'a>(&'a self, command: &'a Command) -> impl Iterator<Item = Chord> + 'a {
        self.order.iter().filter(|(_, other)| other.name == command.name).map(|(chord, _)| *chord)
    }

    /// The chords of a command in the notation of the help: `↑ k`; empty without any.
    pub fn shown(&self, command: &Command) -> String {
        let chords: Vec<_> = self.chords(command).map(|chord| chord.to_string()).collect();
        chords.join(" ")
    }
}

/// Each chord with its command, or `None` for a removed binding.
fn rows(text: &str) -> Result<Vec<(Chord, Option<&'static Command>)>, KeyMapError> {
    let line_of = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let written: BTreeMap<Spanned<String>, Spanned<String>> =
        toml::from_str(text).map_err(|error| KeyMapError {
            line: line_of(error.span().map_or(0, |span| span.start)),
            what: error.message().to_owned(),
        })?;
    let mut written: Vec<_> = written.into_iter().collect();
    written.sort_by_key(|(key, _)| key.span().start);
    let mut rows: Vec<(Chord, Option<&'static Command>)> = Vec::with_capacity(written.len());
    for (key, name) in written {
        let wrong = |what| KeyMapError { line: line_of(key.span().start), what };
        let text = key.get_ref();
        let chord = Chord::parse(text).ok_or_else(|| {
            wrong(format!("`{text}` is no key; write it as in `q`, `G`, `space`, `ctrl-l`, `shift-left`, `f1`"))
        })?;
        if rows.iter().any(|(other, _)| *other == chord) {
            return Err(wrong(format!("`{text}` has been given away above")));
        }
        let name = name.get_ref().as_str();
        let command = match (name, command(name)) {
            (NONE, _) => None,
            (_, Some(command)) => Some(command),
            (_, None) => {
                let all = COMMANDS.len();
                return Err(wrong(format!(
                    "`{name}` is no command; nearest is `{}`, and `:` lists all {all}",
                    nearest(name)
                )));
            }
        };
        rows.push((chord, command));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(map: &KeyMap, chord: &str) -> Option<&'static str> {
        map.get(Chord::parse(chord).unwrap()).map(|command| command.name)
    }

    #[test]
    fn the_built_in_map_is_right_and_every_command_can_be_reached() {
        let map = KeyMap::parse(&built_in()).unwrap();
        for command in COMMANDS.iter().filter(|command| !command.palette_only) {
            assert!(map.chords(command).next().is_some(), "{} has no key", command.name);
        }
        assert_eq!(name(&map, "?"), Some("help"));
        assert_eq!(name(&map, "space"), Some("pause"));
    }

    #[test]
    fn a_users_map_lies_over_it() {
        let map = KeyMap::with_user("# mine\nx = \"quit\"\nq = \"none\"\n'space' = \"help\"\n").unwrap();
        assert_eq!((name(&map, "x"), name(&map, "q"), name(&map, "space")), (Some("quit"), None, Some("help")));
        assert_eq!(name(&map, "-"), Some("coarser"), "the rest stays");
        assert_eq!(map.shown(command("help").unwrap()).split(' ').next(), Some("Space"), "the user's first");
    }

    #[test]
    fn the_window_moves_the_picture_with_wasd_and_loses_no_command() {
        rows(WINDOW).expect("the window's map is right");
        let map = KeyMap::of_window();
        let moved = ["w", "a", "s", "d", "f"].map(|chord| name(&map, chord).unwrap());
        assert_eq!(moved, ["zoom-in", "earlier", "zoom-out", "later", "fit-selection"]);
        for command in COMMANDS.iter().filter(|command| !command.palette_only) {
            assert!(map.chords(command).next().is_some(), "{} has no key in the window", command.name);
        }
        let users = KeyMap::of_window_with_user("w = \"quit\"").unwrap();
        assert_eq!((name(&users, "w"), name(&users, "a")), (Some("quit"), Some("earlier")));
        assert_eq!(name(&KeyMap::built_in(), "w"), Some("next-capture"), "the terminal keeps its own");
    }

    #[test]
    fn mistakes_are_named_by_line() {
        let table = [
            ("x = \"quit\"\nhyper-x = \"quit\"", 2, "`hyper-x` is no key"),
            ("\n\nx = \"quti\"", 3, "`quti` is no command; nearest is `quit`"),
            ("x = \"quit\"\n\"x\" = \"help\"", 2, "duplicate key"),
            ("ctrl-l = \"quit\"\nCtrl-L = \"help\"", 2, "given away above"),
            ("x = 7", 1, "expected"),
            ("x = [", 1, ""),
        ];
        for (text, line, what) in table {
            let error = KeyMap::with_user(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.what.contains(what), "{text:?}: {error}");
        }
    }
}
