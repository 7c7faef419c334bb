//! The service for systemd.

use super::scene::recordings;
use crate::common::exports;
use crate::common::service::Service;
use crate::common::{is_root, stderr};

const SERVICE: Service = Service::named("magnet-scope-record");

#[test]
fn the_service_is_one_that_systemd_takes() {
    SERVICE.is_one_that_systemd_takes();
}

#[test]
fn a_recorder_needs_no_more_than_its_service_gives_it() {
    let test = "a recorder with few capabilities";
    if !is_root(test) || !exports::tool(test, "setpriv") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("recordings");
    let command =
        SERVICE.value("ExecStart=").replace("/var/lib/magnet-scope/recordings", &place.display().to_string());
    let arguments = command.split_whitespace().skip(1).filter(|word| *word != "$RECORD_OPTIONS");
    let mut recorder = SERVICE.binary();
    recorder.args(arguments).args(["--duration", "2s"]);
    let output = recorder.output().expect("it starts");
    let messages = stderr(&output);
    assert!(output.status.success() && messages.contains(" 0 lost"), "{messages}");
    assert_eq!(recordings(&place).len(), 1, "{messages}");
}
