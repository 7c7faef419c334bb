//! Common Trace Format 1.8: a directory that babeltrace2 and Trace Compass open.
//!
//! Every hop is an event class, so that viewers list hops by name. Every node is a stream. Late events go to
//! further streams of the node, because times within a stream must not decrease.

mod stream;
mod tsdl;

use super::marked::MarkWriter;
use crate::error::ExportError;
use crate::mark::{Hit, Mark, MarkKind, Probed};
use crate::output::{Create, Written};
use magscope_core::node::NodeInfo;
use std::io::Write;
use std::net::SocketAddr;
use stream::Stream;

/// Maximum number of streams per node; events that fit none are omitted and counted.
const MOST_STREAMS: usize = 8;

/// Event class numbers other than hops.
pub(super) const ENDED: u16 = 100;
pub(super) const LOSS: u16 = 101;
pub(super) const SAMPLE: u16 = 102;
pub(super) const PROBE: u16 = 103;
pub(super) const LEFT_OUT: u16 = 104;

/// Writes a CTF trace.
pub struct Ctf<'c> {
    create: Create<'c>,
    uuid: [u8; 16],
    streams: Vec<Vec<Stream>>,
    made: u32,
    events: u64,
    left_out: u64,
    infos: Vec<NodeInfo>,
    scratch: Vec<u8>,
}

impl<'c> Ctf<'c> {
    /// A trace of these nodes. `uuid` identifies the trace.
    pub fn new(create: Create<'c>, infos: &[NodeInfo], uuid: [u8; 16]) -> Self {
        Ctf {
            create,
            uuid,
            streams: infos.iter().map(|_| Vec::new()).collect(),
            made: 0,
            events: 0,
            left_out: 0,
            infos: infos.to_vec(),
            scratch: Vec::new(),
        }
    }

    /// Writes an event with its fields from `scratch`.
    fn put(&mut self, mark: &Mark, id: u16, discarded: u64) -> Result<(), ExportError> {
        let ns = u64::try_from(mark.ns).unwrap_or(0);
        let Some(streams) = self.streams.get_mut(usize::from(mark.node)) else { return Ok(()) };
        let at = match streams.iter().position(|stream| stream.takes(ns)) {
            Some(at) => at,
            None if streams.len() < MOST_STREAMS => {
                let file = (self.create)(&format!("stream_{}", self.made))?;
                self.made += 1;
                streams.push(Stream::new(file, self.uuid));
                streams.len() - 1
            }
            None => {
                self.left_out += 1;
                return Ok(());
            }
        };
        self.events += 1;
        match streams.get_mut(at) {
            Some(stream) => stream.event(ns, id, &self.scratch, discarded),
            None => Ok(()),
        }
    }

    fn text(&mut self, text: &str) {
        // Strings are zero-terminated, so zeros are removed.
        self.scratch.extend(text.bytes().filter(|b| *b != 0));
        self.scratch.push(0);
    }

    fn addresses(&mut self, ends: Option<(SocketAddr, SocketAddr)>) {
        self.text(&ends.map(|(from, _)| from.to_string()).unwrap_or_default());
        self.text(&ends.map(|(_, to)| to.to_string()).unwrap_or_default());
    }

    fn place(&mut self, mark: &Mark) {
        self.scratch.clear();
        self.text(&mark.host);
        self.text(&mark.place);
    }

    fn hit(&mut self, mark: &Mark, hit: &Hit) -> Result<(), ExportError> {
        self.place(mark);
        self.scratch.extend(hit.about.id.to_le_bytes());
        self.scratch.extend(hit.cpu.to_le_bytes());
        self.scratch.extend(hit.tgid.to_le_bytes());
        self.scratch.extend(hit.tid.to_le_bytes());
        self.text(if hit.tid == 0 { "" } else { hit.about.comm(hit.hop) });
        self.scratch.extend(hit.about.bytes.to_le_bytes());
        self.text(hit.latency.map_or("", |(from, ..)| from.name()));
        // A missing time is -1.
        let signed = |ns: Option<u64>| ns.map_or(-1, |ns| i64::try_from(ns).unwrap_or(i64::MAX)).to_le_bytes();
        let took = hit.latency.map(|(_, took)| took);
        self.scratch.extend(signed(took.map(|took| took.ns)));
        self.scratch.extend(took.map_or(0, |took| took.half_width_ns).to_le_bytes());
        self.scratch.extend(signed(took.map(|took| took.bounds_ns.0)));
        self.scratch.extend(signed(took.map(|took| took.bounds_ns.1)));
        self.scratch.extend(signed(hit.waited_ns));
        self.scratch.extend(hit.again.to_le_bytes());
        self.text(hit.about.verdict.name());
        self.addresses(hit.about.addresses);
        self.put(mark, u16::from(hit.hop.id()), 0)
    }

    fn probe(&mut self, mark: &Mark, probed: &Probed) -> Result<(), ExportError> {
        let Probed { hit, probe, ends, comm } = probed;
        self.place(mark);
        self.text(&probe.name);
        self.text(&probe.place());
        self.text(&probe.text(hit));
        self.scratch.extend(hit.cpu.to_le_bytes());
        self.scratch.extend(hit.tgid.to_le_bytes());
        self.scratch.extend(hit.tid.to_le_bytes());
        self.text(comm);
        self.scratch.extend(hit.socket.to_le_bytes());
        self.scratch.extend(hit.seq.to_le_bytes());
        self.scratch.extend(hit.len.to_le_bytes());
        self.addresses(*ends);
        self.put(mark, PROBE, 0)
    }
}

impl MarkWriter for Ctf<'_> {
    fn mark(&mut self, mark: &Mark) -> Result<(), ExportError> {
        match &mark.what {
            MarkKind::Hit(hit) => self.hit(mark, hit),
            MarkKind::Ended(ended) => {
                self.place(mark);
                self.scratch.extend(ended.about.id.to_le_bytes());
                self.text(ended.name());
                self.text(ended.after.name());
                self.scratch.extend(ended.reason().unwrap_or(0).to_le_bytes());
                self.put(mark, ENDED, 0)
            }
            MarkKind::Loss { to_ns, loss } => {
                self.place(mark);
                self.scratch.extend(loss.count.to_le_bytes());
                self.scratch.extend(loss.cpu.to_le_bytes());
                self.scratch.extend(to_ns.to_le_bytes());
                self.text(&loss.cause.to_string());
                self.put(mark, LOSS, loss.count)
            }
            MarkKind::Probe(probed) => self.probe(mark, probed),
            MarkKind::Request(_) => Ok(()), // not asked for: a stream of CTF is in order
            MarkKind::LeftOut { hop, by, count, recorded } => {
                self.place(mark);
                self.text(hop.name());
                self.text(by.event());
                self.scratch.extend(count.to_le_bytes());
                self.scratch.extend(recorded.to_le_bytes());
                self.put(mark, LEFT_OUT, 0)
            }
            MarkKind::Sample { sample, ends } => {
                self.place(mark);
                self.scratch.extend(sample.socket.to_le_bytes());
                self.addresses(*ends);
                for (_, value) in super::tracks::loads(sample) {
                    self.scratch.extend(value.to_le_bytes());
                }
                self.put(mark, SAMPLE, 0)
            }
        }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<Written, ExportError> {
        let mut metadata = (self.create)("metadata")?;
        metadata.write_all(tsdl::metadata(self.uuid, &self.infos).as_bytes())?;
        metadata.close()?;
        for stream in std::mem::take(&mut self.streams).into_iter().flatten() {
            stream.close()?;
        }
        let late = ("events came too late for any stream".into(), self.left_out);
        let left_out = if self.left_out > 0 { vec![late] } else { Vec::new() };
        Ok(Written { rows: vec![("events", self.events)], left_out })
    }
}
