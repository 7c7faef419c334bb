//! Revoked certificates, readable keys and invalid lists: each rejects all clients, with the reason.

use crate::common::{Serving, authority, connect, info, viewer};
use magscope_fleet::pki::{Folder, Validity};
use magscope_fleet::{Grants, Memory, StartAt, Terms};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY: Duration = Duration::from_hours(24);

fn is_let_in(serving: &Serving, folder: &Folder, identity: &str) -> bool {
    connect(serving.tls(), viewer(folder, identity), StartAt::Now, Terms::default()).is_ok()
}

/// A separate folder of a viewer, because these tests damage the agent's other files.
fn of_viewer(folder: &Folder, dir: &Path, identity: &str) -> Folder {
    let own = dir.join(format!("of-{identity}"));
    fs::create_dir_all(&own).expect("a folder");
    for name in ["ca.pem".to_owned(), format!("{identity}.pem"), format!("{identity}.key")] {
        fs::copy(folder.path().join(&name), own.join(&name)).expect("a file");
    }
    Folder::new(own)
}

/// When a certificate ends.
fn ends(folder: &Folder, name: &str) -> i64 {
    let pem = fs::read(folder.path().join(name)).expect("a file");
    let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).expect("PEM");
    let (_, certificate) = X509Certificate::from_der(&pem.contents).expect("a certificate");
    certificate.validity().not_after.timestamp()
}

#[test]
fn a_list_that_is_not_this_authoritys_lets_nobody_in() {
    let (dir, folder) = authority();
    folder.viewer("gone", &Grants::default(), Validity::days(1)).expect("it is made");
    folder.revoke("viewer-gone").expect("it is revoked");
    let (good, gone) =
        (of_viewer(&folder, dir.path(), "viewer-me"), of_viewer(&folder, dir.path(), "viewer-gone"));
    let (memory, _writer) = Memory::new(info(), 1 << 20).expect("Arrow");
    let serving = Serving::start(&memory, 0, Some((folder.clone(), "host-web-1")));
    assert!(is_let_in(&serving, &good, "viewer-me") && !is_let_in(&serving, &gone, "viewer-gone"));

    let path = folder.path().join("crl.pem");
    let list = fs::read_to_string(&path).expect("a list");
    let (_other_dir, other) = authority();
    let others = fs::read_to_string(other.path().join("crl.pem")).expect("a list");
    let ca = fs::read_to_string(folder.path().join("ca.pem")).expect("a certificate");
    // One letter of the signature, the end of the list, is changed.
    let at = list.find("\n-----END").expect("an end") - 8;
    let letter = if &list[at..=at] == "A" { "B" } else { "A" };
    let forged = format!("{}{letter}{}", &list[..at], &list[at + 1..]);
    let cut = list[..list.len() / 2].to_owned();
    for (text, because) in [
        (String::new(), "exactly one list"),
        ("\n\n".to_owned(), "exactly one list"),
        ("garbage".to_owned(), "exactly one list"),
        (ca, "exactly one list"),
        (list.repeat(2), "exactly one list"),
        (cut, "no list of revoked certificates"),
        (list.replace("MII", "AAA"), "no list of revoked certificates"),
        (others, "signature is not of the authority"),
        (forged, "signature is not of the authority"),
    ] {
        fs::write(&path, &text).expect("a file");
        let before = serving.messages.lock().expect("no panic").len();
        for (folder, identity) in [(&good, "viewer-me"), (&gone, "viewer-gone")] {
            assert!(!is_let_in(&serving, folder, identity), "{identity} with the list {text:?}");
        }
        let messages = serving.messages.lock().expect("no panic")[before..].to_vec();
        assert!(
            messages.iter().all(|line| line.contains("is not let in") && line.contains(because)),
            "{because}: {messages:?}"
        );
        assert!(folder.revoke("viewer-me").is_err(), "nothing is built on a list that is none");
    }
    fs::remove_file(&path).expect("it was there");
    assert!(!is_let_in(&serving, &good, "viewer-me"));
    fs::write(&path, &list).expect("a file");
    assert!(is_let_in(&serving, &good, "viewer-me") && !is_let_in(&serving, &gone, "viewer-gone"));
}

#[test]
fn those_who_revoke_at_the_same_time_forget_nobody() {
    let (dir, folder) = authority();
    let names: Vec<String> = (0..8).map(|n| format!("v{n}")).collect();
    for name in &names {
        folder.viewer(name, &Grants::default(), Validity::days(1)).expect("it is made");
    }
    std::thread::scope(|scope| {
        for name in &names {
            let folder = &folder;
            scope.spawn(move || folder.revoke(&format!("viewer-{name}")).expect("it is revoked"));
        }
        // A concurrent reader always finds a list.
        for _ in 0..200 {
            folder.agent("host-web-1").expect("a list at every moment");
        }
    });
    let (memory, _writer) = Memory::new(info(), 1 << 20).expect("Arrow");
    let serving = Serving::start(&memory, 0, Some((folder.clone(), "host-web-1")));
    for name in &names {
        let identity = format!("viewer-{name}");
        assert!(!is_let_in(&serving, &of_viewer(&folder, dir.path(), &identity), &identity), "{name}");
    }
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn a_revoked_host_is_not_read_by_whoever_has_the_list() {
    let (dir, folder) = authority();
    let without = of_viewer(&folder, dir.path(), "viewer-me");
    let (memory, _writer) = Memory::new(info(), 1 << 20).expect("Arrow");
    let serving = Serving::start(&memory, 0, Some((folder.clone(), "host-web-1")));
    folder.revoke("host-web-1").expect("it is revoked");
    assert!(!is_let_in(&serving, &folder, "viewer-me"));
    assert!(is_let_in(&serving, &without, "viewer-me"), "without a list nothing is known of it");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let (_dir, folder) = authority();
    for name in ["ca.key", "host-web-1.key", "viewer-me.key"] {
        let path = folder.path().join(name);
        for mode in [0o640, 0o604, 0o620, 0o660, 0o666, 0o700, 0o4600] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("own file");
            let refused = match name {
                "ca.key" => folder.host(&["web-9".to_owned()], Validity::days(1)).map(|_| ()),
                "host-web-1.key" => folder.agent("host-web-1").map(|_| ()),
                _ => folder.connects("viewer-me").map(|_| ()),
            };
            let refused = refused.expect_err(name).to_string();
            assert!(refused.contains(&format!("{mode:04o}")) && refused.contains("chmod 600"), "{refused}");
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("own file");
            assert!(folder.connects("viewer-me").is_ok(), "{name} {mode:o}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("own file");
    }
    assert!(folder.agent("host-web-1").is_ok());
}

#[test]
fn no_certificate_outlives_its_authority() {
    let dir = tempfile::tempdir().expect("a directory");
    let folder = Folder::new(dir.path().join("tls"));
    assert!(folder.init(Validity::days(3)).expect("it is made"));
    let names = |name: &str| vec![name.to_owned()];
    folder.host(&names("h"), Validity::days(900)).expect("it is made");
    folder.relay(&names("r"), Validity::days(900)).expect("it is made");
    folder.viewer("v", &Grants::default(), Validity::days(900)).expect("it is made");
    folder.viewer("short", &Grants::default(), Validity::days(1)).expect("it is made");
    let ca = ends(&folder, "ca.pem");
    for name in ["host-h.pem", "relay-r.pem", "viewer-v.pem"] {
        assert_eq!(ends(&folder, name), ca, "{name}");
    }
    assert!(ends(&folder, "viewer-short.pem") < ca);

    // An expired authority signs nothing, and its certificates are invalid.
    let old = Folder::new(dir.path().join("old"));
    let now = SystemTime::now();
    assert!(old.init(Validity { from: now - 3 * DAY, to: now - DAY }).expect("it is made"));
    let refused = old.viewer("v", &Grants::default(), Validity::days(1)).expect_err("it has ended").to_string();
    assert!(refused.contains("this authority is good from"), "{refused}");
    for name in ["ca.pem", "ca.key"] {
        fs::copy(old.path().join(name), folder.path().join(name)).expect("a file");
    }
    assert!(folder.connects("viewer-v").is_err() && folder.agent("host-h").is_err());
}

#[test]
fn a_folder_without_the_authoritys_key_gets_no_other_authority() {
    let (dir, folder) = authority();
    let own = of_viewer(&folder, dir.path(), "viewer-me");
    let before = fs::read(own.path().join("ca.pem")).expect("a file");
    assert!(own.init(Validity::days(1)).is_err());
    assert_eq!(fs::read(own.path().join("ca.pem")).expect("a file"), before);
}
