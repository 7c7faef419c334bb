//! From the kernel to events.
//!
//! Three roles are kept apart: deciding (`facts` says what this host can do, `plan` which probe serves a hop; pure),
//! decoding (`record`, `decode`, `order`: bytes to events in order of time; pure), and driving libbpf (`capture`).

pub mod candidates;
pub mod capture;
pub mod cgroups;
pub mod change;
mod children;
pub mod clock;
pub mod control;
pub mod cost;
pub mod custom;
pub mod decode;
mod doorbell;
pub mod error;
pub mod facts;
pub mod filter;
pub mod gaps;
pub mod governor;
mod messages;
pub mod netns;
pub mod order;
mod pages;
pub mod pcap;
pub mod plan;
pub mod record;
pub mod setting;
mod symbols;
mod trial;
pub mod tsc;
pub mod utc;

pub use capture::{Capture, CaptureOptions, Counters, ProbeCount, SUMS};
pub use control::{Sampler, Watermark};
pub use error::ProbeError;
pub use facts::HostFacts;
pub use netns::NetnsTarget;
pub use plan::{Plan, default_hops, plan, plan_by};
pub use setting::{Detail, Setting};
