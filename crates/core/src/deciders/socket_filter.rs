//! The filter of the socket that a dropped packet was for.
//!
//! No list of the kernel has the filters of sockets. A probe reads that of one socket at the drop of a packet by a
//! filter, so that it is certain. The event of the drop has one number for the reason and the filter.

use crate::event::{Detail, DetailKind};
use serde::Serialize;

/// The filter of the socket that a packet was for, as read at its drop by a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketFilter {
    /// Not read: an older kernel, or no drop by a filter.
    #[default]
    Unknown,
    /// The socket has none, so that another filter dropped the packet.
    None,
    /// A classic filter, which has no id.
    Classic,
    /// The BPF program of this id.
    Program(u32),
}

impl SocketFilter {
    const NONE: u32 = 0xff_fffe;
    const CLASSIC: u32 = 0xff_ffff;

    /// The filter of a number of 24 bits. A larger id is unknown.
    pub const fn from_number(number: u32) -> Self {
        match number {
            Self::NONE => Self::None,
            Self::CLASSIC => Self::Classic,
            1..Self::NONE => Self::Program(number),
            _ => Self::Unknown,
        }
    }

    const fn number(self) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::None => Self::NONE,
            Self::Classic => Self::CLASSIC,
            Self::Program(id) => id,
        }
    }

    /// As text: `socket filter, id 42`.
    pub fn words(self) -> String {
        match self {
            Self::Unknown => "a filter of the socket".to_owned(),
            Self::None => "no filter of the socket".to_owned(),
            Self::Classic => "a classic socket filter".to_owned(),
            Self::Program(id) => format!("socket filter, id {id}"),
        }
    }

    /// The detail of a drop for this reason; `None` if the filter is unknown, or if the reason is no single byte.
    pub fn detail(self, reason: u32) -> Option<Detail> {
        let is_read = self != Self::Unknown && reason <= 0xff;
        is_read.then(|| DetailKind::FilterDrop.of(self.number() << 8 | reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::hop::Hop;

    #[test]
    fn a_filter_and_a_reason_share_a_number() {
        let filters = [1, 0xff_fffd].map(SocketFilter::Program);
        for filter in filters.into_iter().chain([SocketFilter::None, SocketFilter::Classic]) {
            let event = Event { detail: filter.detail(8).expect("a detail"), ..Event::at(Hop::SkbDrop, 1) };
            assert_eq!((event.drop_reason(), event.socket_filter()), (8, filter));
        }
        assert_eq!(SocketFilter::Unknown.detail(8), None);
        assert_eq!(SocketFilter::Program(1).detail(256), None, "it has no room");
        assert_eq!(SocketFilter::from_number(0x100_0000), SocketFilter::Unknown);
    }
}
