//! The fields available at each hop: the table of `docs/filters.md`.

use super::Field;
use crate::hop::{Direction, Hop, Layer, Role};

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
    let spec = hop.spec();
    let sched = spec.layer == Layer::Sched;
    let itself_if = |has_field: bool| if has_field { FieldAccess::Itself } else { FieldAccess::Never };
    // a wake-up has the socket that caused it; the scheduler's own events have none
    let of_socket = match (sched, spec.role) {
        (false, _) => FieldAccess::Itself,
        (true, Role::Reader) => FieldAccess::Remembered,
        (true, _) => FieldAccess::Never,
    };
    match field {
        Field::Cpu | Field::Hop | Field::Dir => FieldAccess::Itself,
        Field::Src | Field::Dst | Field::Sport | Field::Dport if spec.side == Direction::Off => {
            FieldAccess::Never
        }
        Field::Proto
        | Field::Netns
        | Field::Host
        | Field::Port
        | Field::Src
        | Field::Dst
        | Field::Sport
        | Field::Dport => of_socket,
        Field::Iface => itself_if(spec.has_interface),
        Field::Len => itself_if(spec.has_length),
        Field::Socket => itself_if(spec.has_socket),
        Field::Tgid
        | Field::Comm
        | Field::Uid
        | Field::Cgroup
        | Field::Container
        | Field::Pod
        | Field::Unit => {
            if sched {
                FieldAccess::Itself
            } else {
                FieldAccess::Remembered
            }
        }
    }
}
