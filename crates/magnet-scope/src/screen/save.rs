//! Saves screenshots as new files in the start directory, without overwriting.

use jiff::Timestamp;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

/// Maximum number of names tried: more screenshots in a second are implausible.
const TRIES: u32 = 100;

/// Writes `contents` to a new file in `dir`, named by the time. Returns its name or the error.
pub fn save(dir: &Path, ending: &str, contents: &str) -> Result<String, String> {
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    for n in 1..=TRIES {
        let number = if n == 1 { String::new() } else { format!("-{n}") };
        let name = format!("magnet-scope-{time}{number}.{ending}");
        match File::create_new(dir.join(&name)).and_then(|mut file| file.write_all(contents.as_bytes())) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("{name} could not be written: {error}")),
        }
    }
    Err(format!("there are {TRIES} pictures of this second already"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn pictures_of_one_second_are_so_many_files() {
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<_> = (0..5).map(|n| save(dir.path(), "svg", &n.to_string()).unwrap()).collect();
        for (n, name) in names.iter().enumerate() {
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), n.to_string());
        }
        let why = save(&dir.path().join("none"), "txt", "").unwrap_err();
        assert!(why.contains("could not be written"), "{why}");
    }
}
