//! All tests of this crate that use only its public interface: one program, linked once.

mod clock_faults;
mod clock_graph;
mod clock_hints;
mod clock_model;
mod clock_node;
mod clock_pair;
mod clock_peers;
mod clock_properties;
mod clock_world;
#[path = "../../core/tests/common/mod.rs"]
mod common;
mod join;
mod merged_reader;
#[path = "../../core/tests/model/mod.rs"]
mod model;
mod numbered;
mod one_way;
mod recording;
mod unnumbered;
mod utc_refuted;
