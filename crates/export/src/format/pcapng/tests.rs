//! Losses, and hops without packets.

use super::*;
use magscope_core::{Batch, FlowId, LossCause, Proto};

/// A writer of packets at these hops of one node.
fn writer(hops: &[Hop]) -> Pcapng {
    let infos = [NodeInfo::default()];
    Pcapng::new(Box::new(Vec::new()), &infos, TimeLine::default(), Chosen::default(), hops)
}

/// Events at these hops and instants, of two namespaces in turn.
fn batch(events: &[(Hop, u64)], losses: &[(u64, u64)]) -> Batch {
    let flow = |netns: u32| Flow {
        id: FlowId(u64::from(netns)),
        netns,
        proto: Proto::UDP,
        local: "10.0.0.1:4000".parse().expect("an address"),
        remote: "10.0.0.2:80".parse().expect("an address"),
    };
    let event = |(at, (hop, ns)): (usize, &(Hop, u64))| Event {
        proto: Proto::UDP,
        flow: FlowId(at as u64 % 2 + 1),
        len: 10,
        ..Event::at(*hop, *ns)
    };
    let loss = |(to_ns, count): &(u64, u64)| Loss {
        cpu: 0,
        from_ns: 1,
        to_ns: *to_ns,
        count: *count,
        cause: LossCause::Gap,
    };
    Batch {
        flows: vec![flow(1), flow(2)],
        events: events.iter().enumerate().map(event).collect(),
        losses: losses.iter().map(loss).collect(),
        ..Batch::default()
    }
}

/// Time and drop count of each packet of a file.
fn drop_counts(file: &[u8]) -> Vec<(u64, u64)> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut packets) = (0, Vec::new());
    while at < file.len() {
        let (kind, length) = (word(at), word(at + 4) as usize);
        if kind == 6 {
            let ns = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let (mut option, mut lost) = (at + 28 + (word(at + 20) as usize).next_multiple_of(4), 0);
            while word(option) & 0xffff != 0 {
                if word(option) & 0xffff == 4 {
                    lost = u64::from_le_bytes(file[option + 4..option + 12].try_into().expect("eight bytes"));
                }
                option += 4 + (word(option) as usize >> 16).next_multiple_of(4);
            }
            packets.push((ns, lost));
        }
        at += length;
    }
    packets
}

fn has(file: &[u8], text: &str) -> bool {
    file.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn the_first_packet_after_a_loss_has_its_number() {
    let mut pcapng = writer(&[Hop::DevXmit]);
    let times = [1_000, 2_000, 3_000, 4_000, 5_000].map(|ns| (Hop::DevXmit, ns));
    // Packets wait in the buffer when the losses of the batch come.
    let batch = batch(&times, &[(2_500, 7), (2_600, 1), (4_000, 2)]);
    pcapng.piece(&Piece::Batch(0, &batch)).expect("memory takes all");
    pcapng.drain(0).expect("memory takes all");
    let expected = [(1_000, 0), (2_000, 0), (3_000, 8), (4_000, 2), (5_000, 0)];
    assert_eq!(drop_counts(&pcapng.buffer), expected);
    assert!(has(&pcapng.buffer, "8 records of this host were lost before this packet"));
    assert!(has(&pcapng.buffer, "they need not be packets of this interface"));
}

#[test]
fn a_loss_after_the_last_packet_is_in_the_interface_statistics() {
    let mut pcapng = writer(&[Hop::DevXmit]);
    let batch = batch(&[(Hop::DevXmit, 1_000)], &[(2_000, 5)]);
    pcapng.piece(&Piece::Batch(0, &batch)).expect("memory takes all");
    pcapng.drain(0).expect("memory takes all");
    assert_eq!(drop_counts(&pcapng.buffer), [(1_000, 0)]);
    assert_eq!(pcapng.lost_at_end(), 5);
    assert!(has(&pcapng.buffer, "5 records of this host were lost after its last packet"));

    let mut pcapng = writer(&[Hop::DevXmit]);
    pcapng.piece(&Piece::Batch(0, &batch)).expect("memory takes all");
    let written = pcapng.finish().expect("memory takes all");
    let note = written.left_out.iter().find(|(what, _)| what.contains("after the last packet"));
    assert_eq!(note.map(|(_, n)| *n), Some(5));
}

#[test]
fn waiting_losses_are_bounded_and_none_is_forgotten() {
    let mut pcapng = writer(&[Hop::DevXmit]);
    let most = LOSSES as u64 + 100;
    let losses: Vec<(u64, u64)> = (1..=most).map(|ns| (ns, 1)).collect();
    pcapng.piece(&Piece::Batch(0, &batch(&[], &losses))).expect("memory takes all");
    assert_eq!(pcapng.lost.len(), LOSSES);
    assert_eq!(pcapng.lost_before(0, most), most);
}

#[test]
fn hops_without_packets_are_refused_or_counted() {
    assert_eq!(reason_for_none(&[Hop::AppSend, Hop::DevXmit]), None);
    let reason = reason_for_none(&[Hop::AppSend]).expect("the file would be empty");
    assert!(reason.contains("(app.send)") && reason.contains("dev.xmit"), "{reason}");
    let batch = batch(&[(Hop::AppSend, 1_000), (Hop::DevXmit, 2_000)], &[]);
    let mut none = writer(&[Hop::AppSend]);
    let error = none.piece(&Piece::Batch(0, &batch)).expect_err("the file would be empty").to_string();
    assert!(error.contains("(app.send)") && error.contains("dev.xmit"), "{error}");
    assert!(writer(&[Hop::AppSend]).finish().is_err(), "an empty recording has no piece");

    let mut some = writer(&[Hop::AppSend, Hop::DevXmit]);
    some.piece(&Piece::Batch(0, &batch)).expect("memory takes all");
    let written = some.finish().expect("memory takes all");
    assert_eq!(written.rows, [("packets", 1)]);
    let note = written.left_out.iter().find(|(what, _)| what.contains("no packets pass there"));
    assert_eq!(note.map(|(_, n)| *n), Some(1));
}
