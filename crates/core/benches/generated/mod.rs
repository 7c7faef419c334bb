//! Traffic of the generator, for several benchmarks.

use magscope_core::source::{Progress, Source};
use magscope_core::{Batch, Generator, GeneratorOptions};
use std::time::Duration;

/// All batches of a generator.
pub fn traffic(options: GeneratorOptions) -> Vec<Batch> {
    let mut generator = Generator::new(options);
    let mut batches = Vec::new();
    loop {
        let mut batch = Batch::default();
        let progress = generator.next(&mut batch, Duration::ZERO);
        batches.push(batch);
        if !matches!(progress, Ok(Progress::More)) {
            return batches;
        }
    }
}
