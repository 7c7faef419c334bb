//! Hops at which bytes are counted, and the capture's filters: initially, and after changes.

use magscope_core::Hop;
use magscope_core::hop::HopSet;
use magscope_core::node::{NodeInfo, Service};

/// Reason for a missing latency without another cause.
pub const NO_JOURNEY: &str = "no journey that was read here has been seen whole: nothing came, or no hop before the read is served \
                              (datagrams need udp.recv)";

/// State of the capture.
#[derive(Clone, Debug)]
pub struct Served {
    hops: HopSet,
    settings: Vec<String>,
    /// Reason for the absence of records, if any.
    stopped: Option<String>,
    no_receives: String,
    no_sends: String,
}

/// Hops that count received bytes, in order of preference.
const RECEIVES: [Hop; 2] = [Hop::AppRecv, Hop::AppCopy];
/// Hops that count sent bytes, in order of preference.
const SENDS: [Hop; 2] = [Hop::AppSend, Hop::TcpSend];

impl Served {
    pub fn of(info: &NodeInfo) -> Self {
        let why = |hop: Hop| match info.coverage.of(hop) {
            Some(Service::Missing { because }) => format!("{hop} is not captured: {because}"),
            _ => format!("{hop} is not captured: it is not asked for, or was switched off"),
        };
        Served {
            hops: info.coverage.served(),
            settings: info.settings.iter().filter(|setting| leaves_out(setting)).cloned().collect(),
            stopped: info.settings.iter().find_map(|setting| stops(setting)),
            no_receives: why(RECEIVES[0]),
            no_sends: why(SENDS[0]),
        }
    }

    /// The hop at which received bytes are counted.
    pub fn receives(&self) -> Option<Hop> {
        RECEIVES.into_iter().find(|hop| self.hops.contains(*hop))
    }

    /// The hop at which sent bytes are counted.
    pub fn sends(&self) -> Option<Hop> {
        SENDS.into_iter().find(|hop| self.hops.contains(*hop))
    }

    /// The receive hop, or the reason for its absence.
    pub fn why_no_receives(&self) -> Result<Hop, &str> {
        self.stopped.as_deref().map_or_else(|| self.receives().ok_or(&self.no_receives), Err)
    }

    /// The send hop, or the reason for its absence.
    pub fn why_no_sends(&self) -> Result<Hop, &str> {
        self.stopped.as_deref().map_or_else(|| self.sends().ok_or(&self.no_sends), Err)
    }

    /// Active settings that reject events.
    pub fn settings(&self) -> &[String] {
        &self.settings
    }

    /// Possible reasons for a watch without events.
    pub fn silence(&self) -> String {
        let mut text =
            "nothing of it has been seen since: it is quiet, its network namespace is not captured, \
                        or the call has not returned"
                .to_owned();
        if !self.settings.is_empty() {
            text = format!("{text}, or it is left out by `{}`", self.settings.join("`, `"));
        }
        text
    }

    /// Applies a change. Returns the reason if earlier and later figures cannot be combined.
    pub fn change(&mut self, what: &str) -> Option<String> {
        let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
        match word {
            "enable" | "disable" => {
                let hops = rest.split([',', ' ']).filter_map(|name| name.parse::<Hop>().ok());
                let before = (self.receives(), self.sends());
                for hop in hops {
                    if word == "enable" { self.hops.insert(hop) } else { self.hops.remove(hop) }
                }
                (before != (self.receives(), self.sends())).then(|| format!("`{what}` while it was watched"))
            }
            "detail" => {
                let before = std::mem::replace(&mut self.stopped, stops(what));
                (before.is_some() != self.stopped.is_some()).then(|| format!("`{what}` while it was watched"))
            }
            // The change is followed by its reason.
            "governor:" => {
                if let Some(stopped) = &mut self.stopped {
                    *stopped = format!("no records are made, to keep the overhead small: {rest}");
                }
                None
            }
            _ if leaves_out(what) || matches!(word, "filter" | "pcap" | "sample") => {
                // Samplers of different hops coexist; a filter replaces the one before.
                let kind = if word == "sample" && rest.starts_with("flows") { "sample flows" } else { word };
                let off = rest.starts_with("off");
                self.settings.retain(|setting| {
                    let same = setting.starts_with(kind) && (kind != "sample" || off);
                    !same || (kind == "sample" && setting.starts_with("sample flows"))
                });
                if leaves_out(what) {
                    self.settings.push(what.to_owned());
                }
                Some(format!("`{what}` while it was watched"))
            }
            _ => None,
        }
    }
}

/// The reason for the absence of records under a setting, if any.
fn stops(setting: &str) -> Option<String> {
    (setting == "detail histograms").then(|| format!("no records are made, the kernel adds up (`{setting}`)"))
}

/// True if a setting rejects events.
fn leaves_out(setting: &str) -> bool {
    let (word, rest) = setting.split_once(' ').unwrap_or((setting, "off"));
    let nothing = rest.starts_with("off") || matches!(rest, "flows 1/1" | "flows off") || rest.is_empty();
    matches!(word, "filter" | "pcap" | "sample") && !nothing
}
