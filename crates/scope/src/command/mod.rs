//! The table of all commands. Key maps, help and command palettes of every front end read it.

mod find;
pub mod keys;
mod line;
mod meant;
mod question;

pub use find::{behind, find};
pub use line::{History, LineState, Values, candidates};
pub use question::Question;

use crate::{Action, Pick, View};
use magscope_core::words::nearest as nearest_word;
use std::sync::LazyLock;

/// A command of the user.
#[derive(Debug)]
pub struct Command {
    /// Name in a key map and in the palette.
    pub name: &'static str,
    /// Description for the help.
    pub words: &'static str,
    /// One word for the key line at the bottom; empty if the command is not shown there. Neighbours with the
    /// same word share it.
    pub short: &'static str,
    /// Effect of the command.
    pub does: CommandKind,
    /// True if the command needs no key.
    pub palette_only: bool,
}

/// The effect of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandKind {
    /// Something the scope does.
    Act(Action),
    /// Something the screen does.
    Own(FrontEndCommand),
}

/// A command for the front end, or one whose action depends on the view: see [`FrontEndCommand::action`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrontEndCommand {
    /// Shows the keys.
    Help,
    /// Lists the commands, to choose by typing.
    Palette,
    /// Prompts for a line of text.
    Ask(Question),
    /// Up (−1) or down (1) in the current table.
    Move(i8),
    /// The same by a page; on the picture, by a hop or a forwarder.
    Page(i8),
    /// Opens the selection.
    Open,
    /// Lists the signals, to choose loadlines.
    Channels,
    /// The next order of flows.
    Order,
    /// Flows by service, process, container, node, or each.
    Group,
    /// Cycles the roll mode: automatic, always, never.
    Roll,
    /// Measures over the picture, or between the cursors.
    Over,
    /// The other cursor.
    OtherCursor,
    /// Shows measurements over the picture, for screens without a side panel.
    Measurements,
    /// Releases the mouse to the terminal, or captures it.
    Mouse,
    /// Writes the screen to a file, drawn.
    Svg,
    /// Writes the screen to a file, as text.
    Text,
    /// Copies the selected row as text.
    Copy,
    /// The next colours.
    Theme,
    /// Draws everything afresh.
    Redraw,
    /// Returns the terminal to the shell until the program resumes.
    Suspend,
}

const fn act(name: &'static str, short: &'static str, action: Action, words: &'static str) -> Command {
    Command { name, words, short, does: CommandKind::Act(action), palette_only: false }
}

const fn own(name: &'static str, short: &'static str, own: FrontEndCommand, words: &'static str) -> Command {
    Command { name, words, short, does: CommandKind::Own(own), palette_only: false }
}

/// A command without a key, for the palette.
const fn typed(name: &'static str, own: FrontEndCommand, words: &'static str) -> Command {
    Command { name, words, short: "", does: CommandKind::Own(own), palette_only: true }
}

/// All commands: those of the views come from [the table of views](crate::VIEWS).
pub static COMMANDS: LazyLock<Vec<Command>> = LazyLock::new(|| {
    let views = View::pages().map(|(_, spec)| act(spec.name, "views", Action::Show(spec.view), spec.words));
    GENERAL.into_iter().chain(views).chain(INSTRUMENT).chain(SCREEN).chain(WINDOW).collect()
});

const GENERAL: [Command; 5] = [
    own("help", "help", FrontEndCommand::Help, "this help"),
    own("palette", "commands", FrontEndCommand::Palette, "every command, by typing some of its name"),
    act("quit", "end", Action::Quit, "end"),
    act("record", "", Action::ToggleRecording, "begin a recording of what comes from now on, or end it"),
    act("pause", "stop", Action::TogglePause, "stop the picture, or let it go on"),
];

/// An action without a key in the terminal; the window has keys for some.
const fn typed_act(name: &'static str, action: Action, words: &'static str) -> Command {
    Command { name, words, short: "", does: CommandKind::Act(action), palette_only: true }
}

/// Commands for which the window has keys.
const WINDOW: [Command; 3] = [
    typed_act("zoom-in", Action::Zoom { notches: -1, at: 0.5 }, "less time in the picture, by a quarter"),
    typed_act("zoom-out", Action::Zoom { notches: 1, at: 0.5 }, "more time in the picture, by a quarter"),
    typed_act(
        "fit-selection",
        Action::FitSelection,
        "show what is between the cursors, or the selected journey",
    ),
];

const INSTRUMENT: [Command; 65] = [
    act("next-view", "", Action::NextView(1), "the next view"),
    act("evidence", "why", Action::ShowEvidence, "show what the first line is concluded from"),
    act("coarser", "timebase", Action::TimebaseCoarser, "more time a division"),
    act("finer", "timebase", Action::TimebaseFiner, "less time a division"),
    act("earlier", "pan", Action::Pan(-1), "earlier by a division (stops the picture)"),
    act("later", "pan", Action::Pan(1), "later by a division (stops the picture)"),
    act("earlier-page", "", Action::PanBy(-1.0), "earlier by the picture's width"),
    act("later-page", "", Action::PanBy(1.0), "later by the picture's width"),
    act("autoset", "", Action::Autoset, "find the busiest flow, and scales that suit it"),
    act("fit", "", Action::Fit, "show all there is"),
    act("zoom-back", "", Action::ZoomBack, "the stretch shown before"),
    own("roll", "", FrontEndCommand::Roll, "scroll with time: at slow timebases, always, never"),
    own("up", "select", FrontEndCommand::Move(-1), "the row above: journey, flow, pair, event"),
    own("down", "select", FrontEndCommand::Move(1), "the row below"),
    own(
        "open",
        "hop by hop",
        FrontEndCommand::Open,
        "open it: a journey or a forwarder hop by hop, a flow's journeys",
    ),
    own("page-up", "hop", FrontEndCommand::Page(-1), "hop or forwarder above; in a table, a page up"),
    own("page-down", "hop", FrontEndCommand::Page(1), "hop or forwarder below; in a table, a page down"),
    act("request", "", Action::ShowExchange, "the request of a journey, or the journey of a request"),
    act("list", "list", Action::NextList, "slowest, most recent, or failed: dropped and lost"),
    own("filter", "filter", FrontEndCommand::Ask(Question::Filter), "only journeys for which something holds"),
    act("only-this", "", Action::Narrow(true), "only the flow or service of the selected row"),
    act("not-this", "", Action::Narrow(false), "all but the flow or service of the selected row"),
    act("route", "", Action::NextRoute, "next route between nodes, or all"),
    act("protocol", "", Action::NextProto, "tcp, udp, or all"),
    act("everything", "", Action::Pick(Pick::Nothing), "undo what was picked"),
    own(
        "group",
        "group",
        FrontEndCommand::Group,
        "flows by service, process, container, node, or each by itself",
    ),
    own("order", "", FrontEndCommand::Order, "the next column that flows are ordered by"),
    own("trigger", "trigger", FrontEndCommand::Ask(Question::Trigger), "what to wait for"),
    act("trigger-mode", "", Action::NextTriggerMode, "auto, normal, single"),
    act("arm", "", Action::Arm, "wait again"),
    act("force", "", Action::Force, "fire now"),
    act("next-capture", "", Action::NextCapture(1), "what the next trigger kept"),
    act("previous-capture", "", Action::NextCapture(-1), "what the trigger before kept"),
    typed("hold-off", FrontEndCommand::Ask(Question::HoldOff), "what is left out after it fired"),
    typed("pre-trigger", FrontEndCommand::Ask(Question::PreTrigger), "how much is kept of before it fired"),
    typed("trigger-window", FrontEndCommand::Ask(Question::Window), "how much is kept at all"),
    act("cursors", "cursors", Action::ToggleCursors, "two cursors, or none"),
    own("other-cursor", "", FrontEndCommand::OtherCursor, "move the other cursor from now on"),
    act("cursor-left", "", Action::MoveCursor(-1), "move it to the left"),
    act("cursor-right", "", Action::MoveCursor(1), "move it to the right"),
    act("cursor-back", "", Action::SnapCursor(-1), "move it to the event before"),
    act("cursor-on", "", Action::SnapCursor(1), "move it to the next event"),
    own("measure", "", FrontEndCommand::Measurements, "measurements (wide screens have them always)"),
    own("measure-over", "", FrontEndCommand::Over, "measure the picture, or between the cursors"),
    own("channels", "", FrontEndCommand::Channels, "choose signals: cwnd, srtt, rates, queues, cpu, overhead"),
    act("next-channel", "", Action::NextChannel(1), "choose the next signal"),
    act("scale-up", "", Action::VerticalScale(1), "more per division"),
    act("scale-down", "", Action::VerticalScale(-1), "less per division"),
    act("offset-up", "", Action::VerticalOffset(1), "move it up"),
    act("offset-down", "", Action::VerticalOffset(-1), "move it down"),
    act("scale-auto", "", Action::VerticalAuto, "let the scope choose its scale"),
    act("log", "", Action::ToggleLog, "logarithmic, or linear"),
    own("math", "", FrontEndCommand::Ask(Question::Math), "compute a signal from others"),
    own("xy", "", FrontEndCommand::Ask(Question::Xy), "draw one signal against another"),
    act("all-hops", "", Action::ToggleAllHops, "lanes of hops that are off or not available here, or none"),
    act("overlay", "overlay", Action::ToggleAlign, "all journeys from the left edge"),
    act("persistence", "", Action::NextPersistence, "what was drawn stays: not, 1 s, 10 s, for ever"),
    act("step-back", "", Action::Step(-1), "the journey before"),
    act("step", "", Action::Step(1), "the next journey"),
    act("slower", "", Action::Slower, "play slower"),
    act("faster", "", Action::Faster, "play faster"),
    typed("speed", FrontEndCommand::Ask(Question::Speed), "play at a speed"),
    act("beginning", "", Action::SeekStart, "go to the beginning"),
    act("follow", "", Action::Follow, "go to the end, and stay there"),
    own("seek", "", FrontEndCommand::Ask(Question::Seek), "go to a part of it"),
];

const SCREEN: [Command; 10] = [
    own("mouse", "", FrontEndCommand::Mouse, "the mouse: the scope's, or the terminal's"),
    own("copy", "", FrontEndCommand::Copy, "copy the selected row to the clipboard"),
    own("screenshot", "", FrontEndCommand::Svg, "write the screen to a file (SVG)"),
    typed("screenshot-text", FrontEndCommand::Text, "write the screen to a file (text)"),
    own("theme", "", FrontEndCommand::Theme, "next colours"),
    own("redraw", "", FrontEndCommand::Redraw, "draw everything afresh"),
    typed("suspend", FrontEndCommand::Suspend, "back to the shell until `fg` (Ctrl-Z)"),
    act("tour-next", "", Action::NextTourStep, "the next step of the tour (`demo --tour`)"),
    act("clear", "", Action::Clear, "forget journeys and counts"),
    act("back", "", Action::Back, "close, or undo the selection"),
];

/// The command of this name.
pub fn command(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// The command with the least edit distance.
pub fn nearest(name: &str) -> &'static str {
    nearest_word(name, COMMANDS.iter().map(|command| command.name)).unwrap_or_default()
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
        assert_eq!((nearest("quti"), nearest("next-vew")), ("quit", "next-view"));
    }
}
