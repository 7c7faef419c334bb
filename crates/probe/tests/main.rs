//! All tests of this crate that use only its public interface: one program, linked once.

mod backends;
mod common;
mod control;
mod custom;
mod datagrams;
mod delivery;
mod disturbed;
mod driver;
mod exact;
mod filters;
mod groups;
mod journeys;
mod left_out;
mod payload;
mod pcap;
mod readers;
mod refused;
mod retransmissions;
mod shared_links;
mod switches;
mod synthesis;
mod tcp_state;
mod traffic;
mod tsc;
mod utc;
mod wire;
