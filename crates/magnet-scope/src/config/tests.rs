use super::*;
use crate::cli::{Cli, Command as Sub};
use crate::help;
use clap::FromArgMatches;
use std::path::Path;

fn config(text: &str) -> Result<Config> {
    let mut config = Config::default();
    config.add(file::settings(Path::new("/c.toml"), text)?);
    Ok(config)
}

/// The command line with these defaults.
fn parsed(text: &str, words: &[&str]) -> Cli {
    let command =
        config(text).and_then(|config| config.apply(help::command())).unwrap_or_else(|e| panic!("{e:#}"));
    let matches = command.try_get_matches_from([&["magnet-scope"], words].concat());
    Cli::from_arg_matches(&matches.unwrap_or_else(|e| panic!("{e}"))).expect("it was parsed")
}

fn refusal(text: &str) -> String {
    let error = config(text).and_then(|config| config.apply(help::command())).expect_err("it is refused");
    let (what, why, _) = crate::failure::parts(&error);
    format!("{what}: {why}")
}

const TEXT: &str = "mode = \"640\"\n[record]\nhops = \"all\"\nnetns = [\"host\", \"all\"]\nbulk = true\nring-size = \"32MiB\"\n\
                    [live]\nduration = \"3s\"\n";

#[test]
fn values_are_defaults_and_the_command_line_replaces_them() {
    let cli = parsed(TEXT, &["record", "-o", "x", "--netns", "web"]);
    assert_eq!(cli.mode, 0o640);
    let Some(Sub::Record(record)) = cli.command else { panic!("another subcommand") };
    let shown = format!("{record:?}");
    assert!(shown.contains("bulk: true") && shown.contains("ring_size: 33554432"), "{shown}");
    assert!(shown.contains("netns: [\"web\"]") && !shown.contains("\"host\""), "{shown}");
    let cli = parsed(TEXT, &[]);
    assert_eq!(cli.live.capture.duration, Some(std::time::Duration::from_secs(3)));
    let cli = parsed(TEXT, &["live", "--mode", "600", "--duration", "4s"]);
    assert_eq!(cli.mode, 0o600);
    let Some(Sub::Live(live)) = cli.command else { panic!("another subcommand") };
    assert_eq!(live.capture.duration, Some(std::time::Duration::from_secs(4)));
}

#[test]
fn what_no_option_accepts_is_refused_with_its_place() {
    for (text, words) in [
        ("[recrod]\nhops = \"all\"", "no subcommand is called recrod"),
        ("[record]\nhobs = \"all\"", "`record` has no such option"),
        ("[record]\nhelp = true", "`record` has no such option"),
        ("[demo-host]\nx = 1", "no subcommand is called demo-host"),
        ("hops = \"all\"", "no option of all subcommands"),
        ("[record]\nhops = \"dev.xmitt\"", "dev.xmit"),
        ("[record]\nhops = [\"all\", \"default\"]", "it takes one value, and has 2"),
        ("[record]\nbulk = \"yes\"", "it is a flag"),
        ("[record]\nring-size = 2026-01-01", "no text, number"),
        ("[record]\nring-size = []", "no text, number"),
        ("[record", "is no TOML"),
    ] {
        let message = refusal(text);
        assert!(message.contains(words) && message.contains("/c.toml"), "{text}: {message}");
    }
}

#[test]
fn a_later_file_replaces_single_options() {
    let mut all = config("[record]\nhops = \"all\"\nbulk = true").expect("valid");
    all.add(file::settings(Path::new("/own.toml"), "[record]\nhops = \"default\"").expect("valid"));
    let shown: Vec<_> =
        all.settings().iter().map(|s| (s.place(), s.values.join(","), s.file.clone())).collect();
    let expected = [
        ("[record] bulk".to_owned(), "true".to_owned(), PathBuf::from("/c.toml")),
        ("[record] hops".to_owned(), "default".to_owned(), PathBuf::from("/own.toml")),
    ];
    assert_eq!(shown, expected);
}

/// Every option of every subcommand, with a value that cannot be meant.
#[test]
fn no_option_panics_with_a_default() {
    let command = help::command();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        for option in sub.get_arguments().filter_map(|arg| arg.get_long()) {
            for value in ["true", "\"\"", "-1", "[\"a\", \"b\"]"] {
                let text = format!("[{}]\n{option} = {value}", sub.get_name());
                if let Ok(config) = config(&text)
                    && let Ok(mut command) = config.apply(help::command())
                {
                    command.build();
                }
            }
        }
    }
}
