//! Both ends of a flow in words, as whole as there is room for.

use magscope_core::Proto;
use magscope_core::flow::Endpoint;

/// Characters at the end of a shortened address.
const LAST: usize = 4;

/// `tcp 10.0.0.1:4000→10.0.0.2:80` with this arrow. A protocol without ports has addresses alone.
pub fn ends((from, to): (Endpoint, Endpoint), proto: Proto, arrow: &str) -> String {
    if (from.port(), to.port()) == (0, 0) {
        return format!("{proto} {}{arrow}{}", from.ip(), to.ip());
    }
    format!("{proto} {from}{arrow}{to}")
}

/// The same within `room` columns, where all does not fit: without the sender's address, `tcp :4000→10.0.0.2:80`. A
/// protocol without ports has both addresses without their middle, `icmp6 fe80::…3032→ff02::16`, or else the receiver's.
pub fn ends_within(ends_of: (Endpoint, Endpoint), proto: Proto, arrow: &str, room: usize) -> String {
    let whole = ends(ends_of, proto, arrow);
    if whole.chars().count() <= room {
        return whole;
    }
    let (from, to) = ends_of;
    if (from.port(), to.port()) != (0, 0) {
        return format!("{proto} :{}{arrow}{to}", from.port());
    }
    let (from, to) = (from.ip().to_string(), to.ip().to_string());
    let left = room.saturating_sub(proto.to_string().len() + 1 + arrow.chars().count());
    // The longer one is shortened first.
    let (half, rest) = (left / 2, left - left / 2);
    let from_room = if from.len() <= half { from.len() } else { half.max(left.saturating_sub(to.len())) };
    let to_room = if from.len() <= half { left - from.len() } else { rest.min(to.len()) };
    match (without_middle(&from, from_room), without_middle(&to, to_room)) {
        (Some(from), Some(to)) => format!("{proto} {from}{arrow}{to}"),
        _ => format!("{proto} {arrow}{to}"),
    }
}

/// An address without its middle, where it does not fit; `None` where nothing useful would be left.
fn without_middle(address: &str, room: usize) -> Option<String> {
    if address.len() <= room {
        return Some(address.to_owned());
    }
    let head = room.checked_sub(LAST + 1).filter(|head| *head >= LAST)?;
    Some(format!("{}…{}", address.get(..head)?, address.get(address.len() - LAST..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receiver_and_both_ports_stay() {
        let of =
            |from: &str, to: &str| -> (Endpoint, Endpoint) { (from.parse().unwrap(), to.parse().unwrap()) };
        let tcp = of("10.0.0.1:40000", "10.0.0.2:80");
        assert_eq!(ends_within(tcp, Proto::TCP, "→", 30), "tcp 10.0.0.1:40000→10.0.0.2:80");
        assert_eq!(ends_within(tcp, Proto::TCP, "→", 29), "tcp :40000→10.0.0.2:80");
        let echo = of("[fe80::1]:0", "[ff02::2]:0");
        assert_eq!(ends(echo, Proto::ICMPV6, " → "), "icmp6 fe80::1 → ff02::2");
        assert_eq!(ends_within(echo, Proto::ICMPV6, "→", 10), "icmp6 →ff02::2");
    }

    #[test]
    fn two_senders_without_ports_stay_apart_where_there_is_room() {
        let of = |from: &str, to: &str| -> (Endpoint, Endpoint) {
            (format!("[{from}]:0").parse().unwrap(), format!("[{to}]:0").parse().unwrap())
        };
        let joins = of("fe80::d4ad:e0ff:fee5:3032", "ff02::16");
        let within = |room| ends_within(joins, Proto::ICMPV6, "→", room);
        assert_eq!(within(40), "icmp6 fe80::d4ad:e0ff:fee5:3032→ff02::16");
        assert_eq!(within(39), "icmp6 fe80::d4ad:e0ff:fee…3032→ff02::16");
        assert_eq!(within(26), "icmp6 fe80::…3032→ff02::16");
        assert_eq!(within(20), "icmp6 →ff02::16");
        let asks = of("::", "ff02::1:ffe5:3032");
        assert_eq!(ends_within(asks, Proto::ICMPV6, "→", 22), "icmp6 ::→ff02::1:…3032");
        for room in 0..60 {
            for ends in [joins, asks] {
                let words = ends_within(ends, Proto::ICMPV6, "→", room);
                assert!(words.chars().count() <= room || words.starts_with("icmp6 →"), "{room}: {words}");
            }
        }
    }
}
