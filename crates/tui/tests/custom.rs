//! Custom probes and payload on the screen: lanes, points, loadlines, the views, and the journey inspector.

use crate::cells;
use crate::made_up;

use cells::{cells, front, screen, text};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use made_up::World;
use magscope_scope::{Action, Options, Scope, View};
use magscope_tui::Front;
use ratatui::layout::Rect;

const SECOND: u64 = 1_000_000_000;
const SIZES: [(u16, u16); 2] = [(80, 24), (120, 40)];

/// Two seconds of traffic with three custom probes.
fn busy() -> Scope {
    let mut scope = Scope::new(made_up::probed(), Options::default());
    let mut world = World::probed(400.0);
    for tenth in 1..=20 {
        world.run_until(tenth * SECOND / 10, &mut scope);
    }
    scope
}

fn look(name: &str, actions: &[Action]) -> Scope {
    let mut scope = busy();
    for action in actions {
        scope.apply(action.clone());
    }
    for (width, height) in SIZES {
        let buffer = screen(&front(), &scope, width, height);
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), cells(&buffer));
    }
    scope
}

#[test]
fn a_probe_has_its_lane_its_points_and_its_loadline() {
    let scope = look("custom", &[]);
    let lines: Vec<String> = rows(&scope, 120, 40);
    let at =
        |name: &str| lines.iter().position(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
    assert!(at("◇deliver") < at(" ip.in") && at(" tcp.recv") < at("◇deliver"));
    assert!(lines[at("◇deliver")].contains('•') || lines[at("◇deliver")].contains('●'));
    assert_eq!(at("◇checkpoint"), at(" app.send") + 1, "what has no place stands below the stack");
    assert!(lines.iter().any(|line| line.contains("refill.free")));
}

fn rows(scope: &Scope, width: u16, height: u16) -> Vec<String> {
    let buffer = screen(&front(), scope, width, height);
    let cells: Vec<&str> = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
    cells.chunks(usize::from(width)).map(<[&str]>::concat).collect()
}

#[test]
fn from_afar_points_become_shades_and_peaks_stay() {
    look("custom_afar", &[Action::SetTimebase(100_000_000), Action::SeekPart(0.5)]);
}

#[test]
fn the_views_have_their_rows() {
    let scope = look("custom_events", &[Action::Show(View::Events), Action::SelectRow(-1)]);
    assert!(rows(&scope, 80, 24).iter().any(|line| line.contains("◇ deliver") && line.contains("len=")));
    look("custom_hops", &[Action::SetTimebase(100_000_000), Action::SeekPart(0.5), Action::Show(View::Hops)]);
    look("custom_losses", &[Action::Show(View::Losses)]);
}

#[test]
fn a_journey_is_opened_with_its_hits_and_its_payload() {
    let scope = look("custom_ladder", &[Action::SelectJourney(1), Action::ToggleInspector]);
    assert!(rows(&scope, 120, 40).iter().any(|line| line.contains("◇deliver") && line.contains("room=131072")));
    // Scrolling reveals the rest.
    let (mut front, mut scope) = (front(), scope);
    let area = Rect::new(0, 0, 80, 24);
    let shown = |front: &Front, scope: &Scope| text(&screen(front, scope, 80, 24));
    assert!(shown(&front, &scope).contains("more: PgDn") && !shown(&front, &scope).contains("SELECT abalance"));
    for _ in 0..4 {
        let key = Event::Key(KeyEvent::new(KeyCode::PageDown, KeyModifiers::NONE));
        front.event(&key, &mut scope, area);
    }
    assert!(shown(&front, &scope).contains("SELECT abalance"), "{}", shown(&front, &scope));
}

#[test]
fn values_are_among_the_signals_to_choose() {
    let (mut front, mut scope) = (front(), busy());
    let press = |front: &mut Front, scope: &mut Scope, code| {
        front.event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)), scope, Rect::new(0, 0, 80, 24));
    };
    for c in ":channels".chars() {
        press(&mut front, &mut scope, KeyCode::Char(c));
    }
    press(&mut front, &mut scope, KeyCode::Enter);
    let at =
        scope.frame().channels().iter().position(|channel| channel.name() == "deliver.len").expect("a channel");
    for _ in 0..at {
        press(&mut front, &mut scope, KeyCode::Down);
    }
    press(&mut front, &mut scope, KeyCode::Enter);
    assert!(text(&screen(&front, &scope, 80, 24)).contains("custom probe"));
    let shown: Vec<String> =
        scope.frame().controls.channels.iter().map(|shown| shown.channel.to_string()).collect();
    assert_eq!(shown, ["refill.free", "deliver.len"]);
}
