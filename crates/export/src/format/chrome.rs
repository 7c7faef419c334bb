//! Chrome's trace event format (JSON): opens in `chrome://tracing`, ui.perfetto.dev and speedscope.
//!
//! A node is a process, a hop a thread. The time between two hops is a slice in the track of the earlier hop;
//! arrows connect a journey's slices. Times are doubles in microseconds without enough precision for UTC, so
//! they are relative to the first mark; `otherData` gives its time.

use super::marked::MarkWriter;
use super::tracks::{self, Slice};
use crate::error::ExportError;
use crate::mark::{Arrow, Mark, MarkKind};
use crate::output::{Output, Written};
use magscope_core::Hop;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// Threads after those of hops: losses, drops, then custom probes, then connections with requests.
const LOST: u32 = 100;
const PROBES: u32 = 101;
const REQUESTS: u32 = 1_000;
/// Maximum number of connections with a stored thread; beyond it all of them get new ones.
const MOST_CONNECTIONS: usize = 1 << 16;

/// Writes Chrome's JSON.
pub struct Chrome {
    file: Option<Box<dyn Output>>,
    first_ns: Option<i64>,
    named: BTreeSet<(u16, u32)>,
    /// Threads of connections. The exchanges of one follow each other.
    connections: BTreeMap<(u16, u64), u32>,
    /// Thread of the next connection.
    next_connection: u32,
    events: u64,
}

impl Chrome {
    /// Into this file.
    pub fn new(file: Box<dyn Output>) -> Self {
        Chrome {
            file: Some(file),
            first_ns: None,
            named: BTreeSet::new(),
            connections: BTreeMap::new(),
            next_connection: REQUESTS,
            events: 0,
        }
    }

    fn put(&mut self, event: &Value) -> Result<(), ExportError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(if self.events == 0 { b"{\"traceEvents\":[\n" } else { b",\n" })?;
        self.events += 1;
        Ok(file.write_all(event.to_string().as_bytes())?)
    }

    /// The thread of a connection.
    fn connection(&mut self, node: u16, connection: u64) -> u32 {
        let key = (node, connection);
        if let Some(thread) = self.connections.get(&key) {
            return *thread;
        }
        if self.connections.len() >= MOST_CONNECTIONS {
            self.connections.clear();
            self.named.retain(|(_, thread)| *thread < REQUESTS || *thread == u32::MAX);
        }
        let thread = self.next_connection;
        self.next_connection = thread.checked_add(1).filter(|next| *next < u32::MAX).unwrap_or(REQUESTS);
        self.connections.insert(key, thread);
        thread
    }

    /// Microseconds since the first mark.
    fn us(&mut self, ns: i64) -> f64 {
        let first = *self.first_ns.get_or_insert(ns);
        ns.wrapping_sub(first) as f64 / 1_000.0
    }

    fn name(&mut self, mark: &Mark, thread: u32, name: &str) -> Result<(), ExportError> {
        if self.named.insert((mark.node, u32::MAX)) {
            let args = json!({"name": mark.host.as_ref()});
            self.put(
                &json!({"ph": "M", "name": "process_name", "pid": mark.node + 1, "tid": 0, "args": args}),
            )?;
        }
        if self.named.insert((mark.node, thread)) {
            let (pid, args) = (mark.node + 1, json!({"name": name}));
            self.put(&json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": thread, "args": args}))?;
            let args = json!({"sort_index": thread});
            self.put(
                &json!({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": thread, "args": args}),
            )?;
        }
        Ok(())
    }
}

impl MarkWriter for Chrome {
    fn mark(&mut self, mark: &Mark) -> Result<(), ExportError> {
        let (us, pid) = (self.us(mark.ns), mark.node + 1);
        match &mark.what {
            MarkKind::Hit(hit) => {
                let thread = u32::from(hit.hop.order());
                self.name(mark, thread, hit.hop.name())?;
                let Slice { name, args, .. } = tracks::slice(mark, hit);
                let args: serde_json::Map<String, Value> =
                    args.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
                self.put(&json!({
                    "ph": "X", "name": name, "cat": hit.about.proto.to_string(), "ts": us, "dur": 0.001,
                    "pid": pid, "tid": thread, "args": args,
                }))?;
                // An arrow starts, continues and ends at the slices of one journey.
                let phase = match hit.arrow {
                    None | Some(Arrow::Only) => return Ok(()),
                    Some(Arrow::First) => "s",
                    Some(Arrow::Last) => "f",
                    Some(Arrow::Inner) => "t",
                };
                let mut flow = json!({
                    "ph": phase, "name": "journey", "cat": "journey", "id": hit.about.id.to_string(), "ts": us,
                    "pid": pid, "tid": thread,
                });
                if phase == "f" {
                    flow["bp"] = json!("e");
                }
                self.put(&flow)
            }
            MarkKind::Ended(ended) => {
                self.name(mark, LOST, "lost and dropped")?;
                let (journey, after) = (ended.about.id.to_string(), ended.after.name());
                let args = json!({"journey": journey, "after": after, "reason": ended.reason()});
                self.put(&json!({"ph": "i", "s": "t", "name": ended.name(), "ts": us, "pid": pid, "tid": LOST, "args": args}))
            }
            MarkKind::Loss { to_ns, loss } => {
                self.name(mark, LOST, "lost and dropped")?;
                let dur = to_ns.wrapping_sub(mark.ns) as f64 / 1_000.0;
                let args = json!({"records": loss.count, "cause": loss.cause.to_string()});
                self.put(&json!({
                    "ph": "X", "name": "records lost", "ts": us, "dur": dur, "pid": pid, "tid": LOST, "args": args,
                }))
            }
            MarkKind::Probe(probed) => {
                let thread = PROBES + u32::from(probed.hit.probe);
                self.name(mark, thread, &format!("probe {}", probed.probe.name))?;
                let Slice { name, args } = tracks::probed(mark, probed);
                let args: serde_json::Map<String, Value> =
                    args.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
                self.put(&json!({
                    "ph": "i", "s": "t", "name": name, "cat": "probe", "ts": us, "pid": pid, "tid": thread, "args": args,
                }))
            }
            MarkKind::Request(span) => {
                let thread = self.connection(mark.node, span.connection);
                self.name(mark, thread, &span.label())?;
                let Slice { name, args } = tracks::request(span);
                let args: serde_json::Map<String, Value> =
                    args.into_iter().map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
                let dur = span.end_ns.wrapping_sub(mark.ns) as f64 / 1_000.0;
                self.put(&json!({
                    "ph": "X", "name": name, "cat": "request", "ts": us, "dur": dur, "pid": pid, "tid": thread,
                    "args": args,
                }))
            }
            MarkKind::LeftOut { hop, by, count, recorded } => {
                let args = json!({"left out": count, "kept": recorded});
                self.put(&json!({"ph": "C", "name": tracks::left_out(*hop, *by), "ts": us, "pid": pid, "args": args}))
            }
            MarkKind::Sample { sample, ends } => {
                self.name(mark, u32::from(Hop::TcpState.order()), Hop::TcpState.name())?;
                let of = tracks::ends(sample.socket, *ends);
                for (what, value) in tracks::loads(sample) {
                    let name = format!("{what} {of}");
                    self.put(
                        &json!({"ph": "C", "name": name, "ts": us, "pid": pid, "args": {"value": value}}),
                    )?;
                }
                Ok(())
            }
        }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<Written, ExportError> {
        if let Some(mut file) = self.file.take() {
            if self.events == 0 {
                file.write_all(b"{\"traceEvents\":[\n")?;
            }
            let other = json!({"clock": "utc", "first_ns": self.first_ns.unwrap_or(0).to_string()});
            write!(file, "\n],\"displayTimeUnit\":\"ns\",\"otherData\":{other}}}\n")?;
            file.close()?;
        }
        Ok(Written { rows: vec![("trace events", self.events)], left_out: Vec::new() })
    }
}
