//! A client's request: the contents of a Flight ticket, as JSON.

use crate::memory::Start;
use magscope_core::{CaptureFilter, Filter};
use magscope_export::Table as Flat;
use magscope_session::Table;
use serde::{Deserialize, Serialize};

/// Maximum size of a ticket, bytes: the longest filter plus a margin.
pub const LONGEST_TICKET: usize = 64 << 10;

/// A subscription. All fields except `table` are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// `packets` for all tables in one stream, or one table of a session: `events`, `flows`, `tasks`, `tcp`,
    /// `losses`, `clock`, `changes`, `counts`, `hits`, `heads`. Computed tables are `journeys`, `hops` and
    /// `periods`.
    pub table: String,
    /// The host, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Start position.
    #[serde(default)]
    pub from: Start,
    /// End with the first packet that begins after this instant, nanoseconds of the node's event clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<u64>,
    /// End at the present instead of a wait for more.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pull: bool,
    /// For journeys, hops and periods: only journeys that match, in the syntax of `journeys --where`.
    #[serde(default, rename = "where", skip_serializing_if = "Option::is_none")]
    pub filter_journeys: Option<String>,
    /// For periods: length of each, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    #[serde(flatten)]
    #[allow(missing_docs)]
    pub terms: Terms,
}

/// Filters of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Only events that match, in the syntax of a capture filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Only one in this many flows, whole, and the same ones on every host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows_one_in: Option<u32>,
    /// Maximum payload bytes per head, if the agent captures payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snap: Option<u32>,
    /// Maximum records per second; the excess is reported as missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records_a_second: Option<u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires a reference
fn is_false(value: &bool) -> bool {
    !value
}

/// Content of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamContent {
    /// Packets.
    Packets,
    /// Rows of one table.
    Rows(Table),
    /// Rows of a computed table.
    Flat(Flat),
}

/// Parameters of a computed table.
#[derive(Clone, Debug)]
pub struct Derived {
    /// Journeys, hops or periods.
    pub table: Flat,
    /// Restriction to these journeys.
    pub filter: Option<Filter>,
    /// For periods: length of each, nanoseconds.
    pub every_ns: Option<u64>,
}

impl StreamContent {
    /// All stream contents by name.
    pub fn all() -> impl Iterator<Item = (&'static str, StreamContent)> {
        let tables = Table::ALL.into_iter().filter(|table| *table != Table::Index);
        let flat = [Flat::Journeys, Flat::Hops, Flat::Periods].into_iter();
        std::iter::once(("packets", StreamContent::Packets))
            .chain(tables.map(|table| (table.name(), StreamContent::Rows(table))))
            .chain(flat.map(|table| (table.name(), StreamContent::Flat(table))))
    }
}

impl Request {
    /// Parses a ticket.
    ///
    /// # Errors
    /// The reason for its rejection.
    pub fn parse(ticket: &[u8]) -> Result<Self, String> {
        if ticket.len() > LONGEST_TICKET {
            return Err(format!("the ticket is longer than {LONGEST_TICKET} bytes"));
        }
        serde_json::from_slice(ticket).map_err(|error| format!("the ticket is no request: {error}"))
    }

    /// The ticket's bytes.
    pub fn ticket(&self) -> Vec<u8> {
        // Serialisation of numbers and text cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The content of the stream.
    ///
    /// # Errors
    /// The table does not exist.
    pub fn give(&self) -> Result<StreamContent, String> {
        let found = StreamContent::all().find(|(name, _)| *name == self.table).map(|(_, give)| give);
        found.ok_or_else(|| {
            let names: Vec<_> = StreamContent::all().map(|(name, _)| name).collect();
            let asked: String = self.table.chars().filter(|c| !c.is_control()).take(40).collect();
            format!("there is no table `{asked}`; there are {}", names.join(", "))
        })
    }
}

impl Request {
    /// The parameters of a computed table.
    ///
    /// # Errors
    /// The reason for a rejected request.
    pub fn derived(&self, table: Flat) -> Result<Derived, String> {
        let filter = self.filter_journeys.as_deref().map(Filter::parse).transpose();
        let filter = filter.map_err(|error| format!("`where` is no filter: {error}"))?;
        let every_ms = match (table, self.every_ms) {
            (_, Some(0)) => return Err("`every_ms` is at least 1".to_owned()),
            (Flat::Periods, every_ms) => Some(every_ms.unwrap_or(1_000)),
            (_, _) => None,
        };
        Ok(Derived { table, filter, every_ns: every_ms.map(|ms| ms.saturating_mul(1_000_000)) })
    }
}

impl Terms {
    /// The parsed filter.
    ///
    /// # Errors
    /// The filter is invalid, or an agent does not support it for clients.
    pub fn filter(&self) -> Result<Option<CaptureFilter>, String> {
        let Some(text) = &self.filter else { return Ok(None) };
        let filter = CaptureFilter::parse(text).map_err(|error| format!("the filter is none: {error}"))?;
        match filter.needs_its_host() {
            Some(field) => Err(format!("an agent does not look up names of {field}: give its number")),
            None => Ok(Some(filter)),
        }
    }

    /// The filters as settings of a session, because they removed data on the path to the client.
    pub fn settings(&self) -> Vec<String> {
        let filter = self.filter.as_ref().map(|filter| format!("filter {filter}"));
        let sample =
            self.flows_one_in.filter(|one_in| *one_in > 1).map(|one_in| format!("sample flows 1/{one_in}"));
        filter.into_iter().chain(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_reads_as_what_it_was_made_of() {
        let after = Start::After { stream: "a-b".into(), number: 7, records: 9 };
        let terms = Terms { filter: Some("port 80".into()), snap: Some(0), ..Terms::default() };
        let request = Request { table: "events".into(), from: after, pull: true, terms, ..Request::default() };
        assert_eq!(Request::parse(&request.ticket()), Ok(request));
        let short = Request::parse(br#"{"table":"packets"}"#).unwrap();
        assert_eq!((short.give(), short.from), (Ok(StreamContent::Packets), Start::Now));
    }

    #[test]
    fn what_is_no_request_is_refused_with_a_reason() {
        let parse = |text: &str| Request::parse(text.as_bytes()).and_then(|request| request.give());
        assert!(parse("").unwrap_err().contains("no request"));
        assert!(parse(r#"{"table":"index"}"#).unwrap_err().contains("there are packets, events"));
        assert!(Request::parse(&vec![b'['; LONGEST_TICKET + 1]).unwrap_err().contains("longer"));
        assert!(parse(&"[".repeat(LONGEST_TICKET)).unwrap_err().contains("no request"));
        let filter = |text: &str| Terms { filter: Some(text.into()), ..Terms::default() }.filter();
        assert!(filter("port").unwrap_err().contains("the filter is none"));
        assert!(filter("uid = root").unwrap_err().contains("give its number"));
    }
}
