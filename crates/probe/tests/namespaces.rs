//! Network namespaces that end between the look for them and the attaching of probes, and interfaces that are made
//! during a capture.

use crate::common::{CLIENT, Host, Pair, Recording, SERVER, can_capture, hops, quiet, waits};
use magscope_core::Hop;
use magscope_probe::{Capture, CaptureOptions, NetnsTarget};
use std::process::Command;
use std::time::Duration;

/// The namespace of a process that has ended, with it.
fn ended() -> NetnsTarget {
    let own = NetnsTarget::current().expect("/proc is mounted");
    let mut child =
        Command::new("unshare").args(["--net", "sleep", "600"]).spawn().expect("util-linux is there");
    let of_child = || NetnsTarget::of_pid(child.id(), "ended").expect("it runs");
    waits::until("it has a namespace of its own", || of_child().inode != own.inode);
    let target = of_child();
    child.kill().and_then(|()| child.wait()).expect("it is ours");
    target
}

#[test]
fn of_all_namespaces_those_that_have_ended_are_left_out() {
    if !can_capture() {
        return;
    }
    let net = quiet();
    // Netfilter programs are attached in each namespace.
    let netns = vec![net.client.target.clone(), ended(), net.server.target.clone()];
    let options = CaptureOptions { hops: hops(&[Hop::IpOut, Hop::IpPre]), netns, ..CaptureOptions::default() };

    let refused = Capture::start(options.clone()).map(drop);
    if refused.is_ok() {
        println!("skipped, because netfilter serves no hop here: ended namespaces");
        return;
    }
    let words = refused.expect_err("a namespace that was named").to_string();
    assert!(words.contains("cannot enter network namespace ended"), "{words}");

    let mut recording = Recording::start(CaptureOptions { every_netns: true, ..options });
    Pair::new(&net, CLIENT, SERVER, 7_100).send(20, 100);
    recording.stop();
    let at = |hop: Hop, host: &Host| {
        let of_host = recording.events.iter().filter(|event| {
            let flow = recording.flows.get(&event.flow.0);
            event.hop == hop && event.len == 100 && flow.is_some_and(|flow| flow.netns == host.target.inode)
        });
        of_host.count()
    };
    assert_eq!((at(Hop::IpOut, &net.client), at(Hop::IpPre, &net.server)), (20, 20));
}

#[test]
fn an_interface_that_is_made_during_a_capture_gets_its_name_and_kind() {
    if !can_capture() {
        return;
    }
    let net = quiet();
    let ip = |arguments: &str| {
        let run = || Command::new("ip").arg("link").args(arguments.split(' ')).status();
        assert!(net.client.run(run).is_ok_and(|status| status.success()), "ip link {arguments}");
    };
    let netns = vec![net.client.target.clone(), net.server.target.clone()];
    let options = CaptureOptions { hops: hops(&[Hop::DevXmit]), netns, ..CaptureOptions::default() };
    let mut recording = Recording::start(options);
    let inode = net.client.target.inode;
    let mut get = |name: &str| {
        let mut found = None;
        waits::until(name, || {
            recording.drain(Duration::ZERO);
            let mut interfaces = recording.info().interfaces.iter();
            found = interfaces.find(|one| one.netns == inode && one.name == name).cloned();
            found.is_some()
        });
        found.expect("a name")
    };
    ip("add late0 type veth peer name late1");
    let made = get("late0");
    assert_eq!(made.kind, "veth");
    ip("set late0 name early0");
    assert_eq!(get("early0").index, made.index);
    recording.stop();
    let named = recording.batches.iter().flat_map(|batch| &batch.names).flat_map(|names| &names.interfaces);
    assert_eq!(named.filter(|one| **one == made).count(), 1, "each name comes once");
}
