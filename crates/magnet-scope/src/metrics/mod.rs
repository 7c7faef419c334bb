//! Serves what a sensor counts: feed, `/metrics` by HTTP, pushes to a collector, and Supermon's lines.
//!
//! Counting and formats are in the crate `sensor`, which knows neither files nor sockets. Here is the part with
//! sockets, `/proc` and threads. It stays in the binary because it reads captures and agents through the
//! binary's sources, and only the subcommands `metrics`, `mon`, `supermon` and `health` use it.

mod answering;
mod bind;
mod feed;
mod host;
mod http;
mod lines;
mod nodes;
mod otlp;
mod own;
mod proc;
mod softirq;
mod upstream;

pub use answering::Answering;
pub use bind::bind;
pub use feed::{agents, local};
pub use host::AllowedHosts;
pub use http::answer_http;
pub use lines::answer_lines;
pub use nodes::{LocalHost, Nodes};
pub use otlp::{Collector, Pushing};
pub use own::own;
pub use softirq::Softirqs;
pub use upstream::Upstream;
