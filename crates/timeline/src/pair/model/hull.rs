//! The convex hull of upper bounds, from below: those that can touch a line below all of them.

/// A bound at a place in the window, both in nanoseconds from the window's origin and from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vertex {
    /// Less than 2⁴¹, so that no product below leaves an `i128`.
    pub(super) x: i64,
    pub(super) y: i64,
}

/// Maximum number of vertices of a hull; beyond it every second one is removed, which only widens the bounds.
/// Bounds of real packets have tens.
const MOST: usize = 512;

/// Vertices in order of `x`, the slopes between them increasing. A new one in order of `x` costs amortised O(1), any other
/// a binary search.
#[derive(Clone, Debug, Default)]
pub(super) struct Hull {
    vertices: Vec<Vertex>,
}

/// Positive if `c` lies above the line from `a` through `b`.
fn turn(a: Vertex, b: Vertex, c: Vertex) -> i128 {
    let ab = (i128::from(b.x) - i128::from(a.x), i128::from(b.y) - i128::from(a.y));
    let ac = (i128::from(c.x) - i128::from(a.x), i128::from(c.y) - i128::from(a.y));
    ab.0 * ac.1 - ab.1 * ac.0
}

impl Hull {
    pub(super) fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }

    /// The vertices on either side of a place; one at the place itself is the left one.
    pub(super) fn around(&self, x: i64) -> (Option<Vertex>, Option<Vertex>) {
        let next = self.vertices.partition_point(|v| v.x <= x);
        let left = next.checked_sub(1).and_then(|i| self.vertices.get(i));
        (left.copied(), self.vertices.get(next).copied())
    }

    /// True if every line under the hull lies under this bound too.
    pub(super) fn implies(&self, new: Vertex) -> bool {
        match self.around(new.x) {
            (Some(left), _) if left.x == new.x => left.y <= new.y,
            (Some(left), Some(right)) => turn(left, right, new) >= 0,
            _ => false,
        }
    }

    /// Adds a vertex that is not implied.
    pub(super) fn insert(&mut self, new: Vertex) {
        let mut from = self.vertices.partition_point(|v| v.x < new.x);
        let mut to = self.vertices.partition_point(|v| v.x <= new.x);
        while from >= 2 && turn(self.vertices[from - 2], self.vertices[from - 1], new) <= 0 {
            from -= 1;
        }
        while to + 1 < self.vertices.len() && turn(new, self.vertices[to], self.vertices[to + 1]) <= 0 {
            to += 1;
        }
        self.vertices.splice(from..to, [new]);
        if self.vertices.len() > MOST {
            // The ends stay: later slopes depend on them.
            let last = self.vertices.len() - 1;
            let mut at = 0;
            self.vertices.retain(|_| {
                at += 1;
                (at - 1) % 2 == 0 || at - 1 == last
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_insertion_does_not_matter() {
        let points: Vec<Vertex> = (0..50)
            .map(|i: i64| Vertex {
                x: i * 37 % 50 * 1_000,
                y: (i * 37 % 50 - 20).pow(2) * 100 + i * 7919 % 5_000,
            })
            .collect();
        let hull = |points: &mut dyn Iterator<Item = &Vertex>| {
            let mut hull = Hull::default();
            points.for_each(|p| {
                if !hull.implies(*p) {
                    hull.insert(*p);
                }
            });
            hull.vertices
        };
        let one = hull(&mut points.iter());
        assert_eq!(one, hull(&mut points.iter().rev()));
        assert!(one.windows(3).all(|w| turn(w[0], w[1], w[2]) > 0));
        // Nothing lies under it.
        let hull = Hull { vertices: one };
        assert!(points.iter().all(|p| hull.implies(*p)));
    }
}
