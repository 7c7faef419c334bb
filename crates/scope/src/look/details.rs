//! Words for the numbers that only some kinds of events have.

use crate::format::duration;
use crate::frame::Frame;
use magscope_core::{Detail, Event, Extent};

impl Frame<'_> {
    /// What an event has beside its length and sequence number: `reason 2`, `echo 7, ...`; empty for most.
    pub fn details(&self, node: u16, event: &Event) -> String {
        let detail = match event.detail {
            Detail::None => String::new(),
            Detail::Ack(number) => format!("ack {number:?}"),
            Detail::DropReason(reason) => self.drop_reason(node, reason.get()),
            Detail::DriverCode(code) => format!("driver code {code:?}"),
            Detail::ResendReason(_) => event.resend_reason().name().to_owned(),
            Detail::Poller(tid) => format!("polled by {tid:?}"),
            Detail::EmptyRead(ns) => format!("empty read {} before", duration(u64::from(ns.get()))),
            Detail::OtherThread(tid) => format!("thread {tid:?}"),
        };
        let extent = match event.extent {
            Extent::None | Extent::Stream(_) | Extent::CopiedBuffer(_) | Extent::NextBuffer(_) => String::new(),
            Extent::Segments(bytes) => format!("segments of {bytes:?} B"),
            Extent::Echo(number) => format!("echo {number:?}"),
            Extent::FirstFragment(bytes) => format!("first fragment, {bytes:?} B"),
            Extent::LaterFragment(offset) => format!("fragment at {offset:?}"),
            Extent::Switch(ns) => format!("took {}", duration(u64::from(ns.get()))),
        };
        let parts = [extent, detail];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}
