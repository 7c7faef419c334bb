//! Seals a recording after a deliberate edit.

use crate::error::SessionError;
use crate::layout::{META, Table, segments};
use crate::meta::Meta;
use crate::seal::{Seal, checksum_line, ends_with_checksum};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Recomputes the checksums of the files of a closed recording. Checksums of batches stay.
pub fn reseal(dir: &Path) -> Result<(), SessionError> {
    let path = dir.join(META);
    let text = fs::read_to_string(&path).map_err(SessionError::io("read", &path))?;
    let lines = text.lines().filter(|line| !line.starts_with("# crc32 "));
    let mut fresh = lines.fold(String::new(), |text, line| text + line + "\n");
    fresh += &checksum_line(&fresh);
    debug_assert!(ends_with_checksum(&fresh));
    fs::write(&path, fresh).map_err(SessionError::io("write", &path))?;
    if Meta::load(dir)?.is_none_or(|meta| meta.closed.is_none()) {
        return Ok(());
    }
    segments(dir)?.into_iter().try_for_each(|number| reseal_segment(dir, number))
}

pub(super) fn reseal_segment(dir: &Path, number: u32) -> Result<(), SessionError> {
    let path = Table::Index.path(dir, number);
    let (seal, stream_bytes) = Seal::of_files(dir, number).map_err(SessionError::io("read", &path))?;
    let append = |text: String| {
        let mut file = OpenOptions::new().append(true).open(&path)?;
        file.set_len(stream_bytes)?;
        file.write_all(text.as_bytes())
    };
    append(seal.text()).map_err(SessionError::io("write", &path))
}
