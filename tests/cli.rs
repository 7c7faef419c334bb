//! Error messages and exit codes. Needs no privileges.

use crate::common;

use common::foreign::unsafe_characters;
use common::{as_nobody, is_root, magnet_scope, run, stderr, stdout};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

#[test]
fn usage_errors_leave_with_2_and_name_the_nearest_valid_thing() {
    let cases: &[(&[&str], &str)] = &[
        (&["live", "--duration", "10"], "`10s`"),
        (&["live", "--duration", "10sec"], "the nearest is `s`, as in `10s`"),
        (&["live", "--hops", "dev.xmitt"], "the nearest is `dev.xmit`"),
        (&["live", "--hops", "-dev.xmitt"], "the nearest is `dev.xmit`"),
        (&["live", "--ring-size", "8X"], "nearest"),
        (&["live", "--netns", "no-such-netns"], "no network namespace is called `no-such-netns`"),
        (&["record", "-o", "x", "--size-limit", "many"], "`512M`"),
        (&["replay", "x", "--speed", "0"], "`0` is no speed"),
        (&["replay", "x", "--from", "noon"], "`1.5s`"),
        (&["recrod"], "record"),
    ];
    for (arguments, expected) in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{arguments:?} should say {expected}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}: messages go to stderr");
    }
}

#[test]
fn what_is_no_session_says_so_and_leaves_with_1() {
    let dir = TempDir::new().expect("a directory");
    for command in ["info", "report", "replay"] {
        let output = run(&[command, &dir.path().display().to_string()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("is not a session"), "{}", stderr(&output));
        let output = run(&[command, "/nonexistent/session"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("/nonexistent/session"), "{}", stderr(&output));
    }
}

#[test]
fn a_newer_session_is_refused_by_name_and_number() {
    let dir = TempDir::new().expect("a directory");
    let meta = "format = 99\ntool = \"magnet-scope 9.9\"\nsession = \"x\"\n";
    fs::write(dir.path().join("meta.toml"), meta).expect("a file");
    let output = run(&["info", &dir.path().display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("99") && stderr(&output).contains("9.9"), "{}", stderr(&output));
}

#[test]
fn an_ordinary_user_reads_which_capabilities_are_missing_and_how_to_get_them() {
    if !is_root("an ordinary user") {
        return; // without root the message appears anyway
    }
    let dir = TempDir::new().expect("a directory");
    for (arguments, needed) in [
        (&["live", "--duration", "1s"][..], &["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"][..]),
        (&["record", "-o", "/tmp/never-made"], &["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN"]),
        (&["demo"], &["CAP_BPF", "CAP_PERFMON", "CAP_NET_ADMIN", "CAP_SYS_ADMIN"]),
    ] {
        let output = as_nobody(&dir, arguments).output().expect("it starts");
        let messages = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{messages}");
        for name in needed {
            assert!(messages.contains(name), "{messages}");
        }
        let sudo = format!("sudo magnet-scope {}", arguments.join(" "));
        assert!(messages.contains(&sudo) && messages.contains("sudo setcap cap_bpf,cap_perfmon"), "{messages}");
    }
    for command in ["hops", "doctor"] {
        let output = as_nobody(&dir, &[command]).output().expect("it starts");
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        assert!(text.contains("not tried: ") && !text.contains("loads"), "{text}");
        assert_eq!(text.lines().find(is_wide), None, "{text}");
    }
}

/// True for lines above 80 columns. A line without a blank, such as a command, stays whole.
fn is_wide(line: &&str) -> bool {
    line.chars().count() > 80 && line.trim_start().contains(' ')
}

#[test]
fn doctor_and_hops_have_a_row_a_hop_in_text_and_json() {
    for command in ["doctor", "hops"] {
        let text = run(&[command]);
        assert!(text.status.success(), "{}", stderr(&text));
        assert!(stdout(&text).contains("dev.xmit") && stdout(&text).contains("app.recv"));
        // Without a terminal the width is 80 columns.
        let text = stdout(&text);
        assert_eq!(text.lines().find(is_wide), None, "{text}");
        let json = run(&[command, "--json"]);
        let value: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
        let rows = if command == "doctor" { &value["hops"] } else { &value };
        let rows = rows.as_array().expect("rows");
        assert_eq!(rows.len(), magscope_core::Hop::ALL.len());
        assert!(rows.iter().all(|row| row["status"].is_string()), "{rows:?}");
    }
}

#[test]
fn the_manual_and_completions_cover_every_subcommand() {
    let manual = stdout(&run(&["man"]));
    let completions = stdout(&run(&["completions", "bash"]));
    for command in ["demo", "live", "record", "replay", "info", "report", "doctor", "hops"] {
        assert!(manual.contains(&format!("magnet-scope-{command}")), "{command} has no page");
        assert!(completions.contains(command), "{command} has no completion");
    }
    assert!(!manual.contains("demo-host"), "what is not for people is not in the manual");
}

#[test]
fn bash_completes_options_behind_a_subcommand() {
    let completed = |words: &[&str]| {
        let (last, line) = (words[words.len() - 1], words.join(" "));
        let before = words[words.len() - 2];
        let script = format!(
            "source /dev/stdin; COMP_WORDS=({line}); COMP_CWORD={}; _magnet__scope magnet-scope '{last}' '{before}'; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let mut bash = std::process::Command::new("bash")
            .args(["-c", &script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("bash");
        let completions = run(&["completions", "bash"]).stdout;
        std::io::Write::write_all(&mut bash.stdin.take().expect("piped"), &completions).expect("it reads");
        let output = bash.wait_with_output().expect("it ends");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (words, expected) in [
        (&["magnet-scope", "rec"][..], "record"),
        (&["magnet-scope", "record", "--cl"], "--clock"),
        (&["magnet-scope", "report", "--by", ""], "process"),
        (&["magnet-scope", "agent", "in"], "init"),
    ] {
        let found = completed(words);
        assert!(found.split_whitespace().any(|word| word == expected), "{words:?}: {found}");
    }
}

#[test]
fn the_manual_has_a_file_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("man1");
    let written = run(&["man", "--output", &folder.to_string_lossy()]);
    assert!(written.status.success(), "{}", stderr(&written));
    for page in ["magnet-scope", "magnet-scope-record", "magnet-scope-agent-init"] {
        let text = std::fs::read_to_string(folder.join(format!("{page}.1"))).expect(page);
        assert!(text.contains(&format!(".TH {page} 1")), "{text}");
    }
    assert!(!folder.join("magnet-scope-demo-host.1").exists(), "what is not for people has no page");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = magnet_scope(&["doctor", "--json"]).spawn().expect("it starts");
    let mut some = [0; 1];
    let mut output = child.stdout.take().expect("a pipe");
    output.read_exact(&mut some).expect("a first byte");
    drop(output);
    let rest = child.wait_with_output().expect("it ends");
    assert!(rest.status.success() && rest.stderr.is_empty(), "{}: {}", rest.status, stderr(&rest));
}

#[test]
fn defaults_come_from_a_file_that_nobody_else_writes() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("config.toml");
    let run = |arguments: &[&str]| {
        magnet_scope(arguments).env("MAGNET_SCOPE_CONFIG", &file).output().expect("it starts")
    };
    fs::write(&file, "[hops]\njson = true\n").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its owner's");
    let output = run(&["hops"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok(), "{}", stdout(&output));
    let output = run(&["config", "--show"]);
    assert_eq!(stdout(&output), format!("[hops]\njson = true  # {}\n", file.display()));
    // What it shows is a configuration.
    let shown = dir.path().join("shown.toml");
    fs::write(&shown, &output.stdout).expect("a file");
    fs::set_permissions(&shown, fs::Permissions::from_mode(0o600)).expect("its owner's");
    let again =
        magnet_scope(&["config", "--show"]).env("MAGNET_SCOPE_CONFIG", &shown).output().expect("it starts");
    assert!(stdout(&again).starts_with("[hops]\njson = true"), "{}", stderr(&again));

    // What a terminal obeys is not printed.
    fs::write(&file, "[live]\nunit = \"\\u001b[31m\u{202e}\"\n").expect("a file");
    let output = run(&["config", "--show"]);
    assert!(stdout(&output).contains("unit = "), "{}", stderr(&output));
    assert_eq!(unsafe_characters(&output.stdout), Vec::<char>::new());
    fs::write(&file, "[hops]\njson = true\n").expect("a file");

    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("everybody's");
    let output = run(&["hops"]);
    assert!(
        stdout(&output).contains("app.send")
            && serde_json::from_slice::<serde_json::Value>(&output.stdout).is_err()
    );
    assert!(stderr(&output).contains("is not used"), "{}", stderr(&output));

    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its owner's");
    fs::write(&file, "[record]\nhobs = 1\n").expect("a file");
    let output = run(&["hops"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("[record] hobs") && stderr(&output).contains("config.toml"),
        "{}",
        stderr(&output)
    );
}
