//! Hops at which bytes are counted, and the capture's filters: initially, and after changes.

use crate::in_force::{InForce, leaves_out};
use magscope_core::node::{NodeInfo, Service};
use magscope_core::{Change, Hop};

/// Reason for a missing latency without another cause.
pub const NO_JOURNEY: &str = "no journey that was read here has been seen whole: nothing came, or no hop before the read is served \
                              (datagrams need udp.recv)";

/// State of the capture.
#[derive(Clone, Debug)]
pub struct Served {
    in_force: InForce,
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
            in_force: InForce::of(info),
            stopped: info.settings.iter().find_map(|setting| stops(setting)),
            no_receives: why(RECEIVES[0]),
            no_sends: why(SENDS[0]),
        }
    }

    /// Hops and settings in force.
    pub const fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// The hop at which received bytes are counted.
    pub fn receives(&self) -> Option<Hop> {
        RECEIVES.into_iter().find(|hop| self.in_force.hops().contains(*hop))
    }

    /// The hop at which sent bytes are counted.
    pub fn sends(&self) -> Option<Hop> {
        SENDS.into_iter().find(|hop| self.in_force.hops().contains(*hop))
    }

    /// The receive hop, or the reason for its absence.
    pub fn why_no_receives(&self) -> Result<Hop, &str> {
        self.stopped.as_deref().map_or_else(|| self.receives().ok_or(&self.no_receives), Err)
    }

    /// The send hop, or the reason for its absence.
    pub fn why_no_sends(&self) -> Result<Hop, &str> {
        self.stopped.as_deref().map_or_else(|| self.sends().ok_or(&self.no_sends), Err)
    }

    /// Settings in force that reject events.
    pub fn settings(&self) -> Vec<String> {
        self.in_force.settings().iter().filter(|setting| leaves_out(setting)).cloned().collect()
    }

    /// Possible reasons for a watch without events.
    pub fn silence(&self) -> String {
        let mut text =
            "nothing of it has been seen since: it is quiet, its network namespace is not captured, \
                        or the call has not returned"
                .to_owned();
        let settings = self.settings();
        if !settings.is_empty() {
            text = format!("{text}, or it is left out by `{}`", settings.join("`, `"));
        }
        text
    }

    /// Applies a change. Returns the reason if earlier and later figures cannot be combined.
    pub fn change(&mut self, change: &Change) -> Option<String> {
        let before = (self.receives(), self.sends(), self.stopped.is_some());
        self.in_force.change(change);
        let what = change.what.as_str();
        let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
        match word {
            "detail" => self.stopped = stops(what),
            // The change is followed by its reason.
            "governor:" => {
                if let Some(stopped) = &mut self.stopped {
                    *stopped = format!("no records are made, to keep the overhead small: {rest}");
                }
            }
            _ => {}
        }
        let differs = before != (self.receives(), self.sends(), self.stopped.is_some());
        let selects = matches!(word, "filter" | "pcap" | "sample");
        (differs || selects).then(|| format!("`{what}` while it was watched"))
    }
}

/// The reason for the absence of records under a setting, if any.
fn stops(setting: &str) -> Option<String> {
    (setting == "detail histograms").then(|| format!("no records are made, the kernel adds up (`{setting}`)"))
}
