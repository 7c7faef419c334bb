//! Certificates of the authority that belong to no viewer.

use super::target::{RELAY, Target};
use crate::common::hosts::SERVER;
use crate::common::{is_root, run, stderr};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

#[test]
fn a_hosts_certificate_reads_no_other_host() {
    if !is_root("a host's certificate") {
        return;
    }
    let Some(target) = Target::start("cert", &[]) else { return };
    for address in [SERVER, RELAY] {
        for identity in ["host-client", "host-server"] {
            target.refuses(address, identity);
        }
        for identity in ["viewer-me", "relay-hub"] {
            let asked = target.about(address, identity);
            assert!(asked.status.success(), "{identity} at {address}: {}", stderr(&asked));
        }
    }
    assert!(
        target.agent.printed("its certificate is neither a viewer's nor a relay's"),
        "{:?}",
        target.agent.messages()
    );
    // Of another authority.
    let other = target.dir.path().join("other").display().to_string();
    let made = run(&["agent", "init", &other, "--viewer", "me", "--relay", "hub"]);
    assert!(made.status.success(), "{}", stderr(&made));
    fs::copy(Path::new(&target.tls).join("ca.pem"), Path::new(&other).join("ca.pem")).expect("a file");
    fs::remove_file(Path::new(&other).join("crl.pem")).expect("a file");
    for identity in ["viewer-me", "relay-hub"] {
        assert!(
            !target.about_from(SERVER, &other, identity).status.success(),
            "{identity} of another authority"
        );
    }
}

#[test]
fn a_key_that_others_can_read_serves_nobody_and_asks_nobody() {
    if !is_root("a key that others can read") {
        return;
    }
    let Some(target) = Target::start("key", &[]) else { return };
    let set = |folder: &Path, name: &str, mode| {
        fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).expect("own file");
    };
    for (address, name) in [(SERVER, "host-server.key"), (RELAY, "relay-front.key")] {
        let folder = target.folder_of(address);
        set(&folder, name, 0o640);
        target.refuses(address, "viewer-me");
        set(&folder, name, 0o600);
        assert!(target.about(address, "viewer-me").status.success());
    }
    assert!(target.agent.printed("its mode is 0640"), "{:?}", target.agent.messages());
    set(Path::new(&target.tls), "viewer-me.key", 0o644);
    let asked = target.about(SERVER, "viewer-me");
    assert!(!asked.status.success() && stderr(&asked).contains("chmod 600"), "{}", stderr(&asked));
}
