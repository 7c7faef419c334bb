//! Permissions of written files: private to their owner, unless `--mode` is given.
//!
//! Recordings and derived files contain addresses and payload. The process has a umask, which covers all
//! writers in all crates. Writes over an existing name pass [`create`] or [`refuse_link`].

use crate::failure::Hint;
use anyhow::Result;
use rustix::fs::Mode;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Rights of files by default.
pub const OWNER_ONLY: u32 = 0o600;

static MODE: AtomicU32 = AtomicU32::new(OWNER_ONLY);

/// Sets the mode of all new files. Readers of files can also enter directories.
pub fn set_mode(mode: u32) {
    MODE.store(mode, Relaxed);
    rustix::process::umask(Mode::from_raw_mode(!(mode | ((mode >> 2) & 0o111)) & 0o777));
}

/// Reads `640`.
pub fn parse_mode(text: &str) -> Result<u32, String> {
    let mode =
        u32::from_str_radix(text, 8).ok().filter(|mode| mode & !0o666 == 0 && mode & OWNER_ONLY == OWNER_ONLY);
    mode.ok_or_else(|| "rights of files are three octal digits: 600 for the owner alone, 640 for its group too, 644 for everybody".to_owned())
}

/// An error for a symbolic link, whose target may be chosen by another user.
pub fn refuse_link(path: &Path) -> Result<()> {
    if !path.is_symlink() {
        return Ok(());
    }
    Err(Hint::error(
        format!("{} is a symbolic link, and nothing is written through one", path.display()),
        "somebody prepared the name, or the place is kept elsewhere",
        "give the place that it points at, or another name",
    ))
}

/// Creates or truncates a file, never through a symbolic link.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(MODE.load(Relaxed)))?;
    }
    Ok(file)
}

/// Writes a whole file, never through a symbolic link.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> Result<()> {
    refuse_link(path)?;
    create(path)?.write_all(contents.as_ref())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_and_keep_the_owner() {
        assert_eq!(parse_mode("640"), Ok(0o640));
        for wrong in ["", "9", "755", "040", "1600", "rw"] {
            assert!(parse_mode(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_is_not_written_through() {
        let dir = tempfile::tempdir().expect("a directory");
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        std::fs::write(&target, "precious").expect("a file");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        assert!(write(&link, "x").is_err() && create(&link).is_err());
        assert_eq!(std::fs::read(&target).expect("there"), b"precious");
    }
}
