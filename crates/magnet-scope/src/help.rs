//! Help texts: subcommands in groups, and an example for each.

use crate::cli::Cli;
use crate::wrap::wrap;
use clap::{Command, CommandFactory};
use std::fmt::Write;

/// The groups, and in each the subcommands in the order of the help, with an example of their use.
const GROUPS: [(&str, &[(&str, &str)]); 6] = [
    (
        "Look",
        &[
            ("demo", "sudo magnet-scope demo"),
            ("live", "sudo magnet-scope live --filter 'port 443'"),
            ("run", "sudo magnet-scope run -- curl -sS https://example.org/"),
            ("replay", "magnet-scope replay recording"),
            ("gui", "magnet-scope gui client server"),
        ],
    ),
    (
        "Record",
        &[
            ("record", "sudo magnet-scope record -o recording --duration 10s"),
            ("ctl", "magnet-scope ctl enable dev.queue,ip.post"),
            ("info", "magnet-scope info recording"),
        ],
    ),
    (
        "Analyse",
        &[
            ("report", "magnet-scope report client server"),
            ("requests", "magnet-scope requests recording --where 'answer > 20ms'"),
            ("journeys", "magnet-scope journeys recording --slowest 5"),
            ("compare", "magnet-scope compare before after"),
            ("query", "magnet-scope query recording 'SELECT hop, count(*) FROM events GROUP BY hop'"),
            ("align", "magnet-scope align client server"),
        ],
    ),
    (
        "Share",
        &[
            ("export", "magnet-scope export recording -o tables --format parquet"),
            ("import", "magnet-scope import netlogger.log -o recording"),
            ("ship", "magnet-scope ship recordings s3://bucket/recordings"),
        ],
    ),
    (
        "Serve",
        &[
            ("agent", "sudo magnet-scope agent"),
            ("relay", "magnet-scope relay --connect node1,node2"),
            ("metrics", "sudo magnet-scope metrics"),
            ("mon", "sudo magnet-scope mon"),
            ("supermon", "magnet-scope supermon node1:2709 node2:2709"),
        ],
    ),
    (
        "Check",
        &[
            ("doctor", "sudo magnet-scope doctor"),
            ("hops", "sudo magnet-scope hops"),
            ("health", "sudo magnet-scope health"),
            ("sched", "sudo magnet-scope sched --duration 10s"),
            ("config", "magnet-scope config --show"),
        ],
    ),
];

/// Examples of the whole program.
const EXAMPLES: [(&str, &str); 5] = [
    ("sudo magnet-scope demo", "two hosts on this machine, real traffic"),
    ("sudo magnet-scope run -- curl -sS https://example.org/", "what one command waits for"),
    ("sudo magnet-scope --container web", "a container, live"),
    ("sudo magnet-scope record -o recording --duration 10s", "ten seconds, for later"),
    ("magnet-scope report recording", "where the time went"),
];

/// Columns of the list of subcommands, those of the help of options at most.
const WIDTH: usize = 100;

/// The command line with its help texts.
pub fn command() -> Command {
    let command = Cli::command();
    let groups = groups(&command);
    let mut examples = String::from("Examples:\n");
    let wide = EXAMPLES.iter().map(|(line, _)| line.len()).max().unwrap_or_default();
    for (line, what) in EXAMPLES {
        // Writing to a string cannot fail.
        let _ = writeln!(examples, "  {line:<wide$}  {what}");
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\nCommands:\n{groups}\n{examples}\nOptions:\n{{options}}"
    );
    let mut command = command.help_template(template);
    for (name, example) in all() {
        // A build without the window or SQL lacks their subcommands.
        if command.find_subcommand(name).is_some() {
            command = command.mut_subcommand(name, |sub| sub.before_help(format!("Example: {example}")));
        }
    }
    command
}

/// All subcommands with their examples.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    GROUPS.into_iter().flat_map(|(_, of)| of.iter().copied())
}

/// The list of subcommands.
fn groups(command: &Command) -> String {
    let wide = all().map(|(name, _)| name.len()).max().unwrap_or_default();
    let indent = " ".repeat(wide + 4);
    let mut text = String::new();
    for (title, of) in GROUPS {
        let _ = writeln!(text, " {title}");
        for sub in of.iter().filter_map(|(name, _)| command.find_subcommand(name)) {
            let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
            wrap(&mut text, &format!("  {:<wide$}  {about}", sub.get_name()), WIDTH, &indent);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_is_in_one_group() {
        let mut listed: Vec<&str> = all().map(|(name, _)| name).collect();
        let command = Cli::command();
        let mut visible: Vec<&str> =
            command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(Command::get_name).collect();
        listed.retain(|name| visible.contains(name) || cfg!(feature = "gui") && cfg!(feature = "query"));
        listed.sort_unstable();
        visible.sort_unstable();
        assert_eq!(listed, visible);
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        let lines = all().map(|(name, line)| (Some(name), line)).chain(EXAMPLES.map(|(line, _)| (None, line)));
        for (name, line) in lines {
            if name.is_some_and(|name| Cli::command().find_subcommand(name).is_none()) {
                continue;
            }
            let line = line.strip_prefix("sudo ").unwrap_or(line);
            // Quotes are around whole words only.
            let words = line.split('\'').enumerate().flat_map(|(n, part)| match n % 2 {
                0 => part.split_ascii_whitespace().collect(),
                _ => vec![part],
            });
            let matches = command().try_get_matches_from(words);
            let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(name.is_none() || matches.subcommand_name() == name, "{line}");
        }
    }

    #[test]
    fn help_fits_a_terminal() {
        let help = command().render_long_help().to_string();
        let list: Vec<&str> = help
            .lines()
            .skip_while(|line| *line != "Commands:")
            .take_while(|line| *line != "Options:")
            .collect();
        assert!(list.len() > 30, "{help}");
        assert!(list.iter().all(|line| line.chars().count() <= WIDTH), "{help}");
    }
}
