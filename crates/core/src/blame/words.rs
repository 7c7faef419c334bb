//! Words for a step between two hops. They are finer than a [`Part`]: they name the layer.

use super::Part;
use crate::flow::Proto;
use crate::hop::{Direction, Hop, Role};

/// The processing between two hops in path order, with the unserved hops between them.
pub fn step_words(from: Hop, to: Hop, proto: Proto) -> String {
    if from.direction() == Direction::Tx && to.direction() == Direction::Rx {
        return crossing(from, to).to_owned();
    }
    // A packet is received and then sent by a node that passes it on.
    if from.direction() == Direction::Rx && to.direction() == Direction::Tx {
        return Part::Forwarding.words().to_owned();
    }
    if from.rank() > to.rank() && to.role() == Role::Packet {
        // The path begins again in a packet around this one, or in the one inside.
        return if to.direction() == Direction::Tx { "encapsulation" } else { "decapsulation" }.to_owned();
    }
    if (from, to) == (Hop::SockReady, Hop::TaskRun) {
        return Part::Scheduler.words().to_owned();
    }
    if to.role() == Role::Read {
        return read(from, to).to_owned();
    }
    let words = to.spec().step;
    if words.is_empty() || !follows(from, to, proto) {
        return format!("{from} → {to}");
    }
    words.replace("{proto}", &proto.to_string())
}

/// A step to a call of the reader.
fn read(from: Hop, to: Hop) -> &'static str {
    match (from, to) {
        (Hop::TaskRun, Hop::AppCopy) => "reader on its way to read",
        (Hop::AppCopy, Hop::AppRecv) => "reader still in its call",
        (_, to) => to.spec().step,
    }
}

/// A step over the wire, with the rest of the path between the two hops.
fn crossing(from: Hop, to: Hop) -> &'static str {
    let sender = !matches!(from, Hop::DevXmit | Hop::DevDone);
    let receiver = to.spec().part != Part::Wire;
    match (sender, receiver) {
        (false, false) => Part::Wire.words(),
        (true, false) => "the sender's stack or the wire",
        (false, true) => "the wire or the receiver's stack",
        (true, true) => "the stacks or the wire",
    }
}

/// True if packets of this protocol pass no hop between the two.
fn follows(from: Hop, to: Hop, proto: Proto) -> bool {
    let (Some(a), Some(b)) = (from.rank(), to.rank()) else { return false };
    let between = Hop::path().get(a + 1..b).unwrap_or_default();
    b > a && between.iter().all(|hop| !hop.passes(proto) || hop.is_optional())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_steps() {
        let table = [
            (Hop::DevXmit, Hop::DevRecv, Proto::TCP, "the wire"),
            (Hop::DevRecv, Hop::DevXmit, Proto::TCP, "forwarding"),
            (Hop::DevXmit, Hop::NapiPoll, Proto::UDP, "the wire"),
            (Hop::NapiPoll, Hop::DevRecv, Proto::TCP, "merging packets (GRO)"),
            (Hop::IpPost, Hop::DevRecv, Proto::TCP, "the sender's stack or the wire"),
            (Hop::TaskWake, Hop::TaskRun, Proto::TCP, "waiting for a CPU"),
            (Hop::SockReady, Hop::TaskRun, Proto::TCP, "waiting for a CPU"),
            (Hop::TcpSend, Hop::TcpXmit, Proto::TCP, "held in TCP's send queue"),
            (Hop::UdpSend, Hop::IpOut, Proto::UDP, "udp output"),
            (Hop::AppSend, Hop::IpOut, Proto::TCP, "app.send → ip.out"),
            (Hop::DevQueue, Hop::DevXmit, Proto::UDP, "queueing discipline"),
            (Hop::SockReady, Hop::AppRecv, Proto::TCP, "waiting for the reader"),
            (Hop::DevXmit, Hop::IpOut, Proto::TCP, "encapsulation"),
            (Hop::IpIn, Hop::NapiPoll, Proto::UDP, "decapsulation"),
            (Hop::IpIn, Hop::SockReady, Proto::TCP, "ip.in → sock.ready"),
        ];
        for (from, to, proto, words) in table {
            assert_eq!(step_words(from, to, proto), words);
        }
    }

    #[test]
    fn every_pair_of_hops_has_words() {
        for from in Hop::ALL {
            for to in Hop::ALL {
                assert!(!step_words(*from, *to, Proto::UDP).is_empty());
            }
        }
    }
}
