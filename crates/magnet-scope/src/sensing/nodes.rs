//! What a mon or a supermon knows of nodes: its own, or those that it asks.

use super::board::Board;
use super::proc::Proc;
use super::upstream::Upstream;
use futures::future::join_all;
use magscope_sensor::supermon::{Mask, Node, sensed, tell_apart};
use std::sync::{Arc, Mutex, PoisonError};

/// Where nodes are read.
pub enum Nodes {
    /// This host's own, from `/proc` and, where a capture runs, from its snapshots.
    Own(Own),
    /// Others', each asked when somebody asks here.
    Others(Vec<Upstream>),
}

/// This host.
pub struct Own {
    name: String,
    files: Mutex<Proc>,
    board: Option<Arc<Board>>,
}

impl Own {
    /// With its name, and a capture's board if there is one. To be called in the network namespace that is meant.
    pub fn new(name: String, board: Option<Arc<Board>>) -> Self {
        Own { name, files: Mutex::new(Proc::open()), board }
    }

    fn read(&self, mask: &Mask) -> Node {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut categories = files.categories(mask);
        drop(files);
        if let Some(board) = &self.board {
            let newest = board.newest();
            if let Some(host) = newest.hosts.first() {
                categories.extend(sensed(host, &newest.own));
            }
        }
        Node { name: self.name.clone(), categories }
    }
}

impl Nodes {
    /// Begins to keep up connections, where there are any. To be called where tasks can be started.
    pub fn stand(self: Arc<Self>) {
        let Self::Others(others) = &*self else { return };
        for at in 0..others.len() {
            let all = self.clone();
            tokio::spawn(async move {
                if let Self::Others(others) = &*all
                    && let Some(upstream) = others.get(at)
                {
                    upstream.stand().await;
                }
            });
        }
    }

    /// How all of them stand; at least what a mask lets through.
    pub async fn read(&self, mask: &Mask) -> Vec<Node> {
        match self {
            Self::Own(own) => vec![own.read(mask)],
            Self::Others(others) => {
                let all = join_all(others.iter().map(|upstream| upstream.read(mask))).await;
                let mut all: Vec<Node> = all.into_iter().flatten().collect();
                tell_apart(&mut all);
                all
            }
        }
    }
}
