//! What programs say to an agent: whatever is read as a request is written as one line that reads the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_client::wire::{Reply, Request};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = serde_json::from_slice::<Request>(bytes) {
        let written = serde_json::to_vec(&request).expect("it has no keys but names");
        assert!(!written.contains(&b'\n'));
        // Compared as text: a number that is none is not equal to itself.
        let again: Request = serde_json::from_slice(&written).expect("what was written is read");
        assert_eq!(format!("{again:?}"), format!("{request:?}"));
    }
    // And the other way: a program reads what an agent says.
    let _ = serde_json::from_slice::<Reply>(bytes);
});
