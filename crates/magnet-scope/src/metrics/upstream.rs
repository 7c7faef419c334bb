//! A queried mon or supermon with a persistent connection. A failed one is reported as down and retried.

use magscope_sensor::supermon::{Mask, Node, parse};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Timeout of an answer and of a connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// Maximum size of an answer, bytes: some thousands of nodes.
const LONGEST_ANSWER: u64 = 16 << 20;

/// A queried mon.
pub struct Upstream {
    address: String,
    line: Mutex<Line>,
}

/// State of the connection.
struct Line {
    link: Option<Link>,
    /// Names of the last reported nodes.
    names: Vec<String>,
    /// Start of the outage, nanoseconds UTC, and the reason.
    down: (u64, String),
}

/// A working connection.
struct Link {
    stream: BufReader<TcpStream>,
    /// The current mask there.
    mask: Mask,
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

impl Upstream {
    /// A mon at `HOST:PORT`.
    pub fn new(address: String) -> Self {
        let down = (now_ns(), "it has not been reached yet".to_owned());
        Upstream { address, line: Mutex::new(Line { link: None, names: Vec::new(), down }) }
    }

    /// Reconnects whenever the connection is lost.
    pub async fn keep_connected(&self) {
        loop {
            if self.line.lock().await.link.is_none() {
                // Without the lock: concurrent requests see the node as down and do not wait.
                let tried = tokio::time::timeout(PATIENCE, Link::open(&self.address)).await;
                let mut line = self.line.lock().await;
                match tried {
                    Ok(Ok(link)) => line.link = Some(link),
                    Ok(Err(because)) => line.down.1 = because,
                    Err(_) => "it does not answer".clone_into(&mut line.down.1),
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Current values of its nodes.
    pub async fn read(&self, mask: &Mask) -> Vec<Node> {
        let mut line = self.line.lock().await;
        // Reused only after a timely answer: a late one would be mistaken for the next.
        if let Some(mut link) = line.link.take() {
            let answered = tokio::time::timeout(PATIENCE, link.ask(mask)).await;
            let answered = answered.unwrap_or_else(|_| Err("it does not answer".to_owned()));
            match answered {
                Ok(nodes) => {
                    line.link = Some(link);
                    line.names = nodes.iter().map(|node| node.name.clone()).collect();
                    return nodes;
                }
                Err(because) => line.down = (now_ns(), because),
            }
        }
        let (since, because) = &line.down;
        if line.names.is_empty() {
            return vec![Node::down(&self.address, *since, because)];
        }
        line.names.iter().map(|name| Node::down(name, *since, because)).collect()
    }
}

impl Link {
    /// A connection that has answered: the kernel accepts connections for a hanging program, too.
    async fn open(address: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut link = Link { stream: BufReader::new(stream), mask: Mask::default() };
        link.ask(&Mask::default()).await?;
        Ok(link)
    }

    async fn ask(&mut self, mask: &Mask) -> Result<Vec<Node>, String> {
        let mut command = String::new();
        let changed = self.mask != *mask;
        if changed {
            command = mask.command() + "\n";
            self.mask = mask.clone();
        }
        command += "s\n";
        self.stream.write_all(command.as_bytes()).await.map_err(|error| error.to_string())?;
        if changed {
            // Accepted or refused: a refusal has additional lines.
            self.line().await?;
        }
        parse(&self.line().await?).map_err(|bad| bad.to_string())
    }

    async fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        let mut limited = (&mut self.stream).take(LONGEST_ANSWER);
        limited.read_until(b'\n', &mut line).await.map_err(|error| error.to_string())?;
        if !line.ends_with(b"\n") {
            let ended = line.len() < LONGEST_ANSWER as usize;
            return Err(if ended { "it has ended".to_owned() } else { "its answer is too long".to_owned() });
        }
        String::from_utf8(line).map_err(|_| "its answer is no text".to_owned())
    }
}
