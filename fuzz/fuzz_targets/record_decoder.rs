//! Any bytes as records of a ring: the decoder neither panics nor reads beyond them, and the account of gaps and the order
//! of events stay what they promise.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_probe::decode::{Record, decode, decode_event};
use magscope_probe::gaps::Gaps;
use magscope_probe::order::Sorter;

fuzz_target!(|data: &[u8]| {
    let (mut sorter, mut gaps) = (Sorter::default(), Gaps::default());
    let mut events = 0;
    // the first byte of each stretch is its length, as the ring gives records their sizes
    let mut rest = data;
    while let [length, tail @ ..] = rest {
        let (bytes, after) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = after;
        let record = decode(bytes);
        assert_eq!(decode_event(bytes).is_some(), matches!(record, Ok(Record::Event(_))));
        match record {
            Ok(Record::Event(event)) => {
                gaps.seen(event.record);
                sorter.push(event);
                events += 1;
            }
            Ok(Record::Loss(loss)) => {
                assert!(loss.from_ns <= loss.to_ns);
                gaps.explained(loss.count);
            }
            Ok(Record::Task(task)) => assert!(!task.comm.chars().any(char::is_control)),
            Ok(Record::Tcp { number, .. }) => gaps.seen(number),
            Ok(Record::Hit(hit)) => gaps.seen(hit.record),
            Ok(Record::Head(head)) => gaps.seen(head.record),
            Ok(Record::Flow(_)) | Err(_) => {}
        }
    }
    let mut out = Vec::new();
    sorter.take(u64::MAX, &mut out);
    assert!(out.is_sorted_by_key(|e| e.time_ns));
    assert!(out.len() <= events);
    gaps.unexplained();
    gaps.unexplained();
});
