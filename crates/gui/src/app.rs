//! The window: the front, the open session, the feed's thread, jobs and saved files.

use crate::chosen::Chosen;
use crate::compare::Compared;
use crate::front::Front;
use crate::host_request::HostRequest;
use crate::jobs::{Jobs, Outcome};
use crate::picture::svg;
use crate::selection;
use crate::shared::Shared;
use crate::world::{Opened, Part, Trouble, World};
use crate::{bar, colours};
use egui::{Align2, Area, ColorImage, Context, Frame, Id, Order, ScreenshotCallback, Ui, ViewportCommand};
use magscope_scope::command::keys::KeyMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread::{self, JoinHandle};

/// Initial content of the window.
pub enum Ask {
    /// The welcome page.
    Nothing,
    /// Recordings.
    Open(Vec<PathBuf>),
    /// An open scope that another thread feeds, with its name.
    Separate(String, Arc<Shared>),
}

/// The open session.
struct Session {
    shared: Arc<Shared>,
    feed: Option<JoinHandle<()>>,
    dirs: Vec<PathBuf>,
    title: String,
}

/// The window.
pub struct Window {
    front: Front,
    world: Arc<dyn World>,
    session: Option<Session>,
    jobs: Jobs,
    /// Requested screenshots and their target paths.
    shots: Vec<(PathBuf, Receiver<Arc<ColorImage>>)>,
    saved_settings: String,
    notes: Vec<String>,
}

impl Window {
    /// A window with the saved settings.
    pub fn new(ctx: &Context, world: Arc<dyn World>, keys: KeyMap, ask: Ask) -> Self {
        colours::dress(ctx);
        let saved_settings = world.settings();
        let front = Front::new(Chosen::read(&saved_settings), keys);
        let mut window = Window {
            front,
            world,
            session: None,
            jobs: Jobs::default(),
            shots: Vec::new(),
            saved_settings,
            notes: Vec::new(),
        };
        match ask {
            Ask::Nothing => {}
            Ask::Open(dirs) => window.do_request(HostRequest::Open(dirs), ctx),
            Ask::Separate(title, shared) => window.show(title, shared, None, Vec::new(), ctx),
        }
        window
    }

    /// Draws all of it. Called for every picture.
    pub fn ui(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx().clone();
        self.front.dress(&ctx);
        let mut requests: Vec<HostRequest> = dropped(&ctx, &*self.world).into_iter().collect();
        self.take_shots();
        for ended in self.jobs.ended() {
            self.ended(ended, &ctx);
        }
        self.watch_feed();
        if let Some(session) = &self.session {
            let (shared, world) = (session.shared.clone(), self.world.clone());
            let quits = shared.look(|scope| {
                requests.extend(self.front.ui(ui, scope, &*world));
                scope.quits()
            });
            if quits {
                ctx.send_viewport_cmd(ViewportCommand::Close);
            }
        } else {
            requests.extend(self.front.welcome(ui, &*self.world));
        }
        self.jobs.show(&ctx);
        hovered(&ctx);
        for request in requests {
            self.do_request(request, &ctx);
        }
        self.keep(&ctx);
    }

    fn do_request(&mut self, request: HostRequest, ctx: &Context) {
        let world = self.world.clone();
        let open = self.session.as_ref().map(|session| session.dirs.clone()).unwrap_or_default();
        let begun = match request {
            HostRequest::Open(dirs) => {
                self.jobs.start(format!("opening {}", bar::names(&dirs)), ctx, move |job| {
                    world.open(&dirs, job).map(|opened| Outcome::Opened(Box::new(opened)))
                })
            }
            HostRequest::Compare(after) if open.is_empty() => Err(Trouble {
                what: format!("{} cannot be compared", bar::names(&after)),
                why: "no recording is open to compare it with".to_owned(),
                next: "open the recording that was before, then compare".to_owned(),
            }),
            HostRequest::Compare(after) => {
                self.jobs.start(format!("comparing with {}", bar::names(&after)), ctx, move |job| {
                    world.compare(&open, &after, job).map(|compared| Outcome::Compared(Box::new(compared)))
                })
            }
            HostRequest::Export { .. } if open.is_empty() => Err(Trouble {
                what: "nothing was exported".to_owned(),
                why: "a live capture has no file to export from".to_owned(),
                next: "record it (●), open the recording, and export that".to_owned(),
            }),
            HostRequest::Export { format, to, from_ns, to_ns } => self.selection().and_then(|filter| {
                let part = Part { dirs: open, from_ns, to_ns, filter };
                self.jobs.start(format!("exporting {}", format.name), ctx, move |job| {
                    world.export(&part, format, &to, job).map(Outcome::Written)
                })
            }),
            HostRequest::Png(to) => {
                let (send, shot) = sync_channel(1);
                let window = ctx.clone();
                let callback = ScreenshotCallback::new(move |image| {
                    let _ = send.try_send(image); // room for the next image
                    window.request_repaint();
                });
                self.shots.push((to, shot));
                ctx.send_viewport_cmd(ViewportCommand::Screenshot(callback));
                ctx.request_repaint();
                Ok(())
            }
            HostRequest::Svg(to) => {
                let picture = svg(ctx);
                self.written(&to, picture.as_bytes())
            }
            HostRequest::Idle(idle) => {
                self.session.iter().for_each(|session| session.shared.set_idle(idle));
                Ok(())
            }
            HostRequest::Close => {
                self.close();
                Ok(())
            }
        };
        if let Err(trouble) = begun {
            self.front.trouble(trouble);
        }
    }

    /// The journeys that the open session shows, as a condition.
    fn selection(&self) -> Result<String, Trouble> {
        let Some(session) = &self.session else { return Ok(String::new()) };
        session.shared.look(|scope| selection::condition(&scope.frame()))
    }

    fn ended(&mut self, ended: Result<Outcome, Trouble>, ctx: &Context) {
        match ended {
            Ok(Outcome::Opened(opened)) => self.opened(*opened, ctx),
            Ok(Outcome::Compared(compared)) => self.compared(*compared),
            Ok(Outcome::Written(words)) if is_of_nothing(&words) => {
                self.show_message(format!("nothing in this stretch matches; {words}"), true);
            }
            Ok(Outcome::Written(words)) => self.show_message(words, false),
            Err(trouble) => self.front.trouble(trouble),
        }
    }

    fn compared(&mut self, compared: Compared) {
        let why = compared.notes.join("\n");
        let (before, after) = &compared.names;
        let what = format!("{before} and {after} were compared, but not all of them is good");
        self.front.show_compared(compared);
        if !why.is_empty() {
            let next = "what is good is compared; `magnet-scope info DIR` says more".to_owned();
            self.front.trouble(Trouble { what, why, next });
        }
    }

    fn opened(&mut self, opened: Opened, ctx: &Context) {
        let shared = Arc::new(Shared::new(opened.scope));
        let (fed, feed) = (shared.clone(), opened.feed);
        let spawned = thread::Builder::new().name("feed".to_owned()).spawn(move || {
            if let Err(trouble) = feed.run(&fed) {
                fed.fail(trouble);
            }
        });
        let feed = match spawned {
            Ok(feed) => Some(feed),
            Err(error) => {
                shared.fail(Trouble {
                    what: "no thread could be started to read".to_owned(),
                    why: error.to_string(),
                    next: "close other programs, or raise the limit of processes (ulimit -u)".to_owned(),
                });
                None
            }
        };
        if !opened.dirs.is_empty() {
            self.front.chosen.opened(&opened.dirs);
        }
        self.show(opened.title, shared, feed, opened.dirs, ctx);
        self.notes = opened.notes;
        if !self.notes.is_empty() {
            self.front.trouble(Trouble {
                what: format!("{} was opened, but not all of it is good", self.title()),
                why: self.notes.join("\n"),
                next: "what is good is shown; `magnet-scope info DIR` says more".to_owned(),
            });
        }
    }

    /// Replaces the shown scope.
    fn show(
        &mut self,
        title: String,
        shared: Arc<Shared>,
        feed: Option<JoinHandle<()>>,
        dirs: Vec<PathBuf>,
        ctx: &Context,
    ) {
        self.close();
        shared.set_window(ctx.clone());
        ctx.send_viewport_cmd(ViewportCommand::Title(format!("{title} – magnet-scope")));
        self.session = Some(Session { shared, feed, dirs, title });
        self.front.other_scope();
    }

    /// Title of the session.
    pub fn title(&self) -> &str {
        self.session.as_ref().map_or("", |session| &session.title)
    }

    /// The scope that is drawn, if one is.
    pub fn scope(&self) -> Option<Arc<Shared>> {
        self.session.as_ref().map(|session| session.shared.clone())
    }

    /// Ends what is open, and waits for its thread.
    pub fn close(&mut self) {
        if let Some(mut session) = self.session.take() {
            session.shared.end();
            session.feed.take().map(JoinHandle::join);
        }
    }

    /// Shows the error of a failed feed; its data stays.
    fn watch_feed(&mut self) {
        let Some(session) = &mut self.session else { return };
        if let Some(trouble) = session.shared.take_failure() {
            return self.front.trouble(trouble);
        }
        if !session.feed.as_ref().is_some_and(JoinHandle::is_finished) {
            return;
        }
        if session.feed.take().map(JoinHandle::join).is_some_and(|ended| ended.is_err()) {
            self.front.trouble(Trouble {
                what: format!("reading {} ended for a mistake in magnet-scope", session.title),
                why: "its thread failed; the terminal says where".to_owned(),
                next: "what was read stays; please report it".to_owned(),
            });
        }
    }

    /// Writes the screenshots that are ready.
    fn take_shots(&mut self) {
        let (mut came, mut waiting) = (Vec::new(), Vec::new());
        for (to, shot) in self.shots.drain(..) {
            match shot.try_recv() {
                Ok(image) => came.push((to, image)),
                Err(TryRecvError::Empty) => waiting.push((to, shot)),
                Err(TryRecvError::Disconnected) => {}
            }
        }
        self.shots = waiting;
        for (to, image) in came {
            let written = crate::picture::png(&image).and_then(|bytes| self.written(&to, &bytes));
            if let Err(trouble) = written {
                self.front.trouble(trouble);
            }
        }
    }

    fn written(&mut self, to: &std::path::Path, bytes: &[u8]) -> Result<(), Trouble> {
        self.world.write(to, bytes)?;
        self.show_message(format!("written: {}", to.display()), false);
        Ok(())
    }

    fn show_message(&mut self, words: String, is_error: bool) {
        if let Some(session) = &self.session {
            session.shared.look(|scope| scope.show_message(words, is_error));
        }
    }

    /// Saves changed settings while no mouse button is down.
    fn keep(&mut self, ctx: &Context) {
        if ctx.input(|input| input.pointer.any_down()) {
            return;
        }
        let size = ctx.content_rect().size() * ctx.zoom_factor();
        self.front.chosen.window = (size.x, size.y);
        let text = self.front.chosen.text();
        if text != self.saved_settings {
            self.world.keep(&text);
            self.saved_settings = text;
        }
    }
}

/// True for the message of an export without any row: `PATH: 0 rows, 0 others; 0 B in 0.1 s`. A format may write a head
/// then, so the size of the file does not show it.
fn is_of_nothing(message: &str) -> bool {
    let rows = message.rsplit_once("; ").and_then(|(rows, _)| rows.rsplit_once(": "));
    rows.is_some_and(|(_, rows)| rows == "nothing" || rows.split(", ").all(|row| row.starts_with("0 ")))
}

/// Directories dropped on the window. A file inside a recording counts as the recording, because file managers
/// show its content.
fn dropped(ctx: &Context, world: &dyn World) -> Option<HostRequest> {
    let files: Vec<PathBuf> =
        ctx.input(|input| input.raw.dropped_files.iter().map(|file| file.path().to_owned()).collect());
    let mut dirs: Vec<PathBuf> = Vec::new();
    for file in files {
        let above = file.parent().filter(|above| file.is_file() && world.is_recording(above));
        let dir = above.map_or_else(|| file.clone(), ToOwned::to_owned);
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    (!dirs.is_empty()).then_some(HostRequest::Open(dirs))
}

/// Shows a hint while files hover over the window.
fn hovered(ctx: &Context) {
    let n = ctx.input(|input| input.raw.hovered_files.len());
    if n == 0 {
        return;
    }
    let words = if n == 1 { "drop it to open it" } else { "drop them to open them on one time line" };
    Area::new(Id::unique("hovered")).order(Order::Foreground).anchor(Align2::CENTER_CENTER, [0.0, 0.0]).show(
        ctx,
        |ui| {
            Frame::popup(ui.style()).show(ui, |ui| ui.heading(words));
        },
    );
}

impl eframe::App for Window {
    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        Window::ui(self, ui);
    }

    fn on_exit(&mut self, _gl: Option<&eframe::glow::Context>) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_without_rows_is_recognised() {
        for rows in ["0 trace packets", "0 hops, 0 journeys", "nothing"] {
            assert!(is_of_nothing(&format!("/a: b; c.csv: {rows}; 96 B in 0.1 s")), "{rows}");
        }
        for rows in ["10 trace packets", "0 hops, 3 journeys"] {
            assert!(!is_of_nothing(&format!("/a: b; c.csv: {rows}; 1 kB in 0.1 s")), "{rows}");
        }
        assert!(!is_of_nothing("/a: 12 rows"), "an unlike message is of something");
    }
}
