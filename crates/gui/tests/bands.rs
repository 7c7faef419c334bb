//! Forwarders in the window: rows between the sender's hops and the receiver's, which a click opens.

use crate::common;

use common::made_up::forwarded;
use common::{chosen, picture, window};
use egui_kittest::SnapshotResults;
use egui_kittest::kittest::Queryable;
use magscope_gui::Light;
use magscope_scope::{Action, Options, Place, Scope};

/// Half a second of datagrams through so many forwarders; the slowest is selected.
fn through(forwarders: u8) -> Scope {
    let mut scope = Scope::new(forwarded::info(forwarders), Options::default());
    (0..600).step_by(50).for_each(|n| scope.ingest(&forwarded::batch(forwarders, n..n + 50)));
    scope.apply(Action::SelectJourney(1));
    scope
}

#[test]
fn bands_stack_from_the_sender_to_the_receiver() {
    let mut results = SnapshotResults::new();
    let mut harness = window(through(1), chosen(Light::Dark), [1280.0, 800.0]);
    picture(&mut harness, "bands_one", &mut results);
    let mut scope = through(3);
    scope.apply(Action::ToggleForwarder(2));
    let mut harness = window(scope, chosen(Light::Light), [1280.0, 800.0]);
    picture(&mut harness, "bands_three", &mut results);
}

#[test]
fn a_click_on_a_forwarder_shows_and_hides_its_hops() {
    let mut harness = window(through(3), chosen(Light::Dark), [1280.0, 800.0]);
    let open = |scope: &Scope| scope.frame().bands.iter().map(|band| band.is_open).collect::<Vec<_>>();
    for (number, expected) in [(1, [true, false, false]), (3, [true, false, true]), (1, [false, false, true])] {
        harness.get_by_label(&format!("router-{number}")).click();
        harness.run_steps(3);
        assert_eq!(open(&harness.state().scope), expected);
    }
    let middle = |name: &str| harness.get_by_label(name).rect().center().y;
    assert!(middle("router-3") < middle("router-2") && middle("router-2") < middle("router-1"));
}

#[test]
fn every_place_has_its_row_in_order() {
    for forwarders in 0..=3 {
        for opens in [false, true] {
            let mut scope = through(forwarders);
            (1..=forwarders).filter(|_| opens).for_each(|number| scope.apply(Action::ToggleForwarder(number)));
            let harness = window(scope, chosen(Light::Dark), [1280.0, 1200.0]);
            let frame = harness.state().scope.frame();
            let mut above = 0.0;
            for lane in frame.lanes {
                let name = match lane.place {
                    Place::Inside(number, hop) => format!("{}: {hop}", frame.name_of(Place::Forwarder(number))),
                    place => frame.name_of(place).to_owned(),
                };
                let rows = harness.query_all_by_label(&name).map(|row| row.rect().center().y);
                let next = rows.filter(|y| *y > above).reduce(f32::min);
                above = next.unwrap_or_else(|| panic!("{name} has no row below {above}"));
            }
        }
    }
}
