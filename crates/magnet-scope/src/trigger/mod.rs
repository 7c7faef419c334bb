//! The trigger outside of the screen: its options, pre-trigger memory, and sources without a screen.

mod args;
mod recorder;
mod watched;

pub use args::TriggerArgs;
pub use recorder::TriggerRecorder;
pub use watched::Watch;
