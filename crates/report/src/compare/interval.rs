//! Chance alone: ranks around a quantile, intervals around a share, Student's t.

use super::blocks::Blocks;

/// Probability that the interval of one quantile of one capture misses the true figure.
pub const MISS: f64 = 0.005;

/// The number of standard deviations for [`MISS`], both sides together.
const DEVIATIONS: f64 = 2.807;

/// Shares of a binomial below this are neglected.
const NEGLIGIBLE: f64 = 1e-20;

/// Bounds of the quantile `q`, nanoseconds; `None` on a side with too few times.
pub fn bounds_ns(times: &Blocks, q: f64) -> (Option<u64>, Option<u64>) {
    let (n, worth) = (times.all().n(), times.worth(q));
    let (low, high) = ranks(worth, q);
    // The same shares of all that were measured, rounded outwards.
    let scaled =
        |rank: u64, up: u64| ((u128::from(rank) * u128::from(n) + u128::from(up)) / u128::from(worth)) as u64;
    let low = low.and_then(|rank| times.all().at_rank_ns(scaled(rank, 0)));
    let high = high.and_then(|rank| times.all().at_rank_ns(scaled(rank, worth - 1)));
    // The outer edges of the buckets.
    (low.map(|(low, _)| low), high.map(|(_, high)| high))
}

/// Minimum number of independent journeys for an interval of the quantile `q`.
pub fn least_journeys(q: f64) -> u64 {
    let tail = |q: f64| ((MISS / 2.0).ln() / q.ln()).ceil() as u64;
    tail(q).max(tail(1.0 - q))
}

/// Two ranks whose values enclose the quantile `q` of the distribution of n values, except with probability
/// [`MISS`].
///
/// The number B of values below the quantile is binomial. The value of rank l is above it if B < l, that of
/// rank u below it if B >= u: l is the largest with P(B < l) <= MISS/2, u the smallest with P(B >= u) <=
/// MISS/2.
fn ranks(n: u64, q: f64) -> (Option<u64>, Option<u64>) {
    if n == 0 {
        return (None, None);
    }
    let odds = q / (1.0 - q);
    let mode = (((n + 1) as f64 * q) as u64).min(n);
    // Shares relative to the mode's, outwards until they vanish: no factorial, about ten deviations each way.
    let (mut up, mut down) = (vec![1.0], Vec::new());
    let (mut k, mut share) = (mode, 1.0);
    while k < n && share > NEGLIGIBLE {
        share *= (n - k) as f64 / (k + 1) as f64 * odds;
        k += 1;
        up.push(share);
    }
    (k, share) = (mode, 1.0);
    while k > 0 && share > NEGLIGIBLE {
        share *= k as f64 / (n - k + 1) as f64 / odds;
        k -= 1;
        down.push(share);
    }
    let all: f64 = up.iter().chain(&down).sum();
    let tail = MISS / 2.0 * all;
    let few = |shares: &mut dyn Iterator<Item = &f64>| {
        let mut sum = 0.0;
        let within = |share: &&f64| {
            sum += **share;
            sum <= tail
        };
        shares.take_while(within).count() as u64
    };
    let lowest = mode - down.len() as u64;
    let highest = mode + up.len() as u64 - 1;
    let low = lowest + few(&mut down.iter().rev().chain(&up));
    let high = highest + 1 - few(&mut up.iter().rev().chain(&down));
    ((low >= 1).then_some(low), (high <= n).then_some(high))
}

/// The two-sided quantile of Student's t for a probability of `miss`; `freedom` is at least 1.
pub fn student(freedom: usize, miss: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while exceeded(freedom, high) > miss {
        (low, high) = (high, high * 2.0);
    }
    // Sixty bisections exhaust the precision of an f64.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if exceeded(freedom, middle) > miss { low = middle } else { high = middle }
    }
    high
}

/// Probability that Student's t lies further from 0 than `t`: Abramowitz and Stegun 26.7.3 and 26.7.4.
fn exceeded(freedom: usize, t: f64) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let (mut term, mut sum) = (if odd { cos } else { 1.0 }, 0.0);
    let mut k = if odd { 3 } else { 2 };
    while k <= freedom {
        sum += term;
        term *= cos * cos * (k - 1) as f64 / k as f64;
        k += 2;
    }
    let inside = if odd { (angle + sin * sum) / std::f64::consts::FRAC_PI_2 } else { sin * sum };
    1.0 - inside
}

/// True if two shares differ by more than chance: their intervals (Wilson 1927) are disjoint.
pub fn shares_differ(a: (u64, u64), b: (u64, u64)) -> bool {
    let ((low_a, high_a), (low_b, high_b)) = (wilson(a), wilson(b));
    low_a > high_b || low_b > high_a
}

fn wilson((count, of): (u64, u64)) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, z2) = (of as f64, DEVIATIONS * DEVIATIONS);
    let share = count as f64 / n;
    let middle = share + z2 / (2.0 * n);
    let half = DEVIATIONS * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    ((middle - half) / (1.0 + z2 / n), (middle + half) / (1.0 + z2 / n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_binomial() {
        // Compared with exact sums of binomial shares in rational numbers.
        let table = [
            (0, 0.5, (None, None)),
            (1, 0.5, (None, None)),
            (8, 0.5, (None, None)),
            (9, 0.5, (Some(1), Some(9))),
            (20, 0.5, (Some(4), Some(17))),
            (100, 0.5, (Some(36), Some(65))),
            (100, 0.99, (Some(95), None)),
            (596, 0.99, (Some(582), None)),
            (597, 0.99, (Some(583), Some(597))),
        ];
        for (n, q, expected) in table {
            assert_eq!(ranks(n, q), expected, "n={n} q={q}");
        }
        assert_eq!((least_journeys(0.5), least_journeys(0.99)), (9, 597));
        // Large n: the normal distribution.
        let (low, high) = ranks(1_000_000, 0.5);
        assert!(low.unwrap().abs_diff(500_000 - 1_403) <= 2 && high.unwrap().abs_diff(500_000 + 1_404) <= 2);
    }

    #[test]
    fn student_is_as_tables_have_it() {
        let table = [
            (1, 0.01, 63.657),
            (2, 0.01, 9.925),
            (3, 0.01, 5.841),
            (4, 0.01, 4.604),
            (7, 0.01, 3.499),
            (8, 0.05, 2.306),
            (8, 0.001, 5.041),
            (29, 0.001, 3.659),
            (120, 0.01, 2.617),
        ];
        for (freedom, miss, t) in table {
            assert!((student(freedom, miss) - t).abs() < 6e-4, "{freedom} {miss}: {}", student(freedom, miss));
        }
    }

    #[test]
    fn shares_differ_beyond_chance() {
        for (a, b, differs) in [
            ((0, 0), (5, 5), false),
            ((0, 1000), (0, 1000), false),
            ((0, 1000), (3, 1000), false),
            ((0, 1000), (30, 1000), true),
            ((500, 1000), (540, 1000), false),
            ((500, 1000), (640, 1000), true),
            ((1000, 1000), (970, 1000), true),
        ] {
            assert_eq!(shares_differ(a, b), differs, "{a:?} {b:?}");
        }
    }
}
