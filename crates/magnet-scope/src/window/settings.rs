//! Settings of the window: a small file of the user's, replaced as a whole.

use std::fs;
use std::path::{Path, PathBuf};

/// Larger than it can be; what is larger is none of ours.
const MOST_BYTES: u64 = 1 << 20;

/// Where they are: by the XDG base directory specification; `None` where there is no home.
pub fn path() -> Option<PathBuf> {
    Some(
        crate::screen::config_dir(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"))?
            .join("window.toml"),
    )
}

/// What is in the file; empty where there is none, or none that can be read.
pub fn read(path: &Path) -> String {
    let small = fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES);
    if small { fs::read_to_string(path).unwrap_or_default() } else { String::new() }
}

/// Replaces the file. Settings that cannot be kept are not worth a dialog: the window then begins as it does at first.
pub fn keep(path: &Path, text: &str) {
    let Some(dir) = path.parent() else { return };
    let partial = dir.join(format!(".window.toml.{}", std::process::id()));
    let kept = fs::create_dir_all(dir)
        .and_then(|()| fs::write(&partial, text))
        .and_then(|()| fs::rename(&partial, path));
    if kept.is_err() {
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
