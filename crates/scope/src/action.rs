//! What a user can ask of a scope. A screen turns keys and clicks into these and nothing else.

/// A request to change what the scope shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Stops the picture, or lets it go on. Measuring never stops.
    TogglePause,
    /// More time a division.
    TimebaseCoarser,
    /// Less time a division.
    TimebaseFiner,
    /// Lets the scope choose the timebase again, by the slowest journey it shows.
    Autoset,
    /// Draws lifelines at their time, or all from the left edge.
    ToggleAlign,
    /// Moves the picture by a division, to later (1) or earlier (−1). Stops it first.
    Pan(i8),
    /// Moves the selected hop up (−1) or down (1).
    SelectHop(i8),
    /// Moves the selected journey up (−1) or down (1) in the list.
    SelectJourney(i8),
    /// Opens or closes the ladder of the selected journey.
    ToggleInspector,
    /// Lists the slowest, the most recent or the lost journeys.
    NextList,
    /// Shows the next route between nodes; after the last, all of them.
    NextRoute,
    /// Shows the next protocol; after the last, all of them.
    NextProto,
    /// Forgets journeys, statistics and totals.
    Clear,
    /// Shows or hides help.
    ToggleHelp,
    /// Closes what lies on top; with nothing there, undoes the selection.
    Back,
    /// Ends the program.
    Quit,
}
