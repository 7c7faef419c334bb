//! Persistence: how long what was drawn stays.

/// How long what was drawn stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// It does not.
    #[default]
    Off,
    /// It fades to 1/e in so many nanoseconds of event time.
    Fade(u64),
    /// For ever.
    Endless,
}
