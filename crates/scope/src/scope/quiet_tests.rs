//! The place of the picture where no journey sets it.

use super::tests::{busy, feed, flows, info, message, recorded_options, surveyed};
use super::*;
use crate::View;
use crate::action::Action;
use magscope_core::{Batch, DetailKind, Event, ExtentKind, FlowId, Hop};
use magscope_report::{Evidence, HeadlineKind};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// A refused attempt to connect: an event that is of no journey.
pub(super) fn refused(time_ns: u64) -> Event {
    Event {
        flow: FlowId(1),
        detail: DetailKind::ConnectionState.of(7),
        extent: ExtentKind::OpenError.of(111),
        ..Event::at(Hop::TcpOpen, time_ns)
    }
}

/// Refused attempts twice a second.
fn refuse(scope: &mut Scope, from_ns: u64, to_ns: u64) {
    for time_ns in (from_ns..to_ns).step_by(500 * MS as usize) {
        feed(scope, vec![refused(time_ns)], time_ns + MS);
    }
}

#[test]
fn a_live_picture_without_journeys_follows_the_time() {
    let mut scope = Scope::new(info(), Options::default());
    refuse(&mut scope, 100 * S, 104 * S);
    assert!(scope.horizon.holds(103 * S + 500 * MS) && scope.horizon.holds(100 * S), "{:?}", scope.horizon);
    refuse(&mut scope, 104 * S, 130 * S);
    assert!(scope.horizon.holds(129 * S) && scope.horizon.holds(121 * S), "{:?}", scope.horizon);
    // Also without a single event.
    for at in 130..140 {
        scope.ingest(&Batch { watermark_ns: at * S, ..Batch::default() });
    }
    assert!(scope.horizon.holds(138 * S + 500 * MS), "{:?}", scope.horizon);
    // A stopped one does not.
    scope.apply(Action::TogglePause);
    let before = scope.horizon.begin_ns();
    refuse(&mut scope, 140 * S, 150 * S);
    assert_eq!(scope.horizon.begin_ns(), before);
}

#[test]
fn a_journey_sets_the_place_until_other_things_alone_happen() {
    let mut scope = busy();
    scope.ingest(&Batch { watermark_ns: 3 * S, ..Batch::default() });
    let of_journeys = scope.horizon.clone();
    assert!(of_journeys.end_ns() < 2 * S && of_journeys.timebase().span_ns() < S);
    for at in 4..20 {
        scope.ingest(&Batch { watermark_ns: at * S, ..Batch::default() });
    }
    assert_eq!(scope.horizon, of_journeys, "nothing happened since");
    refuse(&mut scope, 20 * S, 25 * S);
    assert!(scope.horizon.holds(24 * S), "{:?}", scope.horizon);
    feed(&mut scope, message(200, 25 * S, 2_000), 25 * S + 9 * MS);
    refuse(&mut scope, 26 * S, 30 * S);
    assert!(scope.horizon.holds(25 * S) && scope.horizon.timebase().span_ns() < S, "{:?}", scope.horizon);
}

#[test]
fn a_played_recording_without_journeys_follows_its_head() {
    let mut scope = Scope::new(info(), recorded_options(60 * S));
    for at in 0..60 {
        let events = vec![refused(at * S + 1)];
        scope.ingest_batch(0, &Batch { events, flows: flows(), watermark_ns: at * S + MS, ..Batch::default() });
    }
    scope.end();
    (0..40).for_each(|_| scope.tick(S));
    let head_ns = scope.playhead.head_ns;
    assert!(head_ns >= 30 * S && scope.horizon.holds(head_ns), "{head_ns}: {:?}", scope.horizon);
    assert_eq!(scope.horizon.timebase().span_ns(), 10 * S);
}

/// The first line about attempts without an answer leads to the last of them, also after a stop.
#[test]
fn a_refused_attempt_is_the_evidence_of_its_headline() {
    let mut scope = Scope::new(info(), Options::default());
    refuse(&mut scope, 100 * S, 104 * S);
    let last_ns = 103 * S + 500 * MS;
    for _ in 0..2 {
        assert_eq!(scope.headline().kind, HeadlineKind::Unreached, "{:?}", scope.headline());
        scope.apply(Action::ShowEvidence);
        assert_eq!(scope.controls.view, View::Events);
        assert_eq!(scope.selected_entry_ns(), Some(last_ns));
        assert_eq!(scope.frame().details(0, &refused(last_ns)), "Connection refused");
        // The list of events is at the cursor then.
        scope.apply(Action::Show(View::Scope));
        scope.apply(Action::ToggleCursors);
        refuse(&mut scope, 104 * S, 110 * S);
    }
}

#[test]
fn a_headline_about_missed_events_leads_to_their_counts_and_one_about_nothing_says_so() {
    let mut scope = busy();
    scope.headline = Headline { evidence: Evidence::Losses, ..Headline::default() };
    scope.apply(Action::ShowEvidence);
    assert_eq!(scope.controls.view, View::Losses);
    let mut scope = Scope::new(info(), Options::default());
    scope.apply(Action::ShowEvidence);
    assert!(scope.controls.message.is_some());
}

/// A recording goes on for a while after its last event.
#[test]
fn the_headline_counts_the_time_after_the_last_event() {
    let observed = Some(Window { from_ns: 0, to_ns: 4 * S });
    let (scope, _) = surveyed(Options { observed, ..recorded_options(2 * S) });
    assert_eq!(scope.frame().footer.journeys_per_s, Some(50.0));
    assert!(scope.headline().text.contains("50 journeys/s"), "{:?}", scope.headline());
}

/// Two seconds with a message every 10 ms, in the middle of a recording of four.
#[test]
fn all_rates_of_a_recording_count_its_quiet_time() {
    let mut correlator = Correlator::of_node(&info(), Limits::default());
    let recorded = Some(Window { from_ns: S, to_ns: 3 * S });
    let observed = Some(Window { from_ns: 0, to_ns: 4 * S });
    let mut scope = Scope::new(info(), Options { recorded, observed, ..recorded_options(0) });
    for n in 0..200_u32 {
        let at = S + u64::from(n) * 10 * MS;
        let events = message(n, at, 2_000);
        let batch = Batch { events, flows: flows(), watermark_ns: at + 9 * MS, ..Batch::default() };
        scope.ingest_batch(0, &batch);
        let mut done = Vec::new();
        correlator.push(&batch, &mut done);
        if n == 199 {
            correlator.finish(&mut done);
        }
        for journey in done {
            scope.ingest_journey(journey);
        }
    }
    scope.end();
    scope.apply(Action::ZoomTo { from_ns: 0, to_ns: 4 * S });
    assert_eq!(scope.lately(), Some((0, 4 * S)));
    let frame = scope.frame();
    let lane = frame.lanes.iter().find(|lane| lane.hop() == Some(Hop::DevRecv)).and_then(|lane| lane.stats);
    let rates = [
        frame.footer.journeys_per_s,
        lane.map(|stats| stats.events_per_s),
        frame.topology(9).rows.first().and_then(|row| row.per_s),
    ];
    assert_eq!(rates.map(|rate| rate.map(f64::round)), [Some(50.0); 3], "{rates:?}");
}
