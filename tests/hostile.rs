//! Attacks on an agent and a relay with real traffic: certificates without a permission, damaged lists of revoked ones, rows of others.

mod certificates;
mod revocation;
mod rows;
mod target;
