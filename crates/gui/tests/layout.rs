//! The layout of the window: nothing moves, covers or breaks what is beside it, and a small window says what it lacks.

use crate::common;

use common::hand::{SIZE, bench, click, type_text};
use common::{Bench, busy, chosen, compared, two_hosts, window};
use egui::Vec2;
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use magscope_gui::{Chosen, Light};
use magscope_scope::{Action, Recording, View};

#[test]
fn no_button_moves_for_a_trigger_a_filter_or_a_recording() {
    for size in [[640.0, 600.0], SIZE, [1440.0, 900.0]] {
        let mut harness = window(busy(), chosen(Light::Dark), size);
        let place = |harness: &Harness<'_, Bench>| {
            let buttons = ["Colour: latency", "Channels", "light or dark", "help: keys and commands"];
            let top = harness.state().front.picture().expect("a picture").top();
            (top, buttons.map(|label| (harness.get_by_label(label).rect().left() * 4.0) as i32))
        };
        let before = place(&harness);
        let recording = Recording { name: "a-recording.session".to_owned(), bytes: 5_000_000, events: 70_000 };
        harness.state_mut().scope.set_recording(Some(recording));
        harness.run_steps(2);
        assert_eq!(place(&harness), before, "a recording, {size:?}");
        harness.state_mut().apply(Action::TriggerText("hop(dev.recv,app.recv) > 2ms".to_owned()));
        harness.run_steps(2);
        assert_eq!(place(&harness), before, "a trigger, {size:?}");
        for filter in ["udp", "proto = tcp and not flow = 10.0.0.7:50000-10.0.0.9:8125"] {
            harness.state_mut().apply(Action::Filter(filter.to_owned()));
            harness.run_steps(2);
            assert_eq!(place(&harness), before, "{filter}, {size:?}");
        }
    }
}

#[test]
fn a_low_window_says_why_no_tab_opens() {
    let mut harness = window(two_hosts(), chosen(Light::Dark), [640.0, 400.0]);
    assert!(harness.query_by_label("the window is too low for a panel").is_some());
    let before = harness.state().front.chosen.clone();
    click(&mut harness, "flows");
    click(&mut harness, "below");
    assert_eq!(harness.state().front.chosen, before, "nothing is chosen that is not shown");
    harness.set_size(Vec2::from(SIZE));
    harness.run_steps(3);
    assert!(harness.query_by_label("the window is too low for a panel").is_none());
    click(&mut harness, "flows");
    assert_eq!(harness.state().front.chosen.tab, View::Flows);
}

#[test]
fn a_comparison_shows_how_journeys_ended() {
    let mut harness = bench();
    harness.state_mut().front.show_compared(compared());
    harness.run_steps(4);
    let endings = harness.query_all_by_label_contains("how they ended: ").count();
    assert_eq!(endings, compared().comparison.protocols.len());
    assert!(endings > 0);
}

#[test]
fn counts_of_all_traffic_are_named_once_and_none_is_broken() {
    let mut scope = busy();
    scope.apply(Action::Filter("proto = tcp".to_owned()));
    let harness = window(scope, Chosen { side_width: 300.0, ..chosen(Light::Dark) }, SIZE);
    assert!(harness.query_all_by_label_contains("(all traffic)").next().is_none());
    let height = |label: &str| {
        let nodes = harness.query_all_by_label_contains(label);
        nodes.map(|node| node.rect().height()).fold(0.0_f32, f32::max)
    };
    for label in [" retransmits", " events missed", " dropped"] {
        let height = height(label);
        assert!(height > 0.0 && height < 30.0, "{label} is {height} high: two lines");
    }
}

#[test]
fn no_number_is_below_the_bar_of_a_table() {
    let harness = window(two_hosts(), chosen(Light::Dark), SIZE);
    let number = format!("#{}", harness.state().scope.frame().journeys(64).rows[0].line.id());
    let right = harness.get_by_label(&number).rect().right();
    let panel = harness.get_by_label("height of the panel below").rect().right();
    assert!(right < panel - 15.0, "{right} of {panel}");
}

#[test]
fn the_keys_of_commands_are_not_below_the_bar_of_the_palette() {
    let mut harness = bench();
    type_text(&mut harness, ":");
    harness.run_steps(3);
    let field = harness.get_by_label("command").rect().right();
    let keys = harness.query_all_by_label_contains("F1").map(|node| node.rect().right());
    let right = keys.fold(0.0_f32, f32::max);
    assert!(right > 0.0 && right < field - 8.0, "{right} of {field}");
}
