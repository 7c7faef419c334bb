//! What is drawn, one mark at a time: a hit of a journey, a drop, a loss, a sample. For the formats that know events and not tables.

use crate::Chosen;
use crate::names::Names;
use crate::timeline::TimeLine;
use magscope_core::batch::Loss;
use magscope_core::change::HopCount;
use magscope_core::context::Context;
use magscope_core::custom::{self, Attach, CustomProbe, ProbeHit};
use magscope_core::journey::Rungs;
use magscope_core::node::NodeInfo;
use magscope_core::together::Piece;
use magscope_core::{Direction, Flow, Hop, Journey, Proto, TcpSample, Verdict};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// A mark: when, where, what.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Nanoseconds, as [`TimeLine::ns`].
    pub ns: i64,
    /// Which node: its number in the order of the recordings.
    pub node: u16,
    /// Name of the host.
    pub host: Arc<str>,
    /// Name of the network namespace; empty if it is not known.
    pub place: Arc<str>,
    /// What it is.
    pub what: What,
}

/// What a mark is.
#[derive(Clone, Debug)]
pub enum What {
    /// A journey passed a hop.
    Hit(Hit),
    /// A journey ended where it should not: dropped, or not seen again.
    Ended {
        /// Which journey.
        about: Arc<About>,
        /// The last hop it passed.
        after: Hop,
        /// The kernel's reason, where it dropped it.
        reason: Option<u32>,
    },
    /// Records are missing.
    Loss {
        /// Nothing was lost after this.
        to_ns: i64,
        /// What is missing; its times are those of the recording.
        loss: Loss,
    },
    /// A sample of a TCP connection.
    Sample {
        /// The sample.
        sample: Box<TcpSample>,
        /// This end and the other, if they are known.
        ends: Option<(SocketAddr, SocketAddr)>,
    },
    /// A custom probe was passed.
    Probe(Box<Probed>),
    /// A sampler or a filter left events of a hop out since the mark before.
    LeftOut {
        /// Which hop.
        hop: Hop,
        /// What left them out.
        by: LeftOutBy,
        /// How many.
        count: u64,
        /// How many were kept in the same time.
        kept: u64,
    },
}

/// What leaves events out before they are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOutBy {
    /// Chance: what was kept stands for them, so counts of what was kept are estimates.
    Sampler,
    /// A condition: nobody wanted them.
    Filter,
}

impl LeftOutBy {
    /// As events are called that tell of it.
    pub const fn event(self) -> &'static str {
        match self {
            Self::Sampler => "events.sampled",
            Self::Filter => "events.filtered",
        }
    }
}

/// A hit of a custom probe, and what is known of it.
#[derive(Clone, Debug)]
pub struct Probed {
    /// The hit; its time is that of the recording.
    pub hit: ProbeHit,
    /// What was asked for.
    pub probe: CustomProbe,
    /// This end and the other, if they are known.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// The name of the thread, empty if it is not known.
    pub comm: Box<str>,
}

/// A journey at a hop.
#[derive(Clone, Debug)]
pub struct Hit {
    /// Which journey.
    pub about: Arc<About>,
    /// Which hop.
    pub hop: Hop,
    /// On which CPU.
    pub cpu: u16,
    /// Process, 0 where it is not known.
    pub tgid: u32,
    /// Thread, 0 where it is not known.
    pub tid: u32,
    /// The hop before, how long it took from there and how wrong that may be, nanoseconds.
    pub latency: Option<(Hop, u64, u64)>,
    /// Taken when the call returned.
    pub at_return: bool,
    /// 0 the first time it was sent, then 1 and so on.
    pub again: u32,
    /// Whether it is the first hit, or the last, of its journey in the order of the path.
    pub ends: (bool, bool),
}

/// What all marks of a journey say of it.
#[derive(Debug)]
pub struct About {
    /// Its number.
    pub id: u64,
    /// Protocol.
    pub proto: Proto,
    /// Sender's and receiver's address, if they are known.
    pub way: Option<(SocketAddr, SocketAddr)>,
    /// Payload, bytes.
    pub bytes: u64,
    /// First byte on the wire: a sequence number; 0 for datagrams.
    pub seq: u32,
    /// Identification of a datagram; 0: none.
    pub ip_id: u16,
    /// How it ended.
    pub verdict: Verdict,
    /// From first hop to last, nanoseconds, and how wrong that may be.
    pub total_ns: Option<(u64, u64)>,
    /// The sending thread's name, empty if it is not known.
    pub sender: Box<str>,
    /// The reading thread's name.
    pub reader: Box<str>,
    /// Network namespaces of the two ends.
    pub netns: (u32, u32),
    /// What a format wrote about it once and needs again.
    pub written: OnceLock<Vec<u8>>,
}

impl About {
    /// The name of the thread that is busy at a hop.
    pub fn comm(&self, hop: Hop) -> &str {
        if hop.direction() == Direction::Tx { &self.sender } else { &self.reader }
    }
}

/// Makes marks of pieces.
pub struct Marks {
    chosen: Chosen,
    line: TimeLine,
    names: Names,
    new_flows: Vec<Flow>,
    /// What was told of each hop's counters so far.
    counted: BTreeMap<(u16, Hop), HopCount>,
}

impl Marks {
    /// Of these nodes.
    pub fn new(infos: &[NodeInfo], line: TimeLine, chosen: Chosen) -> Self {
        Marks { chosen, line, names: Names::new(infos), new_flows: Vec::new(), counted: BTreeMap::new() }
    }

    /// The nodes.
    pub fn infos(&self) -> &[NodeInfo] {
        self.names.infos()
    }

    /// The marks of a piece, in no order of time.
    pub fn piece(&mut self, piece: &Piece<'_>, mut out: impl FnMut(Mark)) {
        match piece {
            Piece::Batch(node, batch) => {
                self.names.learn(*node, batch, &mut self.new_flows);
                let host = self.names.host(*node);
                for sample in &batch.tcp {
                    let flow = self.names.flow(*node, sample.flow).copied();
                    let place = flow.map(|flow| self.names.place(*node, flow.netns)).unwrap_or_default();
                    let ends = flow.map(|flow| (flow.local, flow.remote));
                    let what = What::Sample { sample: Box::new(*sample), ends };
                    out(Mark {
                        ns: self.line.ns(sample.time_ns),
                        node: *node,
                        host: host.clone(),
                        place,
                        what,
                    });
                }
                for loss in &batch.losses {
                    let what = What::Loss { to_ns: self.line.ns(loss.to_ns), loss: *loss };
                    let ns = self.line.ns(loss.from_ns);
                    out(Mark { ns, node: *node, host: host.clone(), place: Arc::default(), what });
                }
                for hit in &batch.hits {
                    out(self.probed(*node, hit));
                }
                for count in &batch.counts {
                    self.left_out(*node, count, &mut out);
                }
            }
            Piece::Journey(journey, _, context) if self.chosen.wants(journey, *context) => {
                self.journey(journey, *context, &mut out);
            }
            Piece::Journey(..) => {}
        }
    }

    fn probed(&mut self, node: u16, hit: &ProbeHit) -> Mark {
        let flow = self.names.flow(node, hit.flow);
        let ends = flow.map(|flow| (flow.local, flow.remote));
        // One that nobody described has its number for a name.
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
        let (ns, host, place) =
            (self.line.ns(hit.time_ns), self.names.host(node), self.names.place_of(node, hit.flow));
        Mark { ns, node, host, place, what: What::Probe(Box::new(Probed { hit: *hit, probe, ends, comm })) }
    }

    fn left_out(&mut self, node: u16, count: &HopCount, out: &mut impl FnMut(Mark)) {
        let before = self.counted.insert((node, count.hop), *count);
        let since = |of: fn(&HopCount) -> u64| of(count).saturating_sub(before.as_ref().map_or(0, of));
        let kept = since(|count| count.kept);
        let by = [
            (LeftOutBy::Sampler, since(|count| count.sampled)),
            (LeftOutBy::Filter, since(|count| count.filtered.saturating_add(count.undecided))),
        ];
        for (by, many) in by.into_iter().filter(|(_, many)| *many > 0) {
            let what = What::LeftOut { hop: count.hop, by, count: many, kept };
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
            way: tx.map(|f| (f.local, f.remote)).or_else(|| rx.map(|f| (f.remote, f.local))),
            bytes: journey.bytes(),
            seq: journey.range.start as u32,
            ip_id: journey.ip_id,
            verdict: journey.verdict,
            total_ns: journey.total_ns().map(|ns| (ns, journey.total_half_width_ns())),
            sender: name(context.sender(journey)),
            reader: name(context.reader(journey)),
            netns: (tx.map_or(0, |flow| flow.netns), rx.map_or(0, |flow| flow.netns)),
            written: OnceLock::new(),
        });
        let places = Places {
            tx: (journey.tx_node, self.names.host(journey.tx_node), self.place(journey.tx_node, tx)),
            rx: (journey.rx_node, self.names.host(journey.rx_node), self.place(journey.rx_node, rx)),
        };
        let mut latencies = journey.latencies().peekable();
        let (first, last) = (journey.rungs.hops().next(), journey.rungs.last());
        for rung in journey.all_rungs() {
            let latency = latencies.next_if(|latency| latency.to == rung.hop);
            let what = What::Hit(Hit {
                about: about.clone(),
                hop: rung.hop,
                cpu: rung.cpu,
                tgid: rung.tgid,
                tid: rung.tid,
                latency: latency.map(|l| (l.from, l.ns, l.half_width_ns)),
                at_return: rung.at_return,
                again: 0,
                ends: (first == Some(rung.hop), last == Some(rung.hop)),
            });
            out(places.mark(self.line.ns(rung.time_ns), rung.hop, what));
        }
        for (at, branch) in journey.branches.iter().enumerate() {
            let again = at as u32 + 1;
            if let Some(told_ns) = branch.told_ns {
                let what = What::Hit(hit(&about, Hop::TcpRetransmit, 0, again));
                out(places.mark(self.line.ns(told_ns), Hop::TcpXmit, what));
            }
            branch_hits(&branch.rungs, &about, again, |ns, hop, what| {
                out(places.mark(self.line.ns(ns), hop, what));
            });
        }
        let (after, reason) = match journey.verdict {
            Verdict::LostAfter { hop } => (hop, None),
            Verdict::Dropped { hop, reason } => (hop, Some(reason)),
            _ => return,
        };
        let ns = self.line.ns(journey.end_ns().unwrap_or_default());
        out(places.mark(ns, after, What::Ended { about, after, reason }));
    }

    fn place(&mut self, node: u16, flow: Option<&Flow>) -> Arc<str> {
        flow.map(|flow| self.names.place(node, flow.netns)).unwrap_or_default()
    }
}

fn hit(about: &Arc<About>, hop: Hop, cpu: u16, again: u32) -> Hit {
    Hit {
        about: about.clone(),
        hop,
        cpu,
        tgid: 0,
        tid: 0,
        latency: None,
        at_return: false,
        again,
        ends: (false, false),
    }
}

fn branch_hits(rungs: &Rungs, about: &Arc<About>, again: u32, mut out: impl FnMut(u64, Hop, What)) {
    for hop in rungs.hops() {
        if let (Some(time_ns), Some(cpu)) = (rungs.time_ns(hop), rungs.cpu(hop)) {
            out(time_ns, hop, What::Hit(hit(about, hop, cpu, again)));
        }
    }
}

/// Number, host and namespace of the two ends of a journey.
struct Places {
    tx: (u16, Arc<str>, Arc<str>),
    rx: (u16, Arc<str>, Arc<str>),
}

impl Places {
    fn mark(&self, ns: i64, hop: Hop, what: What) -> Mark {
        let (node, host, place) = if hop.direction() == Direction::Rx { &self.rx } else { &self.tx };
        Mark { ns, node: *node, host: host.clone(), place: place.clone(), what }
    }
}
