//! Screen options: arguments override the user's files, which override the terminal's properties.

use crate::failure::Hint;
use anyhow::{Context, Result};
use magscope_tui::keys::{KeyMap, KeyMapError};
use magscope_tui::{Depth, Options, Theme, is_utf8, parse_theme};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Arguments of every subcommand with a screen.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Screen")]
pub struct ScreenArgs {
    /// Colours: `dark`, `light`, `high-contrast`, or a file of your own [default: ~/.config/magnet-scope/theme.toml if
    /// there is one, else by the terminal's background where it says so]
    #[arg(long, value_name = "NAME|FILE")]
    theme: Option<String>,
    /// File with key bindings [default: ~/.config/magnet-scope/keys.toml if present]
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Draw with ASCII characters only (what happens by itself where the locale is not UTF-8)
    #[arg(long)]
    ascii: bool,
    /// Leave the mouse to the terminal, so that it selects text
    #[arg(long)]
    no_mouse: bool,
}

/// Names of built-in themes.
const THEMES: [&str; 3] = ["dark", "light", "high-contrast"];

impl ScreenArgs {
    /// Reads the files and the environment.
    pub fn options(&self) -> Result<Options> {
        let var = |name: &str| std::env::var(name).ok();
        let config = config_dir(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"));
        let depth = Depth::from_env(var);
        Ok(Options {
            keys: self.key_map(config.as_deref())?,
            theme: self.colours(config.as_deref(), depth, var("COLORFGBG").as_deref())?,
            depth,
            ascii: self.ascii || !is_utf8(var),
            mouse: !self.no_mouse,
        })
    }

    /// Defaults with this key map.
    pub fn keys_of(keys: Option<PathBuf>) -> Self {
        ScreenArgs { keys, ..ScreenArgs::default() }
    }

    /// The key map of the window.
    pub fn window_keys(&self) -> Result<KeyMap> {
        let config = config_dir(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"));
        self.map_of(config.as_deref(), KeyMap::of_window, KeyMap::of_window_with_user)
    }

    fn key_map(&self, config: Option<&Path>) -> Result<KeyMap> {
        self.map_of(config, KeyMap::built_in, KeyMap::with_user)
    }

    fn map_of(
        &self,
        config: Option<&Path>,
        built_in: fn() -> KeyMap,
        with_user: fn(&str) -> Result<KeyMap, KeyMapError>,
    ) -> Result<KeyMap> {
        let default_path = config.map(|dir| dir.join("keys.toml"));
        let next = "give the path of a file of keys (docs/window.md)";
        let Some((path, text)) = chosen(("--keys", next), self.keys.as_deref(), default_path)? else {
            return Ok(built_in());
        };
        with_user(&text).with_context(|| format!("the key map {} is not right", path.display()))
    }

    fn colours(&self, config: Option<&Path>, depth: Depth, colorfgbg: Option<&str>) -> Result<Theme> {
        if let Some(name) = self.theme.as_deref().filter(|name| THEMES.contains(name)) {
            return Ok(Theme::built_in(name, depth));
        }
        let default_path = config.map(|dir| dir.join("theme.toml"));
        let next = format!("give the path of a theme, or one of {}", THEMES.join(", "));
        let asked = self.theme.as_deref().map(Path::new);
        let Some((path, text)) = chosen(("--theme", &next), asked, default_path)? else {
            return Ok(Theme::built_in(Theme::suitable(colorfgbg), depth));
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        parse_theme(&name, &text, depth).with_context(|| format!("the theme {} is not right", path.display()))
    }
}

/// The requested file, which must exist, or the default one, which is optional.
fn chosen(
    (option, next): (&str, &str),
    asked: Option<&Path>,
    default_path: Option<PathBuf>,
) -> Result<Option<(PathBuf, String)>> {
    let Some(path) = asked.map(Path::to_owned).or(default_path) else { return Ok(None) };
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if asked.is_none() && not_ours(error.kind()) => Ok(None),
        Err(error) => {
            let what = format!("{} could not be read, which `{option}` names", path.display());
            Err(error).with_context(|| Hint::new(what, "", next))
        }
    }
}

/// After the drop of privileges the former user's home may be inaccessible; this counts as missing.
const fn not_ours(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
}

/// The user's configuration directory by the XDG base directory specification: relative paths are ignored.
pub fn config_dir(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let base = xdg.and_then(absolute).or_else(|| Some(home.and_then(absolute)?.join(".config")));
    Some(base?.join("magnet-scope"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_directory_is_where_the_specification_says() {
        let dir = |xdg: Option<&str>, home: Option<&str>| {
            let dir = config_dir(xdg.map(OsString::from), home.map(OsString::from));
            dir.map(|dir| dir.display().to_string())
        };
        assert_eq!(dir(Some("/x"), Some("/home/u")).as_deref(), Some("/x/magnet-scope"));
        for none in [None, Some(""), Some("relative")] {
            assert_eq!(dir(none, Some("/home/u")).as_deref(), Some("/home/u/.config/magnet-scope"));
        }
        assert_eq!(dir(None, None), None);
    }

    #[test]
    fn a_file_asked_for_has_to_be_there_and_mistakes_are_named_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let args = ScreenArgs::default();
        assert!(args.key_map(Some(dir.path())).is_ok(), "the usual file need not be there");
        let keys = file("keys.toml", "x = \"quit\"\ny = \"qiut\"\n");
        let wrong = format!("{:#}", args.key_map(Some(dir.path())).unwrap_err());
        assert!(wrong.contains(&keys.display().to_string()) && wrong.contains("line 2"), "{wrong}");
        let missing = ScreenArgs { keys: Some(dir.path().join("none.toml")), ..ScreenArgs::default() };
        assert!(format!("{:#}", missing.key_map(None).unwrap_err()).contains("none.toml could not be read"));

        let theme = file("mine.toml", "accent = \"blue\"");
        let args = ScreenArgs { theme: Some(theme.display().to_string()), ..ScreenArgs::default() };
        let wrong = format!("{:#}", args.colours(None, Depth::True, None).unwrap_err());
        assert!(wrong.contains("line 1") && wrong.contains("mine.toml"), "{wrong}");
        for name in THEMES {
            let args = ScreenArgs { theme: Some(name.to_owned()), ..ScreenArgs::default() };
            assert_eq!(args.colours(None, Depth::True, None).unwrap().name, name);
        }
    }
}
