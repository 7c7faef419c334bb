//! Names of cgroups. A record holds a cgroup id; a user recognises the path.

use magscope_core::node::CgroupName;
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::Path;

/// Cgroups named at most: those nearest to the root.
const MOST: usize = 4096;
/// Longer paths than this are left without a name.
const LONGEST: usize = 1024;

/// The cgroups below the root of a cgroup v2 hierarchy, level by level. Unreadable cgroups have no name.
pub fn names(root: &Path) -> Vec<CgroupName> {
    use std::os::unix::fs::MetadataExt;
    let mut names = Vec::new();
    if let Ok(about) = fs::metadata(root) {
        names.push(CgroupName { id: about.ino(), path: "/".to_owned() });
    }
    let mut at = 0;
    // The list of names is the queue of directories still to be read.
    while let Some(parent) = names.get(at).map(|name| name.path.clone()) {
        at += 1;
        let entries = fs::read_dir(root.join(parent.trim_start_matches('/')));
        for entry in entries.into_iter().flatten().flatten() {
            if names.len() >= MOST {
                return names;
            }
            let path = format!("{}/{}", parent.trim_end_matches('/'), entry.file_name().to_string_lossy());
            if path.len() <= LONGEST && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                names.push(CgroupName { id: entry.ino(), path });
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directory_has_the_name_of_its_path() {
        // Any tree of directories will do: this crate's own.
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let names = names(root);
        assert!(names.iter().any(|name| name.path == "/src") && names[0].path == "/");
        for name in &names {
            use std::os::unix::fs::MetadataExt;
            let path = root.join(name.path.trim_start_matches('/'));
            assert_eq!(fs::metadata(&path).unwrap().ino(), name.id, "{}", name.path);
        }
        assert!(super::names(Path::new("/nowhere")).is_empty());
    }
}
