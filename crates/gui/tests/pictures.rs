//! Snapshots of every panel and zoom, light and dark, in `tests/pictures`.
//!
//! Software rendering needs neither a display nor a driver. `UPDATE_SNAPSHOTS=1` updates the snapshots.

use crate::common;

use common::made_up::published;
use common::{busy, chosen, compared, picture, probed, scopes, summed, two_hosts, two_hosts_after, window};
use egui_kittest::SnapshotResults;
use magscope_gui::{Axes, Chosen, ChosenTimes, Light, Tint};
use magscope_scope::{Action, Channel, MeasureSpan, Persistence, View};

const SIZE: [f32; 2] = [1280.0, 800.0];
const BOTH: [(Light, &str); 2] = [(Light::Dark, "dark"), (Light::Light, "light")];

#[test]
fn two_hosts_near() {
    let mut results = SnapshotResults::new();
    for (light, name) in BOTH {
        let mut harness = window(two_hosts(), chosen(light), SIZE);
        picture(&mut harness, &format!("two_hosts_{name}"), &mut results);
    }
}

#[test]
fn every_zoom() {
    let mut results = SnapshotResults::new();
    for (name, span_ns) in [("near", 400_000), ("middle", 40_000_000), ("far", 2_900_000_000_u64)] {
        for (light, colours) in BOTH {
            let mut scope = busy();
            let from_ns = common::made_up::START_NS + 60_000_000;
            scope.apply(Action::ZoomTo { from_ns, to_ns: from_ns + span_ns });
            let mut harness = window(scope, Chosen { tint: Tint::Flow, ..chosen(light) }, SIZE);
            picture(&mut harness, &format!("zoom_{name}_{colours}"), &mut results);
        }
    }
}

#[test]
fn every_panel() {
    let mut results = SnapshotResults::new();
    for (light, name) in BOTH {
        for (tab, title) in View::tabs().filter(|(tab, _)| *tab != View::Compare) {
            let mut scope = busy();
            scope.apply(Action::SetTimebase(100_000_000));
            scope.apply(Action::SeekPart(0.5));
            if tab == View::Persistence {
                scope.apply(Action::SetPersistence(Persistence::Endless));
            }
            if tab == View::Trigger {
                scope.apply(Action::TriggerText("hop(dev.recv,app.recv) > 2ms".to_owned()));
                scope.apply(Action::Force);
                scope.end();
            }
            if tab == View::Xy {
                scope.apply(Action::SetXy(Some((Channel::Srtt, Channel::Cwnd))));
            }
            let chosen = Chosen { tab, below_height: 420.0, side: false, ..chosen(light) };
            let mut harness = window(scope, chosen, SIZE);
            picture(&mut harness, &format!("panel_{}_{name}", title.replace(' ', "_")), &mut results);
        }
    }
}

#[test]
fn paths_through_a_node() {
    let mut results = SnapshotResults::new();
    for (light, name) in BOTH {
        let chosen = Chosen { tab: View::Topology, below_height: 420.0, side: false, ..chosen(light) };
        let mut harness = window(published::scope(), chosen, SIZE);
        harness.state_mut().apply(Action::SelectRow(1));
        harness.run_steps(3);
        picture(&mut harness, &format!("node_{name}"), &mut results);
    }
}

#[test]
fn what_the_kernel_added_up() {
    let mut results = SnapshotResults::new();
    for (tab, name) in [(View::Hops, "heat"), (View::Distributions, "distributions"), (View::Flows, "flows")] {
        let scope = summed(0);
        let span = scope.frame().sum_map(1, 1).map.rows[6].span;
        let times = Some(ChosenTimes { proto: None, span, is_summed: true });
        let chosen = Chosen { tab, below_height: 420.0, times, ..chosen(Light::Dark) };
        let mut harness = window(scope, chosen, SIZE);
        picture(&mut harness, &format!("sums_{name}"), &mut results);
    }
    // After events, next to their rows.
    let chosen = Chosen { tab: View::Hops, below_height: 1_120.0, ..chosen(Light::Light) };
    let mut harness = window(summed(20), chosen, [1_100.0, 1_500.0]);
    picture(&mut harness, "sums_beside", &mut results);
}

#[test]
fn percentiles_and_linear_time() {
    let mut results = SnapshotResults::new();
    let axes = Axes { log_time: false, percentiles: true, ..Axes::default() };
    let chosen = Chosen { tab: View::Distributions, axes, below_height: 420.0, ..chosen(Light::Dark) };
    let mut scope = busy();
    scope.apply(Action::SetTimebase(100_000_000));
    let mut harness = window(scope, chosen, SIZE);
    picture(&mut harness, "percentiles", &mut results);
}

#[test]
fn the_instrument_with_everything() {
    let mut results = SnapshotResults::new();
    for (light, name) in BOTH {
        let scope = two_hosts_after(&[
            Action::SelectJourney(1),
            Action::ToggleInspector,
            Action::ToggleChannel(Channel::Cwnd),
            Action::ToggleChannel(Channel::Srtt),
            Action::MathText("srtt - rttvar".to_owned()),
            Action::ToggleCursors,
            Action::MeasureOver(MeasureSpan::Cursors),
        ]);
        let mut harness = window(scope, chosen(light), [1440.0, 900.0]);
        picture(&mut harness, &format!("everything_{name}"), &mut results);
    }
}

#[test]
fn probes_of_ones_own() {
    let mut results = SnapshotResults::new();
    for (light, name) in BOTH {
        let mut scope = probed();
        let from_ns = common::made_up::START_NS + 480_000_000;
        scope.apply(Action::ZoomTo { from_ns, to_ns: from_ns + 6_000_000 });
        scope.apply(Action::SelectJourney(1));
        let mut harness = window(scope, Chosen { tab: View::Hops, ..chosen(light) }, [1440.0, 900.0]);
        harness.run_steps(2);
        picture(&mut harness, &format!("probes_{name}"), &mut results);
    }
    let mut scope = probed();
    scope.apply(Action::Fit);
    let mut harness = window(scope, Chosen { tab: View::Events, ..chosen(Light::Dark) }, SIZE);
    picture(&mut harness, "probes_far", &mut results);
}

#[test]
fn small_and_large() {
    let mut results = SnapshotResults::new();
    for (name, size, scale) in [("small", [640.0, 400.0], 1.0), ("scaled", [1280.0, 800.0], 1.6)] {
        let mut harness = window(two_hosts(), Chosen { scale, ..chosen(Light::Dark) }, size);
        harness.run_steps(3);
        picture(&mut harness, &format!("size_{name}"), &mut results);
    }
}

#[test]
fn every_kind_of_capture() {
    let mut results = SnapshotResults::new();
    for (kind, scope) in scopes::KINDS {
        let mut harness = window(scope(), Chosen { tab: View::Flows, ..chosen(Light::Dark) }, SIZE);
        picture(&mut harness, &format!("kind_{kind}"), &mut results);
    }
    for (name, size) in [("1440", [1440.0, 900.0]), ("1920", [1920.0, 1080.0])] {
        let mut harness = window(scopes::lossy(), Chosen { tab: View::Losses, ..chosen(Light::Light) }, size);
        picture(&mut harness, &format!("kind_loss_{name}"), &mut results);
    }
}

#[test]
fn a_comparison_with_its_plots() {
    let mut results = SnapshotResults::new();
    for (light, name) in BOTH {
        let mut harness = window(two_hosts(), chosen(light), SIZE);
        harness.state_mut().front.show_compared(compared());
        harness.run_steps(4);
        picture(&mut harness, &format!("compare_{name}"), &mut results);
    }
}
