//! Hops and settings in force of a capture: initially, and after changes.

use magscope_core::governed::Level;
use magscope_core::hop::HopSet;
use magscope_core::node::NodeInfo;
use magscope_core::sampled::flows_one_in;
use magscope_core::{Change, Hop};

/// Hops and settings at one point of a capture's stream.
#[derive(Clone, Debug)]
pub struct InForce {
    hops: HopSet,
    settings: Vec<String>,
    level: Level,
}

impl InForce {
    /// The initial ones.
    pub fn of(info: &NodeInfo) -> Self {
        InForce { hops: info.coverage.served(), settings: info.settings.clone(), level: Level::Full }
    }

    /// The hops that are on.
    pub const fn hops(&self) -> HopSet {
        self.hops
    }

    /// Filters, samplers and the level of detail, as command-line settings.
    pub fn settings(&self) -> &[String] {
        &self.settings
    }

    /// The level of the overhead budget.
    pub const fn level(&self) -> Level {
        self.level
    }

    /// The sampler of a hop's events, as in `1/10`; `None` if none is left out.
    pub fn sampler(&self, hop: Hop) -> Option<&str> {
        let mut samplers = self.settings.iter().filter_map(|setting| at_hops("sample", setting));
        samplers.find(|(spec, hops)| *spec != "off" && hops.contains(hop)).map(|(spec, _)| spec)
    }

    /// True if only some of the flows are recorded.
    pub fn samples_flows(&self) -> bool {
        self.settings.iter().filter_map(|setting| flows_one_in(setting)).any(|one_in| one_in > 1)
    }

    /// Applies a change. Returns the setting that it ended, if any.
    pub fn change(&mut self, change: &Change) -> Option<String> {
        let what = change.what.as_str();
        let (word, rest) = what.split_once(' ').unwrap_or((what, ""));
        match word {
            "enable" => self.hops = HopSet(self.hops.0 | HopSet::named(rest).0),
            "disable" => self.hops = HopSet(self.hops.0 & !HopSet::named(rest).0),
            "filter" | "pcap" | "detail" => return self.replace(word, what),
            "sample" if rest.starts_with("flows") => return self.replace("sample flows", what),
            "sample" | "snap" => self.set_at_hops(word, rest),
            "governor:" => self.level = Level::of(change).unwrap_or(self.level),
            _ => {}
        }
        None
    }

    /// Replaces the setting of this kind and returns the former one if it differs. A stream can begin after that one was set: of
    /// a change that ends it only the kind is then returned.
    fn replace(&mut self, kind: &str, what: &str) -> Option<String> {
        let is_of_kind = |setting: &String| {
            setting.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let at = self.settings.iter().position(is_of_kind);
        let before = at.map(|at| self.settings.remove(at));
        if !is_default(what) {
            self.settings.push(what.to_owned());
        }
        match before {
            Some(before) => (before.as_str() != what).then_some(before),
            None => is_default(what).then(|| kind.to_owned()),
        }
    }

    /// Sets samplers or payload lengths of hops; those of other hops remain.
    fn set_at_hops(&mut self, word: &str, rest: &str) {
        let (spec, list) = rest.split_once(' ').unwrap_or((rest, ""));
        let hops = listed(list);
        let mut settings = Vec::new();
        for setting in std::mem::take(&mut self.settings) {
            match at_hops(word, &setting) {
                Some((spec, at)) if at.0 & hops.0 != 0 => {
                    let others = HopSet(at.0 & !hops.0);
                    if !others.is_empty() {
                        settings.push(format!("{word} {spec} {}", list_of(others)));
                    }
                }
                _ => settings.push(setting),
            }
        }
        if spec != "off" {
            settings.push(format!("{word} {rest}"));
        }
        self.settings = settings;
    }
}

/// The hops of a list; all of them for `all` and for an empty list.
fn listed(list: &str) -> HopSet {
    if matches!(list.trim(), "" | "all") { HopSet::all() } else { HopSet::named(list) }
}

fn list_of(hops: HopSet) -> String {
    hops.iter().map(Hop::name).collect::<Vec<_>>().join(",")
}

/// Value and hops of a setting that hops have, `sample 1/10 dev.xmit`.
fn at_hops<'s>(word: &str, setting: &'s str) -> Option<(&'s str, HopSet)> {
    let rest = setting.strip_prefix(word)?.strip_prefix(' ')?;
    let (spec, list) = rest.split_once(' ').unwrap_or((rest, ""));
    (spec != "flows").then(|| (spec, listed(list)))
}

/// True if a setting is that of a capture without options.
fn is_default(setting: &str) -> bool {
    let (word, rest) = setting.split_once(' ').unwrap_or((setting, ""));
    match word {
        "detail" => rest == "full",
        "sample" if rest.starts_with("flows") => flows_one_in(setting).is_none_or(|one_in| one_in <= 1),
        _ => matches!(rest.split(' ').next(), None | Some("" | "off")),
    }
}

/// True if a setting rejects events.
pub fn leaves_out(setting: &str) -> bool {
    let word = setting.split(' ').next().unwrap_or_default();
    matches!(word, "filter" | "pcap" | "sample") && !is_default(setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::node::{Backend, Coverage};

    fn in_force(settings: &[&str]) -> InForce {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let coverage = Coverage::full(Backend::Generator);
        InForce::of(&NodeInfo { settings, coverage, ..NodeInfo::default() })
    }

    fn change(of: &mut InForce, what: &str) -> Option<String> {
        of.change(&Change { from_ns: 1, to_ns: 2, what: what.to_owned() })
    }

    #[test]
    fn a_sampler_that_ends_at_one_hop_remains_at_the_others() {
        let mut of = in_force(&["sample 1/10 app.send", "sample 10ms app.recv"]);
        assert_eq!(change(&mut of, "sample off app.send"), None);
        assert_eq!(of.settings(), ["sample 10ms app.recv"]);
        assert_eq!((of.sampler(Hop::AppSend), of.sampler(Hop::AppRecv)), (None, Some("10ms")));
        change(&mut of, "sample 1/4 app.send,dev.xmit");
        change(&mut of, "sample flows 1/16");
        change(&mut of, "sample 1/2 dev.xmit");
        let settings =
            ["sample 10ms app.recv", "sample 1/4 app.send", "sample flows 1/16", "sample 1/2 dev.xmit"];
        assert_eq!(of.settings(), settings);
        assert!(of.samples_flows() && of.sampler(Hop::DevRecv).is_none());
        change(&mut of, "sample off all");
        assert_eq!(of.settings(), ["sample flows 1/16"]);
        change(&mut of, "sample flows 1/1");
        assert!(of.settings().is_empty() && !of.samples_flows());
    }

    #[test]
    fn a_change_replaces_the_setting_of_its_kind() {
        let mut of = in_force(&["filter port = 1", "detail histograms"]);
        assert_eq!(change(&mut of, "filter port = 1"), None, "the same, of a container that has restarted");
        assert_eq!(change(&mut of, "filter port = 2"), Some("filter port = 1".to_owned()));
        assert_eq!(change(&mut of, "pcap tcp"), None);
        assert_eq!(change(&mut of, "detail full"), Some("detail histograms".to_owned()));
        assert_eq!(of.settings(), ["filter port = 2", "pcap tcp"]);
        assert_eq!(change(&mut of, "filter off"), Some("filter port = 2".to_owned()));
        assert_eq!(
            change(&mut of, "filter off"),
            Some("filter".to_owned()),
            "one before the stream may have ended"
        );
        assert_eq!(of.settings(), ["pcap tcp"]);
        for (setting, is_one) in [
            ("filter port = 1", true),
            ("filter off", false),
            ("sample off app.send", false),
            ("sample flows 1/1", false),
            ("sample flows 1/2", true),
            ("sample 1/2", true),
            ("detail both", false),
            ("snap 64 dev.recv", false),
        ] {
            assert_eq!(leaves_out(setting), is_one, "{setting}");
        }
    }

    #[test]
    fn hops_and_the_level_follow_changes() {
        let mut of = in_force(&[]);
        change(&mut of, "disable skb.drop,dev.xmit");
        change(&mut of, "enable dev.xmit");
        assert!(!of.hops().contains(Hop::SkbDrop) && of.hops().contains(Hop::DevXmit));
        of.change(&Level::Rest.change(1, 2, 0.09, 0.02));
        assert_eq!(of.level(), Level::Rest);
    }
}
