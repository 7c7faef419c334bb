//! Checksums over complete files.
//!
//! The index has a checksum of every batch, but none of schemas, end markers or itself. A complete segment
//! therefore ends with a seal: text after the end marker of its index, where Arrow readers stop. The seal has a
//! line with length and checksum for every file of the segment, and a last line with its own. A seal is
//! compared byte by byte with its canonical form.

use crate::layout::Table;
use std::fmt::Write;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

const TITLE: &str = "magnet-scope seal\n";

/// Size of the last line: `end 0000000123 0123abcd`.
const LAST_LINE: u64 = 24;

/// Maximum size of a seal, which has one line per table.
const LONGEST: u64 = 4 << 10;

/// A file of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) table: Table,
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
}

/// The files of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) files: Vec<Sealed>,
}

/// The end of an index.
#[derive(Debug)]
pub(crate) enum Ending {
    /// A complete seal after `stream_bytes` bytes of the index.
    Sealed { seal: Seal, stream_bytes: u64 },
    /// No seal, or a damaged one.
    Unsealed,
}

impl Seal {
    pub(crate) fn text(&self) -> String {
        let mut text = TITLE.to_owned();
        // Writing into a String cannot fail.
        for Sealed { table, bytes, crc } in &self.files {
            let _ = writeln!(text, "{} {bytes} {crc:08x}", table.name());
        }
        let (length, crc) = (text.len() as u64 + LAST_LINE, crc32fast::hash(text.as_bytes()));
        let _ = writeln!(text, "end {length:010} {crc:08x}");
        text
    }

    fn parse(text: &str) -> Option<Seal> {
        let lines = text.strip_prefix(TITLE)?.lines();
        let files = lines.take_while(|line| !line.starts_with("end ")).map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?;
            let table = Table::ALL.into_iter().find(|table| table.name() == name)?;
            let bytes = words.next()?.parse().ok()?;
            Some(Sealed { table, bytes, crc: u32::from_str_radix(words.next()?, 16).ok()? })
        });
        let seal = Seal { files: files.collect::<Option<_>>()? };
        (seal.text() == text).then_some(seal)
    }

    /// Reads the end of an index.
    pub(crate) fn read(index: &Path) -> io::Result<Ending> {
        let file = File::open(index)?;
        let length = file.metadata()?.len();
        let Some(last) = text_at(&file, length.checked_sub(LAST_LINE), LAST_LINE)? else {
            return Ok(Ending::Unsealed);
        };
        let own = last.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
        let own = own.filter(|own| (LAST_LINE..=LONGEST).contains(own)).unwrap_or(0);
        let begin = length.checked_sub(own);
        let seal = text_at(&file, begin, own)?.and_then(|text| Seal::parse(&text));
        Ok(match (seal, begin) {
            (Some(seal), Some(stream_bytes)) => Ending::Sealed { seal, stream_bytes },
            _ => Ending::Unsealed,
        })
    }

    /// Computes the seal of a segment's current files. An existing seal in the index is excluded.
    pub(crate) fn of_files(dir: &Path, segment: u32) -> io::Result<(Seal, u64)> {
        let index = Table::Index.path(dir, segment);
        let stream_bytes = match Seal::read(&index)? {
            Ending::Sealed { stream_bytes, .. } => stream_bytes,
            Ending::Unsealed => std::fs::metadata(&index)?.len(),
        };
        let mut files = Vec::new();
        for table in Table::ALL {
            let most = if table == Table::Index { stream_bytes } else { u64::MAX };
            match checksum(&table.path(dir, segment), most) {
                Ok((bytes, crc)) => files.push(Sealed { table, bytes, crc }),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {} // The table never had rows.
                Err(e) => return Err(e),
            }
        }
        Ok((Seal { files }, stream_bytes))
    }
}

fn text_at(file: &File, at: Option<u64>, length: u64) -> io::Result<Option<String>> {
    let Some(at) = at else { return Ok(None) };
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(String::from_utf8(bytes).ok())
}

/// Length and checksum of a file up to `most` bytes.
pub(crate) fn checksum(path: &Path, most: u64) -> io::Result<(u64, u32)> {
    let mut file = BufReader::new(File::open(path)?.take(most));
    let (mut hasher, mut block, mut bytes) = (crc32fast::Hasher::new(), vec![0; 64 << 10], 0);
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok((bytes, hasher.finalize())),
            Ok(read) => {
                hasher.update(&block[..read]);
                bytes += read as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// A last line with the checksum of a text.
pub(crate) fn checksum_line(text: &str) -> String {
    format!("# crc32 {:08x}\n", crc32fast::hash(text.as_bytes()))
}

/// True if the last line is the checksum of the preceding lines.
pub(crate) fn ends_with_checksum(text: &str) -> bool {
    const LENGTH: usize = "# crc32 01234567\n".len();
    let split = text.len().checked_sub(LENGTH).and_then(|at| text.split_at_checked(at));
    split.is_some_and(|(before, line)| line == checksum_line(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_has_one_spelling() {
        let files = [(Table::Events, 12, 0xab), (Table::Index, 7, 0)];
        let files = files.map(|(table, bytes, crc)| Sealed { table, bytes, crc }).to_vec();
        let seal = Seal { files };
        let text = seal.text();
        assert_eq!(Seal::parse(&text), Some(seal));
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert_eq!(String::from_utf8(bytes).ok().and_then(|t| Seal::parse(&t)), None, "{at} {bit}");
            }
        }
    }

    #[test]
    fn a_text_ends_with_its_checksum() {
        let text = "a = 1\n".to_owned();
        let whole = text.clone() + &checksum_line(&text);
        assert!(ends_with_checksum(&whole) && !ends_with_checksum(&text) && !ends_with_checksum(""));
        assert!(!ends_with_checksum(&whole.to_uppercase()));
    }
}
