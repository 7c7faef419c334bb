//! A capture, or agents, as a sensor that other programs read: what feeds it, where its newest snapshot is, and where it is asked.

mod board;
mod feed;
mod http;
mod lines;
mod nodes;
mod place;
mod proc;
mod softirq;
mod upstream;

pub use board::{Board, own};
pub use feed::{agents, local};
pub use http::Server;
pub use lines::LineServer;
pub use nodes::{Nodes, Own};
pub use place::bind;
pub use softirq::Softirqs;
pub use upstream::Upstream;
