//! `verify` detects any damage to any file of a closed recording.

use magscope_session::{Session, reseal};
use std::fs;
use std::path::{Path, PathBuf};

/// Damaged positions per file.
const POSITIONS: u64 = 40;

/// The same pseudo-random numbers on every host (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name).join("session")
}

fn copy(from: &Path, to: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.map(|path| to.join(path.file_name().unwrap())).collect();
    for file in &files {
        fs::copy(from.join(file.file_name().unwrap()), file).unwrap();
    }
    files.sort();
    files
}

/// Damage of a recording, or the error at its opening.
fn damage(dir: &Path) -> Vec<String> {
    match Session::open(dir) {
        Ok(session) => {
            session.verify().iter().filter(|damage| !damage.unfinished).map(ToString::to_string).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn golden_recordings_are_whole() {
    for name in ["demo", "retransmissions", "drops", "half", "lost"] {
        assert_eq!(damage(&golden(name)), Vec::<String>::new(), "{name}");
    }
    assert_ne!(damage(&golden("damaged")), Vec::<String>::new());
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(0x5eed);
    for file in copy(&golden("drops"), dir.path()) {
        let whole = fs::read(&file).unwrap();
        let length = whole.len() as u64;
        // Seeded positions, and the ends with heads and seals.
        let ends = (0..length.min(64)).chain(length.saturating_sub(64)..length);
        let positions: Vec<u64> = ends.chain((0..POSITIONS).map(|_| numbers.below(length))).collect();
        for at in positions {
            let mut bytes = whole.clone();
            bytes[at as usize] ^= 1 << numbers.below(8);
            fs::write(&file, &bytes).unwrap();
            assert_ne!(damage(dir.path()), Vec::<String>::new(), "byte {at} of {}", file.display());
        }
        fs::write(&file, &whole).unwrap();
    }
    assert_eq!(damage(dir.path()), Vec::<String>::new());
}

#[test]
fn a_cut_anywhere_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(0xc07);
    for file in copy(&golden("drops"), dir.path()) {
        let whole = fs::read(&file).unwrap();
        let length = whole.len() as u64;
        let positions = (0..POSITIONS).map(|_| numbers.below(length));
        for at in positions.chain([0, length - 1, length - 8, length.saturating_sub(24)]).collect::<Vec<_>>() {
            fs::write(&file, &whole[..at as usize]).unwrap();
            assert_ne!(damage(dir.path()), Vec::<String>::new(), "{} cut at {at}", file.display());
        }
        fs::remove_file(&file).unwrap();
        assert_ne!(damage(dir.path()), Vec::<String>::new(), "without {}", file.display());
        let longer = [&whole[..], &[0; 8]].concat();
        fs::write(&file, longer).unwrap();
        assert_ne!(damage(dir.path()), Vec::<String>::new(), "more bytes behind {}", file.display());
        fs::write(&file, &whole).unwrap();
    }
    assert_eq!(damage(dir.path()), Vec::<String>::new());
}

#[test]
fn resealing_changes_nothing_of_a_whole_recording() {
    let dir = tempfile::tempdir().unwrap();
    let files = copy(&golden("drops"), dir.path());
    let read = || files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>();
    let before = read();
    reseal(dir.path()).unwrap();
    assert!(read() == before);
}
