//! The model of magnet-scope, free of kernel, files and screens.
//!
//! Everything here is pure: a table of events goes in, journeys and statistics come out. That is what lets a
//! viewer build on a laptop and lets every rule be tested without root.

pub mod align;
pub mod batch;
pub mod beside;
pub mod blame;
pub mod capture_filter;
pub mod change;
pub mod clock;
pub mod compare;
pub mod condition;
pub mod context;
pub mod custom;
pub mod event;
pub mod filter;
pub mod flow;
pub mod generator;
pub mod governed;
pub mod hash;
pub mod head;
pub mod hop;
pub mod join;
pub mod journey;
pub mod node;
pub mod places;
pub mod report;
pub mod sampled;
pub mod size;
pub mod source;
pub mod stats;
pub mod steps;
pub mod switches;
pub mod synthesis;
pub mod together;
pub mod words;

pub use batch::{Batch, Loss, LossCause};
pub use blame::{Blame, Part};
pub use capture_filter::CaptureFilter;
pub use change::{Change, HopCount};
pub use custom::{CustomProbe, ProbeHit};
pub use event::{Event, EventFlags};
pub use filter::Filter;
pub use flow::{Endpoint, Flow, FlowId, Proto, Task, TcpSample};
pub use generator::{Generator, GeneratorOptions};
pub use head::PayloadHead;
pub use hop::{Direction, Hop, HopSet, Layer};
pub use journey::{Correlator, Journey, Limits, Verdict};
pub use report::{Report, ReportBuilder};
pub use synthesis::Synthesis;
