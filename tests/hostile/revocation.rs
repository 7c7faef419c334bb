//! Invalid revocation lists.

use super::target::{RELAY, Target};
use crate::common::hosts::SERVER;
use crate::common::{is_root, run, stderr};
use std::fs;
use std::path::Path;

#[test]
fn a_damaged_list_lets_nobody_in_and_the_log_says_why() {
    if !is_root("a damaged list of revoked certificates") {
        return;
    }
    let Some(target) = Target::start("crl", &[]) else { return };
    let tls = Path::new(&target.tls);
    let revoked = run(&["agent", "revoke", &target.tls, "viewer-me"]);
    assert!(revoked.status.success(), "{}", stderr(&revoked));
    let made = run(&["agent", "init", &target.tls, "--viewer", "good"]);
    assert!(made.status.success(), "{}", stderr(&made));
    let list = fs::read_to_string(tls.join("crl.pem")).expect("a list");
    let other = target.dir.path().join("other").display().to_string();
    let made = run(&["agent", "init", &other]);
    assert!(made.status.success(), "{}", stderr(&made));
    let others = fs::read_to_string(Path::new(&other).join("crl.pem")).expect("a list");
    let ca = fs::read_to_string(tls.join("ca.pem")).expect("a certificate");
    for address in [SERVER, RELAY] {
        let path = target.folder_of(address).join("crl.pem");
        let good = |when: &str| {
            fs::write(&path, &list).expect("a file");
            target.refuses(address, "viewer-me");
            let asked = target.about(address, "viewer-good");
            assert!(asked.status.success(), "{when} at {address}: {}", stderr(&asked));
        };
        good("before");
        for (what, text) in [
            ("empty", ""),
            ("garbled", "\u{0}\u{1}garbage"),
            ("cut", &list[..list.len() / 2]),
            ("of another authority", others.as_str()),
            ("not a list", ca.as_str()),
        ] {
            fs::write(&path, text).expect("a file");
            for identity in ["viewer-me", "viewer-good", "relay-hub"] {
                let asked = target.about(address, identity);
                assert!(!asked.status.success(), "{identity} came in at {address} with a list that is {what}");
            }
        }
        fs::remove_file(&path).expect("it was there");
        assert!(!target.about(address, "viewer-good").status.success(), "without a list");
        good("after");
    }
    for because in ["exactly one list", "no list of revoked certificates", "signature is not of the authority"]
    {
        assert!(target.agent.printed(because), "{because}: {:?}", target.agent.messages());
    }
}
