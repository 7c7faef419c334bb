//! pcapng: tshark reports no malformed packet and no warning.

use crate::common::{Files, Recording};
use magscope_core::source::Source;
use magscope_core::{
    Batch, Event, EventFlags, Extent, ExtentKind, Flow, FlowId, Generator, GeneratorOptions, Hop, Proto,
};
use magscope_export::format::pcapng::Pcapng;
use magscope_export::{Chosen, TimeLine};
use std::fs;
use std::process::Command;
use tempfile::TempDir;

/// A complete packet, and a datagram in three fragments, of every protocol over IPv4 and IPv6.
fn every_kind() -> Recording {
    let info = Generator::new(GeneratorOptions::default()).info().clone();
    let mut batch = Batch::default();
    for v6 in [false, true] {
        for proto in [Proto::TCP, Proto::UDP, if v6 { Proto::ICMPV6 } else { Proto::ICMP }] {
            let ends = if v6 { ["[fd00::1]:4000", "[fd00::2]:80"] } else { ["10.0.0.1:4000", "10.0.0.2:80"] };
            let [local, remote] = ends.map(|end| end.parse().expect("an address"));
            let id = FlowId(batch.flows.len() as u64 + 1);
            batch.flows.push(Flow { id, netns: 1, proto, local, remote });
            let family = if v6 { EventFlags::IPV6 } else { EventFlags::default() };
            let next = |batch: &Batch| 1_000_000 + batch.events.len() as u64 * 1_000;
            let at = |ns: u64| Event {
                flow: id,
                proto,
                flags: family,
                ttl: 64,
                segs: 1,
                ..Event::at(Hop::DevXmit, ns)
            };
            for n in 0..5_u32 {
                let event = Event {
                    len: 100,
                    extent: ExtentKind::Stream.of(1_000 + n * 100),
                    tcp_flags: 0x18,
                    ..at(next(&batch))
                };
                batch.events.push(if proto == Proto::TCP {
                    event
                } else {
                    Event { extent: Extent::None, tcp_flags: 0, ..event }
                });
            }
            if proto == Proto::TCP {
                continue;
            }
            for n in 0..20_u16 {
                let parts = [
                    (EventFlags::MORE.0, 3_000, 1_448),
                    (EventFlags::MORE.0 | EventFlags::FRAGMENT.0, 1_448, 1_448),
                ];
                for (flags, len, place) in parts.into_iter().chain([(EventFlags::FRAGMENT.0, 112, 2_896)]) {
                    let flags = family.with(EventFlags(flags));
                    let event = Event { len, flags, ip_id: 500 + n, ..at(next(&batch)) };
                    batch.events.push(Event { extent: event.extent_kind().of(place), ..event });
                }
            }
        }
    }
    batch.watermark_ns = batch.events.last().map_or(0, |event| event.time_ns);
    Recording { info, batches: vec![batch] }
}

#[test]
fn tshark_finds_no_packet_malformed_and_no_false_warning() {
    if Command::new("tshark").arg("--version").output().is_err() {
        println!(
            "tshark_finds_no_packet_malformed_and_no_false_warning: skipped, because tshark is not installed"
        );
        return;
    }
    let recording = every_kind();
    let files = Files::default();
    let line = TimeLine { to_utc_ns: Some(1_767_323_045_000_000_000) };
    let infos = std::slice::from_ref(&recording.info);
    recording.export(&mut Pcapng::new(files.create("pcapng"), infos, line, Chosen::default(), &[Hop::DevXmit]));
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("packets.pcapng");
    fs::write(&path, files.bytes("pcapng")).expect("room");
    let count = |filter: &str| {
        let output = Command::new("tshark").args(["-n", "-r"]).arg(&path).args(["-Y", filter]).output();
        let output = output.expect("tshark runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").lines().count()
    };
    assert_eq!(count("frame"), recording.batches[0].events.len());
    assert_eq!(count("_ws.malformed"), 0, "malformed");
    assert_eq!(count("tcp.analysis.zero_window"), 0, "zero windows");
    // Wireshark's number for the severity "warning" (epan/proto.h, PI_WARN).
    assert_eq!(count("_ws.expert.severity >= 6291456"), 0, "warnings and errors");
    assert_eq!(count("ipv6.fraghdr"), 2 * 20 * 3, "fragments over IPv6");
    assert_eq!(count("ip.flags.mf == 1 || ip.frag_offset > 0"), 2 * 20 * 3, "fragments over IPv4");
}
