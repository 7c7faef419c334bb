//! What other programs and devices give about this host's clocks: a bound or a marker worth the name, or a refusal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_probe::generation::{is_new_generation, marker};
use magscope_probe::time_namespace;
use magscope_probe::utc::{chrony, clockbound, ptp};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(bound) = chrony::parse(&text, 0) {
        assert!(bound.error_ns > 0);
    }
    if let Ok(bound) = clockbound::parse(bytes) {
        let _no_panic = bound.error_at(u64::MAX);
    }
    if let Ok(claim) = ptp::parse(&text) {
        assert!(claim.error_ns > 0);
    }
    if let Ok(marker) = marker(bytes) {
        assert!(bytes.len() >= 32, "{marker:?}");
    }
    if is_new_generation(bytes) {
        assert!(bytes.contains(&0));
    }
    let _no_panic = time_namespace::parse(&text);
});
