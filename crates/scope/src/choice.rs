//! What the filter of a screen chooses: journeys, requests, or both, by one line of text.
//!
//! The languages of both filters have most words in common, so a line that is right in both chooses in both. A line
//! with a word of requests alone (`request > 20ms`) leaves journeys as they are, and one with a word of journeys alone
//! (`lost`) leaves requests.

use magscope_core::Filter;
use magscope_core::exchange::ExchangeFilter;
use magscope_core::filter::FilterError;
use std::fmt;

/// A filter of the screens; at least one of its parts is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Only journeys that match this.
    pub journeys: Option<Filter>,
    /// Only requests that match this.
    pub requests: Option<ExchangeFilter>,
}

impl Choice {
    /// Reads a line.
    ///
    /// # Errors
    /// It is right in neither language. The error is that of the language that understood more of it.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        match (Filter::parse(text), ExchangeFilter::parse(text)) {
            (Err(of_journeys), Err(of_requests)) if of_requests.position > of_journeys.position => {
                Err(of_requests)
            }
            (Err(of_journeys), Err(_)) => Err(of_journeys),
            (journeys, requests) => Ok(Choice { journeys: journeys.ok(), requests: requests.ok() }),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.journeys, &self.requests) {
            (Some(journeys), _) => journeys.fmt(f),
            (None, Some(requests)) => requests.fmt(f),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_chooses_wherever_it_is_right() {
        for (text, journeys, requests) in [
            ("port = 443", true, true),
            ("tcp port 443 and proc nginx", true, true),
            ("request > 20ms", false, true),
            ("answer > 20ms and not port = 443", false, true),
            ("lost", true, false),
            ("hop(dev.queue,dev.xmit) > 1ms and bytes > 4kB", true, false),
        ] {
            let choice = Choice::parse(text).expect(text);
            assert_eq!((choice.journeys.is_some(), choice.requests.is_some()), (journeys, requests), "{text}");
            assert_eq!(Choice::parse(&choice.to_string()).as_ref(), Ok(&choice), "{text}");
        }
    }

    #[test]
    fn an_error_is_that_of_the_language_that_read_further() {
        let position = |text| Choice::parse(text).expect_err(text).position;
        assert_eq!(position("request > 20ms and lost"), 20);
        assert_eq!(position("lost and request > 20ms"), 10);
        assert_eq!(position("nonsense"), 1);
        assert_eq!(position("port ="), 7);
    }
}
