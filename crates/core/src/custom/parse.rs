//! The text form of a custom probe: `fentry:tcp_rcv_established after=tcp.recv len=skb->len sk->sk_rcvbuf`.
//!
//! Words are separated by blanks. The first is the target; `name=`, `after=` and `as=` are options. Every other
//! word is a value, named by the text before `=` or by its last field.

use super::{Attach, CustomProbe, MOST_VALUES, Mark, ProbeValue, ValueKind};
use crate::hop::{Hop, UnknownHop};
use crate::words;
use std::str::FromStr;

/// The reason why words are no probe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadProbe {
    /// Empty text.
    #[error("a probe begins with where it stands, as in `fentry:tcp_rcv_established`")]
    Empty,
    /// Unknown attachment type.
    #[error(
        "`{0}` is no kind of probe; there are fentry, fexit, kprobe, kretprobe, tracepoint, tp_btf, uprobe and uretprobe"
    )]
    Kind(String),
    /// No function, tracepoint or file after the colon.
    #[error("`{kind}:` needs {expected}, found `{found}`")]
    Target {
        /// Kind of probe.
        kind: &'static str,
        /// With an example.
        expected: &'static str,
        /// The text found.
        found: String,
    },
    /// A name that would be parsed as something else.
    #[error("`{0}` is no name: letters, digits, `.`, `_` and `-`, at most 32 of them, beginning with a letter")]
    Name(String),
    /// The same name twice.
    #[error("two values are called `{0}`; give one a name of its own: `other={0}`")]
    Twice(String),
    /// Not a path to a number.
    #[error(
        "`{0}` is no value: a name, or fields behind a name, as in `skb->len` or `sk->sk_wmem_alloc.refs.counter`"
    )]
    Value(String),
    /// More values than a record holds.
    #[error("{0} values; a probe reads at most {MOST_VALUES}")]
    TooMany(usize),
    /// Unknown hop.
    #[error(transparent)]
    After(#[from] UnknownHop),
    /// A hop off the path, which has no place behind it.
    #[error("{0} is not on the path of a packet, so nothing stands behind it")]
    OffPath(Hop),
    /// Unknown display type.
    #[error("`as={0}`: a probe is shown as a hop, a point or a loadline")]
    Mark(String),
    /// A hop without a place.
    #[error("a probe that is shown as a hop needs its place: `after=tcp.recv`")]
    NoPlace,
    /// A loadline of nothing.
    #[error("a probe that is shown as a loadline needs a value to draw")]
    NothingToDraw,
}

/// Longest name of a probe or value.
const LONGEST_NAME: usize = 32;
/// Maximum length of a target and of a value: paths are at most this long, symbols shorter.
const LONGEST_WORD: usize = 4096;

fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

fn is_symbol(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST_WORD
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '@'))
}

/// Fields behind a name, with an optional cast to another structure (`sk:tcp_sock`). `->` and `.` are
/// equivalent, because types decide the access.
fn is_path(text: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let (first, rest) = text.split_once(':').map_or((None, text), |(first, rest)| (Some(first), rest));
    text.len() <= LONGEST_WORD && first.is_none_or(is_word) && rest.replace("->", ".").split('.').all(is_word)
}

fn target(attach: Attach, text: &str) -> Result<(), BadProbe> {
    let wrong = |expected| Err(BadProbe::Target { kind: attach.name(), expected, found: words::shown(text) });
    match attach {
        Attach::Tracepoint => match text.split_once(':') {
            Some((category, name)) if is_symbol(category) && is_symbol(name) => Ok(()),
            _ => wrong("a category and a name, as in `tracepoint:skb:kfree_skb`"),
        },
        Attach::Uprobe | Attach::Uretprobe => match text.rsplit_once(':') {
            Some((path, symbol))
                if path.starts_with('/') && path.len() <= LONGEST_WORD && is_symbol(symbol) =>
            {
                Ok(())
            }
            _ => wrong("a file and a symbol, as in `uprobe:/bin/bash:readline`"),
        },
        _ if is_symbol(text) => Ok(()),
        _ => wrong("the name of a function, as in `fentry:tcp_rcv_established`"),
    }
}

impl FromStr for CustomProbe {
    type Err = BadProbe;

    fn from_str(text: &str) -> Result<Self, BadProbe> {
        let mut words = text.split_whitespace();
        let first = words.next().ok_or(BadProbe::Empty)?;
        let (kind, place) = first.split_once(':').unwrap_or((first, ""));
        let attach = Attach::ALL.into_iter().find(|attach| attach.name() == kind);
        let attach = attach.ok_or_else(|| BadProbe::Kind(words::shown(kind)))?;
        target(attach, place)?;
        let (mut name, mut after, mut mark, mut values) = (None, None, None, Vec::<ProbeValue>::new());
        for word in words {
            match word.split_once('=') {
                Some(("name", given)) if is_name(given) => name = Some(given.to_owned()),
                Some(("name", given)) => return Err(BadProbe::Name(words::shown(given))),
                Some(("after", hop)) => after = Some(hop.parse::<Hop>()?),
                Some(("as", "hop")) => mark = Some(Mark::Hop),
                Some(("as", "point")) => mark = Some(Mark::Point),
                Some(("as", "loadline")) => mark = Some(Mark::Loadline),
                Some(("as", other)) => return Err(BadProbe::Mark(words::shown(other))),
                Some((name, expr)) => values.push(value(Some(name), expr)?),
                None => values.push(value(None, word)?),
            }
        }
        if values.len() > MOST_VALUES {
            return Err(BadProbe::TooMany(values.len()));
        }
        for (at, value) in values.iter().enumerate() {
            if values[..at].iter().any(|other| other.name == value.name) {
                return Err(BadProbe::Twice(value.name.clone()));
            }
        }
        if let Some(hop) = after
            && hop.rank().is_none()
        {
            return Err(BadProbe::OffPath(hop));
        }
        let mark = mark.unwrap_or(match (after, values.is_empty()) {
            (Some(_), _) => Mark::Hop,
            (None, false) => Mark::Loadline,
            (None, true) => Mark::Point,
        });
        match mark {
            Mark::Hop if after.is_none() => return Err(BadProbe::NoPlace),
            Mark::Loadline if values.is_empty() => return Err(BadProbe::NothingToDraw),
            _ => {}
        }
        let name = name.unwrap_or_else(|| default_name(place));
        Ok(CustomProbe { name, attach, target: place.to_owned(), after, mark, values })
    }
}

/// The text after the last colon, reduced to characters that are valid in a name.
fn default_name(target: &str) -> String {
    let last = target.rsplit(':').next().unwrap_or(target);
    let name: String =
        last.chars().take(LONGEST_NAME).map(|c| if c == '@' || c == '$' { '_' } else { c }).collect();
    if is_name(&name) { name } else { "probe".to_owned() }
}

fn value(name: Option<&str>, expr: &str) -> Result<ProbeValue, BadProbe> {
    if !is_path(expr) {
        return Err(BadProbe::Value(words::shown(expr)));
    }
    // Of `retval:int32` the register, of `sk:tcp_sock->snd_cwnd` the last field.
    let last = expr.rsplit(['.', '>']).next().unwrap_or(expr);
    let last = last.split(':').next().unwrap_or(last);
    let name = name.unwrap_or_else(|| last.get(..LONGEST_NAME).unwrap_or(last));
    if !is_name(name) {
        return Err(BadProbe::Name(words::shown(name)));
    }
    Ok(ProbeValue { name: name.to_owned(), expr: expr.to_owned(), kind: ValueKind::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> CustomProbe {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn words_become_probes_that_print_as_themselves() {
        for (typed, printed) in [
            ("fentry:tcp_rcv_established", "fentry:tcp_rcv_established name=tcp_rcv_established as=point"),
            (
                "kprobe:tcp_sendmsg name=send after=app.send n=size sk->sk_wmem_queued",
                "kprobe:tcp_sendmsg name=send after=app.send as=hop n=size sk_wmem_queued=sk->sk_wmem_queued",
            ),
            (
                "tracepoint:skb:kfree_skb reason",
                "tracepoint:skb:kfree_skb name=kfree_skb as=loadline reason=reason",
            ),
            (
                "uprobe:/lib/libc.so.6:malloc size=arg0 as=point",
                "uprobe:/lib/libc.so.6:malloc name=malloc as=point size=arg0",
            ),
            (
                "uretprobe:/lib/libc.so.6:close retval:int32",
                "uretprobe:/lib/libc.so.6:close name=close as=loadline retval=retval:int32",
            ),
            (
                "fentry:try_fill_recv  name=refill   free=rq->vq->num_free",
                "fentry:try_fill_recv name=refill as=loadline free=rq->vq->num_free",
            ),
        ] {
            let probe = read(typed);
            assert_eq!(probe.to_string(), printed);
            assert_eq!(read(printed), probe);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (wrong, part) in [
            ("", "begins with"),
            ("probe:x", "no kind"),
            ("fentry", "fentry:tcp_rcv_established"),
            ("fentry:", "function"),
            ("tracepoint:skb", "category"),
            ("uprobe:libc:malloc", "file"),
            ("kprobe:f name=3x", "no name"),
            ("kprobe:f a->x b->x", "called `x`"),
            ("kprobe:f a b c d e", "5 values"),
            ("kprobe:f x=a[3]", "no value"),
            ("kprobe:f after=tcp.rcv", "tcp.recv"),
            ("kprobe:f after=skb.drop", "not on the path"),
            ("kprobe:f as=line", "hop, a point or a loadline"),
            ("kprobe:f as=hop", "after=tcp.recv"),
            ("kprobe:f as=loadline", "a value to draw"),
        ] {
            let error = wrong.parse::<CustomProbe>().expect_err(wrong).to_string();
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_probe_that_prints_as_itself_or_an_error(
            text in "(fentry|kprobe|uprobe|tracepoint|tp_btf):[a-z/_:.]{0,20}( [a-z=>.0-9-]{0,12}){0,4}|\\PC{0,60}",
        ) {
            if let Ok(probe) = text.parse::<CustomProbe>() {
                prop_assert_eq!(probe.to_string().parse(), Ok(probe));
            }
        }
    }
}
