//! Decodes ring records. The decoder is pure and accepts any bytes.

use crate::record::{
    mag_event, mag_flow, mag_head, mag_header, mag_hit, mag_kind_MAG_KIND_FLOW, mag_kind_MAG_KIND_HEAD,
    mag_kind_MAG_KIND_HIT, mag_kind_MAG_KIND_LOSS, mag_kind_MAG_KIND_TASK, mag_kind_MAG_KIND_TCP, mag_loss,
    mag_task, mag_tcp,
};
use magscope_core::{
    Event, EventFlags, Flow, FlowId, Hop, Loss, LossCause, PayloadHead, ProbeHit, Proto, Task, TcpSample,
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

/// A type that consists only of integers and integer arrays, so that any bytes are a valid value.
///
/// # Safety
/// Only for types without padding invariants, references, enums or booleans.
#[allow(unsafe_code)]
unsafe trait Plain: Copy {}
// SAFETY: bindgen generated these from `struct`s in record.h that contain only unsigned integers and integer
// arrays.
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

#[inline]
fn event(e: &mag_event, hop: Hop) -> Event {
    let sched = matches!(hop.layer(), magscope_core::Layer::Sched);
    let proto = Proto(e.proto);
    // ip.out of UDP runs within the sender's call, so the record carries the process there too
    let process = hop.knows_process() || hop == Hop::IpOut && proto == Proto::UDP;
    let of_process = if hop == Hop::AppRecv {
        e.skb
    } else if sched {
        e.len
    } else {
        0
    };
    // at packet hops a byte of the header shares a word with the thread
    let (tos, thread) = if hop.knows_process() { (0, e.b) } else { ((e.b >> 24) as u8, e.b & 0xff_ffff) };
    let (tgid, tid, detail) = if process { (e.a, thread, of_process) } else { (0, 0, e.a) };
    Event {
        time_ns: e.h.time_ns,
        socket: e.cookie,
        flow: FlowId(e.flow),
        seq: e.seq,
        len: if sched { 0 } else { e.len },
        skb: if hop == Hop::AppRecv { 0 } else { e.skb },
        ifindex: e.ifindex,
        tgid,
        tid,
        detail,
        record: e.h.number,
        cpu: e.h.cpu,
        ip_id: e.ip_id,
        segs: e.segs,
        tcp_flags: e.tcp_flags,
        ttl: e.ttl,
        tos,
        flags: EventFlags(e.flags),
        hop,
        proto,
    }
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

fn hit(h: &mag_hit) -> ProbeHit {
    ProbeHit {
        time_ns: h.h.time_ns,
        socket: h.cookie,
        flow: FlowId(h.flow),
        seq: h.seq,
        len: h.len,
        tgid: h.tgid,
        tid: h.tid,
        record: h.h.number,
        cpu: h.h.cpu,
        ip_id: h.ip_id,
        probe: h.probe,
        proto: Proto(h.proto),
        known: h.known,
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
        seq: r.seq,
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
    Loss { cpu: l.h.cpu, from_ns, to_ns: l.h.time_ns, count: l.count, cause: LossCause::RingFull }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(e: &mag_event) -> Vec<u8> {
        // SAFETY: plain integers without padding (64 bytes, checked in `record`).
        #[allow(unsafe_code)]
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(e).cast::<u8>(), size_of::<mag_event>()) }
            .to_vec()
    }

    #[test]
    fn a_packet_event_keeps_its_detail_and_has_no_process() {
        let mut e = mag_event {
            flow: 7,
            seq: 100,
            len: 1448,
            a: 55,
            ip_id: 9,
            segs: 2,
            proto: 6,
            ..Default::default()
        };
        e.h.hop = Hop::DevXmit as u8;
        e.h.cpu = 3;
        e.h.number = 12;
        e.h.time_ns = 99;
        let Ok(Record::Event(event)) = decode(&bytes_of(&e)) else { panic!("an event") };
        assert_eq!((event.detail, event.tgid, event.tid), (55, 0, 0));
        assert_eq!((event.seq, event.len, event.ip_id, event.segs), (100, 1448, 9, 2));
        assert_eq!((event.hop, event.cpu, event.record, event.time_ns), (Hop::DevXmit, 3, 12, 99));
    }

    #[test]
    fn a_socket_event_names_its_process_and_a_wake_up_its_waker() {
        let mut e = mag_event { a: 10, b: 11, len: 42, ..Default::default() };
        e.h.hop = Hop::AppRecv as u8;
        let Ok(Record::Event(event)) = decode(&bytes_of(&e)) else { panic!("an event") };
        assert_eq!((event.tgid, event.tid, event.len, event.detail), (10, 11, 42, 0));
        e.h.hop = Hop::TaskWake as u8;
        let Ok(Record::Event(event)) = decode(&bytes_of(&e)) else { panic!("an event") };
        assert_eq!((event.tid, event.len, event.detail), (11, 0, 42));
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
