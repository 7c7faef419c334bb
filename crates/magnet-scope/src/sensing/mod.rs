//! A capture or agents as a sensor for other programs: feed, newest snapshot, and servers.

mod answering;
mod feed;
mod host;
mod http;
mod latest;
mod lines;
mod nodes;
mod otlp;
mod place;
mod proc;
mod softirq;
mod upstream;

pub use answering::Answering;
pub use feed::{agents, local};
pub use host::AllowedHosts;
pub use http::answer_http;
pub use latest::{LatestSnapshot, own};
pub use lines::answer_lines;
pub use nodes::{LocalHost, Nodes};
pub use otlp::{Collector, Pushing};
pub use place::bind;
pub use softirq::Softirqs;
pub use upstream::Upstream;
