//! Parser of journey comparisons.

use super::ast::{Endpoint, Expr, FIELDS, FlowIs, Prefix, Property, Quantity, Test};
use super::quantity::{TIMES, scaled, split};
use crate::condition::{self, FilterError, Kind, Language, Op, Parser, Problem};
use crate::flow::{FlowId, Proto};
use crate::hop::Hop;
use crate::journey::Verdict;
use crate::size;
use crate::words::{nearest, shown};
use std::net::IpAddr;

/// Reads a whole filter.
pub fn parse(text: &str) -> Result<Expr, FilterError> {
    condition::parse(text, "a comparison, as in `total > 5ms`", |parser| {
        Comparison { parser }.test().map(Expr::Test)
    })
}

/// Parser state of one comparison.
struct Comparison<'p, 'a> {
    parser: &'p mut Parser<'a>,
}

impl Comparison<'_, '_> {
    fn test(&mut self) -> Result<Test, FilterError> {
        let (position, Kind::Word(word)) = self.parser.peek() else {
            return Err(self.parser.no_comparison());
        };
        self.parser.next();
        let field = word.to_ascii_lowercase();
        Ok(match field.as_str() {
            "total" => self.number(Quantity::Total)?,
            "hop" => {
                let between = self.between()?;
                self.number(between)?
            }
            "bytes" => self.number(Quantity::Bytes)?,
            "retransmits" => self.number(Quantity::Retransmits)?,
            "port" => self.number(Quantity::Port)?,
            "sport" => self.number(Quantity::Sport)?,
            "dport" => self.number(Quantity::Dport)?,
            "proto" => self.is("protocol, as in `proto = tcp`", proto)?,
            "verdict" => self.is("verdict, as in `verdict = lost`", verdict)?,
            "host" => self.is("address or prefix, as in `host 10.0.0.0/8`", host)?,
            "src" => self.is("address or prefix, as in `src 10.0.0.0/8`", |position, word| {
                prefix(position, word).map(Property::Src)
            })?,
            "dst" => self.is("address or prefix, as in `dst 10.0.0.0/8`", |position, word| {
                prefix(position, word).map(Property::Dst)
            })?,
            "comm" => {
                self.is("process's name, as in `comm = nginx`", |_, name| Ok(Property::Comm(name.to_owned())))?
            }
            "netns" => self.is("namespace's name or number, as in `netns = host`", |_, name| {
                Ok(Property::Netns(name.to_owned()))
            })?,
            "node" => {
                self.is("node's name, as in `node = client`", |_, name| Ok(Property::Node(name.to_owned())))?
            }
            "cgroup" => self
                .is("cgroup's path, name or number, as in `cgroup = nginx.service`", |_, name| {
                    Ok(Property::Cgroup(name.to_owned()))
                })?,
            "container" => self.is("container's name or id, as in `container = web`", |_, name| {
                Ok(Property::Container(name.to_owned()))
            })?,
            "pod" => self
                .is("pod's name, as in `pod = shop/web-7f9c`", |_, name| Ok(Property::Pod(name.to_owned())))?,
            "unit" => self.is("unit's name, as in `unit = nginx.service`", |_, name| {
                Ok(Property::Unit(name.to_owned()))
            })?,
            "flow" => self.is("flow, as in `flow = 10.0.0.1:4000-10.0.0.2:80`", flow)?,
            "pid" | "tgid" => self.number(Quantity::Pid)?,
            "cpu" => self.number(Quantity::Cpu)?,
            name if Proto::of_name(name).is_some() => Test::Is { what: proto(position, name)?, equal: true },
            "lost" | "dropped" | "broken" => Test::Is { what: verdict(position, &field)?, equal: true },
            "retransmitted" => Test::Number { what: Quantity::Retransmits, op: Op::More, value: 0 },
            _ => return Err(no_field(Language::Journeys, position, word, &FIELDS)),
        })
    }

    fn between(&mut self) -> Result<Quantity, FilterError> {
        hop_pair(self.parser).map(|(from, to)| Quantity::Between(from, to))
    }

    fn number(&mut self, what: Quantity) -> Result<Test, FilterError> {
        let is_name =
            !matches!(what, Quantity::Total | Quantity::Between(..) | Quantity::Bytes | Quantity::Retransmits);
        let op = op_or_equal(self.parser, is_name, "`<`, `<=`, `>`, `>=`, `=` or `!=`")?;
        let (units, expected): (&[(&str, u64)], _) = match what {
            Quantity::Total | Quantity::Between(..) => (&TIMES, TIME),
            Quantity::Bytes => (&size::UNITS, SIZE),
            Quantity::Retransmits => (&[], "a number, as in `0`"),
            Quantity::Pid => (&[], "a process's number, as in `4711`"),
            Quantity::Cpu => (&[], "a CPU's number, as in `3`"),
            Quantity::Port | Quantity::Sport | Quantity::Dport => {
                (&[], "a port or a range, as in `443` or `8000-8099`")
            }
        };
        if let Quantity::Port | Quantity::Sport | Quantity::Dport = what
            && let Some((equal, from, to)) = port_range(self.parser, op)?
        {
            return Ok(Test::Is { what: Property::Ports(what, from, to), equal });
        }
        let needs_unit = matches!(what, Quantity::Total | Quantity::Between(..));
        let is_port = matches!(what, Quantity::Port | Quantity::Sport | Quantity::Dport);
        let most = if is_port { u64::from(u16::MAX) } else { u64::MAX };
        let value = number(self.parser, units, needs_unit, most, expected)?;
        Ok(Test::Number { what, op, value })
    }

    fn is(
        &mut self,
        expected: &str,
        read: impl FnOnce(usize, &str) -> Result<Property, FilterError>,
    ) -> Result<Test, FilterError> {
        let (equal, position, word) = equality(self.parser, expected)?;
        Ok(Test::Is { what: read(position, word)?, equal })
    }
}

/// Expected values of a time and a size.
pub(crate) const TIME: &str = "a time with its unit, as in `5ms`";
pub(crate) const SIZE: &str = "a size, as in `1500`, `64kB` or `64KiB`";

/// `(A,B)` after `hop`.
pub(crate) fn hop_pair(parser: &mut Parser<'_>) -> Result<(Hop, Hop), FilterError> {
    parser.want(&Kind::Open)?;
    let (_, from) = hop(parser)?;
    parser.want(&Kind::Comma)?;
    let (position, to) = hop(parser)?;
    parser.want(&Kind::Close)?;
    if from.rank() >= to.rank() {
        let expected = format!("a hop that comes after `{from}` on the way of a packet");
        return Err(FilterError::expected(position, expected, format!("`{to}`")));
    }
    Ok((from, to))
}

fn hop(parser: &mut Parser<'_>) -> Result<(usize, Hop), FilterError> {
    let (position, next) = parser.next();
    let Kind::Word(word) = next else {
        return Err(FilterError::expected(
            position,
            "a hop, as in `hop(dev.queue,dev.xmit)`",
            next.to_string(),
        ));
    };
    let on_path = Hop::path().iter().find(|hop| hop.name().eq_ignore_ascii_case(word));
    let names = || Hop::path().iter().map(|hop| hop.name());
    let hop = on_path.ok_or_else(|| unknown_of(position, "hop on the way of a packet", word, names()))?;
    Ok((position, *hop))
}

/// The range of ports behind an operator, if there is one (`8000-8099`), and whether it is `=`.
pub(crate) fn port_range(parser: &mut Parser<'_>, op: Op) -> Result<Option<(bool, u16, u16)>, FilterError> {
    let (position, Kind::Word(word)) = parser.peek() else { return Ok(None) };
    let Some((from, to)) = word.split_once('-') else { return Ok(None) };
    let port = |text: &str| text.parse().ok().filter(|_| text.bytes().all(|c| c.is_ascii_digit()));
    let range = port(from).zip(port(to)).filter(|(from, to)| from <= to);
    match (op, range) {
        (Op::Equal | Op::Differs, Some((from, to))) => {
            parser.next();
            Ok(Some((op == Op::Equal, from, to)))
        }
        (_, Some(_)) => {
            Err(FilterError::expected(position, "`=` or `!=` before a range", format!("`{}`", op.sign())))
        }
        (_, None) => {
            let found = format!("`{}`", shown(word));
            Err(FilterError::expected(position, "a port or a range, as in `443` or `8000-8099`", found))
        }
    }
}

/// The operator of a comparison, and its position.
pub(crate) fn comparison(parser: &mut Parser<'_>, expected: &str) -> Result<(usize, Op), FilterError> {
    match parser.next() {
        (position, Kind::Op(op)) => Ok((position, *op)),
        (position, next) => Err(FilterError::expected(position, expected, next.to_string())),
    }
}

/// The operator of a comparison. Before a value it may be left out where equality alone makes sense: `port 443`.
pub(crate) fn op_or_equal(parser: &mut Parser<'_>, is_name: bool, expected: &str) -> Result<Op, FilterError> {
    if is_name && matches!(parser.peek().1, Kind::Word(_) | Kind::Quoted(_)) {
        return Ok(Op::Equal);
    }
    comparison(parser, expected).map(|(_, op)| op)
}

/// The error for a word that is no field of a language.
pub(crate) fn no_field(language: Language, position: usize, word: &str, fields: &[&str]) -> FilterError {
    match language.place_of(word) {
        Some(place) => FilterError { position, problem: Problem::Elsewhere { word: shown(word), place } },
        None => unknown(position, "field", word, fields),
    }
}

/// A number of at most `most`, in one of these units.
pub(crate) fn number(
    parser: &mut Parser<'_>,
    units: &[(&str, u64)],
    needs_unit: bool,
    most: u64,
    expected: &'static str,
) -> Result<u64, FilterError> {
    let (position, next) = parser.next();
    let wrong = || FilterError::expected(position, expected, next.to_string());
    let Kind::Word(word) = next else { return Err(wrong()) };
    let (number, mut unit) = split(word).ok_or_else(wrong)?;
    let factor_of =
        |unit: &str| units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, factor)| *factor);
    // `5 ms` is the same as `5ms`.
    if let (_, Kind::Word(next)) = parser.peek()
        && unit.is_empty()
        && factor_of(next).is_some()
    {
        unit = next;
        parser.next();
    }
    let factor = match factor_of(unit) {
        Some(factor) => factor,
        None if unit.is_empty() && !needs_unit => 1,
        None if unit.is_empty() || units.is_empty() => return Err(wrong()),
        None => return Err(unknown_of(position, "unit", unit, units.iter().map(|(name, _)| *name))),
    };
    if factor == 1 && number.contains('.') {
        return Err(wrong());
    }
    let too_large = || FilterError { position, problem: Problem::TooLarge(shown(word)) };
    scaled(number, factor).filter(|value| *value <= most).ok_or_else(too_large)
}

/// `=` or `!=` and a word: whether they are equal, and the word with its position.
pub(crate) fn equality<'a>(
    parser: &mut Parser<'a>,
    expected: &str,
) -> Result<(bool, usize, &'a str), FilterError> {
    let (position, _) = parser.peek();
    let equal = match op_or_equal(parser, true, "`=` or `!=`")? {
        Op::Equal => true,
        Op::Differs => false,
        other => return Err(FilterError::expected(position, "`=` or `!=`", format!("`{}`", other.sign()))),
    };
    match parser.next() {
        (position, Kind::Word(word) | Kind::Quoted(word)) => Ok((equal, position, word)),
        (position, next) => Err(FilterError::expected(position, format!("a {expected}"), next.to_string())),
    }
}

fn proto(position: usize, word: &str) -> Result<Property, FilterError> {
    protocol(position, word).map(Property::Proto)
}

pub(crate) fn protocol(position: usize, word: &str) -> Result<Proto, FilterError> {
    let names = || Proto::NAMED.iter().map(|(name, _)| *name);
    Proto::of_word(word).ok_or_else(|| unknown_of(position, "protocol", word, names()))
}

fn verdict(position: usize, word: &str) -> Result<Property, FilterError> {
    let kind = Verdict::NAMES.iter().position(|name| name.eq_ignore_ascii_case(word));
    kind.map(Property::Verdict).ok_or_else(|| unknown(position, "verdict", word, &Verdict::NAMES))
}

fn host(position: usize, word: &str) -> Result<Property, FilterError> {
    prefix(position, word).map(Property::Host)
}

pub(crate) fn prefix(position: usize, word: &str) -> Result<Prefix, FilterError> {
    let wrong = || {
        let found = format!("`{}`", shown(word));
        FilterError::expected(
            position,
            "an address or a prefix, as in `10.0.0.1`, `10.0.0.0/8` or `fd00::/8`",
            found,
        )
    };
    Prefix::parse(word).ok_or_else(wrong)
}

fn flow(position: usize, word: &str) -> Result<Property, FilterError> {
    let wrong = || {
        let expected =
            "one end or both, as in `10.0.0.1:4000-10.0.0.2:80`, `[fd00::1]:80` or `:443`, or a flow's number";
        FilterError::expected(position, expected, format!("`{}`", shown(word)))
    };
    if word.len() == 16
        && let Ok(id) = u64::from_str_radix(word, 16)
    {
        return Ok(Property::Flow(FlowIs::Id(FlowId(id))));
    }
    let (one, other) = word.split_once(['-', '↔']).map_or((word, None), |(one, other)| (one, Some(other)));
    let one = endpoint(one).ok_or_else(wrong)?;
    let other = other.map(|other| endpoint(other).ok_or_else(wrong)).transpose()?;
    Ok(Property::Flow(FlowIs::Ends(one, other)))
}

/// An address, a port after a colon, or both.
fn endpoint(text: &str) -> Option<Endpoint> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(Endpoint { address: Some(address.to_canonical()), port: None });
    }
    let (address, port) = text.rsplit_once(':')?;
    // `u16` would also accept a sign.
    let port = port.parse().ok().filter(|_| port.bytes().all(|c| c.is_ascii_digit()))?;
    let address: Option<IpAddr> = match address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(v6) => Some(IpAddr::V6(v6.parse().ok()?)),
        None if address.is_empty() => None,
        None => Some(IpAddr::V4(address.parse().ok()?)),
    };
    Some(Endpoint { address: address.map(|address| address.to_canonical()), port: Some(port) })
}

pub(crate) fn unknown(position: usize, kind: &'static str, word: &str, names: &[&str]) -> FilterError {
    unknown_of(position, kind, word, names.iter().copied())
}

fn unknown_of<'n>(
    position: usize,
    kind: &'static str,
    word: &str,
    names: impl Iterator<Item = &'n str>,
) -> FilterError {
    let nearest = nearest(word, names).unwrap_or_default().to_owned();
    FilterError { position, problem: Problem::Unknown { kind, word: shown(word), nearest } }
}
