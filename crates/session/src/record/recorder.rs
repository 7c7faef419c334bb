//! The front end of the recorder.

use super::RecordOptions;
use super::overflow::Overflow;
use super::writer::Writer;
use crate::error::SessionError;
use crate::meta::Meta;
use crate::summary::Summary;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use magscope_core::clock::ClockSample;
use magscope_core::node::NodeInfo;
use magscope_core::workload::Names;
use magscope_core::{
    Batch, Change, Event, Flow, HopCount, Loss, PayloadHead, ProbeHit, Synthesis, Task, TcpSample,
};
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::thread::JoinHandle;

/// Counters shared by both ends of the queue.
#[derive(Default)]
pub(super) struct Shared {
    /// Bytes in the queue.
    pub(super) queued: AtomicUsize,
    /// Events on disk.
    pub(super) written: AtomicU64,
    /// Records on disk or in deleted segments: see [`Batch::numbered`].
    pub(super) records: AtomicU64,
    /// True while the writer waits for disk space.
    pub(super) is_disk_full: AtomicBool,
    /// The writer does not wait for room any more.
    pub(super) is_ending: AtomicBool,
    /// Bytes on disk.
    pub(super) bytes: AtomicU64,
    /// The current segment.
    pub(super) segment: AtomicU32,
    /// Segments deleted.
    pub(super) deleted: AtomicU32,
    /// Those of them that a full disk made it delete.
    pub(super) deleted_for_room: AtomicU32,
    /// Those of them that were to be kept elsewhere and were not yet.
    pub(super) deleted_unshipped: AtomicU32,
    pub(super) observed: Observed,
}

/// The recorded time by the watermarks of all batches, empty ones included, nanoseconds; 0: none so far.
#[derive(Default)]
pub(super) struct Observed {
    from_ns: AtomicU64,
    to_ns: AtomicU64,
}

impl Observed {
    /// Only the thread that appends calls it.
    fn note(&self, batch: &Batch) {
        // 0 and the maximum are no instants.
        if matches!(batch.watermark_ns, 0 | u64::MAX) {
            return;
        }
        if self.from_ns.load(Relaxed) == 0 {
            let first_ns = batch.events.first().map_or(u64::MAX, |event| event.time_ns);
            self.from_ns.store(first_ns.min(batch.watermark_ns), Relaxed);
        }
        self.to_ns.fetch_max(batch.watermark_ns, Relaxed);
    }

    /// Both ends, if there are any.
    pub(super) fn ends_ns(&self) -> Option<(u64, u64)> {
        let (from_ns, to_ns) = (self.from_ns.load(Relaxed), self.to_ns.load(Relaxed));
        (from_ns != 0).then_some((from_ns, to_ns))
    }
}

impl Shared {
    /// Size of a batch in the queue, bytes.
    pub(super) fn cost(batch: &Batch) -> usize {
        size_of::<Batch>() + size_of_val(&batch.events[..]) + Self::side_cost(batch)
    }

    fn side_cost(batch: &Batch) -> usize {
        let comms: usize = batch.tasks.iter().map(|t| t.comm.len()).sum();
        comms
            + batch.flows.len() * size_of::<Flow>()
            + batch.tasks.len() * size_of::<Task>()
            + batch.tcp.len() * size_of::<TcpSample>()
            + batch.hits.len() * size_of::<ProbeHit>()
            + batch.heads.iter().map(|head| size_of::<PayloadHead>() + head.bytes.len()).sum::<usize>()
            + batch.losses.len() * size_of::<Loss>()
            + batch.clock.len() * size_of::<ClockSample>()
            + batch.changes.iter().map(|change| size_of::<Change>() + change.what.len()).sum::<usize>()
            + batch.counts.len() * size_of::<HopCount>()
            + batch.synthesis.iter().map(synthesis_bytes).sum::<usize>()
            + batch.names.iter().map(Names::bytes).sum::<usize>()
    }
}

/// Size of one sum, bytes.
pub(super) fn synthesis_bytes(sum: &Synthesis) -> usize {
    size_of::<Synthesis>() + size_of_val(&sum.buckets[..])
}

/// State of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderStatus {
    /// Events written so far, including deleted ones.
    pub events: u64,
    /// Size of the directory, bytes.
    pub bytes_on_disk: u64,
    /// Records (events, TCP samples, hits and heads) dropped because the queue was full or the writer failed.
    pub lost: u64,
    /// Bytes waiting in the queue.
    pub queue_bytes: usize,
    /// Segments with numbers below this one are closed.
    pub segment: u32,
    /// Closed segments deleted by limits.
    pub deleted: u32,
    /// Those of them that a full disk made it delete.
    pub deleted_for_room: u32,
    /// Those of them that were to be kept elsewhere (see [`RecordOptions::shipped`]) and were not yet.
    pub deleted_unshipped: u32,
    /// True while the recorder waits for disk space.
    pub is_disk_full: bool,
}

/// What remains of a recorder for whoever started its end.
#[derive(Clone)]
pub struct RecorderWatch(Arc<Shared>);

impl RecorderWatch {
    /// Whether the recorder waits for room on the disk.
    pub fn is_disk_full(&self) -> bool {
        self.0.is_disk_full.load(Relaxed)
    }

    /// From here on the recorder does not wait for room: records without room are lost and counted.
    pub fn give_up_waiting(&self) {
        self.0.is_ending.store(true, Relaxed);
    }
}

/// Writes a session.
///
/// A drop without [`Recorder::close`] also ends the recording cleanly, but discards errors.
pub struct Recorder {
    dir: PathBuf,
    options: RecordOptions,
    shared: Arc<Shared>,
    /// `None` once the recording has ended.
    queue: Option<Sender<Batch>>,
    /// Written batches, to reuse their memory.
    used: Receiver<Batch>,
    thread: Option<JoinHandle<Result<Meta, SessionError>>>,
    overflow: Overflow,
    /// Records dropped before the queue.
    lost: u64,
    /// Records that were put into the queue.
    queued_records: u64,
    /// Lock during the recording: see [`is_being_recorded`].
    _lock: Option<File>,
}

/// True if a recorder of any process writes to a directory. On a file system without locks the answer is false.
pub fn is_being_recorded(dir: &Path) -> bool {
    File::open(dir).is_ok_and(|dir| matches!(dir.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

impl Recorder {
    /// Makes the directory `dir` (its parents too) and begins to record into it. It must not exist or be empty.
    pub fn create(dir: &Path, info: &NodeInfo, options: RecordOptions) -> Result<Recorder, SessionError> {
        let options = options.fitted()?;
        let made = prepare(dir)?;
        let disk = rustix::fs::statvfs(dir).ok();
        let options = options.on_disk_with(disk.map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)));
        let lock = File::open(dir).ok().filter(|dir| dir.try_lock().is_ok());
        let meta = Meta::new(info, options.retention());
        // An empty directory would remain if there is no space for a file.
        let meta_bytes = meta.write(dir).inspect_err(|_| {
            if made {
                let _ = fs::remove_dir(dir);
            }
        })?;
        let shared = Arc::new(Shared::default());
        shared.bytes.store(meta_bytes, Relaxed);
        let writer = Writer::new(dir, options.clone(), meta, meta_bytes, shared.clone())?;
        // Not bounded by count: `Shared::queued` bounds the bytes, and so the memory.
        let (queue, to_write) = unbounded();
        let (give_back, used) = bounded(8);
        let thread = std::thread::Builder::new()
            .name("magscope-record".into())
            .spawn(move || writer.run(&to_write, &give_back))
            .map_err(SessionError::io("start the thread that records into", dir))?;
        Ok(Recorder {
            dir: dir.to_path_buf(),
            options,
            shared,
            queue: Some(queue),
            used,
            thread: Some(thread),
            overflow: Overflow::default(),
            lost: 0,
            queued_records: 0,
            _lock: lock,
        })
    }

    /// Copies a batch into the queue without waiting for the disk. The excess is dropped and counted, and the
    /// loss is recorded later. The writer's error (such as a full disk) is returned once, then
    /// [`SessionError::Stopped`].
    pub fn append(&mut self, batch: &Batch) -> Result<(), SessionError> {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            self.lost += batch.numbered();
            return Err(self.failure());
        }
        self.shared.observed.note(batch);
        if batch.is_empty() && self.overflow.is_empty() {
            return Ok(());
        }
        let mut pieces = batch.events.chunks(self.options.piece_events());
        // The first piece carries the small tables; a batch may have nothing else.
        let mut result = self.offer(batch, pieces.next().unwrap_or_default(), true);
        for piece in pieces {
            if result.is_ok() {
                result = self.offer(batch, piece, false);
            } else {
                self.lost += piece.len() as u64;
            }
        }
        result
    }

    /// Current state.
    pub fn status(&self) -> RecorderStatus {
        RecorderStatus {
            events: self.shared.written.load(Relaxed),
            bytes_on_disk: self.shared.bytes.load(Relaxed),
            lost: self.lost + self.unwritten(),
            is_disk_full: self.shared.is_disk_full.load(Relaxed),
            queue_bytes: self.shared.queued.load(Relaxed),
            segment: self.shared.segment.load(Acquire),
            deleted: self.shared.deleted.load(Relaxed),
            deleted_for_room: self.shared.deleted_for_room.load(Relaxed),
            deleted_unshipped: self.shared.deleted_unshipped.load(Relaxed),
        }
    }

    /// Stays valid when the recorder is finished by another thread.
    pub fn watch(&self) -> RecorderWatch {
        RecorderWatch(self.shared.clone())
    }

    /// Writes pending rows, marks the session as complete and syncs it. On a full disk it deletes old segments
    /// if a size limit allows it, but does not wait for others to make space.
    pub fn close(self) -> Result<Summary, SessionError> {
        self.finish().0
    }

    /// The same, and how it was doing at last. After an error the status counts what was not written as lost.
    pub fn finish(self) -> (Result<Summary, SessionError>, RecorderStatus) {
        self.watch().give_up_waiting();
        self.finish_with_room()
    }

    /// The same. On a full disk it waits for room if [`OnFullDisk::Wait`](super::OnFullDisk::Wait) was chosen, until
    /// [`RecorderWatch::give_up_waiting`].
    pub fn finish_with_room(mut self) -> (Result<Summary, SessionError>, RecorderStatus) {
        let summary = self.end().map(|meta| Summary::of_closed(&meta));
        (summary, self.status())
    }

    /// Queued records that will never be written; 0 while the writer runs.
    fn unwritten(&self) -> u64 {
        let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        let missing = self.queued_records.saturating_sub(self.shared.records.load(Acquire));
        if has_ended { missing } else { 0 }
    }

    fn offer(&mut self, batch: &Batch, events: &[Event], with_side: bool) -> Result<(), SessionError> {
        let mut piece = self.used.try_recv().unwrap_or_default();
        piece.clear();
        piece.events.extend_from_slice(events);
        if with_side {
            piece.flows.extend_from_slice(&batch.flows);
            piece.tasks.extend_from_slice(&batch.tasks);
            piece.tcp.extend_from_slice(&batch.tcp);
            piece.hits.extend_from_slice(&batch.hits);
            piece.heads.extend_from_slice(&batch.heads);
            piece.losses.extend_from_slice(&batch.losses);
            piece.clock.extend_from_slice(&batch.clock);
            piece.changes.extend_from_slice(&batch.changes);
            piece.counts.extend_from_slice(&batch.counts);
            piece.synthesis.extend_from_slice(&batch.synthesis);
            piece.names.extend_from_slice(&batch.names);
        }
        let queued = self.shared.queued.load(Relaxed);
        let limit = self.options.queue_bytes;
        // An eighth is reserved for the small tables: announcements matter more than single events.
        if queued + Shared::cost(&piece) <= limit - limit / 8 {
            return self.push(piece);
        }
        if Shared::side_cost(&piece) > 0 && queued + Shared::side_cost(&piece) + size_of::<Batch>() <= limit {
            let events = std::mem::take(&mut piece.events);
            self.lost += self.overflow.drop_batch(&Batch { events, ..Batch::default() });
            return self.push(piece);
        }
        self.lost += self.overflow.drop_batch(&piece);
        Ok(())
    }

    fn push(&mut self, mut piece: Batch) -> Result<(), SessionError> {
        self.overflow.move_into(&mut piece);
        self.shared.queued.fetch_add(Shared::cost(&piece), Relaxed);
        self.queued_records += piece.numbered();
        let sent = self.queue.as_ref().is_some_and(|queue| queue.send(piece).is_ok());
        if sent { Ok(()) } else { Err(self.failure()) }
    }

    /// The error of the writer.
    fn failure(&mut self) -> SessionError {
        match self.end() {
            Err(e) => e,
            Ok(_) => SessionError::Stopped { path: self.dir.clone() },
        }
    }

    /// Closes the queue and waits for the writer.
    fn end(&mut self) -> Result<Meta, SessionError> {
        if let Some(queue) = self.queue.take()
            && !self.overflow.is_empty()
        {
            let mut last = Batch::default();
            self.overflow.move_into(&mut last);
            self.shared.queued.fetch_add(Shared::cost(&last), Relaxed);
            // If the send fails the writer has failed, and `join` returns the error.
            let _ = queue.send(last);
        }
        let stopped = || SessionError::Stopped { path: self.dir.clone() };
        self.thread.take().ok_or_else(stopped)?.join().map_err(|_| stopped())?
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.watch().give_up_waiting();
        let _ = self.end();
    }
}

/// Creates the directory, or checks that it is empty. Returns true if created.
fn prepare(dir: &Path) -> Result<bool, SessionError> {
    let occupied =
        |because: &str| SessionError::Occupied { path: dir.to_path_buf(), because: because.to_owned() };
    match fs::metadata(dir) {
        Ok(found) if !found.is_dir() => Err(occupied("it is a file")),
        Ok(_) => {
            let mut entries = fs::read_dir(dir).map_err(SessionError::io("list", dir))?;
            match entries.next() {
                None => Ok(false),
                Some(_) if dir.join(crate::layout::META).exists() => {
                    Err(occupied("it already holds a session"))
                }
                Some(_) => Err(occupied("it is not empty")),
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(dir).map(|()| true).map_err(SessionError::io("create", dir))
        }
        Err(source) => Err(SessionError::Io { operation: "look at", path: dir.to_path_buf(), source }),
    }
}
