//! Both ends of a flow in words, as whole as there is room for.

use magscope_core::Proto;
use magscope_core::flow::Endpoint;

/// `tcp 10.0.0.1:4000→10.0.0.2:80` with this arrow. A protocol without ports has addresses alone.
pub fn ends((from, to): (Endpoint, Endpoint), proto: Proto, arrow: &str) -> String {
    if (from.port(), to.port()) == (0, 0) {
        return format!("{proto} {}{arrow}{}", from.ip(), to.ip());
    }
    format!("{proto} {from}{arrow}{to}")
}

/// The same within `room` columns: without the sender's address, `tcp :4000→10.0.0.2:80`, where all does not fit.
pub fn ends_within(ends_of: (Endpoint, Endpoint), proto: Proto, arrow: &str, room: usize) -> String {
    let whole = ends(ends_of, proto, arrow);
    if whole.chars().count() <= room {
        return whole;
    }
    match ends_of {
        (from, to) if (from.port(), to.port()) == (0, 0) => format!("{proto} {arrow}{}", to.ip()),
        (from, to) => format!("{proto} :{}{arrow}{to}", from.port()),
    }
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
}
