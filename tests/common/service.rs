//! Checks systemd units with systemd and the kernel.

#![allow(dead_code)] // each test file uses a part

use super::exports;
use super::stderr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A unit of the package.
pub struct Service(&'static str);

impl Service {
    /// The unit of this name.
    pub const fn named(name: &'static str) -> Self {
        Service(name)
    }

    fn path(&self) -> PathBuf {
        let packaging = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
        Path::new(packaging).join(format!("{}.service", self.0))
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).expect("the unit")
    }

    /// The value of a key: `ExecStart=`.
    pub fn value(&self, key: &str) -> String {
        self.text().lines().find_map(|line| line.strip_prefix(key)).expect("a line").to_owned()
    }

    /// `systemd-analyze` reports no problem.
    pub fn is_one_that_systemd_takes(&self) {
        if !exports::tool(self.0, "systemd-analyze") {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        // The local binary; the manual is not installed.
        let unit = self.text().replace("/usr/bin/magnet-scope", env!("CARGO_BIN_EXE_magnet-scope"));
        let unit: String =
            unit.lines().filter(|line| !line.starts_with("Documentation=")).flat_map(|l| [l, "\n"]).collect();
        let path = dir.path().join(self.path().file_name().expect("a name"));
        fs::write(&path, unit).expect("a file");
        let verified = Command::new("systemd-analyze").arg("verify").arg(&path).output().expect("it runs");
        assert!(verified.status.success(), "{}", stderr(&verified));
        assert!(!stderr(&verified).contains(self.0), "{}", stderr(&verified));
    }

    /// The binary with only the capabilities of the unit.
    pub fn binary(&self) -> Command {
        let set = self.value("CapabilityBoundingSet=");
        let set: Vec<String> =
            set.split_whitespace().map(|name| name.replacen("CAP_", "+", 1).to_lowercase()).collect();
        let mut command = Command::new("setpriv");
        command.arg("--bounding-set").arg(format!("-all,{}", set.join(","))).arg("--no-new-privs");
        command.arg(env!("CARGO_BIN_EXE_magnet-scope"));
        command
    }
}
