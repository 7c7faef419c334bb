//! One change of a capture as text: typed by the user, sent over the control socket and stored in the session.

use crate::control::{Sampler, Watermark};
use crate::record::{
    MAG_SNAP_MAX, mag_detail_MAG_DETAIL_BOTH, mag_detail_MAG_DETAIL_COMPACT, mag_detail_MAG_DETAIL_FULL,
    mag_detail_MAG_DETAIL_HISTOGRAMS,
};
use magscope_core::hop::{HopSet, UnknownHop};
use magscope_core::{CaptureFilter, Hop};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One change. `Display` prints the text that `FromStr` parses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Hops to switch on.
    Enable(HopSet),
    /// Hops to switch off.
    Disable(HopSet),
    /// The filter to activate; `None` accepts everything.
    Filter(Option<CaptureFilter>),
    /// The pcap expression to activate in addition to the filter; `None` accepts everything.
    Pcap(Option<String>),
    /// Payload bytes to capture at hops; 0 for none.
    Snap(HopSet, u32),
    /// Samplers of hops.
    Sample(HopSet, Sampler),
    /// Flow sampling, one in this many flows.
    SampleFlows(u32),
    /// Level of detail of accepted hits.
    Detail(Detail),
    /// A custom probe to switch on or off, by its name.
    Probe(String, bool),
    /// Wake-up policy of the reader.
    Watermark(Watermark),
}

/// Level of detail of accepted hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Detail {
    /// A record with all fields of the hop.
    #[default]
    Full = mag_detail_MAG_DETAIL_FULL,
    /// The same records, without TCP state samples and payload heads: a step of the governor, which no command
    /// selects.
    Compact = mag_detail_MAG_DETAIL_COMPACT,
    /// No records: the kernel adds up times between hops, and packets.
    Histograms = mag_detail_MAG_DETAIL_HISTOGRAMS,
    /// Full records and sums, so that the two can be compared.
    Both = mag_detail_MAG_DETAIL_BOTH,
}

impl Detail {
    /// Every level of detail.
    pub const ALL: [Detail; 4] = [Self::Full, Self::Compact, Self::Histograms, Self::Both];

    /// The levels that a command selects.
    const SELECTABLE: [Detail; 3] = [Self::Full, Self::Histograms, Self::Both];

    /// Name of the level.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Compact => "compact",
            Self::Histograms => "histograms",
            Self::Both => "both",
        }
    }

    /// True if the kernel makes sums.
    pub const fn adds_up(self) -> bool {
        matches!(self, Self::Histograms | Self::Both)
    }
}

/// Reason for a rejected text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSetting {
    /// Unknown first word.
    #[error(
        "`{0}` is none of `list`, `stats`, `enable`, `disable`, `filter`, `pcap`, `snap`, `sample`, `detail`, `probe` and `watermark`"
    )]
    Word(String),
    /// Unknown hop.
    #[error(transparent)]
    Hop(#[from] UnknownHop),
    /// Invalid filter.
    #[error("the filter is wrong {0}")]
    Filter(#[from] magscope_core::filter::FilterError),
    /// The hop has no payload.
    #[error("payload is not available at {0}, where no packet is at hand; it is at {places}", places = names(snappable()))]
    NoPayload(Hop),
    /// Unexpected text.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// Expected syntax, with an example.
        expected: &'static str,
        /// The actual text.
        found: String,
    },
}

/// Maximum interval and maximum wait: a day.
const LONGEST: Duration = Duration::from_hours(24);

const SAMPLE: &str = "`1/N`, a time, both, `flows 1/N`, `flows off` or `off`, and hops, as in `1/10 dev.xmit`";
const SNAP: &str = "up to 1024 bytes or `off`, and hops, as in `64 dev.recv` or `dev.recv=64`";
const DETAIL: &str = "`full`, `histograms`, or `both` for full records and histograms";
const PROBE: &str = "`on` or `off` and the name of a custom probe, as in `off refill`";
const WATERMARK: &str = "`latency`, `screen` or numbers as in `1000 events 65536 bytes 100ms`";

impl FromStr for Setting {
    type Err = BadSetting;

    fn from_str(text: &str) -> Result<Self, BadSetting> {
        let (word, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let rest = rest.trim();
        match word {
            "enable" => named(rest).map(Self::Enable),
            "disable" => named(rest).map(Self::Disable),
            "filter" if matches!(rest, "off" | "") => Ok(Self::Filter(None)),
            "filter" => Ok(Self::Filter(Some(CaptureFilter::parse(rest)?))),
            "pcap" if matches!(rest, "off" | "") => Ok(Self::Pcap(None)),
            // one line, as it is shown and sent
            "pcap" => Ok(Self::Pcap(Some(rest.split_whitespace().collect::<Vec<_>>().join(" ")))),
            "snap" => snap(rest),
            "sample" => sample(rest),
            "detail" => detail(rest),
            "probe" => probe(rest),
            "watermark" => watermark(rest).map(Self::Watermark),
            _ => Err(BadSetting::Word(shown(word))),
        }
    }
}

fn shown(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn expected(expected: &'static str, found: &str) -> BadSetting {
    BadSetting::Expected { expected, found: shown(found) }
}

fn named(list: &str) -> Result<HopSet, BadSetting> {
    let names = list.split([',', ' ']).filter(|name| !name.is_empty());
    let hops: HopSet = names.map(str::parse::<Hop>).collect::<Result<Vec<_>, _>>()?.into_iter().collect();
    if hops.is_empty() { Err(expected("the name of a hop, as in `dev.queue`", list)) } else { Ok(hops) }
}

fn hops_or_all(list: &str) -> Result<HopSet, BadSetting> {
    if matches!(list.trim(), "" | "all") { Ok(HopSet::all()) } else { named(list) }
}

/// Hops with access to the packet, and therefore to its payload.
pub fn snappable() -> HopSet {
    HopSet::with(|hop| hop.has_packet)
}

/// `64`, `64 dev.recv`, `dev.recv=64,dev.xmit=64`, `off`.
fn snap(rest: &str) -> Result<Setting, BadSetting> {
    let length = |text: &str| match text {
        "off" => Some(0),
        _ => text.parse().ok().filter(|bytes| *bytes <= MAG_SNAP_MAX),
    };
    let (first, hops) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (bytes, hops) = match first.split_once('=') {
        Some((hop, bytes)) if hops.trim().is_empty() => (bytes, hop),
        _ => (first, hops),
    };
    let bytes = length(bytes).ok_or_else(|| expected(SNAP, rest))?;
    let hops = if matches!(hops.trim(), "" | "all") { snappable() } else { named(hops)? };
    match hops.iter().find(|hop| !snappable().contains(*hop)) {
        Some(hop) if bytes > 0 => Err(BadSetting::NoPayload(hop)),
        _ => Ok(Setting::Snap(hops, bytes)),
    }
}

fn names(hops: HopSet) -> String {
    hops.iter().map(Hop::name).collect::<Vec<_>>().join(",")
}

fn one_in(text: &str) -> Option<u32> {
    text.strip_prefix("1/")?.parse().ok().filter(|n| *n > 0)
}

fn time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let ns = number.parse::<u64>().ok()?.checked_mul(match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => return None,
    })?;
    Some(Duration::from_nanos(ns)).filter(|time| *time <= LONGEST)
}

fn sample(rest: &str) -> Result<Setting, BadSetting> {
    let (spec, hops) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if spec == "flows" {
        let one_in = if hops.trim() == "off" { Some(1) } else { one_in(hops.trim()) };
        return one_in.map(Setting::SampleFlows).ok_or_else(|| expected(SAMPLE, rest));
    }
    let mut sampler = Sampler::default();
    for part in spec.split(',').filter(|_| spec != "off") {
        match (one_in(part), time(part)) {
            // one in one rejects nothing, the same as no sampler
            (Some(n), _) => sampler.one_in = if n > 1 { n } else { 0 },
            (_, Some(interval)) => sampler.interval = interval,
            _ => return Err(expected(SAMPLE, rest)),
        }
    }
    Ok(Setting::Sample(hops_or_all(hops)?, sampler))
}

fn detail(rest: &str) -> Result<Setting, BadSetting> {
    let found = Detail::SELECTABLE.into_iter().find(|detail| detail.word() == rest);
    found.map(Setting::Detail).ok_or_else(|| expected(DETAIL, rest))
}

fn probe(rest: &str) -> Result<Setting, BadSetting> {
    let mut words = rest.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("on"), Some(name), None) => Ok(Setting::Probe(name.to_owned(), true)),
        (Some("off"), Some(name), None) => Ok(Setting::Probe(name.to_owned(), false)),
        _ => Err(expected(PROBE, rest)),
    }
}

fn watermark(rest: &str) -> Result<Watermark, BadSetting> {
    match rest {
        "latency" => return Ok(Watermark::LATENCY),
        "screen" => return Ok(Watermark::SCREEN),
        _ => {}
    }
    let mut mark = Watermark::SCREEN;
    let mut words = rest.split([' ', ',']).filter(|word| !word.is_empty()).peekable();
    if words.peek().is_none() {
        return Err(expected(WATERMARK, rest));
    }
    while let Some(word) = words.next() {
        if let Some(longest) = time(word) {
            mark.time = longest;
            continue;
        }
        let number: u32 = word.parse().map_err(|_| expected(WATERMARK, rest))?;
        match words.next() {
            Some("events" | "event") => mark.events = number,
            Some("bytes") => mark.bytes = number,
            _ => return Err(expected(WATERMARK, rest)),
        }
    }
    Ok(mark)
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |hops: &HopSet| match *hops {
            hops if hops == HopSet::all() => "all".to_owned(),
            hops => hops.iter().map(Hop::name).collect::<Vec<_>>().join(","),
        };
        match self {
            Self::Enable(hops) => write!(f, "enable {}", names(*hops)),
            Self::Disable(hops) => write!(f, "disable {}", names(*hops)),
            Self::Filter(None) => f.write_str("filter off"),
            Self::Filter(Some(filter)) => write!(f, "filter {filter}"),
            Self::Pcap(None) => f.write_str("pcap off"),
            Self::Pcap(Some(text)) => write!(f, "pcap {text}"),
            Self::Snap(hops, bytes) => {
                f.write_str("snap ")?;
                match bytes {
                    0 => f.write_str("off")?,
                    _ => write!(f, "{bytes}")?,
                }
                write!(f, " {}", names(*hops))
            }
            Self::Sample(hops, Sampler { one_in, interval }) => {
                f.write_str("sample ")?;
                match (one_in, interval.as_nanos()) {
                    (0 | 1, 0) => f.write_str("off")?,
                    (0 | 1, ns) => write_time(f, ns)?,
                    (one_in, 0) => write!(f, "1/{one_in}")?,
                    (one_in, ns) => write!(f, "1/{one_in},").and_then(|()| write_time(f, ns))?,
                }
                write!(f, " {}", list(hops))
            }
            Self::SampleFlows(one_in) => write!(f, "sample flows 1/{}", one_in.max(&1)),
            Self::Detail(detail) => write!(f, "detail {}", detail.word()),
            Self::Probe(name, on) => write!(f, "probe {} {name}", if *on { "on" } else { "off" }),
            Self::Watermark(Watermark { events, bytes, time }) => {
                write!(f, "watermark {events} events {bytes} bytes ")?;
                write_time(f, time.as_nanos())
            }
        }
    }
}

fn write_time(f: &mut fmt::Formatter<'_>, ns: u128) -> fmt::Result {
    let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
    match units.iter().find(|(_, factor)| ns.is_multiple_of(*factor)) {
        Some((unit, factor)) => write!(f, "{}{unit}", ns / factor),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn settings_print_as_they_are_read() {
        for (typed, printed) in [
            ("enable dev.queue, ip.post", "enable ip.post,dev.queue"),
            ("disable app.recv", "disable app.recv"),
            ("filter port 443 and udp", "filter port = 443 and proto = udp"),
            ("filter", "filter off"),
            ("snap 64 dev.recv", "snap 64 dev.recv"),
            ("snap dev.recv=128", "snap 128 dev.recv"),
            ("snap off dev.recv", "snap off dev.recv"),
            ("pcap tcp port 443 and  net 10/8", "pcap tcp port 443 and net 10/8"),
            ("pcap", "pcap off"),
            ("sample 1/10", "sample 1/10 all"),
            ("sample 1/10,10ms dev.xmit", "sample 1/10,10ms dev.xmit"),
            ("sample 1500us dev.recv", "sample 1500us dev.recv"),
            ("sample 1/1,10ms dev.recv", "sample 10ms dev.recv"),
            ("sample 1/1", "sample off all"),
            ("sample off all", "sample off all"),
            ("sample flows 1/16", "sample flows 1/16"),
            ("detail  histograms", "detail histograms"),
            ("probe  off refill", "probe off refill"),
            ("probe on refill", "probe on refill"),
            ("watermark latency", "watermark 1 events 0 bytes 20ms"),
            ("watermark 100 events, 4096 bytes, 1s", "watermark 100 events 4096 bytes 1s"),
        ] {
            let setting: Setting = typed.parse().unwrap_or_else(|e| panic!("{typed}: {e}"));
            assert_eq!(setting.to_string(), printed);
            assert_eq!(printed.parse(), Ok(setting));
        }
        for wrong in [
            "probe",
            "probe refill",
            "probe off",
            "probe off a b",
            "detail",
            "detail less",
            "",
            "enable",
            "enable nothing",
            "sample",
            "snap",
            "snap 1025",
            "snap 64 app.send",
            "snap -1",
            "sample 2/3",
            "sample 1/0",
            "sample flows",
            "watermark",
            "watermark 5",
            "watermark 5 apples",
            "filter port",
            "detach all",
            "sample 9999999s",
        ] {
            assert!(wrong.parse::<Setting>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_setting_that_prints_as_itself_or_an_error(
            text in "(enable|disable|filter|pcap|snap|sample|detail|watermark) [a-z0-9./, ]{0,40}|\\PC{0,40}",
        ) {
            if let Ok(setting) = text.parse::<Setting>() {
                prop_assert_eq!(setting.to_string().parse(), Ok(setting));
            }
        }
    }
}
