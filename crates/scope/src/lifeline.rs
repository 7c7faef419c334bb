//! A lifeline: a journey with the names of its ends, for the scope's memory and its pictures.

use crate::names::NetnsKey;
use magscope_core::journey::{Across, Journey, Latency, Rung};
use magscope_core::{Direction, Endpoint, Hop};

/// A stretch between two neighbouring events of a journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The hop it left.
    pub from: Hop,
    /// The hop at the end.
    pub to: Hop,
    /// Instant at that hop.
    pub at_ns: u64,
    /// Duration.
    pub ns: u64,
    /// The time between two copies: waiting for retransmission.
    pub is_wait: bool,
    /// Number of the forwarder that it reached, from 1; 0 at an end.
    pub forwarder: u8,
    /// Number of the outer packet whose hop it reached, from 1; 0 outside of tunnels.
    pub tunnel: u8,
}

impl Step {
    /// True within a forwarder, false at an end and over a wire.
    pub const fn is_inside_forwarder(&self) -> bool {
        let is_leg = matches!((self.from.direction(), self.to.direction()), (Direction::Tx, Direction::Rx));
        self.forwarder != 0 && !is_leg
    }

    const fn of(latency: &Latency) -> Self {
        Step {
            from: latency.from,
            to: latency.to,
            at_ns: latency.at_ns,
            ns: latency.ns,
            is_wait: latency.is_wait,
            forwarder: latency.forwarder,
            tunnel: latency.tunnel,
        }
    }
}

/// A journey in the scope's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifeline {
    /// The journey.
    pub journey: Journey,
    /// Sender and receiver, if one of its flows is known.
    pub ends: Option<(Endpoint, Endpoint)>,
    /// Node of the sender, if seen.
    pub from: Option<NetnsKey>,
    /// Node of the receiver, if seen.
    pub to: Option<NetnsKey>,
    /// Node of each forwarder, in the order of the path.
    pub passed: Vec<Option<NetnsKey>>,
    /// Instants of its first and last event: every picture asks each journey in memory for them.
    span_ns: (u64, u64),
}

impl Lifeline {
    /// A journey with the addresses of its ends, if one of its flows is known, and the nodes of its sender, its receiver
    /// and its forwarders.
    pub fn new(
        journey: Journey,
        ends: Option<(Endpoint, Endpoint)>,
        (from, to): (Option<NetnsKey>, Option<NetnsKey>),
        passed: Vec<Option<NetnsKey>>,
    ) -> Self {
        let of_copies = || journey.start_ns().map(|ns| (ns, ns));
        let (start_ns, end_ns) = journey.span_ns().or_else(of_copies).unwrap_or_default();
        Lifeline { journey, ends, from, to, passed, span_ns: (start_ns, end_ns.max(start_ns)) }
    }

    /// The correlator's number for the journey.
    pub const fn id(&self) -> u64 {
        self.journey.id
    }

    /// True if the time between the sender's half and the receiver's half is unknown: no line connects them.
    pub fn is_apart(&self) -> bool {
        self.journey.across == Across::Apart
    }

    /// The events of its ends in path order, except those taken at return.
    pub fn marks(&self) -> impl Iterator<Item = Rung> + '_ {
        self.journey.ladder().filter(|rung| rung.forwarder == 0)
    }

    /// Instant of the first event; 0 without one.
    pub const fn start_ns(&self) -> u64 {
        self.span_ns.0
    }

    /// Instant of the last event on the path.
    pub const fn end_ns(&self) -> u64 {
        self.span_ns.1
    }

    /// Time from the first event to the last, as far as the events show.
    pub const fn total_ns(&self) -> u64 {
        self.end_ns() - self.start_ns()
    }

    /// True if the network dropped or lost it. False for a journey that lacks events because the instrument
    /// lost them.
    pub const fn is_bad(&self) -> bool {
        self.journey.verdict.is_lost()
    }

    /// The steps of the journey in path order, each within one copy. The driver's return is off the path; pairs
    /// in the wrong order are left out (see [`Journey::latencies`]).
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.journey.latencies().map(|latency| Step::of(&latency))
    }

    /// The steps at the ends and over the wires: those of the hops' lanes.
    pub fn steps_outside_forwarders(&self) -> impl Iterator<Item = Step> + '_ {
        self.steps().filter(|step| !step.is_inside_forwarder())
    }

    /// The times in the forwarders, as a step from the first hop of each to its last, with its number.
    pub fn passages(&self) -> impl Iterator<Item = Step> + '_ {
        self.journey.forwarders.iter().zip(1..).filter_map(|(at, forwarder)| {
            let (ns, (_, to_ns)) = (at.inside_ns()?, at.span_ns()?);
            let (from, to) = (at.hops().next()?, at.last()?);
            Some(Step { from, to, at_ns: to_ns, ns, is_wait: false, forwarder, tunnel: 0 })
        })
    }

    /// The times between two copies, up to the one that ended the journey: waiting for retransmission.
    pub fn waits(&self) -> impl Iterator<Item = Step> + '_ {
        let ended = |(rung, _): &(Rung, Option<Step>)| rung.copy <= self.journey.copy;
        let again = Some(self).filter(|line| !line.journey.copies.is_empty());
        let spans = again.into_iter().flat_map(Self::spans);
        spans.filter(ended).filter_map(|(_, step)| step.filter(|step| step.is_wait))
    }

    /// Every event, those of outer packets included, in path order and each copy by itself, with the step or the wait for a retransmission that ends there.
    pub fn spans(&self) -> impl Iterator<Item = (Rung, Option<Step>)> + '_ {
        let spans = self.journey.spans_with_tunnels().filter(|(rung, _)| !rung.at_return);
        spans.map(|(rung, latency)| (rung, latency.as_ref().map(Step::of)))
    }

    /// The blamed step: the longest on the path, or the longest wait between two copies.
    pub fn blame(&self) -> Option<Step> {
        let half = self.journey.ladder().last().is_some_and(|rung| rung.hop == Hop::DevDone);
        let on_path = |(rung, _): &(Rung, Option<Step>)| {
            (rung.hop != Hop::DevDone || half) && rung.copy <= self.journey.copy
        };
        self.spans().filter(on_path).filter_map(|(_, step)| step).max_by_key(|step| step.ns)
    }

    /// The CPU for display: the one that received it from the device, which steering decides; otherwise that of
    /// its first event.
    pub fn cpu(&self) -> Option<u16> {
        let rungs = &self.journey.rungs;
        rungs.cpu(Hop::DevRecv).or_else(|| rungs.cpu(self.marks().next()?.hop))
    }

    /// True if part of it lies within `[from_ns, to_ns]`.
    pub const fn overlaps(&self, from_ns: u64, to_ns: u64) -> bool {
        self.start_ns() <= to_ns && self.end_ns() >= from_ns
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use magscope_core::hop::HopSet;
    use magscope_core::{Batch, Correlator, Event, ExtentKind, Flow, FlowId, Limits, Proto, Verdict};

    /// A complete TCP journey with these events, for tests: made by the correlator, as all are.
    pub(crate) fn lifeline(id: u64, marks: &[(Hop, u64)]) -> Lifeline {
        let flow = |id, netns, local: &str, remote: &str| Flow {
            id: FlowId(id),
            netns,
            proto: Proto::TCP,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
        };
        let (a, b) = ("10.0.0.1:1000", "10.0.0.2:80");
        let mut events: Vec<_> = marks
            .iter()
            .map(|&(hop, time_ns)| {
                let receiving = hop.direction() == magscope_core::Direction::Rx;
                Event {
                    flow: FlowId(if receiving { 2 } else { 1 }),
                    socket: if receiving { 2 } else { 1 },
                    cpu: if receiving { 5 } else { 2 },
                    extent: ExtentKind::Stream.of(1000),
                    len: 100,
                    segs: 1,
                    ..Event::at(hop, time_ns)
                }
            })
            .collect();
        events.sort_by_key(|event| event.time_ns);
        let watermark_ns = events.last().map_or(0, |event| event.time_ns);
        let flows = vec![flow(1, 1, a, b), flow(2, 2, b, a)];
        let served: HopSet = marks.iter().map(|(hop, _)| *hop).collect();
        let mut correlator = Correlator::new(served, Limits::default());
        let mut done = Vec::new();
        correlator.push(&Batch { events, flows, watermark_ns, ..Batch::default() }, &mut done);
        correlator.finish(&mut done);
        let mut journey = done.pop().expect("these events make a journey");
        journey.id = id;
        journey.verdict = Verdict::Complete;
        let ends = Some((a.parse().unwrap(), b.parse().unwrap()));
        let netns_key = |netns| Some(NetnsKey { node: 0, netns });
        Lifeline::new(journey, ends, (netns_key(1), netns_key(2)), Vec::new())
    }

    #[test]
    fn it_is_of_the_cpu_that_received_it() {
        let sent = [(Hop::AppSend, 100), (Hop::DevXmit, 120)];
        assert_eq!(lifeline(1, &sent).cpu(), Some(2));
        assert_eq!(lifeline(1, &[sent[0], sent[1], (Hop::DevRecv, 150)]).cpu(), Some(5));
        assert_eq!(lifeline(1, &[sent[0], (Hop::AppRecv, 150)]).cpu(), Some(2), "the device was not seen");
    }

    #[test]
    fn the_wire_starts_at_the_driver_not_at_its_return() {
        let line =
            lifeline(1, &[(Hop::DevXmit, 100), (Hop::DevDone, 180), (Hop::DevRecv, 150), (Hop::AppRecv, 190)]);
        let steps: Vec<_> = line.steps().map(|s| (s.from, s.to, s.ns)).collect();
        let expected = [
            (Hop::DevXmit, Hop::DevDone, 80),
            (Hop::DevXmit, Hop::DevRecv, 50),
            (Hop::DevRecv, Hop::AppRecv, 40),
        ];
        assert_eq!(steps, expected);
        assert_eq!(line.total_ns(), 90);
        assert_eq!(line.blame().map(|step| step.to), Some(Hop::DevRecv), "the driver's return delays nobody");
    }
}
