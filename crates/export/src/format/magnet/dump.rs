//! Tab-delimited text, one line per event, as by `magnet-parse`. The first columns are the fields of the 2001
//! record (socket, time, event, size). Later columns are CPU and process (2006), and this tool's flow and
//! range.

use crate::error::ExportError;
use crate::names::Names;
use crate::output::{Export, Output, Written};
use crate::timeline::TimeLine;
use magscope_core::custom::ProbeHit;
use magscope_core::node::NodeInfo;
use magscope_core::{Event, Flow};
use magscope_timeline::merged_reader::Piece;
use std::io::Write;

/// Names of the columns, in the first line.
const HEAD: &str =
    "#timestamp_ns\tsockid\tevent\tsize\tcpu\tpid\ttid\tcomm\thost\tproto\tlocal\tremote\textent\tdetail\n";

/// A number with its meaning; empty for none.
fn named(name: &str, number: u32) -> String {
    if number == 0 { String::new() } else { format!("{name}={number}") }
}

/// Writes the dump.
pub struct Dump {
    file: Option<Box<dyn Output>>,
    line: TimeLine,
    names: Names,
    new_flows: Vec<Flow>,
    buffer: Vec<u8>,
    lines: u64,
}

impl Dump {
    /// Into this file.
    pub fn new(file: Box<dyn Output>, infos: &[NodeInfo], line: TimeLine) -> Self {
        let (names, buffer) = (Names::new(infos), HEAD.as_bytes().to_vec());
        Dump { file: Some(file), line, names, new_flows: Vec::new(), buffer, lines: 0 }
    }

    fn event(&mut self, node: u16, event: &Event) {
        let flow = self.names.flow(node, event.flow);
        let (local, remote) = flow.map(|f| (f.local.to_string(), f.remote.to_string())).unwrap_or_default();
        // Tabs and line ends are delimiters, so control characters are replaced.
        let comm: String = self.names.comm(node, event.tid).replace(char::is_control, "?");
        let Event { socket, len, cpu, tgid, tid, extent, detail, .. } = event;
        let (ns, hop, host, proto) =
            (self.line.ns(event.time_ns), event.hop, self.names.host_of_flow(node, event.flow), event.proto);
        self.lines += 1;
        // Writing into a Vec cannot fail.
        let _ = writeln!(
            self.buffer,
            "{ns}\t{socket}\t{hop}\t{len}\t{cpu}\t{tgid}\t{tid}\t{comm}\t{host}\t{proto}\t{local}\t{remote}\t{}\t{}",
            named(extent.kind().name(), extent.number()),
            named(detail.kind().name(), detail.number()),
        );
    }

    /// A custom probe: a separate event whose detail is the first value.
    fn hit(&mut self, node: u16, hit: &ProbeHit) {
        let name = self.names.probe(node, hit.probe).map_or("?", |probe| probe.name.as_str());
        let name = name.replace(char::is_control, "?");
        let flow = self.names.flow(node, hit.flow);
        let (local, remote) = flow.map(|f| (f.local.to_string(), f.remote.to_string())).unwrap_or_default();
        let comm: String = self.names.comm(node, hit.tid).replace(char::is_control, "?");
        let ProbeHit { socket, len, cpu, tgid, tid, seq, .. } = hit;
        let (ns, host, proto) = (self.line.ns(hit.time_ns), self.names.host_of_flow(node, hit.flow), hit.proto);
        let value = hit.value(0).unwrap_or(0);
        self.lines += 1;
        let _ = writeln!(
            self.buffer,
            "{ns}\t{socket}\tprobe:{name}\t{len}\t{cpu}\t{tgid}\t{tid}\t{comm}\t{host}\t{proto}\t{local}\t{remote}\t{}\tvalue={value}",
            named("seq", *seq)
        );
    }

    fn pass_on(&mut self) -> Result<(), ExportError> {
        if let Some(file) = &mut self.file {
            file.write_all(&self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }
}

impl Export for Dump {
    fn piece(&mut self, piece: &Piece<'_>) -> Result<(), ExportError> {
        let Piece::Batch(node, batch) = piece else { return Ok(()) };
        self.names.learn(*node, batch, &mut self.new_flows);
        for event in &batch.events {
            self.event(*node, event);
        }
        for loss in &batch.losses {
            // As in MAGNeT: a separate event whose size is the number of lost records.
            let (ns, cpu, count) = (self.line.ns(loss.from_ns), loss.cpu, loss.count);
            let host = self.names.host(*node);
            self.lines += 1;
            let _ = writeln!(self.buffer, "{ns}\t0\tlost\t{count}\t{cpu}\t0\t0\t\t{host}\t\t\t\t\t");
        }
        for hit in &batch.hits {
            self.hit(*node, hit);
        }
        for count in &batch.counts {
            // Totals since the start of the capture, as counted by the kernel.
            let (ns, host) = (self.line.ns(count.time_ns), self.names.host(*node));
            for (what, many) in
                [("sampled", count.sampled), ("filtered", count.filtered.saturating_add(count.undecided))]
            {
                if many > 0 {
                    self.lines += 1;
                    let hop = count.hop;
                    let _ = writeln!(self.buffer, "{ns}\t0\t{what}:{hop}\t{many}\t0\t0\t0\t\t{host}\t\t\t\t\t");
                }
            }
        }
        self.pass_on()
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        if let Some(file) = &mut self.file {
            file.flush()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Written, ExportError> {
        self.pass_on()?;
        if let Some(file) = self.file.take() {
            file.close()?;
        }
        let left_out = self.names.left_out().into_iter().collect();
        Ok(Written { rows: vec![("lines", self.lines)], left_out })
    }
}
