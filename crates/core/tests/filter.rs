//! Filters: accepted texts, rejected texts and their errors, matching journeys.

use crate::common;
use common::*;
use magscope_core::condition::Problem;
use magscope_core::context::NodeContext;
use magscope_core::exchange::ExchangeFilter;
use magscope_core::filter::MAX_DEPTH;
use magscope_core::journey::{Correlator, Journey};
use magscope_core::node::{CgroupName, NetnsName, NodeInfo};
use magscope_core::{Event, Filter, Hop, HopSet, Proto, Task, Verdict};
use proptest::prelude::*;

/// 1000 bytes from the client to the server: 2 ms in the queue of the device, 1 ms over the wire, 30 ms until
/// the read. `ip.in` and the scheduler's hops were disabled.
fn one_journey() -> (Journey, Correlator) {
    let tx = [(Hop::TcpSend, 0), (Hop::TcpXmit, 10), (Hop::DevQueue, 20), (Hop::DevXmit, 2_020)];
    let rx = [(Hop::DevRecv, 3_020), (Hop::TcpRecv, 3_030)];
    let at = |us: u64| 1_000_000 + us * 1_000;
    let mut events: Vec<_> = tx.iter().map(|(hop, us)| tcp(*hop, at(*us), CLIENT, 7, 1000)).collect();
    events.extend(rx.iter().map(|(hop, us)| tcp(*hop, at(*us), SERVER, 7, 1000)));
    events.push(by(tcp(Hop::SockReady, at(3_040), SERVER, 1007, 0), 0, 9));
    events.push(by(tcp(Hop::AppRecv, at(33_040), SERVER, 7, 1000), 200, 9));
    events[0] = by(events[0], 100, 8);
    // The sender's side is on one CPU, the receiver's on another.
    for event in &mut events {
        event.cpu = if event.time_ns < at(3_000) { 2 } else { 5 };
    }
    let mut batch = batch(flows(Proto::TCP), events);
    let task = |tid, comm: &str| Task { tgid: tid, tid, uid: 0, cgroup: 1, comm: comm.to_owned() };
    batch.tasks = vec![task(100, "web server"), task(200, "reader")];
    let served: HopSet =
        tx.iter().chain(&rx).map(|(hop, _)| *hop).chain([Hop::SockReady, Hop::AppRecv]).collect();
    let mut correlator = Correlator::new(served, magscope_core::Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch, &mut done);
    correlator.finish(&mut done);
    assert_eq!(done.len(), 1, "{done:?}");
    assert_eq!(done[0].verdict, Verdict::Complete);
    (done.remove(0), correlator)
}

#[test]
fn journeys_that_are_meant() {
    let (journey, correlator) = one_journey();
    let netns = vec![NetnsName { netns: 1, name: "client".to_owned() }];
    let cgroups = vec![CgroupName { id: 1, path: "/system.slice/web.service".to_owned() }];
    let node = NodeInfo { host: "machine".to_owned(), netns, cgroups, ..NodeInfo::default() };
    let table = [
        ("total > 5ms", true),
        ("total = 33040us", true),
        ("total < 33.04ms", false),
        ("total <= 33.04 ms", true),
        ("hop(dev.queue,dev.xmit) > 1ms", true),
        ("hop(dev.queue,dev.xmit) > 1ms and hop(sock.ready,app.recv) >= 30ms", true),
        ("hop(tcp.send,app.recv) = 33.04ms", true),
        // never passed: neither condition holds
        ("hop(dev.recv,ip.in) > 0ns", false),
        ("hop(dev.recv,ip.in) <= 1s", false),
        ("not hop(dev.recv,ip.in) <= 1s", true),
        ("bytes = 1k", true),
        ("bytes < 1Ki and bytes >= 1000", true),
        ("retransmits = 0", true),
        ("proto = TCP and proto != udp", true),
        ("verdict = complete", true),
        ("verdict != complete or verdict = lost", false),
        ("port = 80", true),
        ("port = 4000", true),
        ("port != 80", false),
        ("port != 81", true),
        ("sport = 80", false),
        ("dport == 80", true),
        ("port > 3999", true),
        ("host = 10.0.0.2", true),
        ("addr = 10.0.0.0/30 and host != 10.1.0.0/16", true),
        ("host = fd00::/8", false),
        ("host = 0.0.0.0/0", true),
        ("host = ::/0", false),
        ("host = ::ffff:10.0.0.1", true),
        ("comm = reader", true),
        ("comm = \"web server\"", true),
        ("comm != reader", false),
        ("comm = web", false),
        ("netns = client and netns = 2", true),
        ("netns = server", false),
        ("pid = 100", true),
        ("cpu = 2 and cpu = 5", true),
        ("cpu = 1", false),
        ("cpu != 1", true),
        ("cpu != 5", false),
        ("cpu > 4", true),
        ("cpu > 5", false),
        ("tgid = 200", true),
        ("pid != 100", false),
        ("pid != 7", true),
        ("node = client", true),
        ("node = machine and node != server", true),
        ("node = netns:2", true),
        ("cgroup = 1", true),
        ("cgroup = 2", false),
        ("cgroup = /", true),
        ("cgroup = /system.slice", true),
        ("cgroup = /system.slice/", true),
        ("cgroup = /system", false),
        ("cgroup = web.service", true),
        ("cgroup != web.service", false),
        ("flow = 10.0.0.1:4000-10.0.0.2:80", true),
        ("flow = 10.0.0.2:80-10.0.0.1:4000", true),
        ("flow = 10.0.0.2↔10.0.0.1", true),
        ("flow = 10.0.0.2:4000", false),
        ("flow = :80-:4000", true),
        ("flow = :80-:80", false),
        ("flow = ::ffff:10.0.0.2", true),
        ("flow = [::ffff:10.0.0.2]:80", true),
        ("flow != [fd00::2]:80", true),
        ("flow = 000000000000000b", true),
        ("flow = 000000000000000c", false),
        ("lost or dropped or retransmitted", false),
        ("not lost and not (dropped or retransmitted)", true),
        ("bytes = 1kB and bytes = 1KB", true),
        ("bytes < 1KiB and bytes < 1 MiB and bytes < 0.5MB", true),
        ("total > 1s or (bytes > 1 and port = 80)", true),
        ("total > 1s and port = 81 or bytes > 1", true),
        ("(total > 1s or bytes > 1) and port = 81", false),
        ("NOT (port = 81 OR not proto = tcp)", true),
    ];
    for (text, meant) in table {
        let filter = Filter::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let context = NodeContext { correlator: &correlator, node: &node };
        assert_eq!(filter.matches(&journey, &context), meant, "{text}");
    }
    // Unannounced flows and processes are unknown, so no comparison with them holds.
    let nobody = Correlator::new(HopSet::all(), magscope_core::Limits::default());
    for text in [
        "port != 80",
        "host != 10.0.0.1",
        "comm != x",
        "netns != x",
        "dport > 0",
        "node != x",
        "cgroup != x",
        "flow != :1",
    ] {
        let context = NodeContext { correlator: &nobody, node: &node };
        assert!(!Filter::parse(text).unwrap().matches(&journey, &context), "{text}");
    }
}

#[test]
fn ports_have_ranges_and_qualify_a_protocol() {
    let (journey, correlator) = one_journey();
    let node = NodeInfo::default();
    let context = NodeContext { correlator: &correlator, node: &node };
    for (text, meant) in [
        ("not tcp port 81", true),
        ("not tcp port 80", false),
        ("not tcp dst port 80 and tcp", false),
        ("port 79-80", true),
        ("portrange 81-3999", false),
        ("src portrange 1-100", false),
        ("dst portrange 1-100", true),
        ("port != 81-3999 and port != 1-79", true),
        ("port != 4000-4001", false),
    ] {
        let filter = Filter::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(filter.matches(&journey, &context), meant, "{text}");
    }
}

#[test]
fn errors_say_where_and_what_would_do() {
    let table = [
        ("", "at character 1: expected a comparison, as in `total > 5ms`, found the end"),
        ("total", "at character 6: expected `<`, `<=`, `>`, `>=`, `=` or `!=`, found the end"),
        ("total > ", "at character 9: expected a time with its unit, as in `5ms`, found the end"),
        ("total > 5", "at character 9: expected a time with its unit, as in `5ms`, found `5`"),
        ("total > 5sec", "at character 9: no unit is called `sec`; the nearest is `s`"),
        ("totl > 5ms", "at character 1: no field is called `totl`; the nearest is `total`"),
        (
            "hop(dev.que,dev.xmit) > 1ms",
            "at character 5: no hop on the way of a packet is called `dev.que`; the nearest is `dev.queue`",
        ),
        ("hop(dev.xmit) > 1ms", "at character 13: expected `,`, found `)`"),
        (
            "hop(dev.xmit,dev.queue) > 1ms",
            "at character 14: expected a hop that comes after `dev.xmit` on the way of a packet, found `dev.queue`",
        ),
        ("proto = tpc", "at character 9: no protocol is called `tpc`; the nearest is `tcp`"),
        ("proto > tcp", "at character 7: expected `=` or `!=`, found `>`"),
        ("verdict = drop", "at character 11: no verdict is called `drop`; the nearest is `dropped`"),
        (
            "host = 10.0.0.0/33",
            "at character 8: expected an address or a prefix, as in `10.0.0.1`, `10.0.0.0/8` or `fd00::/8`, found `10.0.0.0/33`",
        ),
        (
            "flow = 10.0.0.1:x",
            "at character 8: expected one end or both, as in `10.0.0.1:4000-10.0.0.2:80`, `[fd00::1]:80` or `:443`, or a flow's number, found `10.0.0.1:x`",
        ),
        ("dropd", "at character 1: no field is called `dropd`; the nearest is `dropped`"),
        ("lost = yes", "at character 6: expected `and`, `or` or the end, found `=`"),
        ("pid = nginx", "at character 7: expected a process's number, as in `4711`, found `nginx`"),
        ("port = 70000", "at character 8: `70000` is too large"),
        ("bytes > 99999999999999999999", "at character 9: `99999999999999999999` is too large"),
        ("retransmits > 1.5", "at character 15: expected a number, as in `0`, found `1.5`"),
        ("total > 5ms & port = 1", "at character 13: expected `and`, found `&`"),
        ("total > 5ms port = 1", "at character 13: expected `and`, `or` or the end, found `port`"),
        ("(total > 5ms", "at character 13: expected `)`, found the end"),
        ("comm = \"x", "at character 8: expected a text that ends with the same quote, found the end"),
    ];
    for (text, message) in table {
        assert_eq!(Filter::parse(text).map_err(|e| e.to_string()), Err(message.to_owned()), "{text}");
    }
    assert!(Filter::parse(&format!("comm = {}", "x".repeat(1 << 20))).is_err());
}

#[test]
fn nesting_is_bounded() {
    let nested = |n: usize| format!("{}port = 1{}", "(".repeat(n), ")".repeat(n));
    assert!(Filter::parse(&nested(MAX_DEPTH)).is_ok());
    let error = Filter::parse(&nested(MAX_DEPTH + 1)).unwrap_err();
    assert!(error.to_string().contains("inside each other"), "{error}");
    assert!(Filter::parse(&"(".repeat(9_000)).is_err());
    assert!(Filter::parse(&format!("{}port = 1", "not ".repeat(2_000))).is_err());
    let long = vec!["port = 1"; 800].join(" or ");
    assert!(Filter::parse(&long).is_ok(), "length is not depth");
}

/// One comparison as a user might write it.
fn comparison() -> impl Strategy<Value = String> {
    let op = prop::sample::select(vec!["<", "<=", ">", ">=", "=", "!="]);
    let is = prop::sample::select(vec!["=", "!="]);
    let unit = prop::sample::select(vec!["ns", "us", "µs", "ms", "s"]);
    let hops = (0..10_usize, 10..19_usize);
    let number = prop_oneof![0..2_000_u64, any::<u64>().prop_map(|n| n >> 31)];
    prop_oneof![
        (op.clone(), number.clone(), unit.clone()).prop_map(|(op, n, unit)| format!("total{op}{n}{unit}")),
        (hops, op.clone(), 0..999_u32, 0..999_u32, unit).prop_map(|((a, b), op, n, tenths, unit)| {
            let (from, to) = (Hop::path()[a], Hop::path()[b]);
            let dot = if unit == "ns" { String::new() } else { format!(".{tenths}") };
            format!("hop({from}, {to}) {op} {n}{dot} {unit}")
        }),
        (op.clone(), number).prop_map(|(op, n)| format!("bytes {op} {n}")),
        (op, any::<u16>()).prop_map(|(op, n)| format!("port {op} {n}")),
        (is.clone(), 0..999_u16, 999..=u16::MAX).prop_map(|(is, a, b)| format!("dport {is} {a}-{b}")),
        (is.clone(), 0..Verdict::KINDS).prop_map(|(is, n)| format!("verdict {is} {}", Verdict::NAMES[n])),
        (is.clone(), any::<[u8; 4]>(), 0..=32_u8)
            .prop_map(|(is, [a, b, c, d], bits)| format!("host {is} {a}.{b}.{c}.{d}/{bits}")),
        (is.clone(), any::<u128>(), 0..=128_u8)
            .prop_map(|(is, n, bits)| format!("addr {is} {}/{bits}", std::net::Ipv6Addr::from(n))),
        (is.clone(), any::<[u8; 4]>(), any::<u128>(), any::<u16>()).prop_map(|(is, [a, b, c, d], v6, port)| {
            format!("flow {is} {a}.{b}.{c}.{d}:{port}-[{}]:{port}", std::net::Ipv6Addr::from(v6))
        }),
        (is.clone(), any::<u64>()).prop_map(|(is, id)| format!("flow {is} {id:016x}")),
        prop::sample::select(vec!["lost", "dropped", "retransmitted", "flow = :7", "pid < 9"])
            .prop_map(str::to_owned),
        (is.clone(), prop::sample::select(vec!["comm", "node", "cgroup", "netns"]), "[a-z/.]{1,9}")
            .prop_map(|(is, field, name)| format!("{field} {is} {name}")),
        (is, any::<String>()).prop_map(|(is, name)| {
            format!("comm {is} \"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
        }),
    ]
}

fn condition() -> impl Strategy<Value = String> {
    comparison().prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| format!("not ({a})")),
            inner.clone().prop_map(|a| format!("({a})")),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|all| format!("(({}))", all.join(") and ("))),
            prop::collection::vec(inner, 1..4).prop_map(|any| any.join(" or ")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = Filter::parse(&text);
    }

    #[test]
    fn no_sequence_of_its_own_words_makes_it_panic(words in prop::collection::vec(prop::sample::select(vec![
        "(", ")", ",", "<", ">=", "!=", "=", "and", "or", "not", "hop", "total", "dev.xmit", "app.recv", "5ms", "port",
        "7", "comm", "\"", "'x'", "host", "::/0", "1.", ".", "µs", "verdict", "lost", "\\", "!", "9e9",
    ]), 0..30)) {
        if let Ok(filter) = Filter::parse(&words.join(" ")) {
            prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        }
    }

    #[test]
    fn what_is_printed_reads_as_the_same(text in condition()) {
        if text.chars().count() < 9_000 {
            let filter = Filter::parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
            let printed = filter.to_string();
            prop_assert_eq!(Filter::parse(&printed), Ok(filter), "{}", printed);
        }
    }
}

#[test]
fn the_same_words_choose_in_every_filter() {
    // In events, journeys and requests, with words of tcpdump.
    for text in [
        "port 443",
        "udp",
        "tcp port 443",
        "host 10.0.0.2",
        "net 10.0.0.0/8",
        "container web",
        "proc nginx",
        "pid 4711",
        "not (udp or port 53) && host fd00::1",
        "!udp || proc = \"my server\"",
        "not tcp port 80",
        "portrange 8000-8099",
    ] {
        let journeys = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let events =
            magscope_core::CaptureFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let requests = ExchangeFilter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        // Their own text is read back.
        assert_eq!(Filter::parse(&journeys.to_string()), Ok(journeys), "{text}");
        assert_eq!(magscope_core::CaptureFilter::parse(&events.to_string()), Ok(events), "{text}");
        assert_eq!(ExchangeFilter::parse(&requests.to_string()), Ok(requests), "{text}");
    }
}

#[test]
fn a_word_of_another_filter_names_the_one_that_takes_it() {
    let journeys = |text: &str| Filter::parse(text).expect_err(text).to_string();
    assert!(journeys("tcp and len > 100").starts_with("at character 9: `len` is a property of single events"));
    assert!(journeys("request > 20ms").contains("`requests --where`, `/` and the trigger take it"));
    let events = magscope_core::CaptureFilter::parse("port 443 and lost").expect_err("lost").to_string();
    assert!(events.starts_with("at character 14: `lost` is a property of journeys"), "{events}");
}

#[test]
fn either_direction_has_a_word() {
    let same = |a: &str, b: &str| assert_eq!(Filter::parse(a), Filter::parse(b), "{a}");
    same("src host 10.0.0.1 and dst port 80", "src = 10.0.0.1 and dport = 80");
    same("dst net 10.0.0.0/8", "dst = 10.0.0.0/8");
    same("resent", "retransmits > 0");
    same("broken", "verdict = broken");
    same("udp dst port 53", "proto = udp and dport = 53");
}

/// tcpdump reads `and` and `or` from the left, other languages read `and` first.
#[test]
fn no_filter_has_another_meaning_than_in_tcpdump() {
    let mixed =
        ["tcp or udp and port 53", "udp and port 53 or tcp and port 80", "not (tcp or udp and port 53)"];
    for text in mixed {
        let errors = [
            Filter::parse(text).map(|_| ()),
            ExchangeFilter::parse(text).map(|_| ()),
            magscope_core::CaptureFilter::parse(text).map(|_| ()),
        ];
        for error in errors {
            assert!(error.is_err_and(|error| error.problem == Problem::Mixed), "{text}");
        }
    }
    for text in ["udp and port 53 or tcp", "tcp or (udp and port 53)", "tcp or udp or port 53"] {
        let filter = Filter::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(Filter::parse(&filter.to_string()), Ok(filter), "{text}");
    }
    // A protocol and its port are one comparison.
    let written = |text: &str| Filter::parse(text).map(|filter| filter.to_string());
    assert_eq!(
        written("not tcp port 80 and udp"),
        Ok("not (proto = tcp and port = 80) and proto = udp".to_owned())
    );
}

/// The identifier of an echo is stored in the place of its ports, and is none.
#[test]
fn a_ping_has_no_port() {
    let echo = |hop, time_ns, flow| Event {
        flow,
        len: 56,
        ip_id: 7,
        skb: 77,
        segs: 1,
        proto: Proto::ICMP,
        ..Event::at(hop, time_ns)
    };
    let flows = vec![
        flow(CLIENT, 1, Proto::ICMP, "10.0.0.1:443", "10.0.0.2:443"),
        flow(SERVER, 2, Proto::ICMP, "10.0.0.2:443", "10.0.0.1:443"),
    ];
    let events = [echo(Hop::IpOut, 10, CLIENT), echo(Hop::DevXmit, 20, CLIENT), echo(Hop::IpIn, 30, SERVER)];
    let mut correlator = Correlator::new(HopSet::all(), magscope_core::Limits::default());
    let mut done = Vec::new();
    correlator.push(&batch(flows, events.to_vec()), &mut done);
    correlator.finish(&mut done);
    let [journey] = &done[..] else { panic!("{done:?}") };
    let node = NodeInfo::default();
    let context = NodeContext { correlator: &correlator, node: &node };
    for (text, holds) in [
        ("port 443", false),
        ("dst port 443", false),
        ("not port 443", true),
        ("port != 443", true),
        ("dport != 1-9", true),
        ("port 1-9", false),
        ("port < 1024", false),
        ("icmp and host 10.0.0.1", true),
        ("proto 1", true),
        ("proto = 17", false),
        ("igmp or proto = igmp or proto = proto-47", false),
        ("not igmp and proto != 2", true),
        ("host ::ffff:10.0.0.0/120", true),
        ("host ::ffff:10.0.1.0/120", false),
    ] {
        assert_eq!(Filter::parse(text).unwrap().matches(journey, &context), holds, "{text}");
    }
}
