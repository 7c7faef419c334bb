//! Seals recordings as they are, after their files were edited on purpose: `cargo run -p magscope-session --example reseal -- DIR…`.
//!
//! Only `scripts/record-golden.sh` has a use for it.

fn main() -> Result<(), magscope_session::SessionError> {
    std::env::args_os().skip(1).try_for_each(|dir| magscope_session::reseal(std::path::Path::new(&dir)))
}
