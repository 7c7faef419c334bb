//! A condition on journeys, as a person types it: whatever the text, an answer, and what is understood reads back as
//! the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_core::Filter;

fuzz_target!(|text: &str| {
    match Filter::parse(text) {
        Ok(filter) => {
            let printed = filter.to_string();
            // Units and quotes can make it longer than what may be typed.
            if printed.chars().count() <= magscope_core::filter::MAX_CHARS {
                assert_eq!(Filter::parse(&printed), Ok(filter), "{printed}");
            }
        }
        Err(error) => {
            assert!(error.position >= 1 && error.position <= text.chars().count() + 1, "{error}");
            assert!(error.to_string().len() < 1_000, "an error is one line");
        }
    }
});
