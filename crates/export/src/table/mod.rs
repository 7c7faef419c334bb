//! The flat tables: rows as every engine reads them. `docs/formats.md` says what each column means.

mod column;
mod definition;
mod pairs;
mod periods;
mod rows;

pub use column::{ID, id};
pub use definition::Table;
pub use pairs::Pairs;
pub use periods::Periods;
pub use rows::{Chosen, Out, Rows};
