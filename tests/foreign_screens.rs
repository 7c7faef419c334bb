//! A recording with hostile text on every screen, in the terminal and in the window: no cell and no label holds what a terminal or
//! a line of text obeys.

use crate::common::foreign::{HOSTILE, hostile_recording, read, unsafe_characters};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use magscope_core::foreign::REPLACEMENT;
use magscope_scope::command::COMMANDS;
use magscope_scope::{Action, Options, Recording, Scope, View};
use magscope_tui::{Depth, Front, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::path::Path;
use tempfile::TempDir;

/// Sizes of a terminal.
const SIZES: [(u16, u16); 2] = [(80, 24), (200, 60)];

fn scope_of(dir: &Path) -> Scope {
    let mut batches = Vec::new();
    let info = read(dir, |batch| batches.push(batch.clone()));
    let mut scope = Scope::new(info, Options::default());
    for batch in &batches {
        scope.ingest(batch);
    }
    scope.end();
    scope.apply(Action::Fit);
    let name = format!("{HOSTILE}recording");
    scope.set_recording(Some(Recording { name, bytes: 1, events: 1 }));
    scope
}

/// Draws it, holds every cell to the rule, and returns how many characters were replaced.
fn check_cells(front: &Front, scope: &Scope, what: &str) -> usize {
    let mut replaced = 0;
    for (width, height) in SIZES {
        let area = Rect::new(0, 0, width, height);
        let mut buffer = Buffer::empty(area);
        front.draw(scope, &mut buffer, area);
        let text: String = buffer.content.iter().map(ratatui::buffer::Cell::symbol).collect();
        let found = unsafe_characters(text.as_bytes());
        assert!(found.is_empty() && !text.contains('\n'), "{what} at {width}x{height}: {found:?}");
        replaced += text.matches(REPLACEMENT).count();
    }
    replaced
}

fn press(front: &mut Front, scope: &mut Scope, key: KeyCode) {
    let key = Event::Key(KeyEvent::new(key, KeyModifiers::NONE));
    front.event(&key, scope, Rect::new(0, 0, SIZES[0].0, SIZES[0].1));
}

#[test]
fn no_cell_of_the_terminal_holds_what_it_obeys() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("hostile");
    hostile_recording(&path);
    let options = || magscope_tui::Options {
        theme: Theme::built_in("dark", Depth::True),
        ..magscope_tui::Options::default()
    };
    let mut scope = scope_of(&path);
    for (_, page) in View::pages() {
        scope.apply(Action::Show(page.view));
        let replaced = check_cells(&Front::new(options()), &scope, page.name);
        assert!(replaced > 0, "{}: hostile text is on the screen, cleaned", page.name);
    }
    // Every command, view after view: what opens over the views is among them.
    let commands = COMMANDS.iter().filter(|command| command.name != "quit");
    let views: Vec<View> = View::all().collect();
    for (command, view) in commands.zip(views.into_iter().cycle()) {
        let mut front = Front::new(options());
        scope.apply(Action::Show(view));
        press(&mut front, &mut scope, KeyCode::Char(':'));
        command.name.chars().for_each(|c| press(&mut front, &mut scope, KeyCode::Char(c)));
        check_cells(&front, &scope, command.name);
        press(&mut front, &mut scope, KeyCode::Enter);
        check_cells(&front, &scope, command.name);
        // Where it asks for something: an answer that it repeats.
        HOSTILE.chars().for_each(|c| press(&mut front, &mut scope, KeyCode::Char(c)));
        press(&mut front, &mut scope, KeyCode::Enter);
        check_cells(&front, &scope, command.name);
        (0..3).for_each(|_| press(&mut front, &mut scope, KeyCode::Esc));
    }
    scope.show_message(format!("{HOSTILE}a peer's words"), true);
    check_cells(&Front::new(options()), &scope, "a message");
}

#[cfg(feature = "gui")]
mod window {
    use super::*;
    use egui_kittest::Harness;
    use egui_kittest::kittest::{NodeT, Queryable};
    use magscope_gui::{
        Chosen, Compared, Format, HostRequest, Job, KeyMap, Opened, Part, Trouble, World, dress,
    };
    use std::path::PathBuf;

    /// A directory with names that are hostile; every request fails with words that are.
    struct Hostile(PathBuf);

    fn trouble() -> Trouble {
        let text = |what: &str| format!("{HOSTILE}{what}");
        Trouble { what: text("what"), why: text("why"), next: text("next") }
    }

    impl World for Hostile {
        fn is_recording(&self, _: &Path) -> bool {
            true
        }
        fn open(&self, _: &[PathBuf], _: &Job) -> Result<Opened, Trouble> {
            Err(trouble())
        }
        fn compare(&self, _: &[PathBuf], _: &[PathBuf], _: &Job) -> Result<Compared, Trouble> {
            Err(trouble())
        }
        fn formats(&self) -> &'static [Format] {
            &[]
        }
        fn export(&self, _: &Part, _: Format, _: &Path, _: &Job) -> Result<String, Trouble> {
            Err(trouble())
        }
        fn write(&self, _: &Path, _: &[u8]) -> Result<(), Trouble> {
            Err(trouble())
        }
        fn settings(&self) -> String {
            String::new()
        }
        fn keep(&self, _: &str) {}
        fn home(&self) -> PathBuf {
            self.0.clone()
        }
    }

    struct Bench {
        front: magscope_gui::Front,
        scope: Scope,
        world: Hostile,
        requests: Vec<HostRequest>,
    }

    fn labels(harness: &Harness<'_, Bench>) -> Vec<String> {
        let nodes = harness.query_all_by(|_| true);
        nodes
            .flat_map(|node| {
                let node = node.accesskit_node();
                [node.label(), node.value()]
            })
            .flatten()
            .collect()
    }

    /// Holds every label to the rule, and returns how many characters were replaced.
    fn check_labels(harness: &Harness<'_, Bench>, what: &str) -> usize {
        let labels = labels(harness);
        assert!(labels.len() > 10, "{what}: {labels:?}");
        for label in &labels {
            assert!(unsafe_characters(label.as_bytes()).is_empty(), "{what}: {label:?}");
        }
        labels.iter().map(|label| label.matches(REPLACEMENT).count()).sum()
    }

    #[test]
    fn no_label_of_the_window_holds_what_a_line_of_text_obeys() {
        let dir = TempDir::new().expect("a directory");
        let path = dir.path().join("hostile");
        hostile_recording(&path);
        let home = dir.path().join("home");
        std::fs::create_dir_all(home.join(format!("{HOSTILE}directory"))).expect("own directory");
        for (width, height) in [(640.0, 400.0), (1600.0, 1000.0)] {
            let bench = Bench {
                front: magscope_gui::Front::new(Chosen::default(), KeyMap::built_in()),
                scope: scope_of(&path),
                world: Hostile(home.clone()),
                requests: Vec::new(),
            };
            let mut harness = Harness::builder()
                .with_size([width, height])
                .with_max_steps(64)
                .with_context_setup(dress)
                .build_ui_state(
                    |ui, bench: &mut Bench| {
                        let requests = bench.front.ui(ui, &mut bench.scope, &bench.world);
                        bench.requests.extend(requests);
                    },
                    bench,
                );
            harness.run_steps(3);
            let mut replaced = 0;
            for (tab, _) in View::tabs() {
                let chosen = &mut harness.state_mut().front.chosen;
                (chosen.tab, chosen.below) = (tab, true);
                harness.run_steps(2);
                replaced += check_labels(&harness, &format!("{tab:?}"));
            }
            assert!(replaced > 0, "hostile text is in the window, cleaned");
            harness.state_mut().front.trouble(trouble());
            harness.run_steps(3);
            check_labels(&harness, "trouble");
            harness.key_press(egui::Key::Escape);
            harness.run_steps(2);
            // What opens over the views is as large in a small window.
            let commands = COMMANDS.iter().filter(|command| command.name != "quit" && width < 1000.0);
            for command in commands {
                for text in [":", command.name] {
                    text.chars().for_each(|c| harness.event(egui::Event::Text(c.to_string())));
                    harness.run_steps(2);
                }
                harness.key_press(egui::Key::Enter);
                harness.run_steps(3);
                check_labels(&harness, command.name);
                for _ in 0..3 {
                    harness.key_press(egui::Key::Escape);
                    harness.run_steps(1);
                }
            }
        }
    }
}
