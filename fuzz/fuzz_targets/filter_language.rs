//! A condition on journeys, or on exchanges, as a person types it: whatever the text, an answer, and what is
//! understood reads back as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use magscope_core::Filter;
use magscope_core::exchange::ExchangeFilter;
use magscope_core::filter::{FilterError, MAX_CHARS};
use std::fmt::{Debug, Display};

fuzz_target!(|text: &str| {
    check(text, Filter::parse);
    check(text, ExchangeFilter::parse);
});

fn check<F: Debug + Display + PartialEq>(text: &str, parse: impl Fn(&str) -> Result<F, FilterError>) {
    match parse(text) {
        Ok(filter) => {
            let printed = filter.to_string();
            // Units and quotes can make it longer than what may be typed.
            if printed.chars().count() <= MAX_CHARS {
                assert_eq!(parse(&printed), Ok(filter), "{printed}");
            }
        }
        Err(error) => {
            assert!(error.position >= 1 && error.position <= text.chars().count() + 1, "{error}");
            assert!(error.to_string().len() < 1_000, "an error is one line");
        }
    }
}
