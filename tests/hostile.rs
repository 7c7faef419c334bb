//! Attacks on an agent and a relay with real traffic: certificates without a permission, damaged lists of revoked ones, rows of others.

#[path = "common/agents.rs"]
mod agents;
#[path = "hostile/certificates.rs"]
mod certificates;
mod common;
#[path = "hostile/revocation.rs"]
mod revocation;
#[path = "hostile/rows.rs"]
mod rows;
#[path = "hostile/target.rs"]
mod target;
#[path = "common/hosts.rs"]
mod wired;
