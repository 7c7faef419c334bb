//! Every view at three sizes, with colours: 80 × 24 must be useful, 200 × 60 complete.

use crate::cells;
use crate::made_up;

use cells::{cells, front, lines, screen, text};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use made_up::{World, published};
use magscope_scope::look::FlowOrder;
use magscope_scope::{Action, Channel, List, Options, Overhead, Scope, View};
use ratatui::layout::Rect;

const SECOND: u64 = 1_000_000_000;
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

/// Three seconds of traffic with some lost events.
fn busy() -> Scope {
    let mut scope = Scope::new(made_up::info(), Options::default());
    let mut world = World::new(400.0);
    for tenth in 1..=30 {
        world.run_until(tenth * SECOND / 10, &mut scope);
        scope.set_overhead(Overhead {
            reader_cpu_ratio: 0.007 + 0.001 * (tenth % 3) as f64,
            kernel_ns_per_hit: Some(171.0),
            kernel_cpu_ratio_estimate: Some(0.012),
            hits: world.hits(),
            ring_fill_ratio: 0.03,
            budget: None,
        });
    }
    scope
}

/// Draws the result of `actions` at every size.
fn look(name: &str, actions: &[Action]) {
    let mut scope = busy();
    for action in actions {
        scope.apply(action.clone());
    }
    for (width, height) in SIZES {
        let buffer = screen(&front(), &scope, width, height);
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), cells(&buffer));
    }
}

/// A tenth of a second per division: three seconds are visible.
fn wide() -> Vec<Action> {
    vec![Action::SetTimebase(100_000_000), Action::SeekPart(0.5)]
}

#[test]
fn scope_near() {
    look("scope", &[]);
}

#[test]
fn scope_from_afar() {
    look("density", &wide());
}

#[test]
fn scope_with_everything() {
    let mut actions = vec![
        Action::TriggerText("hop(task.wake,task.run) > 1ms".to_owned()),
        Action::MathText("srtt - rttvar".to_owned()),
        Action::SelectJourney(1),
        Action::ToggleCursors,
    ];
    let shown = busy().frame().controls.channels.clone();
    for channel in [Channel::Cwnd, Channel::Srtt, Channel::Journeys] {
        if shown.iter().all(|other| other.channel != channel) {
            actions.push(Action::ToggleChannel(channel));
        }
    }
    look("everything", &actions);
}

#[test]
fn the_ladder() {
    look("ladder", &[Action::SelectJourney(1), Action::ToggleInspector]);
}

#[test]
fn persistence() {
    look("persistence", &[Action::NextPersistence, Action::NextPersistence, Action::NextPersistence]);
}

#[test]
fn one_signal_against_another() {
    look("xy", &[Action::SetTimebase(10_000_000), Action::SetXy(Some((Channel::Srtt, Channel::Cwnd)))]);
}

#[test]
fn flows() {
    look("flows", &[Action::Show(View::Flows)]);
}

#[test]
fn hops() {
    let mut actions = wide();
    actions.extend([Action::Show(View::Hops), Action::SelectRow(1), Action::SelectRow(1)]);
    look("hops", &actions);
}

#[test]
fn journeys() {
    look("journeys", &[Action::Show(View::Journeys), Action::SelectRow(1)]);
}

#[test]
fn events() {
    look("events", &[Action::Show(View::Events), Action::SelectRow(-1)]);
}

#[test]
fn clock() {
    look("clock", &[Action::Show(View::Clock)]);
}

#[test]
fn losses() {
    look("losses", &[Action::Show(View::Losses)]);
}

#[test]
fn requests() {
    look("requests", &[Action::Show(View::Requests)]);
    look("requests_selected", &[Action::Show(View::Requests), Action::SelectRow(1), Action::SelectRow(1)]);
}

#[test]
fn topology() {
    for (name, down) in [("topology", 1), ("topology_last", 9)] {
        let mut scope = published::scope();
        scope.apply(Action::Show(View::Topology));
        scope.apply(Action::SelectRow(down));
        for (width, height) in SIZES {
            let buffer = screen(&front(), &scope, width, height);
            insta::assert_snapshot!(format!("{name}_{width}x{height}"), cells(&buffer));
        }
    }
}

#[test]
fn a_leg_picks_its_flows_by_a_key_and_by_a_click() {
    let area = Rect::new(0, 0, 120, 40);
    let mut scope = published::scope();
    scope.apply(Action::Show(View::Topology));
    let shown = lines(&screen(&front(), &scope, area.width, area.height));
    let row = |name: &str| shown.lines().position(|line| line.contains(name)).expect(name) as u16;
    for name in ["▶ web", "▶ host"] {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let event = MouseEvent { kind, column: 5, row: row(name), modifiers: KeyModifiers::NONE };
        front().event(&Event::Mouse(event), &mut scope, area);
        let place = scope.frame().topology(99).rows.into_iter().find(|row| row.selected).map(|row| row.place);
        assert!(place.is_some_and(|place| name.ends_with(place.split(' ').next().unwrap_or("?"))), "{name}");
    }
    let journeys = |scope: &Scope| scope.frame().topology(99).rows[0].journeys;
    let all = journeys(&scope);
    front().event(&Event::Key(KeyCode::Enter.into()), &mut scope, area);
    assert_eq!(scope.frame().controls.view, View::Flows);
    assert_eq!(scope.frame().flows(9).rows.iter().map(|row| row.journeys).sum::<u64>(), all, "one direction");
    let shown = lines(&screen(&front(), &scope, area.width, area.height));
    assert!(shown.lines().next().is_some_and(|line| line.contains("client → host")), "{shown}");
    scope.apply(Action::Back);
    assert!(scope.frame().controls.picks.is_empty());
    assert_eq!(journeys(&scope), all);
}

#[test]
fn from_a_request_to_its_journey_and_back() {
    let mut scope = busy();
    scope.apply(Action::Show(View::Requests));
    let listed: Vec<u64> = scope.frame().requests(9, 9).slowest.iter().map(|slow| slow.id).collect();
    assert!(listed.len() > 2, "{listed:?}");
    for (n, id) in listed.iter().enumerate().take(3) {
        scope.apply(Action::SelectRow(i32::from(n > 0)));
        assert_eq!(scope.frame().controls.request, Some(*id));
    }
    scope.apply(Action::TakeRow);
    let journey = scope.frame().controls.journey;
    assert!(journey.is_some() && scope.frame().controls.view == View::Scope);
    scope.apply(Action::ShowExchange);
    assert_eq!(
        (scope.frame().controls.view, scope.frame().controls.request),
        (View::Requests, Some(listed[2]))
    );
    assert_eq!(scope.frame().requests(9, 9).slowest[0].id, listed[2], "before the slowest");
    scope.apply(Action::Back);
    assert_eq!(scope.frame().requests(9, 9).slowest[0].id, listed[0], "the slowest alone");
    scope.apply(Action::ChooseRequest(listed[2]));
    assert_eq!((scope.frame().controls.view, scope.frame().controls.journey), (View::Scope, journey));
}

#[test]
fn every_page_has_its_key_its_name_and_a_body_of_its_own() {
    for (width, height) in SIZES {
        let (mut front, mut scope) = (front(), busy());
        let area = Rect::new(0, 0, width, height);
        let mut bodies: Vec<(&str, String)> = Vec::new();
        for (page, spec) in View::pages() {
            let digit = KeyCode::Char(char::from(b'0' + page));
            front.event(&Event::Key(KeyEvent::new(digit, KeyModifiers::NONE)), &mut scope, area);
            assert_eq!(scope.frame().controls.view, spec.view, "key {page}");
            let drawn = text(&screen(&front, &scope, width, height));
            let rows: Vec<char> = drawn.chars().collect();
            let mut rows = rows.chunks(usize::from(width)).map(|row| row.iter().collect::<String>());
            let names = [format!("{page} {}", spec.name), format!("{page}{}", spec.name)];
            let is_named = rows.any(|row| names.iter().any(|name| row.contains(name)));
            assert!(is_named, "the bar names {spec:?}");
            let body: String = rows.collect();
            assert!(!body.trim().is_empty(), "{spec:?} is drawn at {width} x {height}");
            if let Some((other, _)) = bodies.iter().find(|(_, other)| *other == body) {
                panic!("{} is drawn like {other} at {width} x {height}", spec.name);
            }
            bodies.push((spec.name, body));
        }
    }
}

/// Clicks on a title in the row of titles that has `row` too.
fn click(scope: &mut Scope, area: Rect, row: &str, title: &str) {
    let shown = lines(&screen(&front(), scope, area.width, area.height));
    let has_both = |line: &str| line.contains(row) && line.contains(title);
    let (y, line) = shown.lines().enumerate().find(|(_, line)| has_both(line)).expect(title);
    let x = line.split(title).next().map_or(0, |before| before.chars().count());
    let kind = MouseEventKind::Down(MouseButton::Left);
    let event = MouseEvent { kind, column: x as u16, row: y as u16, modifiers: KeyModifiers::NONE };
    front().event(&Event::Mouse(event), scope, area);
}

#[test]
fn a_click_on_a_title_orders_the_flows_by_its_column() {
    let area = Rect::new(0, 0, 200, 60);
    let mut scope = busy();
    scope.apply(Action::Show(View::Flows));
    for order in FlowOrder::ALL {
        click(&mut scope, area, "processes", order.column());
        assert_eq!(scope.frame().controls.order, order);
        let shown = lines(&screen(&front(), &scope, area.width, area.height));
        let marked = format!("↓{} ", order.column());
        assert!(shown.contains(&marked), "{marked}\n{shown}");
    }
    // A title without an order leaves it as it is.
    click(&mut scope, area, "processes", "longest, lately");
    assert_eq!(scope.frame().controls.order, FlowOrder::Resent);
}

#[test]
fn a_click_on_the_name_of_a_list_shows_it() {
    let area = Rect::new(0, 0, 120, 40);
    for view in [View::Scope, View::Journeys] {
        let mut scope = busy();
        scope.apply(Action::Show(view));
        for list in [List::Recent, List::Bad, List::Slowest] {
            click(&mut scope, area, "slowest · recent", list.name());
            assert_eq!(scope.frame().controls.list, list, "{view:?}");
        }
    }
}

/// Twelve services, one after the other.
fn services() -> Scope {
    let mut scope = Scope::new(made_up::info(), Options::default());
    for copy in 0..12_u16 {
        let mut batch = World::new(400.0).batch_until(SECOND / 20).clone();
        let (number, later_ns) = (u64::from(copy) * 100, u64::from(copy) * SECOND);
        for event in &mut batch.events {
            event.time_ns += later_ns;
            event.socket += number;
            if !event.flow.is_none() {
                event.flow.0 += number;
            }
        }
        for flow in &mut batch.flows {
            flow.id.0 += number;
            flow.local.set_port(flow.local.port() + copy);
            flow.remote.set_port(flow.remote.port() + copy);
        }
        batch.tcp.clear();
        if copy > 0 {
            batch.clock.clear();
        }
        batch.watermark_ns += later_ns;
        scope.ingest(&batch);
    }
    scope.end();
    scope
}

#[test]
fn services_without_a_line_are_counted() {
    let mut scope = services();
    scope.apply(Action::Show(View::Requests));
    let shown = lines(&screen(&front(), &scope, 80, 24));
    let is_service = |line: &&str| ["tcp :", "udp :"].iter().any(|name| line.trim_start().starts_with(name));
    let listed = shown.lines().filter(is_service).count();
    let table = scope.frame().requests(listed, 0).table;
    assert!(listed >= 3 && table.others >= 1, "{shown}");
    let words = format!("{} more services, {} exchanges", table.others, table.rest.total());
    assert!(shown.contains(&words), "{words}\n{shown}");
}
