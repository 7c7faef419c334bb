//! One language for every filter: words that several tools have for one thing become one word here, before any
//! comparison is read.
//!
//! | written | read as |
//! |---|---|
//! | `net`, `addr`, `src host`, `src net`, `dst host`, `dst net` | `host`, `src`, `dst` |
//! | `src port`, `dst port`, `portrange`, `src portrange` | `sport`, `dport`, `port`, `sport` |
//! | `proc`, `process` | `comm` |
//! | `resent` | `retransmitted` |
//! | `tcp port 443`, `udp dst port 53` | `(tcp and port 443)`, `(udp and dport 53)` |
//!
//! Only a word where a comparison begins is read so: a process may be called `net`.
//!
//! **Known limits.** `greater`, `less` and `len` of tcpdump are of whole packets, `bytes` and `len` here of payload; so these
//! two words are not read. A primitive after `and` without its qualifier (`port 80 and 443`) is an error here, which names
//! the complete form.

use super::lex::{Kind, Token};
use super::{FilterError, Problem};
use crate::filter::Prefix;
use crate::flow::Proto;
use crate::words::shown;

/// Words that qualify a protocol before them, as in tcpdump.
const QUALIFIERS: [&str; 12] =
    ["src", "dst", "host", "net", "addr", "port", "sport", "dport", "portrange", "proc", "process", "comm"];

/// The languages of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Single events: `--filter`.
    Events,
    /// Journeys: `journeys --where`, the filter and the trigger of the screens.
    Journeys,
    /// Requests: `requests --where`, and `request(…)` of the trigger.
    Requests,
}

impl Language {
    /// Where a word of another language belongs, in words; `None` for a word of none.
    pub fn place_of(self, word: &str) -> Option<&'static str> {
        const EVENTS: [&str; 10] =
            ["dir", "iface", "len", "uid", "user", "socket", "tx", "rx", "dev", "interface"];
        const JOURNEYS: [&str; 21] = [
            "verdict",
            "lost",
            "dropped",
            "retransmitted",
            "retransmits",
            "broken",
            "bytes",
            "flow",
            "node",
            "total",
            "cpu",
            "netns",
            "src",
            "dst",
            "sport",
            "dport",
            "cgroup",
            "tgid",
            "icmp",
            "icmp6",
            "igmp",
        ];
        const REQUESTS: [&str; 12] = [
            "request_bytes",
            "response_bytes",
            "request",
            "request_transfer",
            "answer",
            "response_transfer",
            "pause",
            "grade",
            "unanswered",
            "on_cpu",
            "runnable",
            "blocked",
        ];
        const PACKETS: [&str; 5] = ["greater", "ip", "ip6", "less", "sctp"];
        // Words of tcpdump that libpcap refuses without a link layer.
        const LINK_LAYER: [&str; 7] = ["arp", "broadcast", "ether", "gateway", "mpls", "rarp", "vlan"];
        const DIRECTIONS: [&str; 2] = ["inbound", "outbound"];
        let in_list = |list: &[&str]| list.iter().any(|other| other.eq_ignore_ascii_case(word));
        match self {
            _ if in_list(&PACKETS) => Some("is a word for single packets: `record --pcap` takes it"),
            _ if in_list(&["multicast"]) => {
                Some("is a word for single packets: `record --pcap` takes `ip multicast` and `ip6 multicast`")
            }
            _ if in_list(&LINK_LAYER) => Some(
                "is never seen here: packets begin with their IP header, without Ethernet's; ARP and VLANs are not recorded",
            ),
            _ if in_list(&DIRECTIONS) => {
                Some("is no word here: `--filter rx` and `--filter tx` choose hops by their direction")
            }
            _ if self != Self::Events && in_list(&EVENTS) => {
                Some("is a property of single events: `--filter` takes it")
            }
            _ if self != Self::Journeys && in_list(&JOURNEYS) => {
                Some("is a property of journeys: `journeys --where` and `/` take it")
            }
            _ if self != Self::Requests && in_list(&REQUESTS) => Some(
                "is a property of requests: `requests --where`, `/` and the trigger take it, as `request > 50ms`",
            ),
            _ => None,
        }
    }
}

/// The error for a number or an address in the place of a field, as in `port 80 or 90`: with both comparisons written
/// out if there is one before it, else with `comparison`, an example. Other errors are returned unchanged.
pub fn explained(error: FilterError, tokens: &[Token], comparison: &str) -> FilterError {
    let Problem::Unknown { kind: "field", .. } = error.problem else { return error };
    let Some(at) = tokens.iter().position(|token| token.position == error.position) else { return error };
    let Kind::Word(value) = &tokens[at].kind else { return error };
    if !is_value(value) {
        return error;
    }
    let expected = match complete_form(tokens, at) {
        Some(form) => format!("a field before every value, as in `{form}`"),
        None => comparison.to_owned(),
    };
    FilterError::expected(error.position, expected, tokens[at].kind.to_string())
}

/// True for a number or an address: no field is called so.
fn is_value(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) || Prefix::parse(word).is_some()
}

fn joins(word: &str) -> bool {
    ["and", "or", "not"].iter().any(|joint| joint.eq_ignore_ascii_case(word))
}

/// `port 80 or port 90`, for the number at `at` in `port 80 or 90`. `None` without a comparison before it.
fn complete_form(tokens: &[Token], at: usize) -> Option<String> {
    let text = |token: &Token| match &token.kind {
        Kind::Word(word) => Some(shown(word)),
        Kind::Op(op) => Some(op.sign().to_owned()),
        _ => None,
    };
    let is_joint = |token: &&Token| matches!(&token.kind, Kind::Word(word) if joins(word));
    let joints = tokens[..at].iter().rev().take_while(is_joint).count();
    let end = at - joints;
    let operators = usize::from(matches!(tokens.get(end.checked_sub(2)?)?.kind, Kind::Op(_)));
    let start = end.checked_sub(2 + operators)?;
    let is_field = matches!(&tokens[start].kind, Kind::Word(field) if !joins(field) && !is_value(field));
    if joints == 0 || !is_field {
        return None;
    }
    let before: Vec<String> = tokens[start..at].iter().map(text).collect::<Option<_>>()?;
    let field: Vec<String> = tokens[start..end - 1].iter().map(text).collect::<Option<_>>()?;
    Some(format!("{} {} {}", before.join(" "), field.join(" "), text(&tokens[at])?))
}

fn word(token: Option<&Token>) -> Option<String> {
    match &token?.kind {
        Kind::Word(word) => Some(word.to_ascii_lowercase()),
        _ => None,
    }
}

/// The tokens with one word for each thing.
pub fn canonical(tokens: Vec<Token>) -> Vec<Token> {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut rest = tokens.into_iter().peekable();
    while let Some(mut token) = rest.next() {
        let begins = match out.last().map(|token| &token.kind) {
            None | Some(Kind::Open | Kind::Qualifies) => true,
            Some(Kind::Word(before)) => {
                let before_word = before.to_ascii_lowercase();
                let joins = ["and", "or", "not"].contains(&before_word.as_str());
                // `comm = and` has a value of this name.
                let is_value = matches!(out.iter().rev().nth(1), Some(Token { kind: Kind::Op(_), .. }));
                joins && !is_value
            }
            _ => false,
        };
        let here = word(Some(&token)).filter(|_| begins);
        let next = word(rest.peek());
        let replacement = match (here.as_deref(), next.as_deref()) {
            (Some("src"), Some("host" | "net" | "addr")) => Some(("src", true)),
            (Some("dst"), Some("host" | "net" | "addr")) => Some(("dst", true)),
            (Some("src"), Some("port" | "portrange")) => Some(("sport", true)),
            (Some("dst"), Some("port" | "portrange")) => Some(("dport", true)),
            (Some("net" | "addr"), _) => Some(("host", false)),
            (Some("proc" | "process"), _) => Some(("comm", false)),
            (Some("portrange"), _) => Some(("port", false)),
            (Some("resent"), _) => Some(("retransmitted", false)),
            _ => None,
        };
        if let Some((name, takes_next)) = replacement {
            token.kind = Kind::Word(name.to_owned());
            if takes_next {
                rest.next();
            }
        }
        let position = token.position;
        out.push(token);
        let is_protocol = here.is_some_and(|here| Proto::of_name(&here).is_some());
        if is_protocol && next.is_some_and(|next| QUALIFIERS.contains(&next.as_str())) {
            out.push(Token { position, kind: Kind::Qualifies });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::lex::tokens;

    fn read(text: &str) -> String {
        let tokens = canonical(tokens(text).expect("tokens"));
        let words = tokens.iter().map(|token| match &token.kind {
            Kind::Word(word) | Kind::Quoted(word) => word.clone(),
            Kind::Op(op) => op.sign().to_owned(),
            Kind::Open => "(".to_owned(),
            Kind::Close => ")".to_owned(),
            Kind::Comma => ",".to_owned(),
            Kind::Qualifies => "+".to_owned(),
            Kind::End => String::new(),
        });
        words.collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    #[test]
    fn words_of_tcpdump_are_words_of_the_filters() {
        for (written, as_read) in [
            ("tcp port 443", "tcp + port 443"),
            ("udp dst port 53 or icmp", "udp + dport 53 or icmp"),
            ("src host 10.0.0.1 && !dst net 10.0.0.0/8", "src 10.0.0.1 and not dst 10.0.0.0/8"),
            ("net 10.0.0.0/8 || proc nginx", "host 10.0.0.0/8 or comm nginx"),
            ("not (tcp src port 80)", "not ( tcp + sport 80 )"),
            ("src portrange 1-9", "sport 1-9"),
            ("not tcp port net", "not tcp + port net"),
            ("udp proc x", "udp + comm x"),
            ("igmp host 10.0.0.1", "igmp + host 10.0.0.1"),
            ("resent and tcp", "retransmitted and tcp"),
            ("comm = net and proto = tcp", "comm = net and proto = tcp"),
            ("comm net", "comm net"),
        ] {
            assert_eq!(read(written), as_read, "{written}");
        }
    }

    /// A word that one filter takes is unknown to no other: that one takes it too, or names the filter that does.
    #[test]
    fn every_word_of_a_filter_has_a_place_in_the_others() {
        let events = crate::capture_filter::Field::ALL.map(crate::capture_filter::Field::name);
        let journeys = crate::filter::FIELDS;
        let requests = crate::exchange::FILTER_FIELDS;
        for word in events.iter().chain(&journeys).chain(&requests) {
            let problems = [
                ("events", crate::CaptureFilter::parse(word).err().map(|error| error.problem)),
                ("journeys", crate::filter::Filter::parse(word).err().map(|error| error.problem)),
                ("requests", crate::exchange::ExchangeFilter::parse(word).err().map(|error| error.problem)),
            ];
            for (filter, problem) in problems {
                let is_unknown = matches!(&problem, Some(super::super::Problem::Unknown { kind: "field", .. }));
                assert!(!is_unknown, "{word} in the filter of {filter}: {problem:?}");
            }
        }
    }

    #[test]
    fn a_value_without_a_field_is_written_out() {
        let events = |text: &str| crate::CaptureFilter::parse(text).expect_err(text).to_string();
        for (text, position, form) in [
            ("port 80 or 90", 12, "port 80 or port 90"),
            ("host 10.0.0.1 or fd00::1", 18, "host 10.0.0.1 or host fd00::1"),
            ("(tcp dst port = 80 and not 90)", 28, "dport = 80 and not dport = 90"),
            ("udp and (port 80 or 90)", 21, "port 80 or port 90"),
        ] {
            let error = events(text);
            let wanted =
                format!("at character {position}: expected a field before every value, as in `{form}`");
            assert!(error.starts_with(&wanted), "{text}: {error}");
        }
        for text in ["90", "tcp or 90", "not 90", "udp and tcp or 90", "(port 80) or 90", "comm = 'a b' or 90"]
        {
            let error = events(text);
            assert!(
                error.ends_with("expected a comparison, as in `port = 443`, found `90`"),
                "{text}: {error}"
            );
        }
        let journeys = crate::filter::Filter::parse("total > 5ms or 6ms").expect_err("a time").to_string();
        assert!(journeys.contains("as in `total > 5ms or total > 6ms`, found `6ms`"), "{journeys}");
        let requests = crate::exchange::ExchangeFilter::parse("port 80 or 90").expect_err("a port").to_string();
        assert!(requests.contains("as in `port 80 or port 90`, found `90`"), "{requests}");
        assert!(events("port 80 or prot udp").contains("no field is called `prot`"));
    }

    #[test]
    fn names_have_no_patterns() {
        for (text, position) in [("comm ~ ssh", 6), ("comm =~ ssh", 7), ("comm ~ssh", 6)] {
            let error = crate::CaptureFilter::parse(text).expect_err(text);
            assert_eq!(error.position, position, "{error}");
            assert!(error.to_string().ends_with("because names are compared as a whole, found `~`"), "{error}");
        }
        for name in ["~x", "a~b"] {
            let text = format!("comm = {}", crate::condition::quoted(name));
            let filter = crate::CaptureFilter::parse(&text).expect("a name");
            assert_eq!(filter.to_string(), text);
        }
    }

    #[test]
    fn a_word_of_another_language_has_a_place() {
        assert!(Language::Requests.place_of("ip6").is_some_and(|place| place.contains("--pcap")));
        assert!(Language::Journeys.place_of("len").is_some_and(|place| place.contains("--filter")));
        assert!(Language::Events.place_of("lost").is_some_and(|place| place.contains("--where")));
        assert!(Language::Requests.place_of("igmp").is_some_and(|place| place.contains("journeys --where")));
        assert!(Language::Journeys.place_of("request").is_some_and(|place| place.contains("requests")));
        assert_eq!(Language::Journeys.place_of("port"), None);
        // These are refused by `--pcap` too.
        for word in ["arp", "ether", "vlan", "broadcast", "inbound", "outbound"] {
            let place = Language::Events.place_of(word).expect(word);
            assert!(!place.contains("--pcap"), "`{word}` {place}");
        }
    }
}
