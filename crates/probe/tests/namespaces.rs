//! Network namespaces that end between the look for them and the attaching of probes.

use crate::common::{CLIENT, Host, Pair, Recording, SERVER, can_capture, hops, quiet, waits};
use magscope_core::Hop;
use magscope_probe::{Capture, CaptureOptions, NetnsTarget};
use std::process::Command;

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
