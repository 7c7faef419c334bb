//! Which captured events and bytes a log has lines of: a line belongs to a journey, and what no journey has is
//! left out and counted.

use crate::format::importable::Omission;
use crate::mark::{About, Mark, MarkKind};
use magscope_core::hop::Role;
use magscope_core::{Batch, Hop, Proto, Verdict};
use magscope_report::stats::HopRate;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Bytes that a line has too many, as the user reads it after a number.
const NOT_READ: &str = "bytes did not pass and are in lines: datagrams were read in part, or had several receivers and \
                        no identification, or stand behind later ones";

/// Events and bytes without a line if a filter chooses journeys. Those of journeys left out have no number of their
/// own.
const EVENTS_FILTERED: &str =
    "events belong to a journey that --where leaves out, to no journey or to a forwarder, and no line has them";
const BYTES_FILTERED: &str =
    "bytes belong to a journey that --where leaves out, to no journey or to a forwarder, and no line has them";

/// Maximum number of lines of one instant that are compared.
const MOST: usize = 1 << 16;

/// Hops that a log can have lines of.
pub fn hops_of_lines() -> impl Iterator<Item = Hop> {
    Hop::ALL.iter().copied().filter(|hop| has_lines(*hop))
}

/// Whether a log can have lines of this hop: its events are in journeys, or they are samples.
pub fn has_lines(hop: Hop) -> bool {
    !matches!(hop.role(), Role::Overflow | Role::End | Role::Point | Role::Task)
}

/// One event of an instant: hop, node, CPU, thread or drop reason.
type Key = (Hop, u16, u16, u32);

/// The part of an event that a line has.
struct Piece {
    event: Key,
    proto: Proto,
    /// First byte: a sequence number; 0 for datagrams.
    seq: u32,
    bytes: u64,
    /// Identification of a datagram; 0: none.
    ip_id: u16,
}

/// What captured events of a hop, and then its lines, differ by.
type Difference = fn(&HopRate, &HopRate) -> u64;

/// Counts events and bytes, and those of them that have a line.
#[derive(Default)]
pub struct EventCount {
    captured: BTreeMap<Hop, HopRate>,
    in_lines: BTreeMap<Hop, HopRate>,
    /// Time of the last mark, and its lines: one event has a line for each of its journeys.
    instant: (i64, Vec<Piece>),
    copies_left_out: u64,
    left_out_verdicts: u64,
    receive_windows: u64,
    /// A filter chooses journeys.
    is_filtered: bool,
}

impl EventCount {
    /// A filter chooses journeys: the lines of the others are absent too.
    pub fn filtered(&mut self) {
        self.is_filtered = true;
    }

    /// Takes what was captured.
    pub fn batch(&mut self, batch: &Batch) {
        for event in &batch.events {
            self.captured.entry(event.hop).or_default().count(u64::from(event.len));
        }
    }

    /// Takes a mark that becomes a line.
    pub fn mark(&mut self, mark: &Mark) {
        let (key, about) = match &mark.what {
            // No line of an end: an import has none of them.
            MarkKind::Hit(hit) if hit.forwarder_netns != 0 => return,
            MarkKind::Hit(hit) => {
                if hit.ends.0 {
                    self.journey(&hit.about);
                }
                ((hit.hop, mark.node, hit.cpu, hit.tid), &hit.about)
            }
            MarkKind::Ended(ended) => match ended.reason() {
                Some(reason) => ((Hop::SkbDrop, mark.node, 0, reason), &ended.about),
                None => return,
            },
            _ => return,
        };
        if self.instant.0 != mark.ns || self.instant.1.len() >= MOST {
            self.settle();
            self.instant.0 = mark.ns;
        }
        let About { proto, seq, bytes, ip_id, .. } = **about;
        self.instant.1.push(Piece { event: key, proto, seq, bytes, ip_id });
    }

    fn journey(&mut self, about: &About) {
        self.copies_left_out += u64::from(about.copies_left_out);
        let is_left_out = matches!(
            about.verdict,
            Verdict::Filtered { .. } | Verdict::Evicted | Verdict::Discarded { .. } | Verdict::Delivered { .. }
        );
        self.left_out_verdicts += u64::from(is_left_out);
        self.receive_windows += u64::from(about.waited_for_window);
    }

    /// Counts the events of the last instant, and the bytes that their lines have together.
    fn settle(&mut self) {
        let lines = &mut self.instant.1;
        lines.sort_unstable_by_key(|line| line.event);
        for event in lines.chunk_by_mut(|a, b| a.event == b.event) {
            // Sequence numbers wrap: those of one event are close to each other.
            let base = event[0].seq.wrapping_sub(1 << 31);
            event.sort_unstable_by_key(|line| (line.seq.wrapping_sub(base), line.ip_id));
            let (mut bytes, mut end, mut before) = (0, 0_u64, 0);
            for line in &*event {
                let start = u64::from(line.seq.wrapping_sub(base));
                let overlap = if line.proto == Proto::TCP {
                    end.saturating_sub(start).min(line.bytes)
                } else if line.ip_id != 0 && line.ip_id == before {
                    // One datagram with several receivers has a line in the journey of each.
                    line.bytes
                } else {
                    // A datagram has no position in a stream.
                    0
                };
                bytes += line.bytes - overlap;
                end = end.max(start.saturating_add(line.bytes));
                before = line.ip_id;
            }
            self.in_lines.entry(event[0].event.0).or_default().count(bytes);
        }
        lines.clear();
    }

    /// Events and bytes without a line, and bytes of lines without an event: how many, and in words at which
    /// hops. Of journeys, copies without a line, and verdicts that no line explains.
    pub fn left_out(&mut self) -> Vec<(Cow<'static, str>, u64)> {
        self.settle();
        // At a hop whose events have no bytes, a line has those of its journey.
        let surplus =
            |was: &HopRate, is: &HopRate| is.bytes.saturating_sub(was.bytes) * u64::from(was.bytes > 0);
        let [events, bytes] = if self.is_filtered {
            [EVENTS_FILTERED, BYTES_FILTERED]
        } else {
            [Omission::EventsOfNoJourney, Omission::BytesOfNoJourney].map(Omission::words)
        };
        let differences: [(&str, Difference); 3] = [
            (events, |was, is| was.events.saturating_sub(is.events)),
            (bytes, |was, is| was.bytes.saturating_sub(is.bytes)),
            (NOT_READ, surplus),
        ];
        let named = differences.map(|(words, of)| {
            let left = self
                .captured
                .iter()
                .map(|(hop, was)| (*hop, of(was, &self.in_lines.get(hop).copied().unwrap_or_default())));
            let left: Vec<(Hop, u64)> = left.filter(|(_, n)| *n > 0).collect();
            let hops: Vec<String> = left.iter().map(|(hop, n)| format!("{hop} {n}")).collect();
            (format!("{words}: {}", hops.join(", ")).into(), left.iter().map(|(_, n)| n).sum())
        });
        let of_journeys = [
            (Omission::CopiesLeftOut.words().into(), self.copies_left_out),
            (Omission::LeftOutVerdicts.words().into(), self.left_out_verdicts),
            (Omission::ReceiveWindows.words().into(), self.receive_windows),
        ];
        named.into_iter().chain(of_journeys).filter(|(_, n)| *n > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::marked::Marked;
    use crate::format::netlogger::{Dialect, NetLogger};
    use crate::mark::Marks;
    use crate::{Chosen, Export, TimeLine};
    use magscope_core::node::NodeInfo;
    use magscope_core::{Event, Filter};
    use magscope_timeline::merged_reader;

    /// The surplus bytes of lines of one event of 300 bytes, for the journeys of these identifications. Lines of other
    /// instants are between the parts.
    fn surplus(captured_bytes: u32, parts: &[&[u16]]) -> Vec<u64> {
        let mut counted = EventCount::default();
        let event = Event { proto: Proto::UDP, len: captured_bytes, ..Event::at(Hop::IpOut, 1) };
        counted.batch(&Batch { events: vec![event], ..Batch::default() });
        for ip_ids in parts {
            counted.instant.1.extend(ip_ids.iter().map(|ip_id| Piece {
                event: (Hop::IpOut, 0, 0, 0),
                proto: Proto::UDP,
                seq: 0,
                bytes: 300,
                ip_id: *ip_id,
            }));
            counted.settle();
        }
        let left_out = counted.left_out();
        left_out.iter().filter(|(words, _)| words.starts_with(NOT_READ)).map(|(_, n)| *n).collect()
    }

    #[test]
    fn a_datagram_with_several_receivers_passed_once() {
        assert!(surplus(300, &[&[7, 7, 7]]).is_empty());
        assert!(surplus(600, &[&[7, 8, 8, 7]]).is_empty(), "a super-packet of two datagrams");
        assert_eq!(surplus(300, &[&[0, 0]]), [300], "nothing shows that both are one datagram");
        assert_eq!(surplus(100, &[&[7]]), [200], "it was read in part");
    }

    #[test]
    fn a_line_behind_later_ones_has_its_bytes_once_more() {
        assert_eq!(surplus(300, &[&[7], &[7]]), [300]);
        assert!(NOT_READ.ends_with(", or stand behind later ones"), "{NOT_READ}");
    }

    #[test]
    fn with_a_filter_events_may_be_of_a_journey_that_it_leaves_out() {
        let left_out = |filter: Option<Filter>| {
            let chosen = Chosen { filter, ..Chosen::default() };
            let marks = Marks::new(&[NodeInfo::default()], TimeLine::default(), chosen);
            let mut export = Marked::new(marks, NetLogger::new(Box::new(Vec::new()), Dialect::Ulm, &[]));
            let batch = Batch { events: vec![Event::at(Hop::IpOut, 1)], ..Batch::default() };
            export.piece(&merged_reader::Piece::Batch(0, &batch)).expect("memory takes all");
            let written = export.finish().expect("memory takes all");
            written.left_out.into_iter().next().expect("the event has no line")
        };
        let (words, n) = left_out(None);
        assert!(n == 1 && words.starts_with(Omission::EventsOfNoJourney.words()), "{n} {words}");
        let (words, n) = left_out(Some("total > 1ms".parse().expect("a filter")));
        assert!(
            n == 1 && words.contains("that --where leaves out") && words.ends_with(": ip.out 1"),
            "{n} {words}"
        );
    }
}
