//! CPU use of the host from `/proc/stat`.

use std::fs;

/// Ticks of all CPUs since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    idle: u64,
    all: u64,
}

/// Parses the first line: user, nice, system, idle, iowait, irq, softirq, steal. Guest times are already in
/// user.
fn ticks(stat: &str) -> Option<Ticks> {
    let mut fields = stat.lines().next()?.split_ascii_whitespace();
    if fields.next()? != "cpu" {
        return None;
    }
    let ticks: Vec<u64> = fields.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let idle = ticks.get(3)?.checked_add(ticks.get(4).copied().unwrap_or(0))?;
    let all = ticks.iter().try_fold(0_u64, |sum, ticks| sum.checked_add(*ticks))?;
    Some(Ticks { idle, all })
}

/// Busy fraction between two readings; `None` without a tick.
fn busy(before: Ticks, now: Ticks) -> Option<f64> {
    let all = now.all.checked_sub(before.all).filter(|ticks| *ticks > 0)?;
    // The kernel documents that idle ticks can decrease.
    let idle = now.idle.saturating_sub(before.idle).min(all);
    Some((all - idle) as f64 / all as f64)
}

/// Reads the ticks repeatedly.
#[derive(Debug, Default)]
pub struct HostCpu {
    before: Option<Ticks>,
}

impl HostCpu {
    /// Busy fraction of all CPUs since the last call; `None` at the first call or on errors.
    pub fn read(&mut self) -> Option<f64> {
        let now = ticks(&fs::read_to_string("/proc/stat").ok()?)?;
        self.before.replace(now).and_then(|before| busy(before, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_idle_is_busy() {
        let stat =
            |user, idle, wait, steal| format!("cpu  {user} 1 2 {idle} {wait} 3 4 {steal} 9 9\ncpu0 1 2 3\n");
        let before = ticks(&stat(100, 1_000, 50, 0)).expect("a line");
        assert_eq!(before, Ticks { idle: 1_050, all: 1_160 }, "guests are not counted twice");
        let now = ticks(&stat(160, 1_030, 60, 0)).expect("a line");
        assert_eq!(busy(before, now), Some(0.6));
        assert_eq!((busy(now, now), busy(now, before)), (None, None));
        for bad in
            ["", "cpu", "cpu 1 2", "cpu a b c d", "intr 1 2 3 4", &format!("cpu {0} {0} {0} {0}", u64::MAX)]
        {
            assert_eq!(ticks(bad), None, "{bad}");
        }
    }

    #[test]
    fn this_host_is_busy_to_some_part() {
        let mut host = HostCpu::default();
        assert_eq!(host.read(), None);
        std::thread::sleep(std::time::Duration::from_millis(60));
        assert!(host.read().is_none_or(|part| (0.0..=1.0).contains(&part)));
    }
}
