//! The language of the capture filter.

use magscope_core::CaptureFilter;
use magscope_core::capture_filter::{Field, FieldAccess, field_access};
use magscope_core::hop::{Hop, HopSet};
use proptest::prelude::*;

#[test]
fn filters_print_as_they_are_read() {
    for (typed, printed) in [
        ("port 443 and not comm = sshd", "port = 443 and not comm = sshd"),
        ("icmp or proto 47", "proto = icmp or proto = 47"),
        ("igmp or proto IGMP or proto 2", "proto = igmp or proto = igmp or proto = igmp"),
        ("PORT == 443", "port = 443"),
        (
            "udp and (host 10.1.2.3/8 or iface eth1) and rx",
            "proto = udp and (host = 10.0.0.0/8 or iface = eth1) and dir = rx",
        ),
        ("port 8000-8099 or len > 1000", "port = 8000-8099 or len = 1001-4294967295"),
        ("pid != 7", "not tgid = 7"),
        ("cpu < 0", "cpu < 0"),
        ("cpu < 2", "cpu = 0-1"),
        ("user \"a b\"", "uid = \"a b\""),
        (
            "cgroup /system.slice/x.service and hop = dev.xmit",
            "cgroup = /system.slice/x.service and hop = dev.xmit",
        ),
        ("dst fd00::/8 and dir = off", "dst = fd00::/8 and dir = off"),
        ("container 4fa2 and netns = blue and socket 12", "container = 4fa2 and netns = blue and socket = 12"),
    ] {
        let filter = CaptureFilter::parse(typed).unwrap_or_else(|e| panic!("{typed}: {e}"));
        assert_eq!(filter.to_string(), printed);
        assert_eq!(CaptureFilter::parse(printed).as_ref(), Ok(&filter), "{printed}");
    }
}

#[test]
fn what_is_wrong_is_said_where_it_stands() {
    for (typed, position, expected) in [
        ("", 1, "expected a comparison"),
        ("prt 4", 1, "nearest is `port`"),
        ("port", 5, "a number or a range"),
        ("port 70000", 6, "too large"),
        ("port 9-1", 6, "a number or a range"),
        ("port < 1-9", 8, "a number or a range"),
        ("comm < x", 6, "`=` or `!=`"),
        ("hop = dev.xmitt", 7, "nearest is `dev.xmit`"),
        ("proto icmq", 7, "no protocol"),
        ("host 10.0.0.0/33", 6, "an address"),
        ("(tcp", 5, "`)`"),
        ("tcp udp", 5, "`and`, `or` or the end"),
        ("comm = ''", 8, "a process's name"),
    ] {
        let error = CaptureFilter::parse(typed).unwrap_err();
        assert_eq!(error.position, position, "{typed}: {error}");
        assert!(error.to_string().contains(expected), "{typed}: {error}");
    }
    assert!(CaptureFilter::parse(&"not ".repeat(100_000)).is_err());
    assert!(CaptureFilter::parse(&"(".repeat(9_000)).is_err());
}

#[test]
fn blind_spots_are_the_hops_that_can_never_know() {
    let filter = CaptureFilter::parse("iface = eth0 and port 80").unwrap();
    let hops: HopSet = [Hop::AppSend, Hop::DevXmit, Hop::SchedSwitch].into_iter().collect();
    let of = |hops: &[Hop]| hops.iter().copied().collect::<HopSet>();
    let spots = filter.blind_spots(hops);
    assert_eq!(
        spots,
        [(Field::Iface, of(&[Hop::AppSend, Hop::SchedSwitch])), (Field::Port, of(&[Hop::SchedSwitch])),]
    );
    assert!(!filter.needs_memory());
    assert!(CaptureFilter::parse("tcp and not uid 0").unwrap().needs_memory());
    assert_eq!(field_access(Hop::DevRecv, Field::Comm), FieldAccess::Remembered);
    assert_eq!(field_access(Hop::SchedFork, Field::Comm), FieldAccess::Itself);
}

#[test]
fn asked_hops_are_those_that_are_not_excluded() {
    let asked = |text: &str| CaptureFilter::parse(text).expect(text).asked_hops().iter().collect::<Vec<_>>();
    assert_eq!(asked("port 80 and (hop = ip.in or hop dev.xmit)"), [Hop::DevXmit, Hop::IpIn]);
    assert_eq!(asked("hop != ip.in and not (hop = ip.pre or hop != dev.recv)"), [Hop::DevRecv]);
    assert!(asked("port 80").is_empty());
}

proptest! {
    #[test]
    fn any_text_is_a_filter_that_prints_as_itself_or_an_error(text in "[a-z0-9.:/<>=!()\" '-]{0,60}|\\PC{0,40}") {
        if let Ok(filter) = CaptureFilter::parse(&text) {
            let printed = filter.to_string();
            prop_assert_eq!(CaptureFilter::parse(&printed), Ok(filter));
        }
    }
}
