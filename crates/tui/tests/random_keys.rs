//! A hundred thousand random keys, clicks and sizes, live and replayed: nothing panics, and the header never claims what
//! is not. `MAGSCOPE_KEYS` is another number of events.

use crate::cells;
use crate::made_up::{self, forwarded};

use cells::options;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use magscope_core::Batch;
use magscope_core::journey::{Correlator, Journey, Limits};
use magscope_scope::recorded::{Stretch, Window};
use magscope_scope::{Options, Place, Scope, State};
use magscope_tui::Front;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;

const EVENTS: usize = 100_000;

fn events() -> usize {
    std::env::var("MAGSCOPE_KEYS").map_or(EVENTS, |keys| keys.parse().expect("MAGSCOPE_KEYS is a number"))
}

/// The screen is drawn after one in this many events.
const DRAWN: u64 = 15;

/// Reproducible pseudo-random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const KEYS: &[KeyCode] = &[
    KeyCode::Enter,
    KeyCode::Esc,
    KeyCode::Tab,
    KeyCode::BackTab,
    KeyCode::Backspace,
    KeyCode::Delete,
    KeyCode::Left,
    KeyCode::Right,
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::F(1),
    KeyCode::Insert,
];

/// Inputs for prompts, valid and invalid.
const TYPED: &[&str] = &[
    "/proto = tcp and total > 1ms\n",
    "/)(\n",
    "/request > 1ms\n",
    "/\n",
    "thop(dev.recv,app.recv) > 2ms\n",
    "tsrtt rises 5ms\n",
    "tdrop\n",
    "t>>>\n",
    "t\n",
    "esrtt - rttvar\n",
    "erate(retransmits)\n",
    "e1/0\n",
    "Esrtt cwnd\n",
    "E\n",
    "@50\n",
    "@2s\n",
    "@-1s\n",
    "@14:13\n",
    "@1e308\n",
    ":speed 0.001\n",
    ":speed 100\n",
    ":hold-off 5ms\n",
    ":pre-trigger 100\n",
    ":trigger-window 1h\n",
    ":scr\n",
    "v \u{1b}",
    "vjjj \u{1b}",
];

fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
    Event::Key(KeyEvent::new(code, modifiers))
}

/// The next events: mostly a key, sometimes a whole line or the mouse.
fn next(dice: &mut Dice, area: Rect) -> Vec<Event> {
    let held =
        [KeyModifiers::NONE, KeyModifiers::NONE, KeyModifiers::SHIFT, KeyModifiers::ALT, KeyModifiers::CONTROL];
    match dice.below(20) {
        0 => {
            let line = dice.of(TYPED);
            let code = |c| match c {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            line.chars().map(|c| key(code(c), KeyModifiers::NONE)).collect()
        }
        1..=5 => {
            let kind = dice.of(&[
                MouseEventKind::Down(MouseButton::Left),
                MouseEventKind::Up(MouseButton::Left),
                MouseEventKind::Drag(MouseButton::Left),
                MouseEventKind::Down(MouseButton::Right),
                MouseEventKind::ScrollUp,
                MouseEventKind::ScrollDown,
                MouseEventKind::Moved,
            ]);
            // Some are outside: a terminal that shrank still sends the old position.
            let column = dice.below(u64::from(area.width) + 20) as u16;
            let row = dice.below(u64::from(area.height) + 10) as u16;
            vec![Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE })]
        }
        6..=10 => vec![key(dice.of(KEYS), dice.of(&held))],
        11 => {
            vec![key(KeyCode::Char(dice.of(&['é', '漢', '\u{301}', '🦀', '\u{0}', 'µ'])), KeyModifiers::NONE)]
        }
        _ => {
            let c = char::from(b' ' + dice.below(95) as u8);
            // Every key except Ctrl-C, which would end the program.
            vec![key(
                KeyCode::Char(c),
                if c.eq_ignore_ascii_case(&'c') { KeyModifiers::NONE } else { dice.of(&held) },
            )]
        }
    }
}

fn size(dice: &mut Dice) -> Rect {
    let (width, height) =
        dice.of(&[(80, 24), (120, 40), (200, 60), (1, 1), (40, 10), (39, 9), (300, 5), (20, 100), (151, 33)]);
    Rect::new(0, 0, width, height)
}

/// What a storm is shown.
trait Feed {
    /// Lets some time pass, after `pressed` events of `all`.
    fn pass(&mut self, dice: &mut Dice, scope: &mut Scope, pressed: usize, all: usize);
}

/// Traffic that goes on, or ends after half of the events.
struct Traffic {
    world: made_up::World,
    now_ns: u64,
    ends: bool,
}

impl Feed for Traffic {
    fn pass(&mut self, dice: &mut Dice, scope: &mut Scope, pressed: usize, all: usize) {
        let is_over = self.ends && pressed > all / 2;
        if dice.below(500) == 0 && !is_over {
            self.now_ns += 20_000_000;
            self.world.run_until(self.now_ns, scope);
        } else if is_over && dice.below(5_000) == 0 {
            scope.end();
        }
    }
}

/// Datagrams through a changing number of forwarders.
struct Forwarded {
    sent: u64,
}

impl Feed for Forwarded {
    fn pass(&mut self, dice: &mut Dice, scope: &mut Scope, _: usize, _: usize) {
        if dice.below(300) == 0 {
            let forwarders = dice.below(4) as u8;
            scope.ingest(&forwarded::batch(forwarders, self.sent..self.sent + 20));
            self.sent += 20;
        }
    }
}

/// A recording of a second and its player.
struct Recording {
    batches: Vec<(Batch, Vec<Journey>)>,
    /// Number of the last survey.
    survey: Option<u64>,
}

/// The length of the recording, nanoseconds.
const RECORDED_NS: u64 = 1_000_000_000;

impl Recording {
    fn made() -> Self {
        let mut world = made_up::World::new(60.0);
        let mut correlator = Correlator::of_node(&made_up::info(), Limits::default());
        let tenth = |n: u64| {
            let batch = world.batch_until(n * RECORDED_NS / 10).clone();
            let mut done = Vec::new();
            correlator.push(&batch, &mut done);
            (batch, done)
        };
        Recording { batches: (1..=10).map(tenth).collect(), survey: None }
    }

    fn window() -> Window {
        Window { from_ns: made_up::START_NS, to_ns: made_up::START_NS + RECORDED_NS }
    }
}

impl Feed for Recording {
    fn pass(&mut self, dice: &mut Dice, scope: &mut Scope, _: usize, _: usize) {
        // A player needs some time for a survey, and for a stretch.
        if dice.below(20) == 0 && self.survey.replace(scope.survey()) != Some(scope.survey()) {
            for (batch, journeys) in &self.batches {
                scope.ingest_batch(0, batch);
                for journey in journeys {
                    scope.ingest_journey(journey.clone());
                }
            }
            scope.end();
        }
        if dice.below(5) == 0
            && let Some(window) = scope.wants()
        {
            let overlaps = |journey: &&Journey| {
                journey.start_ns().is_some_and(|ns| ns <= window.to_ns)
                    && journey.end_ns().is_some_and(|ns| ns >= window.from_ns)
            };
            let all = self.batches.iter().flat_map(|(_, journeys)| journeys);
            let journeys = all.filter(overlaps).cloned().collect();
            scope.fill(Stretch { window, journeys, ..Stretch::default() });
        }
        if dice.below(20) == 0 {
            scope.tick(20_000_000);
        }
    }
}

/// Presses keys, and checks the screen by `is_true`.
fn storm(seed: u64, mut scope: Scope, mut feed: impl Feed, ascii: bool, is_true: fn(&Scope, &Buffer)) {
    let (mut dice, events) = (Dice(seed), events());
    let mut front = Front::new(magscope_tui::Options { ascii, ..options() });
    let (mut area, mut pressed) = (Rect::new(0, 0, 120, 40), 0);
    while pressed < events {
        for event in next(&mut dice, area) {
            front.event(&event, &mut scope, area);
            pressed += 1;
        }
        if dice.below(200) == 0 {
            area = size(&mut dice);
            front.event(&Event::Resize(area.width, area.height), &mut scope, area);
        }
        feed.pass(&mut dice, &mut scope, pressed, events);
        if dice.below(DRAWN) == 0 {
            let mut buffer = Buffer::empty(area);
            front.draw(&scope, &mut buffer, area);
            is_true(&scope, &buffer);
        }
    }
}

fn live(seed: u64, ends: bool, is_true: fn(&Scope, &Buffer)) {
    let feed = Traffic { world: made_up::World::new(200.0), now_ns: 0, ends };
    storm(seed, Scope::new(made_up::info(), Options::default()), feed, ends, is_true);
}

/// What is stopped is not shown as live, and the filter that is shown is the one that is held.
fn is_true(scope: &Scope, buffer: &Buffer) {
    let frame = scope.frame();
    let width = usize::from(buffer.area.width);
    let header: String = buffer.content.iter().take(width).map(Cell::symbol).collect();
    if frame.controls.paused && frame.header.state == State::Live {
        assert!(!header.contains("▶ live"), "{header}");
    }
    // A prompt covers the header of a low screen.
    let is_whole = width >= 300 && !header.contains('╭');
    if let Some(filter) = frame.controls.filter.as_ref().filter(|_| is_whole) {
        let begin: String = filter.to_string().chars().take(12).collect();
        assert!(header.contains(&format!("/ {begin}")), "{begin}: {header}");
    }
    assert!(frame.transport.from_ns <= frame.transport.to_ns, "{:?}", frame.transport);
    let selected = frame.table.iter().filter(|row| row.selected).count();
    assert!(selected <= 1, "{selected} rows are selected");
}

/// Each band has its row between two wires, and no other forwarder is selected.
fn has_its_bands(scope: &Scope, buffer: &Buffer) {
    is_true(scope, buffer);
    let frame = scope.frame();
    let is_there = |place: &Place| frame.lanes.iter().any(|lane| lane.place == *place);
    let bands = frame.bands.len() as u8;
    let rows = (1..=bands).flat_map(|number| [Place::Forwarder(number), Place::Wire(number)]);
    assert!(rows.chain([Place::Wire(0)]).all(|place| is_there(&place)));
    assert_eq!(frame.lanes.iter().filter(|lane| lane.is_wire()).count(), usize::from(bands) + 1);
    let selected = frame.controls.lane.filter(|lane| matches!(lane, Place::Forwarder(_)));
    assert!(selected.is_none_or(|lane| is_there(&lane)), "{selected:?}");
}

/// Nothing recorded is shown as live, and the player stays inside the recording.
fn is_replayed(scope: &Scope, buffer: &Buffer) {
    is_true(scope, buffer);
    let frame = scope.frame();
    assert_ne!(frame.header.state, State::Live);
    let (transport, recorded) = (&frame.transport, Recording::window());
    let is_inside = |ns: u64| (recorded.from_ns..=recorded.to_ns).contains(&ns);
    assert!(is_inside(transport.head_ns) || transport.head_ns == 0, "{transport:?}");
}

#[test]
fn a_hundred_thousand_keys_live() {
    live(0x9e37_79b9_7f4a_7c15, false, is_true);
}

#[test]
fn a_hundred_thousand_keys_and_changing_forwarders() {
    let scope = Scope::new(forwarded::info(3), Options::default());
    storm(0xf0f0_1234_5678_9abc, scope, Forwarded { sent: 0 }, false, has_its_bands);
}

#[test]
fn a_hundred_thousand_keys_and_the_source_ends() {
    live(0x0123_4567_89ab_cdef, true, |_, _| {});
}

#[test]
fn a_hundred_thousand_keys_into_a_recording() {
    let options = Options { state: State::Replay, recorded: Some(Recording::window()), ..Options::default() };
    let scope = Scope::new(made_up::info(), options);
    storm(0x5eed_5eed_5eed_5eed, scope, Recording::made(), false, is_replayed);
}
