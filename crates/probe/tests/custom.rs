//! Custom probes: their values equal the sent data, and their number equals the kernel's own counters.

use crate::common;

use common::{
    CLIENT, Net, Pair, Recording, SERVER, can_capture_with, finish, has_tracefs, hops, quiet, undisturbed,
};
use magscope_core::custom::{CustomProbe, ProbeHit, ValueKind};
use magscope_core::node::Ability;
use magscope_core::{CaptureFilter, Hop};
use magscope_probe::custom::{Resolved, Resolver};
use magscope_probe::facts::Mechanism;
use magscope_probe::{Capture, CaptureOptions, HostFacts};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn probe(text: &str) -> CustomProbe {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn options(probes: &[&str], at: &[Hop]) -> CaptureOptions {
    CaptureOptions {
        hops: hops(at),
        probes: probes.iter().map(|text| probe(text)).collect(),
        ..CaptureOptions::default()
    }
}

fn of(recording: &Recording, number: u8) -> Vec<ProbeHit> {
    recording.hits().filter(|hit| hit.probe == number).copied().collect()
}

/// Hosts with filled neighbour tables: a custom probe also sees packets that are not IP, such as ARP.
fn acquainted() -> Net {
    let net = quiet();
    Pair::new(&net, CLIENT, SERVER, 5000).send(1, 1);
    net
}

#[test]
fn tracepoints_of_both_kinds_see_what_the_hop_sees() {
    if !can_capture_with(&[Ability::CustomProbes]) || !has_tracefs() {
        return;
    }
    undisturbed(|| {
        let net = acquainted();
        let recording = net.capture_with(options(
        &[
            "tp_btf:net_dev_start_xmit name=raw after=dev.queue skb->len dev->ifindex netns=dev->nd_net.net->ns.inum",
            "tracepoint:net:net_dev_start_xmit name=classic as=point len protocol",
            "tp_btf:netif_receive_skb name=in after=dev.recv skb->pkt_type kind=skb->protocol",
        ],
        &[Hop::DevXmit],
    ));
        let (one, two) = (Pair::new(&net, CLIENT, SERVER, 5100), Pair::new(&net, CLIENT, SERVER, 5200));
        one.send(100, 300);
        two.send(50, 900);
        let (recording, counters) = finish(recording);
        assert_eq!(counters.probes.iter().map(|count| count.kept).collect::<Vec<_>>(), [150, 150, 150]);
        let sent: Vec<_> = recording.events.iter().filter(|event| event.hop == Hop::DevXmit).collect();
        // Ethernet, IP and UDP headers precede the payload
        let headers = 14 + 20 + 8;
        for (number, values) in [(0, 3), (1, 2)] {
            let hits = of(&recording, number);
            assert_eq!(hits.len(), sent.len());
            for (hit, event) in hits.iter().zip(&sent) {
                assert_eq!(
                    (hit.flow, hit.len, hit.ip_id),
                    (event.flow, event.len, event.ip_id),
                    "probe {number}"
                );
                assert_eq!(hit.value(0), Some(i64::from(event.len) + headers));
                assert_eq!(hit.known, (1 << values) - 1);
                assert!(hit.time_ns.abs_diff(event.time_ns) < 50_000_000);
            }
        }
        for (hit, event) in of(&recording, 0).iter().zip(&sent) {
            assert_eq!(hit.value(1), Some(i64::from(event.ifindex)));
            assert_eq!(hit.value(2), Some(i64::from(net.client.target.inode)));
        }
        for hit in of(&recording, 2) {
            let flow = recording.flows[&hit.flow.0];
            assert_eq!((flow.netns, flow.local.ip().to_string()), (net.server.target.inode, SERVER.to_owned()));
            assert_eq!(hit.value(0), Some(0), "PACKET_HOST, a bit-field");
            assert_eq!(hit.value(1), Some(8), "ETH_P_IP as on the wire");
        }
    });
}

#[test]
fn a_socket_is_read_as_deep_as_its_types_go() {
    if !can_capture_with(&[Ability::CustomProbes]) {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let recording = net.capture_with(options(
        &["tp_btf:tcp_probe name=probe after=tcp.recv cwnd=sk:tcp_sock->snd_cwnd port=sk->__sk_common.skc_num \
           tp=sk:tcp_sock->inet_conn.icsk_inet.sk.sk_protocol skb->len"],
        &[Hop::TcpRecv, Hop::TcpState],
    ));
        let listener = net.server.run(|| TcpListener::bind((SERVER, 5300)).expect("bind"));
        let mut near = net.client.run(|| TcpStream::connect((SERVER, 5300)).expect("connect"));
        let (mut far, _) = listener.accept().expect("accept");
        let mut buffer = [0; 4096];
        for _ in 0..50 {
            near.write_all(&[1; 700]).expect("send");
            far.read_exact(&mut buffer[..700]).expect("recv");
        }
        let (recording, _) = finish(recording);
        let hits = of(&recording, 0);
        let segments: Vec<_> = recording.events.iter().filter(|event| event.hop == Hop::TcpRecv).collect();
        assert!(hits.len() >= 50 && hits.len() == segments.len(), "{} hits", hits.len());
        for (hit, event) in hits.iter().zip(&segments) {
            assert_eq!(
                (hit.flow, hit.seq, hit.len, hit.socket),
                (event.flow, event.extent.number(), event.len, event.socket)
            );
            let local = recording.flows[&hit.flow.0].local.port();
            assert_eq!((hit.value(1), hit.value(2)), (Some(i64::from(local)), Some(6)));
        }
        let samples: Vec<_> = recording.batches.iter().flat_map(|batch| &batch.tcp).collect();
        let mut held = 0;
        for sample in samples {
            // recorded by two programs at one attach point, one after the other
            let hit = hits.iter().filter(|hit| hit.socket == sample.socket);
            if let Some(hit) = hit.min_by_key(|hit| hit.time_ns.abs_diff(sample.time_ns)) {
                assert_eq!(hit.value(0), Some(i64::from(sample.cwnd)));
                held += 1;
            }
        }
        assert!(held > 0);
    });
}

#[test]
fn a_filter_and_a_namespace_hold_for_custom_probes_too() {
    if !can_capture_with(&[Ability::CustomProbes]) {
        return;
    }
    undisturbed(|| {
        let net = acquainted();
        let mut asked = options(&["tp_btf:net_dev_start_xmit after=dev.xmit skb->len"], &[Hop::DevXmit]);
        asked.filter = Some(CaptureFilter::parse("port 5100").expect("a filter"));
        let recording = net.capture_with(asked);
        let elsewhere = acquainted();
        let (one, two) = (Pair::new(&net, CLIENT, SERVER, 5100), Pair::new(&net, CLIENT, SERVER, 5200));
        let other = Pair::new(&elsewhere, CLIENT, SERVER, 5100);
        one.send(30, 100);
        two.send(20, 100);
        other.send(10, 100);
        let (_, counters) = finish(recording);
        let count = counters.probes[0];
        assert_eq!((count.kept, count.filtered, count.undecided, count.lost), (30, 20, 0, 0));
    });
}

#[test]
fn a_probe_is_switched_and_nothing_else_is_touched() {
    if !can_capture_with(&[Ability::CustomProbes]) {
        return;
    }
    undisturbed(|| {
        let net = acquainted();
        let mut recording = net.capture_with(options(
            &["tp_btf:net_dev_start_xmit name=one skb->len", "tp_btf:net_dev_start_xmit name=two skb->len"],
            &[Hop::DevXmit],
        ));
        let pair = Pair::new(&net, CLIENT, SERVER, 5100);
        pair.send(30, 100);
        recording.change(&"probe off one".parse().expect("a setting")).expect("a change");
        assert_eq!(recording.capture().in_force(), ["probe off one"]);
        pair.send(20, 100);
        recording.change(&"probe on one".parse().expect("a setting")).expect("a change");
        assert!(recording.capture().in_force().is_empty());
        pair.send(10, 100);
        let wrong =
            recording.change(&"probe off three".parse().expect("a setting")).expect_err("none is called so");
        assert!(wrong.to_string().contains("one, two"), "{wrong}");
        let (recording, counters) = finish(recording);
        let recorded: Vec<u64> = counters.probes.iter().map(|count| count.kept).collect();
        assert_eq!(recorded, [40, 60]);
        assert_eq!(recording.events.iter().filter(|event| event.hop == Hop::DevXmit).count(), 60);
        let reported: Vec<&str> = recording
            .batches
            .iter()
            .flat_map(|batch| &batch.changes)
            .map(|change| change.what.as_str())
            .collect();
        assert_eq!(reported, ["probe off one", "probe on one"]);
    });
}

/// A function of the test program to attach to.
// a unique name
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn magscope_probe_me(free: u64, sign: i64, third: u32) -> u64 {
    std::hint::black_box(free + sign.unsigned_abs() + u64::from(third))
}

#[test]
fn a_function_of_a_program_tells_its_arguments_and_its_return() {
    if !can_capture_with(&[Ability::CustomProbes]) {
        return;
    }
    undisturbed(|| {
        let net = quiet();
        let own = std::env::current_exe().expect("a path");
        let own = own.display();
        let recording = net.capture_with(options(
            &[
                &format!(
                    "uprobe:{own}:magscope_probe_me name=call free=arg0 sign=arg1:int64 third=arg2:uint32"
                ),
                &format!("uretprobe:{own}:magscope_probe_me name=return sum=retval"),
            ],
            &[Hop::DevXmit],
        ));
        net.client.run(|| {
            for i in 0..40_u32 {
                magscope_probe_me(u64::from(i) << 40, -5, i);
            }
        });
        // the capture excludes processes of other namespaces
        magscope_probe_me(1, 2, 3);
        let (recording, _) = finish(recording);
        let (calls, returns) = (of(&recording, 0), of(&recording, 1));
        assert_eq!((calls.len(), returns.len()), (40, 40));
        for (i, (call, back)) in calls.iter().zip(&returns).enumerate() {
            let i = i as i64;
            assert_eq!((call.value(0), call.value(1)), (Some(i << 40), Some(-5)));
            assert_eq!(call.value(2), Some(i));
            assert_eq!(back.value(0), Some((i << 40) + 5 + i));
            assert_eq!((call.tgid, call.tid), (std::process::id(), back.tid));
            assert!(call.time_ns <= back.time_ns);
        }
        let signs = recording.info.probes[0].values.iter().map(|value| value.kind == ValueKind::Signed);
        assert_eq!(signs.collect::<Vec<_>>(), [false, true, false]);
        let named =
            |tid: u32| recording.batches.iter().flat_map(|batch| &batch.tasks).any(|task| task.tid == tid);
        assert!(named(calls[0].tid), "who called is named");
    });
}

/// Kinds of function probes on this kernel, each with its kind at the return.
fn kinds_at_functions() -> Vec<(&'static str, &'static str)> {
    let facts = HostFacts::read().expect("/proc");
    let mut kinds = Vec::new();
    for (mechanism, kind) in [(&facts.fentry, ("fentry", "fexit")), (&facts.kprobe, ("kprobe", "kretprobe"))] {
        if *mechanism == Mechanism::Works {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() {
        println!("skipped, because kernel {} has neither fentry nor kprobes", facts.kernel);
    }
    kinds
}

#[test]
fn functions_are_stood_at_where_the_kernel_lets_us() {
    if !can_capture_with(&[Ability::CustomProbes]) {
        return;
    }
    undisturbed(|| {
        let kinds = kinds_at_functions();
        if kinds.is_empty() {
            return;
        }
        let net = quiet();
        let mut asked = Vec::new();
        for (entry, back) in &kinds {
            asked.push(format!(
                "{entry}:udp_sendmsg name={entry}-send after=app.send len sk->sk_wmem_alloc.refs.counter"
            ));
            asked.push(format!("{back}:udp_sendmsg name={back}-sent sent=retval"));
        }
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let recording = net.capture_with(options(&asked, &[Hop::DevXmit]));
        Pair::new(&net, CLIENT, SERVER, 5100).send(60, 333);
        let (recording, counters) = finish(recording);
        for (number, text) in asked.iter().enumerate() {
            let hits = of(&recording, number as u8);
            assert_eq!((hits.len(), counters.probes[number].kept), (60, 60), "{text}");
            assert!(hits.iter().all(|hit| hit.value(0) == Some(333)), "{text}: {:?}", hits[0]);
        }
        println!("  {}: 60 hits each", asked.join("\n  "));
    });
}

#[test]
fn segments_and_sockets_are_read_at_a_function_as_a_hop_reads_them() {
    if !can_capture_with(&[Ability::CustomProbes]) {
        return;
    }
    undisturbed(|| {
        let kinds = kinds_at_functions();
        if kinds.is_empty() {
            return;
        }
        let net = quiet();
        let asked: Vec<String> = kinds
            .iter()
            .map(|(kind, _)| {
                format!(
                    "{kind}:tcp_rcv_established name={kind} after=ip.in skb->len queued=sk->sk_wmem_queued \
                 port=sk->__sk_common.skc_num cwnd=sk:tcp_sock->snd_cwnd"
                )
            })
            .collect();
        let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
        let recording = net.capture_with(options(&asked, &[Hop::TcpRecv]));
        let listener = net.server.run(|| TcpListener::bind((SERVER, 5300)).expect("bind"));
        let mut near = net.client.run(|| TcpStream::connect((SERVER, 5300)).expect("connect"));
        let (mut far, _) = listener.accept().expect("accept");
        let mut buffer = [0; 4096];
        for _ in 0..50 {
            near.write_all(&[1; 700]).expect("send");
            far.read_exact(&mut buffer[..700]).expect("recv");
        }
        let (recording, counters) = finish(recording);
        let segments: Vec<_> = recording.events.iter().filter(|event| event.hop == Hop::TcpRecv).collect();
        assert!(segments.len() >= 50, "{} segments", segments.len());
        for (number, text) in asked.iter().enumerate() {
            let hits = of(&recording, number as u8);
            assert_eq!(
                (hits.len(), counters.probes[number].kept),
                (segments.len(), segments.len() as u64),
                "{text}"
            );
            let mut met = std::collections::BTreeSet::new();
            for (hit, event) in hits.iter().zip(&segments) {
                assert_eq!(
                    (hit.flow, hit.seq, hit.len),
                    (event.flow, event.extent.number(), event.len),
                    "{text}"
                );
                // at the first packet no hop has assigned a socket number yet, and a custom probe cannot assign
                // one
                assert!(
                    hit.socket == event.socket || met.insert(hit.flow),
                    "{text}: {hit:?} against {event:?}"
                );
                // 20 bytes of header and 12 of timestamps
                assert_eq!(hit.value(0), Some(i64::from(event.len) + 32), "{text}");
                let local = recording.flows[&hit.flow.0].local.port();
                assert_eq!(hit.value(2), Some(i64::from(local)));
                assert!(
                    hit.value(1).is_some_and(|queued| queued >= 0 && (queued == 0 || local != 5300)),
                    "{text}"
                );
                assert!(hit.value(3).is_some_and(|cwnd| cwnd >= 10), "{text}");
            }
            // the newly acknowledged data is still queued; the reader has sent nothing
            assert!(hits.iter().any(|hit| hit.value(1) > Some(700)), "{text}");
        }
        println!("  {}: {} hits each", asked.join("\n  "), segments.len());
    });
}

fn refused(resolver: &Resolver<'_>, text: &str) -> String {
    resolver.resolve(0, &probe(text)).map(|resolved: Resolved| resolved.place).expect_err(text)
}

#[test]
fn what_is_not_there_is_said_with_names_near_it() {
    let mut facts = HostFacts::read().expect("/proc");
    if !facts.btf {
        println!("skipped, because kernel {} lacks BTF", facts.kernel);
        return;
    }
    // the resolution is the same on a kernel that would refuse the attachment
    (facts.fentry, facts.kprobe) = (Mechanism::Works, Mechanism::Works);
    let resolver = Resolver::new(&facts).expect("types");
    let libc = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let libc =
        libc.lines().filter_map(|line| line.split_whitespace().last()).find(|path| path.contains("libc.so"));
    let own = std::env::current_exe().expect("a path");
    let own = own.display();
    let malloc = libc.map(|path| format!("uprobe:{path}:maloc"));
    for (text, parts) in [
        ("fentry:tcp_rcv_establised", &["has a function", "`tcp_rcv_established`"][..]),
        ("kprobe:tcp_rcv_established skb->lenn", &["`sk_buff` has no field `lenn`", "`len`"]),
        ("kprobe:tcp_rcv_established skk->len", &["no argument `skk`", "`skb`", "`struct sk_buff *skb`"]),
        ("kprobe:tcp_rcv_established sk->sk_prot.name.x", &["`sk->sk_prot.name.x`"]),
        ("kprobe:tcp_rcv_established sk->sk_receive_queue", &["is a structure", "`qlen`"]),
        ("kprobe:tcp_rcv_established sk:tcp_sok->snd_cwnd", &["no structure", "`tcp_sock`"]),
        ("tp_btf:net_dev_start_xmitt", &["no tracepoint", "`net_dev_start_xmit`"]),
        (malloc.as_deref().unwrap_or("uprobe:/proc/self/exe:maloc"), &["no function `maloc`"]),
        (&format!("uprobe:{own}:magscope_probe_me arg0:int24"), &["`arg0:int24`", "`int32`"]),
        ("uprobe:/nowhere/at/all:f", &["cannot open /nowhere/at/all"]),
        ("uprobe:/proc/self/status:f", &["no program"]),
    ] {
        let error = refused(&resolver, text);
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
    if can_capture_with(&[Ability::CustomProbes]) && has_tracefs() {
        let error = refused(&resolver, "tracepoint:nett:net_dev_start_xmit");
        assert!(error.contains("`net`"), "{error}");
        let error = refused(&resolver, "tracepoint:net:net_dev_start_xmit lenn");
        assert!(error.contains("`len`"), "{error}");
        let twice = options(&["tp_btf:tcp_probe", "tp_btf:tcp_probe"], &[Hop::DevXmit]);
        let error = Capture::start(twice).err().expect("a name twice").to_string();
        assert!(error.contains("name=other-tcp_probe"), "{error}");
    }
}
