use super::tests::{busy, feed, message, recorded};
use crate::action::{Action, SeekPlace};
use crate::edge::Edge;
use magscope_core::Batch;
use magscope_core::clock::ClockSample;

/// A place is a part of all, a time from either end, or a time of day; the chosen cursor goes there, too.
#[test]
fn the_picture_and_a_cursor_go_to_a_time() {
    let mut scope = busy();
    let (from_ns, to_ns) = scope.extent();
    let sample =
        ClockSample { monotonic_ns: from_ns, realtime_ns: 86_399_500_000_000, ..ClockSample::default() };
    scope.ingest(&Batch { clock: vec![sample], watermark_ns: to_ns, ..Batch::default() });
    scope.apply(Action::ToggleCursors);
    for (place, wanted_ns) in [
        (SeekPlace::Part(0.5), from_ns + (to_ns - from_ns) / 2),
        (SeekPlace::AfterBegin(300_000_000), from_ns + 300_000_000),
        (SeekPlace::BeforeEnd(250_000_000), to_ns - 250_000_000),
        // Midnight is half a second after the beginning.
        (SeekPlace::TimeOfDay(0), from_ns + 500_000_000),
        (SeekPlace::TimeOfDay(86_399_750_000_000), from_ns + 250_000_000),
    ] {
        scope.apply(Action::SeekTo(place));
        assert!(scope.controls.message.is_none(), "{place:?}: {:?}", scope.controls.message);
        let cursor_ns = scope.controls.cursors.expect("cursors").chosen_ns();
        assert_eq!(cursor_ns, wanted_ns, "{place:?}");
        let (left_ns, right_ns) = (scope.horizon.begin_ns(), scope.horizon.end_ns());
        assert!((left_ns..=right_ns).contains(&wanted_ns), "{place:?}: {left_ns} to {right_ns}");
    }
    for outside in
        [SeekPlace::AfterBegin(u64::MAX), SeekPlace::BeforeEnd(u64::MAX), SeekPlace::TimeOfDay(60_000_000_000)]
    {
        scope.apply(Action::SeekTo(outside));
        assert!(scope.controls.message.as_ref().is_some_and(|message| message.is_error), "{outside:?}");
    }
}

#[test]
fn a_live_picture_that_was_moved_goes_on_at_the_present() {
    let mut scope = busy();
    scope.apply(Action::Pan(-3));
    scope.apply(Action::TogglePause);
    assert!(scope.frame().transport.following, "{:?}", scope.frame().transport);
    for n in 200..800_u32 {
        let at = u64::from(n) * 10_000_000;
        feed(&mut scope, message(n, at, 2_000), at + 9_000_000);
    }
    let behind_ns = scope.now_ns.saturating_sub(scope.horizon.end_ns());
    assert!(behind_ns < 2_600_000_000, "{behind_ns} ns behind");
}

/// In slow motion the past plays instead, which is no live picture.
#[test]
fn a_live_picture_in_slow_motion_names_its_age() {
    let mut scope = busy();
    scope.apply(Action::SetSpeed(0.01));
    scope.apply(Action::SeekPart(0.3));
    scope.apply(Action::TogglePause);
    let edge = scope.frame().header.edge;
    assert!(matches!(edge, Edge::Past { behind_ns } if behind_ns > 500_000_000), "{edge:?}");
    scope.apply(Action::Follow);
    let edge = scope.frame().header.edge;
    assert!(!matches!(edge, Edge::Past { .. }), "{edge:?}");
}

/// The recording lasts for 2 s, its last message ends some microseconds after 1.99 s.
#[test]
fn the_end_of_a_recording_is_that_of_its_traffic() {
    let (mut scope, _) = recorded();
    scope.apply(Action::SetTimebase(100_000));
    scope.apply(Action::Follow);
    let (from_ns, to_ns) = (scope.horizon.begin_ns(), scope.horizon.end_ns());
    assert!(from_ns < 1_990_000_000 && (1_990_017_000..2_000_000_000).contains(&to_ns), "{from_ns} to {to_ns}");
    assert_eq!(scope.frame().transport.head_ns, 2_000_000_000);
}

#[test]
fn keys_that_change_no_number_at_once_are_answered() {
    let (mut scope, _) = recorded();
    for action in [Action::SetRoll(crate::Roll::On), Action::Clear] {
        scope.apply(action.clone());
        let message = scope.controls.message.as_ref();
        assert!(message.is_some_and(|message| !message.is_error), "{action:?}");
    }
}
