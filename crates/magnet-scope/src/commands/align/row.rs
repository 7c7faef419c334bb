//! Results for each pair of clocks.

use magscope_timeline::align::Alignment;
use magscope_timeline::pair::{Bounds, Constraint, Hint, Kind, Recorded, State};
use serde::Serialize;

/// Results for all pairs, and their combination.
#[derive(Debug, Serialize)]
pub struct Table {
    /// Hosts of the recordings, in the order they were given.
    pub hosts: Vec<String>,
    /// True if all recordings are of one boot of one host.
    pub one_clock: bool,
    pub pairs: Vec<Row>,
    /// Message about recordings with contradictory clocks.
    pub contradiction: Option<String>,
}

/// A pair of recordings.
#[derive(Debug, Serialize)]
pub struct Row {
    pub a: u16,
    pub b: u16,
    /// Basis of the bounds.
    pub state: String,
    /// Time of the differences, in the middle of the packets of these two: R of A, nanoseconds.
    pub at_ns: Option<u64>,
    /// R of B minus R of A, nanoseconds: the estimate.
    pub difference_ns: Option<i64>,
    /// The difference is at least this, nanoseconds.
    pub lower_ns: Option<i64>,
    /// The difference is at most this, nanoseconds.
    pub upper_ns: Option<i64>,
    /// Index of the recording whose R is ahead; absent if zero is within the bounds.
    pub ahead: Option<u16>,
    /// Maximum error of the estimate: its distance to the farther bound.
    pub half_width_ns: Option<u64>,
    /// The same values at equal distances, from the first packet to the last.
    pub over_time: Vec<Instant>,
    /// Half of upper minus lower bound over time, from packets of these two alone: minimum, median, 99th
    /// percentile, maximum.
    pub half_width_over_time_ns: Option<[u64; 4]>,
    /// Half of the interval under the model of constant drift over some seconds.
    pub model_half_width_ns: Option<u64>,
    /// The same with UTC sources on both hosts, if narrower.
    pub external_half_width_ns: Option<u64>,
    /// True if a UTC source contradicts the packets, or itself, and was dropped.
    pub external_refuted: bool,
    /// Indexes of the recordings whose source it is: both where packets alone contradict it.
    pub utc_refuted: Vec<u16>,
    /// The same from the packets of all recordings together, without UTC, if narrower than from those of these two.
    pub together_half_width_ns: Option<u64>,
    /// Average over the recording.
    pub drift_ppm: Option<f64>,
    pub drift_half_width_ppm: Option<f64>,
    pub quickest_round_trip_ns: Option<u64>,
    /// The packets that determine the bounds at that time.
    pub limiting: Vec<Limiting>,
    pub used: u64,
    pub rejected: u64,
    pub quarantined: u64,
    pub between_epochs: u64,
    /// Time between the two recordings, nanoseconds, if their disciplined wall clocks prove that they do not overlap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_apart_ns: Option<u64>,
    /// Number of clock steps of either host.
    pub steps: u64,
    /// Number of refutations of the model.
    pub splits: u64,
    /// A step of a clock below this is not seen in the packets, nanoseconds.
    pub smallest_visible_step_ns: Option<u64>,
    /// Hints at such a step, or at a drift beyond the assumption; with one the pair is SUSPECT.
    pub hints: Vec<HintRow>,
}

/// A hint at a step that packets cannot prove.
#[derive(Debug, Serialize)]
pub struct HintRow {
    /// `collapse`, `contradictions`, `bend` or `same-sign`.
    pub hint: &'static str,
    /// The same as a sentence.
    pub text: String,
}

impl HintRow {
    /// The rows of these hints.
    pub fn of(hints: &[Hint]) -> Vec<Self> {
        hints.iter().map(|hint| HintRow { hint: hint.name(), text: hint.to_string() }).collect()
    }
}

/// The difference at one instant.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the names in JSON")]
pub struct Instant {
    /// R of A, nanoseconds.
    pub at_ns: u64,
    pub lower_ns: Option<i64>,
    pub upper_ns: Option<i64>,
    pub estimate_ns: Option<i64>,
}

/// A packet that bounds a difference.
#[derive(Debug, Serialize)]
pub struct Limiting {
    /// Recording of the sender.
    pub from: u16,
    /// Recording of the receiver.
    pub to: u16,
    /// Send time, the sender's `CLOCK_MONOTONIC`, nanoseconds: identifies the packet among the journeys.
    pub sent_ns: u64,
    /// Bound from this packet: the difference is at most (sent by A) or at least (sent by B) this.
    pub bound_ns: i64,
}

impl Table {
    pub fn of(alignment: &Alignment, hosts: &[String]) -> Self {
        // The combination at a time in the middle of the packets of the first pair that includes recording 0.
        let amid = alignment.clocks().skip(1).find_map(|b| alignment.amid_ns(0, b));
        let joint = amid.map(|raw_0_ns| alignment.by_packets_at(raw_0_ns));
        let solution = joint.as_ref().and_then(|solved| solved.as_ref().ok());
        let row = |(a, b)| {
            let state = alignment.state(a, b)?;
            let all = solution.map_or(Bounds::NONE, |s| s.bounds(usize::from(a), usize::from(b)));
            Some(Row::of(alignment, (a, b), state, &all))
        };
        let pairs: Vec<Row> = alignment.couples().filter_map(row).collect();
        let contradiction = joint.and_then(Result::err).map(|e| e.to_string());
        Table { hosts: hosts.to_vec(), one_clock: pairs.is_empty(), pairs, contradiction }
    }
}

impl Row {
    fn of(alignment: &Alignment, (a, b): (u16, u16), state: State, all: &Bounds) -> Self {
        let pair = alignment.pair(a, b);
        let amid = alignment.amid_ns(a, b);
        let at = pair.zip(amid);
        let found = amid.map(|at| alignment.difference_at(a, b, at));
        let shown = found.map_or(Bounds::NONE, |found| found.bounds);
        let model =
            at.map(|(pair, at)| pair.sourced_bounds_at(at)).filter(|sourced| sourced.state == State::Model);
        let half = |bounds: &Bounds| bounds.width_ns().map(|width| width.div_ceil(2));
        let own = at.map_or(Bounds::NONE, |(pair, at)| pair.bounds_at(at));
        let sourced = amid.and_then(|at| alignment.bounds_at(a, b, at));
        let external = sourced.filter(|sourced| sourced.state == State::External);
        let counts = pair.map(Recorded::counts).unwrap_or_default();
        let joint = half(all).filter(|all| half(&own).is_none_or(|own| *all < own));
        let ahead = match (shown.lower, shown.upper) {
            (Some(lower), _) if lower > 0 => Some(b),
            (_, Some(upper)) if upper < 0 => Some(a),
            _ => None,
        };
        let drift = pair.and_then(Recorded::drift_ppm);
        let utc_refuted = alignment.refuted_utc(a, b);
        Row {
            a,
            b,
            state: state.to_string(),
            at_ns: amid,
            difference_ns: found.and_then(|found| found.estimate_ns),
            lower_ns: shown.lower,
            upper_ns: shown.upper,
            ahead,
            half_width_ns: found.and_then(|found| found.half_width_ns()),
            over_time: over_time(alignment, a, b),
            half_width_over_time_ns: pair.and_then(Recorded::half_widths_ns),
            model_half_width_ns: model.and_then(|sourced| half(&sourced.bounds)),
            external_half_width_ns: external.and_then(|sourced| half(&sourced.bounds)),
            external_refuted: !utc_refuted.is_empty(),
            utc_refuted,
            together_half_width_ns: joint,
            drift_ppm: drift.map(|(ppm, _)| ppm),
            drift_half_width_ppm: drift.map(|(_, ppm)| ppm),
            quickest_round_trip_ns: pair.and_then(Recorded::min_round_trip_ns),
            limiting: at.map(|(pair, at)| limiting(pair, a, b, at)).unwrap_or_default(),
            used: counts.used,
            rejected: counts.rejected,
            quarantined: counts.quarantined,
            between_epochs: counts.between_epochs,
            recorded_apart_ns: alignment.recorded_apart_ns(a, b),
            steps: pair.map_or(0, Recorded::steps),
            splits: pair.map_or(0, Recorded::splits),
            smallest_visible_step_ns: pair.and_then(Recorded::smallest_visible_step_ns),
            hints: HintRow::of(pair.map_or(&[][..], Recorded::hints)),
        }
    }
}

/// Number of spans between the instants of [`over_time`].
const SPANS: u64 = 100;

fn over_time(alignment: &Alignment, a: u16, b: u16) -> Vec<Instant> {
    let Some((from, to)) = alignment.pair(a, b).and_then(Recorded::span_ns) else { return Vec::new() };
    let instant = |i: u64| {
        let at_ns = from + (u128::from(to - from) * u128::from(i) / u128::from(SPANS)) as u64;
        let found = alignment.difference_at(a, b, at_ns);
        let (lower_ns, upper_ns) = (found.bounds.lower, found.bounds.upper);
        Instant { at_ns, lower_ns, upper_ns, estimate_ns: found.estimate_ns }
    };
    (0..=SPANS).map(instant).collect()
}

fn limiting(pair: &Recorded, a: u16, b: u16, at_ns: u64) -> Vec<Limiting> {
    let (lower, upper) = pair.limiting_at(at_ns);
    let of = |constraint: Constraint| {
        let (from, to) = if constraint.kind == Kind::Upper { (a, b) } else { (b, a) };
        Limiting { from, to, sent_ns: constraint.packet, bound_ns: constraint.value_ns }
    };
    [upper, lower].into_iter().flatten().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;
    use magscope_core::clock::ClockSample;
    use magscope_core::node::NodeInfo;
    use magscope_timeline::align::Aligner;
    use magscope_timeline::join::Crossing;

    const SECOND: u64 = 1_000_000_000;
    const DELAY_NS: u64 = 25_000;

    /// Hosts whose clocks are ahead by these amounts, and their packets: sender, receiver, and a false offset
    /// in the receiver's stamps.
    struct Hosts {
        ahead_ns: Vec<u64>,
        vouched: Option<u64>,
        /// Error of the second host's wall clock, nanoseconds.
        wrong: i64,
    }

    impl Hosts {
        fn of(ahead_ns: &[u64]) -> Self {
            Hosts { ahead_ns: ahead_ns.to_vec(), vouched: None, wrong: 0 }
        }

        fn table(&self, talks: &[(u16, u16, i64)]) -> Table {
            let boots = self.ahead_ns.iter().enumerate();
            let infos: Vec<NodeInfo> =
                boots.map(|(i, _)| NodeInfo { boot_id: i.to_string(), ..NodeInfo::default() }).collect();
            let mut aligner = Aligner::new(&infos);
            for (node, ahead) in self.ahead_ns.iter().enumerate() {
                for tick in 0..20 {
                    let at = SECOND + tick * 100_000_000 + ahead;
                    let wrong_ns = if node == 1 { self.wrong } else { 0 };
                    aligner.clock(
                        node as u16,
                        ClockSample {
                            monotonic_ns: at,
                            raw_ns: at,
                            realtime_ns: (at - ahead) as i64 + wrong_ns + 1_790_000_000_000_000_000,
                            width_ns: 100,
                            utc_error_ns: self.vouched,
                            ..ClockSample::default()
                        },
                    );
                }
            }
            for (i, (tx, rx, doctored)) in talks.iter().cycle().take(200 * talks.len()).enumerate() {
                let sent = SECOND + 200_000_000 + i as u64 * 1_000_000 / talks.len() as u64;
                let at = |node: u16, ns: u64| ns + self.ahead_ns[usize::from(node)];
                aligner.crossing(&Crossing {
                    tx_node: *tx,
                    rx_node: *rx,
                    sent_ns: at(*tx, sent),
                    received_ns: at(*rx, sent + DELAY_NS).saturating_add_signed(*doctored),
                });
            }
            let names: Vec<String> = (0..self.ahead_ns.len()).map(|i| format!("host{i}")).collect();
            Table::of(&aligner.finish(), &names)
        }
    }

    fn both_directions(a: u16, b: u16, doctored: i64) -> [(u16, u16, i64); 2] {
        [(a, b, doctored), (b, a, -doctored)]
    }

    #[test]
    fn three_recordings_agree_or_are_named() {
        let hosts = Hosts::of(&[0, 5_000_000, 70_000_000_000]);
        let talks = |doctored| {
            [both_directions(0, 1, 0), both_directions(1, 2, 0), both_directions(0, 2, doctored)].concat()
        };
        let table = hosts.table(&talks(0));
        assert_eq!((table.pairs.len(), &table.contradiction), (3, &None));
        assert!(table.pairs.iter().all(|row| row.state == "CERTIFIED" && row.ahead == Some(row.b)));
        // Every stamp of one pair is a millisecond off, as if its recording used another clock.
        let table = hosts.table(&talks(1_000_000));
        let contradiction = table.contradiction.expect("they contradict each other");
        assert!(["0", "1", "2"].iter().all(|node| contradiction.contains(node)), "{contradiction}");
        assert!(contradiction.contains("contradict each other by"), "{contradiction}");
    }

    #[test]
    fn those_who_never_spoke_are_bounded_by_way_of_others() {
        let hosts = Hosts::of(&[0, 5_000_000, 70_000_000_000]);
        let table = hosts.table(&[both_directions(0, 1, 0), both_directions(1, 2, 0)].concat());
        let row = table.pairs.iter().find(|row| (row.a, row.b) == (0, 2)).expect("a row");
        let half = row.together_half_width_ns.expect("a bound");
        assert!(row.over_time.is_empty() && half > 2 * DELAY_NS && half < 3 * DELAY_NS, "{half}");
        assert_eq!(row.state, "CERTIFIED");
    }

    #[test]
    fn packets_of_all_recordings_count_without_utc() {
        let vouched = Hosts { vouched: Some(1_000), ..Hosts::of(&[0, 5_000_000, 70_000_000_000]) };
        let table = vouched.table(&[both_directions(0, 1, 0), both_directions(1, 2, 0)].concat());
        let row = table.pairs.iter().find(|row| (row.a, row.b) == (0, 2)).expect("a row");
        let half = row.together_half_width_ns.expect("a bound");
        assert!(half > 2 * DELAY_NS && half < 3 * DELAY_NS, "{half}");
        assert_eq!(row.state, "EXTERNAL");
    }

    #[test]
    fn recordings_that_do_not_overlap_are_named() {
        let wrong = Hosts { vouched: Some(1_000), wrong: 86_400_000_000_000, ..Hosts::of(&[0, 7_000_000]) };
        let table = wrong.table(&[]);
        assert!(table.pairs[0].recorded_apart_ns.is_some_and(|ns| ns > 80_000_000_000_000));
        let rendered = text::render(&table);
        assert!(rendered.contains("the two recordings are 23 h apart"), "{rendered}");
        let right = Hosts { vouched: Some(1_000), ..Hosts::of(&[0, 7_000_000]) };
        assert!(!text::render(&right.table(&[])).contains("apart"));
    }

    #[test]
    fn what_is_ahead_is_said_only_where_it_is_known() {
        let row = |ahead: u64| Hosts::of(&[1_000_000, ahead]).table(&both_directions(0, 1, 0)).pairs.remove(0);
        assert_eq!(row(2_000_000).ahead, Some(1));
        assert_eq!(row(0).ahead, Some(0));
        let near = row(1_010_000);
        assert_eq!(near.ahead, None, "{near:?}");
        assert_eq!(near.limiting.len(), 2);
        let table = Hosts::of(&[1_000_000, 1_010_000]).table(&both_directions(0, 1, 0));
        let rendered = text::render(&table);
        assert!(rendered.contains("which is ahead is not resolvable"), "{rendered}");
        assert!(rendered.contains("which runs faster is not resolvable"), "{rendered}");
        assert!(
            rendered.contains("by the packet 0→1 sent at 1.") && rendered.contains("over time: half"),
            "{rendered}"
        );
    }

    #[test]
    fn utc_helps_where_packets_do_not_and_never_overrules_them() {
        // Traffic in one direction, and UTC within 10 µs on both hosts.
        let vouched = Hosts { vouched: Some(10_000), ..Hosts::of(&[0, 7_000_000]) };
        let row = vouched.table(&[(0, 1, 0)]).pairs.remove(0);
        assert_eq!((row.state.as_str(), row.ahead), ("EXTERNAL", Some(1)));
        let half = row.external_half_width_ns.expect("a bound");
        assert!(
            row.half_width_ns.is_some_and(|ns| (half..=2 * half).contains(&ns)),
            "of the same interval: {row:?}"
        );
        assert!((10_000..21_000).contains(&half), "{half}: the packets bound one side");
        assert!(row.difference_ns.is_some_and(|ns| ns.abs_diff(7_000_000) <= half), "{row:?}");
        // No traffic at all.
        let row = vouched.table(&[]).pairs.remove(0);
        assert_eq!(row.state, "EXTERNAL");
        assert!(row.difference_ns.is_some_and(|ns| ns.abs_diff(7_000_000) <= 21_000), "{row:?}");
        // Without a UTC source nothing is determined.
        let row = Hosts::of(&[0, 7_000_000]).table(&[]).pairs.remove(0);
        assert_eq!((row.state.as_str(), row.difference_ns), ("UNSYNCHRONISED", None));
        // Packets in both directions give a better bound than 10 µs on each host.
        let row = vouched.table(&both_directions(0, 1, 0)).pairs.remove(0);
        assert_eq!((row.state.as_str(), row.external_refuted), ("CERTIFIED", false));
        // A host with a wrong UTC bound, a millisecond off or an hour, is detected.
        for wrong in [1_000_000, 3_600_000_000_000, -3_600_000_000_000] {
            let wrong = Hosts { wrong, vouched: vouched.vouched, ..Hosts::of(&[0, 7_000_000]) };
            let table = wrong.table(&both_directions(0, 1, 0));
            let row = &table.pairs[0];
            assert!(row.external_refuted && row.state == "CERTIFIED", "{row:?}");
            assert!(row.difference_ns.is_some_and(|ns| ns.abs_diff(7_000_000) <= DELAY_NS + 1_000), "{row:?}");
            assert!(text::render(&table).contains("not as near to UTC as it claims"));
        }
    }
}
