//! Seals recordings in their current state, after a deliberate edit: `cargo run -p magscope-session --example
//! reseal -- DIR…`.
//!
//! Only `scripts/record-golden.sh` uses this program.

fn main() -> Result<(), magscope_session::SessionError> {
    std::env::args_os().skip(1).try_for_each(|dir| magscope_session::reseal(std::path::Path::new(&dir)))
}
