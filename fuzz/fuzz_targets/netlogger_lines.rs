//! Any text as a ULM or BP log: neither the lines nor what is made of them panics or grows without bound, and batches are in order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_core::Hop;
use magscope_export::format::netlogger::{Events, parse};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut events = Events::new([("start".to_owned(), Hop::AppSend)]);
    for line in text.lines() {
        if let Ok(line) = parse(line) {
            assert!(line.fields().count() <= 256);
            events.line(&line);
        }
    }
    let batch = events.take(true);
    assert!(batch.events.is_sorted_by_key(|event| event.time_ns));
    assert!(batch.losses.is_sorted_by_key(|loss| loss.to_ns));
    let _ = events.info("fuzz");
});
