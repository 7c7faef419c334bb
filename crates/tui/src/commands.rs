//! Every command there is: one table, which the key map, the help, the footer and the palette all read.

use magscope_scope::Action;

/// A thing a user can ask for.
#[derive(Debug)]
pub struct Command {
    /// As written in a key map and in the palette.
    pub name: &'static str,
    /// In words, for the help.
    pub words: &'static str,
    /// In a word, for the line of keys at the bottom; empty where it is not there. Neighbours with the same word share it.
    pub short: &'static str,
    /// What it asks for.
    pub does: Does,
    /// Whether it needs no key.
    pub palette_only: bool,
}

/// What a command asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Does {
    /// Something the scope does.
    Act(Action),
    /// Something the screen does.
    Own(Own),
}

/// What the screen does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Shows the keys.
    Help,
    /// Lists the commands, to choose by typing.
    Palette,
    /// Hands the mouse back to the terminal, or takes it.
    Mouse,
    /// Writes the screen to a file, drawn.
    Svg,
    /// Writes the screen to a file, as text.
    Text,
    /// The next colours.
    Theme,
    /// Draws everything afresh.
    Redraw,
    /// Hands the terminal to the shell until the program is resumed.
    Suspend,
}

const fn act(name: &'static str, short: &'static str, action: Action, words: &'static str) -> Command {
    Command { name, words, short, does: Does::Act(action), palette_only: false }
}

const fn own(name: &'static str, short: &'static str, own: Own, words: &'static str) -> Command {
    Command { name, words, short, does: Does::Own(own), palette_only: false }
}

/// Without a key: found by typing.
const fn typed(name: &'static str, own: Own, words: &'static str) -> Command {
    Command { name, words, short: "", does: Does::Own(own), palette_only: true }
}

/// Every command.
pub static COMMANDS: &[Command] = &[
    own("help", "help", Own::Help, "this help"),
    act("pause", "stop", Action::TogglePause, "stop the picture, or let it go on"),
    act("finer", "timebase", Action::TimebaseFiner, "less time a division"),
    act("coarser", "timebase", Action::TimebaseCoarser, "more time a division"),
    act("autoset", "", Action::Autoset, "let the scope choose the timebase"),
    act("overlay", "overlay", Action::ToggleAlign, "overlay: all journeys from the left edge"),
    act("earlier", "pan", Action::Pan(-1), "earlier (stops the picture)"),
    act("later", "pan", Action::Pan(1), "later (stops the picture)"),
    act("journey-above", "journey", Action::SelectJourney(-1), "journey above"),
    act("journey-below", "journey", Action::SelectJourney(1), "journey below"),
    act("inspect", "hop by hop", Action::ToggleInspector, "the journey hop by hop"),
    act("list", "list", Action::NextList, "slowest, most recent, dropped and lost"),
    act("hop-above", "hop", Action::SelectHop(-1), "hop above"),
    act("hop-below", "hop", Action::SelectHop(1), "hop below"),
    act("route", "route", Action::NextRoute, "next route between nodes, or all"),
    act("protocol", "protocol", Action::NextProto, "tcp, udp, or all"),
    own("palette", "commands", Own::Palette, "every command, by typing some of its name"),
    own("mouse", "", Own::Mouse, "mouse: drag zooms, wheel scales, click inspects; or the terminal's own"),
    own("screenshot", "", Own::Svg, "write the screen to a file (SVG)"),
    typed("screenshot-text", Own::Text, "write the screen to a file (text)"),
    own("theme", "", Own::Theme, "next colours"),
    own("redraw", "", Own::Redraw, "draw everything afresh"),
    typed("suspend", Own::Suspend, "back to the shell until `fg` (Ctrl-Z)"),
    act("clear", "", Action::Clear, "forget journeys and counts"),
    act("back", "", Action::Back, "close, or undo the selection"),
    act("quit", "end", Action::Quit, "end"),
];

/// The command of this name.
pub fn command(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// The command whose name is the least typing away.
pub fn nearest(name: &str) -> &'static str {
    let nearest = COMMANDS.iter().min_by_key(|command| distance(command.name, name));
    nearest.map_or("", |command| command.name)
}

/// Insertions, deletions and replacements from one to the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    // A line of a file can be long, a name is not: what is beyond cannot make it nearer.
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, y) in row[1..].iter_mut().zip(&b) {
            let next = (diagonal + usize::from(x != *y)).min(left + 1).min(*cell + 1);
            diagonal = *cell;
            *cell = next;
            left = next;
        }
        row[0] = i + 1;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_word_and_one_of_a_kind() {
        for (i, command) in COMMANDS.iter().enumerate() {
            assert!(!command.words.is_empty() && !command.name.contains(' '), "{}", command.name);
            assert!(COMMANDS[..i].iter().all(|other| other.name != command.name), "{}", command.name);
        }
    }

    #[test]
    fn the_nearest_name_is_offered() {
        assert_eq!((distance("quit", "quti"), distance("", "abc"), distance("abc", "")), (2, 3, 3));
        assert_eq!((nearest("quti"), nearest("journey-abov")), ("quit", "journey-above"));
    }
}
