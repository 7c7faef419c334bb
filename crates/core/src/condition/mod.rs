//! Conditions: comparisons joined by `and`, `or`, `not` and parentheses, generic over the comparison.
//!
//! `not` is of the next comparison, or parenthesis. `and` before `or` goes first; behind an `or` it needs parentheses, so that
//! no text has another meaning than in tcpdump.
//!
//! The journeys' filter ([`crate::filter`]) and the capture filter ([`crate::capture_filter`]) differ in their
//! comparisons alone.

mod error;
mod lex;
mod parse;
mod words;

pub use error::{FilterError, Problem};
pub(crate) use lex::{Kind, Op, write_name};
pub(crate) use parse::{Parser, parse};
pub(crate) use words::Language;

use std::fmt;

/// Maximum depth of parentheses and `not`s: deeper ones are rejected, so that no text overflows the stack.
pub const MAX_DEPTH: usize = 64;
/// Characters of a condition, at most.
pub const MAX_CHARS: usize = 10_000;

/// A name as a condition reads it: in quotes where it needs them.
pub fn quoted(name: &str) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_name(&mut text, name);
    text
}

/// A condition on comparisons of type `T`. Parsed lists have at least two elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr<T> {
    /// Conjunction.
    All(Vec<Expr<T>>),
    /// Disjunction.
    Any(Vec<Expr<T>>),
    /// The opposite.
    Not(Box<Expr<T>>),
    /// A comparison.
    Test(T),
}

impl<T> Expr<T> {
    /// Conjunction; nested lists are flattened, so that one condition has one form. `None` for an empty list.
    pub fn all(list: Vec<Self>) -> Option<Self> {
        join(list, |expr| if let Expr::All(inner) = expr { Ok(inner) } else { Err(expr) }, Expr::All)
    }

    /// Disjunction, likewise. `None` for an empty list.
    pub fn any(list: Vec<Self>) -> Option<Self> {
        join(list, |expr| if let Expr::Any(inner) = expr { Ok(inner) } else { Err(expr) }, Expr::Any)
    }

    /// Visits its comparisons, in order of the text.
    pub fn tests(&self, with: &mut impl FnMut(&T)) {
        match self {
            Expr::All(list) | Expr::Any(list) => list.iter().for_each(|expr| expr.tests(with)),
            Expr::Not(inner) => inner.tests(with),
            Expr::Test(test) => with(test),
        }
    }
}

fn join<T>(
    list: Vec<Expr<T>>,
    same: impl Fn(Expr<T>) -> Result<Vec<Expr<T>>, Expr<T>>,
    of: impl Fn(Vec<Expr<T>>) -> Expr<T>,
) -> Option<Expr<T>> {
    let mut flat = Vec::with_capacity(list.len());
    for expr in list {
        match same(expr) {
            Ok(inner) => flat.extend(inner),
            Err(expr) => flat.push(expr),
        }
    }
    if flat.len() > 1 { Some(of(flat)) } else { flat.pop() }
}

impl<T: fmt::Display> fmt::Display for Expr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, list: &[Expr<T>], word: &str| {
            for (n, expr) in list.iter().enumerate() {
                if n > 0 {
                    write!(f, " {word} ")?;
                }
                // A mixture is read with parentheses alone.
                if matches!(expr, Expr::All(_) | Expr::Any(_)) {
                    write!(f, "({expr})")?;
                } else {
                    write!(f, "{expr}")?;
                }
            }
            Ok(())
        };
        match self {
            Expr::All(all) => list(f, all, "and"),
            Expr::Any(any) => list(f, any, "or"),
            Expr::Not(inner) if matches!(**inner, Expr::All(_) | Expr::Any(_)) => write!(f, "not ({inner})"),
            Expr::Not(inner) => write!(f, "not {inner}"),
            Expr::Test(test) => test.fmt(f),
        }
    }
}
