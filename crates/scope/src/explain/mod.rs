//! What the words on a screen mean: one sentence a label, for hovering in the window and for a key in the terminal.
//!
//! The table names the term of `docs/glossary.md` that each label rests on. Hops are explained from their own table.

mod table;

pub use table::{Label, TABLE};

use crate::channel::Channel;
use crate::look::readings::SEVERAL;
use magscope_core::{Hop, Verdict};

/// The explanation of a text on the screen: of a label, a hop, a pair of hops, a signal, or of the longest label that
/// occurs in a text with numbers. `None` for a text without one.
pub fn explain(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches("Σ ").trim_start_matches("◆ ");
    if let Some(label) = find(text) {
        return Some(label.words.to_owned());
    }
    of_hop(text).or_else(|| of_pair(text)).or_else(|| of_channel(text)).or_else(|| {
        let inside = |label: &&Label| occurs(text, label.label);
        TABLE.iter().filter(inside).max_by_key(|label| label.label.len()).map(|label| label.words.to_owned())
    })
}

/// The labels and hops that occur in a text, each with its explanation.
pub fn labels_in(text: &str) -> Vec<(&'static str, String)> {
    let labels = TABLE.iter().map(|row| (row.label, row.words.to_owned()));
    let hops = Hop::ALL.iter().filter_map(|hop| Some((hop.name(), of_hop(hop.name())?)));
    labels.chain(hops).filter(|(label, _)| label.len() > 1 && occurs(text, label)).collect()
}

/// The row of a label.
pub fn find(label: &str) -> Option<&'static Label> {
    TABLE.iter().find(|row| row.label == label)
}

/// The explanation of a verdict, by the name of its kind.
pub fn of_verdict(verdict: Verdict) -> Option<&'static str> {
    Verdict::NAMES.get(verdict.kind()).and_then(|name| find(name)).map(|label| label.words)
}

fn of_hop(name: &str) -> Option<String> {
    let spec = Hop::ALL.iter().find(|hop| hop.name() == name)?.spec();
    let place = spec.place.replace('`', "");
    Some(format!("hop, layer {}: {place}", format!("{:?}", spec.layer).to_lowercase()))
}

/// `tcp dev.xmit → dev.recv`, with or without a protocol.
fn of_pair(text: &str) -> Option<String> {
    let (from, to) = text.split_once('→')?;
    let hop = |name: &str| Hop::ALL.iter().find(|hop| hop.name() == name);
    let (from, to) = (from.trim().rsplit(' ').next()?, hop(to.trim())?);
    if from == SEVERAL {
        return Some(format!(
            "time to {to} from the hop before it, which is not the same in all journeys; zoom in for each"
        ));
    }
    let from = hop(from)?;
    Some(format!("time from {from} to {to}: {}", to.spec().part.words()))
}

fn of_channel(name: &str) -> Option<String> {
    let channel = Channel::ALL.into_iter().find(|channel| channel.name() == name)?;
    Some(channel_words(channel).to_owned())
}

const fn channel_words(channel: Channel) -> &'static str {
    match channel {
        Channel::Cwnd => "congestion window of TCP, in segments",
        Channel::Ssthresh => "slow-start threshold of TCP, in segments",
        Channel::Srtt => "smoothed round-trip time that TCP measures",
        Channel::Rttvar => "variation of the round-trip time that TCP measures",
        Channel::Rto => "time after which TCP sends again what was not acknowledged",
        Channel::PacketsOut => "segments that TCP has sent and that are not acknowledged yet",
        Channel::Retransmits => "segments that TCP has sent again since the connection began",
        Channel::SendQueue => "bytes in the send queue of the socket",
        Channel::RecvQueue => "bytes that the socket received and no process has read yet",
        Channel::SendWindow => "bytes that the peer allows to be in flight",
        Channel::RecvWindow => "bytes that this end allows to be in flight",
        Channel::Throughput(_) => "payload through a layer of the stack, all flows together",
        Channel::Journeys => "journeys that ended, per second",
        Channel::Events => "events of all hops, per second",
        Channel::Losses => "events that the instrument missed, per second",
        Channel::HostCpu => "share of all CPUs of the host in use",
        Channel::OwnCpu => "share of one CPU that the instrument uses",
        Channel::RingFill => "fill level of the fullest ring buffer of the instrument",
        Channel::Value(_) => "a value that a custom probe reads",
    }
}

/// True if a label occurs in a text as whole words.
fn occurs(text: &str, label: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '.' || c == '_');
    !label.is_empty()
        && text.match_indices(label).any(|(at, _)| {
            let (before, after) = (&text[..at], &text[at + label.len()..]);
            !is_part(before.chars().next_back()) && !is_part(after.chars().next())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge;
    use crate::frame::Footer;
    use crate::look::{PairReading, Percentiles, Span, facts};
    use crate::overhead::Overhead;
    use crate::totals::Totals;
    use magscope_core::blame::Part;
    use magscope_core::exchange::ExchangePart;
    use magscope_core::{LossCause, Proto};
    use magscope_timeline::pair::State;
    use std::path::Path;

    fn is_explained(texts: impl IntoIterator<Item = String>) {
        for text in texts {
            assert!(explain(&text).is_some(), "{text:?} has no explanation");
        }
    }

    #[test]
    fn labels_are_one_of_a_kind_and_sentences_are_short() {
        for (n, row) in TABLE.iter().enumerate() {
            assert!(TABLE[..n].iter().all(|other| other.label != row.label), "{} twice", row.label);
            assert!(row.words.split(' ').count() <= 25, "{}: {}", row.label, row.words);
            assert!(!row.words.ends_with('.') && !row.words.is_empty(), "{}", row.label);
        }
    }

    #[test]
    fn every_label_rests_on_a_term_of_the_glossary() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/glossary.md");
        let glossary = std::fs::read_to_string(path).expect("docs/glossary.md");
        let bold: Vec<&str> = glossary.split("**").skip(1).step_by(2).collect();
        let terms: Vec<&str> = bold.iter().flat_map(|words| words.split(", ")).collect();
        for row in TABLE {
            assert!(terms.contains(&row.term), "{}: the glossary has no {:?}", row.label, row.term);
        }
    }

    #[test]
    fn hops_pairs_parts_verdicts_and_signals_are_explained() {
        is_explained(Hop::ALL.iter().map(|hop| hop.name().to_owned()));
        is_explained(Part::ALL.iter().map(|part| part.words().to_owned()));
        is_explained(ExchangePart::ALL.iter().map(|part| part.words().to_owned()));
        is_explained(Verdict::NAMES.iter().map(|name| (*name).to_owned()));
        is_explained(Channel::ALL.iter().map(|channel| channel.name().to_owned()));
        let spans = [Span::Whole, Span::Step(Hop::DevXmit, Hop::DevRecv), Span::Into(Hop::AppRecv), Span::Wait];
        for proto in [None, Some(Proto::TCP)] {
            let reading =
                |span| PairReading { proto, span, times: Percentiles::default(), per_s: None, jitter_ns: None };
            is_explained(spans.map(|span| reading(span).words(" → ")));
        }
    }

    #[test]
    fn the_states_of_header_and_clock_are_explained() {
        is_explained(edge::tests::all().map(|edge| edge.words(|_| "G".to_owned())));
        let states = [
            State::Certified,
            State::Suspect,
            State::Model,
            State::External,
            State::Holdover,
            State::OneSided,
            State::Unsynchronised,
        ];
        is_explained(states.map(|state| format!("clock ±18 µs {state}")));
        is_explained(["one clock".to_owned()]);
    }

    #[test]
    fn every_count_of_the_footer_is_explained() {
        let mut totals = Totals { dropped: 9, late: 3, summed_retransmits: 2, ..Totals::default() };
        totals.outcomes.verdicts[Verdict::BROKEN] = 3;
        totals.missed[LossCause::RingFull as usize] = 7;
        let overhead = Overhead { kernel_ns_per_hit: Some(9.0), ..Overhead::default() };
        for sums in [false, true] {
            let footer = Footer {
                totals,
                counts: totals.counts(1),
                overhead: Some(overhead),
                governed: vec!["web: headers only".to_owned()],
                sums,
                shows_sums: true,
                ..Footer::default()
            };
            is_explained(facts(&footer).into_iter().map(|fact| fact.text));
        }
        for cause in LossCause::ALL {
            is_explained([cause.to_string()]);
        }
    }

    #[test]
    fn a_label_is_found_among_numbers_and_not_within_a_word() {
        assert_eq!(explain("dropped 5"), explain("dropped"));
        assert_eq!(explain("  838 journeys/s"), explain("journeys/s"));
        assert_eq!(explain("dev.xmitter"), None);
        assert_eq!(explain("17"), None);
        assert_eq!(explain(""), None);
    }
}
