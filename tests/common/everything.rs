//! A recording with every feature, derived from the golden `demo`: two hosts with separate clocks, custom
//! probes, payload heads, a sampler, lost records, a drop, TCP state, a UDP super-packet, and kernel sums on
//! both.

use super::exports::golden;
use magscope_core::change::HopCount;
use magscope_core::custom::ProbeHit;
use magscope_core::hash::Set;
use magscope_core::head::PayloadHead;
use magscope_core::histogram::bucket;
use magscope_core::node::{DropReason, NodeInfo};
use magscope_core::source::{Progress, Source};
use magscope_core::synthesis::{Sum, Synthesis};
use magscope_core::{Batch, DetailKind, Event, EventFlags, ExtentKind, FlowId, Hop, Loss, LossCause, Proto};
use magscope_session::{RecordOptions, Recorder, Session};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Payload bytes to search for.
pub const SECRET: &[u8] = b"GET /everything";
/// Lost records on the first host and, a little earlier, on the second.
pub const LOST: [u64; 2] = [7, 5];
/// The kernel's reason of the drop.
pub const REASON: u32 = 6;
/// Its name in that host's kernel.
pub const WHY: &str = "tcp_csum";
/// Numbers rejected by the sampler and by the filter.
pub const LEFT_OUT: [u64; 2] = [90, 6];
/// The two hosts.
pub const HOSTS: [&str; 2] = ["node", "elsewhere"];

/// Skew of the second host's clock: ahead, and 40 parts per million fast.
fn skewed(ns: u64) -> u64 {
    ns + ns / 25_000 + 3_600_123_456_789
}

fn demo() -> (NodeInfo, Batch) {
    let session = Session::open(Path::new(&golden("demo"))).expect("a golden session");
    let (mut replay, mut batch, mut all) = (session.replay(None, None), Batch::default(), Batch::default());
    while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
        all.events.append(&mut batch.events);
        all.flows.append(&mut batch.flows);
        all.tasks.append(&mut batch.tasks);
        all.tcp.append(&mut batch.tcp);
        all.clock.append(&mut batch.clock);
        all.watermark_ns = batch.watermark_ns;
    }
    (session.info().clone(), all)
}

/// Writes the recordings; returns their paths.
pub fn everything(dir: &TempDir) -> [String; 2] {
    let (info, all) = demo();
    let server = info.netns.iter().find(|netns| netns.name == "server").expect("the demo's server").netns;
    let of_server: Set<FlowId> =
        all.flows.iter().filter(|flow| flow.netns == server).map(|flow| flow.id).collect();
    let half = |second: bool| {
        let mut batch = all.clone();
        batch.events.retain(|event| of_server.contains(&event.flow) == second);
        batch.flows.retain(|flow| of_server.contains(&flow.id) == second);
        batch.tcp.retain(|sample| of_server.contains(&sample.flow) == second);
        batch
    };
    let (mut first, mut second) = (half(false), half(true));
    let mut infos = [info.clone(), info];
    for info in &mut infos {
        info.drop_reasons = vec![DropReason { number: REASON, name: WHY.to_owned() }];
    }
    probes(&mut infos[0], &mut first);
    lost(&mut first, LOST[0]);
    lost(&mut second, LOST[1]);
    dropped(&mut second);
    added_up(&mut first, 1);
    added_up(&mut second, 3);
    "another".clone_into(&mut infos[1].boot_id);
    HOSTS[1].clone_into(&mut infos[1].host);
    HOSTS[0].clone_into(&mut infos[0].host);
    skew(&mut second);
    let write = |name: &str, info: &NodeInfo, batch: &Batch| {
        let path = dir.path().join(name);
        let mut recorder = Recorder::create(&path, info, RecordOptions::default()).expect("a place");
        recorder.append(batch).expect("room");
        recorder.close().expect("it is written");
        path.to_string_lossy().into_owned()
    };
    [write("first", &infos[0], &first), write("second", &infos[1], &second)]
}

/// Two custom probes with a hit each, payload of a packet, a super-packet, and rejected events.
fn probes(info: &mut NodeInfo, batch: &mut Batch) {
    for words in [
        "fentry:tcp_rcv_established name=grown after=tcp.recv len=skb->len free=sk->sk_rcvbuf",
        "kprobe:tcp_ack name=rcvbuf as=loadline sk->sk_rcvbuf",
    ] {
        info.probes.push(words.parse().expect("a probe"));
    }
    let sent = *batch
        .events
        .iter()
        .find(|e| e.hop == Hop::DevXmit && e.proto == Proto::TCP && e.len > 0)
        .expect("a packet");
    let hit = |probe, read_mask, values| ProbeHit {
        time_ns: sent.time_ns,
        socket: 9,
        flow: sent.flow,
        seq: sent.seq(),
        len: sent.len,
        tgid: sent.tgid,
        tid: sent.tid,
        record: 1,
        cpu: sent.cpu,
        ip_id: sent.ip_id,
        probe,
        proto: sent.proto,
        known: read_mask,
        values,
    };
    // The read of the first probe's second value failed.
    batch.hits = vec![hit(0, 0b01, [1448, 0, 0, 0]), hit(1, 0b01, [-3, 0, 0, 0])];
    batch.heads = vec![PayloadHead {
        time_ns: sent.time_ns,
        flow: sent.flow,
        seq: sent.seq(),
        of_bytes: sent.len,
        event: sent.record,
        record: sent.record.wrapping_add(1),
        cpu: sent.cpu,
        ip_id: sent.ip_id,
        hop: sent.hop,
        proto: sent.proto,
        bytes: SECRET.to_vec(),
    }];
    let udp =
        *batch.events.iter().rfind(|e| e.hop == Hop::DevXmit && e.proto == Proto::UDP).expect("a datagram");
    let last = batch.events.last().map_or(0, |event| event.time_ns);
    // Three datagrams of one UDP_SEGMENT call, of a thousand bytes and a shorter last one.
    batch.events.push(Event {
        time_ns: last + 1,
        len: 2_500,
        extent: ExtentKind::Segments.of(1_000),
        segs: 3,
        ip_id: 0x7777,
        skb: 0x77,
        ..udp
    });
    batch.watermark_ns = last + 1;
    let [sampled, filtered] = LEFT_OUT;
    batch.counts = vec![HopCount {
        time_ns: last,
        hop: Hop::DevXmit,
        kept: 10,
        filtered,
        undecided: 0,
        sampled,
        synthesised: 0,
    }];
}

/// A loss in the middle of the events.
fn lost(batch: &mut Batch, count: u64) {
    let from_ns = batch.events[batch.events.len() / 2].time_ns;
    batch.losses.push(Loss { cpu: 0, from_ns, to_ns: from_ns + 1_000, count, cause: LossCause::RingFull });
}

/// Two intervals of kernel sums of every kind, scaled by `times`.
fn added_up(batch: &mut Batch, times: u64) {
    let (flow, from_ns) = (batch.flows[0].id, batch.events[0].time_ns);
    let cgroup = batch.tasks[0].cgroup;
    let middle_ns = from_ns.midpoint(batch.watermark_ns);
    let passes = |ns: u64, n: u64| (bucket(ns) as u16, (times * n) as u32);
    for (from_ns, to_ns) in [(from_ns, middle_ns), (middle_ns, batch.watermark_ns)] {
        let mut add = |hop, of, n: u64, sum: u64, buckets| {
            batch.synthesis.push(Synthesis {
                from_ns,
                to_ns,
                hop,
                of,
                n: times * n,
                sum: times * sum,
                buckets,
            });
        };
        let buckets = vec![passes(900, 90), passes(2_400, 8), passes(2_501, 1), passes(70_000, 1)];
        add(Hop::DevXmit, Sum::Since(Hop::DevQueue), 100, 90 * 900 + 8 * 2_400 + 2_501 + 70_000, buckets);
        add(Hop::DevXmit, Sum::Begun, 5, 0, Vec::new());
        add(Hop::DevXmit, Sum::Flow(flow), 100, 6_400, Vec::new());
        add(Hop::DevXmit, Sum::Rest, 5, 320, Vec::new());
        add(Hop::AppSend, Sum::Cgroup(cgroup), 20, 6_400, Vec::new());
        add(Hop::SkbDrop, Sum::Reason(REASON), 2, 128, Vec::new());
    }
}

/// The last datagram is dropped instead of received.
fn dropped(batch: &mut Batch) {
    let received =
        |e: &Event| e.hop == Hop::UdpRecv && e.proto == Proto::UDP && !e.flags.contains(EventFlags::PEEK);
    let at = batch.events.iter().rposition(received).expect("a datagram");
    let Event { flow, socket, .. } = batch.events[at];
    batch.events[at] =
        Event { hop: Hop::SkbDrop, detail: DetailKind::DropReason.of(REASON), ..batch.events[at] };
    let mut row = 0;
    batch.events.retain(|event| {
        row += 1;
        row <= at + 1 || (event.flow != flow && (socket == 0 || event.socket != socket))
    });
}

fn skew(batch: &mut Batch) {
    batch.events.iter_mut().for_each(|event| event.time_ns = skewed(event.time_ns));
    batch.tcp.iter_mut().for_each(|sample| sample.time_ns = skewed(sample.time_ns));
    for loss in &mut batch.losses {
        (loss.from_ns, loss.to_ns) = (skewed(loss.from_ns), skewed(loss.to_ns));
    }
    for sum in &mut batch.synthesis {
        (sum.from_ns, sum.to_ns) = (skewed(sum.from_ns), skewed(sum.to_ns));
    }
    for sample in &mut batch.clock {
        (sample.monotonic_ns, sample.raw_ns) = (skewed(sample.monotonic_ns), skewed(sample.raw_ns));
        sample.realtime_ns += 5_000_000_000;
    }
    batch.watermark_ns = skewed(batch.watermark_ns);
}
