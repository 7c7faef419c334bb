//! IPv4 identifications of a packet.

/// IPv4 identifications of a packet: one per segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpIds {
    /// The first; 0 if there is none.
    pub first: u16,
    /// Number of segments.
    pub count: u16,
}

impl IpIds {
    /// True if the packet has an identification.
    pub const fn is_present(self) -> bool {
        self.first != 0
    }

    /// True if a packet with these may result from one with those of `other`, by segmentation or merging.
    pub const fn meets(self, other: Self) -> bool {
        let (ahead, behind) = (self.first.wrapping_sub(other.first), other.first.wrapping_sub(self.first));
        self.is_present() && other.is_present() && (ahead < other.count || behind < self.count || ahead == 0)
    }
}
