//! Attacks on an agent and a relay with real traffic: certificates without a permission, damaged revocation
//! lists, foreign rows.

mod certificates;
mod revocation;
mod rows;
mod target;
