//! Chooses compression while the queue fills up.
//!
//! The faster choice depends on the disk, so both costs are measured, and a writer that is behind takes the
//! faster. (LZ4 is no faster than zstd at level 1 on these columns, only larger.)

use crate::frame::Codec;
use std::time::Duration;

/// Measured costs, nanoseconds, smoothed over some batches.
pub(super) struct Pace {
    zstd: EncodeCost,
    plain: EncodeCost,
    write_ns_per_byte: f64,
}

struct EncodeCost {
    encode_ns_per_row: f64,
    bytes_per_row: f64,
}

impl Pace {
    /// Initial values of a current machine and disk.
    pub(super) fn new() -> Self {
        Pace {
            zstd: EncodeCost { encode_ns_per_row: 120.0, bytes_per_row: 15.0 },
            plain: EncodeCost { encode_ns_per_row: 25.0, bytes_per_row: 68.0 },
            write_ns_per_byte: 0.5,
        }
    }

    /// The encoding of the next batch.
    pub(super) fn codec(&self, behind: bool) -> Codec {
        let cost = |costs: &EncodeCost| costs.encode_ns_per_row + costs.bytes_per_row * self.write_ns_per_byte;
        if behind && cost(&self.plain) < cost(&self.zstd) { Codec::Plain } else { Codec::Zstd }
    }

    pub(super) fn encoded(&mut self, codec: Codec, rows: usize, bytes: u64, took: Duration) {
        let costs = match codec {
            Codec::Zstd => &mut self.zstd,
            Codec::Plain => &mut self.plain,
        };
        // Small batches would only show fixed costs.
        if rows >= 1_000 {
            smooth(&mut costs.encode_ns_per_row, took.as_nanos() as f64 / rows as f64);
            smooth(&mut costs.bytes_per_row, bytes as f64 / rows as f64);
        }
    }

    pub(super) fn written(&mut self, bytes: u64, took: Duration) {
        if bytes >= 10_000 {
            smooth(&mut self.write_ns_per_byte, took.as_nanos() as f64 / bytes as f64);
        }
    }
}

fn smooth(value: &mut f64, sample: f64) {
    *value += (sample - *value) / 4.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_writer_that_is_behind_on_a_fast_disk_stops_compressing() {
        let mut pace = Pace::new();
        assert_eq!(pace.codec(false), Codec::Zstd);
        assert_eq!(pace.codec(true), Codec::Plain);
        for _ in 0..20 {
            pace.written(1_000_000, Duration::from_millis(20)); // 50 MB/s
        }
        assert_eq!(pace.codec(true), Codec::Zstd);
    }
}
