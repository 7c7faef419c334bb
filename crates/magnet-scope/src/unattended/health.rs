//! The recorder's health line.

use crate::health::Pulse;
use crate::output;
use magscope_scope::format::counted;
use magscope_ship::Status;
use std::fmt::Write;
use std::time::Duration;

/// Totals since the start of the recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records received.
    pub records: u64,
    /// Records lost anywhere.
    pub lost: u64,
    /// Segments closed.
    pub closed: u64,
    /// Segments deleted.
    pub deleted: u64,
    /// Segments deleted before their upload.
    pub unshipped: u64,
}

/// Prints the recorder's state periodically.
pub struct Health {
    pulse: Pulse,
}

impl Health {
    /// Starts now.
    pub fn new(every: Duration) -> Self {
        Health { pulse: Pulse::new(every) }
    }

    /// True if a line is due.
    pub fn is_due(&self) -> bool {
        self.pulse.is_due()
    }

    /// Prints the line.
    pub fn report(&mut self, tally: &Tally, shipping: Option<&Status>) {
        let beat = self.pulse.beat(tally.records);
        let trouble = shipping.and_then(trouble).map_or_else(String::new, |words| format!("; {words}"));
        output::note(&format!(
            "health: {} records ({:.0}/s), {}, {:.1} % of a CPU{trouble}",
            tally.records,
            beat.rate,
            rest(tally, shipping),
            beat.busy,
        ));
    }
}

/// Text about losses and segments.
pub fn rest(tally: &Tally, shipping: Option<&Status>) -> String {
    let mut text = format!("{} lost; segments: {} closed", tally.lost, tally.closed);
    // Writing into a String cannot fail.
    if let Some(Status { segments, waiting, .. }) = shipping {
        let _ = write!(text, ", {segments} shipped, {waiting} waiting");
    }
    let _ = write!(text, ", {} deleted", tally.deleted);
    if let Some(Status { refused, .. }) = shipping {
        let _ = write!(text, " ({} unshipped)", tally.unshipped);
        // Their segments do not wait.
        if *refused > 0 {
            let _ = write!(text, "; {} refused", counted(*refused, "recording", "recordings"));
        }
    }
    text
}

/// The problem of shipping, in words. It may be a refusal, after which other recordings need not wait.
fn trouble(status: &Status) -> Option<String> {
    status.trouble.as_ref().map(|trouble| format!("shipping: {trouble}"))
}

/// What the end of a recorder leaves unshipped, a line each.
pub fn left(status: &Status) -> Vec<String> {
    let waits = "what waits is shipped by the next recorder in the same place, or by `magnet-scope ship`";
    let waits = (status.waiting > 0).then(|| waits.to_owned());
    let trouble = trouble(status).filter(|_| status.waiting > 0 || status.refused > 0);
    waits.into_iter().chain(trouble).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_became_of_all() {
        let tally = Tally { records: 9, lost: 1, closed: 5, deleted: 3, unshipped: 2 };
        assert_eq!(rest(&tally, None), "1 lost; segments: 5 closed, 3 deleted");
        let status = Status { segments: 2, waiting: 1, ..Status::default() };
        let whole = "1 lost; segments: 5 closed, 2 shipped, 1 waiting, 3 deleted (2 unshipped)";
        assert_eq!(rest(&tally, Some(&status)), whole);
        let status = Status { refused: 1, ..status };
        assert_eq!(rest(&tally, Some(&status)), format!("{whole}; 1 recording refused"));
    }

    #[test]
    fn a_refusal_is_not_said_to_wait() {
        let because = "a recording is refused: the store holds another recording";
        let refused = Status { refused: 1, trouble: Some(because.to_owned()), ..Status::default() };
        assert_eq!(left(&refused), [format!("shipping: {because}")]);
        let both = Status { waiting: 2, ..refused };
        let lines = left(&both);
        assert!(lines.len() == 2 && lines[0].starts_with("what waits is shipped by"), "{lines:?}");
        assert!(left(&Status::default()).is_empty(), "all has arrived");
    }
}
