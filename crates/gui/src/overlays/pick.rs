//! A file picker: an editable path and its directory list. Desktop pickers do not offer directories such as
//! recordings for opening; this picker also works over a forwarded display.

use super::{Next, Overlay, modal};
use crate::host_request::HostRequest;
use crate::ui_context::UiContext;
use crate::world::World;
use egui::{Align, Context, Layout, RichText, ScrollArea, TextEdit};
use magscope_core::foreign::clean;
use magscope_scope::Scope;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of entries.
const MOST: usize = 2_000;

/// Purpose of a picker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Recordings to open.
    Open,
    /// Recordings to compare with.
    Compare,
    /// A file for the picture.
    Png,
    /// A vector file for the picture.
    Svg,
    /// A file for the selection.
    Export,
}

impl Pick {
    const fn title(self) -> &'static str {
        match self {
            Self::Open => "open recordings",
            Self::Compare => "compare with recordings",
            Self::Png => "write the picture as PNG (or SVG, by its name)",
            Self::Svg => "write the picture as SVG (or PNG, by its name)",
            Self::Export => "export what is selected",
        }
    }

    const fn reads(self) -> bool {
        matches!(self, Self::Open | Self::Compare)
    }
}

/// A picker.
#[derive(Debug)]
pub struct Picker {
    what: Pick,
    path: String,
    /// Selected recordings; several share one time line.
    chosen: BTreeSet<PathBuf>,
    /// The directory's entries: path, whether it is a directory, whether it is a recording.
    listed: Option<(PathBuf, Result<Vec<Entry>, String>)>,
    format: usize,
    /// True until the path has the initial focus.
    focused: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    path: PathBuf,
    recording: bool,
}

impl Picker {
    /// A picker that starts in the home directory.
    pub fn new(what: Pick, world: &dyn World) -> Self {
        let home = world.home();
        let path = match what {
            Pick::Png => home.join("magnet-scope.png"),
            Pick::Svg => home.join("magnet-scope.svg"),
            Pick::Export => {
                let ending = world.formats().first().map_or("out", |format| format.ending);
                home.join(format!("selection.{ending}"))
            }
            Pick::Open | Pick::Compare => home,
        };
        Picker {
            what,
            path: path.display().to_string(),
            chosen: BTreeSet::new(),
            listed: None,
            format: 0,
            focused: false,
        }
    }

    /// The listed directory.
    fn directory(&self) -> PathBuf {
        let path = PathBuf::from(&self.path);
        if path.is_dir() { path } else { path.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned) }
    }

    fn list(&mut self, world: &dyn World) {
        let directory = self.directory();
        if self.listed.as_ref().is_none_or(|(previous, _)| *previous != directory) {
            let listed = list(&directory, world).map_err(|error| error.to_string());
            self.listed = Some((directory, listed));
        }
    }

    /// The resulting request, if the selection is complete.
    fn request(&self, scope: &Scope, world: &dyn World) -> Option<HostRequest> {
        let path = PathBuf::from(self.path.trim());
        let mut dirs: Vec<PathBuf> = self.chosen.iter().cloned().collect();
        if dirs.is_empty() && world.is_recording(&path) {
            dirs.push(path.clone());
        }
        match self.what {
            Pick::Open => (!dirs.is_empty()).then_some(HostRequest::Open(dirs)),
            Pick::Compare => (!dirs.is_empty()).then_some(HostRequest::Compare(dirs)),
            // The extension determines the format: `a.svg` is never PNG.
            Pick::Png | Pick::Svg => match path.extension().and_then(|ending| ending.to_str()) {
                Some("svg") => Some(HostRequest::Svg(path)),
                Some("png") => Some(HostRequest::Png(path)),
                _ if self.what == Pick::Svg => Some(HostRequest::Svg(path)),
                _ => Some(HostRequest::Png(path)),
            },
            Pick::Export => {
                let format = *world.formats().get(self.format)?;
                let (from_ns, to_ns) = selected(scope);
                Some(HostRequest::Export { format, to: path, from_ns, to_ns })
            }
        }
    }
}

/// The selection: between the cursors, or else the visible time.
fn selected(scope: &Scope) -> (u64, u64) {
    let frame = scope.frame();
    if let Some(cursors) = frame.cursors {
        return (cursors.a_ns.min(cursors.b_ns), cursors.a_ns.max(cursors.b_ns));
    }
    let from_ns = frame.sweep.origin_ns;
    (from_ns, from_ns.saturating_add(frame.sweep.timebase.span_ns()))
}

fn list(directory: &Path, world: &dyn World) -> std::io::Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = fs::read_dir(directory)?
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .map(|entry| (clean(&entry.file_name().to_string_lossy()).into_owned(), entry.path()))
        .filter(|(name, _)| !name.starts_with('.'))
        .take(MOST)
        .map(|(name, path)| Entry { recording: world.is_recording(&path), name, path })
        .collect();
    entries.sort_by(|a, b| (!a.recording, &a.name).cmp(&(!b.recording, &b.name)));
    Ok(entries)
}

pub fn show(ctx: &Context, mut picker: Picker, scope: &Scope, world: &dyn World, cx: &mut UiContext) -> Next {
    picker.list(world);
    let mut done = false;
    let close = modal(ctx, picker.what.title(), 640.0, |ui| {
        formats(ui, &mut picker, world);
        ui.horizontal(|ui| {
            if ui.button("Up").on_hover_text("the directory above").clicked()
                && let Some(above) = picker.directory().parent()
            {
                picker.path = above.display().to_string();
            }
            let edit = TextEdit::singleline(&mut picker.path).char_limit(4096).desired_width(f32::INFINITY);
            let response = ui.add(edit);
            response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::TextInput, true, "path"));
            if !std::mem::replace(&mut picker.focused, true) {
                response.request_focus();
            }
            done = response.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
        });
        // A control with the focus takes the key.
        let is_free = ui.memory(|memory| memory.focused().is_none());
        let is_entered = ui.input(|input| input.key_pressed(egui::Key::Enter));
        done |= is_entered && is_free && !picker.chosen.is_empty();
        entries(ui, &mut picker, cx);
        ui.add_space(4.0);
        ui.horizontal(|ui| {
            let asked_for = picker.request(scope, world);
            let words = match (picker.what.reads(), picker.chosen.len()) {
                (true, 2..) => format!("Open {} together", picker.chosen.len()),
                (true, _) => "Open".to_owned(),
                (false, _) => "Write".to_owned(),
            };
            done |= ui.add_enabled(asked_for.is_some(), egui::Button::new(words)).clicked();
            if ui.button("Cancel").clicked() {
                ui.close();
            }
            if picker.what.reads() {
                let words = "tick several, one a host, to put them on one time line";
                ui.label(RichText::new(words).color(cx.c.dim).small());
            }
        });
    });
    if done && let Some(asked_for) = picker.request(scope, world) {
        cx.requests.push(asked_for);
        return Next::Gone;
    }
    if close { Next::Gone } else { Next::Stay(Overlay::Picking(picker)) }
}

fn formats(ui: &mut egui::Ui, picker: &mut Picker, world: &dyn World) {
    if picker.what != Pick::Export {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        for (n, format) in world.formats().iter().enumerate() {
            if ui.selectable_label(picker.format == n, format.name).on_hover_text(format.words).clicked() {
                picker.format = n;
                picker.focused = false; // the file name comes next
                let path = Path::new(&picker.path).with_extension(format.ending);
                picker.path = path.display().to_string();
            }
        }
    });
}

fn entries(ui: &mut egui::Ui, picker: &mut Picker, cx: &UiContext) {
    let Some((_, listed)) = picker.listed.clone() else { return };
    ScrollArea::vertical().max_height(320.0).auto_shrink([false, true]).show(ui, |ui| match listed {
        Err(why) => {
            ui.label(RichText::new(format!("this directory cannot be read: {why}")).color(cx.c.bad));
        }
        Ok(entries) if entries.is_empty() => {
            ui.label(RichText::new("no directories in here").color(cx.c.dim));
        }
        Ok(entries) => {
            // All of a row is clicked, not only its name.
            ui.with_layout(Layout::top_down_justified(Align::Min), |ui| {
                for entry in &entries {
                    row(ui, entry, picker, cx);
                }
            });
        }
    });
}

/// A recording to tick, or a directory to open.
fn row(ui: &mut egui::Ui, entry: &Entry, picker: &mut Picker, cx: &UiContext) {
    if entry.recording && picker.what.reads() {
        let mut on = picker.chosen.contains(&entry.path);
        let words = RichText::new(&entry.name).color(cx.c.accent);
        if ui.checkbox(&mut on, words).on_hover_text("a recording").changed() {
            if on {
                picker.chosen.insert(entry.path.clone());
            } else {
                picker.chosen.remove(&entry.path);
            }
        }
    } else if ui.selectable_label(false, format!("{}/", entry.name)).clicked() {
        let name = Path::new(&picker.path).file_name().map(ToOwned::to_owned);
        picker.path = match name.filter(|_| !picker.what.reads()) {
            Some(name) => entry.path.join(name).display().to_string(),
            None => entry.path.display().to_string(),
        };
    }
}
