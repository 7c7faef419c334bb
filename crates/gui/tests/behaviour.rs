//! Behaviour of the window through its accessibility tree: clicks, keys, drags.

use crate::common;

use common::hand::{SIZE, bench, button, click, middle, span_ns, type_text};
use common::made_up::{START_NS, published, storm};
use common::{Bench, SECOND, busy, chosen, compared, probed, two_hosts, window};
use egui::{Event, Key, Modifiers, MouseWheelSource, MouseWheelUnit, PointerButton, Pos2, TouchPhase, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use magscope_gui::{Chosen, HostRequest, Light, Tint};
use magscope_scope::look::LegColumn;
use magscope_scope::trigger::{HoldOff, Mode};
use magscope_scope::{Action, CursorId, MeasureSpan, Recording, View};

#[test]
fn buttons_have_names_and_do_what_they_say() {
    let mut harness = bench();
    let before = span_ns(&harness);
    harness.get_by_label("more time a division").click();
    harness.run_steps(2);
    assert!(span_ns(&harness) > before);
    harness.get_by_label("Fit").click();
    harness.run_steps(2);
    assert!(span_ns(&harness) >= 3_000_000_000);
    harness.get_by_label("Back").click();
    harness.run_steps(2);
    assert!(span_ns(&harness) < 3_000_000_000);
    harness.get_by_label("heat map").click();
    harness.run_steps(2);
    assert_eq!(harness.state().front.chosen.tab, View::Hops);
    assert_eq!(harness.state().scope.frame().controls.view, View::Hops);
    assert!(harness.query_all_by_label("tcp whole journey").next().is_some());
    harness.get_by_label("light or dark").click();
    harness.run_steps(2);
    assert_eq!(harness.state().front.chosen.light, Light::Light);
}

#[test]
fn most_keys_are_those_of_the_terminal() {
    let mut harness = bench();
    let before = span_ns(&harness);
    type_text(&mut harness, "+");
    assert!(span_ns(&harness) < before);
    type_text(&mut harness, "2");
    assert_eq!((harness.state().front.chosen.tab, harness.state().front.chosen.below), (View::Flows, true));
    type_text(&mut harness, "1");
    assert!(!harness.state().front.chosen.below);
    harness.key_press(Key::F1);
    harness.run_steps(2);
    harness.get_by_label("the mouse on the time line");
    harness.key_press(Key::Escape);
    harness.run_steps(2);
    assert!(!harness.state().front.is_covered());
    type_text(&mut harness, "q");
    assert!(harness.state().scope.quits());
}

#[test]
fn w_a_s_and_d_move_the_picture_and_f_shows_the_selection() {
    let mut harness = bench();
    let origin = |harness: &Harness<'_, Bench>| harness.state().scope.frame().sweep.origin_ns;
    let (before, from) = (span_ns(&harness), origin(&harness));
    type_text(&mut harness, "w");
    assert_eq!(span_ns(&harness), before * 4 / 5);
    type_text(&mut harness, "s");
    assert_eq!((span_ns(&harness), origin(&harness)), (before, from));
    type_text(&mut harness, "d");
    assert_eq!(origin(&harness), from + before / 10);
    type_text(&mut harness, "a");
    assert_eq!(origin(&harness), from);
    // To the pointer.
    let area = harness.get_by_label_contains("time line:").rect();
    harness.event(Event::PointerMoved(area.left_center()));
    harness.run_steps(1);
    type_text(&mut harness, "w");
    assert_eq!(origin(&harness), from, "what is pointed at stays in its place");
    // What is selected, and then all there is.
    harness.state_mut().apply(Action::SelectJourney(1));
    type_text(&mut harness, "f");
    let near = span_ns(&harness);
    assert!(near < before, "{near}");
    type_text(&mut harness, "f");
    assert!(span_ns(&harness) >= 3_000_000_000);
    // In a text field they are letters.
    type_text(&mut harness, "/");
    let wide = span_ns(&harness);
    type_text(&mut harness, "wasd");
    assert_eq!(span_ns(&harness), wide);
}

#[test]
fn pages_scroll_the_table() {
    let chosen = Chosen { tab: View::Journeys, ..chosen(Light::Dark) };
    let mut harness = window(two_hosts(), chosen, SIZE);
    let first = |harness: &Harness<'_, Bench>| {
        let frame = harness.state().scope.frame();
        let number = format!("#{}", frame.journeys(64).rows[0].line.id());
        harness.query_by_label(&number).map(|node| node.rect().top())
    };
    let before = first(&harness).expect("the first row is in sight");
    harness.key_press(Key::PageDown);
    harness.run_steps(3);
    assert!(first(&harness).is_none_or(|top| top < before), "the table moved up");
    harness.key_press(Key::PageUp);
    harness.run_steps(3);
    assert_eq!(first(&harness), Some(before));
    assert!(harness.state().scope.frame().controls.journey.is_none(), "nothing was selected");
}

#[test]
fn a_splitter_stays_where_it_was_put_whatever_is_shown() {
    let mut harness = bench();
    let height = |harness: &Harness<'_, Bench>| harness.state().front.chosen.below_height;
    let at = harness.get_by_label("height of the panel below").rect().center();
    button(&mut harness, at, PointerButton::Primary, true);
    harness.event(Event::PointerMoved(at - Vec2::new(0.0, 60.0)));
    harness.run_steps(2);
    button(&mut harness, at - Vec2::new(0.0, 60.0), PointerButton::Primary, false);
    harness.run_steps(2);
    let chosen = height(&harness);
    assert!((chosen - 290.0).abs() < 2.0, "{chosen}");
    let border = harness.get_by_label("height of the panel below").rect().center().y;
    for (tab, _) in View::tabs() {
        harness.state_mut().front.chosen.tab = tab;
        harness.run_steps(2);
        let now = harness.get_by_label("height of the panel below").rect().center().y;
        assert!((now - border).abs() < 0.5, "{tab:?}: {now} {border}");
    }
    harness.set_size(Vec2::new(1280.0, 480.0));
    harness.run_steps(3);
    harness.set_size(Vec2::new(1280.0, 800.0));
    harness.run_steps(3);
    let now = harness.get_by_label("height of the panel below").rect().center().y;
    assert!((now - border).abs() < 0.5, "a smaller window changes nothing that was chosen");
    assert!((height(&harness) - chosen).abs() < f32::EPSILON);
}

#[test]
fn no_button_moves_when_a_number_changes_its_width() {
    let mut harness = window(busy(), chosen(Light::Dark), SIZE);
    let place = |harness: &Harness<'_, Bench>| {
        let buttons = ["File", "less time a division", "Autoset", "Fit", "Back", "Channels", "light or dark"];
        buttons.map(|label| (harness.get_by_label(label).rect().left() * 4.0) as i32)
    };
    let before = place(&harness);
    harness.state_mut().apply(Action::TogglePause);
    for ns in [100, 12_345, 999_999, 1_250_000, 20_000_000_000] {
        harness.state_mut().apply(Action::ZoomTo { from_ns: START_NS, to_ns: START_NS + ns * 10 });
        harness.run_steps(2);
        assert_eq!(place(&harness), before, "{ns} ns a division");
    }
}

#[test]
fn every_tab_opens_by_its_title_and_every_page_by_its_key() {
    let mut harness = bench();
    for (view, title) in View::tabs() {
        harness.state_mut().front.chosen.below = false;
        harness.run_steps(2);
        harness.get_by_label(title).click();
        harness.run_steps(2);
        let chosen = &harness.state().front.chosen;
        assert_eq!((chosen.tab, chosen.below), (view, true), "{title}");
        assert_eq!(harness.state().scope.frame().controls.view, view, "{title}");
    }
    for (page, spec) in View::pages() {
        type_text(&mut harness, &page.to_string());
        let chosen = &harness.state().front.chosen;
        assert_eq!(chosen.below.then_some(chosen.tab), spec.tab.map(|_| spec.view), "key {page}");
    }
}

#[test]
fn a_leg_is_selected_by_a_click_and_picked_by_a_button() {
    let chosen = Chosen { tab: View::Topology, below_height: 420.0, side: false, ..chosen(Light::Dark) };
    let mut harness = window(published::scope(), chosen, [1920.0, 1080.0]);
    let panel = harness.state().scope.frame().topology(99);
    for row in &panel.rows {
        for column in panel.columns() {
            let text = row.cell(column);
            let is_there = text.is_empty() || harness.query_all_by_label_contains(text.trim()).next().is_some();
            assert!(is_there, "{}: {text:?} is a number of the terminal", column.title());
        }
    }
    let server = panel.rows.iter().find(|row| row.place.starts_with("web (")).expect("a leg to the server");
    let label = server.cell(LegColumn::Path);
    let at = harness.get_by_label(&label).rect().left_center() + Vec2::new(30.0, 0.0);
    button(&mut harness, at, PointerButton::Primary, true);
    button(&mut harness, at, PointerButton::Primary, false);
    harness.run_steps(3);
    let selected = |harness: &Harness<'_, Bench>| {
        let rows = harness.state().scope.frame().topology(99).rows;
        rows.into_iter().find(|row| row.selected).map(|row| row.path)
    };
    assert_eq!(selected(&harness).as_ref(), Some(&server.path));
    click(&mut harness, "Its flows");
    let frame = harness.state().scope.frame();
    assert_eq!((frame.controls.view, harness.state().front.chosen.tab), (View::Flows, View::Flows));
    assert_eq!(frame.flows(9).rows.iter().map(|row| row.journeys).sum::<u64>(), server.journeys);
    click(&mut harness, "Everything");
    assert!(harness.state().scope.frame().controls.picks.is_empty());

    click(&mut harness, "topology");
    harness.run_steps(60); // the clicks before are over: three are no double click
    let at = harness.get_by_label(&label).rect().left_center() + Vec2::new(30.0, 0.0);
    for is_pressed in [true, false, true, false] {
        button(&mut harness, at, PointerButton::Primary, is_pressed);
    }
    harness.run_steps(3);
    assert_eq!(harness.state().front.chosen.tab, View::Flows, "a double click");
    assert_eq!(harness.state().scope.frame().controls.picks.len(), 1);
}

#[test]
fn the_palette_finds_and_runs_commands() {
    let mut harness = bench();
    type_text(&mut harness, ":");
    harness.get_by_label("commands");
    type_text(&mut harness, "curs");
    harness.key_press(Key::Enter);
    harness.run_steps(3);
    assert!(harness.state().scope.frame().cursors.is_some());
    assert!(!harness.state().front.is_covered());
}

#[test]
fn a_filter_is_asked_for_corrected_and_taken() {
    let mut harness = bench();
    type_text(&mut harness, "/");
    type_text(&mut harness, "proto = tc");
    harness.get_by_label("Take").click();
    harness.run_steps(3);
    assert!(harness.state().front.is_covered(), "a wrong one stays, to be corrected");
    type_text(&mut harness, "p");
    harness.key_press(Key::Enter);
    harness.run_steps(3);
    assert!(!harness.state().front.is_covered());
    let filter = harness.state().scope.frame().controls.filter.as_ref().map(ToString::to_string);
    assert_eq!(filter.as_deref(), Some("proto = tcp"));
}

#[test]
fn the_wheel_zooms_to_the_pointer_and_shift_moves() {
    let mut harness = bench();
    let at = middle(&harness);
    let frame_at = |harness: &Harness<'_, Bench>| harness.state().scope.frame().sweep.origin_ns;
    let (before, origin) = (span_ns(&harness), frame_at(&harness));
    harness.event(Event::PointerMoved(at));
    harness.run_steps(1);
    let wheel = |delta| Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta,
        phase: TouchPhase::Move,
        source: MouseWheelSource::Wheel,
        modifiers: Modifiers::NONE,
    };
    // Three notches, each a quarter.
    harness.event(wheel(Vec2::new(0.0, 120.0)));
    harness.run_steps(20);
    let after = span_ns(&harness);
    assert!((after as f64 * 1.25_f64.powi(3) / before as f64 - 1.0).abs() < 1e-3, "{after} {before}");
    assert!(frame_at(&harness) > origin, "to the pointer, and not to the left edge");
    let origin = frame_at(&harness);
    harness.event(wheel(Vec2::new(-80.0, 0.0)));
    harness.run_steps(20);
    assert!(frame_at(&harness) > origin && span_ns(&harness) == after);
}

#[test]
fn a_drag_selects_and_is_measured_and_a_double_click_fits() {
    let mut harness = bench();
    let at = middle(&harness);
    button(&mut harness, at - Vec2::new(150.0, 0.0), PointerButton::Primary, true);
    harness.event(Event::PointerMoved(at));
    harness.run_steps(2);
    button(&mut harness, at + Vec2::new(100.0, 0.0), PointerButton::Primary, false);
    harness.run_steps(2);
    let frame = harness.state().scope.frame();
    let cursors = frame.cursors.expect("cursors stand at the ends");
    assert!(cursors.a < cursors.b && cursors.b - cursors.a < 0.6, "{cursors:?}");
    assert_eq!(frame.controls.over, MeasureSpan::Cursors);
    drop(frame);
    for _ in 0..2 {
        button(&mut harness, at, PointerButton::Primary, true);
        button(&mut harness, at, PointerButton::Primary, false);
    }
    harness.run_steps(2);
    assert!(span_ns(&harness) >= 3_000_000_000, "{}", span_ns(&harness));
}

#[test]
fn a_click_selects_a_journey_also_a_slow_one_from_afar() {
    let mut harness = bench();
    harness.state_mut().apply(Action::Fit);
    harness.run_steps(3);
    let (key, x) = {
        let frame = harness.state().scope.frame();
        let slowest =
            frame.density(800).exemplars.into_iter().max_by_key(|e| e.total_ns).expect("there are some");
        (slowest.key, slowest.x)
    };
    let line = harness.get_by_label_contains("time line:").rect();
    let at = Pos2::new(line.left() + x as f32 * line.width(), line.top() + 8.0);
    button(&mut harness, at, PointerButton::Primary, true);
    button(&mut harness, at, PointerButton::Primary, false);
    harness.run_steps(3);
    let chosen = harness.state().scope.frame().controls.journey;
    assert!(chosen.is_some(), "the slow one is chosen at every zoom");
    assert_eq!(chosen, Some(key));
}

#[test]
fn the_minimap_moves_the_picture() {
    let mut harness = bench();
    let before = harness.state().scope.frame().sweep.origin_ns;
    let map = harness.get_by_label_contains("the whole session").rect();
    let at = Pos2::new(map.left() + map.width() * 0.8, map.center().y);
    button(&mut harness, at, PointerButton::Primary, true);
    button(&mut harness, at, PointerButton::Primary, false);
    harness.run_steps(3);
    let after = harness.state().scope.frame().sweep.origin_ns;
    assert!(after > before + 1_000_000_000, "{before} {after}");
}

#[test]
fn journeys_are_inspected_hop_by_hop() {
    let mut harness = bench();
    type_text(&mut harness, "j");
    harness.key_press(Key::Enter);
    harness.run_steps(3);
    if harness.state().scope.frame().inspector.is_none() {
        harness.get_by_label("Hop by hop").click();
        harness.run_steps(3);
    }
    let frame = harness.state().scope.frame();
    let rungs = frame.inspector.as_ref().expect("the ladder is open").rungs.len();
    assert!(rungs >= 10, "{rungs}");
}

#[test]
fn files_are_picked_and_colours_chosen() {
    let mut harness = bench();
    harness.get_by_label("File").click();
    harness.run_steps(3);
    harness.get_by_label("Picture as SVG …").click();
    harness.run_steps(3);
    harness.get_by_label("Write").click();
    harness.run_steps(3);
    assert_eq!(harness.state().requests, [HostRequest::Svg("/usr/magnet-scope.svg".into())]);
    harness.get_by_label("Colour: latency").click();
    harness.run_steps(3);
    harness.get_by_label("verdict").click();
    harness.run_steps(3);
    assert_eq!(harness.state().front.chosen.tint, Tint::Verdict);
}

#[test]
fn cpus_give_lifelines_their_colours_and_are_asked_for() {
    let mut scope = magscope_scope::Scope::new(common::made_up::info(), magscope_scope::Options::default());
    scope.ingest(&storm::flows(0..200));
    scope.end();
    scope.apply(Action::ZoomTo { from_ns: START_NS, to_ns: START_NS + 200_000 });
    let mut harness = window(scope, Chosen { tint: Tint::Verdict, ..chosen(Light::Dark) }, SIZE);
    let all_alike = harness.render().expect("arithmetic");
    harness.get_by_label("Colour: verdict").click();
    harness.run_steps(3);
    harness.get_by_label("CPU").click();
    harness.run_steps(3);
    assert_eq!(harness.state().front.chosen.tint, Tint::Cpu);
    let area = harness.get_by_label_contains("time line:").rect();
    let by_cpu = harness.render().expect("arithmetic");
    let colours = |image: &image::RgbaImage| {
        let x = area.left() as u32..area.right() as u32;
        let y = area.top() as u32..area.bottom() as u32;
        let all = y.flat_map(|y| x.clone().map(move |x| (x, y)));
        all.map(|(x, y)| image.get_pixel(x, y).0).collect::<std::collections::HashSet<_>>().len()
    };
    assert!(colours(&by_cpu) > colours(&all_alike) + 4, "{} for {}", colours(&by_cpu), colours(&all_alike));
    type_text(&mut harness, "/");
    type_text(&mut harness, "cpu = 3");
    harness.key_press(Key::Enter);
    harness.run_steps(3);
    let frame = harness.state().scope.frame();
    let journeys = frame.journeys(100);
    assert!(!journeys.rows.is_empty() && journeys.rows.iter().all(|row| row.line.cpu() == Some(3)));
}

#[test]
fn recordings_are_laid_over_each_other_and_differences_are_marked() {
    let mut harness = bench();
    harness.state_mut().front.show_compared(compared());
    harness.run_steps(4);
    assert_eq!(harness.state().front.chosen.tab, View::Compare);
    harness.get_by_label("whole journey, before and after");
    let slower: Vec<_> = harness.query_all_by_label_contains("slower: p50 ×2").collect();
    assert!(slower.len() >= 3, "what takes twice as long is marked: {}", slower.len());
    assert!(harness.query_all_by_label_contains("faster").next().is_none());
}

#[test]
fn a_recording_is_played_stopped_sought_and_played_at_another_speed() {
    let mut harness = bench();
    let head = |harness: &Harness<'_, Bench>| harness.state().scope.frame().transport.head_ns;
    let paused = |harness: &Harness<'_, Bench>| harness.state().scope.frame().controls.paused;
    let go = |harness: &mut Harness<'_, Bench>, ns| {
        let before = head(harness);
        harness.state_mut().scope.tick(ns);
        harness.run_steps(2);
        head(harness) - before
    };
    click(&mut harness, "go to the beginning");
    assert_eq!((head(&harness), paused(&harness)), (START_NS, true));
    assert_eq!(go(&mut harness, 10_000_000), 0, "it stands where it was put");
    click(&mut harness, "go on");
    assert!(!paused(&harness));
    assert_eq!(go(&mut harness, 10_000_000), 10_000_000);
    click(&mut harness, "1×");
    click(&mut harness, "10×");
    assert_eq!(go(&mut harness, 10_000_000), 100_000_000);
    click(&mut harness, "10×");
    click(&mut harness, "0.01×");
    assert_eq!(go(&mut harness, 10_000_000), 100_000);
    click(&mut harness, "stop the picture");
    assert_eq!(go(&mut harness, 10_000_000), 0);
    click(&mut harness, "go to the end and stay there");
    assert_eq!(head(&harness), START_NS + 3 * SECOND);
    // Seek to a fraction, by its prompt.
    type_text(&mut harness, "@");
    type_text(&mut harness, "50 %");
    harness.key_press(Key::Enter);
    harness.run_steps(3);
    assert_eq!(head(&harness), START_NS + 3 * SECOND / 2);
    assert!(!harness.state().front.is_covered());
}

#[test]
fn playing_comes_to_the_end_and_begins_again() {
    let mut harness = bench();
    type_text(&mut harness, "g");
    click(&mut harness, "go on");
    for _ in 0..40 {
        harness.state_mut().scope.tick(100_000_000);
        harness.run_steps(1);
    }
    assert_eq!(harness.state().scope.frame().transport.head_ns, START_NS + 3 * SECOND);
    click(&mut harness, "go to the beginning");
    click(&mut harness, "go on");
    harness.state_mut().scope.tick(100_000_000);
    harness.run_steps(1);
    assert_eq!(harness.state().scope.frame().transport.head_ns, START_NS + 100_000_000);
}

#[test]
fn what_is_live_is_recorded_at_a_button() {
    let mut harness = window(busy(), chosen(Light::Dark), SIZE);
    assert!(harness.query_by_label("how fast it plays").is_none(), "what is live has no speed");
    click(&mut harness, "record what comes");
    assert!(harness.state().scope.wants_recording());
    let recording = Recording { name: "now.session".to_owned(), bytes: 5_000_000, events: 70_000 };
    harness.state_mut().scope.set_recording(Some(recording));
    harness.run_steps(2);
    assert!(harness.query_all_by_label_contains("now.session").next().is_some());
    click(&mut harness, "record what comes");
    assert!(!harness.state().scope.wants_recording());
    let harness = bench();
    assert!(harness.query_by_label("record what comes").is_none(), "a recording is recorded already");
}

#[test]
fn the_trigger_is_set_armed_forced_and_what_it_kept_is_shown() {
    let mut harness = window(busy(), chosen(Light::Dark), SIZE);
    click(&mut harness, "trigger");
    let settings = |harness: &Harness<'_, Bench>| harness.state().scope.frame().trigger.settings.clone();
    for (label, typed) in [
        ("wait for: nothing …", "verdict = lost"),
        ("keep: 1 s", "200ms"),
        ("of it before: 50 %", "25"),
        ("hold off: nothing", "10ms"),
    ] {
        click(&mut harness, label);
        harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
        harness.run_steps(1);
        type_text(&mut harness, typed);
        click(&mut harness, "Take");
        assert!(!harness.state().front.is_covered(), "{label}");
    }
    click(&mut harness, "normal");
    let set = settings(&harness);
    assert_eq!((set.mode, set.window_ns, set.pre_per_cent), (Mode::Normal, 200_000_000, 25));
    assert_eq!(set.hold_off, HoldOff::Time(10_000_000));
    assert!(set.condition.is_some());
    assert!(harness.query_all_by_label_contains("armed").next().is_some());
    click(&mut harness, "Force");
    harness.state_mut().scope.end();
    harness.run_steps(3);
    let captures = harness.state().scope.frame().trigger.captures.len();
    assert_eq!(captures, 1);
    let at = harness.get_by_label("#1").rect().center();
    button(&mut harness, at, PointerButton::Primary, true);
    button(&mut harness, at, PointerButton::Primary, false);
    harness.run_steps(3);
    let frame = harness.state().scope.frame();
    assert_eq!((frame.trigger.shown, frame.controls.paused), (Some(0), true));
    assert_eq!(frame.controls.view, View::Trigger, "the tab stays");
    assert!(frame.controls.view.is_on_picture());
    drop(frame);
    click(&mut harness, "single");
    click(&mut harness, "Arm");
    let frame = harness.state().scope.frame();
    assert_eq!((frame.trigger.shown, frame.trigger.settings.mode), (None, Mode::Single));
}

#[test]
fn a_loadline_is_computed_from_the_channels() {
    let mut harness = bench();
    click(&mut harness, "Channels");
    click(&mut harness, "Compute …");
    type_text(&mut harness, "srtt - rttvar");
    click(&mut harness, "Take");
    assert_eq!(
        harness.state().scope.frame().controls.math.map(|math| math.to_string()).as_deref(),
        Some("srtt - rttvar")
    );
}

#[test]
fn probes_of_ones_own_have_lanes_points_values_and_rows() {
    let mut scope = probed();
    let from_ns = START_NS + 480_000_000;
    scope.apply(Action::ZoomTo { from_ns, to_ns: from_ns + 6_000_000 });
    let mut harness = window(scope, chosen(Light::Dark), [1440.0, 900.0]);
    // Each probe has a lane above that of its hop.
    let y = |harness: &Harness<'_, Bench>, name: &str| harness.get_by_label(name).rect().center().y;
    assert!(y(&harness, "into") < y(&harness, "dev.recv") && y(&harness, "into") > y(&harness, "ip.pre"));
    assert!(y(&harness, "seen") > y(&harness, "app.send"));
    assert!(harness.query_by_label("refill").is_none(), "a loadline alone has no lane");
    // A hit on the bytes of a journey selects it.
    let line = harness.get_by_label_contains("time line:").rect();
    let (x, journey, hit_ns) = {
        let frame = harness.state().scope.frame();
        let hits = frame.hits(800);
        let tied = |hit: &&magscope_scope::look::HitPoint| hit.journey.is_some() && (0.1..0.9).contains(&hit.x);
        let hit = hits.points.iter().find(tied).expect("one saw a journey's bytes");
        (hit.x, hit.journey, hit.hit.time_ns)
    };
    let at = Pos2::new(line.left() + x as f32 * line.width(), y(&harness, "into"));
    harness.event(Event::PointerMoved(at));
    harness.run_steps(2);
    button(&mut harness, at, PointerButton::Primary, true);
    button(&mut harness, at, PointerButton::Primary, false);
    harness.run_steps(3);
    assert_eq!(harness.state().scope.frame().controls.journey, journey);
    assert!(harness.query_all_by_label_contains("◆ into").next().is_some(), "and stands in its ladder");
    assert!(harness.query_all_by_label_contains("len=").next().is_some(), "with what it read");
    // Its values are channels like others.
    harness.get_by_label("loadline refill.free");
    click(&mut harness, "Channels");
    click(&mut harness, "into.len");
    click(&mut harness, "Close");
    harness.get_by_label("loadline into.len");
    assert!(harness.query_all_by_label_contains("mean").next().is_some(), "and is measured");
    // The events around a hit.
    harness.state_mut().apply(Action::PlaceCursor(CursorId::A, hit_ns));
    click(&mut harness, "events");
    assert!(harness.query_all_by_label_contains("free=").next().is_some());
    click(&mut harness, "heat map");
    assert!(harness.query_all_by_label("seen").count() == 2, "a lane and a row of hops");
    click(&mut harness, "losses");
    assert!(harness.query_all_by_label_contains("YOUR OWN PROBES").next().is_some());
}

#[test]
fn nothing_moves_unless_time_does() {
    let mut harness = window(busy(), chosen(Light::Dark), SIZE);
    harness.run_steps(5);
    let steps = harness.run();
    assert!(steps <= 3, "a picture that asks for {steps} more of itself");
}
