//! The model of magnet-scope, independent of kernel, files and screens.
//!
//! Everything here is pure: the input is a table of events, the output journeys and statistics. So a viewer
//! builds on a laptop, and every rule can be tested without root.
//!
//! # Modules
//!
//! - `hop`, `event`, `flow`, `batch`, `node`, `clock`: the data types. `source`: the trait at the head of every
//!   stream of batches; `generator` implements it for tests.
//! - `journey/`: correlates events of one clock into journeys. `exchange/`: requests and responses, from the order of
//!   sends and reads.
//! - `change`: changes of a running capture. `changes`: their repetition for readers that begin later.
//! - `blame`: the part that causes a step's time.
//! - `filter/`: choice of journeys. `capture_filter/`: choice of events, also in the kernel. `condition/`:
//!   conditions of triggers.
//! - `drop_reason`: clean-up and drops. `deciders`: the programs and rules that may have dropped a packet.
//! - `custom`: custom probes and their hits. `head`: first bytes of payload. `annotations`: buffers both until their
//!   journeys have ended.
//! - `workload/`: containers, pods, machines and units, by the cgroup of a process.
//! - `stored_context`: names from batches. `netns_resolver`: the namespace of events without a flow. `histogram`: bounds of the kernel's histograms.
//!
//! Several hosts on one time line are the crate `magscope-timeline`; sums, percentiles and reports are
//! `magscope-report`.

pub mod annotations;
pub mod batch;
pub mod blame;
pub mod capture_filter;
pub mod change;
pub mod changes;
pub mod clock;
pub mod condition;
pub mod context;
pub mod custom;
pub mod deciders;
pub mod drop_reason;
pub mod event;
pub mod exchange;
pub mod filter;
pub mod flow;
pub mod foreign;
pub mod generator;
pub mod governed;
pub mod hash;
pub mod head;
pub mod histogram;
pub mod hop;
pub mod journey;
pub mod netns_resolver;
pub mod node;
pub mod omissions;
pub mod outcomes;
pub mod sampled;
pub mod size;
pub mod source;
pub mod stored_context;
pub mod synthesis;
pub mod words;
pub mod workload;

pub use batch::{Batch, Loss, LossCause};
pub use blame::{Blame, Part};
pub use capture_filter::CaptureFilter;
pub use change::{Change, HopCount};
pub use custom::{CustomProbe, ProbeHit};
pub use drop_reason::CleanUp;
pub use event::{ConnectionState, Detail, DetailKind, Event, EventFlags, Extent, ExtentKind};
pub use filter::Filter;
pub use flow::{Endpoint, Flow, FlowId, Proto, Task, TcpSample};
pub use generator::{Generator, GeneratorOptions};
pub use head::PayloadHead;
pub use hop::{Direction, Hop, HopSet, Layer};
pub use journey::{Correlator, Journey, Limits, Verdict};
pub use omissions::{DropRecords, Omissions};
pub use outcomes::{Counts, Outcomes};
pub use synthesis::Synthesis;
pub use workload::Container;
