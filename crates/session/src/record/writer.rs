//! The recorder's thread: from the queue to the files.

use super::announced::AnnouncedIds;
use super::pace::Pace;
use super::recorder::{Shared, synthesis_bytes};
use super::segment::{Encoded, Segment, SegmentTotals, encode_error};
use super::{OnFullDisk, RecordOptions};
use crate::error::SessionError;
use crate::frame::{Codec, Encoder};
use crate::layout::Table;
use crate::meta::{Closed, Dropped, LARGEST, LossTotals, Meta, ShippedSegments};
use crate::table::{EventColumns, Row};
use crate::utc;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use magscope_core::changes::StoredChanges;
use magscope_core::clock::ClockSample;
use magscope_core::workload::Names;
use magscope_core::{Batch, Change, HopCount, Loss, PayloadHead, ProbeHit, Synthesis, TcpSample};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

/// Maximum number of rows per batch of a small table.
const SIDE_ROWS: usize = 16 << 10;

/// Retry interval on a full disk.
const RETRY: Duration = Duration::from_millis(100);

/// Names that complete the description of the node, bytes, at most. A file beyond 4 MiB is not read.
const MOST_NAMED_BYTES: usize = 1 << 20;

/// A complete segment.
struct ClosedSegment {
    totals: SegmentTotals,
    /// End time by the event clock.
    ended_ns: u64,
}

pub(super) struct Writer {
    dir: PathBuf,
    options: RecordOptions,
    meta: Meta,
    meta_bytes: u64,
    shared: Arc<Shared>,
    encoder: Encoder,
    segment: Segment,
    /// Complete segments, oldest first.
    older: VecDeque<ClosedSegment>,
    /// Records in deleted segments.
    deleted_records: u64,
    /// Time of the segment's first event by the event clock.
    began_ns: Option<u64>,
    announced: AnnouncedIds,
    pace: Pace,
    events: EventColumns,
    tcp: Vec<TcpSample>,
    hits: Vec<ProbeHit>,
    heads: Vec<PayloadHead>,
    losses: Vec<Loss>,
    clock: Vec<ClockSample>,
    changes: Vec<Change>,
    /// The newest changes that were written: each segment begins with those before it.
    earlier_changes: StoredChanges,
    counts: Vec<HopCount>,
    synthesis: Vec<Synthesis>,
    names: Vec<Names>,
    /// Size of all names so far.
    named_bytes: usize,
    /// Latest event time, used for rows without a time of their own.
    now_ns: u64,
    /// Deadline for a flush.
    due: Option<Instant>,
}

impl Writer {
    pub(super) fn new(
        dir: &Path,
        options: RecordOptions,
        meta: Meta,
        meta_bytes: u64,
        shared: Arc<Shared>,
    ) -> Result<Self, SessionError> {
        let encoder = Encoder::new().map_err(encode_error(dir))?;
        Ok(Writer {
            dir: dir.to_path_buf(),
            segment: Segment::new(dir, &meta.session, 0),
            options,
            meta,
            meta_bytes,
            shared,
            encoder,
            older: VecDeque::new(),
            deleted_records: 0,
            began_ns: None,
            announced: AnnouncedIds::new(),
            pace: Pace::new(),
            events: EventColumns::default(),
            tcp: Vec::new(),
            hits: Vec::new(),
            heads: Vec::new(),
            losses: Vec::new(),
            clock: Vec::new(),
            changes: Vec::new(),
            earlier_changes: StoredChanges::default(),
            counts: Vec::new(),
            synthesis: Vec::new(),
            names: Vec::new(),
            named_bytes: 0,
            now_ns: 0,
            due: None,
        })
    }

    /// Writes until the queue is closed, then closes the session. After an error, missing data is subtracted
    /// from the records on disk.
    pub(super) fn run(mut self, queue: &Receiver<Batch>, used: &Sender<Batch>) -> Result<Meta, SessionError> {
        let result = self.write_all(queue, used);
        if result.is_err() {
            self.shared.records.store(self.deleted_records + self.present_records(), Relaxed);
        }
        result
    }

    fn write_all(&mut self, queue: &Receiver<Batch>, used: &Sender<Batch>) -> Result<Meta, SessionError> {
        loop {
            let wait =
                self.due.map_or(Duration::from_hours(1), |due| due.saturating_duration_since(Instant::now()));
            match queue.recv_timeout(wait) {
                Ok(batch) => {
                    self.take(&batch)?;
                    self.shared.queued.fetch_sub(Shared::cost(&batch), Relaxed);
                    // Returned to reuse its memory, or freed here.
                    let _ = used.try_send(batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.due.is_some_and(|due| due <= Instant::now()) {
                self.flush()?;
            }
        }
        self.close()
    }

    fn take(&mut self, batch: &Batch) -> Result<(), SessionError> {
        let from_ns = batch.events.first().map_or(self.now_ns, |e| e.time_ns);
        self.announced.announce(&batch.flows, &batch.tasks, from_ns);
        self.announced.used_by_tcp(&batch.tcp);
        self.announced.used_by_custom(&batch.hits, &batch.heads);
        self.tcp.extend_from_slice(&batch.tcp);
        self.hits.extend_from_slice(&batch.hits);
        self.heads.extend_from_slice(&batch.heads);
        self.losses.extend_from_slice(&batch.losses);
        self.clock.extend_from_slice(&batch.clock);
        self.changes.extend_from_slice(&batch.changes);
        self.counts.extend_from_slice(&batch.counts);
        self.announced.used_by_synthesis(&batch.synthesis);
        self.synthesis.extend_from_slice(&batch.synthesis);
        for names in &batch.names {
            // For readers from the beginning, and after a deletion of the table. The description must stay small.
            self.named_bytes += names.bytes();
            if self.named_bytes <= MOST_NAMED_BYTES {
                self.meta.node.complete(names);
            }
            self.names.push(names.clone());
        }
        if self.due.is_none() {
            self.due = Some(Instant::now() + self.options.flush_interval);
        }
        let most = self.options.batch_rows();
        let mut events = &batch.events[..];
        while !events.is_empty() {
            let (now, later) = events.split_at(events.len().min(most - self.events.rows()));
            self.announced.used_by(now);
            self.events.extend(now);
            if self.events.rows() >= most {
                self.flush()?;
                self.due = Some(Instant::now() + self.options.flush_interval);
            }
            events = later;
        }
        let newest =
            batch.events.last().map(|event| event.time_ns).max(batch.clock.last().map(ClockSample::event_ns));
        self.now_ns = self.now_ns.max(newest.unwrap_or(0));
        let side_bytes = self.announced.fresh_bytes()
            + size_of_val(&self.tcp[..])
            + size_of_val(&self.hits[..])
            + size_of_val(&self.heads[..])
            + self.heads.iter().map(|head| head.bytes.len()).sum::<usize>()
            + size_of_val(&self.losses[..])
            + size_of_val(&self.clock[..])
            + size_of_val(&self.changes[..])
            + self.changes.iter().map(|change| change.what.len()).sum::<usize>()
            + size_of_val(&self.counts[..])
            + self.synthesis.iter().map(synthesis_bytes).sum::<usize>()
            + self.names.iter().map(Names::bytes).sum::<usize>();
        if side_bytes > self.options.side_bytes() { self.flush() } else { Ok(()) }
    }

    /// Flushes all pending rows.
    fn flush(&mut self) -> Result<(), SessionError> {
        self.due = None;
        let mut messages = Vec::new();
        let records = self.waiting_records();
        let encode = |e| encode_error(&self.dir)(e);
        // Announcements are written before events that refer to them, so that truncation never separates them.
        let (encoder, out) = (&mut self.encoder, &mut messages);
        side(encoder, out, &self.announced.fresh_flows()).map_err(encode)?;
        side(encoder, out, &self.announced.fresh_tasks()).map_err(encode)?;
        side(encoder, out, &self.tcp).map_err(encode)?;
        side(encoder, out, &self.hits).map_err(encode)?;
        side(encoder, out, &self.heads).map_err(encode)?;
        side(encoder, out, &self.losses).map_err(encode)?;
        side(encoder, out, &self.clock).map_err(encode)?;
        side(encoder, out, &self.changes).map_err(encode)?;
        side(encoder, out, &self.counts).map_err(encode)?;
        side(encoder, out, &self.synthesis).map_err(encode)?;
        side(encoder, out, &self.names).map_err(encode)?;
        if let Some(range_ns) = self.events.range_ns() {
            let behind = self.shared.queued.load(Relaxed) > self.options.queue_bytes / 2;
            let codec = self.pace.codec(behind);
            let (rows, hops, columns) = (self.events.rows(), self.events.hops(), self.events.take());
            let begun = Instant::now();
            let events = Encoded::new(&mut self.encoder, Table::Events, columns, range_ns, hops, codec);
            let events = events.map_err(encode)?;
            self.pace.encoded(codec, rows, events.bytes(), begun.elapsed());
            messages.push(events);
        }
        self.add_earlier_changes(&mut messages)?;
        let bytes = messages.iter().map(Encoded::bytes).sum();
        self.make_room(bytes)?;
        let mut messages = VecDeque::from(messages);
        let before = self.segment.totals.events;
        let begun = Instant::now();
        self.with_room(|writer| writer.segment.write(&mut writer.encoder, &mut messages))?;
        self.shared.records.fetch_add(records, Relaxed);
        self.pace.written(bytes, begun.elapsed());
        for loss in self.losses.drain(..) {
            self.segment.totals.losses.add(loss.cause, loss.count);
        }
        self.tcp.clear();
        self.hits.clear();
        self.heads.clear();
        self.clock.clear();
        self.earlier_changes.remember(&self.changes);
        self.changes.clear();
        self.counts.clear();
        self.synthesis.clear();
        self.names.clear();
        self.shared.written.fetch_add(self.segment.totals.events - before, Relaxed);
        let began_ns = *self.began_ns.get_or_insert(self.now_ns);
        let is_long = |most: Duration| Duration::from_nanos(self.now_ns.saturating_sub(began_ns)) >= most;
        if self.segment.totals.bytes >= self.options.segment_bytes
            || self.options.segment_time.is_some_and(is_long)
        {
            self.rotate()?;
        }
        self.drop_surplus()?;
        self.drop_aged()?;
        self.shared.bytes.store(self.bytes(), Relaxed);
        Ok(())
    }

    /// Inserts the changes of older segments before the first messages of a segment: they hold on, and the older
    /// segments may be deleted. Alone they begin no segment.
    fn add_earlier_changes(&mut self, messages: &mut Vec<Encoded>) -> Result<(), SessionError> {
        if messages.is_empty() || self.segment.totals.bytes > 0 {
            return Ok(());
        }
        let mut earlier = Vec::new();
        side(&mut self.encoder, &mut earlier, self.earlier_changes.all()).map_err(encode_error(&self.dir))?;
        messages.splice(0..0, earlier);
        Ok(())
    }

    /// Records in a flush; see [`Batch::numbered`].
    fn waiting_records(&self) -> u64 {
        (self.events.rows() + self.tcp.len() + self.hits.len() + self.heads.len()) as u64
    }

    /// Runs a resumable write. On a full disk it makes space or waits, depending on the options. A recorder
    /// that ends still makes space, but does not wait.
    fn with_room(
        &mut self,
        mut write: impl FnMut(&mut Self) -> Result<(), SessionError>,
    ) -> Result<(), SessionError> {
        loop {
            let result = write(self);
            let is_full = result.as_ref().is_err_and(SessionError::is_full_disk);
            self.shared.is_disk_full.store(is_full, Relaxed);
            if !is_full || self.options.on_full_disk == OnFullDisk::Fail {
                return result;
            }
            if self.options.size_limit_bytes.is_some() && !self.older.is_empty() {
                self.drop_oldest("full-disk")?;
                self.shared.deleted_for_room.fetch_add(1, Relaxed);
            } else if self.shared.is_ending.load(Relaxed) {
                return result;
            } else {
                std::thread::sleep(RETRY);
            }
        }
    }

    /// Records in files of this recording that were not deleted externally.
    fn present_records(&self) -> u64 {
        let is_there = |totals: &&SegmentTotals| Table::Index.path(&self.dir, totals.number).exists();
        let older = self.older.iter().map(|older| &older.totals);
        older.chain(std::iter::once(&self.segment.totals)).filter(is_there).map(|totals| totals.records).sum()
    }

    fn bytes(&self) -> u64 {
        self.older.iter().map(|older| older.totals.bytes).sum::<u64>()
            + self.segment.totals.bytes
            + self.meta_bytes
    }

    fn rotate(&mut self) -> Result<(), SessionError> {
        self.with_room(|writer| writer.segment.finish())?;
        let number = self.segment.totals.number + 1;
        let next = Segment::new(&self.dir, &self.meta.session, number);
        let totals = std::mem::replace(&mut self.segment, next).totals;
        self.older.push_back(ClosedSegment { totals, ended_ns: self.now_ns });
        self.began_ns = None;
        self.announced.begin_segment(number);
        // Readers of the number find complete files below it.
        self.shared.segment.store(number, Release);
        Ok(())
    }

    /// True if the number and age limits may delete a closed segment: it is uploaded, or no upload is
    /// configured.
    fn may_go(&self, number: u32) -> bool {
        self.options.shipped.as_ref().is_none_or(|shipped| number < shipped.below())
    }

    /// Deletes segments above the maximum number.
    fn drop_surplus(&mut self) -> Result<(), SessionError> {
        let Some(keep) = self.options.keep_segments else { return Ok(()) };
        while self.older.len() as u64 + 1 > u64::from(keep)
            && self.older.front().is_some_and(|oldest| self.may_go(oldest.totals.number))
        {
            self.drop_oldest("keep")?;
        }
        Ok(())
    }

    /// Deletes segments above the maximum age.
    fn drop_aged(&mut self) -> Result<(), SessionError> {
        let Some(keep_for) = self.options.keep_for else { return Ok(()) };
        let aged =
            |older: &ClosedSegment| Duration::from_nanos(self.now_ns.saturating_sub(older.ended_ns)) > keep_for;
        let count =
            self.older.iter().take_while(|older| aged(older) && self.may_go(older.totals.number)).count();
        (0..count).try_for_each(|_| self.drop_oldest("keep-for"))
    }

    /// Deletes old segments until `more` bytes fit the limit.
    fn make_room(&mut self, more: u64) -> Result<(), SessionError> {
        let Some(limit) = self.options.size_limit_bytes else {
            return Ok(());
        };
        // Reserve for heads of new files, the index and a longer meta.toml.
        let more = more.saturating_add(24 << 10);
        while self.bytes().saturating_add(more) > limit && !self.older.is_empty() {
            self.drop_oldest("size-limit")?;
        }
        Ok(())
    }

    /// Deletes the oldest complete segment. The deletion is recorded first: after a crash in between, the
    /// reader finds an extra file and never an unexplained gap.
    fn drop_oldest(&mut self, by: &str) -> Result<(), SessionError> {
        let Some(ClosedSegment { totals: oldest, .. }) = self.older.pop_front() else {
            return Ok(());
        };
        let to_be_shipped = self.options.shipped.is_some();
        if to_be_shipped && self.may_go(oldest.number) {
            self.meta.shipped.get_or_insert_with(ShippedSegments::default).add(&oldest);
        } else {
            self.drop_for_good(&oldest, by, to_be_shipped);
        }
        self.shared.deleted.fetch_add(1, Relaxed);
        self.deleted_records += oldest.records;
        let meta = self.meta.write(&self.dir);
        // On a full disk the deletion makes space for the file.
        let is_full = meta.as_ref().is_err_and(SessionError::is_full_disk);
        if !is_full {
            self.meta_bytes = meta?;
        }
        for table in Table::ALL {
            let path = table.path(&self.dir, oldest.number);
            match std::fs::remove_file(&path) {
                Ok(()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {} // The table never had rows.
                Err(source) => return Err(SessionError::Io { operation: "delete", path, source }),
            }
        }
        if is_full {
            match self.meta.write(&self.dir) {
                Ok(bytes) => self.meta_bytes = bytes,
                // Other processes used the space. The next deletion or the end writes the file.
                Err(error) if error.is_full_disk() && self.options.on_full_disk == OnFullDisk::Wait => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Counts a segment that is deleted without a copy.
    fn drop_for_good(&mut self, oldest: &SegmentTotals, by: &str, to_be_shipped: bool) {
        let dropped = self.meta.dropped.get_or_insert_with(Dropped::default);
        dropped.segments = oldest.number + 1;
        dropped.events += oldest.events;
        dropped.lost = dropped.lost.saturating_add(oldest.losses.total()).min(LARGEST);
        dropped.bytes += oldest.bytes;
        by.clone_into(&mut dropped.by);
        if let Some((from, to)) = oldest.range_ns {
            dropped.from_ns = Some(dropped.from_ns.unwrap_or(from).min(from).min(LARGEST));
            dropped.to_ns = Some(dropped.to_ns.unwrap_or(to).max(to).min(LARGEST));
        }
        if to_be_shipped {
            dropped.unshipped += 1;
            self.shared.deleted_unshipped.fetch_add(1, Relaxed);
        }
    }

    fn close(&mut self) -> Result<Meta, SessionError> {
        self.flush()?;
        self.segment.check_present()?;
        self.with_room(|writer| writer.segment.finish())?;
        self.segment.sync()?;
        let totals = || {
            let older = self.older.iter().map(|older| &older.totals);
            older.chain(std::iter::once(&self.segment.totals)).filter(|s| s.bytes > 0)
        };
        let ranges = || totals().filter_map(|s| s.range_ns);
        let mut losses = LossTotals::default();
        for segment in totals() {
            for cause in magscope_core::LossCause::ALL {
                losses.add(cause, segment.losses.of(cause));
            }
        }
        let observed = self.shared.observed.ends_ns();
        self.meta.closed = Some(Closed {
            utc: utc::now(),
            events: totals().map(|s| s.events).sum(),
            batches: totals().map(|s| s.batches).sum(),
            segments: totals().count() as u32,
            bytes: totals().map(|s| s.bytes).sum(),
            from_ns: ranges().map(|r| r.0.min(LARGEST)).min(),
            to_ns: ranges().map(|r| r.1.min(LARGEST)).max(),
            observed_from_ns: observed.map(|(from_ns, _)| from_ns.min(LARGEST)),
            observed_to_ns: observed.map(|(_, to_ns)| to_ns.min(LARGEST)),
            losses,
        });
        self.with_room(|writer| writer.meta.write(&writer.dir).map(drop))?;
        let all = self.segment.totals.number + u32::from(self.segment.totals.bytes > 0);
        self.shared.segment.store(all, Release);
        Ok(self.meta.clone())
    }
}

/// Encodes rows of a small table.
fn side<R: Row>(
    encoder: &mut Encoder,
    out: &mut Vec<Encoded>,
    rows: &[R],
) -> Result<(), arrow::error::ArrowError> {
    for some in rows.chunks(SIDE_ROWS) {
        let times = || some.iter().map(Row::time_ns);
        let range_ns = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        // Compression gains nothing on a few rows and costs eight bytes per buffer.
        let codec = if some.len() > 64 { Codec::Zstd } else { Codec::Plain };
        out.push(Encoded::new(encoder, R::TABLE, R::columns(some), range_ns, 0, codec)?);
    }
    Ok(())
}
