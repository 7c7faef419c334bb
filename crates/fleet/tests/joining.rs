//! Late hosts: hosts that were away, rebooted hosts, and rejected ones.

use crate::common;

use common::{Came, Serving, authority, batch, eventually, info, viewer};
use magscope_core::Batch;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source};
use magscope_fleet::{
    Address, FleetError, Host, HostDiscovery, Hosts, Likely, Memory, ReadOptions, StartAt, Terms,
};
use std::net::TcpListener;
use std::time::Duration;

const ALL: u64 = 64 << 20;

fn read_options(address: Address) -> ReadOptions {
    ReadOptions {
        address,
        credentials: None,
        from: StartAt::Back(Duration::from_mins(1)),
        terms: Terms::default(),
    }
}

/// An address with a closed port.
fn nobody() -> (Address, u16) {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    (format!("insecure:127.0.0.1:{port}").parse().expect("an address"), port)
}

/// The next discovered host.
fn comes(discovery: &HostDiscovery) -> Host {
    let mut host = None;
    assert!(eventually(|| {
        host = discovery.arrived();
        host.is_some()
    }));
    host.expect("it was there")
}

/// True if the host's stream ends.
fn ends(host: &mut Host) -> bool {
    let mut batch = Batch::default();
    eventually(|| host.next(&mut batch, Duration::from_millis(10)).expect("a source") == Progress::End)
}

#[test]
fn who_was_away_comes_later() {
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, None);
    let (away, port) = nobody();
    let (hosts, discovery) =
        HostDiscovery::enter(&[read_options(away), read_options(serving.plain())], None).expect("one is there");
    assert_eq!(hosts.len(), 1);
    assert!(discovery.ticker().news().iter().any(|news| news.text.contains("not there yet") && news.bad));
    assert!(discovery.arrived().is_none());

    let other = NodeInfo { host: "web-2".to_owned(), ..info() };
    let (late, mut late_writer) = Memory::new(other, ALL).expect("Arrow");
    late_writer.push(&batch(0)).expect("kept");
    let _late = Serving::start(&late, port, None);
    let mut host = comes(&discovery);
    assert_eq!(host.info().host, "web-2");
    let mut came = Came::default();
    came.read(&mut host, 100, || {});
    assert!(came.records.iter().copied().eq(0..100));
    writer.push(&batch(0)).expect("kept");
    drop(discovery);
    assert!(ends(&mut host), "it ended them all");
}

#[test]
fn a_host_that_is_booted_anew_comes_as_another() {
    let (memory, mut writer) = Memory::new(info(), ALL).expect("Arrow");
    writer.push(&batch(0)).expect("kept");
    let serving = Serving::start(&memory, 0, None);
    let port = serving.port;
    let (mut hosts, discovery) =
        HostDiscovery::enter(&[read_options(serving.plain())], None).expect("it is there");
    let mut first = hosts.remove(0);
    let mut came = Came::default();
    came.read(&mut first, 100, || {});
    drop((serving, writer));

    let restarted = NodeInfo { boot_id: "another".to_owned(), ..info() };
    let (memory, mut writer) = Memory::new(restarted, ALL).expect("Arrow");
    writer.push(&batch(0)).expect("kept");
    let _serving = Serving::start(&memory, port, None);
    assert!(ends(&mut first), "nothing more comes of the boot that is over");
    let mut second = comes(&discovery);
    assert_eq!((second.info().host.as_str(), second.info().boot_id.as_str()), ("web-1", "another"));
    let mut came = Came::default();
    came.read(&mut second, 100, || {});
    assert_eq!(came.missed, 0);
    let news: Vec<String> = discovery.ticker().news().into_iter().map(|news| news.text).collect();
    assert!(news.iter().any(|text| text.contains("was booted again")), "{news:?}");
    // The same host is not added twice.
    std::thread::sleep(Duration::from_secs(3));
    assert!(discovery.arrived().is_none());
}

#[test]
fn nobody_at_all_and_who_is_not_let_in_are_errors_at_once() {
    let enter = |requests: &[ReadOptions]| HostDiscovery::enter(requests, None).map(|(hosts, _)| hosts.len());
    let none = enter(&[read_options(nobody().0), read_options(nobody().0)]);
    assert!(matches!(none, Err(FleetError::Connect { likely: Likely::Nobody, .. })), "{none:?}");

    let ((_dir, folder), (_other, stranger)) = (authority(), authority());
    let (memory, _writer) = Memory::new(info(), ALL).expect("Arrow");
    let serving = Serving::start(&memory, 0, Some((folder.clone(), "host-web-1")));
    let asks = |folder| ReadOptions { credentials: viewer(folder, "viewer-me"), ..read_options(serving.tls()) };
    assert_eq!(enter(&[asks(&folder)]).expect("it is let in"), 1);
    let refused = enter(&[asks(&folder), asks(&stranger)]);
    assert!(matches!(refused, Err(FleetError::Connect { likely: Likely::Agent, .. })), "{refused:?}");
}

#[test]
fn a_relay_of_many_hosts_is_read_whole() {
    const HOSTS: usize = 70;
    let made = |number: usize| {
        let info = NodeInfo { host: format!("web-{number}"), ..info() };
        Memory::new(info, ALL).expect("Arrow")
    };
    let (memories, mut writers): (Vec<_>, Vec<_>) = (0..HOSTS).map(made).unzip();
    for writer in &mut writers {
        writer.push(&batch(0)).expect("kept");
    }
    let serving = Serving::of(Hosts::of(memories), 0, None);
    let (mut hosts, _discovery) =
        HostDiscovery::enter(&[read_options(serving.plain())], None).expect("it is there");
    assert_eq!(hosts.len(), HOSTS);
    for host in &mut hosts {
        let mut came = Came::default();
        came.read(host, 100, || {});
        assert!(came.records.iter().copied().eq(0..100), "{}", host.info().host);
    }
}
