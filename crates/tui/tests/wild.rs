//! Robustness: empty recordings, one event, extreme zooms, more flows than are listed.

use crate::cells;
use crate::made_up;

use cells::{front, screen, text};
use crossterm::event::{Event as Key, KeyCode, KeyEvent, KeyModifiers};
use made_up::{START_NS, World, storm};
use magscope_core::node::NodeInfo;
use magscope_core::{Batch, Event, Hop};
use magscope_scope::format::count;
use magscope_scope::{Action, Options, Scope, View};
use magscope_tui::Front;
use ratatui::layout::Rect;

const SECOND: u64 = 1_000_000_000;

/// Draws every view of a scope.
fn every_view(scope: &mut Scope, what: &str) {
    for view in View::all() {
        scope.apply(Action::Show(view));
        for (width, height) in [(80, 24), (200, 60)] {
            let drawn = text(&screen(&front(), scope, width, height));
            assert!(drawn.contains("magnet-scope"), "{what} in {}", view.spec().name);
        }
    }
}

fn busy() -> Scope {
    let mut scope = Scope::new(made_up::info(), Options::default());
    let mut world = World::new(400.0);
    (1..=30).for_each(|tenth| world.run_until(tenth * SECOND / 10, &mut scope));
    scope
}

#[test]
fn nothing_at_all_and_one_event() {
    every_view(&mut Scope::new(NodeInfo::default(), Options::default()), "nothing");
    let mut scope = Scope::new(made_up::info(), Options::default());
    scope.ingest(&Batch { events: vec![Event::at(Hop::IpIn, 5)], watermark_ns: 5, ..Batch::default() });
    every_view(&mut scope, "one event");
    scope.end();
    scope.apply(Action::Fit);
    every_view(&mut scope, "one event and the end");
}

#[test]
fn zooms_from_a_nanosecond_to_ten_years() {
    let year = 365 * 86_400 * SECOND;
    let mut scope = busy();
    for (from_ns, to_ns) in [
        (0, 1),
        (0, 10 * year),
        (START_NS, START_NS + 10 * year),
        (u64::MAX - 1, u64::MAX),
        (0, u64::MAX),
        (START_NS + SECOND, START_NS + SECOND + 1),
        (START_NS, START_NS),
    ] {
        scope.apply(Action::ZoomTo { from_ns, to_ns });
        every_view(&mut scope, &format!("{from_ns} to {to_ns}"));
        for by in [f64::MAX, f64::MIN, f64::NAN, 1e300] {
            scope.apply(Action::PanBy(by));
            scope.apply(Action::Zoom { notches: i32::MAX, at: by });
            scope.apply(Action::Zoom { notches: i32::MIN, at: -by });
            every_view(&mut scope, &format!("{from_ns} to {to_ns}, by {by}"));
        }
    }
    scope.apply(Action::Fit);
    scope.apply(Action::Show(View::Hops));
    assert!(text(&screen(&front(), &scope, 120, 40)).contains("whole journey"), "and back");
}

#[test]
fn many_flows_are_a_table_and_the_rest_is_counted() {
    // Enough to exceed each bound on flows; the benches use a million.
    const FLOWS: u64 = 70_000;
    let mut scope = Scope::new(made_up::info(), Options::default());
    for first in (0..FLOWS).step_by(1000) {
        scope.ingest(&storm::flows(first..first + 1000));
    }
    scope.end();
    let table = scope.frame().flows(usize::MAX);
    let listed: u64 = table.rows.iter().map(|row| row.journeys).sum();
    assert!(table.total <= 4096 && table.left_out > 0);
    assert_eq!(listed + table.left_out, FLOWS, "what is not listed is counted");
    scope.apply(Action::Show(View::Flows));
    let words = format!("{} journeys of others are counted", count(table.left_out));
    assert!(text(&screen(&front(), &scope, 120, 40)).contains(&words), "{words}");
    every_view(&mut scope, "many flows");
}

/// Types keys.
fn press(front: &mut Front, scope: &mut Scope, keys: &str) {
    for c in keys.chars() {
        let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
        let key = Key::Key(KeyEvent::new(code, KeyModifiers::NONE));
        front.event(&key, scope, Rect::new(0, 0, 120, 36));
    }
}

#[test]
fn journeys_are_asked_for_by_their_cpu() {
    let (mut scope, mut front) = (Scope::new(made_up::info(), Options::default()), front());
    scope.ingest(&storm::flows(0..1000));
    scope.end();
    press(&mut front, &mut scope, "4/cpu = 3\n");
    let frame = scope.frame();
    let of_it = |line: &magscope_scope::Lifeline| line.cpu() == Some(3);
    let journeys = frame.journeys(100);
    assert!(!journeys.rows.is_empty() && journeys.rows.iter().all(|row| of_it(row.line)));
    assert!(text(&screen(&front, &scope, 120, 36)).contains("/ cpu = 3"), "the header says what is left out");
    scope.apply(Action::Filter(String::new()));
    scope.apply(Action::Pick(magscope_scope::Pick::Cpu(5)));
    let journeys = scope.frame().journeys(100);
    assert!(!journeys.rows.is_empty() && journeys.rows.iter().all(|row| row.line.cpu() == Some(5)));
    assert!(text(&screen(&front, &scope, 120, 36)).contains("CPU 5"));
}

#[test]
fn each_of_the_slowest_requests_leads_to_its_journey_also_long_after_it() {
    let mut scope = Scope::new(made_up::info(), Options::default());
    let mut world = World::new(2_000.0);
    // More journeys than are kept.
    (1..=150).for_each(|tenth| world.run_until(tenth * SECOND / 10, &mut scope));
    let listed = scope.frame().requests(1, 64).slowest.len();
    assert!(listed >= 32, "{listed}");
    for row in 0..listed {
        scope.apply(Action::Show(View::Requests));
        (0..=row).for_each(|_| scope.apply(Action::SelectRow(1)));
        scope.apply(Action::TakeRow);
        let frame = scope.frame();
        assert!(frame.inspector.is_some(), "{row}: {:?}", frame.controls.message);
        scope.apply(Action::Back);
        scope.apply(Action::Back);
        scope.apply(Action::Show(View::Requests));
        scope.apply(Action::Back);
    }
}
