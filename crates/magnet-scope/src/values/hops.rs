//! Sets of hops: `default`, `all`, `dev.xmit,dev.recv`, `+tcp.state,-ip.post`.

use magscope_core::hop::{Hop, HopSet, UnknownHop};
use magscope_probe::plan::full_hops;
use std::str::FromStr;

/// The value of `--hops`, not yet resolved against the default set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HopSelection {
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Default,
    All,
    Add(Hop),
    Remove(Hop),
}

/// Invalid set of hops.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHops {
    /// Unknown hop.
    #[error(transparent)]
    Unknown(#[from] UnknownHop),
    /// Empty input.
    #[error(
        "no hop is named; write `default`, `all`, names as in `dev.xmit,dev.recv`, or changes as in `+tcp.state,-ip.post`"
    )]
    Empty,
}

impl FromStr for HopSelection {
    type Err = BadHops;

    fn from_str(text: &str) -> Result<Self, BadHops> {
        let mut steps = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let changes = item.starts_with(['+', '-']);
            // A list that starts with a change modifies the default; one that starts with a name replaces it.
            if steps.is_empty() && changes {
                steps.push(Step::Default);
            }
            steps.push(match item {
                "default" | "+default" => Step::Default,
                "all" | "+all" => Step::All,
                _ if item.starts_with('-') => Step::Remove(item[1..].parse()?),
                _ => Step::Add(item.trim_start_matches('+').parse()?),
            });
        }
        if steps.is_empty() {
            return Err(BadHops::Empty);
        }
        Ok(HopSelection { steps })
    }
}

impl HopSelection {
    /// True if it asks for the default set and nothing else.
    pub fn is_default(&self) -> bool {
        self.steps.iter().all(|step| *step == Step::Default)
    }

    /// The set, given the default. Empty input is the default.
    pub fn resolve(&self, default: HopSet) -> HopSet {
        if self.steps.is_empty() {
            return default;
        }
        let mut set = HopSet::EMPTY;
        for step in &self.steps {
            match step {
                Step::Default => set.0 |= default.0,
                Step::All => set.0 |= full_hops().0,
                Step::Add(hop) => set.insert(*hop),
                Step::Remove(hop) => set.remove(*hop),
            }
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Vec<Hop> {
        let default: HopSet = [Hop::DevXmit, Hop::DevRecv].into_iter().collect();
        text.parse::<HopSelection>().unwrap().resolve(default).iter().collect()
    }

    #[test]
    fn names_replace_and_signs_change() {
        assert_eq!(resolved("default"), [Hop::DevXmit, Hop::DevRecv]);
        assert_eq!(resolved("app.recv"), [Hop::AppRecv]);
        assert_eq!(resolved("+app.recv,-dev.recv"), [Hop::DevXmit, Hop::AppRecv]);
        assert_eq!(resolved("default, app.recv"), [Hop::DevXmit, Hop::DevRecv, Hop::AppRecv]);
        let full = full_hops().iter().count();
        assert_eq!((resolved("all").len(), resolved("all,-app.recv").len()), (full, full - 1));
        // Hops that every task of the machine passes are asked for by name.
        assert!(!resolved("all").iter().any(|hop| hop.is_optional() || *hop == Hop::SchedSwitch));
        assert_eq!(resolved("all,+sched.switch").len(), full + 1);
    }

    #[test]
    fn a_wrong_name_names_the_nearest() {
        let error = "+dev.xmt".parse::<HopSelection>().unwrap_err();
        assert!(error.to_string().contains("`dev.xmit`"), "{error}");
        assert_eq!(" ,".parse::<HopSelection>(), Err(BadHops::Empty));
    }
}
