//! Recordings on disk, for the window.

use super::compared::compared;
use super::feeds::{FollowAllFeed, FollowFeed, ReplayFeed};
use super::{settings, trouble};
use crate::cli::PartArgs;
use crate::commands::export::format::Format as Written;
use crate::commands::export::selection;
use crate::failure::{Cancelled, Hint};
use crate::recordings::Recordings;
use crate::screen::Followed;
use crate::values::instant::Instant;
use anyhow::{Context, Result};
use clap::ValueEnum;
use magscope_core::journey::Limits;
use magscope_gui::{Compared, Format, Job, Opened, Part, Trouble, World};
use magscope_scope::recorded::{MOST_JOURNEYS, Window};
use magscope_scope::{Options, Scope, State};
use magscope_session::Session;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

/// Maximum time since the last write of a running recording.
const FRESH: Duration = Duration::from_secs(3);

/// The export formats that need no selection of tables. They live as long as the program.
static FORMATS: LazyLock<Vec<Format>> = LazyLock::new(|| {
    let format = |(name, words, ending): (String, _, _)| Format { name: name.leak(), words, ending };
    Written::of_window().into_iter().map(format).collect()
});

/// Recordings on disk.
pub struct Files {
    /// Limits of the correlator.
    pub limits: Limits,
    /// Initial playback speed.
    pub speed: f64,
    /// Follow recordings regardless of their files' state.
    pub follow: bool,
}

impl Files {
    fn opened(&self, dirs: &[PathBuf], job: &Job) -> Result<Opened> {
        if let [dir] = dirs
            && let session = Session::open(dir)?
            && !session.summary().closed
            && (self.follow || is_fresh(dir))
        {
            let info = session.info().clone();
            let scope = Scope::new(
                info,
                Options {
                    state: State::Live,
                    limits: self.limits,
                    most_lifelines: MOST_JOURNEYS,
                    ..Options::default()
                },
            );
            let feed = Box::new(FollowFeed { dir: dir.clone() });
            return Ok(Opened {
                title: format!("{} (being recorded)", name(dir)),
                scope,
                feed,
                notes: Vec::new(),
                dirs: dirs.to_vec(),
            });
        }
        if dirs.len() > 1 && self.run_yet(dirs) {
            let followed = Followed::open(dirs)?;
            let feed = Box::new(FollowAllFeed { dirs: dirs.to_vec(), limits: self.limits });
            let title = dirs.iter().map(|dir| name(dir)).collect::<Vec<_>>().join(" + ");
            return Ok(Opened {
                title: format!("{title} (being recorded)"),
                scope: followed.scope(self.limits, MOST_JOURNEYS),
                feed,
                notes: Vec::new(),
                dirs: dirs.to_vec(),
            });
        }
        let all =
            dirs.iter().filter_map(|dir| Some(Session::open(dir).ok()?.summary().events)).sum::<u64>().max(1);
        let read = std::cell::Cell::new(0_u64);
        let recordings = Recordings::open_watched(dirs, PartArgs::default(), self.limits, &|batch| {
            read.set(read.get() + batch.events.len() as u64);
            job.at(read.get() as f64 / all as f64);
            !job.is_cancelled()
        })?;
        if job.is_cancelled() {
            return Err(Cancelled("cancelled".to_owned()).into());
        }
        let (from_ns, to_ns) = recordings.extent();
        let recorded = Some(Window { from_ns, to_ns });
        let options = Options {
            state: State::Replay,
            limits: self.limits,
            recorded,
            observed: recordings.observed().map(|(from_ns, to_ns)| Window { from_ns, to_ns }),
            speed: self.speed,
            most_lifelines: MOST_JOURNEYS,
            ..Options::default()
        };
        let mut scope = Scope::of_several(recordings.infos().to_vec(), options);
        scope.set_clock_pairs(recordings.clock_pairs());
        scope.apply(magscope_scope::Action::Fit);
        let title = dirs.iter().map(|dir| name(dir)).collect::<Vec<_>>().join(" + ");
        let notes = recordings.damage();
        let feed = Box::new(ReplayFeed { recordings, limits: self.limits });
        Ok(Opened { title, scope, feed, notes, dirs: dirs.to_vec() })
    }

    /// True if all of them are running.
    fn run_yet(&self, dirs: &[PathBuf]) -> bool {
        let runs = |dir: &PathBuf| {
            let closed = Session::open(dir).is_ok_and(|session| session.summary().closed);
            !closed && (self.follow || is_fresh(dir))
        };
        dirs.iter().all(runs)
    }

    fn exported(part: &Part, format: Format, to: &Path, job: &Job) -> Result<String> {
        let written = Written::from_str(format.name, true).map_err(|_| {
            Hint::error(format!("{} is no format", format.name), "", "`magnet-scope export --help` lists them")
        })?;
        let first = part.dirs.first().context("nothing is open to export")?;
        let start = Session::open(first)?.extent_ns().map_or(0, |(from_ns, _)| from_ns);
        // On the common time line, that of the first.
        let offset = |ns: u64| Some(Instant::Offset(Duration::from_nanos(ns.saturating_sub(start))));
        let span = PartArgs { from: offset(part.from_ns), until: offset(part.to_ns) };
        let filter = if part.filter.is_empty() { None } else { Some(part.filter.parse()?) };
        selection::write(part.dirs.clone(), span, filter, written, to, &|read| {
            job.at(read);
            !job.is_cancelled()
        })
    }
}

fn name(dir: &Path) -> String {
    dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned()
}

/// True if the directory was written recently.
fn is_fresh(dir: &Path) -> bool {
    let written = |entry: fs::DirEntry| entry.metadata().and_then(|found| found.modified()).ok();
    let newest = fs::read_dir(dir).into_iter().flatten().flatten().filter_map(written).max();
    newest.and_then(|at| SystemTime::now().duration_since(at).ok()).is_some_and(|since| since < FRESH)
}

impl World for Files {
    fn is_recording(&self, path: &Path) -> bool {
        path.join("meta.toml").is_file()
    }

    fn open(&self, dirs: &[PathBuf], job: &Job) -> Result<Opened, Trouble> {
        self.opened(dirs, job).map_err(|error| trouble(&error))
    }

    fn compare(&self, before: &[PathBuf], after: &[PathBuf], job: &Job) -> Result<Compared, Trouble> {
        compared(before, after, self.limits, job).map_err(|error| trouble(&error))
    }

    fn formats(&self) -> &'static [Format] {
        &FORMATS
    }

    fn export(&self, part: &Part, format: Format, to: &Path, job: &Job) -> Result<String, Trouble> {
        Self::exported(part, format, to, job).map_err(|error| trouble(&error))
    }

    fn write(&self, to: &Path, bytes: &[u8]) -> Result<(), Trouble> {
        let written =
            File::create_new(to).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
        written.map_err(|error| Trouble {
            what: format!("{} was not written", to.display()),
            why: error.to_string(),
            next: "give another name, or a directory that you may write to".to_owned(),
        })
    }

    fn settings(&self) -> String {
        settings::path().map(|path| settings::read(&path)).unwrap_or_default()
    }

    fn keep(&self, text: &str) {
        if let Some(path) = settings::path() {
            settings::keep(&path, text);
        }
    }

    fn home(&self) -> PathBuf {
        std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_one_of_the_command_line() {
        assert_eq!(FORMATS.first().map(|format| format.name), Some("perfetto"));
        for format in FORMATS.iter() {
            assert!(Written::from_str(format.name, true).is_ok(), "{}", format.name);
        }
    }

    #[test]
    fn files_are_never_overwritten_and_the_dialog_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files { limits: Limits::default(), speed: 1.0, follow: false };
        let path = dir.path().join("picture.png");
        files.write(&path, b"one").unwrap();
        let trouble = files.write(&path, b"two").unwrap_err();
        assert!(trouble.what.contains("picture.png") && !trouble.next.is_empty(), "{trouble:?}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let nothing = files.open(&[dir.path().join("none")], &Job::default()).map(|_| ()).unwrap_err();
        assert!(nothing.what.contains("none") || nothing.why.contains("none"), "{nothing:?}");
    }

    #[test]
    fn what_is_selected_is_written_and_nothing_else() {
        use magscope_timeline::merged_reader::Piece;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("synthetic.session");
        crate::window::feeds::tests::record(&path, 20_000);
        let dirs = vec![path];
        let files = Files { limits: Limits::default(), speed: 1.0, follow: false };
        let recordings = Recordings::open(&dirs, PartArgs::default(), Limits::default()).unwrap();
        let (begin_ns, end_ns) = recordings.extent();
        let third = (end_ns - begin_ns) / 3;
        let part = Part {
            dirs: dirs.clone(),
            from_ns: begin_ns + third,
            to_ns: begin_ns + 2 * third,
            filter: "proto = udp".to_owned(),
        };
        let to = dir.path().join("selection.jsonl");
        let format = *FORMATS.iter().find(|format| format.name == "jsonl").unwrap();
        let job = Job::default();
        let summary = files.export(&part, format, &to, &job).unwrap();
        assert!(summary.contains("selection.jsonl") && job.part() > 0.9, "{summary} {}", job.part());
        let text = fs::read_to_string(&to).unwrap();
        let rows: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut expected = 0;
        let offset = |ns: u64| Some(Instant::Offset(Duration::from_nanos(ns - begin_ns)));
        let span = PartArgs { from: offset(part.from_ns), until: offset(part.to_ns) };
        let count = |piece: Piece<'_>| {
            if let Piece::Journey(journey, ..) = piece {
                expected += usize::from(journey.proto == magscope_core::Proto::UDP);
            }
        };
        let again = Recordings::open(&dirs, span, Limits::default()).unwrap();
        again.walk(Limits::default(), count).unwrap();
        let of = |kind: &str| rows.iter().filter(|row| row["table"] == kind).count();
        assert!(expected > 10, "{expected}");
        assert_eq!(of("journeys"), expected, "{}", &text[..text.len().min(600)]);
        // Files are never overwritten, and a cancelled export leaves nothing.
        assert!(files.export(&part, format, &to, &Job::default()).is_err());
        let (other, gone) = (dir.path().join("other.jsonl"), Job::default());
        gone.cancel();
        assert!(files.export(&part, format, &other, &gone).is_err());
        assert!(!other.exists());
    }
}
