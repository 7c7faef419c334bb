//! Answers Supermon's commands, one line each. Clients, lines and every wait are bounded.

use super::answering::Answering;
use super::nodes::Nodes;
use crate::output;
use anyhow::Result;
use magscope_fleet::{ConnectionLimiter, ConnectionLimits, ConnectionPermit, address_key};
use magscope_sensor::supermon::{Command, Mask, descriptors, masked, refusal, sample};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Maximum number of clients, in total and per address. Beyond it the longest silent one is disconnected.
const CLIENTS: ConnectionLimits = ConnectionLimits { total: 64, each: 32 };
/// First words of a browser's requests.
const HTTP: [&str; 5] = ["GET ", "POST ", "PUT ", "HEAD ", "OPTIONS "];
/// Maximum size of a command, bytes.
const LONGEST_COMMAND: u64 = 16 << 10;
/// Idle timeout of a client.
const SILENCE: Duration = Duration::from_mins(5);
/// Timeout for a client that does not read.
const TAKING: Duration = Duration::from_secs(10);

/// Starts to answer. Called after privileges are dropped.
pub fn answer_lines(listener: TcpListener, nodes: Nodes) -> Result<Answering> {
    output::note(&format!("listening at {}", listener.local_addr()?));
    Answering::start(listener, |listener, ended| serve(listener, Arc::new(nodes), ended))
}

async fn serve(listener: tokio::net::TcpListener, nodes: Arc<Nodes>, mut ended: oneshot::Receiver<()>) {
    let limiter = ConnectionLimiter::default();
    nodes.clone().keep_connected();
    loop {
        let accepted = tokio::select! { came = listener.accept() => came, _ = &mut ended => return };
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors, or the client has disconnected: try again later.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let (mut permit, _) = limiter.admit_or_replace(&address_key(from.ip()), CLIENTS);
        let nodes = nodes.clone();
        tokio::spawn(async move {
            // A connection error concerns only its peer.
            let _ = client(stream, &nodes, &mut permit).await;
        });
    }
}

/// Handles a client's commands until its end.
async fn client(stream: TcpStream, nodes: &Nodes, permit: &mut ConnectionPermit) -> std::io::Result<()> {
    // Answers are written in one piece, and clients wait for them.
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let (mut mask, mut line) = (Mask::default(), Vec::new());
    loop {
        line.clear();
        let mut limited = (&mut stream).take(LONGEST_COMMAND);
        let read = tokio::time::timeout(SILENCE, limited.read_until(b'\n', &mut line));
        let read = tokio::select! {
            read = read => read??,
            () = permit.replaced() => {
                // Fits the socket's buffer, or is useless.
                let _ = stream.get_ref().try_write(format!("{}\n", refusal("too many clients are here")).as_bytes());
                return Ok(());
            }
        };
        if read == 0 || HTTP.iter().any(|method| line.starts_with(method.as_bytes())) {
            // A web page could hide commands in its request.
            return Ok(());
        }
        permit.touch();
        let whole = line.ends_with(b"\n");
        let command = match std::str::from_utf8(&line) {
            Ok(text) if whole => Command::parse(text),
            _ => Err("a command is a line of text, of 16 KiB at most".to_owned()),
        };
        let mut answer = match command {
            Ok(Command::Sample) => {
                let all = nodes.read(&mask).await;
                sample(&all.iter().map(|node| mask.apply(node)).collect::<Vec<_>>())
            }
            Ok(Command::Descriptors) => descriptors(&nodes.read(&Mask::default()).await),
            Ok(Command::Mask(new)) => {
                mask = new;
                masked()
            }
            Err(because) => refusal(&because),
        };
        answer.push('\n');
        tokio::time::timeout(TAKING, stream.write_all(answer.as_bytes())).await??;
        if !whole {
            // The rest belongs to the oversized line.
            return Ok(());
        }
    }
}
