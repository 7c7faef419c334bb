//! The kernel's sums on the screen: alone, and next to events.

use crate::cells;
use crate::made_up;

use cells::{cells, front, screen};
use made_up::{World, sums};
use magscope_scope::{Action, Channel, Options, Scope, View};

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 40)];

/// This many seconds of sums; with events if `with_events` returns true.
fn summed(seconds: u64, with_events: impl Fn(u64) -> bool) -> Scope {
    let mut scope = Scope::new(made_up::info(), Options::default());
    let mut world = World::new(400.0);
    for number in 0..seconds {
        scope.ingest(&sums::second(&mut world, number, with_events(number)));
    }
    scope
}

fn look(name: &str, scope: &mut Scope, actions: &[Action]) -> String {
    for action in actions {
        scope.apply(action.clone());
    }
    let mut all = String::new();
    for (width, height) in SIZES {
        let shown = cells(&screen(&front(), scope, width, height));
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), shown);
        all.push_str(&shown);
    }
    all
}

#[test]
fn alone_they_are_the_picture() {
    let mut scope = summed(40, |_| false);
    let shown = look("sums_scope", &mut scope, &[Action::ToggleChannel(Channel::ALL[0])]);
    assert!(shown.contains("Σ the kernel adds up: no events") && !shown.contains("dropped 0"), "{shown}");
    let shown = look("sums_hops", &mut scope, &[Action::Show(View::Hops), Action::SelectRow(4)]);
    assert!(shown.contains("Σ added up by the kernel, 1 s at a time"), "{shown}");
    look("sums_flows", &mut scope, &[Action::Show(View::Flows)]);
    look("sums_losses", &mut scope, &[Action::Show(View::Losses)]);
    scope.apply(Action::Show(View::Events));
    let shown = cells(&screen(&front(), &scope, 80, 24));
    assert!(shown.contains("no events: the kernel adds up"), "{shown}");
}

#[test]
fn beside_events_they_have_their_own_rows() {
    let mut scope = summed(4, |_| true);
    let wide = [Action::SetTimebase(500_000_000), Action::SeekPart(0.5), Action::Show(View::Hops)];
    let shown = look("sums_beside", &mut scope, &wide);
    assert!(shown.contains("whole journey") && shown.contains("Σ by the kernel"), "{shown}");
    look("sums_beside_flows", &mut scope, &[Action::Show(View::Flows)]);
}

#[test]
fn after_events_the_picture_goes_on_with_them() {
    let mut scope = summed(20, |number| number < 8);
    look("sums_after", &mut scope, &[]);
}
