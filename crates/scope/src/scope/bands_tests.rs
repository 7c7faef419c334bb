//! Which bands a picture has, and what they show.

use super::Scope;
use crate::action::Action;
use crate::lane::Place;
use crate::look::Stop;
use crate::pick::Pick;
use crate::scope::Options;
use crate::{Lifeline, View};
use forwarded::{APART_NS, START_NS};
use magscope_core::{FlowId, Hop, Proto};

#[path = "../../../tui/tests/made_up/forwarded.rs"]
mod forwarded;

const US: u64 = 1_000;

/// A second of datagrams through so many forwarders.
fn through(forwarders: u8) -> Scope {
    let mut scope = Scope::new(forwarded::info(3), Options::default());
    (0..500).step_by(50).for_each(|n| scope.ingest(&forwarded::batch(forwarders, n..n + 50)));
    scope
}

/// The rows between the receiver's hops and the sender's, from the top.
fn bands(scope: &Scope) -> Vec<Place> {
    let places = scope.frame().lanes.iter().map(|lane| lane.place);
    places.filter(|place| !matches!(place, Place::Hop(_))).collect()
}

fn stops(scope: &Scope, line: &Lifeline) -> Vec<(Place, u64)> {
    scope.stops(line).iter().map(|Stop { place, time_ns, .. }| (*place, time_ns - line.start_ns())).collect()
}

const ONE: [Place; 3] = [Place::Wire(1), Place::Forwarder(1), Place::Wire(0)];

#[test]
fn there_are_as_many_bands_as_nodes_between_the_ends() {
    assert_eq!(bands(&through(0)), [Place::Wire(0)]);
    assert_eq!(bands(&through(1)), ONE);
    let three = bands(&through(3));
    assert_eq!(three.len(), 7, "{three:?}");
    assert_eq!((three[1], three[6]), (Place::Forwarder(3), Place::Wire(0)), "the first is at the bottom");
    let names = |scope: &Scope| scope.frame().bands.iter().map(|band| band.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&through(3)), ["router-1", "router-2", "router-3"]);
}

#[test]
fn a_lifeline_has_a_stroke_in_each_band() {
    let mut scope = through(1);
    scope.apply(Action::SelectJourney(1));
    let line = scope.selected.clone().expect("a journey");
    let stops: Vec<_> = stops(&scope, &line).into_iter().map(|(place, _)| place).collect();
    let band = stops.iter().filter(|place| **place == Place::Forwarder(1)).count();
    assert_eq!(band, 2, "its first and its last event there: {stops:?}");
    let at = stops.iter().position(|place| *place == Place::Forwarder(1)).unwrap();
    assert_eq!((stops[at - 1], stops[at + 2]), (Place::Hop(Hop::DevXmit), Place::Hop(Hop::DevRecv)));
    assert!(scope.stops(&line).is_sorted_by_key(|stop| stop.time_ns));

    scope.apply(Action::ToggleForwarder(1));
    let inside = |hop| Place::Inside(1, hop);
    let open = [
        Place::Wire(1),
        Place::Forwarder(1),
        inside(Hop::DevXmit),
        inside(Hop::DevQueue),
        inside(Hop::IpPost),
        inside(Hop::IpPre),
        inside(Hop::DevRecv),
        Place::Wire(0),
    ];
    assert_eq!(bands(&scope), open);
    let stops: Vec<_> = scope.stops(&line).into_iter().map(|stop| stop.place).collect();
    let mut passed: Vec<_> = stops.into_iter().filter(|place| matches!(place, Place::Inside(..))).collect();
    passed.reverse();
    assert_eq!(passed, open[2..7], "an event in each row, upwards with time");
    scope.apply(Action::ToggleForwarder(1));
    assert_eq!(bands(&scope), ONE);
}

#[test]
fn bands_follow_the_selection_and_stay_without_one() {
    let mut scope = through(0);
    assert_eq!(bands(&scope), [Place::Wire(0)]);
    let direct = scope.memory.recent().next().expect("a journey").key();
    // The same flow later goes through a node.
    scope.ingest(&forwarded::batch(1, 500..600));
    scope.ingest(&forwarded::batch(1, 600..1_000));
    assert_eq!(bands(&scope), ONE);
    // What is shown later passes no node.
    scope.ingest(&forwarded::batch(0, 1_000..1_500));
    scope.ingest(&forwarded::batch(0, 1_500..4_000));
    assert_eq!(bands(&scope), ONE, "nothing but the user takes a band away");
    scope.apply(Action::ChooseJourney(direct));
    assert_eq!(bands(&scope), [Place::Wire(0)], "the selected journey has none");
    scope.apply(Action::Back);
    assert_eq!(bands(&scope), ONE);
    scope.apply(Action::Clear);
    assert_eq!(bands(&scope), [Place::Wire(0)]);
}

#[test]
fn a_pick_or_a_filter_has_the_bands_of_its_journeys() {
    let mut scope = through(3);
    scope.apply(Action::Pick(Pick::Flow(FlowId(77))));
    assert_eq!(bands(&scope), [Place::Wire(0)], "no journey of this flow");
    scope.apply(Action::Pick(Pick::Flow(FlowId(1))));
    assert_eq!(bands(&scope).len(), 7);
    scope.apply(Action::Filter("port = 9".to_owned()));
    assert_eq!(bands(&scope), [Place::Wire(0)]);
}

#[test]
fn a_band_of_different_nodes_is_for_all_and_one_of_a_selected_journey_for_its_node() {
    let mut scope = through(1);
    let one = scope.memory.recent().next().expect("a journey").clone();
    let mut other = one.clone();
    other.passed.iter_mut().flatten().for_each(|node| node.netns = 7);
    let in_band = |scope: &Scope, line| scope.stops(line).iter().any(|stop| stop.place == Place::Forwarder(1));
    assert!(in_band(&scope, &one) && !in_band(&scope, &other));
    assert!(scope.stats_of_band(1).is_some());
    scope.counts.passages.add(&other);
    scope.arrange_bands();
    assert_eq!(scope.frame().bands[0].name, "forwarder 1");
    assert!(in_band(&scope, &one) && in_band(&scope, &other));
    scope.selected = Some(one.clone());
    scope.arrange_bands();
    assert_eq!(scope.frame().bands[0].name, "router-1");
    assert!(in_band(&scope, &one) && !in_band(&scope, &other));
    assert_eq!(scope.stats_of_band(1), None, "the counts are of several nodes");
}

#[test]
fn a_band_has_its_rate_its_times_and_the_translation() {
    let mut scope = through(1);
    let band = scope.frame().lanes.iter().find(|lane| lane.place == Place::Forwarder(1)).cloned().unwrap();
    let latency = band.stats.as_ref().and_then(|stats| stats.latency).expect("times");
    assert!((latency.p50_ns..=latency.max_ns).contains(&latency.p99_ns));
    assert!((8 * US..9 * US).contains(&latency.p50_ns) && latency.max_ns > 60 * US, "{latency:?}");
    scope.apply(Action::SelectJourney(1));
    let forwarding = scope.frame().forwarding(1).expect("it passed");
    let ns = forwarding.ns.expect("its time");
    assert!(ns > 60 * US, "the slowest journey");
    assert_eq!((forwarding.rx_interface.as_str(), forwarding.tx_interface.as_str()), ("wan", "br0"));
    assert_eq!(forwarding.translation.as_deref(), Some("DNAT 10.88.0.3:80 ← 192.0.2.1:8080"));
    let (inside, wire): (Vec<_>, Vec<_>) = forwarding.steps.iter().partition(|(hop, _)| *hop != Hop::DevRecv);
    assert_eq!(inside.iter().map(|(_, ns)| ns).sum::<u64>(), ns);
    let legs = [0, 1].map(|number| scope.frame().leg(number));
    assert_eq!(legs[0].ns, Some(wire[0].1));
    let names = legs.map(|leg| (leg.from, leg.to));
    let expected = [("client", "router-1 wan"), ("router-1 br0", "web")];
    assert_eq!(names, expected.map(|(from, to)| (from.to_owned(), to.to_owned())));
    assert_eq!((scope.frame().forwarding(0), scope.frame().forwarding(2)), (None, None));
    scope.apply(Action::ToggleInspector);
    let ladder = scope.frame().inspector.expect("its ladder").rungs;
    let who: Vec<_> = ladder.iter().filter(|row| row.mark.forwarder == 1).map(|row| row.who.as_str()).collect();
    let translated = "router-1, DNAT 10.88.0.3:80 ← 192.0.2.1:8080";
    assert_eq!(who, ["router-1", "router-1", translated, "router-1", "router-1"]);
}

#[test]
fn the_times_of_a_hop_are_those_of_the_ends() {
    use crate::look::Span;
    let mut scope = through(1);
    scope.apply(Action::ZoomTo { from_ns: START_NS, to_ns: START_NS + 500 * APART_NS });
    let lane = |hop| scope.lanes.iter().find(|lane| lane.hop() == Some(hop)).cloned();
    let latency = |hop| lane(hop).and_then(|lane| lane.stats?.latency).expect("times");
    let sent = latency(Hop::DevXmit);
    assert!(
        sent.from == Some(Hop::DevQueue) && sent.max_ns < 2 * US,
        "the slow ones were slow in the forwarder: {sent:?}"
    );
    assert_eq!(latency(Hop::IpPost).from, Some(Hop::IpOut));
    let map = scope.heat_map(10, 10, &(0..usize::MAX));
    let row = |span| map.rows.iter().find(|row| row.span == span);
    let inside = row(Span::Forwarder(1)).expect("a row of the forwarder").times;
    assert!(inside.max_ns > 60 * US);
    assert!(row(Span::Step(Hop::IpPre, Hop::IpPost)).is_none());
    let wires = row(Span::Step(Hop::DevXmit, Hop::DevRecv)).expect("the wires").times.n;
    assert_eq!(wires, 2 * inside.n, "one for each leg");
}

#[test]
fn the_spans_of_a_journey_through_nodes_add_up() {
    use crate::look::Span;
    let mut scope = through(3);
    scope.apply(Action::SelectJourney(1));
    let line = scope.selected.clone().expect("a journey");
    let spans = crate::measure::spans(&line).map(|(_, step)| step.ns);
    assert_eq!(spans.sum::<u64>(), line.total_ns());
    let readings = crate::measure::exact([&line].into_iter(), 0, u64::MAX);
    let forwarders = readings.iter().filter(|reading| matches!(reading.span, Span::Forwarder(_)));
    let numbers: Vec<_> = forwarders.map(|reading| (reading.proto, reading.span)).collect();
    assert_eq!(numbers, [1, 2, 3].map(|number| (Some(Proto::UDP), Span::Forwarder(number))));
}

#[test]
fn the_density_of_a_band_is_that_of_its_journeys() {
    let mut scope = through(1);
    scope.apply(Action::ZoomTo { from_ns: START_NS, to_ns: START_NS + 500 * APART_NS });
    let density = scope.frame().density(50);
    let row = density.lanes.iter().find(|row| row.place == Place::Forwarder(1)).expect("a row");
    let through: u64 = row.cells.iter().map(|cell| cell.count).sum();
    assert!((490..=500).contains(&through), "{through}");
}

#[test]
fn the_key_that_opens_is_for_what_was_selected_last() {
    use crate::command::FrontEndCommand;
    let mut scope = through(1);
    let at = |scope: &Scope| scope.frame().controls.lane;
    let up = |scope: &mut Scope| scope.apply(Action::SelectLane(-1));
    let open = |scope: &mut Scope| {
        let action = FrontEndCommand::Open.action(scope.frame().controls).expect("an action");
        scope.apply(action);
    };
    for _ in 0..40 {
        if at(&scope) == Some(Place::Forwarder(1)) {
            break;
        }
        up(&mut scope);
    }
    assert_eq!(at(&scope), Some(Place::Forwarder(1)), "up from the last hop");
    open(&mut scope);
    assert!(scope.frame().bands[0].is_open);
    scope.apply(Action::SelectJourney(1));
    open(&mut scope);
    assert!(scope.frame().inspector.is_some(), "the journey hop by hop");
    scope.apply(Action::ChooseLane(Some(Place::Forwarder(1))));
    scope.apply(Action::Clear);
    assert_eq!(at(&scope), None, "a lane that is gone is not selected");
    scope.apply(Action::Show(View::Scope));
}
