//! A stretch of a recording, hit by hit: the source of lanes where tiles are too coarse and lifelines too many.
//!
//! Tiles are at least 65 µs wide. On a busy host thousands of journeys lie within a few milliseconds, and tiles
//! would give only a few blocks. So the hits of the stretch are stored by hop and time, and counted into
//! columns exactly.

use crate::lifeline::Lifeline;
use crate::look::Cell;
use magscope_core::Hop;
use magscope_core::hop::PATH_HOPS;

/// Hits of a stretch by hop.
#[derive(Debug)]
pub struct Scan {
    /// Instant, and the time since the hop below; in order of time.
    hops: Vec<Vec<(u64, u64)>>,
}

impl Scan {
    /// The hits of these lifelines.
    pub fn new(lines: &[Lifeline]) -> Self {
        let mut hops = vec![Vec::new(); PATH_HOPS];
        for line in lines {
            let first = line.marks().next().map(|mark| (mark.hop, mark.time_ns, 0));
            for (hop, at, ns) in
                line.steps_outside_forwarders().map(|step| (step.to, step.at_ns, step.ns)).chain(first)
            {
                if let Some(row) = hop.rank().and_then(|index| hops.get_mut(index)) {
                    row.push((at, ns));
                }
            }
        }
        for row in &mut hops {
            row.sort_unstable();
        }
        Scan { hops }
    }

    /// Counts of a hop in each column of a stretch.
    pub fn cells(&self, hop: Hop, (from_ns, to_ns): (u64, u64), columns: usize) -> Vec<Cell> {
        let mut cells = vec![Cell::default(); columns];
        let Some(row) = hop.rank().and_then(|index| self.hops.get(index)) else { return cells };
        let span = u128::from(to_ns.saturating_sub(from_ns).max(1));
        let first = row.partition_point(|(at, _)| *at < from_ns);
        for (at, ns) in row.iter().skip(first).take_while(|(at, _)| *at < to_ns) {
            let column = (u128::from(at - from_ns) * columns as u128 / span) as usize;
            let Some(cell) = cells.get_mut(column) else { continue };
            *cell = Cell {
                count: cell.count + 1,
                min_ns: if cell.count == 0 { *ns } else { cell.min_ns.min(*ns) },
                max_ns: cell.max_ns.max(*ns),
            };
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifeline::tests::lifeline;

    #[test]
    fn every_hit_is_in_its_column() {
        let line = |n: u64, slow: u64| {
            lifeline(
                n,
                &[
                    (Hop::AppSend, n * 1_000),
                    (Hop::DevXmit, n * 1_000 + 100),
                    (Hop::AppRecv, n * 1_000 + 200 + slow),
                ],
            )
        };
        let lines: Vec<_> = (1..=1_000).map(|n| line(n, if n == 500 { 700 } else { 0 })).collect();
        let scan = Scan::new(&lines);
        let cells = scan.cells(Hop::AppRecv, (1_000, 1_001_000), 1_000);
        assert!(
            cells.iter().all(|cell| cell.count == 1),
            "a column each: tiles would have sixteen in one block"
        );
        assert_eq!(cells.iter().position(|cell| cell.max_ns > 100), Some(499));
        assert_eq!(cells[499], Cell { count: 1, min_ns: 800, max_ns: 800 });
        let sends = scan.cells(Hop::AppSend, (0, 2_000_000), 7);
        assert_eq!(sends.iter().map(|cell| cell.count).sum::<u64>(), 1_000);
        assert!(scan.cells(Hop::IpIn, (0, u64::MAX), 3).iter().all(|cell| cell.count == 0));
        assert!(scan.cells(Hop::AppRecv, (5, 5), 0).is_empty());
    }
}
