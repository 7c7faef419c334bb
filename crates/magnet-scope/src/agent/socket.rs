//! The agent's local sockets.

use crate::connect::explain;
use crate::control;
use crate::failure::{Hint, Usage};
use anyhow::{Context, Result};
use magscope_fleet::FleetError;
use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A Unix socket, removed on drop.
pub struct Socket {
    /// Bound, without clients so far.
    pub listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Creates the socket at this path, or at the default. Called before privileges are dropped.
    pub fn bind(path: Option<&Path>) -> Result<Self> {
        let path = match (path, control::folders().into_iter().next()) {
            (Some(path), _) => path.to_owned(),
            (None, Some(folder)) => {
                let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
                made.with_context(|| format!("cannot make {}", folder.display()))?;
                folder.join("agent.sock")
            }
            (None, None) => {
                return Err(Usage("say where the socket is to be: `--socket PATH`".to_owned()).into());
            }
        };
        Self::at(path, 0o600)
    }

    /// Creates the socket at this path with this mode.
    pub fn at(path: PathBuf, mode: u32) -> Result<Self> {
        if UnixStream::connect(&path).is_ok() {
            return Err(Hint::error(
                format!("an agent listens at {} already", path.display()),
                "it was started before, perhaps as a service",
                "use that one, or give this one another place (`--socket PATH`, `--watch-socket PATH`)",
            ));
        }
        // A path without a listener is a leftover of a killed process; only sockets are removed.
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.file_type().is_socket()) {
            let _ = fs::remove_file(&path);
        }
        // Restrictive umask, so that the socket is private until its mode is set.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(&path);
        rustix::process::umask(before);
        let listener = bound.map_err(|error| {
            explain(FleetError::Listen { address: path.display().to_string(), because: error.to_string() })
        })?;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        Ok(Socket { listener, path })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
