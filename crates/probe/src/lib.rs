//! From the kernel to events.
//!
//! Three roles are kept apart: deciding (`facts` says what this host can do, `plan` which probe serves a hop; pure),
//! decoding (`record`, `decode`, `order`: bytes to events in order of time; pure), and driving libbpf (`capture`).
//!
//! # Modules
//!
//! - `facts`: what this host can do; `trial` tries some of it. `candidates`: the backends of each hop. `plan`: the choice (pure).
//! - `capture`: libbpf, attachment and the drain. `decode`, `order`, `gaps`: bytes to ordered events (pure).
//! - `governor/`: keeps a capture to its budget; `steps` chooses (pure), `scale` weighs the cost of hits.
//! - `custom/`: resolves what a custom probe reads, and writes it into the plan of a program (`bpf/record.h`, `mag_plan`).
//! - `netns`: finds namespaces. `cost`: measures what a hit costs. `utc/`: what vouches for UTC.

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

pub use capture::{Capture, CaptureOptions, Counters, ProbeCount, SUMS, tried};
pub use control::{Sampler, Watermark};
pub use error::ProbeError;
pub use facts::HostFacts;
pub use netns::NetnsTarget;
pub use plan::{Plan, default_hops, plan, plan_by};
pub use setting::{Detail, Setting};
