//! Channels: the signals for loadlines, measurements, triggers and math.

use magscope_core::{Layer, TcpSample};
use std::fmt;
use std::str::FromStr;

/// A signal over time. TCP channels belong to one connection: the picked one, or the end of one that sent the
/// most bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// Congestion window, segments.
    Cwnd,
    /// Slow-start threshold, segments.
    Ssthresh,
    /// Smoothed round-trip time, nanoseconds.
    Srtt,
    /// Variation of the round-trip time (RTTVAR), nanoseconds.
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
    /// Payload bytes per second through a layer, all flows together.
    Throughput(Layer),
    /// Journeys per second.
    Journeys,
    /// Events per second.
    Events,
    /// Events missed a second.
    Losses,
    /// Utilisation of all the host's CPUs together; live only.
    HostCpu,
    /// CPU time of the instrument over wall time.
    OwnCpu,
    /// Fill level of the fullest ring buffer.
    RingFill,
    /// A value that a custom probe read. See [`crate::Frame::channels`] for the channels of a scope.
    Value(ValueName),
}

/// Name of a value of a custom probe: the probe's name, a point, the value's. Stored inline, so that a channel
/// is `Copy`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueName {
    bytes: [u8; Self::LONGEST],
    len: u8,
}

impl ValueName {
    /// Maximum length, bytes: two names of 32, and a host if two hosts use this name for different probes.
    pub const LONGEST: usize = 80;

    /// Parses a name: two words of letters, digits, `_`, `-`, `@` and points, with a point between them.
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

    /// The name as text.
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

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerS,
    /// Events per second.
    PerS,
    /// Segments, events, journeys.
    Count,
    /// A part of one.
    Ratio,
}

impl Channel {
    /// Every channel that each scope has; those of a connection are first.
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
            Self::Losses => "missed",
            Self::HostCpu => "cpu",
            Self::OwnCpu => "own_cpu",
            Self::RingFill => "ring_fill",
            Self::Value(name) => name.as_str(),
        }
    }

    /// The unit of this channel.
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

    /// The value in a sample of a connection's state. `None` if the channel is no property of a connection, or
    /// the value is unknown.
    pub fn of_sample(self, sample: &TcpSample) -> Option<f64> {
        let us = |us: u32| f64::from(us) * 1e3;
        Some(match self {
            Self::Cwnd => f64::from(sample.cwnd),
            // All ones: no loss has set the threshold yet.
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

    /// True for what a live capture measures beside its records: the cost of the instrument, and its host's CPUs.
    pub const fn is_of_this_process(self) -> bool {
        matches!(self, Self::HostCpu | Self::OwnCpu | Self::RingFill)
    }

    /// True for a property of one connection.
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
        let found = Self::ALL.into_iter().find(|channel| channel.name() == word);
        // The scope checks whether a probe with this name exists.
        let found = found.or_else(|| ValueName::new(word).map(Self::Value));
        found.ok_or_else(|| UnknownChannel(word.chars().take(32).collect()))
    }
}

/// Scale and offset of a channel on its axis.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vertical {
    /// Units of the channel per division; `None` for automatic scale, so that the signal fills the height.
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
