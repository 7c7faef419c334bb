//! The fields available at each hop: the table of `docs/filters.md`.

use super::Field;
use crate::hop::{Direction, Hop, Layer};

/// The source of a field at a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldAccess {
    /// The socket or packet at the hop, as far as it has the field: a socket without a peer has no remote end.
    Itself,
    /// The stored data of the socket, after its first event at the socket layer.
    Remembered,
    /// Not available.
    Never,
}

/// The source of `field` at `hop`. Must agree with `bpf/filter.h` and its callers.
pub fn field_access(hop: Hop, field: Field) -> FieldAccess {
    let sched = hop.layer() == Layer::Sched;
    // a wake-up has the socket that caused it; the scheduler's own events have none
    let woken = matches!(hop, Hop::TaskWake | Hop::TaskRun);
    let of_socket = match (sched, woken) {
        (false, _) => FieldAccess::Itself,
        (true, true) => FieldAccess::Remembered,
        (true, false) => FieldAccess::Never,
    };
    match field {
        Field::Cpu | Field::Hop | Field::Dir => FieldAccess::Itself,
        Field::Proto | Field::Netns | Field::Host | Field::Port => of_socket,
        Field::Src | Field::Dst | Field::Sport | Field::Dport => {
            let known_way =
                hop.direction() != Direction::Off || matches!(hop, Hop::TcpRetransmit | Hop::SockFull);
            if known_way { of_socket } else { FieldAccess::Never }
        }
        Field::Iface => match hop {
            Hop::UdpRecv | Hop::SkbDrop => FieldAccess::Itself,
            _ if matches!(hop.layer(), Layer::Ip | Layer::Device) => FieldAccess::Itself,
            _ => FieldAccess::Never,
        },
        Field::Len => match hop {
            Hop::SockReady | Hop::SockFull | Hop::TcpState => FieldAccess::Never,
            _ if sched => FieldAccess::Never,
            _ => FieldAccess::Itself,
        },
        Field::Socket => match hop {
            // a received packet has no socket yet, and a dropped one has none any more
            Hop::DevRecv | Hop::IpPre | Hop::IpIn | Hop::SkbDrop => FieldAccess::Never,
            _ if sched && !woken => FieldAccess::Never,
            _ => FieldAccess::Itself,
        },
        Field::Tgid | Field::Comm | Field::Uid | Field::Cgroup | Field::Container => {
            if sched {
                FieldAccess::Itself
            } else {
                FieldAccess::Remembered
            }
        }
    }
}
