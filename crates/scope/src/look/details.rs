//! Words for the numbers that only some kinds of events have.

use crate::format::duration;
use crate::frame::Frame;
use magscope_core::event::error_name;
use magscope_core::{ConnectionState, Detail, Event, Extent};

impl Frame<'_> {
    /// What an event has beside its length and sequence number: `reason 2`, `echo 7, ...`; empty for most.
    pub fn details(&self, node: u16, event: &Event) -> String {
        let detail = match event.detail {
            Detail::None => String::new(),
            Detail::Ack(number) => format!("ack {number:?}"),
            Detail::DropReason(reason) => self.drop_reason(node, reason.get()),
            Detail::FilterDrop(_) => {
                let reason = self.drop_reason(node, event.drop_reason());
                format!("{reason}, {}", event.socket_filter().words())
            }
            Detail::DriverCode(code) => format!("driver code {code:?}"),
            Detail::ResendReason(_) => event.resend_reason().name().to_owned(),
            Detail::Poller(tid) => format!("polled by {tid:?}"),
            Detail::EmptyRead(ns) => format!("empty read {} before", duration(u64::from(ns.get()))),
            Detail::OtherThread(tid) => format!("thread {tid:?}"),
            Detail::ResetReason(reason) => self.reset_reason(node, reason.get()),
            Detail::ConnectionState(state) => ConnectionState::from_number(state.get()).name(),
            Detail::Synacks(count) => format!("sent {count:?} times again"),
            Detail::Consumer(_) => event.consumer().map_or_else(String::new, |by| format!("used by {by}")),
            Detail::WriteSeq(number) => format!("accepted up to {number:?}"),
        };
        let extent = match event.extent {
            Extent::None | Extent::Stream(_) | Extent::CopiedBuffer(_) | Extent::NextBuffer(_) => String::new(),
            Extent::Segments(bytes) => format!("segments of {bytes:?} B"),
            Extent::Echo(number) => format!("echo {number:?}"),
            Extent::FirstFragment(bytes) => format!("first fragment, {bytes:?} B"),
            Extent::LaterFragment(offset) => format!("fragment at {offset:?}"),
            Extent::OpenError(number) => error_name(number.get()),
            Extent::Switch(ns) => format!("took {}", duration(u64::from(ns.get()))),
        };
        // The error of an attempt to connect implies that the socket is closed.
        let is_implied = matches!(event.extent, Extent::OpenError(_));
        let parts = [extent, if is_implied { String::new() } else { detail }];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}
