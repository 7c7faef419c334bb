//! Measurements: over which stretch of time.

/// Over which stretch of time it is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// What the picture shows.
    #[default]
    View,
    /// Between the cursors; the picture where there are none.
    Cursors,
}
