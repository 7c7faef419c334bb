//! All tests of this crate that use only its public interface: one program, linked once.

mod dashboard;
#[path = "../../core/tests/common/heap.rs"]
mod heap;
#[path = "../../core/tests/common/new_flows.rs"]
#[allow(dead_code)] // the tests of core use the rest
mod made_up_flows;
mod new_flows;
mod openmetrics;
