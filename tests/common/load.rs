//! A datagram load within a host at a given rate.
#![allow(dead_code)] // each test file uses a part

use super::hosts::in_namespace;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Flows of the load.
const FLOWS: usize = 16;

/// Datagrams that are sent and read in turn, until drop.
pub struct Load {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Load {
    /// Starts at this rate, as far as the machine allows.
    pub fn start(namespace: &str, a_second: u64) -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let load = (stop.clone(), sent.clone());
        let pairs: Vec<(UdpSocket, UdpSocket)> = in_namespace(namespace, || {
            (0..FLOWS)
                .map(|_| {
                    let [own, peer] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
                    own.connect(peer.local_addr().expect("bound")).expect("a peer");
                    (own, peer)
                })
                .collect()
        });
        let thread = std::thread::spawn(move || {
            let (stop, sent) = load;
            let began = Instant::now();
            for ((own, peer), since) in pairs.iter().cycle().zip(1_u64..) {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                own.send(&[7; 100]).expect("sent");
                peer.recv(&mut [0; 200]).expect("read");
                sent.fetch_add(1, Ordering::Relaxed);
                let due = Duration::from_secs_f64(since as f64 / a_second as f64);
                let ahead = due.saturating_sub(began.elapsed());
                if ahead > Duration::from_millis(1) {
                    std::thread::sleep(ahead.min(Duration::from_millis(100)));
                }
            }
        });
        Load { stop, sent, thread: Some(thread) }
    }

    /// Number of datagrams so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ends the load; returns the number of datagrams.
    pub fn end(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().expect("once").join().expect("no panic");
        self.sent()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
