//! Any bytes as a binary MAGNeT trace: it is one or it is not, and its records lie within it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_export::format::magnet::Trace;

fuzz_target!(|data: &[u8]| {
    if let Ok(trace) = Trace::open(data) {
        let mut bytes = 0;
        for record in trace.records() {
            bytes += record.extra.len() + 16;
        }
        assert!(bytes <= data.len());
    }
});
