//! The headline: the worst true thing about a capture in one line, or that nothing is wrong.
//!
//! [`Findings`] adds up journeys by service while they arrive. [`headline`] is a pure function of these sums, of the table of
//! requests and of the [counts](magscope_core::Counts). Terminal, window and `report` print its result.
//!
//! The candidates, and the evidence that each needs:
//!
//! | what | evidence |
//! |---|---|
//! | packets lost | journeys of one service with the verdict dropped or lost; the kernel's reason, or the last hop |
//! | packets too late | dropped journeys of TCP that their reader answered with a reset: it had closed the connection |
//! | datagrams unread | dropped datagrams that made their socket ready, without a reason: the socket was closed |
//! | slow answers | requests of the grade turn; the parts of the slowest hundredth add up to their time |
//! | another service is slow | the same, and the answering thread spent most of it in exchanges that it began itself |
//! | single long answers | a turn of 100 ms or more, among quick ones or among few |
//! | slow journeys | complete journeys; the largest part of the blame of the slowest |
//! | retransmissions | journeys with more than one copy |
//! | asked again | turns, and requests without an answer, of UDP ports whose protocol asks with one datagram |
//! | no connection | attempts to connect that failed, or that their programs gave up; their SYNs, if they arrived |
//! | no answer | most requests of a service are of the grade unanswered |
//!
//! The order: loss of a hundredth or more of a service, then peers that most attempts do not reach, then services that
//! leave most requests without an answer, then times from [`SLOW_NS`] on and retransmissions that somebody waited for by
//! their size, with what came too late among them, then smaller loss, datagrams that nobody read, single long times, and
//! requests that were asked again. Of losses the number counts as well as the share. Without a candidate the line
//! states what was seen: *nothing is wrong* needs journeys with a seen end, and names what the instrument did not see:
//! missed events, broken journeys, hops off. Ambiguous journeys have times that may be a neighbour's, so no statement on
//! times is of them. If more events are missing than there are, only drops that have records are stated.
//!
//! **Known limits.** A service is a port: two processes behind equal ports of two hosts are one. The limit of
//! [`SLOW_NS`] is the same for every service, because a capture does not state what is expected. The last bytes of a
//! connection may need no answer, so half of the requests may lack theirs without a headline. A service of TCP that never
//! answers by its protocol looks like one that fails to; of UDP only ports whose protocol answers are named then. Fewer than
//! ten requests have no percentile: below 100 ms none of them is named.

mod findings;
mod rules;
mod slow;
#[cfg(test)]
mod tests;

pub use findings::Findings;
pub use rules::{Facts, REQUEST_SERVICES, SLOW_NS, headline};

use serde::{Serialize, Serializer};

/// Kind of a headline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeadlineKind {
    /// Nothing was observed, or no end of a journey.
    #[default]
    Unknown,
    /// Nothing is wrong, as far as the capture shows.
    NothingWrong,
    /// The network dropped or lost journeys.
    Loss,
    /// Something takes long, came too late, or was thrown away unread.
    Slow,
    /// TCP sent again, or a program asked again.
    Retransmissions,
    /// Attempts to connect failed.
    Unreached,
    /// A service was asked and does not answer.
    Unanswered,
    /// So many events were missed that nothing else can be concluded.
    MissedEvents,
}

impl HeadlineKind {
    /// True if the network or a program does something wrong.
    pub const fn is_wrong(self) -> bool {
        match self {
            Self::Loss | Self::Slow | Self::Retransmissions | Self::Unreached | Self::Unanswered => true,
            Self::Unknown | Self::NothingWrong | Self::MissedEvents => false,
        }
    }
}

/// Where the evidence is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// Nowhere in particular.
    #[default]
    None,
    /// Journeys, by the keys that [`Findings::journey`] was given, the best first. A screen may have forgotten that one.
    Journeys(Vec<u64>),
    /// The exchange with this number.
    Request(u64),
    /// The event at this instant, nanoseconds.
    Event(u64),
    /// The counts of drops and of missed events.
    Losses,
}

impl Evidence {
    /// The journeys of these keys; `None` without any.
    pub fn journeys(keys: impl IntoIterator<Item = u64>) -> Self {
        let keys: Vec<u64> = keys.into_iter().collect();
        if keys.is_empty() { Self::None } else { Self::Journeys(keys) }
    }
}

/// The headline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headline {
    /// Its kind.
    pub kind: HeadlineKind,
    /// One line.
    pub text: String,
    /// Where the evidence is.
    pub evidence: Evidence,
}

impl Serialize for Headline {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Headline", 2)?;
        fields.serialize_field("kind", &self.kind)?;
        fields.serialize_field("text", &self.text)?;
        fields.end()
    }
}
