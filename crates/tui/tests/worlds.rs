//! Every view of several worlds at three sizes, as text: what a newcomer sees of an idle host, of heavy loss, of
//! thousands of short connections, of refused ones, of three hosts, of sums alone.

use crate::cells;
use crate::made_up;

use cells::{front, lines, screen};
use made_up::{START_NS, World, published, storm, sums};
use magscope_core::journey::Limits;
use magscope_core::node::NodeInfo;
use magscope_core::{Batch, Correlator, DetailKind, Event, ExtentKind, Flow, FlowId, Hop, Journey, Proto};
use magscope_scope::{Action, GROUPINGS, GroupBy, Options, Scope, View};

const SECOND: u64 = 1_000_000_000;
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

fn played(mut scope: Scope, mut world: World, tenths: u64) -> Scope {
    (1..=tenths).for_each(|tenth| world.run_until(tenth * SECOND / 10, &mut scope));
    scope
}

fn live() -> Scope {
    Scope::new(made_up::info(), Options::default())
}

fn idle() -> Scope {
    let mut scope = live();
    for second in 1..=5 {
        scope.ingest(&Batch { watermark_ns: START_NS + second * SECOND, ..Batch::default() });
    }
    scope
}

fn short_connections() -> Scope {
    let mut scope = live();
    (0..10_000).step_by(1_000).for_each(|first| scope.ingest(&storm::flows(first..first + 1_000)));
    for second in 1..=2 {
        scope.ingest(&Batch { watermark_ns: START_NS + second * SECOND, ..Batch::default() });
    }
    scope
}

/// A program that tries to connect where nobody listens.
fn refused() -> Scope {
    let end = |text: &str| text.parse().expect("an address");
    let flow = Flow {
        id: FlowId(7),
        netns: 4_026_532_301,
        proto: Proto::TCP,
        local: end("10.0.0.1:40000"),
        remote: end("10.0.0.2:9200"),
    };
    let mut scope = live();
    for at in (START_NS..START_NS + 12 * SECOND).step_by(400_000_000) {
        let event = |hop, after_us: u64| Event { flow: flow.id, ..Event::at(hop, at + after_us * 1_000) };
        let events = vec![
            Event { proto: Proto::TCP, ..event(Hop::DevXmit, 0) },
            Event { detail: DetailKind::DropReason.of(2), ..event(Hop::SkbDrop, 10) },
            Event {
                proto: Proto::TCP,
                detail: DetailKind::ConnectionState.of(7),
                extent: ExtentKind::OpenError.of(111),
                ..event(Hop::TcpOpen, 20)
            },
        ];
        scope.ingest(&Batch { events, flows: vec![flow], watermark_ns: at + SECOND / 10, ..Batch::default() });
    }
    scope
}

fn three_hosts() -> Scope {
    let named = |host: &str| NodeInfo { host: host.to_owned(), ..made_up::info() };
    let mut scope = Scope::of_several(["web-1", "db-1", "cache-1"].map(named).to_vec(), Options::default());
    let mut worlds = [400.0, 200.0, 50.0]
        .map(|rate| (World::new(rate), Correlator::of_node(&made_up::info(), Limits::default())));
    for tenth in 1..=20 {
        for (node, (world, correlator)) in worlds.iter_mut().enumerate() {
            let (node, batch) = (node as u16, world.batch_until(tenth * SECOND / 10));
            let mut journeys = Vec::new();
            correlator.push(batch, &mut journeys);
            scope.ingest_batch(node, batch);
            for journey in journeys {
                scope.ingest_journey(Journey { tx_node: node, rx_node: node, ..journey });
            }
        }
    }
    scope
}

fn sums_alone() -> Scope {
    let (mut scope, mut world) = (live(), World::new(400.0));
    (0..10).for_each(|number| scope.ingest(&sums::second(&mut world, number, false)));
    scope
}

/// Name and content.
fn worlds() -> Vec<(&'static str, Scope)> {
    vec![
        ("idle", idle()),
        ("demo", played(live(), World::new(400.0), 20)),
        ("loss", played(live(), World::lossy(400.0, 0.85), 20)),
        ("short", short_connections()),
        ("refused", refused()),
        ("hosts", three_hosts()),
        ("sums", sums_alone()),
        ("node", published::scope()),
    ]
}

/// Every page, and the flows by each grouping.
fn pages() -> Vec<(String, Vec<Action>)> {
    let page = |spec: &'static magscope_scope::ViewSpec| {
        (spec.name.to_owned(), vec![Action::GroupFlows(GroupBy::Flow), Action::Show(spec.view)])
    };
    let groups =
        GROUPINGS.map(|by| (format!("flows by {by}"), vec![Action::Show(View::Flows), Action::GroupFlows(by)]));
    View::pages().map(|(_, spec)| page(spec)).chain(groups).collect()
}

/// The cut texts that have an empty cell to the right: columns are two blanks apart.
fn needlessly_cut(shown: &str) -> Vec<String> {
    let is_cut = |line: &&str| {
        line.match_indices('…').any(|(at, cut)| {
            let behind = &line[at + cut.len()..];
            behind.chars().take_while(|c| *c == ' ').count() > 2
        })
    };
    shown.lines().filter(is_cut).map(str::to_owned).collect()
}

#[test]
fn every_view_of_every_world_is_as_it_was_and_nothing_is_cut_beside_an_empty_cell() {
    for (name, mut scope) in worlds() {
        for (width, height) in SIZES {
            let mut all = String::new();
            for (page, actions) in pages() {
                for action in actions {
                    scope.apply(action);
                }
                let shown = lines(&screen(&front(), &scope, width, height));
                let cut = needlessly_cut(&shown);
                assert!(cut.is_empty(), "{name}, {page}, {width}x{height}: {}", cut.join("\n"));
                all.extend(["== ", &page, "\n"]);
                shown.lines().for_each(|line| all.extend([line.trim_end(), "\n"]));
            }
            insta::assert_snapshot!(format!("{name}_{width}x{height}"), all);
        }
    }
}

#[test]
fn the_check_finds_a_cut_text_beside_an_empty_cell() {
    assert_eq!(needlessly_cut("a te…      7  b\n"), ["a te…      7  b"]);
    assert!(needlessly_cut("a te…  7  b\na text 7\n").is_empty());
}
