//! Forwarders in the picture: rows between the sender's hops and the receiver's, folded and open.

use crate::cells;
use crate::made_up::forwarded;

use cells::{cells, front, lines, screen};
use crossterm::event::{Event, KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use magscope_scope::{Action, Options, Place, Scope};
use magscope_tui::Front;
use ratatui::layout::Rect;

/// Half a second of datagrams through so many forwarders.
fn through(forwarders: u8) -> Scope {
    let mut scope = Scope::new(forwarded::info(forwarders), Options::default());
    (0..600).step_by(50).for_each(|n| scope.ingest(&forwarded::batch(forwarders, n..n + 50)));
    scope
}

fn look(name: &str, scope: &Scope) {
    for (width, height) in [(80, 24), (120, 40)] {
        let buffer = screen(&front(), scope, width, height);
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), cells(&buffer));
    }
}

fn selected(forwarders: u8, then: &[Action]) -> Scope {
    let mut scope = through(forwarders);
    scope.apply(Action::SelectJourney(1));
    for action in then {
        scope.apply(action.clone());
    }
    scope
}

#[test]
fn one_forwarder_is_a_row_between_two_wires() {
    look("bands_shown", &through(1));
    let scope = selected(1, &[]);
    look("bands_one", &scope);
    let drawn = lines(&screen(&front(), &scope, 80, 24));
    assert!(drawn.contains("DNAT 10.88.0.3:80 ← 192"), "{drawn}");
    assert!(drawn.contains("client → router-"), "{drawn}");
    let row = drawn.lines().find(|line| line.starts_with("+router-1")).expect("its row");
    let inside = scope.frame().forwarding(1).and_then(|at| at.ns).expect("the time inside");
    assert!(row.contains(&format!("● {} ", magscope_scope::format::short_duration(inside))), "{row}");
}

#[test]
fn an_open_forwarder_has_a_row_for_each_hop() {
    look("bands_open", &selected(1, &[Action::ToggleForwarder(1)]));
}

#[test]
fn three_forwarders_fit_on_a_small_screen() {
    look("bands_three", &selected(3, &[]));
}

#[test]
fn every_place_has_its_row_in_order() {
    for forwarders in 0..=3 {
        for then in [vec![], (1..=forwarders).map(Action::ToggleForwarder).collect()] {
            let scope = selected(forwarders, &then);
            let frame = scope.frame();
            let drawn = lines(&screen(&front(), &scope, 200, 80));
            let mut names = drawn.lines().filter_map(|line| line.get(1..13)?.split_whitespace().next());
            for lane in frame.lanes.iter().filter(|lane| !frame.is_folded(lane)) {
                let name = frame.name_of(lane.place);
                assert!(names.any(|other| other == name), "{:?} in {drawn}", lane.place);
            }
        }
    }
}

fn press(front: &mut Front, scope: &mut Scope, code: KeyCode) {
    front.event(&Event::Key(code.into()), scope, Rect::new(0, 0, 80, 24));
}

fn click(front: &mut Front, scope: &mut Scope, (column, row): (u16, u16)) {
    for kind in [MouseEventKind::Down(MouseButton::Left), MouseEventKind::Up(MouseButton::Left)] {
        let mouse = Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE });
        front.event(&mouse, scope, Rect::new(0, 0, 80, 24));
    }
}

/// Column and row of a text on the screen.
fn place_of(front: &Front, scope: &Scope, words: &str) -> (u16, u16) {
    let drawn = lines(&screen(front, scope, 80, 24));
    let found = drawn.lines().enumerate().find_map(|(y, line)| {
        let before = line.split_once(words)?.0;
        Some((before.chars().count() as u16, y as u16))
    });
    found.unwrap_or_else(|| panic!("{words} in {drawn}"))
}

#[test]
fn enter_and_a_click_open_a_forwarder() {
    let (mut front, mut scope) = (front(), through(1));
    let is_open = |scope: &Scope| scope.frame().bands[0].is_open;
    while scope.frame().controls.lane != Some(Place::Forwarder(1)) {
        let before = scope.frame().controls.lane;
        press(&mut front, &mut scope, KeyCode::PageDown);
        assert_ne!(scope.frame().controls.lane, before, "the forwarder is among the rows");
    }
    press(&mut front, &mut scope, KeyCode::Enter);
    assert!(is_open(&scope));
    press(&mut front, &mut scope, KeyCode::Enter);
    assert!(!is_open(&scope));
    let at = place_of(&front, &scope, "+router-1");
    click(&mut front, &mut scope, at);
    assert!(is_open(&scope));
    let at = place_of(&front, &scope, "wire");
    click(&mut front, &mut scope, at);
    assert!(is_open(&scope), "a wire has nothing to open");
}

#[test]
fn a_click_on_a_stroke_selects_its_journey() {
    let (mut front, mut scope) = (front(), selected(1, &[]));
    let key = scope.frame().controls.journey.expect("one is selected");
    let (_, row) = place_of(&front, &scope, "+router-1");
    let drawn = lines(&screen(&front, &scope, 80, 24));
    let stroke = drawn.lines().nth(usize::from(row)).and_then(|line| line.chars().position(|c| c == '●'));
    scope.apply(Action::Back);
    assert_eq!(scope.frame().controls.journey, None);
    click(&mut front, &mut scope, (stroke.expect("its stroke") as u16, row));
    assert_eq!(scope.frame().controls.journey, Some(key));
}
