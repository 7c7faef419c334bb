//! Agents in a cluster: objects for Kubernetes, the agent with their arguments and capabilities, and what a lack of one
//! leaves out. There is no cluster in this.

use crate::common::exports::python_with;
use crate::common::{is_root, skipped, stderr, stdout};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn check(test: &str, arguments: &[&str]) -> Option<Output> {
    let python = python_with(test, "kubernetes_validate, yaml")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check-cluster");
    let output = Command::new(python).arg(script).args(arguments).output().expect("it starts");
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    for line in stdout(&output).lines().filter_map(|line| line.strip_prefix("skipped: ")) {
        skipped(test, line);
    }
    Some(output)
}

#[test]
fn an_agent_runs_with_the_arguments_and_capabilities_of_its_manifest() {
    const TEST: &str = "the agent of the manifest";
    if !is_root(TEST) {
        check("objects of Kubernetes", &[]);
        return;
    }
    let Some(output) = check(TEST, &[env!("CARGO_BIN_EXE_magnet-scope")]) else { return };
    assert!(stdout(&output).contains("the traffic of another namespace"), "{}", stdout(&output));
}

#[test]
fn namespaces_that_cannot_be_read_are_counted() {
    if !is_root("namespaces of others") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    // A process of another user, whose namespace the kernel shows to CAP_SYS_PTRACE alone.
    let mut other = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "600"])
        .spawn()
        .expect("setpriv is there");
    let record = |name: &str, bounds: &str| {
        let to = dir.path().join(name);
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", bounds, "--inh-caps=-all", "--no-new-privs"]);
        command.arg(env!("CARGO_BIN_EXE_magnet-scope")).env("MAGNET_SCOPE_CONFIG", "");
        let output = command.args(["record", "--netns", "all", "--duration", "100ms", "-o"]).arg(to).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let without = record("without", "-all,+bpf,+perfmon,+net_admin,+sys_admin");
    let with = record("with", "-all,+bpf,+perfmon,+net_admin,+sys_admin,+sys_ptrace");
    other.kill().and_then(|()| other.wait()).expect("it is ours");
    assert!(without.contains("cannot be read without CAP_SYS_PTRACE"), "{without}");
    assert!(!with.contains("CAP_SYS_PTRACE"), "{with}");
}
