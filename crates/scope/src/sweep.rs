//! The sweep: the lifelines on the screen and their stretch of time.
//!
//! A live network has more journeys per second than a user can follow, so the picture does not scroll with
//! them. As an oscilloscope in auto mode, it waits for a trigger, or takes the slowest journey since the last
//! sweep. It shows that journey with its surroundings, and holds the picture for a second.

use crate::controls::Align;
use crate::horizon::Horizon;
use crate::lifeline::Lifeline;
use crate::timebase::Timebase;
use std::collections::HashSet;

/// Default maximum number of lifelines of a sweep: the capacity of a terminal. With more, the sweep keeps the
/// slowest, and density is drawn below them.
pub const MAX_LIFELINES: usize = 1024;
/// Number of the slowest lifelines to keep of too many.
const SLOWEST: usize = 64;

/// The lifelines on the screen and their stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Time at the left edge, `CLOCK_MONOTONIC`; 0 with lifelines aligned at their start.
    pub origin_ns: u64,
    /// Time a division.
    pub timebase: Timebase,
    /// Alignment of the lifelines.
    pub align: Align,
    /// The [key](Lifeline::key) of the journey that the picture was taken for.
    pub anchor: Option<u64>,
    /// The anchor first.
    pub lifelines: Vec<Lifeline>,
    /// Number of journeys in the stretch beyond the maximum.
    pub left_out: usize,
}

impl Sweep {
    /// Position of a time on the screen: 0.0 the left edge, 1.0 the right edge, linear beyond both.
    pub fn x(&self, line: &Lifeline, time_ns: u64) -> f64 {
        let zero = match self.align {
            Align::Time => self.origin_ns,
            Align::Start => line.start_ns(),
        };
        let since = i128::from(time_ns) - i128::from(zero);
        since as f64 / self.timebase.span_ns() as f64
    }

    /// Position on the screen of a time without a journey.
    pub fn x_of(&self, time_ns: u64) -> f64 {
        let since = i128::from(time_ns) - i128::from(self.origin_ns);
        since as f64 / self.timebase.span_ns() as f64
    }

    /// Collects the lifelines of the horizon, up to a maximum number. The input may hold duplicates.
    pub fn fill<'a>(
        &mut self,
        horizon: &Horizon,
        align: Align,
        most: usize,
        lines: impl Iterator<Item = &'a Lifeline>,
        accepts: impl Fn(&Lifeline) -> bool,
    ) {
        (self.origin_ns, self.timebase, self.align) = (horizon.begin_ns(), horizon.timebase(), align);
        let (from_ns, to_ns) = (horizon.begin_ns(), horizon.end_ns());
        let (mut seen, mut taken) = (HashSet::new(), Vec::new());
        for line in lines {
            let inside = align == Align::Start || line.overlaps(from_ns, to_ns);
            let key = line.key();
            if inside && (Some(key) == self.anchor || accepts(line)) && seen.insert(key) {
                taken.push(line);
                if align == Align::Start && taken.len() >= most {
                    break; // the picture has the last lifelines by intention: none is left out
                }
            }
        }
        let all = taken.len();
        if all > most {
            taken.sort_by_cached_key(|line| {
                (Some(line.key()) != self.anchor, std::cmp::Reverse(line.total_ns()))
            });
            taken.truncate(SLOWEST);
        } else if let Some(at) = taken.iter().position(|line| Some(line.key()) == self.anchor) {
            taken.swap(0, at);
        }
        self.left_out = all - taken.len();
        let taken: Vec<Lifeline> = taken.into_iter().cloned().collect();
        self.lifelines = taken;
    }
}

/// Places the horizon around a journey; without a fixed timebase, also selects a suitable one.
pub fn place_around(horizon: &mut Horizon, fixed: bool, align: Align, anchor: &Lifeline) {
    let total = anchor.total_ns();
    let now = horizon.timebase();
    let timebase = if fixed { now } else { auto_timebase(now, total, align) };
    let span = timebase.span_ns();
    let ahead = (span.saturating_sub(total) / 2).max(span / 10);
    horizon.place_at(anchor.start_ns().saturating_sub(ahead), 0.0, timebase);
}

/// A timebase at which `total_ns` fills a good part of the screen. The current one stays while it is suitable,
/// so that the scale is stable across sweeps.
fn auto_timebase(now: Timebase, total_ns: u64, align: Align) -> Timebase {
    let share = total_ns as f64 / now.span_ns() as f64;
    let (least, most) = match align {
        Align::Time => (0.15, 0.8),
        Align::Start => (0.25, 1.0),
    };
    if (least..=most).contains(&share) {
        return now;
    }
    match align {
        Align::Time => Timebase::holding(total_ns.saturating_mul(5) / 3),
        Align::Start => Timebase::holding(total_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;
    use magscope_core::Hop;

    const MS: u64 = 1_000_000;

    fn lines(n: u64) -> Vec<Lifeline> {
        let ns = |id| if id == 25 { 4 * MS } else { MS / 20 };
        (1..=n).map(|id| lifeline(id, &[(Hop::AppSend, id * MS), (Hop::AppRecv, id * MS + ns(id))])).collect()
    }

    #[test]
    fn the_journey_is_in_the_middle_with_its_neighbours() {
        let (lines, mut horizon) = (lines(50), Horizon::default());
        let anchor = &lines[24];
        place_around(&mut horizon, false, Align::Time, anchor);
        let mut sweep = Sweep { anchor: Some(anchor.key()), ..Sweep::default() };
        sweep.fill(&horizon, Align::Time, MAX_LIFELINES, lines.iter().chain(&lines), |_| true);
        assert_eq!(sweep.timebase.per_division_ns(), MS);
        assert_eq!(sweep.origin_ns, 22 * MS);
        let mut ids: Vec<_> = sweep.lifelines.iter().map(Lifeline::id).collect();
        assert_eq!(ids[0], 25);
        ids.sort_unstable();
        assert_eq!(ids, (22..=32).collect::<Vec<_>>());
        assert!((sweep.x(anchor, anchor.start_ns()) - 0.3).abs() < 1e-9);
        assert!((sweep.x(anchor, anchor.end_ns()) - 0.7).abs() < 1e-9);
        assert!((sweep.x_of(27 * MS) - 0.5).abs() < 1e-9);
        sweep.fill(&horizon, Align::Time, MAX_LIFELINES, lines.iter(), |line| line.id() == 30);
        assert_eq!(sweep.lifelines.iter().map(Lifeline::id).collect::<Vec<_>>(), [25, 30], "the anchor stays");
    }

    #[test]
    fn of_too_many_the_slowest_stay() {
        let (lines, mut horizon) = (lines(3000), Horizon::default());
        horizon.show(0, 4_000 * MS);
        let mut sweep = Sweep { anchor: Some(lines[7].key()), ..Sweep::default() };
        sweep.fill(&horizon, Align::Time, MAX_LIFELINES, lines.iter(), |_| true);
        assert_eq!((sweep.lifelines.len(), sweep.left_out), (SLOWEST, 3000 - SLOWEST));
        assert_eq!((sweep.lifelines[0].id(), sweep.lifelines[1].id()), (8, 25));
    }

    #[test]
    fn the_timebase_does_not_jump_for_little() {
        let now = Timebase::holding(10 * MS);
        assert_eq!(auto_timebase(now, 2 * MS, Align::Time), now);
        assert_eq!(auto_timebase(now, 8 * MS, Align::Time), now);
        assert_eq!(auto_timebase(now, MS, Align::Time).span_ns(), 2 * MS);
        assert_eq!(auto_timebase(now, 9 * MS, Align::Time).span_ns(), 20 * MS);
    }
}
