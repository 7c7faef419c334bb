//! All tests of this crate that use only its public interface: one program, linked once.

mod blame;
mod capture_filter;
mod common;
mod dropped_by;
mod filter;
mod forwarders;
mod freed;
mod groups;
mod head_of_line;
mod hops;
mod lossy_journeys;
mod model;
mod model_exchanges;
mod model_stack;
mod namesakes;
mod new_flows;
mod properties;
mod receive_window;
mod retransmissions;
mod tcp_journeys;
mod tcp_readers;
mod tcp_scenarios;
mod tunnels;
mod udp_journeys;
mod udp_order;
mod udp_queue;
