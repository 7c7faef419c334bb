//! Programs in C and Python: their own counts equal the agent's answers.

use super::scene::Scene;
use crate::common::{NOBODY, skipped, stderr, stdout};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../client");

/// True if a program is installed.
pub fn has(program: &str, test: &str) -> bool {
    let there = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let there = there.is_ok_and(|status| status.success());
    if !there {
        skipped(test, &format!("`{program}` is not there"));
    }
    there
}

/// The C library, as built with this test.
fn library() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let folders = own.ancestors().skip(1).take(2);
    folders.map(|folder| folder.join("libmagscope_client.a")).find(|path| path.exists())
}

/// Runs a program as nobody, who may query its own traffic.
fn answer_of(scene: &Scene, command: &mut Command) -> String {
    command.env("MAGNET_SCOPE_WATCH", scene.socket()).stdin(Stdio::null());
    let output = scene.inside(|| command.uid(NOBODY).gid(NOBODY).output().expect("it starts"));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

#[test]
fn a_program_in_c_is_told_what_it_counted() {
    let test = "c";
    let Some(scene) = Scene::new(test, &[]) else { return };
    if !has("cc", test) {
        return;
    }
    let Some(library) = library() else {
        skipped(test, "libmagscope_client.a is not beside this test; `cargo build --workspace` makes it");
        return;
    };
    let program = scene.dir().path().join("counts");
    let source = Path::new(CLIENT).join("examples/counts.c");
    let built = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(Path::new(CLIENT).join("include"))
        .arg(source)
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .expect("it starts");
    assert!(built.status.success(), "{}", stderr(&built));
    let answer = answer_of(&scene, &mut Command::new(program));
    assert!(answer.contains("250000 of 250000 bytes") && answer.contains("a change came"), "{answer}");
    assert!(answer.contains("nobody is at /nowhere: cannot connect to /nowhere"), "{answer}");
}

#[test]
fn a_program_in_python_is_told_what_it_counted() {
    let test = "python";
    let Some(scene) = Scene::new(test, &[]) else { return };
    if !has("python3", test) {
        return;
    }
    // An ordinary user must be able to read it.
    for (folder, file) in [("python", "magnet_scope.py"), ("examples", "counts.py")] {
        std::fs::copy(Path::new(CLIENT).join(folder).join(file), scene.dir().path().join(file))
            .expect("a copy");
    }
    let answer = answer_of(&scene, Command::new("python3").arg("-B").arg(scene.dir().path().join("counts.py")));
    assert!(answer.contains("250000 of 250000 bytes") && answer.contains("a change came"), "{answer}");
}
