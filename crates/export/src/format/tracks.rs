//! Presentation of marks in trace viewers: slice names, details, and counters.

use crate::mark::{Hit, LeftOutBy, Mark, Probed, RequestSpan};
use magscope_core::{Hop, TcpSample};
use std::net::SocketAddr;

/// A hit as a slice.
pub struct Slice {
    /// Label.
    pub name: String,
    /// Details.
    pub args: Vec<(&'static str, String)>,
}

/// The slice of a hit.
pub fn slice(mark: &Mark, hit: &Hit) -> Slice {
    let about = &hit.about;
    let mut args = vec![
        ("journey", about.id.to_string()),
        ("bytes", about.bytes.to_string()),
        ("verdict", about.verdict.name().to_owned()),
        ("cpu", hit.cpu.to_string()),
    ];
    if let Some((from, to)) = about.addresses {
        args.push(("from", from.to_string()));
        args.push(("to", to.to_string()));
    }
    if let Some((from, took)) = hit.latency {
        args.push(("since", from.name().to_owned()));
        args.push(("latency_ns", took.ns.to_string()));
        if took.half_width_ns > 0 {
            args.push(("half_width_ns", took.half_width_ns.to_string()));
            args.push(("lower_ns", took.bounds_ns.0.to_string()));
            args.push(("upper_ns", took.bounds_ns.1.to_string()));
        }
    }
    if let Some(ns) = hit.waited_ns {
        args.push(("waited_for_retransmission_ns", ns.to_string()));
    }
    if hit.tid != 0 {
        args.push(("thread", format!("{} {}/{}", about.comm(hit.hop), hit.tgid, hit.tid)));
    }
    if !mark.place.is_empty() {
        args.push(("namespace", mark.place.to_string()));
    }
    if hit.again > 0 {
        args.push(("sent_again", hit.again.to_string()));
    }
    if hit.at_return {
        args.push(("taken_at_return", "yes".to_owned()));
    }
    if let (true, Some(took)) = (hit.ends.1, about.total) {
        args.push(("total_ns", took.ns.to_string()));
        if took.half_width_ns > 0 {
            args.push(("total_half_width_ns", took.half_width_ns.to_string()));
            args.push(("total_lower_ns", took.bounds_ns.0.to_string()));
            args.push(("total_upper_ns", took.bounds_ns.1.to_string()));
        }
    }
    Slice { name: format!("{} {}", hit.hop, about.id), args }
}

/// The slice of a custom-probe hit: its values and process.
pub fn probed(mark: &Mark, probed: &Probed) -> Slice {
    let Probed { hit, probe, ends, comm } = probed;
    let mut args = vec![("point", probe.place()), ("values", probe.text(hit)), ("cpu", hit.cpu.to_string())];
    if let Some((local, remote)) = ends {
        args.push(("local", local.to_string()));
        args.push(("remote", remote.to_string()));
    }
    if hit.len > 0 {
        args.push(("bytes", hit.len.to_string()));
    }
    if hit.tid != 0 {
        args.push(("thread", format!("{comm} {}/{}", hit.tgid, hit.tid)));
    }
    if !mark.place.is_empty() {
        args.push(("namespace", mark.place.to_string()));
    }
    Slice { name: probe.name.clone(), args }
}

/// The slice of a request or of its answer.
pub fn request(span: &RequestSpan) -> Slice {
    let mut args = vec![
        ("exchange", span.exchange.to_string()),
        ("request_bytes", span.bytes.0.to_string()),
        ("response_bytes", span.bytes.1.to_string()),
    ];
    if let Some((requester, responder)) = span.addresses {
        args.push(("requester", requester.to_string()));
        args.push(("responder", responder.to_string()));
    }
    if span.tid != 0 {
        args.push(("thread", format!("{} {}/{}", span.comm, span.tgid, span.tid)));
    }
    Slice { name: format!("{} {}", span.side.name(), span.exchange), args }
}

/// Name of the counter of rejected events.
pub fn left_out(hop: Hop, by: LeftOutBy) -> String {
    format!("{} {hop}", by.event())
}

/// Owner of a counter: its connection, or its socket if the connection is unknown.
pub fn ends(socket: u64, ends: Option<(SocketAddr, SocketAddr)>) -> String {
    ends.map_or_else(|| format!("socket {socket}"), |(local, remote)| format!("{local}→{remote}"))
}

/// The loadlines of a sample.
pub fn loads(sample: &TcpSample) -> [(&'static str, u32); 6] {
    [
        ("tcp.cwnd", sample.cwnd),
        ("tcp.ssthresh", sample.ssthresh),
        ("tcp.srtt_us", sample.srtt_us),
        ("tcp.packets_out", sample.packets_out),
        ("tcp.send_queue", sample.send_queue_bytes),
        ("tcp.recv_queue", sample.recv_queue_bytes),
    ]
}
