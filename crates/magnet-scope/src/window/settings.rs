//! Settings of the window: a small user file, replaced atomically.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum plausible size, bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Its path by the XDG base directory specification; `None` without a home.
pub fn path() -> Option<PathBuf> {
    Some(
        crate::screen::config_dir(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"))?
            .join("window.toml"),
    )
}

/// Content of the file; empty if missing or unreadable.
pub fn read(path: &Path) -> String {
    let small = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES);
    if small { fs::read_to_string(path).unwrap_or_default() } else { String::new() }
}

/// Replaces the file. A failure is silent: the window then starts with defaults.
pub fn keep(path: &Path, text: &str) {
    let Some(dir) = path.parent() else { return };
    let partial = dir.join(format!(".window.toml.{}", std::process::id()));
    let result = fs::create_dir_all(dir)
        .and_then(|()| fs::write(&partial, text))
        .and_then(|()| fs::rename(&partial, path));
    if result.is_err() {
        let _ = fs::remove_file(&partial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/window.toml");
        assert_eq!(read(&path), "");
        keep(&path, "scale = 2.0");
        keep(&path, "scale = 3.0");
        assert_eq!(read(&path), "scale = 3.0");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing half is left");
        assert_eq!(read(dir.path()), "", "a directory is no file");
        keep(Path::new("/proc/none/window.toml"), "x");
    }
}
