//! A part of a recording that is read again has the journeys that a reader of all of it has, and a survey that the user
//! interrupts leaves nothing behind.

use super::player::{Player, ScopeAccess, scope_of};
use super::stretch::{Found, read};
use crate::cli::PartArgs;
use crate::recordings::Recordings;
use magscope_core::Journey;
use magscope_core::journey::{Limits, Verdict};
use magscope_core::source::Progress;
use magscope_scope::recorded::Window;
use magscope_scope::{Action, Scope};
use magscope_timeline::merged_reader::Piece;
use std::path::{Path, PathBuf};
use std::time::Duration;

const WINDOWS: u64 = 7;

/// The golden recordings: each alone, and client and server together.
fn recordings() -> Vec<Vec<PathBuf>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let folders = std::fs::read_dir(&golden).expect("the golden recordings");
    let mut alone: Vec<Vec<PathBuf>> = folders
        .map(|folder| folder.expect("a folder").path().join("session"))
        .filter(|session| session.is_dir())
        .map(|session| vec![session])
        .collect();
    alone.sort();
    alone.push(["web-client", "web-server"].map(|name| golden.join(name).join("session")).to_vec());
    alone
}

fn survey(recordings: &Recordings) -> (Vec<Journey>, Found) {
    let mut walker = recordings.walker(Limits::default(), None).keep_proofs();
    let (mut all, mut found) = (Vec::new(), Found::nothing(recordings));
    let mut keep = |piece: Piece<'_>| {
        found.add(&piece);
        if let Piece::Journey(journey, ..) = piece {
            all.push(journey.clone());
        }
    };
    while walker.step(&mut keep).expect("a golden recording is read") == Progress::More {}
    found.proofs = walker.proofs();
    (all, found)
}

/// The journeys inside a window, without their numbers: a reader counts from its own first one.
fn inside(window: Window, journeys: &[Journey]) -> Vec<Journey> {
    let is_inside = |journey: &Journey| {
        journey.start_ns().is_some_and(|ns| ns >= window.from_ns)
            && journey.end_ns().is_some_and(|ns| ns <= window.to_ns)
    };
    let mut inside: Vec<Journey> = journeys
        .iter()
        .filter(|journey| is_inside(journey))
        .map(|journey| Journey { id: 0, ..journey.clone() })
        .collect();
    inside.sort_by_cached_key(|journey| (journey.start_ns(), format!("{journey:?}")));
    inside
}

/// A mark of the reader of all may rest on records that were lost before the window.
fn is_marked(journey: &Journey) -> bool {
    journey.ambiguous || matches!(journey.verdict, Verdict::BrokenByEventLoss { .. })
}

#[test]
fn each_window_has_the_journeys_of_the_whole_recording() {
    let mut compared = 0;
    for dirs in recordings() {
        let recordings =
            Recordings::open(&dirs, PartArgs::default(), Limits::default()).expect("a golden recording");
        let (all, found) = survey(&recordings);
        let (from_ns, to_ns) = recordings.extent();
        let step_ns = (to_ns - from_ns) / WINDOWS;
        for n in 0..WINDOWS {
            let window = Window { from_ns: from_ns + n * step_ns, to_ns: from_ns + (n + 1) * step_ns };
            let stretch = read(&recordings, Limits::default(), window, usize::MAX, &found, &mut |_, _| {});
            let stretch = stretch.expect("a golden recording is read");
            let (expected, seen) = (inside(window, &all), inside(window, &stretch.journeys));
            let missing = expected.iter().find(|one| !is_marked(one) && !seen.contains(one));
            assert_eq!(missing, None, "{dirs:?}, window {n}: not in the window");
            let is_expected = |one: &Journey| {
                expected.contains(one) || expected.iter().any(|all| is_marked(all) && all.rungs == one.rungs)
            };
            let made_up = seen.iter().find(|one| !is_expected(one));
            assert_eq!(made_up, None, "{dirs:?}, window {n}: only in the window");
            compared += seen.len();
        }
    }
    assert!(compared > 1000, "{compared}");
}

/// A scope whose user sets a filter between two pieces of the survey.
struct Interrupted {
    scope: Scope,
    /// Accesses until then.
    left: usize,
}

impl ScopeAccess for Interrupted {
    fn hold(&mut self, with: &mut dyn FnMut(&mut Scope)) {
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 {
            self.scope.apply(Action::Filter("tcp".to_owned()));
        }
        with(&mut self.scope);
    }
}

#[test]
fn a_filter_amid_a_survey_counts_no_journey_twice() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/demo/session");
    let recordings = Recordings::open(&[golden], PartArgs::default(), Limits::default());
    let recordings = recordings.expect("a golden recording");
    let counted = |left: usize| {
        let scope = scope_of(&recordings, 1.0, Limits::default());
        let mut interrupted = Interrupted { scope, left };
        let mut player = Player::new(&recordings, Limits::default());
        while player.turn(&mut interrupted, Duration::MAX / 4).expect("a golden recording is read") {}
        let rows = interrupted.scope.frame().flows(100).rows;
        rows.iter().map(|row| row.journeys).collect::<Vec<u64>>()
    };
    let from_the_start = counted(1);
    assert!(from_the_start.iter().sum::<u64>() > 100, "{from_the_start:?}");
    for left in [2, 3, 20, 500] {
        assert_eq!(counted(left), from_the_start, "after {left} accesses");
    }
}
