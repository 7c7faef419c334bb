//! Names of recordings by start time, so that their order is chronological.

use jiff::Timestamp;
use std::path::{Path, PathBuf};

/// A directory below `dir` that does not exist yet: `2026-11-22T12-00-00Z`, and in the same second `…Z-2`.
pub fn fresh(dir: &Path) -> PathBuf {
    let time = Timestamp::now().strftime("%Y-%m-%dT%H-%M-%SZ").to_string();
    let names = std::iter::once(time.clone()).chain((2_u64..).map(|n| format!("{time}-{n}")));
    let mut paths = names.map(|name| dir.join(name));
    // The numbers exceed the file system's limits.
    paths.find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| dir.join(&time))
}

/// True for generated names. A recording renamed by the user is not touched.
pub fn is_ours(name: &str) -> bool {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd-dd-ddZ";
    let Some((time, number)) = name.as_bytes().split_at_checked(SHAPE.len()) else { return false };
    let fits =
        |(given, wanted): (&u8, &u8)| if *wanted == b'd' { given.is_ascii_digit() } else { given == wanted };
    let is_number = |number: &[u8]| !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    time.iter().zip(SHAPE).all(fits) && (number.is_empty() || number.strip_prefix(b"-").is_some_and(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_names_are_ours_in_order_and_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..3)
            .map(|_| {
                let path = fresh(dir.path());
                std::fs::create_dir(&path).unwrap();
                path
            })
            .collect();
        assert!(paths.is_sorted(), "{paths:?}");
        assert!(paths.iter().all(|path| is_ours(path.file_name().unwrap().to_str().unwrap())), "{paths:?}");
        assert!(is_ours("2026-11-22T12-00-00Z-17"));
        for other in [
            "",
            "keep",
            "2026-11-22T12-00-00Z-",
            "2026-11-22T12-00-00Z-a",
            "2026-11-22T12:00:00Z",
            "2026-11-22T12-00-00Z.old",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
