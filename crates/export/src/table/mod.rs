//! The flat tables. `docs/formats.md` describes each column.

mod column;
mod definition;
mod pairs;
mod periods;
mod plain;
mod rows;

pub use column::{ID, id};
pub use definition::Table;
pub use pairs::Pairs;
pub use periods::Periods;
pub use plain::plain;
pub use rows::{Chosen, Out, Rows};
