//! What goes over the socket: one JSON object a line, in both directions. `docs/client.md` has examples of all of it.
//!
//! The agent reads and writes these very types, so that neither side can say what the other does not mean.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The longest line in either direction, bytes with its end.
pub const LONGEST_LINE: usize = 4 << 10;
/// Most receives that a window may have.
pub const MOST_RECEIVES: u32 = 10_000;
/// Longest window in time, seconds.
pub const LONGEST_WINDOW_S: f64 = 3_600.0;
/// Pushes come no closer together than this, seconds.
pub const LEAST_PAUSE_S: f64 = 0.02;

/// What a program says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Begin to watch something.
    Watch(Watching),
    /// How does the watch of this number stand?
    Ask(u32),
    /// End the watch of this number.
    End(u32),
}

/// What to watch, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Watching {
    /// What.
    pub of: What,
    /// Over which window.
    pub window: Window,
    /// Whether to be told without asking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<Push>,
}

/// What can be watched. Root may watch all of it, everybody else the first two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum What {
    /// The socket whose file descriptor comes with the line (`SCM_RIGHTS`): who holds it may ask about it.
    Socket,
    /// The process that connected.
    Process,
    /// The cgroup of the process that connected.
    Container,
    /// A socket by the kernel's number for it (`SO_COOKIE`).
    Cookie(u64),
    /// A process by its number in the initial namespace.
    Pid(u32),
    /// A cgroup by its path below the root of the hierarchy: `/system.slice/nginx.service`.
    Cgroup(String),
    /// A flow by its addresses.
    Flow(FourTuple),
}

/// A flow as one end sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FourTuple {
    /// `tcp` or `udp`.
    pub proto: Transport,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Inode number of its network namespace, where the same addresses may be in several.
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

/// The sliding window that a short-term average is of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Window {
    /// The last so many receives; of what is sent, the last so many sends; of latencies, the last so many journeys.
    Receives(u32),
    /// The last so many seconds, by the events' own time.
    Seconds(f64),
}

/// When to tell without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Push {
    /// Which figure.
    #[serde(default)]
    pub of: Figure,
    /// By which part of what was told last it has to have changed: 0.1 for a tenth.
    pub change: f64,
    /// No sooner than this after the last, seconds.
    #[serde(default = "least_pause_s")]
    pub pause_s: f64,
}

const fn least_pause_s() -> f64 {
    LEAST_PAUSE_S
}

/// A figure whose change can be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Bytes a second that are received, in the window.
    #[default]
    Received,
    /// Bytes a second that are sent.
    Sent,
    /// The mean latency.
    Latency,
}

/// What the agent says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It watches.
    Watching(Begun),
    /// How a watch stands, because it was asked for.
    Averages(Box<Averages>),
    /// The same, because it has changed.
    Changed(Box<Averages>),
    /// The watch of this number has ended.
    Ended(u32),
    /// It does not do that.
    Error(Refusal),
}

/// A watch that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Its number on this connection.
    pub id: u32,
    /// From when on it counts, by the events' clock: everything that happens after this line was read is in it.
    pub since_ns: u64,
}

/// Why not, as a person reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}: {likely}; {next}")]
pub struct Refusal {
    /// What failed and on what.
    pub what: String,
    /// The likely cause.
    pub likely: String,
    /// What to do.
    pub next: String,
}

/// How a watch stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Averages {
    /// The watch's number.
    pub id: u32,
    /// From when on it has counted, nanoseconds of the events' clock (`CLOCK_MONOTONIC`).
    pub since_ns: u64,
    /// Up to when events are in these figures.
    pub as_of_ns: u64,
    /// How long ago that was when this was written.
    pub age_ns: u64,
    /// What was received.
    pub received: Known<Rate>,
    /// What was sent.
    pub sent: Known<Rate>,
    /// How long it took to come here.
    pub latency: Known<Latency>,
    /// Records of the capture, of whichever socket, that are missing since the earliest of the windows began: figures may be too low.
    pub lost: u64,
    /// The same since `since_ns`.
    pub lost_overall: u64,
    /// Settings that leave events out, in the words of the command line: figures are of what was left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaves_out: Vec<String>,
    /// Why it counts from later on than when it was begun: a hop was switched off meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted: Option<String>,
}

/// A figure, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Known<T> {
    /// There is none, because …
    Unknown {
        /// Why.
        unknown: String,
    },
    /// What it is.
    Is(T),
}

impl<T> Known<T> {
    /// The figure, if there is one.
    pub const fn get(&self) -> Option<&T> {
        match self {
            Known::Is(figure) => Some(figure),
            Known::Unknown { .. } => None,
        }
    }
}

/// How much in which time, lately and overall.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// In the window.
    pub window: Span,
    /// Since the watch began, up to the last call.
    pub overall: Span,
    /// How many events each one stands for, where a sampler leaves some out; else 1. It is in `bytes_per_s`, and in no count.
    pub weight: f64,
}

/// Calls and bytes within a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Where it begins, events' clock; what happened at this very instant is not in it.
    pub from_ns: u64,
    /// Where it ends.
    pub to_ns: u64,
    /// Calls that received, or sent, something.
    pub calls: u64,
    /// What they received or sent.
    pub bytes: u64,
    /// `bytes` in that time; none where no time has passed.
    pub bytes_per_s: Option<f64>,
}

/// How long journeys took that were read here, from the first hop at which they were seen to the one at which they were read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// When the window's first was read.
    pub from_ns: u64,
    /// When its last was.
    pub to_ns: u64,
    /// How many, each a datagram or a piece of a byte stream that was sent, carried and read as one.
    pub journeys: u64,
    /// Their mean, nanoseconds.
    pub mean_ns: f64,
    /// Half of them took at most this, to within one part in sixteen.
    pub p50_ns: u64,
    /// Ninety-nine in a hundred took at most this, to within one part in sixteen.
    pub p99_ns: u64,
    /// The hops at which they were seen first: `app.send` of a sender on this host, `dev.recv` of one elsewhere.
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
                watching(What::Socket, Window::Receives(1_000), None),
            ),
            (r#"{"ask":1}"#, Request::Ask(1)),
            (r#"{"end":1}"#, Request::End(1)),
            (
                r#"{"watch":{"of":"process","window":{"seconds":0.5},"push":{"of":"received","change":0.1,"pause_s":0.1}}}"#,
                watching(What::Process, Window::Seconds(0.5), Some(push)),
            ),
            (r#"{"watch":{"of":{"pid":1},"window":{"seconds":1.0}}}"#, watching(What::Pid(1), a_second, None)),
            (
                r#"{"watch":{"of":{"cgroup":"/a/b"},"window":{"seconds":1.0}}}"#,
                watching(What::Cgroup("/a/b".to_owned()), a_second, None),
            ),
            (
                r#"{"watch":{"of":{"flow":{"proto":"tcp","local":"10.0.0.1:80","remote":"10.0.0.2:5000"}},"window":{"seconds":1.0}}}"#,
                watching(What::Flow(flow), a_second, None),
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
        let unknown: Known<Rate> = serde_json::from_str(r#"{"unknown":"it is off"}"#).expect("it is read");
        assert_eq!(
            (unknown.get(), serde_json::to_string(&unknown).ok()),
            (None, Some(r#"{"unknown":"it is off"}"#.to_owned()))
        );
        let known = Known::Is(Rate { window: Span::default(), overall: Span::default(), weight: 1.0 });
        let line = serde_json::to_string(&known).expect("it is written");
        assert_eq!(serde_json::from_str::<Known<Rate>>(&line).expect("it is read"), known);
    }
}
