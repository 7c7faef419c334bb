//! Names on the bus: streams, subjects, and bucket selections.

use magscope_export::wire::{self, BUCKETS};
use std::fmt;
use std::str::FromStr;

/// The stream with packets.
pub const PACKETS: &str = "magnet-scope";
/// The stream of host descriptions: the last one of each host.
pub const HOSTS: &str = "magnet-scope-hosts";
/// Subjects of all packets.
pub const ALL_PACKETS: &str = "magnet-scope.packets.>";
/// Subjects of all hosts.
pub const ALL_HOSTS: &str = "magnet-scope.hosts.*";
/// Number of parts in a host's stream: the buckets and the common part.
pub const PARTS: usize = BUCKETS as usize + 1;
/// Maximum length of a host name, bytes, as in DNS.
const LONGEST_NAME: usize = 253;
/// Buckets with a common subject prefix.
const EIGHTH: u8 = BUCKETS as u8 / 8;

/// A part of a host's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(u8);

impl Part {
    /// The part without a bucket; it ends each round.
    pub const COMMON: Part = Part(BUCKETS as u8);

    /// The part of a conversation; see [`wire::conversation`].
    pub fn of(conversation: u64) -> Self {
        Part(wire::bucket(conversation) as u8)
    }

    /// The part with this number, if there is one.
    pub fn numbered(number: u8) -> Option<Self> {
        (usize::from(number) < PARTS).then_some(Part(number))
    }

    /// Index below [`PARTS`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Buckets, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buckets(u64);

impl Buckets {
    /// All buckets.
    pub const ALL: Buckets = Buckets(u64::MAX);

    /// True if the part is selected; the common part always is.
    pub fn take(self, part: Part) -> bool {
        part == Part::COMMON || self.0 >> part.0 & 1 != 0
    }
}

impl Default for Buckets {
    fn default() -> Self {
        Self::ALL
    }
}

impl FromStr for Buckets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{}` are no buckets: write `0-15` or `0,5,60-63`", shown(text));
        let number = |text: &str| text.trim().parse::<u8>().ok().filter(|n| i64::from(*n) < BUCKETS);
        let mut bits = 0_u64;
        for range in text.split(',') {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            let (from, to) = (number(from).ok_or_else(bad)?, number(to).ok_or_else(bad)?);
            if from > to {
                return Err(bad());
            }
            (from..=to).for_each(|bucket| bits |= 1 << bucket);
        }
        Ok(Buckets(bits))
    }
}

impl fmt::Display for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bucket = 0_u32;
        let mut comma = "";
        while let Some(left) = self.0.checked_shr(bucket).filter(|left| *left != 0) {
            let from = bucket + left.trailing_zeros();
            let run = (self.0 >> from).trailing_ones();
            match run {
                1 => write!(f, "{comma}{from}")?,
                _ => write!(f, "{comma}{from}-{}", from + run - 1)?,
            }
            (bucket, comma) = (from + run, ",");
        }
        Ok(())
    }
}

/// Encodes a host name as one subject token: invalid characters become hexadecimal bytes, `=2e` for a dot.
/// Returns `None` if the name is too long.
pub fn token(host: &str) -> Option<String> {
    use std::fmt::Write;
    if host.is_empty() || host.len() > LONGEST_NAME {
        return None;
    }
    let mut token = String::new();
    for byte in host.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) {
            token.push(char::from(byte));
        } else {
            // Writing into a String cannot fail.
            let _ = write!(token, "={byte:02x}");
        }
    }
    Some(token)
}

/// Decodes a token into the host name.
pub fn host(token: &str) -> Option<String> {
    let mut pieces = token.split('=');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    let host = String::from_utf8(bytes).ok()?;
    // Reject non-canonical encodings.
    (self::token(&host)? == token).then_some(host)
}

/// Subject of a host's description.
pub fn about(token: &str) -> String {
    format!("magnet-scope.hosts.{token}")
}

/// The token of the host in a description's subject.
pub fn announced_host(subject: &str) -> Option<&str> {
    subject.strip_prefix("magnet-scope.hosts.")
}

/// Subject of a part. Buckets use two octal digits, so that one wildcard covers an eighth of them.
pub fn packets(token: &str, part: Part) -> String {
    match part {
        Part::COMMON => format!("magnet-scope.packets.{token}.common"),
        Part(bucket) => format!("magnet-scope.packets.{token}.{}.{}", bucket / EIGHTH, bucket % EIGHTH),
    }
}

/// The part in a subject of a host.
pub fn part(token: &str, subject: &str) -> Option<Part> {
    let rest = subject.strip_prefix("magnet-scope.packets.")?.strip_prefix(token)?.strip_prefix('.')?;
    if rest == "common" {
        return Some(Part::COMMON);
    }
    let digit = |text: &str| text.parse::<u8>().ok().filter(|digit| *digit < EIGHTH && text.len() == 1);
    let (eighth, rest) = rest.split_once('.')?;
    Some(Part(digit(eighth)? * EIGHTH + digit(rest)?))
}

/// Subscription filters for these buckets of a host: a minimal list, and each part's index in it. A server of
/// version 2.9 supports one filter per consumer.
pub fn filters(token: &str, buckets: Buckets) -> (Vec<String>, Vec<Option<usize>>) {
    let mut by = vec![None; PARTS];
    if buckets == Buckets::ALL {
        return (vec![format!("magnet-scope.packets.{token}.>")], vec![Some(0); PARTS]);
    }
    let mut filters = vec![packets(token, Part::COMMON)];
    by[Part::COMMON.index()] = Some(0);
    for eighth in 0..EIGHTH {
        let mine: Vec<Part> =
            (0..EIGHTH).map(|n| Part(eighth * EIGHTH + n)).filter(|part| buckets.take(*part)).collect();
        if mine.len() == usize::from(EIGHTH) {
            for part in mine {
                by[part.index()] = Some(filters.len());
            }
            filters.push(format!("magnet-scope.packets.{token}.{eighth}.*"));
            continue;
        }
        for part in mine {
            by[part.index()] = Some(filters.len());
            filters.push(packets(token, part));
        }
    }
    (filters, by)
}

/// User text, shortened and without control characters.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_read_and_written() {
        for (text, written) in
            [("0-63", "0-63"), ("5", "5"), ("0-15,17, 60-63", "0-15,17,60-63"), ("1,0", "0-1")]
        {
            assert_eq!(text.parse::<Buckets>().unwrap().to_string(), written);
        }
        assert_eq!("0-63".parse(), Ok(Buckets::ALL));
        for text in ["", "64", "5-2", "a", "0-", "-1", "0..3"] {
            assert!(text.parse::<Buckets>().is_err(), "{text}");
        }
    }

    #[test]
    fn half_of_the_buckets_are_a_handful_of_filters() {
        let (filters, by) = filters("web-1", "0-31,40".parse().unwrap());
        assert_eq!(filters.len(), 1 + 4 + 1, "{filters:?}");
        assert_eq!(filters[1], "magnet-scope.packets.web-1.0.*");
        assert_eq!(filters[5], "magnet-scope.packets.web-1.5.0");
        assert_eq!((by[31], by[32], by[40], by[64]), (Some(4), None, Some(5), Some(0)));
    }

    proptest! {
        #[test]
        fn names_come_back_and_are_one_token(name in "\\PC{1,60}") {
            let token = token(&name).unwrap();
            prop_assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_=".contains(&b)), "{token}");
            prop_assert_eq!(host(&token), Some(name));
        }

        #[test]
        fn subjects_of_any_kind_are_understood_or_not(subject in "(magnet-scope\\.(packets|hosts)\\.)?\\PC{0,40}") {
            if let Some(part) = part("a", &subject) {
                prop_assert_eq!(packets("a", part), subject.clone());
            }
            if let Some(name) = announced_host(&subject).and_then(host) {
                prop_assert_eq!(about(&token(&name).unwrap()), subject);
            }
        }

        #[test]
        fn every_part_that_is_taken_comes_by_one_filter(bits in any::<u64>()) {
            let buckets = Buckets(bits);
            let (filters, by) = filters("a", buckets);
            for number in 0..PARTS as u8 {
                let part = Part::numbered(number).unwrap();
                let subject = packets("a", part);
                prop_assert_eq!(super::part("a", &subject), Some(part));
                let matches = |filter: &String| {
                    filter.strip_suffix('*').or(filter.strip_suffix('>')).map_or(*filter == subject, |all| subject.starts_with(all))
                };
                let found: Vec<usize> = (0..filters.len()).filter(|at| matches(&filters[*at])).collect();
                prop_assert_eq!(found.first().copied(), by[part.index()]);
                prop_assert_eq!(found.len(), usize::from(buckets.take(part)));
            }
        }
    }
}
