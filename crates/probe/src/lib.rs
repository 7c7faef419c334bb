//! From the kernel to events.
//!
//! Three roles are separate. Decision: `facts` describes this host, `plan` chooses a probe for each hop (pure).
//! Decoding: `record`, `decode` and `order` turn bytes into events in time order (pure). `capture` drives
//! libbpf.
//!
//! # Modules
//!
//! - `facts`: features of this host; `trial` tries some of them. `candidates`: the backends of each hop.
//!   `plan`: the choice (pure). `code`: functions of the compiled programs, and the stack that they take (pure).
//! - `embedded`: the compiled objects. `capture`: libbpf, attachment and the drain. `ring`: reads the rings that the
//!   programs share with user space (pure). `decode`, `order`, `gaps`: bytes to ordered events (pure).
//! - `governor/`: limits the cost of a capture; `steps` chooses the level (pure), `scale` measures the cost of
//!   hits.
//! - `custom/`: resolves the expressions of a custom probe into the plan of a program (`bpf/record.h`,
//!   `mag_plan`).
//! - `deciders`: programs and rules that may drop packets. `unfollowed`: sockets of other kinds than those followed.
//!   `netns`: finds namespaces. `cost`: measures the cost of a hit. `utc/`: sources for the error of UTC.
//!   `workload/`: names of containers, pods, machines and units. `interfaces`: names of network interfaces.
//!   `time_namespace`: its offsets. `generation`: continuations of a virtual machine.

mod addresses;
pub mod candidates;
pub mod capture;
pub mod cgroups;
pub mod change;
mod children;
pub mod clock;
pub mod code;
pub mod control;
pub mod cost;
pub mod custom;
mod deciders;
pub mod decode;
mod doorbell;
mod embedded;
pub mod error;
pub mod facts;
pub mod filter;
pub mod gaps;
pub mod generation;
pub mod governor;
mod interfaces;
mod messages;
pub mod netlink;
pub mod netns;
mod notified;
pub mod order;
mod pages;
pub mod pcap;
pub mod plan;
pub mod record;
mod restarts;
pub mod ring;
pub mod setting;
mod symbols;
pub mod time_namespace;
mod trial;
pub mod tsc;
mod unfollowed;
pub mod utc;
pub mod workload;

pub use capture::{Capture, CaptureOptions, Counters, ProbeCount, RingKind, SUMS, tried};
pub use control::{Sampler, Watermark};
pub use error::ProbeError;
pub use facts::HostFacts;
pub use netns::NetnsTarget;
pub use plan::{Plan, default_hops, plan, plan_by};
pub use setting::{Detail, Setting};
