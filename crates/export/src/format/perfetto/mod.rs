//! Perfetto's protobuf: opens in ui.perfetto.dev and `trace_processor`.
//!
//! Tracks form a tree: node, hop in stack order, process. A hit is an instant, connected to others of its
//! journey by a flow; TCP samples are counters.

mod messages;

use super::marked::MarkWriter;
use super::tracks;
use crate::error::ExportError;
use crate::mark::{Arrow, Hit, Mark, MarkKind, Probed, RequestSpan};
use crate::output::{Output, Written};
use magscope_core::{Hop, custom};
use messages::{
    Annotation, BOOTTIME, COUNTER, Clock, ClockSnapshot, Counter, EXPLICIT, INSTANT, REALTIME, SLICE_BEGIN,
    SLICE_END, Trace, TracePacket, TrackDescriptor, TrackEvent,
};
use prost::Message;
use std::collections::BTreeSet;
use std::io::Write;

/// Track kinds of a node without a hop.
const PROBES: u64 = 1 << 32;
const LEFT_OUT: u64 = 2 << 32;
const REQUESTS: u64 = 3 << 32;
/// Maximum number of described tracks; beyond it descriptions repeat, which viewers accept.
const MOST_TRACKS: usize = 1 << 18;

/// Writes Perfetto's protobuf.
pub struct Perfetto {
    file: Option<Box<dyn Output>>,
    buffer: Vec<u8>,
    tracks: BTreeSet<u64>,
    packets: u64,
    clock: bool,
}

impl Perfetto {
    /// Into this file.
    pub fn new(file: Box<dyn Output>) -> Self {
        Perfetto { file: Some(file), buffer: Vec::new(), tracks: BTreeSet::new(), packets: 0, clock: false }
    }

    fn put(&mut self, packet: TracePacket) -> Result<(), ExportError> {
        self.packets += 1;
        // A trace is the concatenation of its packets, so it can be streamed.
        Trace { packet: vec![packet] }
            .encode(&mut self.buffer)
            .map_err(|error| ExportError::Format(error.to_string()))?;
        if self.buffer.len() >= 64 << 10 { self.pass_on() } else { Ok(()) }
    }

    fn pass_on(&mut self) -> Result<(), ExportError> {
        if let Some(file) = &mut self.file {
            file.write_all(&self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }

    /// Describes a track at its first use.
    fn track(&mut self, uuid: u64, descriptor: impl FnOnce() -> TrackDescriptor) -> Result<u64, ExportError> {
        if !self.tracks.contains(&uuid) {
            if self.tracks.len() >= MOST_TRACKS {
                self.tracks.clear();
            }
            self.tracks.insert(uuid);
            let descriptor = TrackDescriptor { uuid: Some(uuid), ..descriptor() };
            self.put(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })?;
        }
        Ok(uuid)
    }

    fn node(&mut self, mark: &Mark) -> Result<u64, ExportError> {
        self.track(uuid(mark.node, 0, 0), || TrackDescriptor {
            name: Some(mark.host.to_string()),
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        })
    }

    fn hop(&mut self, mark: &Mark, number: u8, name: &str) -> Result<u64, ExportError> {
        let parent = self.node(mark)?;
        self.track(uuid(mark.node, number, 0), || TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: Some(parent),
            sibling_order_rank: Some(i32::from(number)),
            ..TrackDescriptor::default()
        })
    }

    /// A track of a node without a hop.
    fn below(&mut self, mark: &Mark, of: u64, name: &str) -> Result<u64, ExportError> {
        let parent = self.node(mark)?;
        self.track(below(mark, of), || TrackDescriptor {
            name: Some(name.to_owned()),
            parent_uuid: Some(parent),
            ..TrackDescriptor::default()
        })
    }

    /// A counter of a node without a hop.
    fn counter_below(
        &mut self,
        mark: &Mark,
        of: u64,
        name: impl FnOnce() -> String,
        value: i64,
    ) -> Result<(), ExportError> {
        let parent = self.node(mark)?;
        self.counter(mark.ns, (below(mark, of), parent), name, value)
    }

    /// A counter on the track of this number below another.
    fn counter(
        &mut self,
        ns: i64,
        (uuid, parent): (u64, u64),
        name: impl FnOnce() -> String,
        value: i64,
    ) -> Result<(), ExportError> {
        let track = self.track(uuid, || TrackDescriptor {
            name: Some(name()),
            parent_uuid: Some(parent),
            counter: Some(Counter {}),
            ..TrackDescriptor::default()
        })?;
        let counter = TrackEvent {
            kind: Some(COUNTER),
            track_uuid: Some(track),
            counter_value: Some(value),
            ..TrackEvent::default()
        };
        self.event(ns, counter)
    }

    fn probe(&mut self, mark: &Mark, probed: &Probed) -> Result<(), ExportError> {
        let number = probed.hit.probe;
        let track = self.below(mark, PROBES | u64::from(number), &format!("probe {}", probed.probe.name))?;
        let slice = tracks::probed(mark, probed);
        let event = TrackEvent {
            kind: Some(INSTANT),
            track_uuid: Some(track),
            name: Some(slice.name),
            categories: vec!["probe".to_owned()],
            debug_annotations: slice.args.into_iter().map(|(k, v)| annotation(k, v)).collect(),
            ..TrackEvent::default()
        };
        self.event(mark.ns, event)?;
        if probed.probe.mark != custom::Mark::Loadline {
            return Ok(());
        }
        for (at, value) in probed.probe.values.iter().enumerate() {
            let name = format!("{} {}", probed.probe.name, value.name);
            if let Some(number_read) = probed.hit.value(at) {
                let of = PROBES | (at as u64 + 1) << 8 | u64::from(number);
                self.counter_below(mark, of, || name, number_read)?;
            }
        }
        Ok(())
    }

    /// A slice on the track of its connection: exchanges of a connection follow each other.
    fn request(&mut self, mark: &Mark, span: &RequestSpan) -> Result<(), ExportError> {
        let parent = self.below(mark, REQUESTS, "requests")?;
        let uuid = 1 << 60 | u64::from(mark.node) << 44 | span.connection & 0xfff_ffff_ffff;
        let track = self.track(uuid, || TrackDescriptor {
            name: Some(span.label()),
            parent_uuid: Some(parent),
            ..TrackDescriptor::default()
        })?;
        let slice = tracks::request(span);
        let begin = TrackEvent {
            kind: Some(SLICE_BEGIN),
            track_uuid: Some(track),
            name: Some(slice.name),
            categories: vec!["request".to_owned()],
            debug_annotations: slice.args.into_iter().map(|(k, v)| annotation(k, v)).collect(),
            // Journeys have the smaller numbers.
            flow_ids: vec![1 << 62 | span.exchange],
            ..TrackEvent::default()
        };
        self.event(mark.ns, begin)?;
        let end = TrackEvent { kind: Some(SLICE_END), track_uuid: Some(track), ..TrackEvent::default() };
        self.event(span.end_ns, end)
    }

    fn process(&mut self, mark: &Mark, hit: &Hit) -> Result<u64, ExportError> {
        let parent = self.hop(mark, hit.hop.order(), hit.hop.name())?;
        if hit.tgid == 0 {
            return Ok(parent);
        }
        self.track(uuid(mark.node, hit.hop.order(), hit.tgid), || TrackDescriptor {
            name: Some(format!("{} {}", hit.about.comm(hit.hop), hit.tgid)),
            parent_uuid: Some(parent),
            ..TrackDescriptor::default()
        })
    }

    fn event(&mut self, ns: i64, event: TrackEvent) -> Result<(), ExportError> {
        let timestamp = u64::try_from(ns).unwrap_or(0);
        if !self.clock {
            self.clock = true;
            // Viewers use BOOTTIME; the times are UTC, and this snapshot equates both.
            let clock = |id| Clock { clock_id: Some(id), timestamp: Some(timestamp) };
            let clock_snapshot = Some(ClockSnapshot { clocks: vec![clock(BOOTTIME), clock(REALTIME)] });
            self.put(TracePacket {
                clock_snapshot,
                trusted_packet_sequence_id: Some(1),
                ..TracePacket::default()
            })?;
        }
        self.put(TracePacket {
            timestamp: Some(timestamp),
            trusted_packet_sequence_id: Some(1),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }
}

/// A track's unique, non-zero number from node, hop and process.
fn uuid(node: u16, hop: u8, process: u32) -> u64 {
    1 << 63 | u64::from(node) << 40 | u64::from(hop) << 32 | u64::from(process)
}

fn annotation(name: &str, value: String) -> Annotation {
    Annotation { name: Some(name.to_owned()), string_value: Some(value) }
}

impl MarkWriter for Perfetto {
    fn mark(&mut self, mark: &Mark) -> Result<(), ExportError> {
        match &mark.what {
            MarkKind::Hit(hit) => {
                let track = self.process(mark, hit)?;
                let slice = tracks::slice(mark, hit);
                let flow = vec![hit.about.id];
                let (flow_ids, terminating_flow_ids) = match hit.arrow {
                    None => (Vec::new(), Vec::new()),
                    Some(Arrow::Only | Arrow::Last) => (Vec::new(), flow),
                    Some(Arrow::First | Arrow::Inner) => (flow, Vec::new()),
                };
                self.event(
                    mark.ns,
                    TrackEvent {
                        kind: Some(INSTANT),
                        track_uuid: Some(track),
                        name: Some(slice.name),
                        categories: vec![hit.about.proto.to_string()],
                        debug_annotations: slice.args.into_iter().map(|(k, v)| annotation(k, v)).collect(),
                        flow_ids,
                        terminating_flow_ids,
                        ..TrackEvent::default()
                    },
                )
            }
            MarkKind::Ended(ended) => {
                let track = self.hop(mark, u8::MAX, "lost and dropped")?;
                let mut args = vec![annotation("after", ended.after.name().to_owned())];
                args.extend(ended.reason().map(|reason| annotation("reason", reason.to_string())));
                self.event(
                    mark.ns,
                    TrackEvent {
                        kind: Some(INSTANT),
                        track_uuid: Some(track),
                        name: Some(format!("{} {}", ended.name(), ended.about.id)),
                        debug_annotations: args,
                        flow_ids: vec![ended.about.id],
                        ..TrackEvent::default()
                    },
                )
            }
            MarkKind::Loss { to_ns, loss } => {
                let track = self.hop(mark, u8::MAX - 1, "records lost")?;
                let begin = TrackEvent {
                    kind: Some(SLICE_BEGIN),
                    track_uuid: Some(track),
                    name: Some(format!("{} lost: {}", loss.count, loss.cause)),
                    ..TrackEvent::default()
                };
                self.event(mark.ns, begin)?;
                let end =
                    TrackEvent { kind: Some(SLICE_END), track_uuid: Some(track), ..TrackEvent::default() };
                self.event(*to_ns, end)
            }
            MarkKind::Probe(probed) => self.probe(mark, probed),
            MarkKind::Request(span) => self.request(mark, span),
            MarkKind::LeftOut { hop, by, count, .. } => {
                let of = LEFT_OUT | (*by as u64) << 8 | u64::from(hop.id());
                let count = i64::try_from(*count).unwrap_or(i64::MAX);
                self.counter_below(mark, of, || tracks::left_out(*hop, *by), count)
            }
            MarkKind::Sample { sample, ends } => {
                let parent = self.hop(mark, Hop::TcpState.order(), Hop::TcpState.name())?;
                let of = tracks::ends(sample.socket, *ends);
                for (at, (what, value)) in tracks::loads(sample).into_iter().enumerate() {
                    // A separate bit avoids collisions; sockets count from 1.
                    let uuid = 1 << 62
                        | u64::from(mark.node) << 48
                        | (sample.socket << 3 & 0xffff_ffff_fff8)
                        | at as u64;
                    let name = || format!("{what} {of}");
                    self.counter(mark.ns, (uuid, parent), name, i64::from(value))?;
                }
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.pass_on()
    }

    fn finish(&mut self) -> Result<Written, ExportError> {
        self.pass_on()?;
        if let Some(file) = self.file.take() {
            file.close()?;
        }
        Ok(Written { rows: vec![("trace packets", self.packets)], left_out: Vec::new() })
    }
}

/// The number of a node's track without a hop.
fn below(mark: &Mark, of: u64) -> u64 {
    1 << 61 | u64::from(mark.node) << 40 | of
}
