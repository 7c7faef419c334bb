//! Picks: selection by click instead of by a filter expression.

use crate::lifeline::Lifeline;
use crate::names::Names;
use crate::topology::PathPick;
use magscope_core::FlowId;
use magscope_core::context::Context;

/// The target of a click.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// No target: clears all picks.
    Nothing,
    /// A connection: both its directions.
    Flow(FlowId),
    /// A process, sending or reading.
    Process(u32),
    /// A container: its cgroup's number, sending or reading.
    Container(u64),
    /// A CPU: all journeys with an event on it.
    Cpu(u16),
    /// Journeys with this kind of verdict: a number of [`magscope_core::Verdict::kind`].
    Verdict(usize),
    /// Journeys whose path begins with these legs.
    Path(PathPick),
}

impl Pick {
    /// True if a journey matches the pick.
    pub fn means(&self, line: &Lifeline, names: &Names) -> bool {
        let journey = &line.journey;
        let context: &dyn Context = names;
        match self {
            Self::Nothing => true,
            Self::Flow(flow) => {
                let own = |id: FlowId| !id.is_none() && id == *flow;
                own(journey.tx_flow) || own(journey.rx_flow) || Self::is_the_other_way(*flow, line, names)
            }
            Self::Process(tgid) => {
                [journey.sender, journey.reader].into_iter().flatten().any(|who| who.tgid == *tgid)
            }
            Self::Container(id) => [context.sender(journey), context.reader(journey)]
                .into_iter()
                .flatten()
                .any(|task| task.cgroup == *id),
            Self::Cpu(cpu) => journey.all_rungs().any(|rung| rung.cpu == *cpu),
            Self::Verdict(kind) => journey.verdict.kind() == *kind,
            Self::Path(path) => path.matches(journey, names),
        }
    }

    /// True if two picks have one kind, so that the later replaces the earlier.
    pub fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// The replies to the picked flow have swapped ends.
    fn is_the_other_way(flow: FlowId, line: &Lifeline, names: &Names) -> bool {
        let nodes = 0..names.infos().len().max(1) as u16;
        let found = nodes.into_iter().find_map(|node| names.flow(node, flow));
        found.zip(line.ends).is_some_and(|(flow, (from, to))| {
            flow.proto == line.journey.proto
                && ((flow.local, flow.remote) == (from, to) || (flow.remote, flow.local) == (from, to))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;
    use magscope_core::journey::ThreadRef;
    use magscope_core::{Batch, Flow, Hop, Proto, Task, Verdict};

    #[test]
    fn each_kind_of_pick() {
        let mut names = Names::default();
        let task = Task { tgid: 70, tid: 71, uid: 0, cgroup: 9, comm: "x".to_owned() };
        let (local, remote) = ("10.0.0.2:80".parse().unwrap(), "10.0.0.1:1000".parse().unwrap());
        let back = Flow { id: FlowId(99), netns: 2, proto: Proto::TCP, local, remote };
        names.learn(0, &Batch { flows: vec![back], tasks: vec![task], ..Batch::default() });
        let mut line = lifeline(1, &[(Hop::DevXmit, 1), (Hop::AppRecv, 2)]);
        line.journey.reader = Some(ThreadRef { tgid: 70, tid: 71 });
        let table = [
            (Pick::Nothing, true),
            (Pick::Flow(line.journey.tx_flow), true),
            (Pick::Flow(FlowId(99)), true),
            (Pick::Flow(FlowId(98)), false),
            (Pick::Process(70), true),
            (Pick::Process(71), false),
            (Pick::Container(9), true),
            (Pick::Container(8), false),
            (Pick::Cpu(2), true),
            (Pick::Cpu(5), true),
            (Pick::Cpu(0), false),
            (Pick::Verdict(Verdict::Complete.kind()), true),
            (Pick::Verdict(Verdict::InFlight.kind()), false),
        ];
        for (pick, means) in table {
            assert_eq!(pick.means(&line, &names), means, "{pick:?}");
        }
    }
}
