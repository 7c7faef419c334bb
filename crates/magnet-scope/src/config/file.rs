//! The files, and their text.

use super::Setting;
use crate::failure::Hint;
use crate::screen::config_dir;
use anyhow::{Context, Result};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The name of a file in its folder.
const NAME: &str = "config.toml";
/// The file of all users.
const SYSTEM: &str = "/etc/magnet-scope/config.toml";
/// Names one file in place of the usual ones; empty for none.
const VARIABLE: &str = "MAGNET_SCOPE_CONFIG";
/// Longest file, bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A file of defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// It is not there.
    Missing,
    /// It is not used, with the reason.
    Ignored(String),
    /// Its text.
    Read(String),
}

/// The files of this user; later ones replace values of earlier ones.
pub fn paths() -> Vec<PathBuf> {
    if let Some(one) = std::env::var_os(VARIABLE) {
        return if one.is_empty() { Vec::new() } else { vec![PathBuf::from(one)] };
    }
    let own = config_dir(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"));
    std::iter::once(PathBuf::from(SYSTEM)).chain(own.map(|folder| folder.join(NAME))).collect()
}

/// Reads a file.
///
/// # Errors
/// It is there and unreadable, too long, or no text.
pub fn read(path: &Path) -> Result<File> {
    let unreadable = || {
        let next = format!("repair it, or set {VARIABLE} to another file or to nothing");
        Hint::new(format!("cannot read the configuration {}", path.display()), "", next)
    };
    // A pipe at this place does not block.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path);
    let file = match file {
        Ok(file) => file,
        // One that was named must be there.
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
                && std::env::var_os(VARIABLE).is_none_or(|named| named != path.as_os_str()) =>
        {
            return Ok(File::Missing);
        }
        // Another user's home.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Ok(File::Ignored("this user may not read it".to_owned()));
        }
        Err(error) => return Err(error).with_context(unreadable),
    };
    let about = file.metadata().with_context(unreadable)?;
    let me = rustix::process::geteuid().as_raw();
    if let Some(why) = distrusted(me, about.uid(), about.mode()) {
        return Ok(File::Ignored(why));
    }
    if !about.is_file() {
        return Ok(File::Ignored("it is no file".to_owned()));
    }
    let mut text = String::new();
    let length = file.take(MAX_BYTES + 1).read_to_string(&mut text).with_context(unreadable)?;
    if length as u64 > MAX_BYTES {
        return Err(Hint::error(
            format!("the configuration {} is longer than {MAX_BYTES} bytes", path.display()),
            "it is another file",
            "remove it",
        ));
    }
    Ok(File::Read(text))
}

/// Why user `me` does not use a file of `owner`; `None` if it does.
fn distrusted(me: u32, owner: u32, mode: u32) -> Option<String> {
    if owner != 0 && owner != me {
        return Some(format!("it belongs to user {owner}"));
    }
    (mode & 0o022 != 0).then(|| "others than its owner may write to it (chmod go-w)".to_owned())
}

/// The settings in a text.
///
/// # Errors
/// It is no TOML, or a value is of a kind that no option has.
pub fn settings(path: &Path, text: &str) -> Result<Vec<Setting>> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let next = "docs/configuration.md has an example";
        Hint::error(format!("the configuration {} is no TOML", path.display()), error.to_string(), next)
    })?;
    let mut all = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(options) => {
                for (option, value) in options {
                    all.push(setting(path, Some(&name), option, &value)?);
                }
            }
            value => all.push(setting(path, None, name, &value)?),
        }
    }
    Ok(all)
}

fn setting(path: &Path, command: Option<&str>, option: String, value: &toml::Value) -> Result<Setting> {
    let mut setting =
        Setting { command: command.map(str::to_owned), option, values: Vec::new(), file: path.to_owned() };
    let values = match value {
        toml::Value::Array(values) if !values.is_empty() => values.iter().map(one).collect(),
        value => one(value).map(|value| vec![value]),
    };
    match values {
        Some(values) => setting.values = values,
        None => {
            return Err(
                setting.refused("its value is no text, number, true, false, or list of those", "correct it")
            );
        }
    }
    Ok(setting)
}

/// A value as on the command line.
fn one(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_others_is_not_used() {
        let used = |me, owner, mode| distrusted(me, owner, mode).is_none();
        assert!(used(0, 0, 0o644) && used(7, 0, 0o644) && used(7, 7, 0o600));
        assert!(!used(0, 7, 0o600) && !used(7, 8, 0o644));
        assert!(!used(7, 7, 0o664) && !used(0, 0, 0o646));
    }
}
