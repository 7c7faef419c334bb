//! The trigger outside of the screen: its options, pre-trigger memory, and sources without a screen.

mod args;
mod keeper;
mod watched;

pub use args::TriggerArgs;
pub use keeper::Keeper;
pub use watched::Watch;
