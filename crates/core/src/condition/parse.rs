//! Parser of conditions: recursive descent, up to a depth of [`MAX_DEPTH`].

use super::lex::{Kind, Token, tokens};
use super::words::{canonical, explained};
use super::{Expr, FilterError, MAX_DEPTH, Problem};

/// Parses one comparison at the parser's position.
type Reads<T> = fn(&mut Parser<'_>) -> Result<Expr<T>, FilterError>;

/// Parses a complete condition. `comparison` describes a comparison with an example, for the error without one.
pub fn parse<T>(text: &str, comparison: &'static str, test: Reads<T>) -> Result<Expr<T>, FilterError> {
    let tokens = canonical(tokens(text)?);
    let mut parser = Parser { tokens: &tokens, comparison };
    let expr = parser.any(test, 0).map_err(|error| explained(error, &tokens, comparison))?;
    match parser.next() {
        (_, Kind::End) => Ok(expr),
        (position, other) => Err(FilterError::expected(position, "`and`, `or` or the end", other.to_string())),
    }
}

/// The unread tokens. The last one, [`Kind::End`], is never consumed.
pub struct Parser<'a> {
    tokens: &'a [Token],
    comparison: &'static str,
}

impl<'a> Parser<'a> {
    /// The next token and its position.
    pub fn peek(&self) -> (usize, &'a Kind) {
        self.tokens.first().map_or((1, &Kind::End), |token| (token.position, &token.kind))
    }

    /// Consumes the next token.
    pub fn next(&mut self) -> (usize, &'a Kind) {
        let next = self.peek();
        if let [_, rest @ ..] = self.tokens
            && !rest.is_empty()
        {
            self.tokens = rest;
        }
        next
    }

    /// Consumes the next token if it is this word.
    fn word_is(&mut self, word: &str) -> bool {
        let is = matches!(self.peek().1, Kind::Word(next) if next.eq_ignore_ascii_case(word));
        if is {
            self.next();
        }
        is
    }

    /// Consumes the next token, which must be this one.
    pub fn want(&mut self, kind: &Kind) -> Result<(), FilterError> {
        match self.next() {
            (_, next) if next == kind => Ok(()),
            (position, next) => Err(FilterError::expected(position, kind.to_string(), next.to_string())),
        }
    }

    fn any<T>(&mut self, test: Reads<T>, depth: usize) -> Result<Expr<T>, FilterError> {
        let mut list = vec![self.all(test, depth)?.0];
        while self.word_is("or") {
            let (expr, and) = self.all(test, depth)?;
            if let Some(position) = and {
                return Err(FilterError { position, problem: Problem::Mixed });
            }
            list.push(expr);
        }
        Expr::any(list).ok_or_else(|| self.no_comparison())
    }

    /// A conjunction, and the position of its first `and`.
    fn all<T>(&mut self, test: Reads<T>, depth: usize) -> Result<(Expr<T>, Option<usize>), FilterError> {
        let mut list = vec![self.one(test, depth)?];
        let (position, _) = self.peek();
        while self.word_is("and") {
            list.push(self.one(test, depth)?);
        }
        let and = (list.len() > 1).then_some(position);
        Ok((Expr::all(list).ok_or_else(|| self.no_comparison())?, and))
    }

    /// The error for a token that is no comparison.
    pub fn no_comparison(&self) -> FilterError {
        let (position, found) = self.peek();
        FilterError::expected(position, self.comparison, found.to_string())
    }

    fn one<T>(&mut self, test: Reads<T>, depth: usize) -> Result<Expr<T>, FilterError> {
        let (position, _) = self.peek();
        if depth > MAX_DEPTH {
            return Err(FilterError { position, problem: Problem::TooDeep });
        }
        if self.word_is("not") {
            return Ok(Expr::Not(Box::new(self.one(test, depth + 1)?)));
        }
        if self.peek().1 == &Kind::Open {
            self.next();
            let inner = self.any(test, depth + 1)?;
            self.want(&Kind::Close)?;
            return Ok(inner);
        }
        let mut list = vec![test(self)?];
        while self.peek().1 == &Kind::Qualifies {
            self.next();
            list.push(test(self)?);
        }
        Expr::all(list).ok_or_else(|| self.no_comparison())
    }
}
