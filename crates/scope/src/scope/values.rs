//! Values of custom probes as signals: loadlines, series for math, sums for measurements.

use super::Scope;
use crate::channel::Channel;
use crate::look::{Column, MOST_POINTS};
use crate::probes::ProbeId;
use crate::pyramid::{Extent, Part};
use crate::signals::{Series, columns};
use magscope_core::custom::ValueKind;

/// Maximum number of hits searched for the value before a picture.
const MOST_BACK: usize = 1 << 12;

impl Scope {
    /// A custom probe's value over the picture: hit by hit if all hits are in memory, otherwise the mean of
    /// each tile.
    pub(super) fn value_series(&self, (probe, value): (ProbeId, usize), n: usize) -> Series {
        let stretch = self.stretch();
        let before = self.value_before((probe, value), n).map(|number| (stretch.0.saturating_sub(1), number));
        let mut series: Series = before.into_iter().collect();
        if let Some(numbers) = self.numbers((probe, value), stretch) {
            series.extend(numbers);
            return series;
        }
        let mut means: Vec<Extent> = vec![Extent::default(); n];
        self.counts.pyramid.extents((probe, value), stretch, n, |first, _, extent| {
            if let Some(place) = means.get_mut(first) {
                place.merge(extent);
            }
        });
        let of = |extent: &Extent| (extent.last.0, extent.mean());
        series.extend(means.iter().filter(|extent| extent.count > 0).map(of));
        series
    }

    /// A value hit by hit, if all hits are in memory.
    fn numbers(
        &self,
        (probe, value): (ProbeId, usize),
        stretch: (u64, u64),
    ) -> Option<impl Iterator<Item = (u64, f64)>> {
        let of = self.probes.get(probe)?;
        let hits = self.hits_at_hand(stretch, MOST_POINTS)?.filter(move |hit| hit.probe == probe);
        Some(hits.filter_map(move |hit| Some((hit.hit.time_ns, of.number(&hit.hit, value)?))))
    }

    /// The range of a value over a stretch: exact with all hits in memory, otherwise to within tiles.
    pub(super) fn value_extent(&self, value: (ProbeId, usize), from_ns: u64, end_ns: u64) -> Extent {
        let Some(numbers) = self.numbers(value, (from_ns, end_ns.saturating_sub(1))) else {
            return self.counts.pyramid.extent(value, from_ns, end_ns);
        };
        let mut all = Extent::default();
        numbers.for_each(|(at_ns, number)| all.merge(&Extent::of(at_ns, number)));
        all
    }

    /// The last value before the picture.
    fn value_before(&self, (probe, value): (ProbeId, usize), n: usize) -> Option<f64> {
        let (from_ns, to_ns) = self.stretch();
        let of = self.probes.get(probe)?;
        let back = self.journal.hits(0, from_ns.saturating_sub(1)).rev().take(MOST_BACK);
        let latest = back
            .filter(|hit| hit.probe == probe && self.looks_at_hit(hit))
            .find_map(|hit| of.number(&hit.hit, value));
        latest
            .filter(|_| !self.is_recorded())
            .or_else(|| self.counts.pyramid.value_before((probe, value), (from_ns, to_ns), n))
    }

    /// A value over the picture with minimum, maximum and last in each column. It holds until the next hit, up
    /// to the last.
    pub(super) fn value_columns(&self, (probe, value): (ProbeId, usize), n: usize) -> Vec<Option<Column>> {
        let stretch = self.stretch();
        if self.hits_at_hand(stretch, MOST_POINTS).is_some() {
            return columns(&self.value_series((probe, value), n), stretch, n);
        }
        let mut extents: Vec<Extent> = vec![Extent::default(); n];
        self.counts.pyramid.extents((probe, value), stretch, n, |first, last, extent| {
            extents.iter_mut().take(last + 1).skip(first).for_each(|place| place.merge(extent));
        });
        let end = extents.iter().rposition(|extent| extent.count > 0);
        let mut held = self.value_before((probe, value), n).filter(|_| end.is_some());
        let column = |(at, extent): (usize, &Extent)| {
            if extent.count > 0 {
                held = Some(extent.last.1);
                return Some(Column { min: extent.min, max: extent.max, last: extent.last.1 });
            }
            held.filter(|_| end.is_some_and(|end| at < end)).map(|v| Column { min: v, max: v, last: v })
        };
        extents.iter().enumerate().map(column).collect()
    }

    /// True if all these signals exist; otherwise shows a message with the missing one.
    pub(super) fn are_defined(&mut self, channels: &[Channel]) -> bool {
        let unknown = channels.iter().find(|channel| self.unknown(**channel)).copied();
        if let Some(unknown) = unknown {
            let words = self.unknown_words(unknown);
            self.show_message(words, true);
        }
        unknown.is_none()
    }

    /// True for a value of a probe that no recording has.
    pub(super) fn unknown(&self, channel: Channel) -> bool {
        matches!(channel, Channel::Value(_)) && self.probes.value(channel).is_none()
    }

    /// True for a value of a custom probe whose numbers are never below 0.
    pub(super) fn is_without_sign(&self, channel: Channel) -> bool {
        let of = self.probes.value(channel);
        let value = of.and_then(|(probe, at)| self.probes.get(probe)?.asked.values.get(at));
        value.is_some_and(|value| value.kind != ValueKind::Signed)
    }

    pub(super) fn unknown_words(&self, channel: Channel) -> String {
        let there: Vec<String> = self.probes.channels().map(|channel| channel.to_string()).collect();
        if there.is_empty() {
            format!("no signal is called `{channel}`, and no custom probe reads a value (`--probe`)")
        } else {
            format!("no signal is called `{channel}`; custom probes read {}", there.join(", "))
        }
    }
}
