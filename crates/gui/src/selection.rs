//! What is exported: the journeys that the screen shows, as one condition of a filter.

use crate::world::Trouble;
use magscope_core::{Endpoint, FlowId, Verdict};
use magscope_scope::{Controls, Frame, Lifeline, Pick, condition};

/// The condition of the journeys that filter, protocol and picks choose; empty for all.
///
/// # Errors
/// A choice that no condition names, with what to do instead.
pub fn condition(frame: &Frame) -> Result<String, Trouble> {
    of_controls(frame.controls, |flow| ends_of(frame, flow))
}

/// The same. `ends` finds the addresses of a flow.
fn of_controls(
    controls: &Controls,
    ends: impl Fn(FlowId) -> Option<(Endpoint, Endpoint)>,
) -> Result<String, Trouble> {
    if controls.route.is_some() {
        return Err(refused(
            "no condition names a route from one node to another",
            "show all routes (`n`), filter by an address instead, as in `src = 10.0.0.1`, and export that",
        ));
    }
    let mut parts: Vec<String> = controls.journey_filter().map(ToString::to_string).into_iter().collect();
    parts.extend(controls.proto.map(|proto| format!("proto = {proto}")));
    for pick in &controls.picks {
        parts.extend(match pick {
            Pick::Nothing => None,
            Pick::Flow(flow) => Some(of_flow(*flow, ends(*flow))),
            Pick::Process(tgid) => Some(format!("pid = {tgid}")),
            Pick::Container(cgroup) => Some(format!("cgroup = {cgroup}")),
            Pick::Cpu(cpu) => Some(format!("cpu = {cpu}")),
            Pick::Verdict(kind) => Verdict::NAMES.get(*kind).map(|name| format!("verdict = {name}")),
            Pick::Path(path) => {
                return Err(refused(
                    &format!("no condition names a path ({})", path.words),
                    "undo what was picked (`b`), filter by an address or a node instead, and export that",
                ));
            }
        });
    }
    Ok(match parts.as_slice() {
        [one] => one.clone(),
        several => several.iter().map(|part| format!("({part})")).collect::<Vec<_>>().join(" and "),
    })
}

fn refused(why: &str, next: &str) -> Trouble {
    Trouble { what: "nothing was exported".to_owned(), why: why.to_owned(), next: next.to_owned() }
}

/// Both directions of a connection. A journey that only the other end saw has the addresses of this flow, and not its
/// number.
fn of_flow(flow: FlowId, ends: Option<(Endpoint, Endpoint)>) -> String {
    let own = format!("flow = {flow}");
    ends.map_or_else(|| own.clone(), |ends| format!("{own} or {}", condition::of_ends(ends)))
}

/// The addresses of a flow, by a journey on the screen: by one that it sent, if there is one.
fn ends_of(frame: &Frame, flow: FlowId) -> Option<(Endpoint, Endpoint)> {
    let lines = || frame.sweep.lifelines.iter().chain(frame.table.iter().map(|listed| listed.line));
    let sent = |line: &&Lifeline| line.journey.tx_flow == flow;
    let read = |line: &&Lifeline| line.journey.rx_flow == flow;
    lines().find(sent).or_else(|| lines().find(read))?.ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::{Filter, Proto};
    use magscope_scope::{Choice, PathPick, Route};

    fn ends(flow: FlowId) -> Option<(Endpoint, Endpoint)> {
        let ends = || ("10.0.0.7:41022".parse().unwrap(), "[fd00::9]:5432".parse().unwrap());
        (!flow.is_none()).then(ends)
    }

    fn picked(pick: Pick) -> Controls {
        Controls { picks: vec![pick], ..Controls::default() }
    }

    #[test]
    fn every_choice_that_a_filter_can_name_is_part_of_the_condition() {
        let table = [
            (Controls::default(), ""),
            (Controls { proto: Some(Proto::UDP), ..Controls::default() }, "proto = udp"),
            (picked(Pick::Flow(FlowId(11))), "flow = 000000000000000b or flow = 10.0.0.7:41022-[fd00::9]:5432"),
            (picked(Pick::Process(70)), "pid = 70"),
            (picked(Pick::Container(9)), "cgroup = 9"),
            (picked(Pick::Cpu(3)), "cpu = 3"),
            (picked(Pick::Verdict(Verdict::DROPPED)), "verdict = dropped"),
        ];
        for (controls, wanted) in table {
            let condition = of_controls(&controls, ends).expect(wanted);
            assert_eq!(condition, wanted);
            assert!(wanted.is_empty() || Filter::parse(wanted).is_ok(), "{wanted}");
        }
        assert_eq!(
            of_controls(&picked(Pick::Flow(FlowId(11))), |_| None).expect("by its number"),
            "flow = 000000000000000b"
        );
    }

    #[test]
    fn several_choices_hold_at_once() {
        let controls = Controls {
            filter: Some(Choice::parse("port = 80 or lost").expect("a filter")),
            proto: Some(Proto::TCP),
            picks: vec![Pick::Flow(FlowId(11)), Pick::Cpu(3)],
            ..Controls::default()
        };
        let condition = of_controls(&controls, |_| None).expect("a condition");
        assert_eq!(
            condition,
            "(port = 80 or verdict = lost) and (proto = tcp) and (flow = 000000000000000b) and (cpu = 3)"
        );
        assert!(Filter::parse(&condition).is_ok());
    }

    #[test]
    fn what_no_filter_names_is_refused_in_words() {
        let path = PathPick { legs: Vec::new(), with_unseen: false, words: "client → server".to_owned() };
        let route = Controls { route: Some(Route { from: None, to: None }), ..Controls::default() };
        for (controls, words) in [(picked(Pick::Path(path)), "client → server"), (route, "route")] {
            let trouble = of_controls(&controls, ends).expect_err(words);
            assert!(trouble.why.contains(words) && !trouble.next.is_empty(), "{trouble:?}");
        }
    }
}
