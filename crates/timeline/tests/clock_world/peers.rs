//! Other methods, implemented from their publications, for comparison on the same packets.
//!
//! Each returns `D` and, if it claims one, an interval, after every packet.

use magscope_timeline::pair::{Constraint, Kind};
use std::collections::{BTreeMap, VecDeque};

pub trait Method {
    fn name(&self) -> &'static str;
    fn push(&mut self, constraint: &Constraint);
    /// `D` at an instant.
    fn estimate(&self, a_ns: u64) -> Option<i64>;
    /// The claimed interval, if any.
    fn interval(&self, _a_ns: u64) -> Option<(i64, i64)> {
        None
    }
}

/// A packet as a point: A's time and B's time, of sending on one axis and receiving on the other, since the first packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    x: i64,
    y: i64,
}

/// Positive if `b` lies to the left of the line from `p` to `a`.
type Cross = fn(Point, Point, Point) -> i128;

/// In 64 bits that wrap, as Java's do.
fn wrapping_cross(p: Point, a: Point, b: Point) -> i128 {
    let (ax, ay) = (a.x.wrapping_sub(p.x), a.y.wrapping_sub(p.y));
    let (bx, by) = (b.x.wrapping_sub(p.x), b.y.wrapping_sub(p.y));
    i128::from(ax.wrapping_mul(by).wrapping_sub(ay.wrapping_mul(bx)))
}

fn exact_cross(p: Point, a: Point, b: Point) -> i128 {
    let (ax, ay) = (i128::from(a.x - p.x), i128::from(a.y - p.y));
    let (bx, by) = (i128::from(b.x - p.x), i128::from(b.y - p.y));
    ax * by - ay * bx
}

/// One hull with the limiting line that ends at its newest point and begins at a point of the other hull.
#[derive(Clone, Debug, Default)]
struct Side {
    hull: Vec<Point>,
    from: Option<Point>,
    to: Option<Point>,
}

/// Trace Compass' incremental convex hull: Jabbarifar, Dagenais and Shameli-Sendi, *Streaming Mode Incremental
/// Clock Synchronization* (2015), as in its `SyncAlgorithmFullyIncremental`. It uses two hulls, the line of
/// greatest and that of least slope between them, and their bisector. Products have 64 bits; one line covers
/// the complete trace. After the lines cross, the last result is final.
#[derive(Clone, Debug)]
pub struct ConvexHull {
    cross: Cross,
    origin: Option<(u64, i64)>,
    /// Packets A→B, whose receipt is an upper bound, and B→A.
    received: Side,
    sent: Side,
    /// Slope and height at zero of the two lines.
    lines: Option<[(f64, f64); 2]>,
    pub failed: bool,
}

impl Default for ConvexHull {
    fn default() -> Self {
        ConvexHull {
            cross: wrapping_cross,
            origin: None,
            received: Side::default(),
            sent: Side::default(),
            lines: None,
            failed: false,
        }
    }
}

impl ConvexHull {
    /// The same without wrapping products.
    pub fn exact() -> Self {
        ConvexHull { cross: exact_cross, ..Self::default() }
    }

    fn take(cross: Cross, own: &mut Side, other: &mut Side, p: Point, sign: i128) -> bool {
        let qualifies = match (own.from, own.to) {
            (Some(from), Some(to)) => cross(p, from, to) * sign > 0,
            _ => true,
        };
        if qualifies {
            while let [.., before, last] = own.hull[..] {
                if cross(p, before, last) * sign <= 0 {
                    break;
                }
                own.hull.pop();
            }
            own.hull.push(p);
            own.to = Some(p);
        }
        Self::adjust(cross, own, &other.hull, sign);
        if other.to.is_some() && !other.from.is_some_and(|from| own.hull.contains(&from)) {
            Self::adjust(cross, other, &own.hull, -sign);
        }
        qualifies
    }

    /// Rotates the line around its end until it touches the other hull.
    fn adjust(cross: Cross, line: &mut Side, other: &[Point], sign: i128) {
        let Some(to) = line.to else { return };
        let mut i = line.from.and_then(|from| other.iter().position(|p| *p == from)).unwrap_or(0);
        let mut nearest = None;
        while let (Some(point), Some(next)) = (other.get(i), other.get(i + 1)) {
            nearest = Some(*point);
            if cross(*point, *next, to) * sign <= 0 {
                line.from = nearest;
                break;
            }
            if next.x >= to.x {
                line.from = None;
                break;
            }
            i += 1;
        }
        line.from = line.from.or(nearest).filter(|from| from.x <= to.x);
    }

    fn line(side: &Side) -> Option<(f64, f64)> {
        let (from, to) = (side.from?, side.to?);
        // The original uses decimals; fractions over the diagonal are as exact.
        let (run, rise) = ((to.x - from.x) as f64, ((to.y - to.x) - (from.y - from.x)) as f64);
        let slope = if run == 0.0 { 0.0 } else { rise / run };
        Some((slope, (to.y - to.x) as f64 - slope * to.x as f64))
    }

    fn at(&self, a_ns: u64) -> Option<(f64, f64)> {
        let x = a_ns.wrapping_sub(self.origin?.0) as i64 as f64;
        let [one, other] = self.lines?;
        Some((one.0 * x + one.1, other.0 * x + other.1))
    }
}

impl Method for ConvexHull {
    fn name(&self) -> &'static str {
        "convex hull (Trace Compass)"
    }

    fn push(&mut self, constraint: &Constraint) {
        let (a0, d0) = *self.origin.get_or_insert((constraint.at_ns, constraint.value_ns));
        let x = constraint.at_ns.wrapping_sub(a0) as i64;
        let p = Point { x, y: x + (constraint.value_ns - d0) };
        let qualifies = match constraint.kind {
            Kind::Upper => Self::take(self.cross, &mut self.received, &mut self.sent, p, -1),
            Kind::Lower => Self::take(self.cross, &mut self.sent, &mut self.received, p, 1),
        };
        if !qualifies || self.failed {
            return;
        }
        if let (Some(steep), Some(flat)) = (Self::line(&self.received), Self::line(&self.sent)) {
            if steep.0 > flat.0 {
                self.lines = Some([steep, flat]);
            } else {
                self.failed = true;
            }
        }
    }

    fn estimate(&self, a_ns: u64) -> Option<i64> {
        let (one, other) = self.at(a_ns)?;
        Some(self.origin?.1 + f64::midpoint(one, other) as i64)
    }

    fn interval(&self, a_ns: u64) -> Option<(i64, i64)> {
        let (one, other) = self.at(a_ns)?;
        let d0 = self.origin?.1;
        Some((d0 + one.min(other).floor() as i64, d0 + one.max(other).ceil() as i64))
    }
}

/// Trace Compass' time line of many hosts (`SyncSpanningTree`): a tree by the fewest hops from the host of
/// reference. The offset of a host is the sum of the lines along its path.
#[derive(Clone, Debug, Default)]
pub struct HopTree {
    edges: BTreeMap<(usize, usize), ConvexHull>,
}

impl HopTree {
    pub fn push(&mut self, a: usize, b: usize, constraint: &Constraint) {
        self.edges.entry((a, b)).or_default().push(constraint);
    }

    /// The clock of `to` minus that of `from` at an instant of `from`.
    pub fn estimate(&self, from: usize, to: usize, at_ns: u64) -> Option<i64> {
        let mut reached = BTreeMap::from([(from, 0_i64)]);
        let mut next = VecDeque::from([from]);
        while let Some(here) = next.pop_front() {
            let here_ns = reached.get(&here).copied()?;
            for ((a, b), line) in &self.edges {
                let (there, sign) = match here {
                    here if here == *a => (*b, 1),
                    here if here == *b => (*a, -1),
                    _ => continue,
                };
                // A line takes the first host's clock as its argument; the second's is close enough.
                let Some(difference) = line.estimate(at_ns.wrapping_add_signed(here_ns)) else { continue };
                reached.entry(there).or_insert_with(|| {
                    next.push_back(there);
                    here_ns + sign * difference
                });
            }
        }
        reached.get(&to).copied()
    }
}

/// A line through each direction's packets by least squares, and the line in the middle (Duda, Harrus, Haddad
/// and Bernard 1987). It claims no interval.
#[derive(Clone, Debug, Default)]
pub struct Regression {
    origin: Option<(u64, i64)>,
    /// Count, Σx, Σy, Σxx, Σxy of each direction.
    sums: [[f64; 5]; 2],
}

impl Method for Regression {
    fn name(&self) -> &'static str {
        "linear regression"
    }

    fn push(&mut self, constraint: &Constraint) {
        let (a0, d0) = *self.origin.get_or_insert((constraint.at_ns, constraint.value_ns));
        let x = constraint.at_ns.wrapping_sub(a0) as i64 as f64;
        let y = (constraint.value_ns - d0) as f64;
        let sums = &mut self.sums[usize::from(constraint.kind == Kind::Lower)];
        for (sum, term) in sums.iter_mut().zip([1.0, x, y, x * x, x * y]) {
            *sum += term;
        }
    }

    fn estimate(&self, a_ns: u64) -> Option<i64> {
        let (a0, d0) = self.origin?;
        let at = a_ns.wrapping_sub(a0) as i64 as f64;
        let line = |[n, x, y, xx, xy]: [f64; 5]| {
            let spread = n * xx - x * x;
            let slope = if n > 1.0 && spread > 0.0 { (n * xy - x * y) / spread } else { 0.0 };
            (n > 0.0).then(|| (y - slope * x) / n + slope * at)
        };
        Some(d0 + f64::midpoint(line(self.sums[0])?, line(self.sums[1])?) as i64)
    }
}

/// The middle of the quickest of the last eight round trips, as NTP's clock filter (RFC 5905) chooses it. Its
/// bound is half the trip plus 15 ppm of its age.
#[derive(Clone, Debug, Default)]
pub struct QuickestTrip {
    there: Option<Constraint>,
    trips: VecDeque<(u64, i64, i64)>,
}

impl QuickestTrip {
    fn best(&self) -> Option<&(u64, i64, i64)> {
        self.trips.iter().min_by_key(|(_, lower, upper)| upper - lower)
    }
}

impl Method for QuickestTrip {
    fn name(&self) -> &'static str {
        "quickest round trip (NTP)"
    }

    fn push(&mut self, constraint: &Constraint) {
        if constraint.kind == Kind::Upper {
            self.there = Some(*constraint);
        } else if let Some(there) = self.there.take() {
            if self.trips.len() == 8 {
                self.trips.pop_front();
            }
            self.trips.push_back((constraint.at_ns, constraint.value_ns, there.value_ns));
        }
    }

    fn estimate(&self, _: u64) -> Option<i64> {
        self.best().map(|(_, lower, upper)| lower + (upper - lower) / 2)
    }

    fn interval(&self, a_ns: u64) -> Option<(i64, i64)> {
        let (at, lower, upper) = self.best()?;
        let aged = a_ns.abs_diff(*at) as i64 * 15 / 1_000_000;
        Some((lower - aged, upper + aged))
    }
}
