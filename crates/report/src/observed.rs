//! The observed time: an idle beginning or end counts, so that rates are of all of it.

use magscope_core::Batch;

/// First and last observed instant, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed(Option<(u64, u64)>);

impl Observed {
    /// It was observed at an instant.
    pub fn note(&mut self, ns: u64) {
        let (from_ns, to_ns) = self.0.unwrap_or((ns, ns));
        self.0 = Some((from_ns.min(ns), to_ns.max(ns)));
    }

    /// It was observed up to a batch's watermark.
    pub fn note_watermark(&mut self, batch: &Batch) {
        // 0 and the maximum are no instants.
        if !matches!(batch.watermark_ns, 0 | u64::MAX) {
            self.note(batch.watermark_ns);
        }
    }

    /// Both ends, if there are any.
    pub const fn ends_ns(self) -> Option<(u64, u64)> {
        self.0
    }
}
