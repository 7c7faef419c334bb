use super::*;
use crate::lifeline::tests::lifeline;
use magscope_core::blame::Part;
use magscope_core::node::NodeInfo;
use magscope_core::synthesis::Sum;
use magscope_core::{Batch, Flow, Hop, Task, Verdict};

fn query(names: &Names, by: GroupBy, order: FlowOrder) -> FlowQuery<'_> {
    FlowQuery { by, within: None, order, names }
}

/// A complete journey of this flow.
fn line(id: u64, flow: u64, ns: u64) -> Lifeline {
    let mut line = lifeline(id, &[(Hop::DevXmit, id * 1_000), (Hop::DevRecv, id * 1_000 + ns)]);
    line.journey.tx_flow = FlowId(flow);
    line
}

#[test]
fn flows_are_added_up_ordered_and_bounded() {
    let (mut flows, names) = (Flows::default(), Names::default());
    let by = |order| query(&names, GroupBy::Flow, order);
    for id in 0..100 {
        flows.journey(&line(id, 1, 10), HopSet::all(), &names);
    }
    flows.journey(&line(200, 2, 5_000), HopSet::all(), &names);
    let by_time = flows.table(&by(FlowOrder::Time), 10, 0);
    assert_eq!(by_time.rows.iter().map(|r| r.flow.0).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(by_time.rows[0].blame, Some((Part::Wire, 1.0)));
    assert_eq!(by_time.rows[0].trend_max_ns.last(), Some(&5_000));
    assert_eq!(
        (by_time.rows[1].journeys, by_time.rows[1].times.n, by_time.rows[1].times.p50_ns),
        (100, 100, 10)
    );
    assert_eq!(flows.table(&by(FlowOrder::Journeys), 1, 0).rows[0].flow, FlowId(1));
    assert_eq!(
        flows.table(&by(FlowOrder::Journeys), 1, 1).rows[0].flow,
        FlowId(2),
        "the selected one is in it"
    );
    assert_eq!(flows.busiest(), Some(FlowId(1)));
    assert_eq!(flows.at(&by(FlowOrder::Time), 1).map(|row| row.flow), Some(FlowId(1)));
    for flow in 0..10_000 {
        flows.journey(&line(flow, flow, 1), HopSet::all(), &names);
    }
    let table = flows.table(&by(FlowOrder::Journeys), MOST, 0);
    assert!(flows.len(&by(FlowOrder::Journeys)) <= MOST && table.left_out > 0);
    let listed: u64 = table.rows.iter().map(|row| row.journeys).sum();
    assert_eq!(listed + table.left_out, 101 + 10_000, "no journey is forgotten");
    let heavy: Vec<u64> =
        table.rows.iter().map(|row| row.flow.0).filter(|flow| [1, 2].contains(flow)).collect();
    assert_eq!(heavy.len(), 2, "those that came first and are heavy stay");
    // A late, slow flow gets an entry, too.
    flows.journey(&line(20_000, 77_777, 900_000), HopSet::all(), &names);
    assert_eq!(flows.table(&by(FlowOrder::P99), 1, 0).rows[0].flow, FlowId(77_777));
}

#[test]
fn two_hosts_with_the_same_addresses_have_a_row_each() {
    let (mut flows, names) = (Flows::default(), Names::default());
    for node in [0, 1] {
        let mut line = line(1, 7, 100);
        (line.journey.tx_node, line.journey.rx_node) = (node, node);
        flows.journey(&line, HopSet::all(), &names);
    }
    let table = flows.table(&query(&names, GroupBy::Flow, FlowOrder::Journeys), 10, 0);
    assert_eq!(table.rows.iter().map(|row| row.journeys).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn both_directions_of_a_connection_with_one_end_captured_have_a_row_each() {
    let (mut flows, names) = (Flows::default(), Names::default());
    let (own, other) = ("10.0.0.1:80".parse().unwrap(), "10.0.0.2:4000".parse().unwrap());
    for n in 0..3 {
        // One socket has one flow, whichever direction its bytes take.
        let mut sent = line(n * 2, 7, 100);
        (sent.journey.rx_flow, sent.ends) = (FlowId::NONE, Some((own, other)));
        let mut received = line(n * 2 + 1, 7, 100);
        (received.journey.tx_flow, received.journey.rx_flow) = (FlowId::NONE, FlowId(7));
        received.ends = Some((other, own));
        for line in [sent, received] {
            flows.journey(&line, HopSet::all(), &names);
        }
    }
    let rows = flows.table(&query(&names, GroupBy::Flow, FlowOrder::Journeys), 10, 0).rows;
    let rows: Vec<_> = rows.iter().map(|row| (row.flow, row.ends, row.journeys)).collect();
    assert_eq!(rows, [(FlowId(7), Some((own, other)), 3), (FlowId(7), Some((other, own)), 3)]);
    assert!(!flows.has_several(), "they are one connection");
}

#[test]
fn two_hosts_with_the_same_addresses_have_their_own_sums() {
    let (mut flows, mut names) = (Flows::default(), Names::new(vec![NodeInfo::default(), NodeInfo::default()]));
    let (local, remote) = ("127.0.0.1:4000".parse().unwrap(), "127.0.0.1:80".parse().unwrap());
    let of = |id, local, remote| Flow { id: FlowId(id), netns: 3, proto: Proto::TCP, local, remote };
    for (node, packets) in [(0, 5), (1, 9)] {
        names.learn(
            node,
            &Batch { flows: vec![of(1, local, remote), of(2, remote, local)], ..Batch::default() },
        );
        for (flow, direction, hop) in [(1, Direction::Tx, Hop::DevXmit), (2, Direction::Rx, Hop::DevRecv)] {
            let row = Synthesis {
                from_ns: 0,
                to_ns: 1_000_000_000,
                hop,
                of: Sum::Flow(FlowId(flow)),
                n: packets,
                sum: packets * 100,
                buckets: Vec::new(),
            };
            flows.sum((node, FlowId(flow), direction), &row, &names);
        }
    }
    let table = flows.table(&query(&names, GroupBy::Flow, FlowOrder::Bytes), 10, 0);
    let packets: Vec<_> = table.rows.iter().map(|row| row.summed.map(|summed| summed.packets)).collect();
    assert_eq!(packets, [Some(9), Some(5)], "each host has its own, and the sender's count is used");
    let services = flows.table(&query(&names, GroupBy::Service, FlowOrder::Bytes), 10, 0).rows;
    assert_eq!(services.len(), 1);
    assert_eq!(services[0].summed.map(|summed| summed.packets), Some(14));
}

/// Clients with a port each, a server with one port and two processes.
fn many(clients: u16) -> (Flows, Names) {
    let (mut flows, mut names) = (Flows::default(), Names::new(vec![NodeInfo::default()]));
    let task =
        |pid, comm: &str| Task { tgid: pid, tid: pid, uid: 0, cgroup: u64::from(pid), comm: comm.to_owned() };
    let tasks = vec![task(7, "client"), task(8, "server"), task(9, "worker")];
    names.learn(0, &Batch { tasks, ..Batch::default() });
    for n in 0..clients {
        for proto in [Proto::TCP, Proto::UDP] {
            let id = u64::from(n) * 2 + u64::from(proto == Proto::UDP) + 1;
            let local = Endpoint::new([10, 0, 0, 1].into(), 10_000 + n);
            let remote = Endpoint::new([10, 0, 0, 2].into(), 443);
            let flow = Flow { id: FlowId(id), netns: 3, proto, local, remote };
            names.learn(0, &Batch { flows: vec![flow], ..Batch::default() });
            // A second journey of the flow is read by another process.
            for reader in [8, 9] {
                let mut line = line(id, id, 100);
                line.journey.proto = proto;
                line.ends = Some((local, remote));
                line.journey.sender = Some(ThreadRef { tgid: 7, tid: 7 });
                line.journey.reader = Some(ThreadRef { tgid: reader, tid: reader });
                if n == 0 && reader == 9 {
                    line.journey.verdict = Verdict::InFlight;
                    line.journey.reader = None;
                }
                flows.journey(&line, HopSet::all(), &names);
            }
        }
    }
    (flows, names)
}

#[test]
fn a_group_has_every_journey_also_of_short_connections_that_left_the_table() {
    for clients in [10, 8_000] {
        let (flows, names) = many(clients);
        let all = u64::from(clients) * 4;
        for by in GROUPINGS {
            let table = flows.table(&query(&names, by, FlowOrder::Journeys), 1_000, 0);
            let journeys: u64 = table.rows.iter().map(|row| row.journeys).sum();
            let times = if by == GroupBy::Service { 1 } else { 2 };
            assert_eq!(journeys + table.left_out, all * times, "{by} of {clients}");
            assert!(table.rows.len() < 20, "{by}: {}", table.rows.len());
            for row in &table.rows {
                let group = row.group.as_ref().expect("rows are groups");
                assert_eq!(group.id.1, row.proto);
                assert!(row.proto == Proto::TCP || row.proto == Proto::UDP, "one protocol a row");
                assert_eq!((row.flow, row.ends), (FlowId::NONE, None));
                assert!(row.journeys == 0 || row.blame.is_some() || row.times.n == 0);
            }
        }
        let services = flows.table(&query(&names, GroupBy::Service, FlowOrder::Journeys), 10, 0).rows;
        let words: Vec<_> = services.iter().map(|row| row.group.as_ref().map(|g| g.words.as_str())).collect();
        assert_eq!(words, [Some("to :443"); 2]);
        assert_eq!(services[0].processes, ("client".to_owned(), "several".to_owned()));
        let processes = flows.table(&query(&names, GroupBy::Process, FlowOrder::Journeys), 20, 0).rows;
        let of = |name: &str, proto| {
            let is = |row: &&FlowRow| {
                row.proto == proto && row.group.as_ref().is_some_and(|g| g.words.starts_with(name))
            };
            processes.iter().find(is).map(|row| row.journeys)
        };
        let each = u64::from(clients);
        for proto in [Proto::TCP, Proto::UDP] {
            assert_eq!(of("client", proto), Some(2 * each));
            assert_eq!((of("server", proto), of("worker", proto)), (Some(each), Some(each - 1)));
            assert_eq!(of("not known", proto), Some(1), "its reader was not seen");
        }
    }
}

#[test]
fn a_flow_with_two_readers_is_one_row_and_a_group_opens_into_its_flows() {
    let (flows, names) = many(10);
    let table = flows.table(&query(&names, GroupBy::Flow, FlowOrder::Journeys), 100, 0);
    assert_eq!(table.rows.len(), 20);
    assert!(table.rows.iter().all(|row| row.journeys == 2 && row.group.is_none()));
    let services = flows.table(&query(&names, GroupBy::Service, FlowOrder::Journeys), 10, 0).rows;
    for group in services.iter().filter_map(|row| row.group.as_ref()) {
        assert_eq!(group.flows, 10, "each flow once, although two processes read");
        let within = Some((GroupBy::Service, group.id));
        let opened =
            flows.table(&FlowQuery { within, ..query(&names, GroupBy::Flow, FlowOrder::Journeys) }, 100, 0);
        assert_eq!((opened.rows.len(), opened.total), (10, 10));
        assert!(opened.rows.iter().all(|row| row.proto == group.id.1 && row.ends.is_some()));
    }
}
