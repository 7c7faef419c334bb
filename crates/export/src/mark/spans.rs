//! Spans of requests: exchanges of the grade `turn`, from their first byte to their last, at each of their ends.

use super::{Mark, MarkKind};
use crate::names::Names;
use crate::timeline::TimeLine;
use magscope_core::Proto;
use magscope_core::exchange::{Exchange, ExchangeBuilder, ExchangeEnd};
use magscope_core::journey::ThreadRef;
use magscope_timeline::merged_reader::Piece;
use std::net::SocketAddr;
use std::sync::Arc;

/// The end of an exchange that a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanSide {
    /// From the first send of the request to the read of the response's last byte.
    Requester,
    /// From the read of the request to the first send of the response.
    Responder,
}

impl SpanSide {
    /// Name of the span.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requester => "request",
            Self::Responder => "answer",
        }
    }

    /// Event names of its begin and of its end.
    pub const fn events(self) -> [&'static str; 2] {
        match self {
            Self::Requester => ["request.begin", "request.end"],
            Self::Responder => ["answer.begin", "answer.end"],
        }
    }
}

/// A request, or its answer. The time of its mark is its begin.
#[derive(Clone, Debug)]
pub struct RequestSpan {
    /// The end that it is of.
    pub side: SpanSide,
    /// Number of the exchange.
    pub exchange: u64,
    /// Its end, as the time of a mark.
    pub end_ns: i64,
    /// Protocol.
    pub proto: Proto,
    /// Requester and responder, if known.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Payload of the request and of the response, bytes.
    pub bytes: (u64, u64),
    /// Number that no other connection of the recordings has at this end.
    pub connection: u64,
    /// Thread of this end; 0 if unknown.
    pub tgid: u32,
    /// See `tgid`.
    pub tid: u32,
    /// Name of that thread, empty if unknown.
    pub comm: Box<str>,
}

impl RequestSpan {
    /// Its ID in files: journeys have numbers.
    pub fn id(&self) -> String {
        format!("request-{}", self.exchange)
    }

    /// Label of its connection: `curl → 10.0.0.2:443`.
    pub fn label(&self) -> String {
        let to = self.addresses.map_or_else(|| "?".to_owned(), |(_, to)| to.to_string());
        match self.addresses {
            Some((from, _)) => format!("{} {from} → {to}", self.comm),
            None => format!("{} → {to}", self.comm),
        }
    }
}

/// Makes spans of pieces.
#[derive(Default)]
pub(super) struct Spans {
    builder: ExchangeBuilder,
    ready: Vec<Exchange>,
}

impl Spans {
    /// Takes a piece, after its names have been stored.
    pub fn piece(&mut self, piece: &Piece<'_>, names: &mut Names, line: TimeLine, out: &mut impl FnMut(Mark)) {
        match piece {
            Piece::Batch(node, batch) => self.builder.batch(*node, batch, &mut self.ready),
            Piece::Journey(journey, _, context) => self.builder.journey(journey, *context, &mut self.ready),
        }
        self.collect(names, line, out);
    }

    /// Closes what is open.
    pub fn finish(&mut self, names: &mut Names, line: TimeLine, out: &mut impl FnMut(Mark)) {
        self.builder.finish(&mut self.ready);
        self.collect(names, line, out);
    }

    fn collect(&mut self, names: &mut Names, line: TimeLine, out: &mut impl FnMut(Mark)) {
        for exchange in self.ready.drain(..).filter(|exchange| exchange.grade.has_latency()) {
            let (request, response) = (&exchange.request, &exchange.response);
            let sides = [
                (SpanSide::Requester, &exchange.requester, request.first_sent_ns.zip(response.last_read_ns)),
                (SpanSide::Responder, &exchange.responder, request.last_read_ns.zip(response.first_sent_ns)),
            ];
            for (side, end, times) in sides {
                let Some((begin_ns, end_ns)) = times.filter(|(begin, end)| begin <= end) else { continue };
                out(mark(&exchange, side, end, (line.ns(begin_ns), line.ns(end_ns)), names));
            }
        }
    }
}

fn mark(
    exchange: &Exchange,
    side: SpanSide,
    end: &ExchangeEnd,
    (ns, end_ns): (i64, i64),
    names: &mut Names,
) -> Mark {
    let ThreadRef { tgid, tid, .. } = end.thread().unwrap_or_default();
    let what = MarkKind::Request(Box::new(RequestSpan {
        side,
        exchange: exchange.id,
        end_ns,
        proto: exchange.proto,
        addresses: exchange.requester.addr.zip(exchange.responder.addr),
        bytes: (exchange.request.bytes, exchange.response.bytes),
        connection: end.flow.0,
        tgid,
        tid,
        comm: names.comm(end.node, tid).into(),
    }));
    let host: Arc<str> = names.host_of_flow(end.node, end.flow);
    Mark { ns, node: end.node, host, place: names.place_of(end.node, end.flow), what }
}
