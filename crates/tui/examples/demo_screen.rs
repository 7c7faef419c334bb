//! A demo of the screen without a kernel: generated traffic of a client and a server.
//!
//! `cargo run -p magscope-tui --example demo_screen`

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use magscope_core::source::{Progress, SourceError};
use magscope_scope::{Options, Overhead, Scope};
use magscope_tui::{Pump, run};
use std::time::{Duration, Instant};

/// Generates events in real time.
struct MadeUp {
    world: made_up::World,
    began: Instant,
}

impl Pump for MadeUp {
    fn pump(&mut self, scope: &mut Scope, timeout: Duration) -> Result<Progress, SourceError> {
        std::thread::sleep(timeout);
        let until = self.began.elapsed();
        self.world.run_until(u64::try_from(until.as_nanos())?, scope);
        scope.set_overhead(Overhead {
            reader_cpu_ratio: 0.007,
            kernel_ns_per_hit: Some(171.0),
            kernel_cpu_ratio_estimate: Some(0.012),
            hits: self.world.hits(),
            ring_fill_ratio: 0.03,
            budget: None,
        });
        Ok(Progress::More)
    }

    fn save(&mut self, ending: &str, contents: &str) -> Result<String, String> {
        let path = std::env::temp_dir().join(format!("demo_screen-{}.{ending}", std::process::id()));
        std::fs::write(&path, contents).map_err(|error| error.to_string())?;
        Ok(path.display().to_string())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = made_up::World::new(400.0);
    let mut scope = Scope::new(made_up::info(), Options::default());
    let exit = run(&mut MadeUp { world, began: Instant::now() }, &mut scope, magscope_tui::Options::default())?;
    eprintln!("{exit:?}");
    Ok(())
}
