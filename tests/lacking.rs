//! Hosts that lack what a capture needs: each message names the failure, its object, the likely cause and the next step.

use crate::common;

use common::{is_root, skipped, stderr, stdout};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A short capture without a screen.
const LIVE: &[&str] = &["live", "--duration", "1s", "--json"];

/// Runs the binary on a host that lacks these (see `lacking/host.py`).
fn on_host(lacks: &[&str], arguments: &[&str]) -> Output {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lacking/host.py");
    let mut command = Command::new("python3");
    command.arg(host).args(lacks).arg("--").arg(env!("CARGO_BIN_EXE_magnet-scope")).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.output().expect("python3 starts")
}

/// True if hosts can be made up here.
fn can_make_hosts(test: &str) -> bool {
    let has_python =
        Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !has_python {
        skipped(test, "python3 is not there");
    }
    is_root(test) && has_python
}

/// Asserts that a capture is refused with exit code 1 and a message that has all of these parts, and a next step.
fn is_refused(lacks: &[&str], arguments: &[&str], parts: &[&str]) {
    let output = on_host(lacks, arguments);
    let messages = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{lacks:?} {arguments:?}: {messages}");
    assert!(output.stdout.is_empty(), "{lacks:?}: {}", stdout(&output));
    assert!(messages.starts_with("magnet-scope: "), "{lacks:?}: {messages}");
    for part in parts.iter().chain(&["next step:"]) {
        assert!(messages.contains(part), "{lacks:?} {arguments:?} should say {part}: {messages}");
    }
    assert!(!messages.contains("libbpf:"), "{lacks:?}: {messages}");
}

/// The line of `doctor` with this check, and its advice.
fn doctor(lacks: &[&str], check: &str) -> String {
    let output = on_host(lacks, &["doctor"]);
    assert!(output.status.success(), "{lacks:?}: {}", stderr(&output));
    let text = stdout(&output);
    let is_it = |line: &str| line.get(3..).is_some_and(|rest| rest.starts_with(&format!("{check} ")));
    let mut lines = text.lines().skip_while(|line| !is_it(line));
    let first = lines.next().unwrap_or_else(|| panic!("no {check} in\n{text}"));
    let rest = lines.take_while(|line| line.starts_with("          "));
    std::iter::once(first).chain(rest).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The kernel's type information, with these names replaced by others.
fn without_names(dir: &TempDir, names: &[&str]) -> PathBuf {
    let mut types = fs::read("/sys/kernel/btf/vmlinux").expect("BTF");
    for name in names {
        let wanted = format!("\0{name}\0").into_bytes();
        let at = types.windows(wanted.len()).position(|window| window == wanted);
        if let Some(at) = at {
            types[at + 1] = b'X';
        }
    }
    let path = dir.path().join("doctored.btf");
    fs::write(&path, types).expect("room for a copy");
    path
}

#[test]
fn without_type_information_nothing_is_captured() {
    if !can_make_hosts("no BTF") {
        return;
    }
    is_refused(&["btf"], LIVE, &["has no BTF", "CONFIG_DEBUG_INFO_BTF", "`magnet-scope replay`"]);
    assert!(doctor(&["btf"], "BTF").contains("missing captures need it"));
    let capture = doctor(&["btf"], "capture");
    assert!(capture.starts_with("!!") && capture.contains("has no BTF"), "{capture}");
}

#[test]
fn type_information_that_is_cut_short_is_named_with_its_length() {
    if !can_make_hosts("damaged BTF") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("cut.btf");
    let whole = fs::read("/sys/kernel/btf/vmlinux").expect("BTF");
    for length in [0, 20, whole.len() / 2] {
        fs::write(&path, &whole[..length]).expect("room for a copy");
        let lack = format!("btf={}", path.display());
        let parts = [
            "the BTF in /sys/kernel/btf/vmlinux cannot be read",
            &format!("the file has {length} "),
            "another file is mounted there",
            "findmnt",
        ];
        is_refused(&[&lack], LIVE, &parts);
    }
    fs::write(&path, [&[0xeb, 0x9f][..], &whole[2..]].concat()).expect("room for a copy");
    let lack = format!("btf={}", path.display());
    is_refused(&[&lack], LIVE, &["a machine with the other byte order"]);
    assert!(doctor(&[&lack], "BTF").contains("cannot be read: it is of a machine"));
}

#[test]
fn a_lockdown_that_forbids_reading_is_named() {
    if !can_make_hosts("lockdown") {
        return;
    }
    let lack = "lockdown=confidentiality";
    is_refused(&[lack], LIVE, &["is locked down", "`confidentiality`", "Secure Boot", "lockdown=integrity"]);
    assert!(doctor(&[lack], "lockdown").starts_with("!! lockdown"));
    let allowed = on_host(&["lockdown=integrity"], LIVE);
    assert!(allowed.status.success(), "{}", stderr(&allowed));
}

#[test]
fn each_capability_that_root_lacks_is_named() {
    if !can_make_hosts("capabilities") {
        return;
    }
    is_refused(
        &["cap_net_admin"],
        LIVE,
        &["lacks the capabilities CAP_NET_ADMIN (", "withholds them", "--cap-add"],
    );
    // the older capability includes both
    let lacks = ["cap_bpf", "cap_perfmon", "cap_sys_admin"];
    is_refused(&lacks, LIVE, &["lacks the capabilities CAP_BPF (", "), CAP_PERFMON (", "withholds them"]);
    let inside = ["user-namespace"];
    is_refused(
        &inside,
        LIVE,
        &["lacks the capabilities CAP_BPF (", "it runs in a user namespace", "on the host itself"],
    );
    assert!(doctor(&inside, "capabilities").contains("those of this user namespace do not count"));
}

#[test]
fn a_recording_that_cannot_start_leaves_no_directory() {
    if !can_make_hosts("no directory") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let session = dir.path().join("session");
    for lacks in [&["btf"][..], &["lockdown=confidentiality"], &["cap_net_admin"]] {
        let at = session.display().to_string();
        is_refused(lacks, &["record", "-o", &at, "--duration", "1s"], &[]);
        assert!(!session.exists(), "{lacks:?}");
    }
}

#[test]
fn a_hop_of_cgroups_is_refused_without_a_hierarchy() {
    if !can_make_hosts("no cgroup v2") {
        return;
    }
    let only = ["--backend", "cgroup-skb", "--hops", "udp.recv"];
    let arguments = [LIVE, &only[..]].concat();
    is_refused(
        &["cgroup2"],
        &arguments,
        &["udp.recv", "no cgroup v2 hierarchy is mounted", "nsenter --net=", "mount -t cgroup2"],
    );
    is_refused(&["cgroups"], &arguments, &["udp.recv", "was built without cgroup v2", "CONFIG_CGROUPS"]);
    assert!(doctor(&["cgroup2"], "cgroup v2").contains("mount -t cgroup2"));
    assert!(doctor(&["cgroups"], "cgroup v2").contains("not in this kernel"));
    // With every backend, the missing mount is the cause, and not the kernel.
    let output = on_host(&["cgroup2"], &[LIVE, &["--hops", "udp.recv,dev.xmit"]].concat());
    let messages = stderr(&output);
    assert!(output.status.success() && !messages.contains("on this kernel: udp.recv"), "{messages}");
    assert!(!messages.contains("udp.recv") || messages.contains("nsenter --net="), "{messages}");
    // the other hops do without
    let others = on_host(&["cgroups"], LIVE);
    assert!(others.status.success(), "{}", stderr(&others));
}

#[test]
fn a_kernel_without_netfilter_links_lacks_the_hops_of_netfilter_and_no_others() {
    if !can_make_hosts("no netfilter links") {
        return;
    }
    let dir = TempDir::new().expect("a directory");
    let doctored = without_names(&dir, &["bpf_nf_link", "bpf_nf_link_attach"]);
    let absent = format!("btf={}", doctored.display());
    // BPF_LINK_CREATE, refused as by a kernel that lacks links of this kind
    let refused = "bpf:28=EINVAL";
    let only = [LIVE, &["--backend", "netfilter", "--hops", "ip.out"]].concat();
    is_refused(
        &[&absent],
        &only,
        &["ip.out", "cannot attach to netfilter by link", "CONFIG_NETFILTER_BPF_LINK"],
    );
    is_refused(&[refused], &only, &["ip.out", "netfilter at LOCAL_OUT was refused", "Invalid argument"]);
    for lack in [absent.as_str(), refused] {
        let output = on_host(&[lack], &[LIVE, &["--hops", "dev.xmit,dev.recv"]].concat());
        assert!(
            output.status.success() && !stderr(&output).contains("not served"),
            "{lack}: {}",
            stderr(&output)
        );
        let output = on_host(&[lack], &[LIVE, &["--hops", "ip.out,dev.xmit"]].concat());
        assert!(output.status.success(), "{lack}: {}", stderr(&output));
        if stderr(&output).contains("not served") {
            assert!(
                stderr(&output).contains("not served on this kernel: ip.out ("),
                "{lack}: {}",
                stderr(&output)
            );
        }
    }
}

#[test]
fn a_kernel_without_perf_events_is_named_where_one_is_needed() {
    if !can_make_hosts("no perf events") {
        return;
    }
    let lack = "perf_event_open=ENOSYS";
    let probe = [LIVE, &["--probe", "tracepoint:skb:kfree_skb name=gone reason"]].concat();
    let parts = ["tracepoint:skb:kfree_skb", "perf events", "Function not implemented", "CONFIG_PERF_EVENTS"];
    is_refused(&[lack], &probe, &parts);
    let hop = [LIVE, &["--backend", "tracepoint", "--hops", "udp.send"]].concat();
    is_refused(&[lack], &hop, &["udp.send", "perf events", "CONFIG_PERF_EVENTS"]);
    // the default hops do without, and the clock of events has a substitute
    let output = on_host(&[lack], &[LIVE, &["--clock", "tsc"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("the TSC cannot be used"), "{}", stderr(&output));
}

#[test]
fn a_policy_that_forbids_programs_is_the_likely_cause() {
    if !can_make_hosts("a policy") {
        return;
    }
    is_refused(&["bpf=EPERM"], LIVE, &["refused to load the probes", "not permitted", "security policy"]);
}
