//! Parser of event comparisons.

use super::ast::{Expr, Field, Test, Value, direction};
use crate::condition::{self, FilterError, Kind, Language, Op, Parser, Problem};
use crate::filter::Prefix;
use crate::flow::Proto;
use crate::hop::{Direction, Hop};
use crate::words::{nearest, shown};

/// Reads a whole filter.
pub fn parse(text: &str) -> Result<Expr, FilterError> {
    condition::parse(text, "a comparison, as in `port = 443`", test)
}

/// Alternative names of words.
const ALIASES: [(&str, Field); 4] =
    [("pid", Field::Tgid), ("user", Field::Uid), ("dev", Field::Iface), ("interface", Field::Iface)];

fn test(parser: &mut Parser<'_>) -> Result<Expr, FilterError> {
    let (position, Kind::Word(word)) = parser.peek() else {
        return Err(parser.no_comparison());
    };
    parser.next();
    let word = word.to_ascii_lowercase();
    if let Some(test) = alone(&word) {
        return Ok(Expr::Test(test));
    }
    let names = || Field::ALL.iter().map(|field| (field.name(), *field)).chain(ALIASES);
    let field = names().find(|(name, _)| *name == word).map(|(_, field)| field).ok_or_else(|| {
        if let Some(place) = Language::Events.place_of(&word) {
            return FilterError { position, problem: Problem::Elsewhere { word: shown(&word), place } };
        }
        let near = nearest(&word, names().map(|(name, _)| name)).unwrap_or_default().to_owned();
        FilterError { position, problem: Problem::Unknown { kind: "field", word: shown(&word), nearest: near } }
    })?;
    let (position, op) = match parser.peek() {
        (position, Kind::Op(op)) => {
            parser.next();
            (position, *op)
        }
        (position, _) => (position, Op::Equal),
    };
    let ordered = matches!(op, Op::Less | Op::AtMost | Op::More | Op::AtLeast);
    if ordered && field.largest().is_none() {
        return Err(FilterError::expected(position, "`=` or `!=`", format!("`{}`", op.sign())));
    }
    let (position, word) = match parser.next() {
        (position, Kind::Word(word) | Kind::Quoted(word)) => (position, word),
        (position, other) => {
            return Err(FilterError::expected(position, expected(field), other.to_string()));
        }
    };
    let value = value(field, op, position, word)?;
    let test = Expr::Test(Test { field, value });
    Ok(if op == Op::Differs { Expr::Not(Box::new(test)) } else { test })
}

/// Words that are a complete comparison.
fn alone(word: &str) -> Option<Test> {
    Some(match word {
        "tx" => Test { field: Field::Dir, value: Value::Dir(Direction::Tx) },
        "rx" => Test { field: Field::Dir, value: Value::Dir(Direction::Rx) },
        name => Test { field: Field::Proto, value: number(Proto::of_name(name)?.0) },
    })
}

fn number(number: u8) -> Value {
    Value::Range(u64::from(number), u64::from(number))
}

const fn expected(field: Field) -> &'static str {
    match field {
        Field::Hop => "a hop, as in `hop = dev.xmit`",
        Field::Dir => "`tx`, `rx` or `off`",
        Field::Proto => "a protocol's name or number, as in `proto = tcp`",
        Field::Netns => "a namespace's name or number, as in `netns = host`",
        Field::Iface => "an interface's name or index, as in `iface = eth0`",
        Field::Host | Field::Src | Field::Dst => "an address or a prefix, as in `host = 10.0.0.0/8`",
        Field::Comm => "a process's name, as in `comm = nginx`",
        Field::Uid => "a user's name or number, as in `uid = www-data`",
        Field::Cgroup => "a cgroup's path or id, as in `cgroup = /system.slice/nginx.service`",
        Field::Container => "the name or the id of a container, as in `container = web`",
        Field::Pod => "the name of a pod, as in `pod = shop/web-7f9c`",
        Field::Unit => "the name of a unit, as in `unit = nginx.service`",
        _ => "a number or a range, as in `443` or `8000-8099`",
    }
}

fn value(field: Field, op: Op, position: usize, word: &str) -> Result<Value, FilterError> {
    let wrong = || FilterError::expected(position, expected(field), format!("`{}`", shown(word)));
    let unknown = |kind: &'static str, names: &mut dyn Iterator<Item = &'static str>| FilterError {
        position,
        problem: Problem::Unknown {
            kind,
            word: shown(word),
            nearest: nearest(word, names).unwrap_or_default().to_owned(),
        },
    };
    if let Some(largest) = field.largest() {
        return range(op, word, largest, || FilterError { position, problem: Problem::TooLarge(shown(word)) })
            .unwrap_or_else(|| Err(wrong()));
    }
    Ok(match field {
        Field::Hop => {
            let hop = Hop::ALL.iter().find(|hop| hop.name().eq_ignore_ascii_case(word));
            let hop = hop.ok_or_else(|| unknown("hop", &mut Hop::ALL.iter().map(|hop| hop.name())))?;
            Value::Hop(*hop)
        }
        Field::Dir => {
            let all = [Direction::Tx, Direction::Rx, Direction::Off];
            let dir = all.into_iter().find(|dir| direction(*dir).eq_ignore_ascii_case(word));
            Value::Dir(dir.ok_or_else(|| unknown("direction", &mut all.into_iter().map(direction)))?)
        }
        Field::Proto => match Proto::of_word(word) {
            Some(proto) => number(proto.0),
            None => return Err(unknown("protocol", &mut Proto::NAMED.iter().map(|(name, _)| *name))),
        },
        Field::Host | Field::Src | Field::Dst => Value::Prefix(Prefix::parse(word).ok_or_else(wrong)?),
        _ if word.is_empty() => return Err(wrong()),
        _ => Value::Name(word.to_owned()),
    })
}

/// The comparison with a number or a range; `None` if it is neither.
fn range(
    op: Op,
    word: &str,
    largest: u64,
    too_large: impl Fn() -> FilterError,
) -> Option<Result<Value, FilterError>> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (from, to) = word.split_once('-').unwrap_or((word, word));
    if !digits(from) || !digits(to) {
        return None;
    }
    let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n <= largest);
    let (Some(from), Some(to)) = (number(from), number(to)) else {
        return Some(Err(too_large()));
    };
    if from > to || from != to && !matches!(op, Op::Equal | Op::Differs) {
        return None;
    }
    // no number is below 0 or above the largest: these ranges end before they begin
    let range = match op {
        Op::Equal | Op::Differs => (from, to),
        Op::Less => from.checked_sub(1).map_or((1, 0), |to| (0, to)),
        Op::AtMost => (0, from),
        Op::More => from.checked_add(1).filter(|from| *from <= largest).map_or((1, 0), |from| (from, largest)),
        Op::AtLeast => (from, largest),
    };
    Some(Ok(Value::Range(range.0, range.1)))
}
