//! Nodes of a mon or a supermon: its own host, or queried ones.

use super::proc::Proc;
use super::upstream::Upstream;
use futures::future::join_all;
use magscope_sensor::LatestSnapshot;
use magscope_sensor::supermon::{self, Mask, Node, make_names_unique};
use std::sync::{Arc, Mutex, PoisonError};

/// Source of nodes.
pub enum Nodes {
    /// This host, from `/proc` and, with a capture, from its snapshots.
    Own(LocalHost),
    /// Other hosts, queried on demand.
    Others(Vec<Upstream>),
}

/// This host.
pub struct LocalHost {
    name: String,
    files: Mutex<Proc>,
    board: Option<Arc<LatestSnapshot>>,
}

impl LocalHost {
    /// A host with this name, and a capture's board if present. Call in the intended network namespace.
    pub fn new(name: String, board: Option<Arc<LatestSnapshot>>) -> Self {
        LocalHost { name, files: Mutex::new(Proc::open()), board }
    }

    fn read(&self, mask: &Mask) -> Node {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut categories = files.categories(mask);
        drop(files);
        if let Some(board) = &self.board {
            let newest = board.newest();
            if let Some(host) = newest.hosts.first() {
                categories.extend(supermon::categories(host, &newest.own));
            }
        }
        Node { name: self.name.clone(), categories }
    }
}

impl Nodes {
    /// Starts to maintain connections, if any. Call within a runtime.
    pub fn keep_connected(self: Arc<Self>) {
        let Self::Others(others) = &*self else { return };
        for at in 0..others.len() {
            let all = self.clone();
            tokio::spawn(async move {
                if let Self::Others(others) = &*all
                    && let Some(upstream) = others.get(at)
                {
                    upstream.keep_connected().await;
                }
            });
        }
    }

    /// Values of all nodes, at least those in the mask.
    pub async fn read(&self, mask: &Mask) -> Vec<Node> {
        match self {
            Self::Own(own) => vec![own.read(mask)],
            Self::Others(others) => {
                let all = join_all(others.iter().map(|upstream| upstream.read(mask))).await;
                let mut all: Vec<Node> = all.into_iter().flatten().collect();
                make_names_unique(&mut all);
                all
            }
        }
    }
}
