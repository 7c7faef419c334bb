//! Softirq load of CPUs from `/proc/stat`.

use magscope_sensor::health::Softirq;
use std::fs;
use std::time::{Duration, Instant};

/// Ticks of a CPU since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    cpu: u32,
    softirq: u64,
    all: u64,
}

/// Each CPU's line: user, nice, system, idle, iowait, irq, softirq, steal. Guest times are already in user.
fn ticks(stat: &str) -> Vec<Ticks> {
    let cpu = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let cpu = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
        let ticks: Vec<u64> = fields.take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let all = ticks.iter().try_fold(0_u64, |sum, ticks| sum.checked_add(*ticks))?;
        Some(Ticks { cpu, softirq: *ticks.get(6)?, all })
    };
    stat.lines().filter_map(cpu).collect()
}

/// The CPU with the largest softirq share between two readings.
fn busiest(before: &[Ticks], now: &[Ticks]) -> Option<(u32, f64)> {
    let share = |now: &Ticks| {
        let before = before.iter().find(|before| before.cpu == now.cpu)?;
        let all = now.all.checked_sub(before.all).filter(|ticks| *ticks > 0)?;
        let softirq = now.softirq.checked_sub(before.softirq)?;
        Some((now.cpu, softirq as f64 / all as f64))
    };
    now.iter().filter_map(share).max_by(|(_, a), (_, b)| a.total_cmp(b))
}

/// Softirq load since its creation.
pub struct Softirqs {
    since: Instant,
    before: Vec<Ticks>,
}

impl Softirqs {
    /// Takes the first reading.
    pub fn new() -> Self {
        Softirqs { since: Instant::now(), before: read() }
    }

    /// The busiest CPU so far, over at least this time; otherwise the reason for its absence.
    pub fn busiest(&self, at_least: Duration) -> Result<Softirq, String> {
        std::thread::sleep(at_least.saturating_sub(self.since.elapsed()));
        let over_s = self.since.elapsed().as_secs_f64();
        let found = busiest(&self.before, &read());
        found
            .map(|(cpu, share)| Softirq { share, cpu, over_s })
            .ok_or_else(|| "/proc/stat does not say".to_owned())
    }
}

fn read() -> Vec<Ticks> {
    ticks(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_cpu_is_found() {
        let before = ticks(
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 0 0 0 100 0 0 5 0 0 0\ncpu1 0 0 0 100 0 0 5 0 7 7\nintr 5 6\n",
        );
        assert_eq!(before.len(), 2);
        assert_eq!(before[1], Ticks { cpu: 1, softirq: 5, all: 105 }, "guests are not counted twice");
        let now = ticks("cpu0 0 0 0 150 0 0 55 0\ncpu1 0 0 0 110 0 0 95 0\ncpu2 0 0 0 1 0 0 99 0\n");
        assert_eq!(busiest(&before, &now), Some((1, 0.9)), "one that has just come has no before");
        assert_eq!((busiest(&now, &now), busiest(&now, &before)), (None, None));
        for bad in [
            "",
            "cpu",
            "cpu0 1 2",
            "cpu0 a b c d e f g",
            "cpux 1 2 3 4 5 6 7 8",
            &format!("cpu0{}", " 18446744073709551615".repeat(8)),
        ] {
            assert!(ticks(bad).is_empty(), "{bad}");
        }
    }
}
