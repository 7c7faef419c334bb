//! Stretches with a reduced capture level because of a budget, and the effect on all other figures.

use super::figures::wrap;
use magscope_core::change::Change;
use magscope_core::governed::Level;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of stretches; later ones are counted.
const MOST: usize = 1_000;
/// Maximum number of printed stretches.
const SHOWN: usize = 8;

/// A stretch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GovernedStretch {
    /// The host.
    pub host: String,
    /// Begin of the stretch, nanoseconds on the time line of the first recording.
    pub from_ns: u64,
    /// Instant of the next level change; `None` if there was none until the end.
    pub to_ns: Option<u64>,
    /// Capture level.
    pub level: Level,
}

/// All stretches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Governed {
    /// In order of their beginnings.
    pub stretches: Vec<GovernedStretch>,
    /// Number of further stretches.
    pub more: u64,
}

impl Governed {
    /// True without any stretch.
    pub fn is_empty(&self) -> bool {
        self.stretches.is_empty() && self.more == 0
    }
}

/// Follows changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretches {
    all: Governed,
    open: BTreeMap<u16, usize>,
}

impl Stretches {
    /// Applies a change of a host.
    pub(super) fn change(&mut self, node: u16, host: &str, change: &Change) {
        let Some(level) = Level::of(change) else { return };
        if let Some(open) = self.open.remove(&node).and_then(|at| self.all.stretches.get_mut(at)) {
            open.to_ns = Some(change.from_ns);
        }
        if level == Level::Full {
            return;
        }
        if self.all.stretches.len() >= MOST {
            self.all.more += 1;
            return;
        }
        self.open.insert(node, self.all.stretches.len());
        let (host, from_ns) = (host.to_owned(), change.from_ns);
        self.all.stretches.push(GovernedStretch { host, from_ns, to_ns: None, level });
    }

    /// The stretches that had not ended by an instant: a part of a recording begins with the changes from before it.
    pub(super) fn since(&self, start_ns: u64) -> Governed {
        let lasts = |stretch: &GovernedStretch| stretch.to_ns.is_none_or(|to_ns| to_ns > start_ns);
        let stretches = self.all.stretches.iter().filter(|stretch| lasts(stretch)).cloned().collect();
        Governed { stretches, more: self.all.more }
    }
}

/// The final lines of a report: conclusions that it does not permit.
pub(super) fn write(
    out: &mut String,
    all: &Governed,
    start_ns: u64,
    several: bool,
    width: usize,
) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    wrap(out, "\nTo keep to its budget the capture left out:", width, "")?;
    let since = |ns: u64| ns.saturating_sub(start_ns) as f64 / 1e9;
    for stretch in all.stretches.iter().take(SHOWN) {
        let to =
            stretch.to_ns.map_or_else(|| "to the end".to_owned(), |to_ns| format!("to +{:.3} s", since(to_ns)));
        let host = if several { format!("{}, ", stretch.host) } else { String::new() };
        let means = stretch.level.means().unwrap_or_default();
        let line = format!("  {host}+{:.3} s {to}: {}: {means}", since(stretch.from_ns), stretch.level);
        wrap(out, &line, width, "    ")?;
    }
    let more = all.more + all.stretches.len().saturating_sub(SHOWN) as u64;
    if more > 0 {
        wrap(out, &format!("  and {more} stretches more."), width, "    ")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_have_their_meaning() {
        let mut stretches = Stretches::default();
        for (level, at_ns) in [
            (Level::Compact, 1_000_000_000),
            (Level::Histograms, 2_000_000_000),
            (Level::Full, 3_500_000_000),
            (Level::Rest, 5_000_000_000),
        ] {
            stretches.change(0, "web-1", &level.change(at_ns, at_ns + 1, 0.03, 0.02));
        }
        let all = stretches.since(0);
        let spans: Vec<_> = all.stretches.iter().map(|s| (s.level, s.from_ns, s.to_ns)).collect();
        assert_eq!(
            spans,
            [
                (Level::Compact, 1_000_000_000, Some(2_000_000_000)),
                (Level::Histograms, 2_000_000_000, Some(3_500_000_000)),
                (Level::Rest, 5_000_000_000, None)
            ]
        );
        let later: Vec<_> = stretches.since(3_500_000_000).stretches.iter().map(|s| s.level).collect();
        assert_eq!(later, [Level::Rest], "the others had ended");
        let mut text = String::new();
        write(&mut text, &all, 1_000_000_000, false, 100).expect("a String takes all");
        assert!(
            text.contains("+1.000 s to +2.500 s: histograms in the kernel only: there are no events"),
            "{text}"
        );
        assert!(text.contains("+4.000 s to the end: nothing, but for a look"), "{text}");
    }

    #[test]
    fn memory_is_bounded() {
        let mut stretches = Stretches::default();
        for n in 0..5_000 {
            stretches.change(0, "web-1", &Level::Rest.change(n, n, 1.0, 0.02));
        }
        let all = stretches.since(0);
        assert_eq!((all.stretches.len(), all.more), (MOST, 4_000));
        assert_eq!(all.stretches[MOST - 1].to_ns, Some(1_000), "what was not kept ends what was");
    }
}
