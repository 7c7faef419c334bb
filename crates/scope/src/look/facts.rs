//! The line of counts at the bottom: the same words and numbers in the terminal and the window, including zeros.
//!
//! What each word counts is defined in [`magscope_core::outcomes`].

use crate::format::{SUMMED, amount, count, percent};
use crate::frame::Footer;
use std::fmt::Write as _;

/// How a count is drawn. Loss by the network and loss by the instrument have different colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As text.
    Plain,
    /// As secondary text.
    Dim,
    /// Highlighted: an unusual state that is no loss.
    Accent,
    /// The network lost or dropped something.
    NetworkLoss,
    /// The instrument missed events.
    MissedEvents,
}

/// A count in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The words.
    pub text: String,
    /// Their colour.
    pub tone: Tone,
}

impl Fact {
    fn new(text: String, tone: Tone) -> Self {
        Fact { text, tone }
    }

    /// The words without their second part, for little room.
    pub fn short(&self) -> &str {
        self.text.split(" + ").next().unwrap_or_default()
    }
}

/// The counts, in order of importance.
pub fn facts(footer: &Footer<'_>) -> Vec<Fact> {
    let (totals, counts) = (&footer.totals, &footer.counts);
    let some = |n: u64, tone: Tone| if n > 0 { tone } else { Tone::Plain };
    let mut facts: Vec<_> =
        footer.governed.iter().map(|words| Fact::new(format!("BUDGET: {words}"), Tone::Accent)).collect();
    if footer.sums {
        facts.push(Fact::new(format!("{SUMMED} the kernel adds up: no events"), Tone::Accent));
    } else if footer.shows_sums {
        facts.push(Fact::new(format!("{SUMMED} added up by the kernel"), Tone::Accent));
    }
    if footer.is_of_all {
        facts.push(Fact::new("all traffic:".to_owned(), Tone::Dim));
    }
    let mut missed = format!("events missed {}", count(counts.missed_events));
    if let Some(cause) = totals.main_cause() {
        _ = write!(missed, " ({cause})"); // writing into a String cannot fail
    }
    facts.push(Fact::new(missed, some(counts.missed_events, Tone::MissedEvents)));
    // Coloured only if a journey ended in a drop: kernels also drop useless packets.
    let ended = some(totals.outcomes.dropped_journeys(), Tone::NetworkLoss);
    let summed = if footer.sums { SUMMED.to_string() } else { String::new() };
    facts.push(Fact::new(format!("dropped {summed}{}", count(counts.dropped)), ended));
    // Where the kernel adds up, no journey shows these.
    let has_journeys = counts.journeys > 0 || !footer.sums;
    let of_journeys = |n: u64| if has_journeys { count(n) } else { "·".to_owned() };
    facts.push(Fact::new(format!("lost {}", of_journeys(counts.lost)), some(counts.lost, Tone::NetworkLoss)));
    facts.push(Fact::new(format!("resent {}", of_journeys(counts.resent)), Tone::Plain));
    if counts.broken > 0 {
        facts.push(Fact::new(format!("broken {}", count(counts.broken)), Tone::MissedEvents));
    }
    facts.push(own_cost(footer));
    let per_s =
        footer.journeys_per_s.map_or_else(|| "·".to_owned(), |n| amount(n.round() as u64).trim().to_owned());
    let per_s = if footer.journeys_estimated { format!("≈{per_s}") } else { per_s };
    facts.push(Fact::new(format!("{per_s:>6} journeys/s"), Tone::Plain));
    if totals.summed_retransmits > 0 || footer.sums {
        let sums = count(totals.summed_retransmits);
        facts.push(Fact::new(format!("retransmits {SUMMED}{sums}"), Tone::Plain));
    }
    if totals.late > 0 {
        facts.push(Fact::new(format!("late {}", count(totals.late)), Tone::Plain));
    }
    if footer.sums && counts.journeys == 0 {
        return facts; // without journeys nothing else applies
    }
    facts.push(Fact::new(format!("in flight {}", count(counts.in_flight)), Tone::Dim));
    let seen = format!("measured {} of {}", count(totals.outcomes.whole()), count(counts.journeys));
    facts.push(Fact::new(seen, Tone::Dim));
    facts
}

fn own_cost(footer: &Footer<'_>) -> Fact {
    let Some(own) = footer.overhead else { return Fact::new("overhead ·".to_owned(), Tone::Dim) };
    let mut words = format!("overhead {} CPU", percent(own.reader_cpu_ratio).trim_start());
    match (own.kernel_cpu_ratio_estimate, own.kernel_ns_per_hit) {
        (Some(ratio), _) => _ = write!(words, " + ~{} kernel", percent(ratio).trim_start()),
        (None, Some(ns)) => _ = write!(words, " + {ns:.0} ns per event"),
        (None, None) => words.push_str(", kernel not measured"),
    }
    _ = write!(words, " · buffer {}", percent(own.ring_fill_ratio).trim_start());
    Fact::new(words, Tone::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::totals::Totals;
    use magscope_core::{LossCause, Verdict};

    #[test]
    fn loss_by_the_network_and_by_the_instrument_share_no_word_and_no_colour() {
        let mut totals = Totals { dropped: 9, ..Totals::default() };
        totals.outcomes.verdicts[Verdict::LOST] = 2;
        totals.outcomes.verdicts[Verdict::DROPPED] = 1;
        totals.outcomes.verdicts[Verdict::BROKEN] = 3;
        totals.outcomes.verdicts[Verdict::IN_FLIGHT] = 5;
        totals.outcomes.resent = 4;
        totals.missed[LossCause::RingFull as usize] = 7;
        let footer = Footer { totals, counts: totals.counts(1), ..Footer::default() };
        let facts = facts(&footer);
        let of = |tone: Tone| -> Vec<&str> {
            facts.iter().filter(|fact| fact.tone == tone).map(|fact| fact.text.as_str()).collect()
        };
        assert_eq!(of(Tone::NetworkLoss), ["dropped 9", "lost 2"]);
        assert_eq!(of(Tone::MissedEvents), ["events missed 7 (ring buffer full)", "broken 3"]);
        for words in ["resent 4", "in flight 6"] {
            assert!(facts.iter().any(|fact| fact.text == words), "{words}: {facts:?}");
        }
    }

    #[test]
    fn what_only_journeys_show_is_unknown_where_the_kernel_adds_up() {
        let totals = Totals { dropped: 9, summed_retransmits: 4, ..Totals::default() };
        let footer = Footer { totals, counts: totals.counts(0), sums: true, ..Footer::default() };
        let words: Vec<String> = facts(&footer).into_iter().map(|fact| fact.text).collect();
        for expected in ["dropped Σ9", "lost ·", "resent ·", "retransmits Σ4"] {
            assert!(words.iter().any(|word| word == expected), "{expected}: {words:?}");
        }
    }

    #[test]
    fn counts_beside_a_filter_say_that_they_are_of_all_traffic() {
        let footer = Footer { is_of_all: true, ..Footer::default() };
        let words: Vec<String> = facts(&footer).into_iter().map(|fact| fact.text).take(2).collect();
        assert_eq!(words, ["all traffic:", "events missed 0"]);
    }

    #[test]
    fn zeros_are_shown() {
        let words: Vec<String> = facts(&Footer::default()).into_iter().map(|fact| fact.text).collect();
        for zero in ["events missed 0", "dropped 0", "lost 0", "resent 0", "in flight 0"] {
            assert!(words.iter().any(|word| word == zero), "{zero}: {words:?}");
        }
    }
}
