//! The trigger outside of the screen: its arguments, the memory that holds what was before it, and sources that are watched
//! without a screen.

mod args;
mod keeper;
mod watched;

pub use args::TriggerArgs;
pub use keeper::Keeper;
pub use watched::Watch;
