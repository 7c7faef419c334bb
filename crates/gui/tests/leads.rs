//! Where the window leads: to the tab with the evidence of the headline or the request of a journey. And a chosen row
//! stays that row.

use crate::common;

use common::hand::{SIZE, bench, click, type_text};
use common::made_up::{START_NS, World, info};
use common::{Bench, SECOND, busy, chosen, compared, scopes, window};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use magscope_core::{Batch, DetailKind, Event, Hop, Proto};
use magscope_gui::{Chosen, Light};
use magscope_scope::{Action, Evidence, Options, Scope, View};

/// The scope's view, the tab, and true if the panel is open.
fn shown(harness: &Harness<'_, Bench>) -> (View, View, bool) {
    let chosen = &harness.state().front.chosen;
    (harness.state().scope.frame().controls.view, chosen.tab, chosen.below)
}

/// A packet that the kernel dropped, of no journey.
fn dropped() -> Scope {
    let mut scope = Scope::new(info(), Options::default());
    let event = Event { detail: DetailKind::DropReason.of(2), ..Event::at(Hop::SkbDrop, START_NS + 1_000) };
    scope.ingest(&Batch { events: vec![event], watermark_ns: START_NS + SECOND, ..Batch::default() });
    scope.end();
    scope
}

#[test]
fn evidence_with_a_tab_opens_it() {
    let mut harness = window(dropped(), chosen(Light::Dark), SIZE);
    assert_eq!(harness.state().scope.headline().evidence, Evidence::Losses);
    click(&mut harness, "Show why");
    assert_eq!(shown(&harness), (View::Losses, View::Losses, true));
    // By its key, while the panel is closed.
    type_text(&mut harness, "1");
    assert!(!shown(&harness).2);
    type_text(&mut harness, "!");
    assert_eq!(shown(&harness), (View::Losses, View::Losses, true));
}

#[test]
fn a_journey_that_is_evidence_leaves_the_tab() {
    let chosen = Chosen { tab: View::Flows, ..chosen(Light::Dark) };
    let mut harness = window(scopes::lossy(), chosen, SIZE);
    let evidence = harness.state().scope.headline().evidence.clone();
    assert!(matches!(evidence, Evidence::Journeys(_)), "{evidence:?}");
    click(&mut harness, "Show why");
    assert_eq!(shown(&harness), (View::Flows, View::Flows, true));
    assert!(harness.state().scope.frame().controls.journey.is_some());
}

#[test]
fn the_request_of_a_journey_is_shown_in_its_tab() {
    let mut scope = busy();
    let id = scope.frame().requests(1, 1).slowest[0].id;
    scope.apply(Action::ChooseRequest(id));
    let journey = scope.frame().controls.journey;
    assert!(journey.is_some());
    let mut harness = window(scope, chosen(Light::Dark), SIZE);
    type_text(&mut harness, "Q");
    assert_eq!(shown(&harness), (View::Requests, View::Requests, true));
    assert_eq!(harness.state().scope.frame().controls.request, Some(id));
    // From there back to the journey, which the window shows beside the tab.
    type_text(&mut harness, "Q");
    assert_eq!(shown(&harness), (View::Requests, View::Requests, true));
    assert_eq!(harness.state().scope.frame().controls.journey, journey);
}

#[test]
fn a_distribution_is_of_the_chosen_times_in_every_stretch() {
    let mut scope = Scope::new(info(), Options::default());
    let mut world = World::new(400.0);
    for tenth in 1..=20 {
        let mut batch = world.batch_until(tenth * SECOND / 10).clone();
        let proto = if tenth <= 10 { Proto::UDP } else { Proto::TCP };
        batch.events.retain(|event| event.proto == proto);
        scope.ingest(&batch);
    }
    scope.end();
    let tenths = |from: u64, to: u64| Action::ZoomTo {
        from_ns: START_NS + from * SECOND / 10,
        to_ns: START_NS + to * SECOND / 10,
    };
    scope.apply(tenths(2, 8));
    let chosen = Chosen { tab: View::Distributions, below_height: 420.0, side: false, ..chosen(Light::Dark) };
    let mut harness = window(scope, chosen, SIZE);
    let has_chart =
        |harness: &Harness<'_, Bench>| harness.query_all_by_label_contains(" times, p50 ").next().is_some();
    click(&mut harness, "whole journey");
    assert!(has_chart(&harness));
    harness.state_mut().apply(tenths(12, 18));
    harness.run_steps(3);
    harness.get_by_label("udp whole journey: no times in this stretch");
    assert!(!has_chart(&harness), "TCP has times there");
    click(&mut harness, "whole journey");
    assert!(has_chart(&harness));
}

#[test]
fn a_comparison_without_the_chosen_times_says_so() {
    let mut harness = bench();
    harness.state_mut().front.show_compared(compared());
    harness.state_mut().front.chosen.compared = Some((Proto::ICMP, None));
    harness.run_steps(4);
    harness.get_by_label("icmp whole journey: no times in this comparison");
    assert!(harness.query_by_label("whole journey, before and after").is_none());
    harness.state_mut().front.chosen.compared = Some((Proto::TCP, None));
    harness.run_steps(3);
    harness.get_by_label("whole journey, before and after");
}
