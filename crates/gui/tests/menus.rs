//! The menu of rows and marks, under the right button.

use crate::common;

use common::hand::{SIZE, bench, button, click, filter_of, secondary, span_ns, type_text};
use common::made_up::{START_NS, storm};
use common::{busy, chosen, window};
use egui::{Event, Key, PointerButton, Pos2, Vec2};
use egui_kittest::kittest::Queryable;
use magscope_gui::{Chosen, Light};
use magscope_scope::look::FlowOrder;
use magscope_scope::{Action, GroupBy, List, View};

#[test]
fn the_right_button_on_a_row_narrows_and_copies() {
    for (tab, label) in [
        (View::Journeys, "udp 10.0.0.7:50000 → 10.0.0.9:8125"),
        (View::Flows, "udp 10.0.0.7:50000 → 10.0.0.9:8125"),
    ] {
        let mut scope = busy();
        scope.apply(Action::Filter("udp".to_owned()));
        let mut harness = window(scope, Chosen { tab, below_height: 420.0, ..chosen(Light::Dark) }, SIZE);
        let at = harness
            .query_all_by_label(label)
            .next()
            .map(|node| node.rect().left_center() + Vec2::new(6.0, 0.0));
        let Some(at) = at else { panic!("{tab:?} has no row of a datagram") };
        secondary(&mut harness, at);
        click(&mut harness, "Not this");
        assert_eq!(filter_of(&harness), "proto = udp and not flow = 10.0.0.7:50000-10.0.0.9:8125", "{tab:?}");
        assert!(harness.query_by_label("Not this").is_none(), "the menu is closed");
    }
    let mut harness = window(busy(), Chosen { tab: View::Events, side: false, ..chosen(Light::Dark) }, SIZE);
    let row = harness.query_all_by_label_contains("tcp 10.0.0.").next().expect("an event of a packet");
    let at = row.rect().left_center() + Vec2::new(6.0, 0.0);
    secondary(&mut harness, at);
    click(&mut harness, "Only this");
    assert!(filter_of(&harness).starts_with("flow = 10.0.0."), "{}", filter_of(&harness));

    let mut harness = window(busy(), Chosen { tab: View::Journeys, ..chosen(Light::Dark) }, SIZE);
    let at = harness.query_all_by_label_contains("waiting for a CPU").next().expect("a row").rect().center();
    secondary(&mut harness, at);
    harness.get_by_label("Copy the row").click();
    harness.run_steps(1);
    let copied = harness.output().platform_output.commands.iter().find_map(|command| match command {
        egui::OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    });
    let copied = copied.expect("the row is in the clipboard");
    assert!(copied.contains("waiting for a CPU") && copied.split('\t').count() == 7, "{copied:?}");
}

#[test]
fn the_menu_is_of_what_was_pointed_at_and_escape_closes_it() {
    let mut harness = window(busy(), Chosen { tab: View::Journeys, ..chosen(Light::Dark) }, SIZE);
    let at = harness.query_all_by_label_contains("waiting for a CPU").next().expect("a row").rect().center();
    secondary(&mut harness, at);
    let condition = harness.query_all_by_label_contains("flow = ").next().map(|node| format!("{node:?}"));
    assert!(condition.is_some());
    // Other rows come beneath it.
    harness.state_mut().scope.ingest(&storm::flows(0..500));
    harness.run_steps(2);
    assert_eq!(harness.query_all_by_label_contains("flow = ").count(), 1);
    type_text(&mut harness, "q");
    assert!(!harness.state().scope.quits(), "keys are the menu's");
    harness.key_press(Key::Escape);
    harness.run_steps(2);
    assert!(harness.query_by_label("Only this").is_none());
    assert_eq!(filter_of(&harness), "");
}

#[test]
fn a_click_on_a_lifeline_fits_it_and_its_menu_narrows() {
    let mut harness = bench();
    let before = span_ns(&harness);
    let (key, total_ns, at) = {
        let frame = harness.state().scope.frame();
        let line = frame.sweep.lifelines.iter().max_by_key(|line| line.total_ns()).expect("lines");
        let start = line.marks().find(|mark| mark.hop == magscope_core::Hop::IpOut).expect("it was sent");
        let x = frame.sweep.x(line, start.time_ns) as f32;
        let area = harness.get_by_label_contains("time line:").rect();
        let y = harness.query_all_by_label("ip.out").next().expect("its lane").rect().center().y;
        (line.key(), line.total_ns(), Pos2::new(area.left() + x * area.width(), y))
    };
    harness.event(Event::PointerMoved(at));
    harness.run_steps(2);
    secondary(&mut harness, at);
    click(&mut harness, "Only this");
    assert!(filter_of(&harness).starts_with("flow = "), "{}", filter_of(&harness));
    harness.state_mut().apply(Action::Filter(String::new()));
    harness
        .state_mut()
        .apply(Action::ZoomTo { from_ns: START_NS + 976_000_000, to_ns: START_NS + 988_000_000 });
    harness.run_steps(2);
    button(&mut harness, at, PointerButton::Primary, true);
    button(&mut harness, at, PointerButton::Primary, false);
    harness.run_steps(3);
    assert_eq!(harness.state().scope.frame().controls.journey, Some(key));
    assert!(span_ns(&harness) < before && span_ns(&harness) > total_ns, "{}", span_ns(&harness));
    // On the empty picture the right button leads back.
    let area = harness.get_by_label_contains("time line:").rect();
    secondary(&mut harness, area.right_bottom() - Vec2::new(4.0, 4.0));
    assert_eq!(span_ns(&harness), before);
}

#[test]
fn a_group_of_flows_opens_and_can_be_left_out() {
    let mut scope = busy();
    scope.apply(Action::GroupFlows(GroupBy::Node));
    let mut harness =
        window(scope, Chosen { tab: View::Flows, below_height: 420.0, ..chosen(Light::Dark) }, SIZE);
    let row = |harness: &egui_kittest::Harness<'_, common::Bench>| {
        let found = harness.query_all_by_label("udp server reads").next();
        found.map(|node| node.rect().left_center() + Vec2::new(6.0, 0.0))
    };
    let at = row(&harness).expect("a group");
    secondary(&mut harness, at);
    click(&mut harness, "Not this");
    assert_eq!(filter_of(&harness), "not (proto = udp and node = server)");
    harness.state_mut().apply(Action::Filter(String::new()));
    harness.run_steps(2);
    let at = row(&harness).expect("it is there again");
    button(&mut harness, at, PointerButton::Primary, true);
    button(&mut harness, at, PointerButton::Primary, false);
    harness.run_steps(2);
    let within = harness.state().scope.frame().controls.within.clone().expect("the group is open");
    assert_eq!(within.words, "udp server reads");
    assert!(harness.query_all_by_label("udp 10.0.0.7:50000 → 10.0.0.9:8125").next().is_some());
}

#[test]
fn a_click_on_a_title_orders_the_table() {
    let mut harness =
        window(busy(), Chosen { tab: View::Flows, below_height: 420.0, ..chosen(Light::Dark) }, SIZE);
    for order in [FlowOrder::P99, FlowOrder::Failed, FlowOrder::Bytes] {
        click(&mut harness, order.column());
        assert_eq!(harness.state().scope.frame().controls.order, order);
        harness.get_by_label(&format!("{} ▼", order.column()));
    }
    let mut harness =
        window(busy(), Chosen { tab: View::Journeys, below_height: 420.0, ..chosen(Light::Dark) }, SIZE);
    click(&mut harness, "began (UTC)");
    assert_eq!(harness.state().scope.frame().controls.list, List::Recent);
    click(&mut harness, "total");
    assert_eq!(harness.state().scope.frame().controls.list, List::Slowest);
}
