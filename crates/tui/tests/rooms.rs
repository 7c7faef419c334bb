//! Every room at three sizes, with colours: 80 × 24 must be useful, 200 × 60 complete.

use crate::cells;
use crate::made_up;

use cells::{cells, front, screen};
use made_up::World;
use magscope_scope::{Action, Channel, Options, Overhead, Room, Scope};

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
    let shown = busy().frame().view.channels.clone();
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
    look("flows", &[Action::Show(Room::Flows)]);
}

#[test]
fn hops() {
    let mut actions = wide();
    actions.extend([Action::Show(Room::Hops), Action::SelectRow(1), Action::SelectRow(1)]);
    look("hops", &actions);
}

#[test]
fn journeys() {
    look("journeys", &[Action::Show(Room::Journeys), Action::SelectRow(1)]);
}

#[test]
fn events() {
    look("events", &[Action::Show(Room::Events), Action::SelectRow(-1)]);
}

#[test]
fn clock() {
    look("clock", &[Action::Show(Room::Clock)]);
}

#[test]
fn losses() {
    look("losses", &[Action::Show(Room::Losses)]);
}
