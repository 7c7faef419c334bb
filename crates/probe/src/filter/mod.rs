//! Compiles a user's filter into tests for the kernel side.
//!
//! Names are resolved here ([`names`]), because the kernel compares only numbers; the result ([`Program`]) is
//! plain data.

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
    /// More comparisons than the kernel side supports.
    #[error("the filter comes to {0} comparisons, the kernel side makes at most {MAG_TESTS}")]
    TooLong(usize),
    /// A name that is not on this host.
    #[error("{field} `{name}`: {because}")]
    Name {
        /// Field of the comparison.
        field: Field,
        /// The name.
        name: String,
        /// The reason.
        because: NotFound,
    },
}
