//! A session as a source of batches.

use super::cursor::{Cursor, Unread, hidden, read_changes, skipped};
use super::damage::Damage;
use super::scan::{Gap, Piece};
use super::segment::{SegmentMap, rows};
use super::session::Inner;
use crate::frame::Reader;
use crate::layout::Table;
use crate::table::Announced;
use magscope_core::changes::NewChanges;
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source, SourceError};
use magscope_core::workload::Names;
use magscope_core::{
    Batch, Change, Flow, HopCount, Loss, LossCause, PayloadHead, ProbeHit, Synthesis, Task, TcpSample,
};
use std::sync::Arc;
use std::time::Duration;

/// Source of a session's batches in recorded order.
///
/// Each batch of events includes the flows and tasks it needs, and the samples and losses up to its latest
/// time, its watermark. A replay from a later time begins with the changes before that time. Events older than the
/// watermark were late when recorded and count as late again. Damage costs a batch and appears as a loss at its time.
/// The last batch of a closed session has no event, and the end of the recorded time as its watermark. The source never
/// waits and never fails.
pub struct Replay {
    inner: Arc<Inner>,
    from_ns: u64,
    to_ns: u64,
    /// The current segment and its next piece.
    segment: usize,
    piece: usize,
    open: Option<Open>,
    new_changes: NewChanges,
    watermark_ns: u64,
    damage: Vec<Damage>,
}

/// Open files of the current segment.
struct Open {
    events: Option<Reader>,
    flows: Cursor<Announced<Flow>>,
    tasks: Cursor<Announced<Task>>,
    tcp: Cursor<TcpSample>,
    hits: Cursor<ProbeHit>,
    heads: Cursor<PayloadHead>,
    losses: Cursor<Loss>,
    clock: Cursor<ClockSample>,
    changes: Cursor<Change>,
    counts: Cursor<HopCount>,
    synthesis: Cursor<Synthesis>,
    names: Cursor<Names>,
}

impl Open {
    fn new(segment: &SegmentMap, damage: &mut Vec<Damage>) -> Self {
        let events = segment.table(Table::Events);
        let failed = |e| Damage::of(&events.name, format!("{} cannot be opened any more: {e}", events.name));
        let has_batches = events.entries().next().is_some();
        Open {
            events: if has_batches {
                events.reader(Table::Events).map_err(|e| damage.push(failed(e))).ok()
            } else {
                None
            },
            flows: Cursor::new(segment.table(Table::Flows), damage),
            tasks: Cursor::new(segment.table(Table::Tasks), damage),
            tcp: Cursor::new(segment.table(Table::Tcp), damage),
            hits: Cursor::new(segment.table(Table::Hits), damage),
            heads: Cursor::new(segment.table(Table::Heads), damage),
            losses: Cursor::new(segment.table(Table::Losses), damage),
            clock: Cursor::new(segment.table(Table::Clock), damage),
            changes: Cursor::new(segment.table(Table::Changes), damage),
            counts: Cursor::new(segment.table(Table::Counts), damage),
            synthesis: Cursor::new(segment.table(Table::Synthesis), damage),
            names: Cursor::new(segment.table(Table::Names), damage),
        }
    }
}

impl Replay {
    pub(super) fn new(inner: Arc<Inner>, from_ns: Option<u64>, to_ns: Option<u64>) -> Self {
        let (from_ns, to_ns) = (from_ns.unwrap_or(0), to_ns.unwrap_or(u64::MAX));
        Replay {
            inner,
            from_ns,
            to_ns,
            segment: 0,
            piece: 0,
            open: None,
            new_changes: NewChanges::default(),
            watermark_ns: 0,
            damage: Vec::new(),
        }
    }

    /// Damage found while reading, in addition to [`crate::Session::damage`].
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    fn wanted(&self, min_ns: u64, max_ns: u64) -> bool {
        max_ns >= self.from_ns && min_ns <= self.to_ns
    }

    /// Reads until a batch is available.
    fn advance(&mut self, batch: &mut Batch) -> Progress {
        let inner = self.inner.clone();
        while let Some(segment) = inner.segments.get(self.segment) {
            if self.open.is_none() {
                let sums = segment.span_ns(Table::Synthesis).is_some_and(|(min, max)| self.wanted(min, max));
                if !sums && segment.range_ns().is_some_and(|(min, max)| !self.wanted(min, max)) {
                    self.earlier_changes(segment, batch);
                    self.segment += 1;
                    continue;
                }
                self.open = Some(Open::new(segment, &mut self.damage));
                self.hidden(segment, batch);
            }
            let pieces = &segment.table(Table::Events).pieces;
            let Some(piece) = pieces.get(self.piece) else {
                self.side(batch, u64::MAX);
                (self.segment, self.piece, self.open) = (self.segment + 1, 0, None);
                if batch.is_empty() {
                    continue;
                }
                return Progress::More;
            };
            self.piece += 1;
            match piece {
                Piece::Gap(gap) => self.gap(*gap, &pieces[self.piece..], batch),
                Piece::Batch(entry) if !self.wanted(entry.min_ns, entry.max_ns) => {}
                Piece::Batch(entry) => {
                    self.events(segment, entry, batch);
                    self.side(batch, self.watermark_ns);
                    if !batch.is_empty() {
                        return Progress::More;
                    }
                }
            }
        }
        self.reach_end(batch)
    }

    /// Moves the watermark of a closed session to the end of its recorded time.
    fn reach_end(&mut self, batch: &Batch) -> Progress {
        let observed = self.inner.meta.observed_ns();
        let end_ns = observed.map_or(0, |(_, to_ns)| to_ns.min(self.to_ns));
        if end_ns <= self.watermark_ns {
            // Without events from the requested time on, the changes before it are left.
            return if batch.is_empty() { Progress::End } else { Progress::More };
        }
        self.watermark_ns = end_ns;
        Progress::More
    }

    /// Adds the changes of a skipped segment before the requested time: they hold on.
    fn earlier_changes(&mut self, segment: &SegmentMap, batch: &mut Batch) {
        if segment.range_ns().is_some_and(|(_, max_ns)| max_ns < self.from_ns) {
            read_changes(segment, &mut self.new_changes, &mut self.damage, &mut batch.changes);
        }
    }

    fn events(&mut self, segment: &SegmentMap, entry: &super::scan::Entry, batch: &mut Batch) {
        let Some(reader) = self.open.as_ref().and_then(|open| open.events.as_ref()) else {
            batch.losses.push(damaged(entry.min_ns, entry.max_ns, u64::from(entry.rows)));
            return;
        };
        match rows(reader, entry, &mut batch.events) {
            Ok(0) => {}
            Ok(count) => {
                let (from_ns, to_ns) = (entry.min_ns, entry.max_ns);
                batch.losses.push(Loss { cpu: u16::MAX, from_ns, to_ns, count, cause: LossCause::Undecodable });
            }
            Err(bad) => {
                batch.events.clear();
                let name = &segment.table(Table::Events).name;
                let what = skipped(name, entry, &bad.to_string());
                self.damage.push(Damage::skipped(name, entry.length, u64::from(entry.rows), what));
                batch.losses.push(damaged(entry.min_ns, entry.max_ns, u64::from(entry.rows)));
            }
        }
        if entry.min_ns < self.from_ns || entry.max_ns > self.to_ns {
            batch.events.retain(|e| (self.from_ns..=self.to_ns).contains(&e.time_ns));
        }
        for event in &batch.events {
            if event.time_ns < self.watermark_ns {
                batch.late += 1;
            } else {
                self.watermark_ns = event.time_ns;
            }
        }
        // An unreadable batch still advances the time.
        if batch.events.is_empty() {
            self.watermark_ns = self.watermark_ns.max(entry.max_ns.min(self.to_ns));
        }
    }

    /// Adds rows of the small tables up to a time.
    fn side(&mut self, batch: &mut Batch, until_ns: u64) {
        let Some(open) = &mut self.open else {
            return;
        };
        let (damage, losses) = (&mut self.damage, &mut batch.losses);
        let new_changes = &mut self.new_changes;
        let window = self.from_ns..=self.to_ns;
        // Without its flow an event is in no journey.
        let mut lost = |u: Unread| losses.push(damaged(u.range_ns.0, u.range_ns.1, u.rows));
        open.flows.until(until_ns, damage, |f| batch.flows.push(f.what), &mut lost);
        // What these explain is still there, and `Session::check_small_tables` names their damage.
        open.tasks.until(until_ns, damage, |t| batch.tasks.push(t.what), |_| {});
        open.clock.until(until_ns, damage, |c| batch.clock.push(c), |_| {});
        let new_change = |change: Change| {
            if new_changes.is_new(&change) {
                batch.changes.push(change);
            }
        };
        open.changes.until(until_ns, damage, new_change, |_| {});
        open.names.until(until_ns, damage, |n| batch.names.push(n), |_| {});
        open.counts.until(until_ns, damage, |c| batch.counts.push(c), |_| {});
        let keep_sum = |sum: Synthesis| {
            if window.contains(&sum.to_ns) {
                batch.synthesis.push(sum);
            }
        };
        open.synthesis.until(until_ns, damage, keep_sum, &mut lost);
        let keep_tcp = |t: TcpSample| {
            if window.contains(&t.time_ns) {
                batch.tcp.push(t);
            }
        };
        open.tcp.until(until_ns, damage, keep_tcp, &mut lost);
        let keep_hit = |hit: ProbeHit| {
            if window.contains(&hit.time_ns) {
                batch.hits.push(hit);
            }
        };
        open.hits.until(until_ns, damage, keep_hit, &mut lost);
        let keep_head = |head: PayloadHead| {
            if window.contains(&head.time_ns) {
                batch.heads.push(head);
            }
        };
        open.heads.until(until_ns, damage, keep_head, &mut lost);
        let mut reported = Vec::new();
        let lost = |u: Unread| reported.push(damaged(u.range_ns.0, u.range_ns.1, u.rows));
        open.losses.until(until_ns, damage, |l| losses.push(l), lost);
        losses.append(&mut reported);
        losses.retain(|l| l.to_ns >= self.from_ns && l.from_ns <= self.to_ns);
        losses.sort_by_key(|l| l.to_ns);
    }

    /// Adds losses for rows in gaps of their tables, at the time of the segment.
    fn hidden(&self, segment: &SegmentMap, batch: &mut Batch) {
        let rows = hidden(segment);
        if rows > 0 {
            let (from_ns, to_ns) = segment.range_ns().unwrap_or((self.watermark_ns, self.watermark_ns));
            batch.losses.push(damaged(from_ns, to_ns, rows));
        }
    }

    /// Adds a loss for a gap in the events.
    fn gap(&mut self, gap: Gap, later: &[Piece], batch: &mut Batch) {
        let next = later.iter().find_map(|piece| match piece {
            Piece::Batch(entry) => Some(entry.min_ns),
            Piece::Gap(_) => None,
        });
        let from_ns = self.watermark_ns;
        let unknown = (from_ns, next.unwrap_or(from_ns).max(from_ns));
        let (from_ns, to_ns) = gap.range_ns.unwrap_or(unknown);
        if self.wanted(from_ns, to_ns) {
            batch.losses.push(damaged(from_ns, to_ns, gap.rows));
        }
    }
}

fn damaged(from_ns: u64, to_ns: u64, count: u64) -> Loss {
    Loss { cpu: u16::MAX, from_ns, to_ns, count, cause: LossCause::Damaged }
}

impl Source for Replay {
    fn info(&self) -> &NodeInfo {
        &self.inner.meta.node
    }

    fn next(&mut self, batch: &mut Batch, _timeout: Duration) -> Result<Progress, SourceError> {
        batch.clear();
        let progress = self.advance(batch);
        batch.watermark_ns = self.watermark_ns;
        Ok(progress)
    }
}
