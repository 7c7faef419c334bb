use super::*;
use crate::cli::{Cli, Command as Sub};
use crate::help;
use clap::FromArgMatches;
use std::ffi::OsString;
use std::path::Path;

fn config(text: &str) -> Result<Config> {
    let mut config = Config::default();
    config.add(file::settings(Path::new("/c.toml"), text)?);
    Ok(config)
}

/// The command line with the values of these files.
fn parsed_by(config: &Config, words: &[&str]) -> Result<Cli> {
    let command = help::command();
    let words = std::iter::once("magnet-scope").chain(words.iter().copied()).map(OsString::from).collect();
    let words = config.arguments(&command, words)?;
    let matches = command.try_get_matches_from(words);
    Ok(Cli::from_arg_matches(&matches.unwrap_or_else(|e| panic!("{e}"))).expect("it was parsed"))
}

/// The command line with the values of one file.
fn parsed(text: &str, words: &[&str]) -> Cli {
    let cli = config(text).and_then(|config| parsed_by(&config, words));
    cli.unwrap_or_else(|e| panic!("{e:#}"))
}

/// The subcommand with its options.
fn shown(text: &str, words: &[&str]) -> String {
    format!("{:?}", parsed(text, words).command)
}

fn refusal(text: &str, words: &[&str]) -> String {
    let error = config(text).and_then(|config| parsed_by(&config, words)).expect_err("it is refused");
    let (what, why, _) = crate::failure::parts(&error);
    format!("{what}: {why}")
}

const TEXT: &str = "mode = \"640\"\n[record]\nhops = \"all\"\nnetns = [\"host\", \"all\"]\nbulk = true\nring-size = \"32MiB\"\n\
                    [live]\nduration = \"3s\"\n";

#[test]
fn values_are_options_and_the_command_line_replaces_them() {
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
        let message = refusal(text, &["hops"]);
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

#[test]
fn a_setting_without_what_it_needs_has_no_effect_or_is_refused() {
    let command = help::command();
    let mut lacking = Vec::new();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let alone = sub.clone().mut_args(|arg| arg.required(false)).no_binary_name(true);
        for option in sub.get_arguments().filter_map(Arg::get_long) {
            let lacks = |value: &&str| {
                let matches = alone.clone().try_get_matches_from([format!("--{option}={value}")]);
                matches.is_err_and(|error| error.kind() == ErrorKind::MissingRequiredArgument)
            };
            // A value of each kind.
            let values = ["1", "1s", "1MiB", "1-2", "127.0.0.1:1"];
            let Some(value) = values.into_iter().find(lacks) else { continue };
            let place = format!("[{}] {option}", sub.get_name());
            let text = format!("[{}]\n{option} = \"{value}\"", sub.get_name());
            if matches!(option, "total-limit" | "listen") {
                let message = refusal(&text, &[sub.get_name()]);
                assert!(message.starts_with(&format!("/c.toml: {place} cannot be used: ")), "{message}");
                assert!(message.contains("required arguments were not provided: "), "{message}");
            } else {
                let words: Vec<OsString> = ["magnet-scope", sub.get_name()].map(OsString::from).to_vec();
                let all = config(&text).and_then(|config| config.arguments(&command, words.clone()));
                assert_eq!(all.expect("it has no effect"), words, "{place}");
            }
            lacking.push(place);
        }
    }
    for place in
        ["[record] total-limit", "[agent] listen", "[replay] press", "[live] tls", "[metrics] otlp-every"]
    {
        assert!(lacking.iter().any(|lacks| lacks == place), "{place}: {lacking:?}");
    }
}

#[test]
fn the_file_and_the_command_line_have_what_the_other_one_needs() {
    let text = "[record]\noutput = \"x\"\nrotate = \"1d\"\n[agent]\nlisten = \"127.0.0.1:1\"\n[relay]\nconnect = [\"a\", \"b\"]";
    let record = shown(text, &["record", "--total-limit", "1MiB"]);
    assert!(record.contains("output: \"x\"") && record.contains("total_limit: Some(1048576)"), "{record}");
    assert!(shown(text, &["agent", "--tls", "t"]).contains("listen: [127.0.0.1:1]"));
    let relay = shown(text, &["relay"]);
    assert!(relay.contains("\"a\"") && relay.contains("\"b\""), "{relay}");
}

#[test]
fn settings_that_exclude_each_other_are_refused_and_those_without_fault_are_not_named() {
    let text = "[record]\nlatency = true\nbulk = true\nrotate = \"1d\"\ntotal-limit = \"1MiB\"";
    let message = refusal(text, &["record", "-o", "x"]);
    assert!(
        message.starts_with("/c.toml: [record] bulk and /c.toml: [record] latency cannot be used: "),
        "{message}"
    );
    assert!(message.contains("--latency") && message.contains("cannot be used with"), "{message}");
}

#[test]
fn an_option_displaces_settings_that_it_excludes_and_what_needs_them() {
    let text = "[record]\nlatency = true\n[replay]\npicture = \"100x30\"\npress = \"q\"";
    let record = shown(text, &["record", "-o", "x", "--bulk"]);
    assert!(record.contains("latency: false") && record.contains("bulk: true"), "{record}");
    assert!(shown(text, &["record", "-o", "x"]).contains("latency: true"));
    let replay = shown(text, &["replay", "x", "--follow"]);
    assert!(replay.contains("picture: None") && replay.contains("press: None"), "{replay}");
    assert!(shown(text, &["replay", "x"]).contains("press: Some(\"q\")"));
    assert!(shown("[replay]\npress = \"q\"", &["replay", "x"]).contains("press: None"), "without a picture");
}

#[test]
fn a_later_file_displaces_what_it_excludes() {
    let mut all = config("[record]\nlatency = true").expect("valid");
    all.add(file::settings(Path::new("/own.toml"), "[record]\nbulk = true").expect("valid"));
    let cli = parsed_by(&all, &["record", "-o", "x"]).unwrap_or_else(|e| panic!("{e:#}"));
    let shown = format!("{:?}", cli.command);
    assert!(shown.contains("latency: false") && shown.contains("bulk: true"), "{shown}");
}

#[test]
fn a_subcommand_of_a_subcommand_has_the_options_of_all_alone() {
    let text = "mode = \"640\"\n[agent]\nlisten = \"127.0.0.1:1\"\ntls = \"t\"";
    assert_eq!(parsed(text, &["agent", "init", "d"]).mode, 0o640);
    assert_eq!(parsed(text, &["agent", "init", "--mode", "600", "d"]).mode, 0o600);
}

#[test]
fn words_that_are_wrong_by_themselves_come_back_as_they_are() {
    let command = help::command();
    let config = config(TEXT).expect("valid");
    for words in
        [&["magnet-scope", "record", "--help"][..], &["magnet-scope", "recrod"], &["magnet-scope", "-x"]]
    {
        let words: Vec<OsString> = words.iter().copied().map(OsString::from).collect();
        assert_eq!(config.arguments(&command, words.clone()).expect("no fault of the file"), words);
    }
}

/// Every option of every subcommand, with a value that cannot be meant.
#[test]
fn no_option_panics_with_a_value_of_a_file() {
    let command = help::command();
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        for option in sub.get_arguments().filter_map(Arg::get_long) {
            for value in ["true", "\"\"", "-1", "[\"a\", \"b\"]"] {
                let text = format!("[{}]\n{option} = {value}", sub.get_name());
                if let Ok(config) = config(&text) {
                    // It may be refused.
                    let _ = config.arguments(&command, vec!["magnet-scope".into(), sub.get_name().into()]);
                }
            }
        }
    }
}
