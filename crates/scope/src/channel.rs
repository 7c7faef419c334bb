//! Channels: the signals that are drawn as loadlines, measured, triggered on and computed with.

use magscope_core::{Layer, TcpSample};
use std::fmt;
use std::str::FromStr;

/// A signal over time. Those of TCP are of one connection: the picked one, or the end of one that sent the most bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// Congestion window, segments.
    Cwnd,
    /// Slow-start threshold, segments.
    Ssthresh,
    /// Smoothed round-trip time, nanoseconds.
    Srtt,
    /// Its variation, nanoseconds.
    Rttvar,
    /// Retransmission time-out, nanoseconds.
    Rto,
    /// Segments in flight.
    PacketsOut,
    /// Retransmissions over the life of the connection, segments.
    Retransmits,
    /// Bytes in the send queue.
    SendQueue,
    /// Bytes received and not yet read.
    RecvQueue,
    /// The peer's receive window, bytes.
    SendWindow,
    /// The own receive window, bytes.
    RecvWindow,
    /// Payload bytes a second through a layer, all flows together.
    Throughput(Layer),
    /// Journeys a second.
    Journeys,
    /// Events a second.
    Events,
    /// Events lost a second.
    Losses,
    /// The busy part of all the host's CPUs together; live only.
    HostCpu,
    /// CPU time of the instrument over wall time.
    OwnCpu,
    /// How full the fullest ring was.
    RingFill,
    /// What a custom probe read. Which scope has it: [`crate::Frame::channels`].
    Value(ValueName),
}

/// Name of a value of a custom probe: the probe's name, a point, the value's. Held inside, so that a channel can be copied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueName {
    bytes: [u8; Self::LONGEST],
    len: u8,
}

impl ValueName {
    /// Bytes of the longest one: two names of 32, and a host where two of them have another probe of this name.
    pub const LONGEST: usize = 80;

    /// Takes a name, if it is one: two words of letters, digits, `_`, `-`, `@` and points, with a point between them.
    pub fn new(text: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '#');
        let (first, rest) = text.split_once('.')?;
        let begins = first.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !rest.is_empty();
        if !begins || text.len() > Self::LONGEST || !text.chars().all(plain) {
            return None;
        }
        let mut bytes = [0; Self::LONGEST];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(ValueName { bytes, len: text.len() as u8 })
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Debug for ValueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// What a value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerS,
    /// So many a second.
    PerS,
    /// Segments, events, journeys.
    Count,
    /// A part of one.
    Ratio,
}

impl Channel {
    /// Every channel that each scope has, those of a connection first.
    pub const ALL: [Channel; 21] = [
        Self::Cwnd,
        Self::Ssthresh,
        Self::Srtt,
        Self::Rttvar,
        Self::Rto,
        Self::PacketsOut,
        Self::Retransmits,
        Self::SendQueue,
        Self::RecvQueue,
        Self::SendWindow,
        Self::RecvWindow,
        Self::Throughput(Layer::Socket),
        Self::Throughput(Layer::Transport),
        Self::Throughput(Layer::Ip),
        Self::Throughput(Layer::Device),
        Self::Journeys,
        Self::Events,
        Self::Losses,
        Self::HostCpu,
        Self::OwnCpu,
        Self::RingFill,
    ];

    /// The word for it, on screens and in prompts.
    pub fn name(&self) -> &str {
        match self {
            Self::Cwnd => "cwnd",
            Self::Ssthresh => "ssthresh",
            Self::Srtt => "srtt",
            Self::Rttvar => "rttvar",
            Self::Rto => "rto",
            Self::PacketsOut => "packets_out",
            Self::Retransmits => "retransmits",
            Self::SendQueue => "send_queue",
            Self::RecvQueue => "recv_queue",
            Self::SendWindow => "send_window",
            Self::RecvWindow => "recv_window",
            Self::Throughput(Layer::Socket | Layer::Sched) => "rate.socket",
            Self::Throughput(Layer::Transport) => "rate.transport",
            Self::Throughput(Layer::Ip) => "rate.ip",
            Self::Throughput(Layer::Device) => "rate.device",
            Self::Journeys => "journeys",
            Self::Events => "events",
            Self::Losses => "losses",
            Self::HostCpu => "cpu",
            Self::OwnCpu => "own_cpu",
            Self::RingFill => "ring_fill",
            Self::Value(name) => name.as_str(),
        }
    }

    /// What it is counted in.
    pub const fn unit(self) -> Unit {
        match self {
            Self::Srtt | Self::Rttvar | Self::Rto => Unit::Time,
            Self::SendQueue | Self::RecvQueue | Self::SendWindow | Self::RecvWindow => Unit::Bytes,
            Self::Throughput(_) => Unit::BytesPerS,
            Self::Journeys | Self::Events | Self::Losses => Unit::PerS,
            Self::Cwnd | Self::Ssthresh | Self::PacketsOut | Self::Retransmits | Self::Value(_) => Unit::Count,
            Self::HostCpu | Self::OwnCpu | Self::RingFill => Unit::Ratio,
        }
    }

    /// Its value in a sample of a connection's state; `None` for what is no property of a connection, or not known.
    pub fn of_sample(self, sample: &TcpSample) -> Option<f64> {
        let us = |us: u32| f64::from(us) * 1e3;
        Some(match self {
            Self::Cwnd => f64::from(sample.cwnd),
            // What no loss has set yet is all ones.
            Self::Ssthresh => f64::from(Some(sample.ssthresh).filter(|n| *n < i32::MAX as u32)?),
            Self::Srtt => us(sample.srtt_us),
            Self::Rttvar => us(sample.rttvar_us),
            Self::Rto => us(Some(sample.rto_us).filter(|us| *us > 0)?),
            Self::PacketsOut => f64::from(sample.packets_out),
            Self::Retransmits => f64::from(sample.total_retrans),
            Self::SendQueue => f64::from(sample.send_queue_bytes),
            Self::RecvQueue => f64::from(sample.recv_queue_bytes),
            Self::SendWindow => f64::from(sample.snd_wnd),
            Self::RecvWindow => f64::from(sample.rcv_wnd),
            Self::Throughput(_)
            | Self::Journeys
            | Self::Events
            | Self::Losses
            | Self::HostCpu
            | Self::OwnCpu
            | Self::RingFill
            | Self::Value(_) => return None,
        })
    }

    /// Whether it is a property of one connection.
    pub const fn is_of_connection(self) -> bool {
        !matches!(
            self,
            Self::Throughput(_)
                | Self::Journeys
                | Self::Events
                | Self::Losses
                | Self::HostCpu
                | Self::OwnCpu
                | Self::RingFill
                | Self::Value(_)
        )
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that is no channel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no signal is called `{0}`; there are cwnd, srtt, send_queue, recv_queue, rate.device and others (`:channel`)"
)]
pub struct UnknownChannel(pub String);

impl FromStr for Channel {
    type Err = UnknownChannel;

    fn from_str(word: &str) -> Result<Self, UnknownChannel> {
        let known = Self::ALL.into_iter().find(|channel| channel.name() == word);
        // Whether a probe has that name, a scope knows.
        let known = known.or_else(|| ValueName::new(word).map(Self::Value));
        known.ok_or_else(|| UnknownChannel(word.chars().take(32).collect()))
    }
}

/// How a channel stands on its axis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vertical {
    /// Units of the channel a division; `None` lets the scope choose, so that the signal fills the height.
    pub per_division: Option<f64>,
    /// Value at the foot of the axis.
    pub foot: f64,
    /// A logarithmic axis.
    pub log: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for channel in Channel::ALL {
            assert_eq!(channel.name().parse(), Ok(channel));
        }
        assert!("cwmd".parse::<Channel>().is_err());
        let free = "refill.num_free".parse::<Channel>().unwrap();
        assert_eq!(
            (free.name(), free.unit(), free.is_of_connection()),
            ("refill.num_free", Unit::Count, false)
        );
        assert_eq!(free.to_string().parse(), Ok(free));
        let long = format!("a.{}", "b".repeat(ValueName::LONGEST));
        for bad in [".", "a.", ".b", "a b.c", "1.5", "hop(a.b,c)", "a.\u{1b}", long.as_str()] {
            assert!(bad.parse::<Channel>().is_err(), "{bad}");
        }
    }
}
