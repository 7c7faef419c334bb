//! Restarts of what a filter names: a container that starts again has its path, and a cgroup of another number.
//!
//! **The problem.** The kernel side knows cgroups by their numbers, which are those of the filter's names when it was set.
//! After a restart the filter would leave out everything, and nothing would show that.
//!
//! **The choice.** Once a second the directories of these cgroups are looked at. If one is another cgroup, the filter is set
//! again, which is a change of the recording.
//!
//! **Known limits.** A container that is made again has another path, and is another one. Hops inside its new network
//! namespace are captured with `--netns all` alone.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Interval between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// The cgroups of a filter.
#[derive(Debug, Default)]
pub struct Restarts {
    /// Their directories, with the numbers that the filter has.
    cgroups: Vec<(PathBuf, u64)>,
    looked: Option<Instant>,
}

impl Restarts {
    /// Of these directories, each with its number.
    pub const fn of(cgroups: Vec<(PathBuf, u64)>) -> Self {
        Restarts { cgroups, looked: None }
    }

    /// True if one of the cgroups is another one by now; looks at most once a second.
    pub fn are_new(&mut self) -> bool {
        if self.cgroups.is_empty() || self.looked.is_some_and(|looked| looked.elapsed() < EVERY) {
            return false;
        }
        self.looked = Some(Instant::now());
        self.has_another()
    }

    fn has_another(&self) -> bool {
        let is_another =
            |(path, number): &(PathBuf, u64)| fs::metadata(path).is_ok_and(|meta| meta.ino() != *number);
        self.cgroups.iter().any(is_another)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_directory_of_the_same_path_is_another_cgroup() {
        let root = tempfile::tempdir().expect("a directory");
        let [web, other] = ["web", "other"].map(|name| root.path().join(name));
        for path in [&web, &other] {
            fs::create_dir(path).expect("a directory");
        }
        let number = fs::metadata(&web).expect("its number").ino();
        let restarts = Restarts::of(vec![(web.clone(), number)]);
        assert!(!restarts.has_another());
        fs::remove_dir(&web).expect("removed");
        assert!(!restarts.has_another(), "it has ended, and nothing has its path");
        fs::rename(&other, &web).expect("renamed");
        assert!(restarts.has_another());
        let mut none = Restarts::default();
        assert!(!none.are_new());
    }
}
