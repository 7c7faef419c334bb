//! Writes marks as lines.

use super::super::marked::MarkWriter;
use super::counted::{EventCount, hops_of_lines};
use super::field::{addresses, digits, number, signed, text};
use super::words::{Dialect, Words};
use crate::calendar;
use crate::error::ExportError;
use crate::mark::{About, Ended, Hit, LeftOutBy, Mark, MarkKind, Probed, RequestSpan};
use crate::names::hosts;
use crate::output::{Output, Written};
use magscope_core::journey::Resend;
use magscope_core::node::{NodeInfo, Service};
use magscope_core::{Batch, Hop, TcpSample};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

/// Size of buffered output, bytes.
const CHUNK: usize = 64 << 10;

/// Before the hop in the name of an event of a forwarder, which is no event of an end.
pub const FORWARDER: &str = "forward.";

/// The event of a line that has what a host captured.
pub(super) const CAPTURE: &str = "capture.hops";

/// Writes ULM or BP.
pub struct NetLogger {
    file: Option<Box<dyn Output>>,
    dialect: Dialect,
    words: &'static Words,
    chunk: Vec<u8>,
    /// The second of the text in `date`.
    second: Option<i64>,
    date: Vec<u8>,
    lines: u64,
    /// Captures that have no line yet, each with the name of its host.
    captures: Vec<(Arc<str>, NodeInfo)>,
    counted: EventCount,
}

impl NetLogger {
    /// Into this file, of these nodes.
    pub fn new(file: Box<dyn Output>, dialect: Dialect, infos: &[NodeInfo]) -> Self {
        let words = Words::of(dialect);
        NetLogger {
            file: Some(file),
            dialect,
            words,
            chunk: Vec::with_capacity(2 * CHUNK),
            second: None,
            date: Vec::new(),
            lines: 0,
            captures: hosts(infos).into_iter().zip(infos.iter().cloned()).collect(),
            counted: EventCount::default(),
        }
    }

    /// The lines of the captures, at the time of the first mark.
    fn captures(&mut self, first: &Mark) -> Result<(), ExportError> {
        for (host, info) in std::mem::take(&mut self.captures) {
            let mark = Mark { host, place: Arc::default(), ..first.clone() };
            self.begin(&mark, "Usage", CAPTURE);
            let hops = |is: fn(&Service) -> bool| {
                let has = |hop: &Hop| info.coverage.of(*hop).is_some_and(is);
                hops_of_lines().filter(has).map(Hop::name).collect::<Vec<_>>().join(",")
            };
            let served = hops(|service| matches!(service, Service::Served { .. }));
            let missing = hops(|service| matches!(service, Service::Missing { .. }));
            let fields =
                [(self.words.hops, &served), (self.words.missing, &missing), (self.words.kernel, &info.kernel)];
            for (name, value) in fields.into_iter().filter(|(_, value)| !value.is_empty()) {
                text(&mut self.chunk, name, value);
            }
            self.end(&mark)?;
        }
        Ok(())
    }

    fn begin(&mut self, mark: &Mark, level: &str, event: &str) {
        let second = mark.ns.div_euclid(1_000_000_000);
        if self.second != Some(second) {
            self.second = Some(second);
            self.date.clear();
            let (year, month, day) = calendar::civil(second.div_euclid(86_400));
            let (h, m, s) = calendar::clock(second.rem_euclid(86_400));
            // Writing into a Vec cannot fail.
            let _ = match self.dialect {
                Dialect::Ulm => {
                    write!(self.date, "DATE={year:04}{month:02}{day:02}{h:02}{m:02}{s:02}.")
                }
                Dialect::Bp => write!(self.date, "ts={year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}."),
            };
        }
        let line = &mut self.chunk;
        line.extend_from_slice(&self.date);
        let fraction = mark.ns.rem_euclid(1_000_000_000) as u32;
        // Exactly six digits: old parsers read the digits as microseconds.
        digits(line, fraction / 1_000, 6);
        match self.dialect {
            Dialect::Ulm => {
                text(line, b"HOST", &mark.host);
                line.extend_from_slice(b" PROG=magnet-scope LVL=");
                line.extend_from_slice(level.as_bytes());
            }
            Dialect::Bp => line.push(b'Z'),
        }
        text(line, self.words.event, event);
        if self.dialect == Dialect::Bp {
            line.extend_from_slice(b" level=");
            line.extend_from_slice(match level {
                "Usage" => b"Info",
                "Warning" => b"Warn",
                _ => b"Error",
            });
            text(line, b"host", &mark.host);
        }
    }

    fn end(&mut self, mark: &Mark) -> Result<(), ExportError> {
        let line = &mut self.chunk;
        signed(line, self.words.ns, mark.ns);
        if !mark.place.is_empty() {
            text(line, self.words.place, &mark.place);
        }
        line.push(b'\n');
        self.lines += 1;
        if line.len() >= CHUNK { self.pass_on() } else { Ok(()) }
    }

    fn pass_on(&mut self) -> Result<(), ExportError> {
        if let Some(file) = &mut self.file {
            file.write_all(&self.chunk)?;
        }
        self.chunk.clear();
        Ok(())
    }

    fn about(&mut self, about: &Arc<About>) {
        let words = self.words;
        let written = about.written.get_or_init(|| {
            let mut line = Vec::with_capacity(160);
            number(&mut line, words.id, about.id);
            addresses(&mut line, words, about.addresses);
            text(&mut line, words.proto, &about.proto.to_string());
            number(&mut line, words.volume, about.bytes);
            number(&mut line, words.seq, u64::from(about.seq));
            if about.ip_id != 0 {
                number(&mut line, words.ip_id, u64::from(about.ip_id));
            }
            text(&mut line, words.status, about.verdict.name());
            line
        });
        self.chunk.extend_from_slice(written);
    }

    fn hit(&mut self, mark: &Mark, hit: &Hit) -> Result<(), ExportError> {
        if hit.forwarder_netns == 0 {
            self.begin(mark, "Usage", hit.hop.name());
        } else {
            self.begin(mark, "Usage", &format!("{FORWARDER}{}", hit.hop));
        }
        self.about(&hit.about);
        let (line, words) = (&mut self.chunk, self.words);
        number(line, words.cpu, u64::from(hit.cpu));
        if let Some((from, took)) = hit.latency {
            number(line, words.latency, took.ns);
            text(line, words.from, from.name());
            if took.half_width_ns > 0 {
                number(line, words.error, took.half_width_ns);
                number(line, words.lower, took.bounds_ns.0);
                number(line, words.upper, took.bounds_ns.1);
            }
        }
        if hit.tid != 0 {
            number(line, words.process, u64::from(hit.tgid));
            number(line, words.thread, u64::from(hit.tid));
            let comm = hit.about.comm(hit.hop);
            if !comm.is_empty() {
                text(line, words.comm, comm);
            }
        }
        let netns = if hit.forwarder_netns != 0 {
            hit.forwarder_netns
        } else if hit.hop.direction() == magscope_core::Direction::Rx {
            hit.about.netns.1
        } else {
            hit.about.netns.0
        };
        if netns != 0 {
            number(line, words.netns, u64::from(netns));
        }
        if hit.hop == Hop::SockReady && hit.about.poller != 0 {
            number(line, words.poller, u64::from(hit.about.poller));
        }
        if hit.again > 0 {
            number(line, words.again, u64::from(hit.again));
        }
        if hit.ambiguous {
            number(line, words.ambiguous, 1);
        }
        if hit.resend != Resend::Unknown {
            text(line, words.resend, hit.resend.name());
        }
        if let Some(ns) = hit.waited_ns {
            number(line, words.waited, ns);
        }
        if hit.at_return {
            number(line, words.at_return, 1);
        }
        if let (true, Some(took)) = (hit.ends.1, hit.about.total) {
            number(line, words.total, took.ns);
            if took.half_width_ns > 0 {
                number(line, words.total_error, took.half_width_ns);
                number(line, words.total_lower, took.bounds_ns.0);
                number(line, words.total_upper, took.bounds_ns.1);
            }
        }
        self.end(mark)
    }

    fn ended(&mut self, mark: &Mark, ended: &Ended) -> Result<(), ExportError> {
        let event = if ended.reason.is_some() { Hop::SkbDrop.name() } else { "journey.lost" };
        self.begin(mark, if ended.is_end { "Error" } else { "Warning" }, event);
        self.about(&ended.about);
        let (line, words) = (&mut self.chunk, self.words);
        text(line, words.from, ended.after.name());
        if ended.again > 0 {
            number(line, words.again, u64::from(ended.again));
        }
        if let Some(reason) = &ended.reason {
            number(line, words.reason, u64::from(reason.number));
            if !reason.name.is_empty() {
                text(line, words.message, &reason.name);
            }
        }
        if !ended.interface.is_empty() {
            text(line, words.interface, &ended.interface);
        }
        self.end(mark)
    }

    fn sample(
        &mut self,
        mark: &Mark,
        sample: &TcpSample,
        ends: Option<(SocketAddr, SocketAddr)>,
    ) -> Result<(), ExportError> {
        let loads = [
            ("tcp.cwnd", sample.cwnd),
            ("tcp.ssthresh", sample.ssthresh),
            ("tcp.srtt_us", sample.srtt_us),
            ("tcp.packets_out", sample.packets_out),
            ("tcp.send_queue", sample.send_queue_bytes),
            ("tcp.recv_queue", sample.recv_queue_bytes),
        ];
        for (event, value) in loads {
            self.begin(mark, "Usage", event);
            let (line, words) = (&mut self.chunk, self.words);
            // A loadline is drawn per ID, here the socket.
            number(line, words.id, sample.socket);
            number(line, words.value, u64::from(value));
            addresses(line, words, ends);
            self.end(mark)?;
        }
        Ok(())
    }
}

impl NetLogger {
    fn probe(&mut self, mark: &Mark, probed: &Probed) -> Result<(), ExportError> {
        let Probed { hit, probe, ends, comm } = probed;
        self.begin(mark, "Usage", &format!("probe.{}", probe.name));
        let (line, words) = (&mut self.chunk, self.words);
        // The journey is unknown; the ID is that of the socket.
        number(line, words.id, hit.socket);
        if let Some(value) = hit.value(0) {
            signed(line, words.value, value);
        }
        text(line, words.message, &probe.text(hit));
        addresses(line, words, *ends);
        number(line, words.cpu, u64::from(hit.cpu));
        if hit.len > 0 {
            number(line, words.volume, u64::from(hit.len));
        }
        if hit.tid != 0 {
            number(line, words.process, u64::from(hit.tgid));
            number(line, words.thread, u64::from(hit.tid));
            if !comm.is_empty() {
                text(line, words.comm, comm);
            }
        }
        self.end(mark)
    }
}

impl NetLogger {
    /// A line at the begin of a request or of its answer, and one at its end, with one ID for all four.
    fn request(&mut self, mark: &Mark, span: &RequestSpan) -> Result<(), ExportError> {
        let took_ns = u64::try_from(span.end_ns.saturating_sub(mark.ns)).unwrap_or(0);
        let [begin, end] = span.side.events();
        for (event, ns, latency) in [(begin, mark.ns, None), (end, span.end_ns, Some(took_ns))] {
            let mark = Mark { ns, ..mark.clone() };
            self.begin(&mark, "Usage", event);
            let (line, words) = (&mut self.chunk, self.words);
            text(line, words.id, &span.id());
            addresses(line, words, span.addresses);
            text(line, words.proto, &span.proto.to_string());
            number(line, words.volume, if latency.is_none() { span.bytes.0 } else { span.bytes.1 });
            if let Some(ns) = latency {
                number(line, words.latency, ns);
                text(line, words.from, begin);
            }
            if span.tid != 0 {
                number(line, words.process, u64::from(span.tgid));
                number(line, words.thread, u64::from(span.tid));
                if !span.comm.is_empty() {
                    text(line, words.comm, &span.comm);
                }
            }
            self.end(&mark)?;
        }
        Ok(())
    }
}

impl MarkWriter for NetLogger {
    fn filtered(&mut self) {
        self.counted.filtered();
    }

    fn batch(&mut self, batch: &Batch) {
        self.counted.batch(batch);
    }

    fn mark(&mut self, mark: &Mark) -> Result<(), ExportError> {
        self.captures(mark)?;
        self.counted.mark(mark);
        match &mark.what {
            MarkKind::Hit(hit) => self.hit(mark, hit),
            MarkKind::Ended(ended) => self.ended(mark, ended),
            MarkKind::Loss { to_ns, loss } => {
                self.begin(mark, "Warning", "events.lost");
                number(&mut self.chunk, self.words.count, loss.count);
                if loss.cpu != u16::MAX {
                    number(&mut self.chunk, self.words.cpu, u64::from(loss.cpu));
                }
                number(&mut self.chunk, self.words.latency, to_ns.saturating_sub(mark.ns).max(0) as u64);
                text(&mut self.chunk, self.words.message, &loss.cause.to_string());
                self.end(mark)
            }
            MarkKind::Sample { sample, ends } => self.sample(mark, sample, *ends),
            MarkKind::Probe(probed) => self.probe(mark, probed),
            MarkKind::Request(span) => self.request(mark, span),
            MarkKind::LeftOut { hop, by, count, recorded } => {
                // Filtered events are unwanted; sampled-out events are missing.
                let level = if *by == LeftOutBy::Sampler { "Warning" } else { "Usage" };
                self.begin(mark, level, by.event());
                number(&mut self.chunk, self.words.count, *count);
                number(&mut self.chunk, self.words.recorded, *recorded);
                text(&mut self.chunk, self.words.hop, hop.name());
                self.end(mark)
            }
        }
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        self.pass_on()?;
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
        Ok(Written { rows: vec![("lines", self.lines)], left_out: self.counted.left_out() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::parse;
    use super::*;
    use crate::mark::Took;
    use magscope_core::{Proto, Verdict};
    use proptest::prelude::*;
    use std::sync::OnceLock;

    /// A value after output: `?` for characters outside the grammar.
    fn carried(value: &str) -> String {
        let mut out: String = value
            .chars()
            .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { '?' } else { c })
            .collect();
        if out.ends_with('\\') {
            out.pop();
            out.push('?');
        }
        out
    }

    fn written(dialect: Dialect, comm: &str, host: &str, ns: i64) -> String {
        let mut writer = NetLogger::new(Box::new(Vec::new()), dialect, &[]);
        let about = About {
            id: u64::MAX,
            proto: Proto::TCP,
            addresses: Some((
                "[fd00::1]:80".parse().expect("an address"),
                "10.0.0.1:443".parse().expect("an address"),
            )),
            bytes: 7,
            seq: u32::MAX,
            ip_id: 3,
            verdict: Verdict::Complete,
            total: Some(Took { ns: 5, half_width_ns: 2, bounds_ns: (3, 6) }),
            sender: comm.into(),
            reader: comm.into(),
            poller: 0,
            netns: (1, 2),
            copies_left_out: 0,
            waited_for_window: false,
            written: OnceLock::new(),
        };
        let hit = Hit {
            about: Arc::new(about),
            hop: Hop::TcpSend,
            cpu: 3,
            tgid: 4,
            tid: 5,
            latency: Some((Hop::AppSend, Took { ns: 9, half_width_ns: 2, bounds_ns: (8, 11) })),
            at_return: true,
            ambiguous: true,
            again: 2,
            resend: Resend::TailLossProbe,
            waited_ns: Some(8),
            is_after: false,
            ends: (true, true),
            forwarder_netns: 0,
            arrow: None,
        };
        let mark = Mark { ns, node: 0, host: host.into(), place: comm.into(), what: MarkKind::Hit(hit) };
        writer.mark(&mark).expect("memory takes all");
        String::from_utf8(writer.chunk).expect("text")
    }

    #[test]
    fn a_line_looks_as_the_grammar_says() {
        assert_eq!(
            written(Dialect::Ulm, "curl", "hostA", 1_767_323_045_123_456_789),
            "DATE=20260102030405.123456 HOST=hostA PROG=magnet-scope LVL=Usage NL.EVNT=tcp.send ID=18446744073709551615 \
             SRC.IP=\"fd00::1\" SRC.PORT=80 DST.IP=10.0.0.1 DST.PORT=443 PROT=tcp VOL=7 MAG.SEQ=4294967295 MAG.IPID=3 \
             STAT=complete MAG.CPU=3 MAG.LAT=9 MAG.FROM=app.send MAG.ERR=2 MAG.LOW=8 MAG.HIGH=11 PS=4 MAG.TID=5 CMD=curl MAG.NETN=1 MAG.TRY=2 MAG.AMB=1 MAG.WHY=\"tail loss probe\" MAG.WAIT=8 \
             MAG.RET=1 MAG.ALL=5 MAG.AERR=2 MAG.ALOW=3 MAG.AHI=6 MAG.NS=1767323045123456789 MAG.NODE=curl\n"
        );
    }

    proptest! {
        #[test]
        fn whatever_a_process_calls_itself_comes_back(
            comm in "\\PC{0,20}|[\\x00-\\x20\"\\\\= ]{0,12}|.{0,15}",
            host in ".{1,20}",
            ns in 0_i64..4_000_000_000_000_000_000,
        ) {
            for dialect in [Dialect::Ulm, Dialect::Bp] {
                let line = written(dialect, &comm, &host, ns);
                prop_assert_eq!(line.matches('\n').count(), 1);
                let read = parse(line.trim_end_matches('\n')).map_err(|e| TestCaseError::fail(format!("{e}: {line}")))?;
                prop_assert_eq!(read.ns, ns);
                prop_assert_eq!(read.event.as_ref(), "tcp.send");
                prop_assert_eq!(read.get(&["CMD", "comm"]).unwrap_or_default(), carried(&comm));
                prop_assert_eq!(read.get(&["HOST", "host"]).unwrap_or_default(), carried(&host));
                // Without the nine digits, the six give the same microsecond.
                let without: String = line.replace(" MAG.NS=", " X.NS=").replace(" mag.ns=", " x.ns=");
                prop_assert_eq!(parse(&without).map(|read| read.ns), Ok(ns / 1_000 * 1_000));
            }
        }

        #[test]
        fn no_text_is_too_much_for_the_reader(text in ".{0,200}") {
            let _ = parse(&text);
        }
    }
}
