//! Exchanges as text: the table of groups, then the slowest as bars of their parts on a line of time.

use super::Found;
use super::row::Row;
use crate::day;
use magscope_core::exchange::{ExchangePart, NestedBy};
use magscope_report::requests::write_requests;
use magscope_report::wrap;
use magscope_scope::format::{bytes, count, duration};
use std::fmt::Write;

/// Columns of the names of parts.
const NAMES: usize = 22;
/// Columns of sizes and of times.
const SIZE: usize = 8;
const TIME: usize = 8;
/// Narrowest and widest bars.
const BAR: (usize, usize) = (8, 60);
/// Number of inner exchanges in a text.
const MOST_INNER: usize = 8;

/// The page.
pub fn page(found: &Found, width: usize) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let _ = write_requests(&mut text, &found.table, width);
    if found.not_matching > 0 {
        let _ = writeln!(text, "{} do not match", count(found.not_matching));
        if found.incomparable > 0 {
            paragraph(&mut text, &lacking(found.incomparable), width, "  ");
        }
    }
    if found.exchanges.is_empty() {
        return text;
    }
    let date = found.exchanges.iter().find_map(|row| day::of(row.start_utc.as_deref()?));
    let title = date.map_or_else(String::new, |date| format!(", {date} UTC"));
    let _ = writeln!(text, "\nthe slowest{title}");
    for row in &found.exchanges {
        exchange(&mut text, row, date.unwrap_or_default(), width);
    }
    text
}

/// Why exchanges lack a number that `--where` compares, in words.
fn lacking(incomparable: u64) -> String {
    let lack = if incomparable == 1 { "lacks" } else { "lack" };
    format!(
        "{} of them {lack} what `--where` compares: an end or a hop is not in the capture, the grade has no times, or \
         it is the first of its connection and has no pause",
        count(incomparable)
    )
}

fn exchange(text: &mut String, row: &Row, date: &str, width: usize) {
    let time = day::under(date, row.start_utc.as_deref());
    let length = match (row.total_ns, row.answer_ns, row.envelope_ns) {
        (Some(ns), ..) => compact(&duration(ns)),
        (None, Some(ns), _) => format!("answered in {}", compact(&duration(ns))),
        (None, None, Some(ns)) => format!("{} from first byte to last,", compact(&duration(ns))),
        (None, None, None) => String::new(),
    };
    let head = format!(
        "#{} {time} {} → {} {} {length} {}",
        row.id,
        row.requester.words(),
        row.responder.words(),
        row.responder.addr,
        row.grade,
    );
    text.push('\n');
    paragraph(text, &head, width, "  ");
    if let Some(why) = &row.broken_because {
        paragraph(text, &format!("  {why}"), width, "  ");
    }
    let bar = width.saturating_sub(2 + NAMES + 1 + SIZE + 1 + TIME + 1).clamp(BAR.0, BAR.1);
    let mut drawn = Bar { at_ns: 0, total_ns: row.total_ns.unwrap_or(0), columns: bar };
    let parts = [
        (ExchangePart::RequestTransfer, Some(&row.request), row.request.ns),
        (ExchangePart::UntilAnswered, None, row.answer_ns),
        (ExchangePart::ResponseTransfer, Some(&row.response), row.response.ns),
    ];
    for ((part, transfer, ns), note) in parts.into_iter().zip(&row.notes) {
        let size = transfer.map_or_else(String::new, |transfer| compact(&bytes(transfer.bytes)));
        let time = ns.map_or_else(|| "·".to_owned(), duration);
        let bar = ns.map(|ns| drawn.next(ns)).unwrap_or_default();
        let line = format!("  {:<NAMES$} {size:>SIZE$} {time:>TIME$} {bar}", part.words());
        let _ = writeln!(text, "{}", line.trim_end());
        let resent = transfer.map_or(0, |transfer| transfer.retransmits);
        let resent = (resent > 0).then(|| format!("sent again {resent}×"));
        let notes: Vec<String> =
            [note.clone()].into_iter().filter(|note| !note.is_empty()).chain(resent).collect();
        if !notes.is_empty() {
            paragraph(text, &format!("    {}", notes.join(", ")), width, "    ");
        }
        if part == ExchangePart::UntilAnswered {
            during(text, row, width);
        }
    }
}

fn during(text: &mut String, row: &Row, width: usize) {
    for inner in row.during.iter().take(MOST_INNER) {
        let proof = match inner.by {
            NestedBy::SameThread => "same thread",
            NestedBy::SameProcess => "same process",
        };
        let took = inner.envelope_ns.map_or_else(String::new, |ns| format!(" {}", duration(ns)));
        let line = format!("    during: #{} {}{took} ({proof})", inner.exchange, inner.what);
        paragraph(text, &line, width, "      ");
    }
    if row.during.len() > MOST_INNER {
        let _ = writeln!(text, "    and {} more (`--json` has them)", row.during.len() - MOST_INNER);
    }
}

/// Bars that follow each other.
struct Bar {
    at_ns: u64,
    total_ns: u64,
    columns: usize,
}

impl Bar {
    fn next(&mut self, ns: u64) -> String {
        let column = |ns: u64| {
            let at = u128::from(ns) * self.columns as u128 / u128::from(self.total_ns.max(1));
            usize::try_from(at).unwrap_or(self.columns).min(self.columns)
        };
        if self.total_ns == 0 {
            return String::new();
        }
        let from = column(self.at_ns).min(self.columns - 1);
        self.at_ns = self.at_ns.saturating_add(ns);
        let to = column(self.at_ns).max(from + 1);
        let fill = if to - from == 1 && column(self.at_ns) == from { "▏" } else { "█" };
        format!("{}{}", " ".repeat(from), fill.repeat(to - from))
    }
}

fn compact(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes text with line breaks at blanks.
fn paragraph(text: &mut String, line: &str, width: usize, indent: &str) {
    // Writing into a String cannot fail.
    let _ = wrap(text, line, width, indent);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_exchange_of_a_connection_lacks_its_pause() {
        assert!(lacking(6).starts_with("6 of them lack what `--where` compares"));
        assert!(lacking(1).starts_with("1 of them lacks "));
        assert!(lacking(6).ends_with("or it is the first of its connection and has no pause"));
    }
}
