//! User actions on a scope. A front end maps keys and clicks to these actions only.

use crate::channel::Channel;
use crate::controls::List;
use crate::cursor::CursorId;
use crate::lane::Place;
use crate::look::FlowOrder;
use crate::math::Math;
use crate::measure::MeasureSpan;
use crate::persistence::Persistence;
use crate::pick::Pick;
use crate::roll::Roll;
use crate::topology::PathLeg;
use crate::trigger::{Condition, HoldOff, Mode};
use crate::views::View;
use magscope_report::GroupBy;

/// A place on the time line, as a user names it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SeekPlace {
    /// A fraction of the time line, 0 to 1.
    Part(f64),
    /// Nanoseconds after its beginning.
    AfterBegin(u64),
    /// Nanoseconds before its end.
    BeforeEnd(u64),
    /// A UTC time of day, nanoseconds since midnight: the first such instant on the time line.
    TimeOfDay(u64),
}

/// A request to change what the scope shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    // Views.
    /// Shows a view.
    Show(View),
    /// Shows the next page (1) or the previous one (−1), in a circle.
    NextView(i8),

    // Transport: position and motion of the picture in time.
    /// Pauses the picture, or resumes it. Measuring never stops.
    TogglePause,
    /// Seeks to an instant of the time line (`CLOCK_MONOTONIC`, nanoseconds) and pauses there.
    Seek(u64),
    /// Seeks to a fraction of the time line (0 the beginning, 1 the end) and pauses there.
    SeekPart(f64),
    /// Seeks to this place, and moves the chosen cursor there if cursors are shown.
    SeekTo(SeekPlace),
    /// Seeks to the beginning of the time line.
    SeekStart,
    /// Seeks to the end (live: to now) and follows it.
    Follow,
    /// Seeks to the next (1) or the previous (−1) journey and pauses there.
    Step(i8),
    /// Plays at this speed, [`crate::transport::SLOWEST`] to [`crate::transport::FASTEST`], as a multiple of
    /// real time.
    SetSpeed(f64),
    /// The next faster speed of 1, 2, 5, 10 …
    Faster,
    /// The next slower one.
    Slower,

    // The time axis.
    /// A larger timebase.
    TimebaseCoarser,
    /// A smaller timebase.
    TimebaseFiner,
    /// The timebase nearest to this number of nanoseconds per division.
    SetTimebase(u64),
    /// Widens or narrows the picture around `at` (0 the left edge, 1 the right edge).
    Zoom {
        /// Notches of a wheel: each widens the picture to 1.25 of its width, or narrows it back if negative.
        notches: i32,
        /// Position of the pointer on the time axis.
        at: f64,
    },
    /// Shows exactly this stretch of time.
    ZoomTo {
        /// Left edge.
        from_ns: u64,
        /// Right edge.
        to_ns: u64,
    },
    /// Returns to the stretch shown before the last zoom or seek.
    ZoomBack,
    /// Shows all there is.
    Fit,
    /// Shows the selected journey, with a margin. Without one, or if it is not in memory, nothing changes.
    FitJourney,
    /// Shows the stretch between the cursors, else the selected journey; without both, or if it is shown already,
    /// all there is.
    FitSelection,
    /// Selects the busiest flow, and sets timebase and vertical scale by one second of data.
    Autoset,
    /// Moves the picture by a division, to later (1) or earlier (−1). Pauses it first.
    Pan(i8),
    /// Moves the picture by a part of its width, to later (positive) or earlier. Pauses it first.
    PanBy(f64),
    /// Shows the lanes of hops that are off or not available, or folds them away.
    ToggleAllHops,
    /// Aligns lifelines by their time, or at the left edge.
    ToggleAlign,
    /// Sets the roll mode: always, never, or at slow timebases.
    SetRoll(Roll),

    // The vertical axis: of the chosen channel.
    /// Shows or hides a signal as a loadline.
    ToggleChannel(Channel),
    /// Chooses the next loadline (1) or the previous one (−1) for the vertical controls.
    NextChannel(i8),
    /// Changes the vertical scale: larger (1) or smaller (−1), in steps of 1, 2, 5.
    VerticalScale(i8),
    /// Moves the loadline up (1) or down (−1) by a division.
    VerticalOffset(i8),
    /// Selects scale and offset automatically.
    VerticalAuto,
    /// Switches between a logarithmic axis and a linear one.
    ToggleLog,

    // The trigger.
    /// Sets the condition from text: `hop(dev.recv,app.recv) > 2ms`, `srtt rises 5ms`, `drop`, `verdict =
    /// lost`. An error is shown.
    TriggerText(String),
    /// Sets the condition.
    SetTrigger(Option<Condition>),
    /// Auto, normal or single.
    TriggerMode(Mode),
    /// The next of these.
    NextTriggerMode,
    /// Sets the hold-off.
    SetHoldOff(HoldOff),
    /// Part of the captured window before the trigger, 0 to 100 per cent.
    PreTrigger(u8),
    /// Length of the captured window, nanoseconds.
    TriggerWindow(u64),
    /// Arms it again, after a single shot or to discard its previous state.
    Arm,
    /// Fires it now.
    Force,
    /// Shows the capture of the next (1) or the previous (−1) trigger.
    NextCapture(i8),
    /// Shows the capture with this [number](crate::trigger::Capture::number).
    ShowCapture(u64),

    // Cursors.
    /// Shows or hides both cursors. New cursors are at a quarter and three quarters of the picture.
    ToggleCursors,
    /// Chooses the cursor that moves.
    ChooseCursor(CursorId),
    /// Puts a cursor at an instant.
    PlaceCursor(CursorId, u64),
    /// Moves the chosen cursor by hundredths of the picture's width.
    MoveCursor(i16),
    /// Moves the chosen cursor to the next (1) or the previous (−1) event drawn.
    SnapCursor(i8),

    // Measurements, math, XY, persistence.
    /// Measures over the picture, or between the cursors.
    MeasureOver(MeasureSpan),
    /// Draws a computed channel; `None` removes it.
    SetMath(Option<Math>),
    /// The same as text: `srtt - rttvar`, `rate(retransmits)`, `ratio(cwnd, packets_out)`, `average(srtt, 16)`.
    MathText(String),
    /// Draws one signal against another; `None` removes it.
    SetXy(Option<(Channel, Channel)>),
    /// Overlays lifelines as a density.
    SetPersistence(Persistence),
    /// The next of off, 1 s, 10 s, endless.
    NextPersistence,

    // Selection.
    /// Selects the journeys that match a `--where` expression; an empty text selects all. An error is shown and
    /// nothing changes.
    Filter(String),
    /// Adds the flow or the service of the selected row to the filter: only this, or with `false` all but this.
    Narrow(bool),
    /// Adds a condition to the filter: only this, or all but this. See [`crate::condition`].
    NarrowTo {
        /// The condition, a `--where` expression.
        condition: String,
        /// False for all but this.
        only: bool,
    },
    /// Selects journeys, flows or hops by a pick.
    Pick(Pick),
    /// Shows the next route between nodes; after the last, all of them.
    NextRoute,
    /// Shows the next protocol; after the last, all of them.
    NextProto,
    /// Moves the selected lane up (−1) or down (1): to a hop, or to a forwarder.
    SelectLane(i8),
    /// Selects a lane.
    ChooseLane(Option<Place>),
    /// Opens a forwarder, of this number on the path from 1, for its hops, or folds it into one row.
    ToggleForwarder(u8),
    /// Moves the selected journey up (−1) or down (1) in the list.
    SelectJourney(i8),
    /// Selects the journey with this [`key`](crate::Lifeline::key), and shows it.
    ChooseJourney(u64),
    /// Selects the journey drawn nearest to an instant in a lane, as a click does.
    SelectAt {
        /// Instant on the time line.
        time_ns: u64,
        /// Maximum distance from that instant.
        within_ns: u64,
        /// Lane of the click; `None` for any lane.
        lane: Option<Place>,
    },
    /// Moves the selected row of a view's table up (negative) or down.
    SelectRow(i32),
    /// Acts on the selected row: filters by its flow, shows its journey or seeks to its event.
    TakeRow,
    /// Selects the row of this path in the view of the topology.
    ChoosePath(Vec<PathLeg>),
    /// Selects the exchange with this number, and shows its journey.
    ChooseRequest(u64),
    /// Shows the exchange of the selected journey; in the view of requests, the journey of the selected one.
    ShowExchange,
    /// Orders the table of flows.
    OrderFlows(FlowOrder),
    /// Groups the table of flows, or lists each flow.
    GroupFlows(GroupBy),
    /// Lists the flows of the group in this row of the table.
    OpenGroup(usize),
    /// Lists the slowest, the most recent or the lost journeys.
    ShowList(List),
    /// The next of these lists.
    NextList,
    /// Shows the journey, request, event or counts that the headline is concluded from; without any, as
    /// [`Action::ToggleInspector`].
    ShowEvidence,
    /// Opens or closes the ladder of the selected journey.
    ToggleInspector,

    // Other actions.
    /// Starts or stops a recording. The caller carries it out: see [`crate::Scope::wants_recording`].
    ToggleRecording,
    /// Discards journeys, statistics and totals.
    Clear,
    /// The next step of the tour; ends it after the last.
    NextTourStep,
    /// Shows or hides help.
    ToggleHelp,
    /// Closes the top panel; without one, clears the selection.
    Back,
    /// Ends the program.
    Quit,
}
