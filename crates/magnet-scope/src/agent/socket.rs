//! The agent's sockets for this host.

use crate::connect::explain;
use crate::control;
use crate::failure::{Hint, Usage};
use anyhow::{Context, Result};
use magscope_fleet::FleetError;
use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The Unix socket, removed when it goes.
pub struct Socket {
    /// Bound, and nobody is let in yet.
    pub listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Makes it at this path, or at its usual place. To be called before privileges are given away.
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

    /// Makes it at this path, with these rights.
    pub fn at(path: PathBuf, mode: u32) -> Result<Self> {
        if UnixStream::connect(&path).is_ok() {
            return Err(Hint::error(
                format!("an agent listens at {} already", path.display()),
                "it was started before, perhaps as a service",
                "use that one, or give this one another place (`--socket PATH`, `--sense-socket PATH`)",
            ));
        }
        // What nobody listens at was left behind by a kill; only a socket is ever removed.
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.file_type().is_socket()) {
            let _ = fs::remove_file(&path);
        }
        // Nobody but its owner may write to it, not even for the moment before its rights are set.
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
