//! The window with an open session: dropped directories, saved settings, long jobs, written files.

use crate::common;

use common::{busy, two_hosts};
use egui::{Event, Key};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use magscope_gui::{
    Ask, Compared, Feed, Format, Job, KeyMap, Light, Opened, Part, Shared, Spreads, Trouble, Window, World,
};
use magscope_report::compare::{Side, compare};
use magscope_scope::{Action, CursorId, Pick, Scope, View};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A test world that logs its requests. A job named `slow` runs until cancelled or released.
#[derive(Default)]
struct TestWorld {
    asked: Mutex<Vec<String>>,
    parts: Mutex<Vec<Part>>,
    saved: Mutex<String>,
    let_go: AtomicBool,
    cancelled: AtomicBool,
    reads_on: Arc<AtomicBool>,
}

impl TestWorld {
    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn note(&self, what: &str, dirs: &[PathBuf]) {
        let names: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        self.asked.lock().unwrap().push(format!("{what} {}", names.join(" ")));
    }

    fn take_long(&self, job: &Job) -> Result<(), Trouble> {
        job.at(0.37);
        while !self.let_go.load(Ordering::Acquire) {
            if job.is_cancelled() {
                self.cancelled.store(true, Ordering::Release);
                return Err(trouble("cancelled"));
            }
            sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

fn trouble(what: &str) -> Trouble {
    Trouble { what: what.to_owned(), why: "why".to_owned(), next: "what to do about it".to_owned() }
}

/// A feed without data that exposes its idle flag.
struct Still(Arc<AtomicBool>);

impl Feed for Still {
    fn run(self: Box<Self>, scope: &Shared) -> Result<(), Trouble> {
        while !scope.is_ended() {
            self.0.store(!scope.is_idle(), Ordering::Release);
            sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl World for TestWorld {
    fn is_recording(&self, path: &Path) -> bool {
        path.extension().is_some_and(|ending| ending == "session")
    }
    fn open(&self, dirs: &[PathBuf], job: &Job) -> Result<Opened, Trouble> {
        self.note("open", dirs);
        let name = |part: &str| dirs.iter().any(|dir| dir.display().to_string().contains(part));
        if name("slow") {
            self.take_long(job)?;
        }
        if name("bad") {
            return Err(trouble("bad.session cannot be opened"));
        }
        let notes = if name("damaged") { vec!["frame 7 is torn".to_owned()] } else { Vec::new() };
        Ok(Opened {
            title: format!("{} of them", dirs.len()),
            scope: if name("part") { unread() } else { two_hosts() },
            feed: Box::new(Still(self.reads_on.clone())),
            notes,
            dirs: dirs.to_vec(),
        })
    }
    fn compare(&self, before: &[PathBuf], after: &[PathBuf], _: &Job) -> Result<Compared, Trouble> {
        self.note("before", before);
        self.note("after", after);
        let is_damaged = after.iter().any(|dir| dir.display().to_string().contains("damaged"));
        Ok(Compared {
            comparison: compare(&Side::default(), &Side::default()),
            names: ("before".to_owned(), "after".to_owned()),
            spreads: (Spreads::default(), Spreads::default()),
            notes: is_damaged.then(|| "after: frame 8 is torn".to_owned()).into_iter().collect(),
        })
    }
    fn formats(&self) -> &'static [Format] {
        &[
            Format { name: "perfetto", words: "a trace for ui.perfetto.dev", ending: "pftrace" },
            Format { name: "csv", words: "tables", ending: "csv" },
        ]
    }
    fn export(&self, part: &Part, format: Format, to: &Path, _: &Job) -> Result<String, Trouble> {
        self.note(&format!("export {}", format.name), &[to.to_owned()]);
        self.parts.lock().unwrap().push(part.clone());
        let rows = if to.ends_with("nothing.csv") { "0 rows; 0 B in 0.0 s" } else { "12 rows" };
        Ok(format!("{}: {rows}", to.display()))
    }
    fn write(&self, to: &Path, bytes: &[u8]) -> Result<(), Trouble> {
        self.note(&format!("write {} bytes", bytes.len()), &[to.to_owned()]);
        Ok(())
    }
    fn settings(&self) -> String {
        self.saved.lock().unwrap().clone()
    }
    fn keep(&self, settings: &str) {
        settings.clone_into(&mut self.saved.lock().unwrap());
    }
    fn home(&self) -> PathBuf {
        PathBuf::from("/usr")
    }
}

/// A recording of which a third has been read.
fn unread() -> Scope {
    use magscope_scope::recorded::Window as Span;
    use magscope_scope::{Options, State};
    let from_ns = common::made_up::START_NS;
    let recorded = Some(Span { from_ns, to_ns: from_ns + 3 * common::SECOND });
    let options = Options { state: State::Replay, recorded, ..Options::default() };
    let mut scope = Scope::new(common::made_up::info(), options);
    let mut world = common::made_up::World::new(400.0);
    scope.ingest_batch(0, world.batch_until(common::SECOND));
    scope
}

fn window(test_world: &Arc<TestWorld>, ask: Ask) -> Harness<'static, Option<Window>> {
    let (world, mut ask) = (test_world.clone(), Some(ask));
    let mut harness =
        Harness::builder().with_size([1280.0, 800.0]).with_max_steps(64).with_step_dt(0.02).build_ui_state(
            move |ui, window: &mut Option<Window>| {
                let ctx = ui.ctx().clone();
                let new =
                    || Window::new(&ctx, world.clone(), KeyMap::of_window(), ask.take().expect("begun once"));
                window.get_or_insert_with(new).ui(ui);
            },
            None,
        );
    harness.run_steps(2);
    harness
}

/// Draws frames until a condition holds.
fn until(harness: &mut Harness<'_, Option<Window>>, holds: impl Fn(&Harness<'_, Option<Window>>) -> bool) {
    let end = Instant::now() + Duration::from_mins(1);
    while !holds(harness) {
        assert!(Instant::now() < end, "it never came");
        harness.run_steps(1);
        sleep(Duration::from_millis(5));
    }
    harness.run_steps(2);
}

fn opened(window: &Harness<'_, Option<Window>>) -> String {
    window.state().as_ref().map(|window| window.title().to_owned()).unwrap_or_default()
}

fn has(harness: &Harness<'_, Option<Window>>, label: &str) -> bool {
    harness.query_all_by_label_contains(label).next().is_some()
}

fn click(harness: &mut Harness<'_, Option<Window>>, label: &str) {
    harness.get_by_label(label).click();
    harness.run_steps(3);
}

fn open(dirs: &[&str]) -> Ask {
    Ask::Open(dirs.iter().map(PathBuf::from).collect())
}

fn apply(harness: &Harness<'_, Option<Window>>, action: Action) {
    let scope = harness.state().as_ref().and_then(Window::scope).expect("something is open");
    scope.look(|scope| scope.apply(action));
}

/// Replaces the path in the picker.
fn type_path(harness: &mut Harness<'_, Option<Window>>, path: &str) {
    harness.run_steps(2);
    harness.key_press_modifiers(egui::Modifiers::COMMAND, Key::A);
    harness.run_steps(1);
    harness.event(Event::Text(path.to_owned()));
    harness.run_steps(2);
}

/// Exports what is selected.
fn export(harness: &mut Harness<'_, Option<Window>>) {
    export_to(harness, "/nowhere/out.csv");
}

fn export_to(harness: &mut Harness<'_, Option<Window>>, path: &str) {
    click(harness, "File");
    click(harness, "Export what is selected …");
    click(harness, "csv");
    type_path(harness, path);
    click(harness, "Write");
}

#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &Path {
        &self.0
    }
    fn bytes(&self) -> Result<Vec<u8>, String> {
        Err("nobody asks for them".to_owned())
    }
}

#[test]
fn what_is_dropped_on_it_is_opened_together_and_remembered() {
    let (test_world, dir) = (Arc::new(TestWorld::default()), tempfile::tempdir().unwrap());
    let mut harness = window(&test_world, Ask::Nothing);
    assert!(has(&harness, "drop their directories here"));
    let recording = |name: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("meta.toml"), "").unwrap();
        path
    };
    let (client, server) = (recording("client.session"), recording("server.session"));
    harness.input_mut().hovered_files = vec![egui::HoveredFile::default(); 2];
    harness.run_steps(2);
    assert!(has(&harness, "on one time line"));
    harness.input_mut().hovered_files.clear();
    // The second by a file inside, and twice.
    for path in [client.clone(), server.join("meta.toml"), server.clone()] {
        harness.input_mut().dropped_files.push(Arc::new(Dropped(path)));
    }
    until(&mut harness, |h| opened(h) == "2 of them");
    assert_eq!(test_world.asked(), [format!("open {} {}", client.display(), server.display())]);
    assert!(has(&harness, "time line:"));
    drop(harness);

    let mut harness = window(&test_world, Ask::Nothing);
    click(&mut harness, "client.session + server.session");
    until(&mut harness, |h| opened(h) == "2 of them");
    assert_eq!(test_world.asked().len(), 2);
    click(&mut harness, "File");
    assert!(has(&harness, "client.session + server.session"), "also in the menu");
}

#[test]
fn what_was_chosen_is_there_the_next_time() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness = window(&test_world, open(&["/a.session"]));
    until(&mut harness, |h| opened(h) == "1 of them");
    for label in ["heat map", "light or dark", "beside"] {
        click(&mut harness, label);
    }
    click(&mut harness, "Colour: latency");
    click(&mut harness, "process");
    drop(harness);
    let mut harness = window(&test_world, open(&["/a.session"]));
    until(&mut harness, |h| opened(h) == "1 of them");
    assert!(has(&harness, "Colour: process"));
    assert!(has(&harness, "whole journey"), "the heat map is open");
    assert!(!has(&harness, "MEASUREMENTS"), "nothing stands beside");
    assert_eq!(harness.ctx.theme(), egui::Theme::Light);
    let chosen = magscope_gui::Chosen::read(&test_world.saved.lock().unwrap());
    assert_eq!((chosen.tab, chosen.light, chosen.side), (View::Hops, Light::Light, false));
}

#[test]
fn panels_that_were_made_larger_stay_so() {
    let test_world = Arc::new(TestWorld::default());
    *test_world.saved.lock().unwrap() = "below_height = 333.0\nside_width = 500.0\nscale = 1.0".to_owned();
    let mut harness = window(&test_world, open(&["/a.session"]));
    until(&mut harness, |h| opened(h) == "1 of them");
    harness.run_steps(4);
    drop(harness);
    let chosen = magscope_gui::Chosen::read(&test_world.saved.lock().unwrap());
    let near = |is: f32, was: f32| (is - was).abs() < 3.0;
    assert!(near(chosen.below_height, 333.0) && near(chosen.side_width, 500.0), "{chosen:?}");
}

#[test]
fn what_takes_long_has_a_bar_and_is_cancelled() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness = window(&test_world, open(&["/first.session"]));
    until(&mut harness, |h| opened(h) == "1 of them");
    assert!(!has(&harness, "Cancel"), "what is short shows no bar");
    harness.input_mut().dropped_files.push(Arc::new(Dropped(PathBuf::from("/slow.session"))));
    until(&mut harness, |h| has(h, "Cancel"));
    assert!(has(&harness, "opening slow.session") && has(&harness, "37 %"));
    click(&mut harness, "Cancel");
    until(&mut harness, |h| !has(h, "opening slow.session"));
    assert!(test_world.cancelled.load(Ordering::Acquire));
    assert!(!has(&harness, "this did not work"), "who cancels needs no dialog");
    assert_eq!(opened(&harness), "1 of them", "what was open stays");

    harness.input_mut().dropped_files.push(Arc::new(Dropped(PathBuf::from("/slow.session"))));
    harness.input_mut().dropped_files.push(Arc::new(Dropped(PathBuf::from("/other.session"))));
    until(&mut harness, |h| has(h, "Cancel"));
    test_world.let_go.store(true, Ordering::Release);
    until(&mut harness, |h| opened(h) == "2 of them");
    assert!(!has(&harness, "Cancel"));
}

#[test]
fn too_much_at_once_and_what_fails_is_told() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness = window(&test_world, open(&["/bad.session"]));
    until(&mut harness, |h| has(h, "this did not work"));
    assert!(has(&harness, "bad.session cannot be opened") && has(&harness, "what to do about it"));
    click(&mut harness, "Close");
    for _ in 0..6 {
        harness.input_mut().dropped_files.push(Arc::new(Dropped(PathBuf::from("/slow.session"))));
        harness.run_steps(1);
    }
    until(&mut harness, |h| has(h, "jobs are running already"));
    test_world.let_go.store(true, Ordering::Release);
    click(&mut harness, "Close");
    until(&mut harness, |h| opened(h) == "1 of them");

    harness.input_mut().dropped_files.push(Arc::new(Dropped(PathBuf::from("/damaged.session"))));
    until(&mut harness, |h| has(h, "frame 7 is torn"));
    assert!(has(&harness, "time line:"), "what is good is shown");
}

#[test]
fn what_is_selected_is_exported() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness = window(&test_world, open(&["/a.session", "/b.session"]));
    until(&mut harness, |h| opened(h) == "2 of them");
    apply(&harness, Action::PlaceCursor(CursorId::B, common::made_up::START_NS + 979_000_000));
    apply(&harness, Action::PlaceCursor(CursorId::A, common::made_up::START_NS + 981_000_000));
    apply(&harness, Action::Filter("proto = tcp".to_owned()));
    export(&mut harness);
    until(&mut harness, |h| has(h, "12 rows"));
    assert_eq!(test_world.asked().last().map(String::as_str), Some("export csv /nowhere/out.csv"));
    let parts = test_world.parts.lock().unwrap();
    let wanted = Part {
        dirs: vec![PathBuf::from("/a.session"), PathBuf::from("/b.session")],
        from_ns: common::made_up::START_NS + 979_000_000,
        to_ns: common::made_up::START_NS + 981_000_000,
        filter: "proto = tcp".to_owned(),
    };
    assert_eq!(*parts, [wanted]);
}

#[test]
fn picks_are_exported_and_what_no_condition_names_is_refused() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness = window(&test_world, open(&["/a.session"]));
    until(&mut harness, |h| opened(h) == "1 of them");
    apply(&harness, Action::NextProto);
    apply(&harness, Action::Pick(Pick::Cpu(3)));
    export(&mut harness);
    until(&mut harness, |h| has(h, "12 rows"));
    let filters =
        || -> Vec<String> { test_world.parts.lock().unwrap().iter().map(|part| part.filter.clone()).collect() };
    assert_eq!(filters(), ["(proto = tcp) and (cpu = 3)"]);
    apply(&harness, Action::Pick(Pick::Nothing));
    apply(&harness, Action::NextRoute);
    export(&mut harness);
    until(&mut harness, |h| has(h, "no condition names a route"));
    assert!(has(&harness, "nothing was exported"));
    assert_eq!(filters().len(), 1);
}

#[test]
fn an_export_of_nothing_is_no_success() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness = window(&test_world, open(&["/a.session"]));
    until(&mut harness, |h| opened(h) == "1 of them");
    export_to(&mut harness, "/nowhere/nothing.csv");
    until(&mut harness, |h| has(h, "nothing in this stretch matches"));
    let scope = harness.state().as_ref().and_then(Window::scope).expect("something is open");
    assert!(scope.look(|scope| scope.frame().controls.message.as_ref().is_some_and(|m| m.is_error)));
}

#[test]
fn a_recording_is_ticked_anywhere_in_its_row_and_enter_opens_it() {
    let (test_world, dir) = (Arc::new(TestWorld::default()), tempfile::tempdir().unwrap());
    let recording = dir.path().join("one.session");
    std::fs::create_dir(&recording).unwrap();
    let mut harness = window(&test_world, Ask::Nothing);
    click(&mut harness, "Open recordings …");
    type_path(&mut harness, &dir.path().display().to_string());
    let row = harness.get_by_label("one.session").rect();
    let pos = egui::pos2(harness.get_by_label("path").rect().right() - 40.0, row.center().y);
    harness.event(Event::PointerMoved(pos));
    for pressed in [true, false] {
        let (button, modifiers) = (egui::PointerButton::Primary, egui::Modifiers::NONE);
        harness.event(Event::PointerButton { pos, button, pressed, modifiers });
        harness.run_steps(1);
    }
    harness.run_steps(2);
    harness.key_press(Key::Enter);
    until(&mut harness, |h| opened(h) == "1 of them");
    assert_eq!(test_world.asked(), [format!("open {}", recording.display())]);
}

#[test]
fn a_recording_is_compared_with_another_from_the_menu() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness = window(&test_world, open(&["/a.session"]));
    until(&mut harness, |h| opened(h) == "1 of them");
    click(&mut harness, "File");
    click(&mut harness, "Compare with …");
    type_path(&mut harness, "/b.session");
    click(&mut harness, "Open");
    until(&mut harness, |_| test_world.asked().len() == 3);
    assert_eq!(test_world.asked()[1..], ["before /a.session", "after /b.session"]);
    until(&mut harness, |h| has(h, "before: before"));

    click(&mut harness, "File");
    click(&mut harness, "Compare with …");
    type_path(&mut harness, "/damaged.session");
    click(&mut harness, "Open");
    until(&mut harness, |h| has(h, "after: frame 8 is torn"));
}

#[test]
fn what_cannot_be_done_live_is_said() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness =
        window(&test_world, Ask::Separate("host, live".to_owned(), Arc::new(Shared::new(busy()))));
    for (item, words) in
        [("Export what is selected …", "nothing was exported"), ("Compare with …", "cannot be compared")]
    {
        click(&mut harness, "File");
        click(&mut harness, item);
        type_path(&mut harness, "/x.session");
        let button = if item.starts_with("Export") { "Write" } else { "Open" };
        click(&mut harness, button);
        until(&mut harness, |h| has(h, words));
        click(&mut harness, "Close");
    }
    assert_eq!(test_world.asked(), Vec::<String>::new());
}

#[test]
fn reading_is_stopped_and_goes_on() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness = window(&test_world, open(&["/part.session"]));
    until(&mut harness, |h| opened(h) == "1 of them");
    assert!(has(&harness, "reading 33 %") || has(&harness, "how much has been read"));
    click(&mut harness, "Stop");
    until(&mut harness, |_| !test_world.reads_on.load(Ordering::Acquire));
    click(&mut harness, "Read on");
    until(&mut harness, |_| test_world.reads_on.load(Ordering::Acquire));
}

#[test]
fn a_picture_is_written_with_words_in_it() {
    let test_world = Arc::new(TestWorld::default());
    let mut harness = window(&test_world, open(&["/a.session"]));
    until(&mut harness, |h| opened(h) == "1 of them");
    click(&mut harness, "File");
    click(&mut harness, "Picture as SVG …");
    type_path(&mut harness, "/nowhere/p.svg");
    click(&mut harness, "Write");
    until(&mut harness, |_| test_world.asked().iter().any(|asked| asked.ends_with("/nowhere/p.svg")));
    assert!(has(&harness, "written: /nowhere/p.svg"));
}
