//! Converts batches and journeys to marks.

use super::arrows::Arrows;
use super::spans::Spans;
use super::{About, Ended, Hit, LeftOutBy, Mark, MarkKind, Probed, Took};
use crate::Chosen;
use crate::names::Names;
use crate::timeline::TimeLine;
use magscope_core::change::HopCount;
use magscope_core::context::Context;
use magscope_core::custom::{self, Attach, CustomProbe, ProbeHit};
use magscope_core::hop::Role;
use magscope_core::journey::{Latency, Presence, Resend, Rung};
use magscope_core::node::{DropReason, NodeInfo};
use magscope_core::{Direction, Flow, Hop, Journey, Verdict};
use magscope_timeline::merged_reader::Piece;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Makes marks of pieces.
pub struct Marks {
    chosen: Chosen,
    line: TimeLine,
    names: Names,
    new_flows: Vec<Flow>,
    /// Last reported counters of each hop.
    counted: BTreeMap<(u16, Hop), HopCount>,
    spans: Option<Spans>,
}

impl Marks {
    /// Marks of these nodes.
    pub fn new(infos: &[NodeInfo], line: TimeLine, chosen: Chosen) -> Self {
        let names = Names::new(infos);
        Marks { chosen, line, names, new_flows: Vec::new(), counted: BTreeMap::new(), spans: None }
    }

    /// Adds spans of requests, unless a filter selects journeys.
    #[must_use]
    pub fn with_requests(mut self) -> Self {
        self.spans = self.chosen.filter.is_none().then(Spans::default);
        self
    }

    /// The nodes.
    pub fn infos(&self) -> &[NodeInfo] {
        self.names.infos()
    }

    /// True if a filter chooses journeys: the others have no marks.
    pub fn is_filtered(&self) -> bool {
        self.chosen.filter.is_some()
    }

    /// What the marks lack, in words, and how many.
    pub fn left_out(&self) -> Option<(Cow<'static, str>, u64)> {
        self.names.left_out()
    }

    /// The marks of a piece, not in time order.
    pub fn piece(&mut self, piece: &Piece<'_>, mut out: impl FnMut(Mark)) {
        match piece {
            Piece::Batch(node, batch) => {
                self.names.learn(*node, batch, &mut self.new_flows);
                let host = self.names.host(*node);
                for sample in &batch.tcp {
                    let flow = self.names.flow(*node, sample.flow).copied();
                    let place = flow.map(|flow| self.names.place(*node, flow.netns)).unwrap_or_default();
                    let ends = flow.map(|flow| (flow.local, flow.remote));
                    let host = self.names.host_of_flow(*node, sample.flow);
                    let what = MarkKind::Sample { sample: Box::new(*sample), ends };
                    out(Mark { ns: self.line.ns(sample.time_ns), node: *node, host, place, what });
                }
                for loss in &batch.losses {
                    let what = MarkKind::Loss { to_ns: self.line.ns(loss.to_ns), loss: *loss };
                    let ns = self.line.ns(loss.from_ns);
                    out(Mark { ns, node: *node, host: host.clone(), place: Arc::default(), what });
                }
                for hit in &batch.hits {
                    out(self.probed(*node, hit));
                }
                for count in &batch.counts {
                    self.of_count(*node, count, &mut out);
                }
            }
            Piece::Journey(journey, _, context) if self.chosen.wants(journey, *context) => {
                self.journey(journey, *context, &mut out);
            }
            Piece::Journey(..) => {}
        }
        if let Some(spans) = &mut self.spans {
            spans.piece(piece, &mut self.names, self.line, &mut out);
        }
    }

    /// The marks of what is open at the end.
    pub fn finish(&mut self, mut out: impl FnMut(Mark)) {
        if let Some(spans) = &mut self.spans {
            spans.finish(&mut self.names, self.line, &mut out);
        }
    }

    fn probed(&mut self, node: u16, hit: &ProbeHit) -> Mark {
        let flow = self.names.flow(node, hit.flow);
        let ends = flow.map(|flow| (flow.local, flow.remote));
        // An undescribed probe has its number as name.
        let unnamed = || CustomProbe {
            name: hit.probe.to_string(),
            attach: Attach::Kprobe,
            target: String::new(),
            after: None,
            mark: custom::Mark::Point,
            values: Vec::new(),
        };
        let probe = self.names.probe(node, hit.probe).cloned().unwrap_or_else(unnamed);
        let comm = self.names.comm(node, hit.tid).into();
        let (ns, host, place) = (
            self.line.ns(hit.time_ns),
            self.names.host_of_flow(node, hit.flow),
            self.names.place_of(node, hit.flow),
        );
        Mark { ns, node, host, place, what: MarkKind::Probe(Box::new(Probed { hit: *hit, probe, ends, comm })) }
    }

    fn of_count(&mut self, node: u16, count: &HopCount, out: &mut impl FnMut(Mark)) {
        let before = self.counted.insert((node, count.hop), *count);
        let since = |of: fn(&HopCount) -> u64| of(count).saturating_sub(before.as_ref().map_or(0, of));
        let recorded = since(|count| count.kept);
        let by = [
            (LeftOutBy::Sampler, since(|count| count.sampled)),
            (LeftOutBy::Filter, since(|count| count.filtered.saturating_add(count.undecided))),
        ];
        for (by, many) in by.into_iter().filter(|(_, many)| *many > 0) {
            let what = MarkKind::LeftOut { hop: count.hop, by, count: many, recorded };
            let (ns, host) = (self.line.ns(count.time_ns), self.names.host(node));
            out(Mark { ns, node, host, place: Arc::default(), what });
        }
    }

    fn journey(&mut self, journey: &Journey, context: &dyn Context, out: &mut impl FnMut(Mark)) {
        let (tx, rx) = (context.tx_flow(journey), context.rx_flow(journey));
        let name = |task: Option<&magscope_core::Task>| task.map_or("", |task| task.comm.as_str()).into();
        let about = Arc::new(About {
            id: journey.id,
            proto: journey.proto,
            addresses: tx.map(|f| (f.local, f.remote)).or_else(|| rx.map(|f| (f.remote, f.local))),
            bytes: journey.bytes(),
            seq: journey.range.start as u32,
            ip_id: journey.ip_id,
            verdict: journey.verdict,
            total: journey.total_ns().zip(journey.total_bounds_ns()).map(|(ns, bounds_ns)| Took {
                ns,
                half_width_ns: journey.total_half_width_ns(),
                bounds_ns,
            }),
            sender: name(context.sender(journey)),
            reader: name(context.reader(journey)),
            poller: journey.reader.filter(|_| journey.presence == Presence::Polling).map_or(0, |who| who.tid),
            netns: (tx.map_or(0, |flow| flow.netns), rx.map_or(0, |flow| flow.netns)),
            copies_left_out: journey.copies_left_out,
            waited_for_window: journey.receive_window_ns > 0,
            written: OnceLock::new(),
        });
        let places = Places { tx: self.end(journey.tx_node, tx), rx: self.end(journey.rx_node, rx) };
        let first = journey.all_rungs().next().map(|rung| (rung.hop, rung.copy));
        let arrows = Arrows::of(journey);
        let last = journey.rungs.last().and_then(|hop| journey.rung(hop)).map(|rung| (rung.hop, rung.copy));
        for (rung, span) in journey.spans() {
            let (waited, latency) = span.map_or((None, None), |span| {
                let Latency { from, ns, half_width_ns, bounds_ns, .. } = span;
                let span_of = Some((from, Took { ns, half_width_ns, bounds_ns }));
                if span.is_wait { (Some(span.ns), None) } else { (None, span_of) }
            });
            let here = Some((rung.hop, rung.copy));
            let forwarder = context.flow(journey.node_of(&rung), rung.flow).filter(|_| rung.forwarder != 0);
            // Without a hop of its socket, the first hop has the sender.
            let who = journey
                .sender
                .filter(|_| rung.tid == 0 && first == here && is_sent(rung.hop) && rung.forwarder == 0);
            let (tgid, tid) = who.map_or((rung.tgid, rung.tid), |who| (who.tgid, who.tid));
            let what = MarkKind::Hit(Hit {
                about: about.clone(),
                hop: rung.hop,
                cpu: rung.cpu,
                tgid,
                tid,
                latency,
                waited_ns: waited,
                at_return: rung.at_return,
                ambiguous: is_ambiguous(journey, &rung),
                again: rung.copy.saturating_sub(1),
                resend: Resend::Unknown,
                is_after: rung.copy > journey.copy,
                ends: (first == here && rung.forwarder == 0, last == here && rung.forwarder == 0),
                forwarder_netns: forwarder.map_or(0, |flow| flow.netns),
                arrow: arrows.at(&rung),
            });
            let ns = self.line.ns(rung.time_ns);
            if rung.forwarder == 0 {
                out(places.mark(ns, rung.hop, what));
            } else {
                let (node, host, place) = self.end(journey.node_of(&rung), forwarder);
                out(Mark { ns, node, host, place, what });
            }
        }
        for copy in &journey.copies {
            if let Some(reported_ns) = copy.retransmit_ns {
                let what = MarkKind::Hit(Hit {
                    about: about.clone(),
                    hop: Hop::TcpRetransmit,
                    cpu: 0,
                    tgid: 0,
                    tid: 0,
                    latency: None,
                    waited_ns: None,
                    at_return: false,
                    ambiguous: false,
                    again: copy.number.saturating_sub(1),
                    resend: copy.kind,
                    is_after: true,
                    ends: (false, false),
                    forwarder_netns: 0,
                    arrow: None,
                });
                out(places.mark(self.line.ns(reported_ns), Hop::TcpXmit, what));
            }
        }
        self.ends(journey, context, &about, &places, out);
    }

    /// The dropped copies of a journey, and its own early end.
    fn ends(
        &self,
        journey: &Journey,
        context: &dyn Context,
        about: &Arc<About>,
        places: &Places,
        out: &mut impl FnMut(Mark),
    ) {
        let mut put =
            |ns: u64, (after, reason): (Hop, Option<u32>), at: Option<String>, again: u32, is_end: bool| {
                let node = places.of(after).0;
                let name = |number: u32| {
                    let reasons =
                        self.names.infos().get(usize::from(node)).into_iter().flat_map(|i| &i.drop_reasons);
                    reasons.clone().find(|reason| reason.number == number).map(|reason| reason.name.clone())
                };
                let reason = reason.map(|number| DropReason { number, name: name(number).unwrap_or_default() });
                let interface = at.unwrap_or_default().into();
                let what = Ended { about: about.clone(), after, reason, interface, again, is_end };
                out(places.mark(self.line.ns(ns), after, MarkKind::Ended(what)));
            };
        let mut end = match journey.verdict {
            Verdict::LostAfter { hop } => Some((hop, None)),
            Verdict::Dropped { hop, reason } => Some((hop, Some(reason))),
            _ => None,
        };
        // The drop that ended a journey is its last one.
        let mut drops: Vec<_> = journey.copies.iter().filter_map(|copy| Some((copy.dropped?, copy))).collect();
        drops.sort_by_key(|(drop, _)| std::cmp::Reverse(drop.time_ns));
        for (n, (drop, copy)) in drops.into_iter().enumerate() {
            let ended = end.take_if(|(_, reason)| n == 0 && *reason == Some(drop.reason));
            let after = copy.rungs.last().or(ended.map(|(hop, _)| hop)).unwrap_or(Hop::TcpXmit);
            let at = context.copy_drop_interface(journey, copy, &drop);
            put(drop.time_ns, (after, Some(drop.reason)), at, copy.number.saturating_sub(1), ended.is_some());
        }
        if let Some(end) = end {
            let at = context.drop_interface(journey);
            put(journey.end_ns().unwrap_or_default(), end, at, journey.copy.saturating_sub(1), true);
        }
    }

    /// Number, host and namespace of one end of a journey.
    fn end(&mut self, node: u16, flow: Option<&Flow>) -> (u16, Arc<str>, Arc<str>) {
        match flow {
            Some(flow) => (node, self.names.host_of(node, flow.netns), self.names.place(node, flow.netns)),
            None => (node, self.names.host(node), Arc::default()),
        }
    }
}

/// Number, host and namespace of the two ends of a journey.
struct Places {
    tx: (u16, Arc<str>, Arc<str>),
    rx: (u16, Arc<str>, Arc<str>),
}

impl Places {
    /// The end that a hop is at.
    fn of(&self, hop: Hop) -> &(u16, Arc<str>, Arc<str>) {
        if hop.direction() == Direction::Rx { &self.rx } else { &self.tx }
    }

    fn mark(&self, ns: i64, hop: Hop, what: MarkKind) -> Mark {
        let (node, host, place) = self.of(hop);
        Mark { ns, node: *node, host: host.clone(), place: place.clone(), what }
    }
}

/// True if an event may be of another datagram, or a received one of another copy.
fn is_ambiguous(journey: &Journey, rung: &Rung) -> bool {
    let is_of_copy = || journey.copies.iter().any(|copy| copy.number == rung.copy && copy.ambiguous);
    match (rung.hop.role(), rung.copy) {
        (Role::Packet, 0) => journey.ambiguous,
        (Role::Packet, _) => rung.hop.direction() == Direction::Rx && is_of_copy(),
        _ => false,
    }
}

fn is_sent(hop: Hop) -> bool {
    hop.direction() == Direction::Tx
}
