//! `magnet-scope config`: the files of defaults, and what they set.

use crate::config::{Config, File, paths, read};
use crate::output;
use anyhow::Result;
use magscope_core::foreign::clean_lines;
use std::fmt::Write as _;

/// Arguments of `config`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the options that the files set, as a configuration file
    #[arg(long)]
    show: bool,
}

/// Prints the files or their settings.
pub fn run(args: &Args) -> Result<()> {
    let mut text = String::new();
    // Writing to a string cannot fail.
    if args.show {
        let config = Config::load()?;
        let mut command = None;
        for setting in config.settings() {
            if let Some(name) = setting.command.as_ref().filter(|name| command != Some(*name)) {
                command = Some(name);
                let _ = writeln!(text, "\n[{name}]");
            }
            let _ =
                writeln!(text, "{} = {}  # {}", setting.option, value(&setting.values), setting.file.display());
        }
        if text.is_empty() {
            text.push_str("# no file sets an option\n");
        }
    } else {
        for path in paths() {
            let state = match read(&path)? {
                File::Read(_) => "read".to_owned(),
                File::Ignored(why) => format!("not used: {why}"),
                File::Missing => "not there".to_owned(),
            };
            let _ = writeln!(text, "{}: {state}", path.display());
        }
    }
    output::text(&clean_lines(text.trim_start_matches('\n')))
}

/// The values in TOML.
fn value(values: &[String]) -> String {
    let text = |value: &String| match value.as_str() {
        "true" | "false" => value.clone(),
        _ => toml::Value::String(value.clone()).to_string(),
    };
    match values {
        [one] => text(one),
        several => format!("[{}]", several.iter().map(text).collect::<Vec<_>>().join(", ")),
    }
}
