//! Rows and marks as conditions of a filter: what *only this* and *not this* mean.

use crate::lifeline::Lifeline;
use crate::look::PointKind;
use magscope_core::Endpoint;

/// One direction of a connection.
pub fn of_ends((from, to): (Endpoint, Endpoint)) -> String {
    format!("flow = {from}-{to}")
}

/// The flow of a journey.
pub fn of_journey(line: &Lifeline) -> Option<String> {
    line.ends.map(of_ends)
}

/// A service by the words of its row, such as `:443 nginx`; `None` for one without a port.
pub fn of_service(words: &str) -> Option<String> {
    let port: u16 = words.strip_prefix(':')?.split(' ').next()?.parse().ok()?;
    Some(format!("port = {port}"))
}

/// The journeys that an isolated event stands for; `None` where no journey has it.
pub fn of_point(kind: PointKind) -> Option<String> {
    match kind {
        PointKind::Drop { .. } | PointKind::SocketFull => Some("dropped".to_owned()),
        PointKind::Retransmit => Some("resent".to_owned()),
        PointKind::EventLoss(_) => Some("broken".to_owned()),
        PointKind::Change => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::Filter;

    #[test]
    fn every_condition_is_a_filter() {
        let ends = ("[fd00::1]:40000".parse().unwrap(), "[fd00::2]:443".parse().unwrap());
        let points = [
            PointKind::Drop { node: 0, reason: 2 },
            PointKind::SocketFull,
            PointKind::Retransmit,
            PointKind::EventLoss(3),
        ];
        let all =
            points.into_iter().filter_map(of_point).chain([of_ends(ends)]).chain(of_service(":443 nginx"));
        for condition in all.flat_map(|this| [format!("not {this}"), this]) {
            assert!(Filter::parse(&condition).is_ok(), "{condition}");
        }
        assert_eq!((of_service("unix socket"), of_service(": x")), (None, None));
    }
}
