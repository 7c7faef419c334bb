//! Many nodes at one instant: the bounds of each pair from the bounds of all pairs.
//!
//! Nodes are vertices; `θ_B − θ_A ≤ U` is an edge A→B of weight `U`, `θ_B − θ_A ≥ L` an edge B→A of weight
//! `−L`. The tightest bound of any two nodes is the shortest path between them. Patt-Shamir and Rajsbaum prove
//! that no method can do better. A cycle of negative weight proves that its nodes contradict each other. UTC is
//! a node like any other.

use super::pair::Bounds;
use thiserror::Error;

/// No edge, no path.
const FAR: i128 = i128::MAX / 4;

/// Bounds that permit no time line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "the bounds between the clocks of nodes {nodes:?} contradict each other by {by_ns} ns; one of these clocks stepped, or packets were matched wrongly"
)]
pub struct Contradiction {
    /// The nodes of a cycle of negative weight, in its order.
    pub nodes: Vec<usize>,
    /// Weight of the cycle, negated: the minimum total error of the bounds.
    pub by_ns: u64,
}

/// Bounds between nodes, numbered from 0.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: usize,
    edges: Vec<(usize, usize, i128)>,
}

impl Graph {
    /// A graph of this number of nodes without bounds.
    pub fn new(nodes: usize) -> Self {
        Graph { nodes, edges: Vec::new() }
    }

    /// Adds bounds of `θ_b − θ_a`. Invalid node numbers are ignored.
    pub fn bound(&mut self, a: usize, b: usize, bounds: &Bounds) {
        if a >= self.nodes || b >= self.nodes {
            return;
        }
        let upper = bounds.upper.map(|upper| (a, b, i128::from(upper)));
        let lower = bounds.lower.map(|lower| (b, a, -i128::from(lower)));
        self.edges.extend([upper, lower].into_iter().flatten());
    }

    /// The tightest bounds of every two nodes: O(n³) in the number of nodes, some milliseconds for a hundred.
    pub fn solve(&self) -> Result<Solution, Contradiction> {
        self.check()?;
        let n = self.nodes;
        let mut paths = vec![FAR; n * n];
        for i in 0..n {
            paths[i * n + i] = 0;
        }
        for (from, to, weight) in &self.edges {
            let path = &mut paths[from * n + to];
            *path = (*path).min(*weight);
        }
        // Floyd and Warshall.
        for by in 0..n {
            let through: Vec<i128> = paths[by * n..(by + 1) * n].to_vec();
            for row in paths.chunks_mut(n) {
                let first = row[by];
                if first == FAR {
                    continue;
                }
                for (path, second) in row.iter_mut().zip(&through) {
                    if *second != FAR {
                        *path = (*path).min(first + second);
                    }
                }
            }
        }
        Ok(Solution { nodes: n, paths })
    }

    /// The same with UTC: bounds of `UTC − θ_i` for some nodes `i`. Bounds that the packets refute are left
    /// out; their nodes are returned for display.
    pub fn solve_with_utc(&self, utc: &[(usize, Bounds)]) -> Result<(Solution, Vec<usize>), Contradiction> {
        self.check()?;
        let mut left: Vec<(usize, Bounds)> = utc.to_vec();
        let mut refuted = Vec::new();
        loop {
            let mut graph = Graph { nodes: self.nodes + 1, edges: self.edges.clone() };
            for (node, bounds) in &left {
                graph.bound(*node, self.nodes, bounds);
            }
            let Err(contradiction) = graph.check() else {
                return graph.solve().map(|solution| (solution, refuted));
            };
            // A cycle passes UTC once, between two of the nodes; either may be the wrong one.
            let cycle = &contradiction.nodes;
            let Some(at) = cycle.iter().position(|node| *node == self.nodes) else { return Err(contradiction) };
            let neighbours = [cycle[(at + cycle.len() - 1) % cycle.len()], cycle[(at + 1) % cycle.len()]];
            let before = left.len();
            left.retain(|(node, _)| !neighbours.contains(node));
            if left.len() == before {
                return Err(contradiction);
            }
            refuted.extend(neighbours);
            refuted.sort_unstable();
            refuted.dedup();
        }
    }

    /// Searches for a cycle of negative weight (Bellman and Ford).
    fn check(&self) -> Result<(), Contradiction> {
        let mut reach = vec![0_i128; self.nodes];
        let mut from_edge: Vec<Option<usize>> = vec![None; self.nodes];
        let mut relaxed = None;
        for _ in 0..self.nodes {
            relaxed = None;
            for (i, (from, to, weight)) in self.edges.iter().enumerate() {
                if reach[*from] + weight < reach[*to] {
                    reach[*to] = reach[*from] + weight;
                    from_edge[*to] = Some(i);
                    relaxed = Some(*to);
                }
            }
            if relaxed.is_none() {
                return Ok(());
            }
        }
        let Some(mut node) = relaxed else { return Ok(()) };
        // After as many steps back as there are nodes, the node is on the cycle.
        let back = |node: usize| from_edge[node].map_or((node, 0), |i| (self.edges[i].0, self.edges[i].2));
        for _ in 0..self.nodes {
            node = back(node).0;
        }
        let (mut nodes, mut sum, mut at) = (Vec::new(), 0, node);
        loop {
            nodes.push(at);
            let (before, weight) = back(at);
            sum += weight;
            at = before;
            if at == node || nodes.len() > self.nodes {
                break;
            }
        }
        nodes.reverse();
        Err(Contradiction { nodes, by_ns: u64::try_from(-sum).unwrap_or(u64::MAX) })
    }
}

/// Bounds of every two nodes, without a contradiction.
#[derive(Clone, Debug)]
pub struct Solution {
    nodes: usize,
    paths: Vec<i128>,
}

impl Solution {
    fn path(&self, from: usize, to: usize) -> Option<i128> {
        if from >= self.nodes || to >= self.nodes {
            return None;
        }
        self.paths.get(from * self.nodes + to).copied().filter(|path| *path != FAR)
    }

    /// The tightest bounds of `θ_b − θ_a`.
    pub fn bounds(&self, a: usize, b: usize) -> Bounds {
        let clip = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Bounds { upper: self.path(a, b).map(clip), lower: self.path(b, a).map(|ns| clip(-ns)) }
    }

    /// `θ_i − θ_reference` for every node: one time line that satisfies all bounds at once. `None` for a node
    /// that is not bounded from both sides.
    pub fn time_line(&self, reference: usize) -> Vec<Option<i64>> {
        let theta = |node| {
            let (out, back) = (self.path(reference, node)?, self.path(node, reference)?);
            i64::try_from((out - back).div_euclid(2)).ok()
        };
        (0..self.nodes).map(theta).collect()
    }
}
