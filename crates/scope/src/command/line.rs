//! Help with a line of text: completion by Tab of words and of values that are there, and what was typed before.

use super::Question;
use crate::Scope;
use magscope_core::exchange::FILTER_FIELDS;
use magscope_core::filter::FIELDS;
use magscope_core::{Hop, Verdict};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of lines of each question in memory.
const MOST_LINES: usize = 64;
/// Number of flows whose ends are offered.
const MOST_FLOWS: usize = 256;

/// Answers to questions, the newest last.
#[derive(Debug, Default)]
pub struct History(BTreeMap<&'static str, VecDeque<String>>);

impl History {
    /// Stores an answer that was accepted.
    pub fn add(&mut self, question: Question, line: &str) {
        let line = line.trim();
        if line.is_empty() {
            return;
        }
        let lines = self.0.entry(question.title()).or_default();
        lines.retain(|other| other != line);
        if lines.len() >= MOST_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    /// The answer so many steps back, 1 for the newest.
    pub fn back(&self, question: Question, steps: usize) -> Option<&str> {
        let lines = self.0.get(question.title())?;
        lines.get(lines.len().checked_sub(steps)?).map(String::as_str)
    }
}

/// Values that the capture has, by the word that they follow.
#[derive(Debug, Default)]
pub struct Values(BTreeMap<&'static str, BTreeSet<String>>);

impl Values {
    /// Those of a scope.
    pub fn of(scope: &Scope) -> Self {
        let mut values = Values::default();
        let frame = scope.frame();
        for row in frame.flows(MOST_FLOWS).rows {
            for end in row.ends.into_iter().flat_map(|(from, to)| [from, to]) {
                values.add("port", end.port().to_string());
                values.add("host", end.ip().to_canonical().to_string());
            }
            values.add("comm", row.processes.0);
            values.add("comm", row.processes.1);
            values.add("proto", row.proto.to_string());
        }
        for info in scope.infos() {
            info.netns.iter().for_each(|netns| values.add("netns", netns.name.clone()));
            values.add("node", info.host.clone());
            for container in &info.containers {
                values.add("container", container.name.clone());
                values.add("pod", container.pod.clone());
            }
        }
        for name in Verdict::NAMES {
            values.add("verdict", name.to_owned());
        }
        for hop in Hop::path() {
            values.add("hop", hop.name().to_owned());
        }
        values
    }

    fn add(&mut self, word: &'static str, value: String) {
        if !value.is_empty() && value != "0" {
            self.0.entry(word).or_default().insert(value);
        }
    }

    /// The values after a word; none for a word without values.
    fn after(&self, word: &str) -> Option<&BTreeSet<String>> {
        let of = match word {
            "sport" | "dport" => "port",
            "src" | "dst" | "net" | "addr" => "host",
            "proc" | "process" => "comm",
            other => other,
        };
        self.0.get(of)
    }
}

/// True if a word of a filter may contain this character.
fn is_word(c: char) -> bool {
    !c.is_whitespace() && !"()<>=!,\"'&|\\".contains(c)
}

/// Words of the trigger that no filter has.
const TRIGGER: [&str; 5] = ["drop", "retransmit", "missed", "request", "hit"];

/// Candidates for the last, unfinished word of a filter or a trigger, in order, and the position of its first byte.
pub fn candidates(question: Question, text: &str, values: &Values) -> (usize, Vec<String>) {
    if !matches!(question, Question::Filter | Question::Trigger) {
        return (text.len(), Vec::new());
    }
    let from =
        text.char_indices().rev().take_while(|(_, c)| is_word(*c)).last().map_or(text.len(), |(at, _)| at);
    let (before, begun) = text.split_at(from);
    let before = before.trim_end();
    let has_sign = before.ends_with(['=', '<', '>']);
    let rest = before.trim_end_matches(|c: char| !is_word(c) && c != '(' && c != ')');
    let last = rest.rsplit(|c: char| !is_word(c)).next().unwrap_or_default().to_ascii_lowercase();
    let opens_hop = before.ends_with('(') && before.trim_end_matches('(').ends_with("hop");
    let begins = before.is_empty() || before.ends_with('(') || ["and", "or", "not"].contains(&last.as_str());
    let words: Vec<String> = if opens_hop {
        values.after("hop").into_iter().flatten().cloned().collect()
    } else if !before.ends_with(')') && !begins && values.after(&last).is_some() {
        values.after(&last).into_iter().flatten().cloned().collect()
    } else if begins && !has_sign {
        let more = if question == Question::Trigger { &TRIGGER[..] } else { &FILTER_FIELDS[..] };
        let more = more.iter().filter(|word| !FIELDS.contains(word));
        FIELDS.iter().chain(more).chain(&["not"]).map(|word| (*word).to_owned()).collect()
    } else if has_sign {
        Vec::new()
    } else {
        ["and", "or"].map(str::to_owned).into()
    };
    let begun = begun.to_ascii_lowercase();
    let fits = |word: &String| word.to_ascii_lowercase().starts_with(&begun) && word.len() > begun.len();
    (from, words.into_iter().filter(fits).collect())
}

/// State of a line while it is typed: a round of candidates, or a place among earlier lines.
#[derive(Debug, Default)]
pub struct LineState {
    /// The text before the word, the candidates, and the one shown.
    round: Option<(String, Vec<String>, usize)>,
    /// Steps back among earlier lines, and the text that was typed before them.
    back: usize,
    typed: String,
}

impl LineState {
    /// Another key was pressed.
    pub fn reset(&mut self) {
        *self = LineState::default();
    }

    /// The text after Tab: the next candidate; `None` without any.
    pub fn tab(&mut self, question: Question, text: &str, scope: &Scope) -> Option<String> {
        if let Some((before, words, at)) = &mut self.round {
            *at = (*at + 1) % words.len().max(1);
            return Some(format!("{before}{}", words.get(*at)?));
        }
        let (from, words) = candidates(question, text, &Values::of(scope));
        let first = words.first()?.clone();
        let before = text.get(..from)?.to_owned();
        let line = format!("{before}{first}");
        // A single candidate is final: the next Tab continues behind it.
        self.round = (words.len() > 1).then_some((before, words, 0));
        Some(line)
    }

    /// The text after the key up (`by` 1) or down (−1); `None` at either end.
    pub fn earlier(&mut self, question: Question, text: &str, by: i8, scope: &Scope) -> Option<String> {
        if self.back == 0 {
            text.clone_into(&mut self.typed);
        }
        let steps = if by > 0 { self.back + 1 } else { self.back.checked_sub(1)? };
        let line = if steps == 0 {
            Some(self.typed.clone())
        } else {
            scope.history().back(question, steps).map(str::to_owned)
        };
        if line.is_some() {
            self.back = steps;
            self.round = None;
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        let mut values = Values::default();
        values.add("port", "443".to_owned());
        values.add("port", "5432".to_owned());
        values.add("comm", "nginx".to_owned());
        for hop in Hop::path() {
            values.add("hop", hop.name().to_owned());
        }
        values
    }

    #[test]
    fn words_and_values_that_are_there_are_offered() {
        let of = |text: &str| candidates(Question::Filter, text, &values());
        assert_eq!(of("por").1, ["port"]);
        assert_eq!(of("port 4"), (5, vec!["443".to_owned()]));
        assert_eq!(of("port = ").1, ["443", "5432"]);
        assert_eq!(of("udp and proc n").1, ["nginx"]);
        assert_eq!(of("port 443 ").1, ["and", "or"]);
        assert_eq!(of("not (dst port 5").1, ["5432"]);
        assert!(of("hop(dev.x").1.contains(&"dev.xmit".to_owned()));
        assert!(of("").1.contains(&"lost".to_owned()));
        assert!(of("total > ").1.is_empty());
        assert_eq!(candidates(Question::Speed, "", &values()).1, Vec::<String>::new());
        assert!(candidates(Question::Trigger, "dro", &values()).1.contains(&"drop".to_owned()));
    }

    #[test]
    fn no_text_breaks_it() {
        for text in ["é", "é(", "((((", "\"", "port =é", "not not", "hop(,", "\u{1f600} and "] {
            let (from, _) = candidates(Question::Filter, text, &values());
            assert!(text.is_char_boundary(from), "{text}");
        }
    }

    #[test]
    fn earlier_lines_come_back_each_once() {
        let mut history = History::default();
        for line in ["udp", "port 443", "udp", " "] {
            history.add(Question::Filter, line);
        }
        let lines = [1, 2, 3].map(|steps| history.back(Question::Filter, steps));
        assert_eq!(lines, [Some("udp"), Some("port 443"), None]);
        assert_eq!(history.back(Question::Trigger, 1), None);
    }
}
