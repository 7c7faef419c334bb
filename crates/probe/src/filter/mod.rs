//! From a filter as a person writes it to the tests that the kernel side walks.
//!
//! Names are looked up here ([`names`]), because the kernel knows numbers alone; the result ([`Program`]) is plain data.

pub mod names;
mod need;
mod program;

pub use names::{Names, NotFound};
pub use program::Program;

use crate::record::MAG_TESTS;
use magscope_core::capture_filter::Field;

/// Why a filter cannot be put into the kernel.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// More comparisons than the kernel side walks.
    #[error("the filter comes to {0} comparisons, the kernel side makes at most {MAG_TESTS}")]
    TooLong(usize),
    /// A name that is not on this host.
    #[error("{field} `{name}`: {because}")]
    Name {
        /// What was asked for.
        field: Field,
        /// Its name.
        name: String,
        /// Why it was not found.
        because: NotFound,
    },
}
