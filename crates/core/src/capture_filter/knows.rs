//! What each hop can know of what a filter asks for: the table of `docs/filters.md`.

use super::Field;
use crate::hop::{Direction, Hop, Layer};

/// How a hop comes to know a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knows {
    /// From what stands before it (as far as the socket or packet has it: a socket without a peer has no remote end).
    Itself,
    /// From what is remembered of the socket, once that was seen at the socket layer.
    Remembered,
    /// Not at all.
    Never,
}

/// How `hop` comes to know `field`. Says the same as `bpf/filter.h` and those who call it.
pub fn knows(hop: Hop, field: Field) -> Knows {
    let sched = hop.layer() == Layer::Sched;
    // a wake-up knows the socket that caused it; the scheduler's own events know none
    let woken = matches!(hop, Hop::TaskWake | Hop::TaskRun);
    let of_socket = match (sched, woken) {
        (false, _) => Knows::Itself,
        (true, true) => Knows::Remembered,
        (true, false) => Knows::Never,
    };
    match field {
        Field::Cpu | Field::Hop | Field::Dir => Knows::Itself,
        Field::Proto | Field::Netns | Field::Host | Field::Port => of_socket,
        Field::Src | Field::Dst | Field::Sport | Field::Dport => {
            let known_way =
                hop.direction() != Direction::Off || matches!(hop, Hop::TcpRetransmit | Hop::SockFull);
            if known_way { of_socket } else { Knows::Never }
        }
        Field::Iface => match hop {
            Hop::UdpRecv | Hop::SkbDrop => Knows::Itself,
            _ if matches!(hop.layer(), Layer::Ip | Layer::Device) => Knows::Itself,
            _ => Knows::Never,
        },
        Field::Len => match hop {
            Hop::SockReady | Hop::SockFull | Hop::TcpState => Knows::Never,
            _ if sched => Knows::Never,
            _ => Knows::Itself,
        },
        Field::Socket => match hop {
            // on its way in a packet has no socket yet; a dropped one has none any more
            Hop::DevRecv | Hop::IpPre | Hop::IpIn | Hop::SkbDrop => Knows::Never,
            _ if sched && !woken => Knows::Never,
            _ => Knows::Itself,
        },
        Field::Tgid | Field::Comm | Field::Uid | Field::Cgroup | Field::Container => {
            if sched {
                Knows::Itself
            } else {
                Knows::Remembered
            }
        }
    }
}
