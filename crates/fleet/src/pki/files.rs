//! Certificate and key files: checked permissions on reading, atomic replacement on writing.

use crate::error::FleetError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Mode of a key: its owner may read and write it.
pub const KEY_MODE: u32 = 0o600;

/// An error about a file.
pub fn bad(path: &Path, because: impl std::fmt::Display) -> FleetError {
    FleetError::Key { path: path.to_path_buf(), because: because.to_string() }
}

/// The text of a key file, which only the owner may access.
pub fn key_text(path: &Path) -> Result<String, FleetError> {
    let mut file = File::open(path).map_err(|error| bad(path, error))?;
    // Permissions of the open file, so that the file cannot be exchanged in between.
    let mode = file.metadata().map_err(|error| bad(path, error))?.permissions().mode() & 0o7777;
    if mode & !KEY_MODE != 0 {
        let because = format!("its mode is {mode:04o}, so others may read or change it; `chmod 600` it");
        return Err(bad(path, because));
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|error| bad(path, error))?;
    Ok(text)
}

/// The key of a file that only the owner may access.
pub fn key(path: &Path) -> Result<PrivateKeyDer<'static>, FleetError> {
    PrivateKeyDer::from_pem_slice(key_text(path)?.as_bytes()).map_err(|error| bad(path, error))
}

/// A certificate authority that has not expired.
pub fn authority(path: &Path) -> Result<CertificateDer<'static>, FleetError> {
    let der = CertificateDer::from_pem_file(path).map_err(|error| bad(path, error))?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| bad(path, error))?;
    // The chain verifier ignores the dates of an authority.
    if !parsed.validity().is_valid() {
        let (from, to) = (parsed.validity().not_before, parsed.validity().not_after);
        return Err(bad(path, format!("this authority is good from {from} to {to} only")));
    }
    Ok(der)
}

/// Replaces a file atomically: a concurrent reader sees the old or the new one, also after a crash.
pub fn replace(path: &Path, text: &str, mode: u32) -> Result<(), FleetError> {
    let write = || -> io::Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = path.with_file_name(format!(".{name}.{}", std::process::id()));
        // a failed removal becomes an error when the new file is created
        let _ = fs::remove_file(&part);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| fs::rename(&part, path)) {
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(|error| bad(path, error))
}
