//! The counts of made-up journeys between a client, a node and a server.

use super::*;
use crate::look::TopologyPanel;
use crate::names::{Names, NetnsKey};
use crate::topology::panel::TopologyQuery;
use magscope_core::journey::{Across, SentCopy};
use magscope_core::node::{DropReason, InterfaceName, NetnsName, NodeInfo};
use magscope_core::{Batch, Correlator, DetailKind, Direction, Event, Flow, FlowId, HopSet, Limits, Proto};

const CLIENT: FlowId = FlowId(11);
const NODE_IN: FlowId = FlowId(91);
const NODE_OUT: FlowId = FlowId(92);
const SERVER: FlowId = FlowId(22);
const SECOND: u64 = 1_000_000_000;

const SENDS: [Hop; 3] = [Hop::IpOut, Hop::DevQueue, Hop::DevXmit];
const PASSES: [(Hop, FlowId); 3] =
    [(Hop::DevRecv, NODE_IN), (Hop::DevQueue, NODE_OUT), (Hop::DevXmit, NODE_OUT)];
const ARRIVES: [Hop; 4] = [Hop::DevRecv, Hop::IpIn, Hop::UdpRecv, Hop::SockReady];

fn flow(id: FlowId, netns: u32, local: &str, remote: &str) -> Flow {
    let end = |text: &str| text.parse().expect("an address");
    Flow { id, netns, proto: Proto::UDP, local: end(local), remote: end(remote) }
}

/// The node gives the client's packets its own address, or leaves them.
fn flows(is_translated: bool) -> Vec<Flow> {
    let own = if is_translated { "192.0.2.1:4000" } else { "10.0.0.1:4000" };
    vec![
        flow(CLIENT, 1, "10.0.0.1:4000", "10.0.0.2:80"),
        flow(NODE_IN, 9, "10.0.0.2:80", "10.0.0.1:4000"),
        flow(NODE_OUT, 9, own, "10.0.0.2:80"),
        flow(SERVER, 2, "10.0.0.2:80", own),
    ]
}

fn info() -> NodeInfo {
    let named = |netns, name: &str| NetnsName { netns, name: name.to_owned() };
    let interface =
        |index, name: &str| InterfaceName { netns: 9, index, name: name.to_owned(), kind: String::new() };
    NodeInfo {
        host: "host".to_owned(),
        netns: vec![named(1, "client"), named(9, "node"), named(2, "server")],
        interfaces: vec![interface(3, "left"), interface(4, "right")],
        drop_reasons: vec![DropReason { number: 8, name: "netfilter_drop".to_owned() }],
        ..NodeInfo::default()
    }
}

fn names(flows: Vec<Flow>) -> Names {
    let mut names = Names::new(vec![info()]);
    names.learn(0, &Batch { flows, ..Batch::default() });
    names
}

/// Where the packet of a datagram ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// It is read.
    Read,
    /// The node drops it.
    DroppedInNode,
    /// It is not seen behind the node.
    LostBehindNode,
}

/// A datagram 1 µs long: 100 ns to the node, 60 in it, 140 to the server.
fn datagram(time_ns: u64, ip_id: u16, until: Until) -> Vec<Event> {
    let at = |hop: Hop, after_ns: u64, flow: FlowId| Event {
        flow,
        len: 40,
        ip_id,
        skb: u32::from(ip_id) + 7,
        segs: 1,
        proto: Proto::UDP,
        ..Event::at(hop, time_ns + after_ns)
    };
    let mut events: Vec<Event> = SENDS
        .iter()
        .zip([10, 20, 30])
        .map(|(hop, ns)| Event { tgid: 5, tid: 5, socket: 50, ..at(*hop, ns, CLIENT) })
        .collect();
    let entry = Event { ifindex: 3, ..at(Hop::DevRecv, 130, NODE_IN) };
    events.push(entry);
    if until == Until::DroppedInNode {
        let detail = DetailKind::DropReason.of(8);
        events.push(Event { hop: Hop::SkbDrop, time_ns: time_ns + 150, detail, ..entry });
        return events;
    }
    events.extend(
        PASSES[1..].iter().zip([180, 190]).map(|((hop, flow), ns)| Event { ifindex: 4, ..at(*hop, ns, *flow) }),
    );
    if until == Until::LostBehindNode {
        return events;
    }
    events.extend(
        ARRIVES.iter().zip([330, 340, 350, 360]).map(|(hop, ns)| Event { socket: 70, ..at(*hop, ns, SERVER) }),
    );
    let read = Event { tgid: 7, tid: 7, socket: 70, ..at(Hop::AppRecv, 1_000, SERVER) };
    events.push(Event { skb: 0, ip_id: 0, ..read });
    events
}

fn served() -> HopSet {
    let path = SENDS.iter().chain(&ARRIVES);
    path.copied().chain([Hop::AppRecv, Hop::SkbDrop]).collect()
}

fn journeys(flows: &[Flow], ends: &[Until]) -> Vec<Journey> {
    let mut events: Vec<Event> =
        (0..).zip(ends).flat_map(|(n, until)| datagram(SECOND * (u64::from(n) + 1), n + 1, *until)).collect();
    events.sort_by_key(|event| event.time_ns);
    let watermark_ns = events.last().map_or(0, |event| event.time_ns);
    let mut correlator = Correlator::new(served(), Limits::default());
    let mut done = Vec::new();
    correlator.push(&Batch { events, flows: flows.to_vec(), watermark_ns, ..Batch::default() }, &mut done);
    let watermark_ns = watermark_ns + 60 * SECOND;
    correlator.push(&Batch { watermark_ns, ..Batch::default() }, &mut done);
    correlator.finish(&mut done);
    done.sort_by_key(Journey::start_ns);
    assert_eq!(done.len(), ends.len(), "{done:#?}");
    done
}

fn counted(journeys: &[Journey], names: &Names) -> Topology {
    let mut topology = Topology::default();
    for journey in journeys {
        topology.journey(journey, names);
    }
    topology
}

fn query<'a>(names: &'a Names, selected: &'a [PathLeg]) -> TopologyQuery<'a> {
    TopologyQuery { names, selected, now_ns: 0, counted_ns: None, weight: Some(1.0), has_sums: false }
}

fn panel(topology: &Topology, names: &Names) -> TopologyPanel {
    topology.panel(&query(names, &[]), 100)
}

/// Name, journeys, median of the leg and of the time inside, failures.
fn rows(panel: &TopologyPanel) -> Vec<(String, u64, u64, u64, u64)> {
    let row = |row: &LegRow| {
        let name = format!("{}{}", row.guides, row.place);
        (name, row.journeys, row.times.p50_ns, row.inside.p50_ns, row.failed)
    };
    panel.rows.iter().map(row).collect()
}

fn row(name: &str, journeys: u64, leg_ns: u64, inside_ns: u64, failed: u64) -> (String, u64, u64, u64, u64) {
    (name.to_owned(), journeys, leg_ns, inside_ns, failed)
}

#[test]
fn a_path_has_its_legs_the_time_in_the_forwarder_and_its_translation() {
    for is_translated in [false, true] {
        let flows = flows(is_translated);
        let names = names(flows.clone());
        let panel = panel(&counted(&journeys(&flows, &[Until::Read; 3]), &names), &names);
        assert_eq!(
            rows(&panel),
            [
                row("client", 3, 0, 0, 0),
                row("└─▶ node (in left)", 3, 100, 60, 0),
                row("   └─right─▶ server", 3, 140, 0, 0),
            ]
        );
        let changes: Vec<&str> = panel.rows.iter().map(|row| row.translation.as_str()).collect();
        let change = if is_translated { "source 10.0.0.1:4000 → 192.0.2.1:4000" } else { "" };
        assert_eq!(changes, ["", change, ""]);
        assert_eq!((panel.rows[2].whole.n, panel.rows[2].whole.p50_ns), (3, 990), "the whole journeys");
        assert_eq!((panel.rows[0].bytes, panel.rows[0].whole.n), (120, 0));
        // Three datagrams from one second to another, and not quite a microsecond.
        assert!(panel.rows.iter().all(|row| row.cell(LegColumn::Rate) == "1.50  /s"), "{:?}", panel.rows);
    }
}

#[test]
fn a_failure_is_of_the_place_where_it_happened() {
    let flows = flows(false);
    let names = names(flows.clone());
    let ends = [Until::Read, Until::DroppedInNode, Until::LostBehindNode, Until::DroppedInNode];
    let topology = counted(&journeys(&flows, &ends), &names);
    let panel = panel(&topology, &names);
    assert_eq!(
        rows(&panel),
        [
            row("client", 4, 0, 0, 0),
            row("└─▶ node (in left)", 4, 100, 60, 2),
            row("   └─right─▶ server", 2, 140, 0, 1),
        ],
        "what was lost behind the node was on its flow's leg"
    );
    assert!(panel.rows[1].reason.contains("netfilter_drop at left"), "{}", panel.rows[1].reason);
    assert!(panel.rows[2].reason.starts_with("lost after dev.xmit of node"), "{}", panel.rows[2].reason);
    let details = topology.panel(&query(&names, &panel.rows[1].path), 1).details;
    assert!(details.iter().any(|line| line.starts_with("2× dropped after ")), "{details:?}");
    assert_eq!(panel.rows.iter().map(|row| row.failed).sum::<u64>(), 3, "each is in one row");
}

#[test]
fn what_never_arrived_anywhere_has_a_leg_to_nowhere() {
    let flows = flows(false);
    let names = names(flows.clone());
    // The server is in the capture: one datagram before them arrives.
    let ends = [Until::Read, Until::LostBehindNode, Until::LostBehindNode];
    let panel = panel(&counted(&journeys(&flows, &ends)[1..], &names), &names);
    let last = panel.rows.last().expect("a row");
    assert_eq!((last.place.as_str(), last.journeys, last.failed), ("✕ not seen again", 2, 2));
    assert_eq!((last.guides.as_str(), last.times.n), ("   └─right─▶ ", 0));
}

#[test]
fn a_pick_chooses_the_journeys_of_a_row() {
    let flows = flows(false);
    let names = names(flows.clone());
    let ends = [Until::Read, Until::DroppedInNode, Until::LostBehindNode];
    let journeys = journeys(&flows, &ends);
    let topology = counted(&journeys, &names);
    for row in panel(&topology, &names).rows {
        let pick = topology.pick(&query(&names, &row.path)).expect("a row");
        let matching = journeys.iter().filter(|journey| pick.matches(journey, &names)).count();
        assert_eq!((matching as u64, &pick.legs), (row.journeys, &row.path), "{}", pick.words);
        assert_eq!(pick.with_unseen, row.place == "server");
    }
    let path = panel(&topology, &names).rows.remove(2).path;
    let words = topology.pick(&query(&names, &path)).map(|pick| pick.words);
    assert_eq!(words.as_deref(), Some("client → node → server"));
}

#[test]
fn the_selection_moves_over_the_rows_and_stays_within_them() {
    let flows = flows(false);
    let names = names(flows.clone());
    let topology = counted(&journeys(&flows, &[Until::Read]), &names);
    let mut selected = Vec::new();
    for (by, depth) in [(1, 2), (1, 3), (9, 3), (-1, 2), (-9, 1), (i32::MIN, 1), (i32::MAX, 3)] {
        selected = topology.path_at(&query(&names, &selected), by).expect("a row");
        assert_eq!(selected.len(), depth);
        let one = topology.panel(&query(&names, &selected), 1);
        assert_eq!((one.rows.len(), one.rows[0].selected, one.first + 1), (1, true, depth), "it is shown");
    }
    assert_eq!(Topology::default().path_at(&query(&names, &[]), 1), None);
}

/// The journeys with one of their halves.
fn half(journeys: &[Journey], direction: Direction) -> Vec<Journey> {
    let mut events =
        (0..).zip(journeys).flat_map(|(n, _)| datagram(SECOND * (n + 1), n as u16 + 1, Until::Read));
    let own = if direction == Direction::Tx { CLIENT } else { SERVER };
    let flows: Vec<Flow> = flows(false).into_iter().filter(|flow| flow.id == own).collect();
    let mut events: Vec<Event> = events.by_ref().filter(|event| event.flow == own).collect();
    events.sort_by_key(|event| event.time_ns);
    let mut correlator = Correlator::new(served(), Limits::default());
    let mut done = Vec::new();
    correlator.push(&Batch { events, flows, watermark_ns: SECOND, ..Batch::default() }, &mut done);
    correlator.finish(&mut done);
    done
}

#[test]
fn the_other_end_of_a_half_is_outside() {
    let whole = journeys(&flows(false), &[Until::Read; 2]);
    for (direction, expected) in
        [(Direction::Tx, ["client", "└─▶ outside"]), (Direction::Rx, ["outside", "└─▶ server"])]
    {
        let names = names(flows(false));
        let panel = panel(&counted(&half(&whole, direction), &names), &names);
        let found: Vec<String> = rows(&panel).into_iter().map(|row| row.0).collect();
        assert_eq!(found, expected);
        assert!(
            panel.rows.iter().all(|row| (row.journeys, row.times.n, row.whole.n, row.failed) == (2, 0, 0, 0)),
            "{panel:#?}"
        );
    }
}

#[test]
fn a_time_between_two_clocks_has_their_error_and_none_without_a_bound() {
    let flows = flows(false);
    let names = names(flows.clone());
    // The forwarder and the receiver are of the receiver's recording.
    let crossing = |across| {
        let mut journeys = journeys(&flows, &[Until::Read]);
        for journey in &mut journeys {
            journey.across = across;
            journey.forwarders.iter_mut().for_each(|at| at.is_receivers = true);
        }
        panel(&counted(&journeys, &names), &names).rows
    };
    let rows = crossing(Across::within(40));
    assert_eq!(rows.iter().map(|row| row.half_width_ns).collect::<Vec<_>>(), [Some(0), Some(40), Some(0)]);
    assert_eq!((rows[1].times.p50_ns, rows[1].cell(LegColumn::Bound)), (100, "±40 ns".to_owned()));
    let rows = crossing(Across::Apart);
    assert_eq!(
        (rows[1].times.n, rows[1].half_width_ns, rows[1].cell(LegColumn::P50)),
        (0, None, "·".to_owned())
    );
    assert_eq!((rows[2].times.p50_ns, rows[2].half_width_ns), (140, Some(0)), "on one clock");
}

#[test]
fn a_resent_journey_with_the_forwarder_of_another_copy_has_no_times_of_legs() {
    let flows = flows(false);
    let names = names(flows.clone());
    let mut journeys = journeys(&flows, &[Until::Read; 2]);
    // A second later.
    journeys[0].forwarders = journeys[1].forwarders.clone();
    journeys[0].copies = vec![SentCopy { number: 1, ..SentCopy::default() }; 2];
    journeys[0].copy = 1;
    let panel = panel(&counted(&journeys, &names), &names);
    assert_eq!(
        panel.rows.iter().map(|row| (row.journeys, row.times.n)).collect::<Vec<_>>(),
        [(2, 0), (2, 1), (2, 1)]
    );
    assert_eq!(panel.rows[1].times.max_ns, 100);
}

#[test]
fn paths_beyond_the_limit_are_counted_and_said() {
    let mut flows = flows(false);
    let mut journeys = journeys(&flows, &[Until::Read]);
    let first = journeys.remove(0);
    let (clients, client) = (MOST_LEGS as u32, flows[0]);
    flows.extend((0..clients).map(|n| Flow { id: FlowId(1_000 + u64::from(n)), netns: 1_000 + n, ..client }));
    let names = names(flows);
    journeys.extend((0..clients).map(|n| Journey { tx_flow: FlowId(1_000 + u64::from(n)), ..first.clone() }));
    let topology = counted(&journeys, &names);
    let panel = panel(&topology, &names);
    assert_eq!((topology.legs.len(), panel.total, panel.rows.len()), (MOST_LEGS, MOST_LEGS, 100));
    let senders = MOST_LEGS as u64 / 3;
    assert_eq!((topology.journeys, topology.left_out), (u64::from(clients), u64::from(clients) - senders));
    assert!(panel.title.contains(" left out, 1024 legs are the most"), "{}", panel.title);
    assert!(topology.next.len() <= MOST_FLOWS);
}

#[test]
fn without_a_journey_the_title_says_why() {
    let names = Names::default();
    let title =
        |has_sums| Topology::default().panel(&TopologyQuery { has_sums, ..query(&names, &[]) }, 9).title;
    assert_eq!(title(false), "no path yet: the first journey draws one");
    assert!(title(true).starts_with("no path: the kernel's sums have no path"));
}

#[test]
fn a_sampled_rate_is_an_estimate_and_an_unknown_one_is_none() {
    let flows = flows(false);
    let names = names(flows.clone());
    let topology = counted(&journeys(&flows, &[Until::Read; 3]), &names);
    let rate = |weight| {
        topology.panel(&TopologyQuery { weight, ..query(&names, &[]) }, 1).rows[0].cell(LegColumn::Rate)
    };
    assert_eq!([rate(Some(1.0)), rate(Some(4.0)), rate(None)], ["1.50  /s", "≈6.00 /s", "·"]);
}

#[test]
fn a_place_is_named_by_what_it_is() {
    let container = |name: &str, pod: &str, netns| magscope_core::Container {
        name: name.to_owned(),
        pod: pod.to_owned(),
        pod_namespace: if pod.is_empty() { String::new() } else { "shop".to_owned() },
        netns,
        ..magscope_core::Container::default()
    };
    let containers = vec![container("client", "", 1), container("db", "db-0", 2)];
    let names = Names::new(vec![NodeInfo { containers, ..info() }]);
    let place_words = |netns| {
        let to = PathPlace::Node(NetnsKey { node: 0, netns });
        words::place_words(PathLeg { left_by: 0, came_by: 3, to }, &names)
    };
    assert_eq!(
        [place_words(1), place_words(2), place_words(9)],
        ["client (container, in interface 3)", "server (pod shop/db-0, in interface 3)", "node (in left)",]
    );
}
