//! Lines of a mon's client and of a mon: whatever is read is written as it was, and reads the same again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_sensor::supermon::{Command, Mask, descriptors, parse, sample, make_names_unique};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(Command::Mask(mask)) = Command::parse(&text) {
        assert_eq!(Command::parse(&mask.command()), Ok(Command::Mask(mask)));
    }
    let Ok(mut nodes) = parse(&text) else { return };
    let written = sample(&nodes);
    assert!(!written.contains('\n') && !descriptors(&nodes).contains('\n'));
    let again = parse(&written).expect("what was written is read");
    assert_eq!(sample(&again), written);
    assert!(nodes.iter().all(|node| Mask::default().apply(node) == *node));
    make_names_unique(&mut nodes);
    let names: std::collections::BTreeSet<_> = nodes.iter().map(|node| &node.name).collect();
    assert_eq!(names.len(), nodes.len());
});
