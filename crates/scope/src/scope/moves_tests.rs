use super::tests::busy;
use crate::action::{Action, SeekPlace};
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
