//! Lines without an ID, of datagrams with several receivers, and of forwarders.

use super::super::groups::MOST;
use super::super::read::parse;
use super::*;

/// What joins the events of lines to datagrams, with the counts of lines without an ID.
fn identities(fields: &str) -> (Set<(u16, u32)>, Set<u64>, u64, u64) {
    let mut events = Events::default();
    for (at, event) in ["ip.out", "ip.out", "ip.in", "ip.in"].into_iter().enumerate() {
        let line = format!(
            "DATE=20060102030405.{at:06} HOST=a PROG=x LVL=Usage NL.EVNT={event} SRC=10.0.0.1 DST=10.0.0.2 VOL=100 {fields}"
        );
        events.line(&parse(&line).expect("a line"));
    }
    let of = events.take(true).events;
    let packets = of.iter().map(|event| (event.ip_id, event.skb)).collect();
    (packets, of.iter().map(|event| event.socket).collect(), events.unnamed, events.unplaced)
}

/// Fields of a datagram to a group.
const TO_GROUP: &str = "HOST=a PROG=x LVL=Usage SRC.IP=10.0.0.1 SRC.PORT=9 DST.IP=239.9.9.9 DST.PORT=7 \
                        PROT=udp VOL=300 MAG.SEQ=0 MAG.CPU=0";

#[test]
fn a_datagram_with_several_receivers_was_sent_once() {
    let line = |hop: &str, ns: u32, fields: &str| {
        format!("DATE=20260102030405.000001 NL.EVNT={hop} {TO_GROUP} {fields} MAG.NS={ns}")
    };
    let sent = [("ip.out", 10_u32, ""), ("dev.xmit", 20, ""), ("app.send", 30, "MAG.TID=5 MAG.RET=1")];
    // The journeys 1 and 2 are of one datagram with two receivers, and 3 and 4 of the next one.
    let journeys = [(1, 7, 1_000_u32, 2_u32), (2, 7, 1_000, 3), (3, 8, 2_000, 2), (4, 8, 2_000, 3)];
    let mut lines = Vec::new();
    for (id, ip_id, from_ns, receiver) in journeys {
        let of = |fields: &str, netns: u32| format!("ID={id} MAG.IPID={ip_id} MAG.NODE=n{netns} {fields}");
        lines.extend(sent.map(|(hop, ns, fields)| line(hop, from_ns + ns, &of(fields, 1))));
        lines.push(line("dev.recv", from_ns + 100 + receiver, &of("", receiver)));
    }
    let mut events = Events::default();
    for text in &lines {
        events.line(&parse(text).expect("a line"));
    }
    assert_eq!(events.taken, lines.len() as u64);
    let all = events.take(true).events;
    let of = |hop: Hop| all.iter().filter(|event| event.hop == hop).collect::<Vec<_>>();
    for hop in [Hop::IpOut, Hop::DevXmit, Hop::AppSend] {
        let lens: Vec<u32> = of(hop).iter().map(|event| event.len).collect();
        assert_eq!(lens, [300, 300], "{hop}");
        assert!(of(hop).iter().all(|event| !event.flags.contains(EventFlags::GROUP)), "{hop}");
    }
    let received = of(Hop::DevRecv);
    assert_eq!(received.len(), 4, "each receiver has its own");
    assert!(received.iter().all(|event| event.flags.contains(EventFlags::GROUP)));
}

#[test]
fn many_lines_before_do_not_make_a_repeated_one_new() {
    let text = format!("DATE=20260102030405.000001 NL.EVNT=ip.out {TO_GROUP} ID=1 MAG.IPID=7");
    let mut line = parse(&text).expect("a line");
    let mut events = Events::default();
    // A set is full between the two lines of one datagram, and there is a new one between those of the next.
    for n in (1..=MOST).chain([MOST, MOST + 1, MOST, MOST + 1]) {
        line.ns = n as i64;
        events.line(&line);
    }
    assert_eq!(events.take(true).events.len(), MOST + 1);
}

#[test]
fn a_packet_of_a_sender_is_ambiguous_if_it_is_in_all_journeys() {
    const IN_DOUBT: &str = "MAG.AMB=1";
    for (marks, want) in [(["", IN_DOUBT], false), ([IN_DOUBT, ""], false), ([IN_DOUBT; 2], true)] {
        let line = |hop: &str, ns: u32, node: usize, id: usize| {
            let fields = format!("ID={id} MAG.IPID=7 MAG.NODE=n{node} MAG.NS={ns} {}", marks[id]);
            format!("DATE=20260102030405.000001 NL.EVNT={hop} {TO_GROUP} {fields}")
        };
        let sent = [0, 1].map(|id| line("ip.out", 10, 9, id));
        let came = [0, 1].map(|id| line("dev.recv", 100, id, id));
        let mut events = Events::default();
        for text in sent.iter().chain(&came) {
            events.line(&parse(text).expect("a line"));
        }
        let all = events.take(true).events;
        let of =
            |hop: Hop| all.iter().filter(|event| event.hop == hop).map(Event::is_ambiguous).collect::<Vec<_>>();
        assert_eq!(of(Hop::IpOut), [want], "{marks:?}");
        assert_eq!(of(Hop::DevRecv), marks.map(|mark| !mark.is_empty()), "{marks:?}");
    }
}

#[test]
fn repeated_lines_of_the_sender_show_a_group_at_any_address() {
    let fields = TO_GROUP.replace("239.9.9.9", "10.0.0.255");
    let line = |hop: &str, ns: u32, ip_id: u32, node: u32, id: u32| {
        let of = format!("ID={id} MAG.IPID={ip_id} MAG.NODE=n{node} MAG.NS={ns}");
        format!("DATE=20260102030405.000001 NL.EVNT={hop} {fields} {of}")
    };
    let groups = |receivers: &[u32]| {
        let sent = receivers.iter().map(|id| line("ip.out", 10, 7, 9, *id));
        let came = receivers.iter().map(|id| line("dev.recv", 100 + id, 7, *id, *id));
        let next = [line("ip.out", 200, 8, 9, 5), line("dev.recv", 300, 8, 1, 5)];
        let mut events = Events::default();
        for text in sent.chain(came).chain(next) {
            events.line(&parse(&text).expect("a line"));
        }
        let all = events.take(true).events;
        let received = all.iter().filter(|event| event.hop == Hop::DevRecv);
        received.map(|event| event.flags.contains(EventFlags::GROUP)).collect::<Vec<_>>()
    };
    assert_eq!(groups(&[1, 2, 3]), [true, true, true, false], "the next one has one receiver");
    assert_eq!(groups(&[1]), [false, false]);
}

#[test]
fn senders_lines_to_a_group_without_an_identification_are_counted() {
    let counted = |from: &str, to: &str, fields: &str| {
        let ends = TO_GROUP.replace("10.0.0.1", from).replace("239.9.9.9", to);
        let mut events = Events::default();
        for (hop, ns) in [("app.send", 5), ("ip.out", 10), ("dev.recv", 100)] {
            for id in [1, 2] {
                let of = format!("ID={id} MAG.NS={ns} {fields}");
                let text = format!("DATE=20260102030405.000001 NL.EVNT={hop} {ends} {of}");
                events.line(&parse(&text).expect("a line"));
            }
        }
        events.unidentified()
    };
    assert_eq!(counted("10.0.0.1", "239.9.9.9", ""), 2, "a send and a packet");
    assert_eq!(counted("fe80::1", "ff02::1", ""), 2);
    assert_eq!(counted("10.0.0.1", "239.9.9.9", "MAG.IPID=7"), 0, "one datagram");
    assert_eq!(counted("fe80::1", "fe80::2", ""), 0, "nothing shows a group");
}

#[test]
fn lines_of_forwarders_are_counted_and_left_out() {
    let mut events = Events::default();
    for hop in ["dev.xmit", "forward.dev.recv", "forward.dev.xmit", "dev.recv"] {
        let text = format!("DATE=20260102030405.000001 NL.EVNT={hop} {TO_GROUP} ID=1 MAG.IPID=7");
        events.line(&parse(&text).expect("a line"));
    }
    assert_eq!((events.forwarded, events.taken, events.take(true).events.len()), (2, 4, 2));
}

#[test]
fn a_line_without_an_id_is_a_datagram_of_its_own() {
    for fields in ["", "ID="] {
        let (packets, sockets, unnamed, unplaced) = identities(fields);
        // Two directions of one flow have two sockets anyway.
        assert_eq!((packets.len(), sockets.len(), unnamed, unplaced), (4, 4, 4, 0), "{fields}");
    }
    for fields in ["ID=7", "guid=7"] {
        let (packets, sockets, unnamed, unplaced) = identities(fields);
        assert_eq!((packets.len(), unnamed, unplaced), (1, 0, 0), "{fields}");
        assert!(sockets.len() <= 2, "{fields}: {sockets:?}");
    }
    let (_, sockets, unnamed, unplaced) = identities("PROT=tcp");
    assert!(sockets.len() <= 2 && (unnamed, unplaced) == (0, 4), "nothing divides its bytes");
    let (.., unnamed, unplaced) = identities("MAG.SEQ=1");
    assert_eq!((unnamed, unplaced), (0, 0), "the place of its bytes identifies it");
}
