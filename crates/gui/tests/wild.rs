//! Robustness: random keys, extreme zooms, empty recordings, one event, many flows.

use crate::common;

use common::made_up::{World, storm};
use common::nonsense;
use common::{Bench, SECOND, busy, chosen, two_hosts, window};
use egui::{Event, Modifiers, MouseWheelSource, MouseWheelUnit, PointerButton, Pos2, Rect, TouchPhase, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use magscope_core::node::NodeInfo;
use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Event as Hit, Hop};
use magscope_gui::{Chosen, Light};
use magscope_scope::{Action, Options, Place, Scope, State, View};
use magscope_session::Session;
use std::time::Duration;

const SIZE: [f32; 2] = [900.0, 600.0];

fn every_tab(scope: impl Fn() -> Scope) {
    for (tab, _) in View::tabs() {
        let mut harness = window(scope(), Chosen { tab, ..chosen(Light::Dark) }, SIZE);
        harness.run_steps(2);
    }
}

#[test]
fn nothing_at_all_and_one_event() {
    every_tab(|| Scope::new(NodeInfo::default(), Options::default()));
    every_tab(|| {
        let mut scope = Scope::new(common::made_up::info(), Options::default());
        let events = vec![Hit::at(Hop::IpIn, 5)];
        scope.ingest(&Batch { events, watermark_ns: 5, ..Batch::default() });
        scope.end();
        scope
    });
}

#[test]
fn zooms_from_a_nanosecond_to_ten_years() {
    let year = 365 * 86_400 * SECOND;
    for (from_ns, to_ns) in [
        (0, 1),
        (0, 10 * year),
        (u64::MAX - 1, u64::MAX),
        (0, u64::MAX),
        (common::made_up::START_NS, common::made_up::START_NS + 1),
        (common::made_up::START_NS, common::made_up::START_NS),
    ] {
        let mut harness = window(two_hosts(), chosen(Light::Light), SIZE);
        harness.state_mut().apply(Action::ZoomTo { from_ns, to_ns });
        harness.state_mut().apply(Action::ToggleCursors);
        harness.run_steps(2);
        for by in [f64::MAX, f64::MIN, f64::NAN, 1e300, -1e300] {
            harness.state_mut().apply(Action::PanBy(by));
            harness.state_mut().apply(Action::Zoom { notches: i32::MAX, at: by });
            harness.state_mut().apply(Action::Zoom { notches: i32::MIN, at: -by });
            harness.run_steps(1);
        }
    }
}

#[test]
fn many_flows_are_a_table_and_not_a_wall() {
    // Enough to exceed each bound on flows; the benches use a million.
    const FLOWS: u64 = 70_000;
    let mut scope = Scope::new(common::made_up::info(), Options::default());
    for first in (0..FLOWS).step_by(1000) {
        scope.ingest(&storm::flows(first..first + 1000));
    }
    scope.end();
    let table = scope.frame().flows(usize::MAX);
    let listed: u64 = table.rows.iter().map(|row| row.journeys).sum();
    assert!(table.total <= 4096 && table.rows.len() == table.total, "{}", table.total);
    assert_eq!(listed + table.left_out, FLOWS, "what is not listed is counted");
    assert_eq!(scope.frame().footer.counts.journeys, FLOWS);
    let mut harness =
        window(scope, Chosen { tab: View::Flows, below_height: 300.0, ..chosen(Light::Dark) }, SIZE);
    harness.run_steps(3);
    let words = format!("{} journeys of others", magscope_scope::format::count(table.left_out));
    harness.get_by_label_contains(&words);
}

/// Compares the picture of a long-lived window with that of a new one.
fn same_as_a_fresh_one(harness: &mut egui_kittest::Harness<'_, common::Bench>, after: &str) {
    harness.event(Event::PointerGone);
    harness.run_steps(3);
    let rendered = harness.render().expect("arithmetic");
    let scope =
        std::mem::replace(&mut harness.state_mut().scope, Scope::new(NodeInfo::default(), Options::default()));
    let size = harness.ctx.content_rect().size();
    let mut fresh = window(scope, harness.state().front.chosen.clone(), [size.x, size.y]);
    fresh.event(Event::PointerGone);
    fresh.run_steps(3);
    let redrawn = fresh.render().expect("arithmetic");
    harness.state_mut().scope =
        std::mem::replace(&mut fresh.state_mut().scope, Scope::new(NodeInfo::default(), Options::default()));
    assert_eq!(rendered.dimensions(), redrawn.dimensions());
    // Only the strips: glyph positions in the font texture may differ in the last bit.
    let rows = harness.query_all_by_label_contains("whole journey").map(|node| node.rect());
    let first = |a: &Rect, b: &Rect| a.width().total_cmp(&b.width()).then(b.top().total_cmp(&a.top()));
    let row = rows.max_by(first).expect("the first strip");
    let x = row.left() as u32 + 208..row.right() as u32 - 272;
    let y = row.top() as u32 + 1..size.y as u32 - 80;
    let strips = y.flat_map(|y| x.clone().map(move |x| (x, y)));
    let is_other = |(x, y): &(u32, u32)| {
        let (a, b) = (rendered.get_pixel(*x, *y).0, redrawn.get_pixel(*x, *y).0);
        a.iter().zip(b).any(|(a, b)| a.abs_diff(b) > 2)
    };
    let other = strips.filter(is_other).count();
    assert_eq!(other, 0, "pixels are another window's after {after}");
}

#[test]
fn a_heat_map_that_is_kept_is_the_one_a_fresh_window_makes() {
    let chosen = Chosen { tab: View::Hops, below_height: 300.0, ..chosen(Light::Dark) };
    let mut harness = window(busy(), chosen, SIZE);
    harness.state_mut().apply(Action::Fit);
    same_as_a_fresh_one(&mut harness, "the first look");
    for action in [
        Action::PanBy(0.1),
        Action::Zoom { notches: -2, at: 0.3 },
        Action::Filter("proto = udp".to_owned()),
        Action::Filter(String::new()),
        Action::Fit,
        Action::ChooseLane(Some(Place::Hop(Hop::DevRecv))),
    ] {
        let words = format!("{action:?}");
        harness.state_mut().apply(action);
        same_as_a_fresh_one(&mut harness, &words);
    }
    harness.state_mut().scope.ingest(&storm::flows(400_000..402_000));
    harness.state_mut().apply(Action::Fit);
    same_as_a_fresh_one(&mut harness, "new data");
    harness.state_mut().front.chosen.below_height = 420.0;
    same_as_a_fresh_one(&mut harness, "more rows in sight");
    harness.set_size(Vec2::new(1100.0, 700.0));
    same_as_a_fresh_one(&mut harness, "another size");
}

#[test]
fn a_recording_of_nonsense_is_drawn() {
    for seed in 1..=40_u64 {
        let dir = tempfile::tempdir().expect("room");
        let path = dir.path().join("s");
        let info = common::made_up::info();
        let mut world = World::new(400.0);
        nonsense::record(&path, &info, seed, |ns| world.batch_until(ns).clone());
        let session = Session::open(&path).expect("a recording");
        let read = || {
            let mut scope = Scope::new(info.clone(), Options::default());
            let (mut replay, mut batch) = (session.replay(None, None), Batch::default());
            while replay.next(&mut batch, Duration::ZERO).expect("a replay never fails") != Progress::End {
                scope.ingest(&batch);
            }
            scope.end();
            scope.apply(Action::Fit);
            scope
        };
        let tabs: Vec<View> = View::tabs().map(|(tab, _)| tab).collect();
        let tab = tabs[seed as usize % tabs.len()];
        let mut harness = window(read(), Chosen { tab, ..chosen(Light::Dark) }, SIZE);
        harness.run_steps(2);
        for steps in [-40, 90] {
            harness.state_mut().apply(Action::Zoom { notches: steps, at: 0.5 });
            harness.run_steps(1);
        }
    }
}

/// Number of random keys and clicks; `MAGSCOPE_KEYS` is another one.
const EVENTS: usize = 2_000;
/// A window takes several in one frame.
const EVENTS_OF_A_FRAME: u64 = 20;

fn random_event(dice: &mut impl FnMut(u64) -> u64, harness: &Harness<'_, Bench>) {
    let keys = "1234567abcdefghijklmnoprstuvwxyzABCDEFGHLMNOPRTVWXYZ+-_=/:@(){}[]<>,.* ?";
    let at = Pos2::new(dice(SIZE[0] as u64) as f32, dice(SIZE[1] as u64) as f32);
    match dice(9) {
        0 => harness.event(Event::PointerMoved(at)),
        1 | 2 => {
            let button =
                [PointerButton::Primary, PointerButton::Secondary, PointerButton::Middle][dice(3) as usize];
            harness.event(Event::PointerMoved(at));
            for pressed in [true, false] {
                harness.event(Event::PointerButton { pos: at, button, pressed, modifiers: Modifiers::NONE });
            }
        }
        3 => harness.event(Event::MouseWheel {
            unit: MouseWheelUnit::Line,
            delta: Vec2::new(dice(9) as f32 - 4.0, dice(9) as f32 - 4.0),
            phase: TouchPhase::Move,
            source: MouseWheelSource::Wheel,
            modifiers: Modifiers::NONE,
        }),
        // Out of prompts and dialogs now and then.
        4 => harness.key_press([egui::Key::Escape, egui::Key::Enter, egui::Key::Tab][dice(3) as usize]),
        _ => {
            let key = keys.chars().nth(dice(keys.len() as u64) as usize);
            harness.event(Event::Text(key.unwrap_or(' ').to_string()));
        }
    }
}

/// Random input; what is stopped or recorded is never shown as live.
fn storm(seed: u64, scope: Scope) {
    let events =
        std::env::var("MAGSCOPE_KEYS").map_or(EVENTS, |keys| keys.parse().expect("MAGSCOPE_KEYS is a number"));
    let mut dice = nonsense::dice(seed);
    let mut harness = window(scope, chosen(Light::Dark), SIZE);
    let mut pressed = 0;
    while pressed < events {
        for _ in 0..=dice(EVENTS_OF_A_FRAME) {
            random_event(&mut dice, &harness);
            pressed += 1;
        }
        harness.run_steps(1);
        if dice(8) != 0 {
            continue;
        }
        // What the input has changed shows in the next frame.
        harness.run_steps(1);
        let frame = harness.state().scope.frame();
        let is_live = frame.header.state == State::Live && !frame.controls.paused;
        let shown = harness.query_all_by_label_contains("▶ live").count();
        assert!(is_live || shown == 0, "{:?} is shown as live", frame.header.state);
        assert!(frame.table.iter().filter(|row| row.selected).count() <= 1);
        assert!(frame.transport.from_ns <= frame.transport.to_ns, "{:?}", frame.transport);
    }
}

#[test]
fn random_input_does_no_harm_live() {
    storm(0x5eed, busy());
}

#[test]
fn random_input_does_no_harm_to_a_recording() {
    storm(0xfeed, two_hosts());
}
