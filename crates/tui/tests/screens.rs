//! Whole screens as cells with their styles, from made-up traffic.

mod made_up;

use made_up::World;
use magscope_scope::{Action, Options, Overhead, Recording, Scope};
use magscope_tui::Theme;
use magscope_tui::draw::draw;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

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
    });
    scope
}

fn screen(scope: &Scope, theme: Theme, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let area = Rect::new(0, 0, width, height);
    terminal.draw(|f| draw(&scope.frame(), &theme, f.buffer_mut(), area)).unwrap();
    terminal.backend().buffer().clone()
}

/// A letter a style: the text alone would not show that a loss is red.
fn letter(cell: &Cell) -> char {
    let bold = cell.modifier.contains(Modifier::BOLD);
    match (cell.fg, bold, cell.modifier.contains(Modifier::DIM)) {
        _ if cell.bg != Color::Reset => '?',
        (Color::Red, _, _) => 'R',
        (Color::Cyan, true, _) => 'A',
        (Color::Cyan, false, _) => 'a',
        (Color::Reset, true, _) => 'B',
        (Color::Reset, _, true) => 'd',
        (Color::Reset, false, false) => '.',
        _ => '?',
    }
}

/// The cells as text, then their styles: `.` plain, `d` dim, `B` bold, `a` accent, `A` bold accent, `R` red.
fn cells(buffer: &Buffer) -> String {
    let row = |y: u16, of: &dyn Fn(&Cell) -> String| {
        let line: String = (0..buffer.area.width).map(|x| of(&buffer[(x, y)])).collect();
        format!("|{line}|\n")
    };
    let text: String = (0..buffer.area.height).map(|y| row(y, &|cell| cell.symbol().to_owned())).collect();
    let styles: String = (0..buffer.area.height).map(|y| row(y, &|cell| letter(cell).to_string())).collect();
    format!("{text}\n{styles}")
}

fn text(buffer: &Buffer) -> String {
    buffer.content.iter().map(Cell::symbol).collect()
}

#[test]
fn small() {
    insta::assert_snapshot!(cells(&screen(&busy(), Theme::coloured(), 80, 24)));
}

#[test]
fn medium() {
    insta::assert_snapshot!(cells(&screen(&busy(), Theme::coloured(), 120, 36)));
}

#[test]
fn large_with_one_route() {
    let mut scope = busy();
    scope.apply(Action::NextRoute);
    insta::assert_snapshot!(cells(&screen(&scope, Theme::coloured(), 200, 60)));
}

#[test]
fn losses_are_red_and_so_are_drops() {
    let mut scope = busy();
    World::lose(&mut scope, 3 * SECOND, 4_321);
    scope.apply(Action::NextList);
    scope.apply(Action::NextList);
    scope.apply(Action::SelectJourney(1));
    let recording = Recording { name: "run-1.session".to_owned(), bytes: 1_234_567, events: 99 };
    scope.set_recording(Some(recording));
    let buffer = screen(&scope, Theme::coloured(), 120, 36);
    assert!(text(&buffer).contains("events lost 4 321 (ring buffer full)"));
    insta::assert_snapshot!(cells(&buffer));
}

#[test]
fn the_ladder_of_a_journey() {
    let mut scope = busy();
    scope.apply(Action::ToggleInspector);
    insta::assert_snapshot!(cells(&screen(&scope, Theme::coloured(), 120, 36)));
}

#[test]
fn help_over_a_small_screen() {
    let mut scope = busy();
    scope.apply(Action::ToggleHelp);
    insta::assert_snapshot!(cells(&screen(&scope, Theme::coloured(), 80, 24)));
}

#[test]
fn before_the_first_event() {
    let scope = Scope::new(made_up::info(), Options::default());
    insta::assert_snapshot!(cells(&screen(&scope, Theme::coloured(), 80, 24)));
}

#[test]
fn overlay_without_colours() {
    let mut scope = busy();
    scope.apply(Action::ToggleAlign);
    scope.apply(Action::TogglePause);
    let buffer = screen(&scope, Theme::plain(), 120, 36);
    assert!(buffer.content.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    assert!(text(&buffer).contains("overlay") && text(&buffer).contains("paused"));
}

#[test]
fn losses_and_own_cost_are_on_every_screen_that_has_two_rows() {
    for height in 2..40 {
        let buffer = text(&screen(&busy_once(), Theme::coloured(), 80, height));
        assert!(buffer.contains("events lost 0"), "{height}");
        assert!(buffer.contains("own cost 0.7 %"), "{height}");
    }
    let narrow = text(&screen(&busy_once(), Theme::coloured(), 60, 12));
    assert!(narrow.contains("events lost 0   dropped 5   own cost 0.7 % reader"));
}

/// One scope for many looks at it.
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
                screen(&scope, Theme::coloured(), width, height);
            }
        }
        for (width, height) in [(1, 200), (300, 1), (31, 40), (45, 12), (500, 120)] {
            screen(&scope, Theme::coloured(), width, height);
        }
        scope.apply(if round == 0 { Action::ToggleInspector } else { Action::ToggleHelp });
    }
}
