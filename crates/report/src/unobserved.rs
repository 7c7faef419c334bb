//! Missing information of a report, because a required hop was not served.

use super::figures::wrap;
use magscope_core::hop::Hop;
use magscope_core::node::NodeInfo;
use serde::Serialize;
use std::fmt;

/// A missing hop of a capture, and the information that other hops lack without it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnobservedHop {
    /// The host.
    pub host: String,
    /// The missing hop.
    pub hop: Hop,
    /// The missing information.
    pub what: &'static str,
}

/// A hop that ties others to a datagram: without it the others contribute nothing to journeys.
const TIES: [(Hop, &[Hop], &str); 2] = [
    (Hop::UdpRecv, &[Hop::AppRecv], "which datagram a read took: no journey of UDP reaches its reader"),
    (Hop::IpOut, &[Hop::AppSend, Hop::UdpSend], "which datagram a call sent: no journey of UDP has its sender"),
];

impl UnobservedHop {
    /// The missing information of captures with datagrams.
    pub(super) fn of(infos: &[NodeInfo]) -> Vec<Self> {
        let of_one = |info: &NodeInfo| {
            let (host, served) = (info.host.clone(), info.coverage.served());
            let lacks = move |(tie, tied, _): &&(Hop, &[Hop], _)| {
                !served.contains(*tie) && tied.iter().any(|hop| served.contains(*hop))
            };
            let lacking = TIES.iter().filter(lacks);
            lacking
                .map(move |(hop, _, what)| UnobservedHop { host: host.clone(), hop: *hop, what })
                .collect::<Vec<_>>()
        };
        infos.iter().flat_map(of_one).collect()
    }
}

pub(super) fn write(out: &mut String, rows: &[UnobservedHop], several: bool, width: usize) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    out.push_str("\nNot known, because a hop is missing:\n");
    for row in rows {
        let host = if several { format!("{}: ", row.host) } else { String::new() };
        wrap(out, &format!("  {:<15} {host}{}", row.hop.name(), row.what), width, &" ".repeat(18))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::Service;
    use magscope_core::source::Source;
    use magscope_core::{Generator, GeneratorOptions};

    fn without(hops: &[Hop]) -> Vec<NodeInfo> {
        let mut info = Generator::new(GeneratorOptions::default()).info().clone();
        for row in info.coverage.hops.iter_mut().filter(|row| hops.contains(&row.hop)) {
            row.service = Service::Off;
        }
        vec![info]
    }

    #[test]
    fn a_hop_is_named_where_others_that_rest_on_it_were_there() {
        let reported =
            |hops: &[Hop]| UnobservedHop::of(&without(hops)).iter().map(|row| row.hop).collect::<Vec<_>>();
        assert_eq!(reported(&[]), []);
        assert_eq!(reported(&[Hop::UdpRecv]), [Hop::UdpRecv]);
        assert_eq!(reported(&[Hop::UdpRecv, Hop::AppRecv]), [], "nothing is said of reads anyway");
        assert_eq!(
            reported(&[Hop::IpOut, Hop::AppSend]),
            [Hop::IpOut],
            "udp.send says nothing without it either"
        );
        let mut out = String::new();
        write(&mut out, &UnobservedHop::of(&without(&[Hop::UdpRecv])), false, 80).expect("a string");
        assert!(out.contains("  udp.recv        which datagram a read took"), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    }
}
