//! Decodes ring records. The decoder is pure and accepts any bytes.

use crate::record::{
    mag_event, mag_flow, mag_head, mag_header, mag_hit, mag_kind_MAG_KIND_FLOW, mag_kind_MAG_KIND_HEAD,
    mag_kind_MAG_KIND_HIT, mag_kind_MAG_KIND_LOSS, mag_kind_MAG_KIND_TASK, mag_kind_MAG_KIND_TCP, mag_loss,
    mag_loss_cause_MAG_LOST_REFUSED, mag_task, mag_tcp,
};
use magscope_core::deciders::SocketFilter;
use magscope_core::hop::Role;
use magscope_core::{
    Detail, DetailKind, Event, EventFlags, Extent, ExtentKind, Flow, FlowId, Hop, Loss, LossCause, PayloadHead,
    ProbeHit, Proto, Task, TcpSample,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A decoded record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A hit of a hop.
    Event(Event),
    /// The flow behind a flow id.
    Flow(Flow),
    /// The process of a thread.
    Task(Task),
    /// State of a TCP connection, with CPU and sequence number like an event.
    Tcp {
        /// The sample.
        sample: TcpSample,
        /// CPU it was taken on.
        cpu: u16,
        /// Number in this CPU's stream.
        number: u32,
    },
    /// A custom probe was passed.
    Hit(ProbeHit),
    /// The first bytes of a packet's payload.
    Head(PayloadHead),
    /// Lost records.
    Loss(Loss),
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the record needs.
    #[error("record of {got} bytes, {need} needed")]
    Short {
        /// Bytes there are.
        got: usize,
        /// Bytes there should be.
        need: usize,
    },
    /// Neither a hop nor a record kind of this version.
    #[error("record of unknown kind {0}")]
    UnknownKind(u8),
}

/// A type that consists only of integers, integer arrays and unions of these, so that any bytes are a valid value.
///
/// # Safety
/// Only for types without padding invariants, references, enums or booleans.
#[allow(unsafe_code)]
unsafe trait Plain: Copy {}
// SAFETY: bindgen generated these from `struct`s in record.h that contain only unsigned integers, integer arrays
// and unions of structs of these.
#[allow(unsafe_code)]
mod plain {
    use super::{Plain, mag_event, mag_flow, mag_head, mag_header, mag_hit, mag_loss, mag_task, mag_tcp};
    unsafe impl Plain for mag_header {}
    unsafe impl Plain for mag_event {}
    unsafe impl Plain for mag_loss {}
    unsafe impl Plain for mag_flow {}
    unsafe impl Plain for mag_task {}
    unsafe impl Plain for mag_tcp {}
    unsafe impl Plain for mag_hit {}
    unsafe impl Plain for mag_head {}
}

#[inline]
fn read<T: Plain>(bytes: &[u8]) -> Result<T, DecodeError> {
    if bytes.len() < size_of::<T>() {
        return Err(DecodeError::Short { got: bytes.len(), need: size_of::<T>() });
    }
    // SAFETY: the slice is long enough, the read is unaligned, and `Plain` types accept any bytes.
    #[allow(unsafe_code)]
    Ok(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// Decodes a plain event, which nearly every record is; `None` for all others and for what is no record.
#[inline]
pub fn decode_event(bytes: &[u8]) -> Option<Event> {
    let hop = Hop::from_id(*bytes.first()?)?;
    read(bytes).ok().map(|record| event(&record, hop))
}

/// Decodes one record.
///
/// # Errors
/// [`DecodeError`] where the bytes are too few or of an unknown kind.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    if let Some(event) = decode_event(bytes) {
        return Ok(Record::Event(event));
    }
    let header: mag_header = read(bytes)?;
    if Hop::from_id(header.hop).is_some() {
        return Err(DecodeError::Short { got: bytes.len(), need: size_of::<mag_event>() });
    }
    match u32::from(header.hop) {
        kind if kind == mag_kind_MAG_KIND_FLOW => Ok(Record::Flow(flow(&read(bytes)?))),
        kind if kind == mag_kind_MAG_KIND_TASK => Ok(Record::Task(task(&read(bytes)?))),
        kind if kind == mag_kind_MAG_KIND_TCP => {
            Ok(Record::Tcp { sample: tcp(&read(bytes)?), cpu: header.cpu, number: header.number })
        }
        kind if kind == mag_kind_MAG_KIND_HIT => Ok(Record::Hit(hit(&read(bytes)?))),
        kind if kind == mag_kind_MAG_KIND_HEAD => head(bytes).map(Record::Head),
        kind if kind == mag_kind_MAG_KIND_LOSS => Ok(Record::Loss(loss(&read(bytes)?))),
        _ => Err(DecodeError::UnknownKind(header.hop)),
    }
}

/// No packet is longer, bytes: the kernel's largest super-packets have half a megabyte.
const LONGEST_PACKET: u32 = 1 << 24;

#[inline]
fn event(e: &mag_event, hop: Hop) -> Event {
    let proto = Proto(e.proto);
    let has_packet = matches!(hop.role(), Role::Packet | Role::Drop);
    let (ttl, upper) = if has_packet { (ttl(e), 0) } else { (0, call_flags(e)) };
    let flags = EventFlags(u16::from(e.flags) | u16::from(upper) << 8);
    // Lengths of headers that contradict each other leave a payload below zero.
    let is_malformed = has_packet && e.len > LONGEST_PACKET;
    let len = if is_malformed { 0 } else { e.len };
    let flags = if is_malformed { EventFlags(flags.0 | EventFlags::PARTIAL.0) } else { flags };
    let by = payload(e, hop, proto, has_packet, flags.contains(EventFlags::IN_KERNEL));
    Event {
        time_ns: e.h.time_ns,
        socket: e.cookie,
        flow: FlowId(e.flow),
        len,
        skb: by.skb,
        ifindex: e.ifindex,
        tgid: by.tgid,
        tid: by.tid,
        record: e.h.number,
        cpu: e.h.cpu,
        ip_id: e.ip_id,
        segs: e.segs,
        tcp_flags: e.tcp_flags,
        ttl,
        tos: by.tos,
        flags,
        extent: extent(e, ExtentKind::at(hop, proto, flags, e.segs)),
        detail: by.detail,
        hop,
        proto,
    }
}

/// The fields of an event whose place in the record depends on the kind of hop.
#[derive(Default)]
struct ByKind {
    skb: u32,
    tgid: u32,
    tid: u32,
    tos: u8,
    detail: Detail,
}

// All members of the unions are unsigned integers, so any bytes are valid in each.
#[allow(unsafe_code)]
mod members {
    use super::{
        ByKind, Detail, DetailKind, EventFlags, Extent, ExtentKind, Hop, Proto, filter_drop, mag_event,
    };

    #[inline]
    pub fn ttl(e: &mag_event) -> u8 {
        // SAFETY: an integer.
        unsafe { e.u.ttl }
    }

    #[inline]
    pub fn call_flags(e: &mag_event) -> u8 {
        // SAFETY: an integer.
        unsafe { e.u.call_flags }
    }

    #[inline]
    pub fn extent(e: &mag_event, kind: ExtentKind) -> Extent {
        // SAFETY: integers.
        kind.of(unsafe {
            match kind {
                ExtentKind::None => 0,
                ExtentKind::Stream => e.extent.seq,
                ExtentKind::Segments => e.extent.segment_bytes,
                ExtentKind::Echo => e.extent.echo_number,
                ExtentKind::FirstFragment => e.extent.fragment_bytes,
                ExtentKind::LaterFragment => e.extent.fragment_offset,
                ExtentKind::Switch => e.extent.switch_ns,
                ExtentKind::CopiedBuffer => e.extent.copied_buffer,
                ExtentKind::NextBuffer => e.extent.next_buffer,
                ExtentKind::OpenError => e.extent.open_error,
            }
        })
    }

    #[inline]
    pub fn payload(e: &mag_event, hop: Hop, proto: Proto, has_packet: bool, in_kernel: bool) -> ByKind {
        // SAFETY: integers.
        unsafe {
            if has_packet {
                let p = e.payload.packet;
                let (tos, tid) = ((p.tid_tos >> 24) as u8, p.tid_tos & 0xff_ffff);
                // ip.out of UDP runs within the sender's call, so the record carries the process there too.
                if hop == Hop::IpOut && proto == Proto::UDP {
                    return ByKind { skb: p.skb, tgid: p.detail.tgid, tid, tos, detail: Detail::None };
                }
                if let Some(detail) =
                    (hop == Hop::SkbDrop).then(|| filter_drop(p.detail.drop_reason, tid)).flatten()
                {
                    return ByKind { skb: p.skb, tgid: 0, tid: 0, tos, detail };
                }
                let kind = DetailKind::at(hop, proto, EventFlags(0));
                let number = match kind {
                    DetailKind::Ack => p.detail.ack,
                    DetailKind::DropReason => p.detail.drop_reason,
                    DetailKind::DriverCode => p.detail.driver_code,
                    _ => 0,
                };
                return ByKind { skb: p.skb, tgid: 0, tid: 0, tos, detail: kind.of(number) };
            }
            match hop.detail() {
                kind @ DetailKind::ResendReason => {
                    ByKind { detail: kind.of(e.payload.resend.reason), ..ByKind::default() }
                }
                DetailKind::Poller if in_kernel => {
                    ByKind { detail: DetailKind::Consumer.of(e.payload.ready.consumer), ..ByKind::default() }
                }
                kind @ DetailKind::Poller => {
                    ByKind { detail: kind.of(e.payload.ready.poller_tid), ..ByKind::default() }
                }
                kind @ (DetailKind::ResetReason | DetailKind::ConnectionState | DetailKind::Synacks) => {
                    ByKind { detail: kind.of(e.payload.point.number), ..ByKind::default() }
                }
                kind @ DetailKind::WriteSeq => {
                    ByKind { detail: kind.of(e.payload.call.detail.write_seq), ..ByKind::default() }
                }
                kind @ DetailKind::OtherThread => {
                    let t = e.payload.task;
                    ByKind { tgid: t.tgid, tid: t.tid, detail: kind.of(t.other_tid), ..ByKind::default() }
                }
                _ if !hop.knows_process() => ByKind::default(),
                kind => {
                    let c = e.payload.call;
                    let (kind, number) = if in_kernel {
                        (DetailKind::Consumer, c.detail.consumer)
                    } else {
                        (kind, c.detail.empty_read_ns)
                    };
                    ByKind { tgid: c.tgid, tid: c.tid, detail: kind.of(number), ..ByKind::default() }
                }
            }
        }
    }
}
use members::{call_flags, extent, payload, ttl};

/// The detail of a drop by a filter, if the kernel shows the filter of the socket.
fn filter_drop(reason: u32, filter: u32) -> Option<Detail> {
    SocketFilter::from_number(filter).detail(reason)
}

fn address(bytes: [u8; 16], ipv6: bool) -> IpAddr {
    if ipv6 {
        Ipv6Addr::from(bytes).into()
    } else {
        Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]).into()
    }
}

fn flow(f: &mag_flow) -> Flow {
    Flow {
        id: FlowId(f.flow),
        netns: f.netns,
        proto: Proto(f.proto),
        local: SocketAddr::new(address(f.local, f.ipv6 != 0), f.local_port),
        remote: SocketAddr::new(address(f.remote, f.ipv6 != 0), f.remote_port),
    }
}

fn task(t: &mag_task) -> Task {
    let comm: Vec<u8> = t.comm.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
    Task {
        tgid: t.tgid,
        tid: t.tid,
        uid: t.uid,
        cgroup: t.cgroup,
        // a process chooses its own name: unprintable bytes must not reach a terminal
        comm: magscope_core::foreign::clean(&String::from_utf8_lossy(&comm)).into_owned(),
    }
}

fn tcp(t: &mag_tcp) -> TcpSample {
    TcpSample {
        time_ns: t.h.time_ns,
        socket: t.cookie,
        flow: FlowId(t.flow),
        cwnd: t.cwnd,
        ssthresh: t.ssthresh,
        srtt_us: t.srtt_us,
        rttvar_us: t.rttvar_us,
        rto_us: t.rto_us,
        packets_out: t.packets_out,
        retrans_out: t.retrans_out,
        total_retrans: t.total_retrans,
        snd_wnd: t.snd_wnd,
        rcv_wnd: t.rcv_wnd,
        snd_una: t.snd_una,
        snd_nxt: t.snd_nxt,
        write_seq: t.write_seq,
        rcv_nxt: t.rcv_nxt,
        copied_seq: t.copied_seq,
        send_queue_bytes: t.write_seq.wrapping_sub(t.snd_una),
        recv_queue_bytes: t.rcv_nxt.wrapping_sub(t.copied_seq),
        state: t.state,
        ca_state: t.ca_state,
        tcp_flags: t.tcp_flags,
    }
}

/// The number of a packet's `union mag_extent` if it is a sequence number. That of another protocol is a length, for
/// example of the segments of a super-packet.
fn stream_seq(proto: u8, number: u32) -> u32 {
    if Proto(proto) == Proto::TCP { number } else { 0 }
}

fn hit(h: &mag_hit) -> ProbeHit {
    ProbeHit {
        time_ns: h.h.time_ns,
        socket: h.cookie,
        flow: FlowId(h.flow),
        seq: stream_seq(h.proto, h.seq),
        len: h.len,
        tgid: h.tgid,
        tid: h.tid,
        record: h.h.number,
        cpu: h.h.cpu,
        ip_id: h.ip_id,
        probe: h.probe,
        proto: Proto(h.proto),
        known: h.readable,
        values: h.value.map(|value| value as i64),
    }
}

fn head(bytes: &[u8]) -> Result<PayloadHead, DecodeError> {
    let r: mag_head = read(bytes)?;
    let hop = Hop::from_id(r.hop).ok_or(DecodeError::UnknownKind(r.hop))?;
    let need = size_of::<mag_head>().saturating_add(r.bytes as usize);
    let head = bytes.get(size_of::<mag_head>()..need).ok_or(DecodeError::Short { got: bytes.len(), need })?;
    Ok(PayloadHead {
        time_ns: r.h.time_ns,
        flow: FlowId(r.flow),
        seq: stream_seq(r.proto, r.seq),
        of_bytes: r.of_bytes,
        event: r.event,
        record: r.h.number,
        cpu: r.h.cpu,
        ip_id: r.ip_id,
        hop,
        proto: Proto(r.proto),
        bytes: head.to_vec(),
    })
}

fn loss(l: &mag_loss) -> Loss {
    let from_ns = if l.from_ns == 0 { l.h.time_ns } else { l.from_ns.min(l.h.time_ns) };
    let is_refused = l.cause == u64::from(mag_loss_cause_MAG_LOST_REFUSED);
    let cause = if is_refused { LossCause::Refused } else { LossCause::RingFull };
    Loss { cpu: l.h.cpu, from_ns, to_ns: l.h.time_ns, count: l.count, cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{
        mag_call_detail, mag_filter_id_MAG_FILTER_CLASSIC, mag_filter_id_MAG_FILTER_NONE, mag_of_call,
        mag_of_packet, mag_of_task, mag_packet_detail,
    };
    use magscope_core::journey::{Consumer, Resend};
    use proptest::prelude::*;

    fn bytes_of<R: Plain>(record: &R) -> Vec<u8> {
        // SAFETY: integers, and the structures of record.h have no padding, which the verifier would refuse to send.
        #[allow(unsafe_code)]
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast::<u8>(), size_of::<R>()) }.to_vec()
    }

    #[test]
    fn a_loss_has_its_cause() {
        for (number, cause) in [(0, LossCause::RingFull), (1, LossCause::Refused)] {
            let h = mag_header {
                hop: mag_kind_MAG_KIND_LOSS as u8,
                words: (size_of::<mag_loss>() / 8) as u8,
                cpu: 2,
                number: 0,
                time_ns: 50,
            };
            let loss = decode(&bytes_of(&mag_loss { h, from_ns: 40, count: 3, cause: number }));
            assert_eq!(loss, Ok(Record::Loss(Loss { cpu: 2, from_ns: 40, to_ns: 50, count: 3, cause })));
        }
    }

    fn decoded(mut e: mag_event, hop: Hop) -> Event {
        (e.h.hop, e.h.cpu, e.h.number, e.h.time_ns) = (hop.id(), 3, 12, 99);
        let Ok(Record::Event(event)) = decode(&bytes_of(&e)) else { panic!("an event") };
        assert_eq!((event.hop, event.cpu, event.record, event.time_ns), (hop, 3, 12, 99));
        event
    }

    #[test]
    fn every_hop_decodes_to_the_detail_of_its_row() {
        for hop in Hop::ALL {
            let mut e = mag_event { proto: 6, ..Default::default() };
            // Every number of the payload is another one.
            e.payload.call = mag_of_call { tgid: 71, tid: 72, detail: mag_call_detail { empty_read_ns: 73 } };
            let event = decoded(e, *hop);
            let expected = if *hop == Hop::SkbDrop { DetailKind::FilterDrop } else { hop.detail() };
            assert_eq!(event.detail.kind(), expected, "{hop}");
            let has_process = hop.knows_process();
            assert_eq!((event.tgid, event.tid), if has_process { (71, 72) } else { (0, 0) }, "{hop}");
        }
    }

    #[test]
    fn a_payload_below_zero_is_no_payload() {
        let e = mag_event { len: 0_u32.wrapping_sub(7), proto: 17, ..Default::default() };
        let event = decoded(e, Hop::DevRecv);
        assert_eq!((event.len, event.flags.contains(EventFlags::PARTIAL)), (0, true));
        assert_eq!(decoded(e, Hop::AppSend).len, e.len, "a call may be of so much");
    }

    #[test]
    fn every_kind_of_event_keeps_all_of_its_numbers() {
        let packet = |detail| {
            let mut e = mag_event { len: 1448, ip_id: 9, segs: 1, proto: 6, ifindex: 4, ..Default::default() };
            (e.extent.seq, e.u.ttl, e.flags) = (100, 64, 1);
            e.payload.packet = mag_of_packet { skb: 50, detail, tid_tos: 8 << 24 };
            e
        };
        let ack = decoded(packet(mag_packet_detail { ack: 55 }), Hop::DevXmit);
        assert_eq!((ack.extent.seq(), ack.detail.ack(), ack.ttl, ack.tos, ack.skb), (100, 55, 64, 8, 50));
        assert_eq!((ack.len, ack.ip_id, ack.segs, ack.ifindex, ack.flags), (1448, 9, 1, 4, EventFlags::IPV6));
        assert_eq!((ack.tgid, ack.tid), (0, 0));
        let drop = decoded(packet(mag_packet_detail { drop_reason: 5 }), Hop::SkbDrop);
        assert_eq!((drop.drop_reason(), drop.skb, drop.seq()), (5, 50, 100));
        assert_eq!((drop.detail.kind(), drop.socket_filter()), (DetailKind::DropReason, SocketFilter::Unknown));
        let filtered = |number| {
            let mut e = packet(mag_packet_detail { drop_reason: 8 });
            e.payload.packet.tid_tos = 8 << 24 | number;
            decoded(e, Hop::SkbDrop)
        };
        for (number, filter) in [
            (42, SocketFilter::Program(42)),
            (mag_filter_id_MAG_FILTER_NONE, SocketFilter::None),
            (mag_filter_id_MAG_FILTER_CLASSIC, SocketFilter::Classic),
        ] {
            let drop = filtered(number);
            assert_eq!((drop.drop_reason(), drop.socket_filter()), (8, filter));
            assert_eq!((drop.tid, drop.tos, drop.skb), (0, 8, 50));
        }
        let done = decoded(packet(mag_packet_detail { driver_code: 16 }), Hop::DevDone);
        assert_eq!((done.detail.driver_code(), done.skb), (16, 50));

        let mut udp = packet(mag_packet_detail { tgid: 10 });
        (udp.proto, udp.payload.packet.tid_tos) = (17, 0x0800_000b);
        let sent = decoded(udp, Hop::IpOut);
        assert_eq!((sent.tgid, sent.tid, sent.tos, sent.detail), (10, 11, 8, Detail::None));
        assert_eq!(sent.extent, Extent::None, "one segment");
        let extents = [
            (17, 3, 0, Extent::segment_bytes as fn(Extent) -> u32),
            (1, 1, 0, Extent::echo_number),
            (17, 1, EventFlags::MORE.0, Extent::fragment_bytes),
            (6, 1, EventFlags::FRAGMENT.0, Extent::fragment_offset),
        ];
        for (proto, segs, flags, number) in extents {
            let event = decoded(mag_event { proto, segs, flags: flags as u8, ..udp }, Hop::DevRecv);
            assert_eq!(number(event.extent), 100, "{event:?}");
        }

        let mut e = mag_event { len: 42, proto: 6, ..Default::default() };
        (e.u.call_flags, e.extent.seq) = (2, 100);
        e.payload.call = mag_of_call { tgid: 10, tid: 11, detail: mag_call_detail { empty_read_ns: 900 } };
        let read = decoded(e, Hop::AppRecv);
        assert_eq!((read.tgid, read.tid, read.len, read.detail.empty_read_ns()), (10, 11, 42, 900));
        assert_eq!((read.peeks(), read.is_at_return(), read.ttl, read.skb), (true, false, 0, 0));
        e.payload.resend.reason = 2;
        assert_eq!(decoded(e, Hop::TcpRetransmit).resend_reason(), Resend::Timeout);
        e.payload.ready.poller_tid = 77;
        assert_eq!(decoded(e, Hop::SockReady).detail.poller_tid(), 77);
        (e.u.call_flags, e.payload.ready.consumer) = (32, 3);
        assert_eq!(decoded(e, Hop::SockReady).consumer(), Some(Consumer::Mptcp));
        e.payload.call = mag_of_call { tgid: 10, tid: 11, detail: mag_call_detail { consumer: 4 } };
        assert_eq!(decoded(e, Hop::AppRecv).consumer(), Some(Consumer::Tls));

        let mut task = mag_event::default();
        task.extent.switch_ns = 1_200;
        task.payload.task = mag_of_task { tgid: 10, tid: 11, other_tid: 12 };
        let switched = decoded(task, Hop::SchedSwitched);
        assert_eq!((switched.tid, switched.detail.other_tid(), switched.extent.switch_ns()), (11, 12, 1_200));
    }

    #[test]
    fn only_a_packet_of_tcp_has_a_sequence_number() {
        for (proto, seq) in [(Proto::TCP, 1_448), (Proto::UDP, 0), (Proto::ICMP, 0)] {
            let record = mag_hit { proto: proto.0, seq: 1_448, ..mag_hit::default() };
            assert_eq!(hit(&record).seq, seq, "{proto}");
            let record = mag_head { proto: proto.0, seq: 1_448, hop: Hop::DevXmit.id(), ..mag_head::default() };
            assert_eq!(head(&bytes_of(&record)).expect("a record").seq, seq, "{proto}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn every_known_hop_needs_its_64_bytes(hop in 0u8..=255, size in 0usize..63) {
            let mut bytes = vec![0; size];
            if let Some(first) = bytes.first_mut() {
                *first = hop;
            }
            if size < 16 || Hop::from_id(hop).is_some() {
                prop_assert!(decode(&bytes).is_err());
            }
        }
    }
}
