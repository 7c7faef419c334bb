//! Perfetto's protobuf: opens in ui.perfetto.dev and `trace_processor`.
//!
//! A track a node, below it one a hop in stack order, below that one a process; a hit is an instant, joined to the others of its journey by
//! a flow; samples of TCP connections are counters. The few messages that are needed are declared here by hand, with the numbers of
//! `protos/perfetto/trace/`.

use super::marked::MarkWriter;
use super::tracks;
use crate::error::ExportError;
use crate::mark::{Hit, Mark, What};
use crate::output::{Output, Written};
use magscope_core::Hop;
use prost::Message;
use std::collections::BTreeSet;
use std::io::Write;

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(message, optional, tag = "6")]
    clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    clocks: Vec<Clock>,
}

#[derive(Clone, PartialEq, Message)]
struct Clock {
    #[prost(uint32, optional, tag = "1")]
    clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<Counter>,
    #[prost(int32, optional, tag = "11")]
    child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    sibling_order_rank: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct Counter {}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    #[prost(int32, optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track_uuid: Option<u64>,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, optional, tag = "10")]
    name: Option<String>,
}

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
/// `BUILTIN_CLOCK_REALTIME` and `BUILTIN_CLOCK_BOOTTIME`.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// Children in the order of their ranks.
const EXPLICIT: i32 = 3;
/// Tracks remembered as told of; beyond that they are told of again, which viewers take for the same.
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
        // A trace is its packets one behind the other, so it can be written as it comes.
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

    /// Tells of a track the first time that it is used.
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

    fn process(&mut self, mark: &Mark, hit: &Hit) -> Result<u64, ExportError> {
        let parent = self.hop(mark, hit.hop as u8, hit.hop.name())?;
        if hit.tgid == 0 {
            return Ok(parent);
        }
        self.track(uuid(mark.node, hit.hop as u8, hit.tgid), || TrackDescriptor {
            name: Some(format!("{} {}", hit.about.comm(hit.hop), hit.tgid)),
            parent_uuid: Some(parent),
            ..TrackDescriptor::default()
        })
    }

    fn event(&mut self, ns: i64, event: TrackEvent) -> Result<(), ExportError> {
        let timestamp = u64::try_from(ns).unwrap_or(0);
        if !self.clock {
            self.clock = true;
            // Viewers count in BOOTTIME; what stands there is UTC, and this says so.
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

/// A track's number: node, hop and process; all different, and none 0.
fn uuid(node: u16, hop: u8, process: u32) -> u64 {
    1 << 63 | u64::from(node) << 40 | u64::from(hop) << 32 | u64::from(process)
}

fn annotation(name: &str, value: String) -> Annotation {
    Annotation { name: Some(name.to_owned()), string_value: Some(value) }
}

impl MarkWriter for Perfetto {
    fn mark(&mut self, mark: &Mark) -> Result<(), ExportError> {
        match &mark.what {
            What::Hit(hit) => {
                let track = self.process(mark, hit)?;
                let slice = tracks::slice(mark, hit);
                let flow = vec![hit.about.id];
                let (flow_ids, terminating_flow_ids) =
                    if hit.ends.1 { (Vec::new(), flow) } else { (flow, Vec::new()) };
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
            What::Ended { about, after, reason } => {
                let track = self.hop(mark, u8::MAX, "lost and dropped")?;
                let mut args = vec![annotation("after", after.name().to_owned())];
                args.extend(reason.map(|reason| annotation("reason", reason.to_string())));
                self.event(
                    mark.ns,
                    TrackEvent {
                        kind: Some(INSTANT),
                        track_uuid: Some(track),
                        name: Some(format!("{} {}", about.verdict.name(), about.id)),
                        debug_annotations: args,
                        flow_ids: vec![about.id],
                        ..TrackEvent::default()
                    },
                )
            }
            What::Loss { to_ns, loss } => {
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
            What::Sample { sample, ends } => {
                let parent = self.hop(mark, Hop::TcpState as u8, Hop::TcpState.name())?;
                let of = tracks::ends(sample.socket, *ends);
                for (at, (what, value)) in tracks::loads(sample).into_iter().enumerate() {
                    // Apart from the others by a bit of its own; sockets count up from 1.
                    let uuid = 1 << 62
                        | u64::from(mark.node) << 48
                        | (sample.socket << 3 & 0xffff_ffff_fff8)
                        | at as u64;
                    let track = self.track(uuid, || TrackDescriptor {
                        name: Some(format!("{what} {of}")),
                        parent_uuid: Some(parent),
                        counter: Some(Counter {}),
                        ..TrackDescriptor::default()
                    })?;
                    let counter = TrackEvent {
                        kind: Some(COUNTER),
                        track_uuid: Some(track),
                        counter_value: Some(i64::from(value)),
                        ..TrackEvent::default()
                    };
                    self.event(mark.ns, counter)?;
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
