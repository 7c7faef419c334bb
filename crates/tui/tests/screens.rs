//! Complete screens as cells with styles, from generated traffic.

use crate::cells;
use crate::made_up;

use cells::{cells, front, lines, options, screen, text};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use made_up::World;
use magscope_core::journey::{Across, Correlator, Limits};
use magscope_core::node::Service;
use magscope_core::{Hop, Journey};
use magscope_scope::look::ClockPair;
use magscope_scope::{Action, Options, Overhead, Recording, Scope, View};
use magscope_tui::{Depth, Front, Theme};
use ratatui::buffer::Cell;
use ratatui::layout::Rect;
use ratatui::style::Color;

const SECOND: u64 = 1_000_000_000;

/// Three seconds of traffic.
fn busy() -> Scope {
    let mut scope = Scope::new(made_up::info(), Options::default());
    let mut world = World::new(400.0);
    for tenth in 1..=30 {
        world.run_until(tenth * SECOND / 10, &mut scope);
    }
    scope.set_overhead(Overhead {
        reader_cpu_ratio: 0.007,
        kernel_ns_per_hit: Some(171.0),
        kernel_cpu_ratio_estimate: Some(0.012),
        hits: world.hits(),
        ring_fill_ratio: 0.03,
        budget: None,
    });
    scope
}

/// Presses keys.
fn press(front: &mut Front, scope: &mut Scope, keys: &str) {
    for c in keys.chars() {
        let code = match c {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '↑' => KeyCode::Up,
            c => KeyCode::Char(c),
        };
        let key = Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
        front.event(&key, scope, Rect::new(0, 0, 120, 36));
    }
}

#[test]
fn small() {
    insta::assert_snapshot!(cells(&screen(&front(), &busy(), 80, 24)));
}

#[test]
fn medium() {
    insta::assert_snapshot!(cells(&screen(&front(), &busy(), 120, 36)));
}

#[test]
fn large_with_one_route() {
    let mut scope = busy();
    scope.apply(Action::NextRoute);
    insta::assert_snapshot!(cells(&screen(&front(), &scope, 200, 60)));
}

#[test]
fn loss_is_red_and_missed_events_have_a_colour_of_their_own() {
    let mut scope = busy();
    World::lose(&mut scope, 3 * SECOND, 4_321);
    scope.apply(Action::NextList);
    scope.apply(Action::NextList);
    scope.apply(Action::SelectJourney(1));
    let recording = Recording { name: "run-1.session".to_owned(), bytes: 1_234_567, events: 99 };
    scope.set_recording(Some(recording));
    let buffer = screen(&front(), &scope, 120, 36);
    assert!(text(&buffer).contains("events missed 4 321 (ring buffer full)"));
    insta::assert_snapshot!(cells(&buffer));
}

#[test]
fn the_ladder_of_a_journey() {
    let mut scope = busy();
    scope.apply(Action::ToggleInspector);
    insta::assert_snapshot!(cells(&screen(&front(), &scope, 120, 36)));
}

#[test]
fn help_over_a_small_screen() {
    let (mut scope, mut front) = (busy(), front());
    press(&mut front, &mut scope, "?");
    insta::assert_snapshot!(cells(&screen(&front, &scope, 80, 24)));
}

#[test]
fn the_help_explains_the_labels_on_the_screen() {
    for (page, label) in [("2", "most of its time"), ("7", "ring buffer full"), ("1", "dev.recv")] {
        let (mut scope, mut front) = (busy(), front());
        press(&mut front, &mut scope, page);
        press(&mut front, &mut scope, "?");
        let mut all = String::new();
        for _ in 0..30 {
            all.push_str(&lines(&screen(&front, &scope, 80, 24)));
            front.event(&Event::Key(KeyCode::PageDown.into()), &mut scope, Rect::new(0, 0, 80, 24));
        }
        let (_, explained) = all.split_once("The labels on this screen").expect("a heading");
        assert!(explained.contains(&format!("{label}: ")), "{label}");
    }
}

#[test]
fn the_selected_row_can_be_copied() {
    let (mut scope, mut front) = (busy(), front());
    let row = |front: &Front, scope: &Scope| front.selected_row(scope, Rect::new(0, 0, 120, 36));
    assert_eq!(row(&front, &scope), None, "nothing is selected");
    press(&mut front, &mut scope, "2j");
    let copied = row(&front, &scope).expect("a row");
    assert!(copied.starts_with("tcp 10.0.0.7:41022→10.0.0.9:5432 pgbench→postgres "), "{copied}");
    press(&mut front, &mut scope, "4j");
    let copied = row(&front, &scope).expect("a row");
    assert!(copied.starts_with('#') && !copied.contains("  "), "{copied}");
    // Neither the ladder over the table nor the measurements to its right are a part of the row.
    press(&mut front, &mut scope, "1j\n");
    let wide = Rect::new(0, 0, 200, 60);
    let drawn = lines(&screen(&front, &scope, 200, 60));
    assert!(drawn.contains(" journey #") && drawn.contains("jitter"), "{drawn}");
    let copied = front.selected_row(&scope, wide).expect("a row");
    assert!(copied.starts_with('#') && copied.ends_with(|c: char| c.is_ascii_digit()), "{copied}");
    assert!(!copied.contains(['│', '─']), "{copied}");
    let ascii = Front::new(magscope_tui::Options { ascii: true, ..options() });
    assert_eq!(ascii.selected_row(&scope, wide), Some(copied));
}

#[test]
fn a_line_is_completed_by_tab_and_earlier_ones_come_back() {
    let (mut scope, mut front) = (busy(), front());
    let filter = |scope: &Scope| scope.frame().controls.filter.as_ref().map(ToString::to_string);
    press(&mut front, &mut scope, "/por\t 8\t\n");
    assert_eq!(filter(&scope).as_deref(), Some("port = 8125"), "the word, and a port that is there");
    press(&mut front, &mut scope, "/");
    for _ in 0..40 {
        front.event(&Event::Key(KeyCode::Backspace.into()), &mut scope, Rect::new(0, 0, 80, 24));
    }
    press(&mut front, &mut scope, "\n");
    assert_eq!(filter(&scope), None);
    press(&mut front, &mut scope, "/↑\n");
    assert_eq!(filter(&scope).as_deref(), Some("port = 8125"), "the earlier line");
}

#[test]
fn a_narrow_header_keeps_its_filter() {
    let (mut scope, mut front) = (busy(), front());
    press(&mut front, &mut scope, "/port = 8125 or port = 53\n");
    let filter = format!("/ {}", scope.frame().controls.filter.as_ref().expect("a filter"));
    let header = |width| {
        let lines = lines(&screen(&front, &scope, width, 24));
        lines.lines().next().expect("a header").to_owned()
    };
    for width in [200, 120, 80, 70] {
        assert!(header(width).contains(&filter), "{width}: {}", header(width));
    }
    assert!(header(200).contains("magnet-scope") && header(200).contains("/div"), "{}", header(200));
    assert!(header(30).ends_with('…'), "{}", header(30));
}

#[test]
fn the_selected_journey_narrows_the_filter() {
    let (mut scope, mut front) = (busy(), front());
    let filter = |scope: &Scope| scope.frame().controls.filter.as_ref().map(ToString::to_string);
    press(&mut front, &mut scope, "i");
    assert_eq!(filter(&scope), None, "nothing is selected");
    press(&mut front, &mut scope, "jI");
    assert!(filter(&scope).is_some_and(|text| text.starts_with("not flow = ")), "{:?}", filter(&scope));
    press(&mut front, &mut scope, "ji");
    assert!(filter(&scope).is_some_and(|text| text.contains(" and flow = ")), "{:?}", filter(&scope));
}

#[test]
fn the_headline_leads_to_its_evidence() {
    let (mut scope, mut front) = (busy(), front());
    let shown = text(&screen(&front, &scope, 120, 36));
    assert!(shown.contains("of datagrams to :8125 dropped") && shown.contains("Enter: show why"), "{shown}");
    press(&mut front, &mut scope, "\n");
    let frame = scope.frame();
    let line = frame.inspector.as_ref().expect("the evidence is open").line;
    assert!(line.is_bad(), "{:?}", line.journey.verdict);
    let ports = line.ends.map(|(from, to)| [from.port(), to.port()]);
    assert!(ports.is_some_and(|ports| ports.contains(&8125)), "{ports:?}");
}

#[test]
fn before_the_first_event() {
    let scope = Scope::new(made_up::info(), Options::default());
    insta::assert_snapshot!(cells(&screen(&front(), &scope, 80, 24)));
}

#[test]
fn overlay_without_colours() {
    let mut scope = busy();
    scope.apply(Action::ToggleAlign);
    scope.apply(Action::TogglePause);
    let theme = Theme::built_in("dark", Depth::None);
    let front = Front::new(magscope_tui::Options { theme, ..options() });
    let buffer = screen(&front, &scope, 120, 36);
    assert!(buffer.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    assert!(text(&buffer).contains("overlay") && text(&buffer).contains("stopped"));
}

#[test]
fn missed_events_and_overhead_are_on_every_screen_that_has_two_rows() {
    for height in 2..40 {
        let buffer = text(&screen(&front(), &busy_once(), 80, height));
        assert!(buffer.contains("events missed 0"), "{height}");
        assert!(buffer.contains("overhead 0.7 %"), "{height}");
    }
    let narrow = text(&screen(&front(), &busy_once(), 60, 12));
    assert!(narrow.contains("events missed 0   dropped 5   lost 0   resent 0"));
}

/// One shared scope for several tests.
fn busy_once() -> std::sync::MutexGuard<'static, Scope> {
    static SCOPE: std::sync::LazyLock<std::sync::Mutex<Scope>> =
        std::sync::LazyLock::new(|| std::sync::Mutex::new(busy()));
    SCOPE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn no_size_is_too_small() {
    let mut scope = busy();
    for round in 0..3 {
        for width in 1..=30 {
            for height in 1..=10 {
                screen(&front(), &scope, width, height);
            }
        }
        for (width, height) in [(1, 200), (300, 1), (31, 40), (45, 12), (500, 120)] {
            screen(&front(), &scope, width, height);
        }
        scope.apply(if round == 0 { Action::ToggleInspector } else { Action::ToggleHelp });
    }
}

#[test]
fn a_command_is_found_by_some_of_its_letters() {
    let (mut scope, mut front) = (busy(), front());
    press(&mut front, &mut scope, ":finer");
    insta::assert_snapshot!(cells(&screen(&front, &scope, 80, 24)));
    let before = scope.frame().sweep.timebase;
    press(&mut front, &mut scope, "\n");
    assert!(scope.frame().sweep.timebase < before);
    assert!(!text(&screen(&front, &scope, 80, 24)).contains(" command "), "it is closed");
}

#[test]
fn ascii_is_ascii() {
    let (mut scope, mut front) = (busy(), Front::new(magscope_tui::Options { ascii: true, ..options() }));
    for keys in ["", ":", "\u{1b}", "?"] {
        press(&mut front, &mut scope, keys);
        let buffer = screen(&front, &scope, 120, 36);
        assert!(text(&buffer).is_ascii(), "{:?}", text(&buffer).chars().find(|c| !c.is_ascii()));
        assert!(!text(&buffer).contains("???"));
    }
}

/// The wire rows for two hosts whose journeys all have this certainty across the wire.
fn wire_rows(across: Across) -> String {
    let info = made_up::info();
    let mut scope = Scope::of_several(vec![info.clone(), info.clone()], Options::default());
    scope.set_clock_pairs(vec![ClockPair { half_width_ns: Some(9_000), ..ClockPair::default() }]);
    let (mut world, mut correlator) = (World::new(400.0), Correlator::of_node(&info, Limits::default()));
    let mut done = Vec::new();
    let batch = world.batch_until(SECOND / 10);
    scope.ingest_batch(0, batch);
    correlator.push(batch, &mut done);
    for journey in done.into_iter().take(20) {
        scope.ingest_journey(Journey { across, ..journey });
    }
    scope.apply(Action::Fit);
    let buffer = screen(&front(), &scope, 200, 60);
    let rows = buffer.content.chunks(200).map(|row| row.iter().map(Cell::symbol).collect::<String>());
    rows.filter(|row| row.contains("░░") || row.contains("╌╌")).collect()
}

#[test]
fn no_line_leads_across_a_wire_of_which_nothing_is_known() {
    let dots = |across| wire_rows(across).chars().filter(|c| ('\u{2801}'..='\u{28ff}').contains(c)).count();
    assert!(dots(Across::within(9_000)) > 0);
    assert_eq!(dots(Across::Apart), 0, "{}", wire_rows(Across::Apart));
}

/// The view of lines ends at its last line: from there the first key upwards moves it.
#[test]
fn views_of_lines_scroll_to_their_end_and_back() {
    let area = Rect::new(0, 0, 80, 24);
    let (mut scope, mut front) = (busy(), front());
    scope.apply(Action::Show(View::Losses));
    let shown = |front: &Front, scope: &Scope| text(&screen(front, scope, 80, 24));
    let first = shown(&front, &scope);
    assert!(first.contains("packets that the kernel dropped") && first.contains("↓ more"), "{first}");
    let key = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    for _ in 0..100 {
        front.event(&key(KeyCode::Down), &mut scope, area);
    }
    let last = shown(&front, &scope);
    let hop = Hop::ALL.last().expect("a hop").name();
    assert!(last.contains(hop) && last.contains("↑ more") && !last.contains("kernel dropped"), "{last}");
    front.event(&key(KeyCode::Up), &mut scope, area);
    assert_ne!(shown(&front, &scope), last);
    // On a screen with room for all there is nothing to scroll.
    front.event(&key(KeyCode::Down), &mut scope, Rect::new(0, 0, 200, 60));
    assert_eq!(scope.frame().controls.row, 0);
}

/// A screen of 80 columns has the whole reason why a hop is missing.
#[test]
fn why_a_hop_is_missing_is_whole_at_80_columns() {
    let because =
        "the kernel has no function of this name, because it was built without CONFIG_OF_IT, or inlines it";
    let mut info = made_up::info();
    for row in &mut info.coverage.hops {
        if row.hop == Hop::AppCopy {
            row.service = Service::Missing { because: because.to_owned() };
        }
    }
    let mut scope = Scope::new(info, Options::default());
    scope.apply(Action::Show(View::Losses));
    let shown = text(&screen(&front(), &scope, 80, 80));
    let words: Vec<&str> = shown.split_whitespace().collect();
    let wanted: Vec<&str> = because.split_whitespace().collect();
    assert!(words.windows(wanted.len()).any(|part| part == wanted), "{shown}");
}
