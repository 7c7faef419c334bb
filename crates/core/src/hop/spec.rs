//! The columns of the table of hops (`table.rs`).

use super::{Direction, Hop, Layer};
use crate::blame::Part;
use crate::event::DetailKind;
use crate::flow::Proto;

/// All properties of a hop: one row of the table.
#[derive(Clone, Copy, Debug)]
pub struct HopSpec {
    /// The hop.
    pub hop: Hop,
    /// Number in records and sessions, which never changes its meaning; it is no position.
    pub id: u8,
    /// Name on screens, on the command line and in files.
    pub name: &'static str,
    /// Position on the path: 0 for `app.send`, `None` off the path. Computed from the order of the rows.
    pub rank: Option<u8>,
    /// Direction of a packet at the hop.
    pub direction: Direction,
    /// Direction of the event's socket or packet: off the path it may be known although the event is on no path.
    pub side: Direction,
    /// Layer of the stack.
    pub layer: Layer,
    /// Protocols with events at the hop.
    pub protocols: Protocols,
    /// Part of the event in a journey.
    pub role: Role,
    /// Number that the hop adds to an event; at a hop of packets, to those of TCP.
    pub detail: DetailKind,
    /// In the set `default`.
    pub default: bool,
    /// In the set `all`. Other hops of the path are optional ([`Hop::is_optional`]).
    pub full: bool,
    /// In the default set of an agent.
    pub agent: bool,
    /// Hops whose programs the hop depends on. A packet must be read before the driver owns it; a reader is
    /// tracked from the moment its socket has data.
    pub needs: &'static [Hop],
    /// Frequency of the hop's cost in a stream.
    pub frequency: Frequency,
    /// The process of the event (tgid, tid) is the one that uses the socket. Below the socket layer an event runs
    /// in an arbitrary interrupted task, so the kernel side omits the process there.
    pub has_process: bool,
    /// The kernel side has the packet, and so its payload.
    pub has_packet: bool,
    /// A filter knows the interface.
    pub has_interface: bool,
    /// A filter knows the length.
    pub has_length: bool,
    /// A filter knows the socket. A received packet has no socket yet, and a dropped one has none any more.
    pub has_socket: bool,
    /// Cause of the time of the step to this hop; the reader's wake-up may decide otherwise.
    pub part: Part,
    /// Words for the step to this hop from the hop before it; `{proto}` stands for the protocol.
    pub step: &'static str,
    /// The place of the hop as a border between layers; empty if no bytes cross a border.
    pub border: &'static str,
    /// Priority of its lane where the screen lacks room; 0 is the highest.
    pub screen_priority: u8,
    /// Conclusions that are impossible without the hop.
    pub without: &'static str,
    /// For the documents: the place in the kernel.
    pub place: &'static str,
    /// For the documents: the byte range, off the path the content.
    pub content: &'static str,
    /// For the documents: the known user of the event.
    pub user: &'static str,
}

/// The protocols with events at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// All of them.
    All,
    /// TCP only.
    Tcp,
    /// UDP only.
    Udp,
}

impl Protocols {
    /// True if packets of the protocol pass the hop.
    pub const fn has(self, proto: Proto) -> bool {
        match self {
            Self::All => true,
            Self::Tcp => proto.0 == Proto::TCP.0,
            Self::Udp => proto.0 == Proto::UDP.0,
        }
    }
}

/// The part of an event in a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A call of the sender, with its bytes.
    Send,
    /// A packet passes.
    Packet,
    /// The socket notifies its readers.
    Ready,
    /// A thread that reads is woken or runs.
    Reader,
    /// A call of the reader, with its bytes.
    Read,
    /// A byte range is sent again.
    Resend,
    /// A packet ends.
    Drop,
    /// A socket refuses a packet; in no journey, because the drop is.
    Overflow,
    /// A socket ends, with the bytes that nobody has read or sent.
    End,
    /// A sample of a connection's state; in no journey.
    Sample,
    /// A moment of a connection, without bytes: a reset, the end of an attempt to connect; in no journey.
    Point,
    /// An event of any task; in no journey.
    Task,
}

/// The frequency of a hop's cost in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frequency {
    /// Once per packet, so the hop slows a stream.
    PerPacket,
    /// Once per call.
    PerCall,
    /// Once per wake-up of a reader.
    PerWakeUp,
    /// With every task of the machine.
    PerTask,
    /// Once per connection.
    PerConnection,
    /// At losses.
    Rare,
    /// At most once in 4 ms per socket.
    Timed,
}

impl Frequency {
    /// Words for a table.
    pub const fn words(self) -> &'static str {
        match self {
            Self::PerPacket => "a packet",
            Self::PerCall => "a call",
            Self::PerWakeUp => "a wake-up",
            Self::PerTask => "any task's",
            Self::PerConnection => "a connection",
            Self::Rare => "rare",
            Self::Timed => "4 ms",
        }
    }
}
