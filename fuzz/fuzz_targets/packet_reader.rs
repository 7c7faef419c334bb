//! What an agent sends, or says it is one: any bytes are a packet or refused, within a bounded amount of memory.
#![no_main]

use arrow::buffer::Buffer;
use libfuzzer_sys::fuzz_target;
use magscope_core::Batch;
use magscope_session::unpack;

fuzz_target!(|data: &[u8]| {
    // As in a whole message: four bytes, the length of the metadata, the metadata, the body.
    let Some(length) = data.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes) else { return };
    let end = (length as usize).saturating_add(8).clamp(8, data.len());
    let mut batch = Batch::default();
    if unpack(&data[8..end], &Buffer::from(&data[end..]), &mut batch).is_err() {
        assert!(batch.is_empty());
    }
});
