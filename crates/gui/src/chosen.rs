//! Settings of the window that persist between runs.

use magscope_core::{Hop, Proto};
use magscope_scope::View;
use magscope_scope::format::SUMMED;
use magscope_scope::look::{PairReading, Percentiles, Span};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Maximum number of recent files.
const MOST_RECENT: usize = 12;

/// Attribute that determines a lifeline's colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tint {
    /// Latency of the journey.
    #[default]
    Latency,
    /// Flow.
    Flow,
    /// Sending process.
    Process,
    /// Sending node.
    Node,
    /// Receiving CPU, or else the sending CPU.
    Cpu,
    /// Verdict.
    Verdict,
}

impl Tint {
    /// All attributes with names.
    pub const ALL: [(Tint, &'static str); 6] = [
        (Self::Latency, "latency"),
        (Self::Flow, "flow"),
        (Self::Process, "process"),
        (Self::Node, "node"),
        (Self::Cpu, "CPU"),
        (Self::Verdict, "verdict"),
    ];

    /// Name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(tint, _)| *tint == self).map_or("", |(_, name)| name)
    }
}

/// Light or dark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Light {
    /// Light on dark.
    #[default]
    Dark,
    /// Dark on light.
    Light,
    /// The desktop's setting.
    System,
}

/// Axis options of distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axes {
    /// Time is logarithmic.
    pub log_time: bool,
    /// Counts are logarithmic.
    pub log_count: bool,
    /// Percentiles instead of counts.
    pub percentiles: bool,
}

impl Default for Axes {
    fn default() -> Self {
        Axes { log_time: true, log_count: false, percentiles: false }
    }
}

/// Times of a distribution. Their place in a list changes with the stretch, which has only rows with times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenTimes {
    /// Protocol of the journeys; `None` if unknown, and for the kernel's sums.
    pub proto: Option<Proto>,
    /// Of which time.
    pub span: Span,
    /// True for the kernel's sums.
    pub is_summed: bool,
}

impl ChosenTimes {
    /// True for the same times, as far as both protocols are known.
    pub fn is_like(self, other: Self) -> bool {
        let is_same = self.proto.zip(other.proto).is_none_or(|(own, its)| own == its);
        is_same && (self.span, self.is_summed) == (other.span, other.is_summed)
    }

    /// Their name.
    pub fn words(self) -> String {
        let Self { proto, span, is_summed } = self;
        let times = Percentiles::default();
        let words = PairReading { proto, span, times, per_s: None, jitter_ns: None }.words(" → ");
        if is_summed { format!("{SUMMED} {words}") } else { words }
    }
}

/// Settings of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Chosen {
    /// Light or dark.
    pub light: Light,
    /// Scale factor of all elements.
    pub scale: f32,
    /// Attribute that determines lifeline colours.
    pub tint: Tint,
    /// The view in the bottom tab.
    pub tab: View,
    /// True if the bottom panel is shown.
    pub below: bool,
    /// True if inspector and measurements are shown.
    pub side: bool,
    /// Height of the bottom panel, points.
    pub below_height: f32,
    /// Width of the side panel, points.
    pub side_width: f32,
    /// Size of the window, points.
    pub window: (f32, f32),
    /// Axis options of distributions.
    pub axes: Axes,
    /// The times whose distribution is shown; `None` for the first of the list.
    #[serde(skip)]
    pub times: Option<ChosenTimes>,
    /// The row of the comparison whose distributions are shown: protocol and pair of hops, without one the whole
    /// journey; `None` for the first row.
    #[serde(skip)]
    pub compared: Option<(Proto, Option<(Hop, Hop)>)>,
    /// Recent sets of recordings, newest first.
    pub recent: Vec<Vec<PathBuf>>,
}

impl Default for Chosen {
    fn default() -> Self {
        Chosen {
            light: Light::default(),
            scale: 1.0,
            tint: Tint::default(),
            tab: View::Journeys,
            below: true,
            side: true,
            below_height: 230.0,
            side_width: 436.0,
            window: (1440.0, 900.0),
            axes: Axes::default(),
            times: None,
            compared: None,
            recent: Vec::new(),
        }
    }
}

impl Chosen {
    /// Parses saved settings; unreadable ones get their defaults.
    pub fn read(text: &str) -> Self {
        let mut chosen: Self = toml::from_str(text).unwrap_or_default();
        let or = |value: f32, least: f32, most: f32, default: f32| {
            if value.is_finite() { value.clamp(least, most) } else { default }
        };
        chosen.scale = or(chosen.scale, 0.5, 4.0, 1.0);
        chosen.below_height = or(chosen.below_height, 90.0, 2000.0, 230.0);
        chosen.side_width = or(chosen.side_width, 220.0, 1200.0, 436.0);
        chosen.window =
            (or(chosen.window.0, 640.0, 16_000.0, 1440.0), or(chosen.window.1, 400.0, 16_000.0, 900.0));
        if chosen.tab.spec().tab.is_none() {
            chosen.tab = Self::default().tab;
        }
        chosen.recent.truncate(MOST_RECENT);
        chosen
    }

    /// The settings as text.
    pub fn text(&self) -> String {
        toml::to_string(self).unwrap_or_default()
    }

    /// Adds to the recent files, with absolute paths: the next window may start in another directory.
    pub fn opened(&mut self, dirs: &[PathBuf]) {
        let absolute = |dir: &PathBuf| std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
        let dirs: Vec<PathBuf> = dirs.iter().map(absolute).collect();
        self.recent.retain(|recent| *recent != dirs);
        self.recent.insert(0, dirs);
        self.recent.truncate(MOST_RECENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_is_read_back() {
        let mut chosen = Chosen { tint: Tint::Node, light: Light::Light, scale: 1.5, ..Chosen::default() };
        for n in 0..20 {
            chosen.opened(&[PathBuf::from(format!("/a/{n}")), PathBuf::from("/b")]);
        }
        chosen.opened(&[PathBuf::from("/a/15"), PathBuf::from("/b")]);
        assert_eq!((chosen.recent.len(), &chosen.recent[0][0]), (12, &PathBuf::from("/a/15")));
        assert_eq!(Chosen::read(&chosen.text()), chosen);
    }

    #[test]
    fn recent_recordings_have_absolute_paths() {
        let mut chosen = Chosen::default();
        chosen.opened(&[PathBuf::from("my.session")]);
        let absolute = std::env::current_dir().expect("a directory").join("my.session");
        assert_eq!(chosen.recent, [vec![absolute.clone()]]);
        chosen.opened(&[absolute]);
        assert_eq!(chosen.recent.len(), 1, "it is the same recording");
    }

    #[test]
    fn times_of_another_protocol_or_of_the_kernel_are_others() {
        let whole = |proto| ChosenTimes { proto, span: Span::Whole, is_summed: false };
        let tcp = whole(Some(Proto::TCP));
        assert!(tcp.is_like(tcp) && tcp.is_like(whole(None)) && whole(None).is_like(tcp));
        assert!(!tcp.is_like(whole(Some(Proto::UDP))));
        assert!(!tcp.is_like(ChosenTimes { span: Span::Wait, ..tcp }));
        let summed = ChosenTimes { is_summed: true, ..tcp };
        assert!(!tcp.is_like(summed));
        assert_eq!(
            (tcp.words().as_str(), summed.words()),
            ("tcp whole journey", format!("{SUMMED} tcp whole journey"))
        );
    }

    #[test]
    fn settings_that_are_no_good_do_no_harm() {
        assert_eq!(Chosen::read("\u{0}[[["), Chosen::default());
        assert_eq!(Chosen::read("tint = \"blood group\""), Chosen::default());
        let odd = Chosen::read("scale = nan\nside_width = -1.0\nwindow = [inf, 1e9]\nnew_in_some_version = 1");
        assert_eq!(Chosen::read("tab = \"scope\"").tab, View::Journeys, "a view without a tab");
        // Of an earlier version.
        assert_eq!(Chosen::read("scale = 2.0\npair = 6"), Chosen { scale: 2.0, ..Chosen::default() });
        assert_eq!((odd.scale, odd.side_width, odd.window), (1.0, 220.0, (1440.0, 16_000.0)));
    }
}
