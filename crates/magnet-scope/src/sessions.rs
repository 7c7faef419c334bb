//! Opens recordings and resolves instants in them.

use crate::cli::PartArgs;
use crate::failure::{Hint, Usage};
use crate::output;
use crate::values::instant::Instant;
use anyhow::Result;
use jiff::Timestamp;
use magscope_session::Session;
use magscope_timeline::UtcMap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Opens the recording in a directory and prints damage on stderr.
pub fn open(dir: &Path) -> Result<Session> {
    let mut session = Session::open(dir)?;
    session.check_small_tables();
    for damage in session.damage() {
        output::note(&damage.to_string());
    }
    Ok(session)
}

/// Opens several recordings, each once.
pub fn open_all(dirs: &[PathBuf]) -> Result<Vec<Session>> {
    let sessions = dirs.iter().map(|dir| open(dir)).collect::<Result<Vec<_>>>()?;
    require_distinct(dirs.iter().map(PathBuf::as_path).zip(&sessions))?;
    Ok(sessions)
}

/// Fails if two directories hold one recording: its events would count twice.
pub fn require_distinct<'a>(opened: impl IntoIterator<Item = (&'a Path, &'a Session)>) -> Result<()> {
    let mut seen: BTreeMap<&str, &Path> = BTreeMap::new();
    for (dir, session) in opened {
        let id = session.meta().session.as_str();
        // A recording without a readable `meta.toml` has no id.
        if id.is_empty() {
            continue;
        }
        if let Some(earlier) = seen.insert(id, dir) {
            return Err(is_one_recording(earlier, dir, id));
        }
    }
    Ok(())
}

fn is_one_recording(a: &Path, b: &Path, id: &str) -> anyhow::Error {
    let (a, b) = (a.display(), b.display());
    Hint::error(
        format!("{a} and {b} are one recording: its events would count twice"),
        format!("the directory was given twice, or is a copy: both have the session id {id}"),
        format!("leave out {b}, or give the recording that was meant"),
    )
}

/// The piecewise map from the recording's clock to UTC, because the clock may have been set meanwhile.
pub fn utc_map(session: &Session) -> UtcMap {
    let mut map = UtcMap::new();
    session.clock_samples().into_iter().for_each(|sample| map.push(sample));
    map
}

/// `--from` and `--until` on each recording's own clock. Times refer to the first recording; the others' parts are
/// derived from UTC, with the error of the hosts' clocks.
pub fn windows(
    sessions: &[Session],
    maps: &[UtcMap],
    part: PartArgs,
) -> Result<Vec<(Option<u64>, Option<u64>)>> {
    let Some(first) = sessions.first() else { return Ok(Vec::new()) };
    let (from, to) = window(first, part)?;
    let mut parts = vec![(from, to)];
    let utc = |at: u64| maps.first().and_then(|map| map.utc_ns(at));
    for map in maps.iter().skip(1) {
        let place = |at: Option<u64>| at.and_then(utc).map(|utc| from_utc(map, utc)).transpose();
        parts.push((place(from)?, place(to)?));
    }
    somewhere(sessions, &parts)?;
    Ok(parts)
}

/// Fails if no recording has data in its part, because the output would be empty.
fn somewhere(sessions: &[Session], parts: &[(Option<u64>, Option<u64>)]) -> Result<()> {
    let extents =
        || sessions.iter().zip(parts).filter_map(|(session, part)| Some((session.extent_ns()?, *part)));
    let outside = |((first, last), (from, to)): ((u64, u64), (Option<u64>, Option<u64>))| {
        from.is_some_and(|from| from > last) || to.is_some_and(|to| to < first)
    };
    let Some(((first, last), (from, _))) = extents().next().filter(|_| extents().all(outside)) else {
        return Ok(());
    };
    let length = Duration::from_nanos(last - first);
    let text = if from.is_some_and(|from| from > last) {
        format!(
            "nothing was recorded so late: the last event is {length:.3?} after the first; give a smaller `--from`"
        )
    } else {
        "nothing was recorded so early; give a larger `--until`".to_owned()
    };
    Err(Usage(text).into())
}

/// `--from` and `--until` on the recording's own clock.
pub fn window(session: &Session, part: PartArgs) -> Result<(Option<u64>, Option<u64>)> {
    let PartArgs { from, until: to } = part;
    let needs_utc = [from, to].iter().flatten().any(|instant| matches!(instant, Instant::Utc(_)));
    let map = if needs_utc { utc_map(session) } else { UtcMap::new() };
    let start = session.extent_ns().map_or(0, |(from_ns, _)| from_ns);
    let place = |instant: Option<Instant>| {
        instant
            .map(|instant| match instant {
                Instant::Offset(offset) => {
                    Ok(start.saturating_add(u64::try_from(offset.as_nanos()).unwrap_or(u64::MAX)))
                }
                Instant::Utc(utc) => from_utc(&map, utc),
            })
            .transpose()
    };
    let (from, to) = (place(from)?, place(to)?);
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        return Err(Usage("`--from` is later than `--until`; exchange them".to_owned()).into());
    }
    Ok((from, to))
}

/// Inverts the map: the last instant whose UTC is not after `utc`.
fn from_utc(map: &UtcMap, utc: i64) -> Result<u64> {
    map.event_ns(utc).ok_or_else(|| {
        let text = "this recording has no clock samples, so times in UTC cannot be found in it; write an offset as in `1.5s`";
        Usage(text.to_owned()).into()
    })
}

/// An instant of the recording as a time of day in UTC.
pub fn utc_text(map: &UtcMap, monotonic_ns: u64) -> Option<String> {
    let utc = Timestamp::from_nanosecond(i128::from(map.utc_ns(monotonic_ns)?)).ok()?;
    Some(format!("{utc:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use magscope_core::clock::ClockSample;
    use magscope_core::node::NodeInfo;
    use magscope_session::{RecordOptions, Recorder};

    fn recorded(dir: &Path) {
        Recorder::create(dir, &NodeInfo::default(), RecordOptions::default()).unwrap().close().unwrap();
    }

    #[test]
    fn a_recording_is_opened_once() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, copy] = ["a", "b", "copy"].map(|name| dir.path().join(name));
        recorded(&a);
        recorded(&b);
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(&a).unwrap().map(|file| file.unwrap().path()) {
            std::fs::copy(&file, copy.join(file.file_name().unwrap())).unwrap();
        }
        assert_eq!(open_all(&[a.clone(), b.clone()]).unwrap().len(), 2);
        for again in [&a, &copy] {
            let Err(error) = open_all(&[a.clone(), b.clone(), again.clone()]) else {
                panic!("{} is opened twice", again.display());
            };
            let (what, likely, next) = crate::failure::parts(&error);
            assert!(what.contains(&format!("{} and {}", a.display(), again.display())), "{what}");
            assert!(likely.contains("session id") && next.contains("leave out"), "{likely} {next}");
        }
    }

    #[test]
    fn utc_is_found_on_the_clock_of_the_recording() {
        let mut map = UtcMap::new();
        assert!(from_utc(&map, 5).is_err());
        for (monotonic_ns, realtime_ns) in [(1_000, 1_000_000), (1_001_000, 2_000_010)] {
            let raw_ns = monotonic_ns;
            map.push(ClockSample { monotonic_ns, raw_ns, realtime_ns, width_ns: 1, ..ClockSample::default() });
        }
        assert_eq!(from_utc(&map, 1_000_000).unwrap(), 1_000);
        assert_eq!(from_utc(&map, 2_000_010).unwrap(), 1_001_000);
        assert_eq!(from_utc(&map, 0).unwrap(), 0);
    }
}
