//! The protocol: one JSON object per line, in both directions. `docs/client.md` has examples.
//!
//! The agent uses the same types, so that both sides agree.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Maximum length of a line in either direction, bytes including its end.
pub const LONGEST_LINE: usize = 4 << 10;
/// Maximum number of receives in a window.
pub const MOST_RECEIVES: u32 = 10_000;
/// Maximum length of a time window, seconds.
pub const LONGEST_WINDOW_S: f64 = 3_600.0;
/// Minimum interval of notifications, seconds.
pub const LEAST_PAUSE_S: f64 = 0.02;

/// A program's request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Starts a watch.
    Watch(Watching),
    /// Queries the watch of this number.
    Ask(u32),
    /// Ends the watch of this number.
    End(u32),
}

/// Parameters of a watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watching {
    /// The subject.
    pub of: WatchSubject,
    /// The window.
    pub window: Window,
    /// Notification, if wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
}

/// Subject of a watch. Root may watch all of them, others only the first two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum WatchSubject {
    /// The socket whose file descriptor accompanies the line (`SCM_RIGHTS`): possession grants access.
    Socket,
    /// The process that connected.
    Process,
    /// The cgroup of the process that connected.
    Container,
    /// A socket by its cookie (`SO_COOKIE`).
    Cookie(u64),
    /// A process by its id in the initial namespace.
    Pid(u32),
    /// A cgroup by its path below the root of the hierarchy: `/system.slice/nginx.service`.
    Cgroup(String),
    /// A flow by its addresses.
    Flow(FourTuple),
}

/// A flow from the view of one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FourTuple {
    /// `tcp` or `udp`.
    pub proto: Transport,
    /// Local address.
    pub local: SocketAddr,
    /// Remote address.
    pub remote: SocketAddr,
    /// Inode number of its network namespace, if several have the same addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<u32>,
}

/// A protocol that has sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The sliding window of the short-term averages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Window {
    /// The last this many receives, sends, or journeys.
    Receives(u32),
    /// The last this many seconds, by the events' own time.
    Seconds(f64),
}

/// Conditions of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// The figure.
    #[serde(default)]
    pub of: Figure,
    /// Minimum relative change since the last notification: 0.1 for a tenth.
    pub change: f64,
    /// Minimum interval since the last notification, seconds.
    #[serde(default = "least_pause_s")]
    pub pause_s: f64,
}

const fn least_pause_s() -> f64 {
    LEAST_PAUSE_S
}

/// A figure for notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Received bytes per second in the window.
    #[default]
    Received,
    /// Sent bytes per second.
    Sent,
    /// The mean latency.
    Latency,
}

/// An agent's reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The watch has started.
    Watching(WatchStarted),
    /// Averages in answer to a query.
    Averages(Box<Averages>),
    /// Averages in a notification.
    Changed(Box<Averages>),
    /// The watch of this number has ended.
    Ended(u32),
    /// The request was refused.
    Error(Refusal),
}

/// A watch that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchStarted {
    /// Its number on this connection.
    pub id: u32,
    /// Start time, events' clock: everything after this line is counted.
    pub since_ns: u64,
}

/// Reason for a refusal, for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}: {likely}; {next}")]
pub struct Refusal {
    /// The failed operation and its object.
    pub what: String,
    /// The likely cause.
    pub likely: String,
    /// The remedy.
    pub next: String,
}

/// Averages of a watch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Averages {
    /// The watch's number.
    pub id: u32,
    /// Start time, nanoseconds of the events' clock (`CLOCK_MONOTONIC`).
    pub since_ns: u64,
    /// Time of the last included events.
    pub as_of_ns: u64,
    /// Age of that time at the moment of writing.
    pub age_ns: u64,
    /// Received data.
    pub received: FigureOrReason<Rate>,
    /// Sent data.
    pub sent: FigureOrReason<Rate>,
    /// Latency to this host's reader.
    pub latency: FigureOrReason<Latency>,
    /// Lost records of the capture, of any socket, since the start of the earliest window: figures may be too
    /// low.
    pub lost: u64,
    /// Lost records since `since_ns`.
    pub lost_overall: u64,
    /// Active filters and samplers as command-line settings: figures cover the accepted events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaves_out: Vec<String>,
    /// Reason for a later start time: a hop was switched off meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted: Option<String>,
}

/// A figure, or the reason for its absence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FigureOrReason<T> {
    /// No figure.
    Unknown {
        /// The reason.
        unknown: String,
    },
    /// The figure.
    Is(T),
}

impl<T> FigureOrReason<T> {
    /// The figure, if there is one.
    pub const fn get(&self) -> Option<&T> {
        match self {
            FigureOrReason::Is(figure) => Some(figure),
            FigureOrReason::Unknown { .. } => None,
        }
    }
}

/// Calls and bytes per time, in the window and overall.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// In the window.
    pub window: Span,
    /// Since the watch began, up to the last call.
    pub overall: Span,
    /// Events represented by each received one under a sampler; otherwise 1. The weight scales `bytes_per_s`,
    /// and no count.
    pub weight: f64,
}

/// Calls and bytes within a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Start, events' clock; exclusive.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// Calls that received or sent data.
    pub calls: u64,
    /// Bytes of these calls.
    pub bytes: u64,
    /// Bytes per second; `None` for an empty period.
    pub bytes_per_s: Option<f64>,
}

/// Latency of journeys read here, from their first seen hop to the read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Read time of the window's first journey.
    pub from_ns: u64,
    /// Read time of its last.
    pub to_ns: u64,
    /// Number of journeys; each is a datagram or a piece of a byte stream that was sent, carried and read as
    /// one.
    pub journeys: u64,
    /// Mean, nanoseconds.
    pub mean_ns: f64,
    /// Median, nanoseconds, within one part in sixteen.
    pub p50_ns: u64,
    /// 99th percentile, nanoseconds, within one part in sixteen.
    pub p99_ns: u64,
    /// The first seen hops: `app.send` for a sender on this host, `dev.recv` for one elsewhere.
    pub first_seen_at: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_the_lines_that_are_documented() {
        let watching = |of, window, push| Request::Watch(Watching { of, window, push });
        let flow = FourTuple {
            proto: Transport::Tcp,
            local: "10.0.0.1:80".parse().expect("an address"),
            remote: "10.0.0.2:5000".parse().expect("an address"),
            netns: None,
        };
        let push = Push { of: Figure::Received, change: 0.1, pause_s: 0.1 };
        let a_second = Window::Seconds(1.0);
        for (line, request) in [
            (
                r#"{"watch":{"of":"socket","window":{"receives":1000}}}"#,
                watching(WatchSubject::Socket, Window::Receives(1_000), None),
            ),
            (r#"{"ask":1}"#, Request::Ask(1)),
            (r#"{"end":1}"#, Request::End(1)),
            (
                r#"{"watch":{"of":"process","window":{"seconds":0.5},"push":{"of":"received","change":0.1,"pause_s":0.1}}}"#,
                watching(WatchSubject::Process, Window::Seconds(0.5), Some(push)),
            ),
            (
                r#"{"watch":{"of":{"pid":1},"window":{"seconds":1.0}}}"#,
                watching(WatchSubject::Pid(1), a_second, None),
            ),
            (
                r#"{"watch":{"of":{"cgroup":"/a/b"},"window":{"seconds":1.0}}}"#,
                watching(WatchSubject::Cgroup("/a/b".to_owned()), a_second, None),
            ),
            (
                r#"{"watch":{"of":{"flow":{"proto":"tcp","local":"10.0.0.1:80","remote":"10.0.0.2:5000"}},"window":{"seconds":1.0}}}"#,
                watching(WatchSubject::Flow(flow), a_second, None),
            ),
        ] {
            assert_eq!(serde_json::to_string(&request).expect("it is written"), line);
            assert_eq!(serde_json::from_str::<Request>(line).expect("it is read"), request);
        }
        for wrong in [
            r#"{"ask":1,"end":1}"#,
            r#"{"watch":{"of":"socket","window":{"seconds":1},"x":1}}"#,
            r#"{"say":1}"#,
        ] {
            assert!(serde_json::from_str::<Request>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_figure_is_known_or_says_why_not() {
        let unknown: FigureOrReason<Rate> =
            serde_json::from_str(r#"{"unknown":"it is off"}"#).expect("it is read");
        assert_eq!(
            (unknown.get(), serde_json::to_string(&unknown).ok()),
            (None, Some(r#"{"unknown":"it is off"}"#.to_owned()))
        );
        let figure =
            FigureOrReason::Is(Rate { window: Span::default(), overall: Span::default(), weight: 1.0 });
        let line = serde_json::to_string(&figure).expect("it is written");
        assert_eq!(serde_json::from_str::<FigureOrReason<Rate>>(&line).expect("it is read"), figure);
    }
}
