//! Data missing in rows from recordings: losses, filters and samplers.

use magscope_scope::format::counted;
use magscope_session::Session;

/// One sentence per kind; empty for complete recordings.
pub fn of(sessions: &[Session]) -> Vec<String> {
    let (mut filtered, mut undecided, mut sampled) = (0_u64, 0_u64, 0_u64);
    let (mut lost, mut summed) = (0_u64, 0_u64);
    for session in sessions {
        lost = lost.saturating_add(session.summary().losses.total());
        for count in session.changes().1 {
            filtered = filtered.saturating_add(count.filtered);
            undecided = undecided.saturating_add(count.undecided);
            sampled = sampled.saturating_add(count.sampled);
            summed = summed.saturating_add(count.synthesised);
        }
    }
    let missing = [
        (
            lost,
            "record is missing",
            "records are missing",
            "the table losses says when, and verdicts near it allow for that",
        ),
        (
            sampled,
            "event was left out by a sampler",
            "events were left out by a sampler",
            "counts and rates of what is here are that much too low",
        ),
        (
            summed,
            "event was added up by the kernel",
            "events were added up by the kernel",
            "they have no record, so no row here has them; the table sums does",
        ),
        (
            filtered,
            "event was left out by a filter",
            "events were left out by a filter",
            "`magnet-scope info` says at which hops",
        ),
        (
            undecided,
            "event was left out undecided",
            "events were left out undecided",
            "a filter asks what was unknown there, or the beginning of a task switch was not seen \
             (`magnet-scope info` says at which hops)",
        ),
    ];
    let missing = missing.into_iter().filter(|(n, ..)| *n > 0);
    missing.map(|(n, one, many, so)| format!("{}: {so}", counted(n, one, many))).collect()
}
